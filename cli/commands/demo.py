"""`sortnet demo`: learn to sort handwritten digits by their value."""

from __future__ import annotations

import shlex

import click

from cli.console import progress
from cli.options import SEED, Whole, command_line, is_typed, store_and_json
from cli.printing.results import Result, print_result
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
@click.option(
    "--examples",
    metavar="DIR",
    help="Train nothing: lay out the files that the how-tos use, and say what each is for.",
)
@click.option("--max-iter", type=Whole(1), default=10, help="Maximum number of iterations.")
@store_and_json
@click.pass_context
@signals_as_ctrl_c()
def demo(
    ctx: click.Context,
    /,
    out: str,
    seed: int,
    examples: str | None,
    max_iter: int,
    store: str | None,
    as_json: bool,
) -> None:
    """Train on handwritten digits, in ten iterations and well under a minute.

    The images are the digits that scikit-learn ships, in queries of 36. The comparator gets the
    pixels and learns from the pairs that its sorts compared; in each iteration more of them are
    in the right order. It is evaluated on images that no training query holds. Writes a model, a
    picture of a query before training, after each iteration and after training, and all pairs.

    With --examples it lays out tables, texts, pictures and judges to try the other commands with.

    \b
    Examples:
      sortnet demo
      sortnet demo --seed 7 --out demo7 --json
      sortnet demo --examples examples
    """
    if examples is not None:
        for name in ("out", "seed", "max_iter", "store"):
            if is_typed(ctx, name):
                option = name.replace("_", "-")
                raise click.UsageError(f"--examples trains nothing: leave --{option} out")
        print_result(_laid_out(examples), as_json=as_json)
        return
    from cli.training.printed_demo import PrintedDemo, demo_result
    from store.database.engine import without_passwords
    from store.training.digits_demo import run_demo

    with progress() as status:
        watcher = PrintedDemo(status, as_json=as_json)
        command = command_line(ctx)
        facts = run_demo(
            out, seed=seed, max_iter=max_iter, store=store, watcher=watcher, command=command
        )
    # The commands that the result proposes need --store only if it was typed here.
    typed_store: str | None = None
    if store and is_typed(ctx, "store"):
        typed_store = without_passwords(store)
    print_result(demo_result(facts, typed_store), as_json=as_json)


def _laid_out(folder: str) -> Result:
    """Lay out the examples, and make a result that tells what each is for and how to begin."""
    from cli.examples.lay_out import EXAMPLES, lay_out_examples

    paths = lay_out_examples(folder)
    rows = [example._asdict() for example in EXAMPLES]
    text = [f"{len(paths)} files in {folder}", ""]
    for row in rows:
        text += [row["files"], f"    {row['purpose']}", f"    $ {row['command']}"]
    facts = {"folder": folder, "files": [str(path) for path in paths], "examples": rows}
    return Result("examples", facts, text=text, next=f"cd {shlex.quote(folder)}")
