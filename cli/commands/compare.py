"""`sortnet compare`: which of two documents goes first, and by what margin."""

from __future__ import annotations

from pathlib import Path

import click

from cli.inputs.model_and_data import load_pair, pair_arguments
from cli.options import json_option
from cli.output import print_json, print_table, progress, put
from cli.printing.explanations import both, name_of, put_first


@click.command(short_help="Compare two documents of a query.")
@pair_arguments
@json_option
def compare(
    model: str, data: str, a: str, b: str, qid: str | None, cache: Path | None, as_json: bool
) -> None:
    """Compare two documents of a query in DATA by MODEL: which one goes first, with what margin.

    A and B are document ids. A whole number that is not a document id is a row of the data, counted
    from 0 as in `sortnet rank`; row:12 is always a row. For a model of items, DATA is a file or
    folder of items.

    \b
    Examples:
      sortnet compare model test.txt GX000-00-0000000 GX004-93-7097963
      sortnet compare model test.csv 12 15
    """
    with progress() as status:
        loaded, one, i, j = load_pair(model, data, (a, b), qid, cache, status)
        margin = float(loaded.margins(one, [i], [j])[0])
        answer = {**both(loaded, one, i, j, margin), "members": loaded.votes(one, i, j)}
    if as_json:
        print_json(answer)
        return
    put_first(answer)
    put(f"margins of {name_of(answer['a'])} over {name_of(answer['b'])}:")
    votes = answer["members"]
    rows = [
        [str(k), *(f"{value:.4g}" for value in vote.values())] for k, vote in enumerate(votes, 1)
    ]
    print_table(["member", *votes[0]], rows)
