"""`sortnet label`: compare pairs of items in a terminal, or let a program answer."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from cli.judges.judge_options import is_asked, judge_options, only_shows, refuse_together
from cli.options import GoalType, Whole, lease_option, store_and_json
from cli.output import progress, put
from cli.printing.labelling_status import short_status
from cli.printing.results import Result, print_result
from cli.terminal.asking import Ask, Asking, Front
from cli.terminal.signals import ended_by_signals
from sortnet.errors import SortNetError
from store.service.existing_store import open_collection

if TYPE_CHECKING:
    from sortnet.preference.goal import Goal
    from store import Collection
    from store.service.labelling import LabellingService

_NOT_SHOWN = ("quit", "status")  # of what is known at the end


@click.command(short_help="Compare pairs of items in a terminal, by a program or a language model.")
@click.argument("name")
@click.option("--as", "annotator", metavar="ANA", help="Annotator; default: your login name.")
@click.option("--number", type=Whole(1), metavar="N", help="Stop after N answers.")
@click.option(
    "--until", type=GoalType(), metavar="GOAL", help="Another goal than ask's: 0.1, or 'top 10'."
)
@click.option("--place", metavar="ID", help="Find the rank of this item among the others.")
@judge_options
@lease_option
@store_and_json
def label(
    name: str,
    annotator: str | None,
    number: int | None,
    until: Goal | None,
    lease: float,
    store: str | None,
    as_json: bool,
    **how: Any,
) -> None:
    """Say which of two items of the collection NAME is better, pair by pair, one key per answer.

    Keys: 1 or left, 2 or right, 0 or down for a tie, space to skip, ? for can't say, z to undo, c
    for a comment on the pair, f to flag it, a for all of a cut text, r for the ranking, h for help,
    q to quit. Every answer is stored before the next pair is shown: you can quit at any time and
    resume later. If stdin is not a terminal, each of its lines is an answer or its key: left,
    right, tie, skip, cant-say, undo or quit; lines "comment TEXT" and "flag" may come before one.
    Images and sounds are shown and played by sortnet serve.

    The program of --judge reads one line of JSON per pair, {"id", "question", "instructions",
    "left", "right"}, each side with "id", "text", "image", "audio", "shown" and "features", and
    where items have groups also "group" and "context". It answers with a line such as {"answer":
    "left"}. It is started once, without a shell; after three failures in a row it is not restarted.
    Besides the answer it may give "p", how probably the left one is better, "comment", "flag",
    "seconds", "cost" and "meta"; {"retry_after": SECONDS} makes it be asked again later.

    --model asks a language model, on any server that speaks POST /v1/chat/completions. Where the
    server gives log-probabilities, these are the answer. Each answer is stored before the next
    question is chosen: a run that was killed goes on without asking any pair again. A key is read
    from the environment, and never stored or shown.

    The criteria of a collection are asked one after the other, each until its goal is reached.

    \b
    Examples:
      sortnet label essays --as ana
      sortnet label essays --place essay-61
      sortnet label essays --judge 'python judge.py' --as model-7 --number 200
      sortnet label essays --model qwen3 --server http://localhost:8000 --estimate
    """
    _refuse_together(how)
    if only_shows(how):
        from cli.terminal.label_by_judge import show_prompt_or_estimate

        with open_collection(store, name) as collection:
            show_prompt_or_estimate(collection, how, number, until, as_json=as_json)
        return
    who = annotator or how["model"] or _login()
    ask = _ask_by(how)
    open_service = partial(_fitted_service, lease=_lease_seconds(lease, how), goal=until, how=how)
    found: list[dict[str, Any]] = []
    with (
        open_collection(store, name, write=True) as collection,
        _none_without_answer(collection, who),
    ):
        criteria = collection.asked()
        several = criteria != [collection]
        if several and how["place"] is not None:
            collection.check_one_question()
        for service, number_left in _to_label(criteria, number, open_service, found):
            found.append(_labelled(Asking(service, who), number_left, ask))
            if not as_json:  # at once, before the next criterion is asked
                print_result(_result(found[-1:], service.collection.criterion), as_json=False)
    if as_json:
        print_result(_result(found), as_json=True)
    elif not found:
        put(f"{who}: the goals of all criteria are reached")
    if faults := [one["fault"] for one in found if one.get("fault")]:
        raise SortNetError(f"{'--judge' if how['judge'] else '--model'}: {faults[0]}")


def _lease_seconds(lease: float, how: dict[str, Any]) -> float:
    """Duration of a lease: a renewed one outlives the slowest answer, and a store that is away."""
    if not is_asked(how):
        return lease
    slowest: float = 4 * how["timeout"] * how["batch"]
    patience: float = how["store_patience"]
    return max(lease, 2 * (slowest + patience))  # renewed when half of it is over


def _fitted_service(
    collection: Collection, *, lease: float, goal: Goal | None, how: dict[str, Any]
) -> LabellingService:
    """A service fitted to the answers so far; a person at a screen need not wait for a long fit."""
    from store.service.labelling import LabellingService

    service = LabellingService(collection, lease_seconds=lease, goal=goal, record=True)
    is_by_hand = not is_asked(how)
    with progress() as status:
        status("fitting the answers so far")
        if is_by_hand and how["place"] is None and _has_screen():
            service.update()
        else:
            service.settle()
    return service


def _to_label(
    criteria: Sequence[Collection],
    number: int | None,
    open_service: Callable[[Collection], LabellingService],
    results: Sequence[dict[str, Any]],
) -> Iterator[tuple[LabellingService, int | None]]:
    """Services to label by, one after the other, and how many answers are left for each.

    `results` grows meanwhile. Criteria whose goal is reached are left out, but not the only
    question of a collection.
    """
    for collection in criteria:
        number_left = None
        if number is not None:
            number_left = number - sum(result["answered"] for result in results)
        if number_left == 0 or any(result["quit"] for result in results):
            return
        with closing(open_service(collection)) as service:
            is_done = service.known and service.remaining.stop
            if collection.criterion is None or not is_done:
                yield service, number_left


@contextmanager
def _none_without_answer(collection: Collection, who: str) -> Iterator[None]:
    """Create an annotator, and remove a new one who has said nothing: a fault leaves nobody."""
    new = who not in (one.name for one in collection.annotators())
    collection.annotator(who)
    try:
        yield
    finally:
        if new:
            collection.forget(who)


def _labelled(asking: Asking, number: int | None, ask: Ask) -> dict[str, Any]:
    service, who = asking.service, asking.annotator
    name = service.collection.name
    if closed := service.why_closed(who):
        raise SortNetError(f"{name}: {closed}")
    why, extra = ask(asking, number)
    return {
        "collection": name,
        "annotator": who,
        "answered": asking.answered - asking.began,
        "in_all": service.session.answered(who),
        "questions_left": service.remaining.questions,
        "fewest_left": service.remaining.fewest,
        "most_left": service.remaining.most,
        "enough": service.remaining.stop,
        "why": why,
        # An interrupt does not wait for another fit.
        "status": service.remaining.why if asking.interrupted else short_status(service),
        "quit": asking.quit or asking.interrupted or bool(extra.get("fault")),
        **extra,
    }


def _result(found: Sequence[dict[str, Any]], criterion: str | None = None) -> Result:
    """A row for each criterion that was labelled, or for the only question."""
    rows = [{key: one[key] for key in one if key not in _NOT_SHOWN} for one in found]
    text = [line for one in found for line in _labelled_lines(one, criterion)]
    return Result("labelled", rows, text=text)


def _labelled_lines(found: dict[str, Any], criterion: str | None) -> list[str]:
    """Count the answers and say why the labelling ended; then, how far the goal is."""
    who = found["annotator"] if criterion is None else f"{found['annotator']}, {criterion}"
    failed = f", {found['failed']} failed" if "failed" in found else ""
    answered = f"{who}: {found['answered']} answered, {found['in_all']} in all{failed}"
    why, status = found["why"], found["status"]
    if status.startswith(why):
        return [answered, status]
    if why.startswith(status):
        return [answered, why]
    return [f"{answered}; {why}", status]


def _by_hand(
    asking: Asking, number: int | None, *, place: str | None
) -> tuple[str, dict[str, Any]]:
    why, extra = "interrupted", dict[str, Any]()
    asking.interrupted = True
    try:
        with ended_by_signals(), _front(asking) as front:
            if place is None:
                why = asking.go_on(front, number)
            else:
                from cli.terminal.placing import place_item  # with torch, which takes a second

                why, extra = place_item(asking, front, place, number)
            asking.interrupted = False
    finally:
        asking.service.release(asking.annotator)
    return why, extra


def _ask_by(how: dict[str, Any]) -> Ask:
    if is_asked(how):
        from cli.judges.judge_options import judge_of
        from cli.terminal.label_by_judge import by_judge

        judge = judge_of(how)
        assert judge is not None
        return by_judge(judge)
    return partial(_by_hand, place=how["place"])


def _refuse_together(how: dict[str, Any]) -> None:
    if how["place"] is not None and is_asked(how):
        raise click.UsageError("--place is for people: leave out --judge and --model")
    refuse_together(how)


def _front(asking: Asking) -> AbstractContextManager[Front]:
    """A screen if stdin is a terminal, else lines."""
    if _has_screen():
        from cli.terminal.screen import screen_of

        return screen_of(asking.service, sys.stdin.fileno())
    from cli.terminal.lines import Lines

    return nullcontext(Lines(asking.service))


def _has_screen() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def _login() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        raise SortNetError("no annotator: give --as NAME") from None
