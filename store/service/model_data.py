"""Data for a model: read with the features and the columns that the model was trained with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sortnet.core import NamedColumns, Progress, Queries
from sortnet.data import fingerprint, read_queries
from sortnet.errors import DataError, ModelError
from sortnet.files import check_fields
from sortnet.messages import note

if TYPE_CHECKING:
    from sortnet.rankers.base import Ranker


@dataclass(frozen=True)
class DataFile:
    """A file of queries, or a file or folder of items, for a model.

    Attributes:
        path: the file or folder.
        columns: the names of columns; where they leave one open, the model remembers it.
        part: of the one file that the model was trained on; None: all queries.
        cache: folder of parsed data; None: nothing is cached.
    """

    path: str
    columns: NamedColumns
    part: str | None = None
    cache: Path | None = None

    def read(self, model: Ranker, progress: Progress, *, labelled: bool) -> Queries:
        """The queries, or the items, with the features of the model.

        Args:
            labelled: whether every document needs a grade.

        Raises:
            SortNetError: if the data cannot be used, or has no such part.
        """
        facts = None if self.part is None else _facts_of_part(self.path, model, self.part)
        progress(f"reading {self.path}")
        queries = read_queries(
            self.path,
            n_features=model.n_features,
            labelled=labelled,
            columns=self.columns,
            cache=self.cache,
            like=model,
            progress=progress,
        )
        if self.part is not None and facts is not None:
            from sortnet.data.parts import take_part

            return take_part(queries, facts, self.part)
        if labelled and _is_divided_file(self.path, model):
            note(
                f"{self.path} is the file that the model was trained on, all its parts: "
                "--part test takes what it has not seen"
            )
        return queries


def _facts_of_part(path: str, model: Ranker, part: str) -> dict[str, Any]:
    """Facts about a part of the one file that the model was trained on.

    Raises:
        SortNetError: if it was not trained on one file, or the file has another content.
    """
    facts = _recorded(model, part)
    if facts is None:
        raise ModelError("--part: the model was not trained on one file that train divided")
    kind = {"queries": list[str]} if "queries" in facts else {"rows": list[int]}
    check_fields(facts, {"path": str, "fingerprint": str, **kind}, f"model.json, {part} part")
    if fingerprint(path) != facts["fingerprint"]:
        raise DataError(
            f"{path}: its content differs from that of {facts['path']}, which was divided for "
            "the training: give the unchanged file, or leave out --part"
        )
    return facts


def _recorded(model: Ranker, part: str) -> dict[str, Any] | None:
    from sortnet.data.parts import is_part

    recorded = model.info.get("data")
    facts = recorded.get(part) if isinstance(recorded, dict) else None
    return facts if isinstance(facts, dict) and is_part(facts) else None


def _is_divided_file(path: str, model: Ranker) -> bool:
    facts = _recorded(model, "test")
    return facts is not None and fingerprint(path) == facts.get("fingerprint")
