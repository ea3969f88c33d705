"""List the pairs that a run got wrong, with the ids of their documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

import pandas as pd

from sortnet.core import SPLITS, Progress, Split, Str
from sortnet.errors import SortNetError
from sortnet.messages import note
from store import Run
from store.report.iteration_table import LABELLING, quality_of
from store.report.sources import PARTS, read_part


def wrong_pairs(
    run: Run,
    split: Split | None = None,
    *,
    ids: bool = True,
    progress: Progress = lambda text: None,
) -> Iterator[pd.DataFrame]:
    """Yield the stored pairs of a run in frames; each frame fits into memory and has one part.

    Without pairs, one frame without rows is yielded.

    Args:
        split: the part; None: all parts.
        ids: whether to add the documents' ids, where the run's data still exists and has ids.

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
    first = next(frames, None)
    if first is None:
        first = run.pairs_frame(split)  # without rows
    return (_with_ids(frame, docids) for frame in chain([first], frames))


def _with_ids(pairs: pd.DataFrame, docids: Mapping[Split, Str]) -> pd.DataFrame:
    """Add the ids of both documents to pairs of one part; empty ids if the part has none."""
    if not docids:
        return pairs
    docids_of_part = docids.get(pairs["split"].iloc[0]) if len(pairs) else None
    columns = {}
    for side in ("winner", "loser"):
        ids = "" if docids_of_part is None else docids_of_part[pairs[side]]
        columns[f"{side}_id"] = pd.Series(ids, pairs.index, dtype="str")
    return pairs.assign(**columns)


def _docids(run: Run, split: Split | None, progress: Progress) -> dict[Split, Str]:
    """Return {part: ids of its documents}, without parts whose data is gone or has no ids."""
    docids: dict[Split, Str] = {}
    for part in [split] if split else SPLITS:
        progress(f"reading the {PARTS[part]} data")
        try:
            ids = read_part(run, part).docids
        except SortNetError as error:
            note(f"no ids for {PARTS[part]} documents: {error}")
        else:
            if ids is not None:
                docids[part] = ids
    return docids
