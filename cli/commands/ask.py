"""`sortnet ask`: show or change the question, goal, deadline and other settings of a collection."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click

from cli.options import GoalType, Whole, files, store_and_json
from cli.printing.labelling import questions_result
from cli.printing.results import print_result
from store.service.existing_store import open_collection
from store.service.questions import change_questions, question_decisions, question_facts


class _Moment(click.ParamType):  # type: ignore[type-arg]
    """The type of a time such as 2026-12-01 or 2026-12-01T18:00, or none.

    The time is in the local time zone unless it names a zone.
    """

    name = "time"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        """Convert a typed time to seconds since 1970; `none` is 0."""
        if value == "none":
            return 0.0
        try:
            seconds = datetime.fromisoformat(value).timestamp()
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is not a time such as 2026-12-01T18:00, or none", param, ctx)
        from sortnet.preference.study import LATEST  # loads scipy, which the help does not need

        if not 0 < seconds <= LATEST:
            last = datetime.fromtimestamp(LATEST).year
            self.fail(f"{value!r} is not from 1970 to {last}; none is no deadline", param, ctx)
        return seconds


@click.command(short_help="Show or change what annotators are asked.")
@click.argument("name")
@click.option("--question", metavar="TEXT", help="Question that is asked of each pair.")
@click.option(
    "--instructions",
    metavar="FILE",
    shell_complete=files,
    help="Markdown that annotators read first, and again with the key h; none: no instructions.",
)
@click.option(
    "--criterion",
    metavar="CRITERION",
    help="Criterion with its own question and ranking; it is added if it is new.",
)
@click.option(
    "--goal",
    type=GoalType(),
    metavar="GOAL",
    help="Stop at this expected share of pairs in the wrong order, or when the 'top 10' is known.",
)
@click.option(
    "--deadline", type=_Moment(), metavar="TIME", help="Ask nothing after TIME; none: no deadline."
)
@click.option(
    "--overlap",
    type=Whole(1),
    metavar="N",
    help="Let N annotators answer each pair, except hold-out pairs, before new pairs are asked.",
)
@click.option(
    "--set-size",
    type=click.IntRange(2, 6),
    metavar="N",
    help="Ask about N items at once, 2 to 6: which is the best, and which the worst.",
)
@click.option("--worst/--no-worst", default=None, help="Ask for the worst, too, of more than two.")
@click.option(
    "--quota",
    "quotas",
    type=(str, Whole(0)),
    multiple=True,
    metavar="ANNOTATOR N",
    help="Ask ANNOTATOR for N answers in all, not counting skips and can't-says; 0: no quota.",
)
@click.option(
    "--kind",
    "kinds",
    type=(str, click.Choice(["person", "model"])),
    multiple=True,
    metavar="ANNOTATOR KIND",
    help="Whether ANNOTATOR is a person or a model; models share errors.",
)
@store_and_json
def ask(name: str, criterion: str | None, store: str | None, as_json: bool, **options: Any) -> None:
    """Show or change what annotators of the collection NAME are asked.

    Each criterion of a collection has a question, judgements and a ranking of its own; commands
    take it as NAME:CRITERION. Criteria are asked one after the other. Changes reach annotators
    with their next question, also while pages are served.

    With the goal 'top 10' the questions are about which ten items are best (of each group), until
    with a probability of 90 % at most one of them is wrong; 'top 10, 2 wrong' lets two be wrong.

    \b
    Examples:
      sortnet ask essays --question 'Which argues better?' --instructions rules.md
      sortnet ask replies --criterion helpful --question 'Which helps more?'
      sortnet ask replies --criterion honest --question 'Which is more honest?'
      sortnet ask replies:honest --deadline 2026-12-01T18:00
      sortnet ask essays --overlap 3 --quota eve 80
      sortnet ask essays --set-size 4
      sortnet ask essays --goal 'top 3, 1 wrong'
      sortnet ask essays --kind eve model
    """
    decisions = question_decisions(**options)
    is_changed = bool(decisions or criterion)
    with open_collection(store, name, write=is_changed) as collection:
        change_questions(collection, criterion, decisions)
        questions = question_facts(collection)
    print_result(questions_result(questions), as_json=as_json)
