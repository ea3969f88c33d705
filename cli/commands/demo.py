"""`sortnet demo`: learn to sort handwritten digits by their value."""

from __future__ import annotations

import click

from cli.console import progress
from cli.options import SEED, Whole, command_line, is_typed, store_and_json
from cli.printing.results import print_result
from cli.signals import signals_as_ctrl_c


@click.command()
@click.option(
    "--out",
    "-o",
    default="demo",
    metavar="DIR",
    help="Output folder; a previous demo in it is replaced.",
)
@click.option("--seed", type=SEED, default=0, help="Random seed.")
@click.option("--max-iter", type=Whole(1), default=10, help="Maximum number of iterations.")
@store_and_json
@click.pass_context
@signals_as_ctrl_c()
def demo(
    ctx: click.Context, /, out: str, seed: int, max_iter: int, store: str | None, as_json: bool
) -> None:  # fmt: skip
    """Train on handwritten digits, in ten iterations and well under a minute.

    The images are the digits that scikit-learn ships, in queries of 36. The comparator gets the
    pixels and learns from the pairs that its sorts compared; in each iteration more of them are
    in the right order. It is evaluated on images that no training query holds. Writes a model, a
    picture of a query before training, after each iteration and after training, and all pairs.

    \b
    Examples:
      sortnet demo
      sortnet demo --seed 7 --out demo7 --json
    """
    from cli.training.printed_demo import PrintedDemo, demo_result
    from store.database.engine import without_passwords
    from store.training.digits_demo import run_demo

    with progress() as status:
        watcher = PrintedDemo(status, as_json=as_json)
        command = command_line(ctx)
        digits_demo = run_demo(
            out, seed=seed, max_iter=max_iter, store=store, watcher=watcher, command=command
        )
    # The commands that the result proposes need --store only if it was typed here.
    typed_store: str | None = None
    if store and is_typed(ctx, "store"):
        typed_store = without_passwords(store)
    print_result(demo_result(digits_demo, typed_store), as_json=as_json)
