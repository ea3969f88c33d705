"""Model folders in place of the names of runs."""

from __future__ import annotations

from pathlib import Path

from sortnet.errors import StoreError
from store.service.existing_store import open_run


def is_model_folder(name: str) -> bool:
    """Whether there is a folder of that name with a model or the record of a run."""
    return any(Path(name, file).is_file() for file in ("model.json", "run.json"))


def run_of_folder(folder: str, store: str | None) -> tuple[str, str | None]:
    """The id of the run that made a folder's model, and the URL of the store that has the run.

    Args:
        folder: the model folder.
        store: the store to look in; None: the store that the folder names, else the user's own.

    Raises:
        StoreError: if no run made the model, or the store does not have it.
        ModelError: on a damaged folder.
    """
    from sortnet.rankers.load_ranker import load_ranker
    from store.training.run_folder import Folder

    record = Folder(folder).run()
    url = store
    if record is None:
        run_id = load_ranker(folder).info.get("run")
    else:
        run_id = record["run"]
        url = store or record["store"]
    if run_id is None:
        raise StoreError(f"{folder}: no run of a store made this model")
    with open_run(url, str(run_id)) as run:
        return run.id, url
