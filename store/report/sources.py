"""Find the model and the data of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sortnet.core import SPLITS, Progress, Queries, Split
from sortnet.errors import DataError, ModelError, SortNetError, StoreError
from sortnet.items.base import words_of
from sortnet.messages import cut
from store.runs.remembered_data import find_data

if TYPE_CHECKING:
    from sortnet.rankers.base import Ranker
    from store import Run
    from store.service.judged_queries import Source

PARTS: Mapping[Split, str] = {"train": "training", "vali": "validation"}


@dataclass(frozen=True, eq=False)
class Sources:
    """The model and data of a run, as far as they still exist.

    Attributes:
        model: the run's model; None if it was not found.
        data: the run's queries.
        notes: one line for each missing part.
        name_of: function that returns a document's name from its id; an item's name has its text.
    """

    model: Ranker | None = None
    data: Mapping[Split, Queries] = field(default_factory=dict)
    notes: Sequence[str] = ()
    name_of: Callable[[str], str] = str


def find_sources(
    run: Run, model: str | None, data: Sequence[str], *, cache: Path | None, progress: Progress
) -> Sources:
    """Load the run's model and data from the given paths, else from the recorded paths.

    Raises:
        SortNetError: if a given model or file does not belong to the run.
    """
    notes: list[str] = []
    ranker = None
    try:
        progress("loading the model")
        ranker = _load_model(run, model or run.out)
    except SortNetError as error:
        if model is not None:
            raise
        notes.append(f"The documents' order: {error}. give its folder with --model")
    path_of = {split: path for path in data for split in _splits_of(run, path)}
    queries: dict[Split, Queries] = {}
    for split in SPLITS:
        progress(f"reading the {PARTS[split]} data")
        try:
            queries[split] = read_part(run, split, path_of.get(split), cache=cache, like=ranker)
        except (DataError, StoreError) as error:  # a StoreError if a collection was removed
            notes.append(
                f"Documents of {PARTS[split]} queries: {error}. give their file with --data"
            )
    return Sources(ranker, queries, notes, _document_namer(run) if queries else str)


def _document_namer(run: Run) -> Callable[[str], str]:
    """Return a function that names a document by its id, and an item also by its text."""
    from store.collections.collection import Collection
    from store.service.judged_queries import Source

    source = Source.parse(str(run.data["train"].get("path")))
    if source is None:
        return str
    items = Collection(run.database, source.name).items()
    number_of_id = {id: number for number, id in enumerate(items.ids)}

    def name_of(docid: str) -> str:
        text = words_of(items, number_of_id[docid]) if docid in number_of_id else ""
        return f"{docid}: {cut(text, 60)}" if text else docid

    return name_of


def _load_model(run: Run, folder: str | None) -> Ranker:
    """Load the model in a folder; raise a ModelError if it is not the model of the run."""
    from sortnet.rankers.load_ranker import load_ranker

    if folder is None:
        raise ModelError(f"run {run.id} kept no model")
    model = load_ranker(folder)
    run_of_model = model.info.get("run")
    if run_of_model != run.id:
        owner = f"run {run_of_model}" if run_of_model else "no run"
        raise ModelError(f"{folder}: the model of {owner}, not of run {run.id}")
    return model


def _splits_of(run: Run, path: str) -> list[Split]:
    """The parts of the run that were read from this file: both, if the run divided one file."""
    from sortnet.data import fingerprint

    digest = fingerprint(path)
    splits = [split for split in SPLITS if run.data[split].get("fingerprint") == digest]
    if not splits:
        raise DataError(
            f"{path}: neither the training nor the validation data of run {run.id} (other content)"
        )
    return splits


def read_part(
    run: Run,
    split: Split,
    path: str | None = None,
    *,
    cache: Path | None = None,
    like: Ranker | None = None,
) -> Queries:
    """Read a part of a run's data from the given file, or from the recorded file.

    Args:
        like: the run's model, whose features are read; None: read the features of the file.

    Raises:
        DataError: if the recorded file no longer exists, or has changed.
    """
    from sortnet.core import NamedColumns
    from sortnet.data import fingerprint, read_queries
    from sortnet.data.parts import is_part, take_part
    from sortnet.files import is_table
    from store.runs.judge_answers import judged_pairs, targets_of
    from store.service.judged_queries import Source

    facts = run.data.get(split)
    if facts is None:
        raise DataError(f"run {run.id} has no record of its {PARTS[split]} data")
    if path is None:
        source = Source.parse(str(facts.get("path")))
        if source is not None:
            return _judged_part(run, split, source)
        path = find_data(facts)
        if facts.get("fingerprint") != fingerprint(path):
            raise DataError(f"{path}: its content differs from what the run read")
    n_features = None if is_table(Path(path)) else facts["n_features"]
    columns = None
    if like is None and "columns" in facts:
        columns = NamedColumns.from_json(facts["columns"], f"run {run.id}")
    queries = read_queries(
        path,
        n_features=n_features,
        labelled=run.judge is None,  # a judge was asked in place of grades
        columns=columns,
        cache=cache,
        like=like,
    )
    part = take_part(queries, facts, split) if is_part(facts) else queries
    if run.judge is None:
        return part
    return replace(part, judged=judged_pairs(targets_of(run.answers(split))))


def _judged_part(run: Run, split: Split, source: Source) -> Queries:
    """Read a part of a run's data from the judgements of a collection; refuse changed data."""
    from store.collections.collection import Collection
    from store.service.judged_queries import read_judged

    collection = Collection(run.database, source.name)
    as_before = run.data["vali"].get("held_out")  # versions before 0.4 did not record it
    judged = read_judged(collection, source.events, seed=run.seed, as_before=as_before)
    part: Queries = getattr(judged, split)
    if run.data[split].get("fingerprint") != judged.fingerprint(part):
        raise DataError(f"{source}: its items or judgements differ from what the run read")
    return part
