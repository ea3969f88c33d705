"""Find and load the model and the data of a run; name the documents of the pairs it got wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, cast

from sortnet.core import SPLITS, Progress, Queries, Split, Str
from sortnet.errors import DataError, ModelError, SortNetError
from sortnet.files import Record
from sortnet.items.base import words_of
from sortnet.messages import cut, note
from store.plots.figures import PARTS
from store.runs.resuming import find_data

if TYPE_CHECKING:
    import pandas as pd

    from sortnet.rankers.base import Ranker
    from store import Run
    from store.service.judged_queries import Source

_LONGEST_TEXT = 60  # characters of an item's text in its name


@dataclass(frozen=True, eq=False)
class Sources:
    """The model and the data of a run, as far as they still exist.

    Attributes:
        model: the run's model; None if the model was not found.
        data: the queries of each part of the run whose data was found, by the name of the part:
            `train`, `vali` and `test`.
        missing: a line about what was not found, and how to name it; empty if nothing is missing.
        name_of: a function that returns the name of a document from its id. If the document is an
            item of a collection, the name includes the item's text.
    """

    model: Ranker | None = None
    data: Mapping[str, Queries] = field(default_factory=dict)
    missing: str = ""
    name_of: Callable[[str], str] = str


def find_sources(
    run: Run, model: str | None, data: Sequence[str], *, progress: Progress
) -> Sources:
    """Load the run's model and data from the given paths, or from the paths that the run recorded.

    Args:
        run: the run.
        model: the folder of the model. If None, the recorded folder.
        data: files of the run's data. Each part that is in none of the files is read from the
            recorded path.
        progress: gets the name of each step.

    Raises:
        SortNetError: if a given model or file does not belong to the run.
    """
    faults: list[str] = []
    ranker = None
    try:
        progress("loading the model")
        ranker = _load_model(run, model or run.out)
    except SortNetError as error:
        if model is not None:
            raise
        faults.append(f"{error} (--model names its folder)")
    given_path = _path_of_part(run, data)
    queries: dict[str, Queries] = {}
    for part in PARTS:
        progress(f"reading the {PARTS[part]} data")
        try:
            if part in SPLITS:
                queries[part] = read_part(run, part, given_path.get(part), like=ranker)
            elif ranker is not None and run.judge is None:
                queries |= _read_test(run, given_path.get(part), ranker)
        except SortNetError as error:  # also a StoreError if a collection was removed
            faults.append(f"{error} (--data names the file)")
    # The parts of a divided file have the same fault.
    all_faults = "; ".join(dict.fromkeys(faults))
    missing = f"Not in the report is what needs {all_faults}." if faults else ""
    return Sources(ranker, queries, missing, _document_namer(run) if queries else str)


def _read_test(run: Run, path: str | None, ranker: Ranker) -> dict[str, Queries]:
    """Read the test part of the file that a run divided, or the test file beside its training file.

    Returns {"test": queries}, or {} if there is no test part.
    """
    from sortnet.data.read import file_of

    if "test" in run.data:
        return {"test": read_part(run, "test", path, like=ranker)}
    facts = run.data["train"]
    train_path = Path(find_data(facts))
    if not train_path.is_file() or file_of(train_path.parent, "train") != train_path:
        return {}
    test_file = file_of(train_path.parent, "test")
    if test_file is None:
        return {}
    return {"test": _read_file(run, str(test_file), facts, ranker)}


def _document_namer(run: Run) -> Callable[[str], str]:
    """Return a function that names a document by its id, or an item by its id and text."""
    from store.collections.collection import Collection
    from store.service.judged_queries import Source

    source = Source.parse(str(run.data["train"].get("path")))
    if source is None:
        return str
    items = Collection(run.database, source.name).items()
    texts = (cut(words_of(items, number), _LONGEST_TEXT) for number in range(len(items)))
    names = {id: f"{id}: {text}" for id, text in zip(items.ids, texts, strict=True) if text}
    return lambda docid: names.get(docid, docid)


def _load_model(run: Run, folder: str | None) -> Ranker:
    """Load the model in a folder.

    Raises:
        ModelError: if `folder` is None, or the folder has no model or the model of another run.
    """
    from sortnet.rankers.load_ranker import load_ranker

    if folder is None:
        raise ModelError(f"run {run.id} kept no model")
    model = load_ranker(folder)
    run_of_model = model.info.get("run")
    if run_of_model != run.id:
        owner = f"run {run_of_model}" if run_of_model else "no run"
        raise ModelError(f"{folder}: the model of {owner}, not of run {run.id}")
    return model


def _path_of_part(run: Run, paths: Sequence[str]) -> dict[str, str]:
    """Return {part: the path that has the part}, without parts that are in none of the paths.

    Raises:
        DataError: if the content of a path is not the content of any part.
    """
    from sortnet.data import fingerprint

    path_of_part: dict[str, str] = {}
    for path in paths:
        content = fingerprint(path)
        # A file that the run divided has the content of several parts.
        found_parts = [part for part in run.data if run.data[part].get("fingerprint") == content]
        if not found_parts:
            raise DataError(
                f"{path}: neither the training nor the validation data of run {run.id} (other "
                "content)"
            )
        path_of_part |= dict.fromkeys(found_parts, path)
    return path_of_part


def read_part(
    run: Run,
    split: str,
    path: str | None = None,
    *,
    like: Ranker | None = None,
) -> Queries:
    """Read a part of a run's data from the given file, or from the recorded file or collection.

    If a judge was asked in place of grades, the part has the judge's recorded answers.

    Args:
        run: the run.
        split: the part.
        path: the file of the data. If None, the recorded file or collection.
        like: the run's model, whose features are read. If None, all features of the file are read.

    Raises:
        DataError: if the recorded file no longer exists, or its content has changed.
    """
    from sortnet.data import fingerprint
    from sortnet.data.parts import is_part, take_part
    from store.service.judged_queries import Source
    from store.service.run_answers import RunAnswers

    facts = run.data.get(split)
    if facts is None:
        raise DataError(f"run {run.id} has no record of its {PARTS[split]} data")
    if path is None:
        collection = Source.parse(str(facts.get("path")))
        if collection is not None:
            return _judged_part(run, split, collection)
        path = find_data(facts)
        if facts.get("fingerprint") != fingerprint(path):
            raise DataError(f"{path}: its content differs from what the run read")
    queries = _read_file(run, path, facts, like)
    # A file that the run divided has the queries of several parts.
    part = take_part(queries, facts, split) if is_part(facts) else queries
    if run.judge is None:
        return part
    return replace(part, judged=RunAnswers(run).pairs(cast("Split", split)))


def _read_file(run: Run, path: str, facts: Record, like: Ranker | None) -> Queries:
    """Read all queries in a file, with the features and columns that the run read.

    Args:
        run: the run.
        path: the file.
        facts: the recorded facts about the file.
        like: the run's model, whose features are read. If None, all features of the file are read.
    """
    from sortnet.core import NamedColumns
    from sortnet.data import read_queries
    from sortnet.files import is_table

    # A table names its columns; any other file has features by number, up to `n_features`.
    n_features = None if is_table(Path(path)) else facts["n_features"]
    columns = None
    if like is None and "columns" in facts:
        columns = NamedColumns.from_json(facts["columns"], f"run {run.id}")
    return read_queries(
        path,
        n_features=n_features,
        labelled=run.judge is None,  # a judge was asked in place of grades
        columns=columns,
        like=like,
    )


def _judged_part(run: Run, split: str, source: Source) -> Queries:
    """Read a part of a run's data from the judgements of a collection.

    Raises:
        DataError: if the items or the judgements have changed since the run.
    """
    from store.collections.collection import Collection
    from store.service.judged_queries import read_judged

    collection = Collection(run.database, source.name)
    as_before = run.data["vali"].get("held_out")  # versions before 0.4 did not record it
    judged = read_judged(collection, source.events, seed=run.seed, as_before=as_before)
    part: Queries = getattr(judged, split)
    if run.data[split].get("fingerprint") != judged.fingerprint(part):
        raise DataError(f"{source}: its items or judgements differ from what the run read")
    return part


def wrong_pairs(
    run: Run,
    split: Split | None = None,
    *,
    ids: bool = True,
    progress: Progress = lambda text: None,
) -> Iterator[pd.DataFrame]:
    """Yield the stored pairs of a run in frames that fit into memory.

    All pairs of a frame are of the same part. If there are no pairs, a frame without rows is
    yielded.

    Args:
        run: the run.
        split: the part whose pairs are yielded. If None, the pairs of all parts.
        ids: whether to add the documents' ids, if the run's data still exists and has ids.
        progress: gets the name of each step.
    """
    docids: dict[Split, Str] = {}
    parts: tuple[Split, ...] = (split,) if split else SPLITS
    for part in parts if ids else ():
        progress(f"reading the {PARTS[part]} data")
        try:
            ids_of_part = read_part(run, part).docids
        except SortNetError as error:
            note(f"no ids for {PARTS[part]} documents: {error}")
        else:
            if ids_of_part is not None:
                docids[part] = ids_of_part
    frames = run.iter_pairs(split=split)
    first_frame = next(frames, None)
    if first_frame is None:
        first_frame = run.pairs_frame(split)  # without rows
    return (_with_ids(frame, docids) for frame in chain([first_frame], frames))


def _with_ids(pairs: pd.DataFrame, docids: Mapping[Split, Str]) -> pd.DataFrame:
    """Add the columns `winner_id` and `loser_id`, the ids of both documents, to pairs of one part.

    Args:
        pairs: the pairs, with the columns `winner` and `loser`, the documents' indices in the part.
        docids: the ids of each part's documents. If no part has ids, the pairs stay as they are; if
            only another part has ids, the ids of the pairs are empty.
    """
    import pandas as pd

    if not docids:
        return pairs
    ids_of_part = docids.get(pairs["split"].iloc[0]) if len(pairs) else None
    columns = {}
    for column in ("winner", "loser"):
        ids = "" if ids_of_part is None else ids_of_part[pairs[column]]
        columns[f"{column}_id"] = pd.Series(ids, pairs.index, dtype="str")
    return pairs.assign(**columns)
