"""Load the model that a command or a training names, and read the data that it is applied to."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sortnet.core import NamedColumns, Progress, Queries
from sortnet.data import fingerprint, read_queries
from sortnet.errors import DataError, ModelError, SortNetError
from sortnet.files import Record, check_fields
from sortnet.messages import note
from sortnet.threads import set_threads
from store.service.existing_store import is_collection

if TYPE_CHECKING:
    from sortnet.rankers.base import Ranker


def load_model(model: str, progress: Progress, threads: int | None = None) -> Ranker:
    """Load the model in a folder, and set the number of threads for ranking.

    Args:
        model: path of the folder.
        threads: number of threads; None: the number stays.

    Raises:
        SortNetError: if the folder has no model, or `model` is the name of a collection.
    """
    from sortnet.rankers.load_ranker import load_ranker

    progress(f"loading {model}")
    set_threads(threads)
    if not Path(model).exists() and is_collection(model):
        argument = shlex.quote(model)
        raise SortNetError(
            f"{model} is a collection, not a model: train one with sortnet train {argument} --out "
            f"MODEL, or rank the collection's own items with sortnet ranking {argument}"
        )
    try:
        return load_ranker(model)
    except ModelError as error:
        if (Path(model) / "model.json").exists():
            raise
        raise ModelError(f"{error} (sortnet runs lists the model of each run)") from None


@dataclass(frozen=True)
class DataFile:
    """A file of queries, or a file or folder of items, that a model is applied to.

    Attributes:
        path: the file or folder.
        columns: names of columns; a name that is not set is taken from the model.
        part: name of a part (`train`, `vali` or `test`), if training divided this file into parts;
            None: all queries.
    """

    path: str
    columns: NamedColumns
    part: str | None = None

    def read(self, model: Ranker, progress: Progress, *, labelled: bool) -> Queries:
        """Read the queries or the items, with the features of the model.

        Args:
            model: the model that the data are read for.
            labelled: whether every document needs a grade.

        Raises:
            SortNetError: if the data cannot be used, or the part cannot be taken from the file.
        """
        if self.part is not None:
            from sortnet.data.parts import take_part

            # Facts that do not fit the file raise an error before the file is read.
            facts_of_part = _facts_of_part(self.path, model, self.part)
            all_queries = self._read_all(model, progress, labelled=labelled)
            return take_part(all_queries, facts_of_part, self.part)
        queries = self._read_all(model, progress, labelled=labelled)
        facts_of_test = _recorded_facts(model, "test") if labelled else None
        if facts_of_test is not None and fingerprint(self.path) == facts_of_test.get("fingerprint"):
            note(
                f"{self.path} is the file that the model was trained on, all its parts: "
                "--part test takes what it has not seen"
            )
        return queries

    def _read_all(self, model: Ranker, progress: Progress, *, labelled: bool) -> Queries:
        """Read the whole file, with the features of the model."""
        progress(f"reading {self.path}")
        return read_queries(
            self.path,
            n_features=model.n_features,
            labelled=labelled,
            columns=self.columns,
            like=model,
            progress=progress,
        )


def _facts_of_part(path: str, model: Ranker, part: str) -> Record:
    """Return what a model has recorded about a part of its training file, such as `test`.

    Raises:
        SortNetError: if the model was not trained on one divided file, or the content of the file
            at `path` has changed since the training.
    """
    facts = _recorded_facts(model, part)
    if facts is None:
        raise ModelError("--part: the model was not trained on one file that train divided")
    # A part is a list of queries, or of rows if the file has a single query.
    types: Record = {"path": str, "fingerprint": str}
    if "queries" in facts:
        types["queries"] = list[str]
    else:
        types["rows"] = list[int]
    check_fields(facts, types, f"model.json, {part} part")
    if fingerprint(path) != facts["fingerprint"]:
        raise DataError(
            f"{path}: its content differs from that of {facts['path']}, which was divided for "
            "the training: give the unchanged file, or leave out --part"
        )
    return facts


def _recorded_facts(model: Ranker, part: str) -> Record | None:
    """Return what model.json records about a part of the training file; None if nothing."""
    from sortnet.data.parts import is_part

    recorded = model.info.get("data")
    if not isinstance(recorded, dict):
        return None
    facts = recorded.get(part)
    if isinstance(facts, dict) and is_part(facts):
        return facts
    return None
