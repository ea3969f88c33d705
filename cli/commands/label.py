"""`sortnet label`: compare items in a terminal, or let a program or a language model answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from cli.judges.judge_options import (
    batch_options,
    detail_options,
    is_by_file,
    judge_options,
    judges_from_options,
    refuse_batch_options,
    refuse_without_server,
)
from cli.options import GoalType, Whole, store_and_json
from cli.printing.results import print_result
from cli.terminal.labelling_run import LabelOptions, asker_of, label_criteria
from sortnet.errors import SortNetError, UnansweredError
from sortnet.files import Record
from store.service.existing_store import open_collection

if TYPE_CHECKING:
    from sortnet.judges import LanguageModel, Program
    from sortnet.preference.stopping import Goal


@click.command(short_help="Compare pairs of items in a terminal, by a program or a language model.")
@click.argument("name")
@click.option(
    "--as",
    "annotator",
    metavar="ANA",
    help="Annotator; default: the judge's own name, or your login name.",
)
@click.option(
    "--number", type=Whole(1), metavar="N", help="Stop after N answers; criteria share them."
)
@click.option(
    "--until", type=GoalType(), metavar="GOAL", help="Goal in place of ask's: 0.1, or 'top 10'."
)
@click.option("--place", metavar="ID", help="Find the rank of this item among the others.")
@judge_options
@detail_options
@batch_options
@store_and_json
def label(
    name: str,
    annotator: str | None,
    number: int | None,
    until: Goal | None,
    store: str | None,
    as_json: bool,
    **values: Any,
) -> None:
    """Say which of two items of the collection NAME is better, pair by pair, one key per answer.

    Keys: 1 or left, 2 or right, 0 or down for a tie, space to skip, ? for can't say, z to undo, c
    to comment, f to flag, a for all of a cut text, r for the ranking, h for help, q to quit. Each
    answer is stored before the next pair is shown. If stdin is not a terminal, each line is an
    answer: left, right, tie, skip, cant-say, undo or quit, or its key; lines "comment TEXT" and
    "flag" may come before it. Images and sounds are shown by sortnet serve.

    A judge answers in place of a person: a program, a language model on a server that speaks POST
    /v1/chat/completions, or a FILE.toml of either; sortnet settings judge lists the keys of the
    file, and what a program reads and answers. A killed run asks no pair again. Several judges
    answer in turn, each under its own name. The questions of a batch are reserved until its answers
    are read, or it is cancelled.

    \b
    Examples:
      sortnet label essays --as ana
      sortnet label essays --place essay-61
      sortnet label essays --judge 'python judge.py' --number 200
      sortnet label essays --model qwen3 --server http://localhost:8000 --dry-run
      sortnet label essays --judge gpt.toml --write-batch requests.jsonl
      sortnet label essays --read-batch answers.jsonl
    """
    judges = _checked_judges(values, annotator=annotator, number=number)
    if is_by_file(values):
        from cli.terminal.label_by_judge import label_by_file

        result, why_unanswered = label_by_file(
            store, name, values, judges, annotator=annotator, number=number, until=until
        )
        print_result(result, as_json=as_json)
        if why_unanswered:
            raise UnansweredError(f"--read-batch: {why_unanswered}")
        return
    if values["dry_run"]:
        from cli.terminal.label_by_judge import dry_run_of_label

        with open_collection(store, name) as collection:
            print_result(dry_run_of_label(collection, judges, number), as_json=as_json)
        return
    options = LabelOptions(number, until, judges, values["place"])
    asker = asker_of(options, annotator)
    with open_collection(store, name, write=True) as collection:
        labelled = label_criteria(collection, asker, options, as_json=as_json)
    faults = [facts for facts in labelled if facts.get("fault")]
    if faults:
        option = "--judge" if values["judge"] else "--model"
        is_unanswered = all(facts["end"] == "unanswered" for facts in faults)
        error = UnansweredError if is_unanswered else SortNetError
        raise error(f"{option}: {faults[0]['fault']}")


def _checked_judges(
    values: Record, *, annotator: str | None, number: int | None
) -> list[LanguageModel | Program]:
    """Return the judges that the options describe, none for a person.

    Raises:
        click.UsageError: if options cannot be combined.
    """
    if values["place"] is not None and (values["judge"] or values["model"]):
        raise click.UsageError("--place is for people: leave out --judge and --model")
    refuse_batch_options(values, annotator=annotator, number=number)
    judges = judges_from_options(values)
    if len(judges) > 1 and annotator is not None:
        raise click.UsageError("--as is for one judge: several answer under their own names")
    if values["write_batch"] is None:
        for judge in judges:
            refuse_without_server(judge)
    return judges
