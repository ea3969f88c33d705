"""`sortnet pairs`: write the pairs that a run got wrong to a file."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import click

from cli.inputs.run_ids import run_ids
from cli.options import output_option, store_option
from cli.output import progress, say
from sortnet.core import SPLITS, Split, Str
from sortnet.errors import SortNetError
from store.report.iteration_table import LABELLING, quality_of
from store.service.existing_store import open_run

if TYPE_CHECKING:
    from store import Run


@click.command()
@click.argument("run", shell_complete=run_ids)
@click.option("--format", "form", type=click.Choice(["csv", "jsonl", "parquet"]), default="csv")
@output_option("--output", "-o", default="-", help="Output file; -: stdout.")
@click.option("--split", type=click.Choice(["train", "vali", "all"]), default="all")
@click.option(
    "--ids/--no-ids", default=True, help="Add the documents' ids, if the run's data still exists."
)
@store_option
def pairs(run: str, form: str, output: str, split: str, ids: bool, store: str | None) -> None:
    """Write every pair that the comparator of a RUN put in the wrong order.

    A pair is a winner and a loser of one query: document numbers and their places in the query,
    from 0. first_iteration is the iteration that first compared the pair to learn from it;
    first_wrong and last_wrong are the first and the last iteration in which the pair was wrong,
    times is the number of such iterations. Empty: no iteration, or a run of an older version, which
    did not count. If the run's data has document ids, winner_id and loser_id contain them.

    \b
    Examples:
      sortnet pairs last | head
      sortnet pairs 3f2a --format parquet --output pairs.parquet --split train
    """
    from cli.printing.pair_files import with_ids, write_pairs

    only: Split | None = None if split == "all" else split  # type: ignore[assignment]
    with open_run(store, run) as found:
        if quality_of(found.config) == LABELLING:
            raise SortNetError(
                f"run {found.id} ({found.command}) has answers and no pairs: sortnet judgements "
                "export writes them, and sortnet runs lists the trainings"
            )
        docids = _docids(found, only) if ids else {}
        frames = found.iter_pairs(split=only)  # each fits into memory
        first = next(frames, None)  # without pairs, a frame without rows
        all_frames = chain([found.pairs_frame(only) if first is None else first], frames)
        write_pairs((with_ids(part, docids) for part in all_frames), form, output)


def _docids(run: Run, only: Split | None) -> dict[Split, Str]:
    """The document ids of each part of a run whose data still exists and has ids."""
    from store.report.sources import PARTS, read_part

    found: dict[Split, Str] = {}
    for split in [only] if only else SPLITS:
        try:
            with progress() as status:
                status(f"reading the {PARTS[split]} data")
                docids = read_part(run, split).docids
        except SortNetError as error:
            say(f"no ids for {PARTS[split]} documents: {error}")
        else:
            if docids is not None:
                found[split] = docids
    return found
