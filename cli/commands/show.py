"""`sortnet show`: show a run and its iterations, or the model in a folder."""

from __future__ import annotations

import click

from cli.inputs.named_run import is_model_folder, run_ids, run_of_folder
from cli.options import Real, is_typed, store_and_json
from cli.printing.models import model_result
from cli.printing.results import print_result
from cli.printing.runs import print_until_it_ends, run_result
from sortnet.errors import StoreError
from store.service.existing_store import open_run


@click.command()
@click.argument("run", metavar="RUN|FOLDER", shell_complete=run_ids)
@click.option(
    "--follow", is_flag=True, help="Show the iterations while the run is running, until it ends."
)
@click.option(
    "--interval",
    type=Real(0.1, 3600),
    default=2.0,
    help="Seconds between two reads of the store (with --follow).",
)
@store_and_json
@click.pass_context
def show(
    ctx: click.Context, run: str, follow: bool, interval: float, store: str | None, as_json: bool
) -> None:
    """Show a run and its iterations. RUN is a run id, a prefix of the id, or `last`.

    FOLDER is a model folder. Its run is shown if the store named in the folder still has the run,
    else the facts about the model in the folder.

    With --follow every trial that chooses settings, and every iteration, is printed as a line when
    it ends; Ctrl-C does not stop the run.

    \b
    Examples:
      sortnet show last
      sortnet show last --follow
      sortnet show 3f2a --follow --interval 10 | tee progress.txt
      sortnet show 3f2a --json
      sortnet show shop-model
    """
    if follow and as_json:
        raise click.UsageError("--follow and --json cannot be combined")
    if run == "last" or not is_model_folder(run):
        _show_run(store, run, follow=follow, interval=interval, as_json=as_json)
        return
    # The folder names the run's store, unless another store is typed.
    typed_store = store if is_typed(ctx, "store") else None
    try:
        run_id, store_of_run = run_of_folder(run, typed_store)
        _show_run(store_of_run, run_id, follow=follow, interval=interval, as_json=as_json)
    except StoreError as error:
        if follow:
            raise  # only a run can be followed
        notes = [f"the run is not shown: {error}"]
        print_result(model_result(run, notes), as_json=as_json)


def _show_run(store: str | None, run: str, *, follow: bool, interval: float, as_json: bool) -> None:
    """Print a run of a store, or follow the run until it ends."""
    with open_run(store, run) as stored:
        if follow:
            print_until_it_ends(stored, interval)
        else:
            print_result(run_result(stored), as_json=as_json)
