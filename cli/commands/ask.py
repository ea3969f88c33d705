"""`sortnet ask`: what annotators are asked: question, instructions, criteria, goal, deadline."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.options import GoalType, Whole, files, store_and_json
from cli.printing.results import Result, print_result
from sortnet.errors import DataError
from sortnet.messages import count, printable
from store.service.existing_store import open_collection

if TYPE_CHECKING:
    from sortnet.preference.goal import Goal
    from store import Collection


class _Moment(click.ParamType):  # type: ignore[type-arg]
    """A time such as 2026-12-01 or 2026-12-01T18:00, in the local zone unless it names one."""

    name = "time"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        try:
            return 0.0 if value == "none" else datetime.fromisoformat(value).timestamp()
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is not a time such as 2026-12-01T18:00, or none", param, ctx)


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
    help="A criterion with a ranking of its own, added if it is new; --question is then its own.",
)
@click.option(
    "--goal",
    type=GoalType(),
    metavar="GOAL",
    help="Stop at this expected share of pairs in the wrong order, or when the 'top 10' is known.",
)
@click.option(
    "--deadline", type=_Moment(), metavar="TIME", help="Ask nothing after that; none: no deadline."
)
@click.option(
    "--overlap",
    type=Whole(1),
    metavar="N",
    help="Let N annotators answer each pair before new pairs are asked; not of the hold-out.",
)
@click.option(
    "--quota",
    "quotas",
    type=(str, Whole(0)),
    multiple=True,
    metavar="ANNOTATOR N",
    help="Ask ANNOTATOR for N answers in all, skips and can't-says aside; 0: no quota.",
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
def ask(
    name: str,
    question: str | None,
    instructions: str | None,
    criterion: str | None,
    goal: Goal | None,
    deadline: float | None,
    overlap: int | None,
    quotas: tuple[tuple[str, int], ...],
    kinds: tuple[tuple[str, str], ...],
    store: str | None,
    as_json: bool,
) -> None:
    """Show or change what annotators of the collection NAME are asked.

    Each criterion of a collection has a question, judgements and a ranking of its own; commands
    take it as NAME:CRITERION. They are asked one after the other, or together (`sortnet serve
    --together`). What is changed here is shown at the next question, also while it is served.

    With the goal 'top 10' the questions are about which ten items are best (of each group), until
    with a probability of 90 % at most one of them is wrong; 'top 10, 2 wrong' lets two be wrong.

    \b
    Examples:
      sortnet ask essays --question 'Which argues better?' --instructions rules.md
      sortnet ask replies --criterion helpful --question 'Which helps more?'
      sortnet ask replies --criterion honest --question 'Which is more honest?'
      sortnet ask replies:honest --deadline 2026-12-01T18:00
      sortnet ask essays --overlap 3 --quota eve 80
      sortnet ask essays --goal 'top 3, 1 wrong'
      sortnet ask essays --kind eve model
    """
    from sortnet.preference.study import Decision

    rules = None if instructions is None else _text_of(instructions)
    texts = {"question": question, "instructions": rules}
    wanted = {} if goal is None else {"goal": goal.wrong, "top": goal.top}
    amounts = {**wanted, "deadline": deadline, "overlap": overlap}
    made = [Decision(kind, reason=text) for kind, text in texts.items() if text is not None]
    made += [Decision(kind, amount=value) for kind, value in amounts.items() if value is not None]
    made += [Decision("quota", annotator=who, amount=number) for who, number in quotas]
    made += [Decision(kind, annotator=who) for who, kind in kinds]
    write = bool(made or criterion)
    with open_collection(store, name, write=write) as collection:
        if criterion is not None:
            known = {each.criterion: each for each in collection.asked()}
            collection = known.get(criterion) or collection.add_criterion(criterion)
        if goal is not None and goal.top:
            _refuse_all(collection, goal.top)
        if made:
            collection.decide(*made)
        found = [_asked(each) for each in collection.asked()]
    text = [line for each in found for line in _lines(each)]
    print_result(Result("questions", found, text=text), as_json=as_json)


def _refuse_all(collection: Collection, top: int) -> None:
    """Refuse a top that has room for all items."""
    items = collection.items()
    n = max(Counter(items.groups or ("",) * len(items)).values(), default=0)
    if top >= n:
        where = "" if items.groups is None else " in the largest group"
        raise DataError(f"--goal: top {top} of {count(n, 'item')}{where}: all of them are the top")


def _text_of(file: str) -> str:
    if file == "none":
        return ""
    try:
        return Path(file).read_text(encoding="utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise DataError(f"{file}: is not UTF-8 text (byte {error.start})") from None
    except OSError as error:
        raise DataError(f"{file}: {error.strerror}") from None


def _asked(collection: Collection) -> dict[str, Any]:
    study = collection.study()
    deadline = datetime.fromtimestamp(study.deadline, UTC).isoformat() if study.deadline else None
    return {
        "name": collection.name,
        "criterion": collection.criterion,
        "question": study.question,
        "instructions": study.instructions,
        "goal": study.goal or None,
        "top": study.top or None,
        "deadline": deadline,
        "overlap": study.overlap,
        "quotas": dict(study.quotas),
        "models": sorted(study.models),
        "judgements": collection.n_judgements,
    }


def _lines(asked: dict[str, Any]) -> list[str]:
    from sortnet.preference.goal import WRONG, Goal

    words, overlap = asked["instructions"].split(), asked["overlap"]
    quotas, models = asked["quotas"], asked["models"]
    return [
        f"{printable(asked['name'])}: {printable(asked['question'])}",
        f"  instructions  {count(len(words), 'word') if words else 'none'}",
        f"  goal          {Goal(asked['goal'] or WRONG, asked['top'] or 0)}",
        f"  deadline      {asked['deadline'] or 'none'}",
        *([f"  overlap       {count(overlap, 'answer')} a pair"] if overlap > 1 else []),
        *(f"  quota         {printable(who)}: {count(n, 'answer')}" for who, n in quotas.items()),
        *([f"  models        {', '.join(map(printable, models))}"] if models else []),
        f"  judgements    {asked['judgements']}",
    ]
