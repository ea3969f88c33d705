"""List the pairs that a run got wrong, with the ids of their documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

import pandas as pd

from sortnet.core import SPLITS, Progress, Split, Str
from sortnet.errors import SortNetError
from sortnet.messages import note
from store import Run
from store.plots.figures import PARTS
from store.report.iteration_table import LABELLING, quality_of
from store.report.sources import read_part


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

    Raises:
        SortNetError: if the run is a labelling, which has answers and no pairs.
    """
    if quality_of(run.config) == LABELLING:
        raise SortNetError(
            f"run {run.id} ({run.command}) has answers and no pairs: sortnet judgements "
            "export writes them, and sortnet runs lists the trainings"
        )
    docids = _docids(run, split, progress) if ids else {}
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
    if not docids:
        return pairs
    ids_of_part = docids.get(pairs["split"].iloc[0]) if len(pairs) else None
    columns = {}
    for column in ("winner", "loser"):
        ids = "" if ids_of_part is None else ids_of_part[pairs[column]]
        columns[f"{column}_id"] = pd.Series(ids, pairs.index, dtype="str")
    return pairs.assign(**columns)


def _docids(run: Run, split: Split | None, progress: Progress) -> dict[Split, Str]:
    """Read the ids of each part's documents, without parts whose data is gone or has no ids.

    Args:
        run: the run.
        split: the part to read. If None, all parts are read.
        progress: gets the name of each step.
    """
    docids: dict[Split, Str] = {}
    parts = (split,) if split else SPLITS
    for part in parts:
        progress(f"reading the {PARTS[part]} data")
        try:
            ids = read_part(run, part).docids
        except SortNetError as error:
            note(f"no ids for {PARTS[part]} documents: {error}")
        else:
            if ids is not None:
                docids[part] = ids
    return docids
