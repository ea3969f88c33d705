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
        data: its queries.
        notes: one line for each missing part.
        name_of: what to call the document of an id: an item of a collection with its text.
    """

    model: Ranker | None = None
    data: Mapping[Split, Queries] = field(default_factory=dict)
    notes: Sequence[str] = ()
    name_of: Callable[[str], str] = str


def find_sources(
    run: Run, model: str | None, data: Sequence[str], *, cache: Path | None, progress: Progress
) -> Sources:
    """Load the run's model and data from the given paths, else from the recorded ones.

    Raises:
        SortNetError: if a given path is not the run's.
    """
    notes: list[str] = []
    loaded = None
    try:
        progress("loading the model")
        loaded = _model(run, model or run.out)
    except SortNetError as error:
        if model is not None:
            raise
        notes.append(f"The documents' order: {error}. give its folder with --model")
    named = {split: path for path in data for split in _splits_of(run, path)}
    queries: dict[Split, Queries] = {}
    for split in SPLITS:
        progress(f"reading the {PARTS[split]} data")
        try:
            queries[split] = read_part(run, split, named.get(split), cache=cache, like=loaded)
        except (DataError, StoreError) as error:  # also of a collection that was removed
            notes.append(
                f"Documents of {PARTS[split]} queries: {error}. give their file with --data"
            )
    return Sources(loaded, queries, notes, _namer(run) if queries else str)


def _namer(run: Run) -> Callable[[str], str]:
    """What gives the id of a collection's item with the start of its text; of others the id."""
    from store.collections.collection import Collection
    from store.service.judged_queries import Source

    source = Source.parse(str(run.data["train"].get("path")))
    if source is None:
        return str
    items = Collection(run.database, source.name).items()
    number = {id: k for k, id in enumerate(items.ids)}

    def name_of(docid: str) -> str:
        words = words_of(items, number[docid]) if docid in number else ""
        return f"{docid}: {cut(words, 60)}" if words else docid

    return name_of


def _model(run: Run, folder: str | None) -> Ranker:
    from sortnet.rankers.load_ranker import load_ranker

    if folder is None:
        raise ModelError(f"run {run.id} kept no model")
    model = load_ranker(folder)
    if model.info.get("run") != run.id:
        found = model.info.get("run")
        raise ModelError(f"{folder}: the model of {f'run {found}' if found else 'no run'}, "
                         f"not of run {run.id}")  # fmt: skip
    return model


def _splits_of(run: Run, path: str) -> list[Split]:
    """The parts of the run whose file has this content: both where one file was divided."""
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
    """Read a part of the run's data: the given file, or the recorded one if unchanged.

    Args:
        like: the run's model, whose features the documents have; None: those of the file itself.

    Raises:
        DataError: if it no longer exists, or has changed.
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
        if (source := Source.parse(str(facts.get("path")))) is not None:
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
        labelled=run.judge is None,  # who was asked in place of grades
        columns=columns,
        cache=cache,
        like=like,
    )
    part = take_part(queries, facts, split) if is_part(facts) else queries
    if run.judge is None:
        return part
    return replace(part, judged=judged_pairs(targets_of(run.answers(split))))


def _judged_part(run: Run, split: Split, source: Source) -> Queries:
    from store.collections.collection import Collection
    from store.service.judged_queries import read_judged

    collection = Collection(run.database, source.name)
    as_before = run.data["vali"].get("held_out")  # versions before 0.4 did not record it
    found = read_judged(collection, source.events, seed=run.seed, as_before=as_before)
    part: Queries = getattr(found, split)
    if run.data[split].get("fingerprint") != found.fingerprint(part):
        raise DataError(f"{source}: its items or judgements differ from what the run read")
    return part
