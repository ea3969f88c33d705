"""Find a run by its model folder, which may be given in place of the run's id."""

from __future__ import annotations

from pathlib import Path

from sortnet.errors import StoreError


def is_model_folder(name: str) -> bool:
    """Whether `name` is the path of a folder that has a model or the record of a run."""
    return any(Path(name, file).is_file() for file in ("model.json", "run.json"))


def run_of_folder(folder: str, store: str | None) -> tuple[str, str | None]:
    """Return the id of the run that made a folder's model, and the URL of the run's store.

    Args:
        folder: the model folder.
        store: the store that has the run. If None, the store that the folder's record names, and
            without a record the default store of the user.

    Raises:
        StoreError: if no run made the model.
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
    return str(run_id), url
