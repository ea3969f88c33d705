"""`sortnet label`: compare pairs of items in a terminal, or let a program answer."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from cli.inputs.opened_store import open_collection
from cli.options import Real, Whole, json_option, lease_option, store_option
from cli.output import print_json, progress, put
from cli.terminal.asking import Asking, Front
from cli.terminal.signals import ended_by_signals
from sortnet.errors import SortNetError

if TYPE_CHECKING:
    from store.service.labelling import LabellingService


@click.command(short_help="Compare pairs of items in a terminal, or by a program.")
@click.argument("name")
@click.option("--as", "annotator", metavar="ANA", help="Annotator; default: your login name.")
@click.option("--number", type=Whole(1), metavar="N", help="Stop after N answers.")
@click.option(
    "--until",
    type=Real(0, 0.5, min_open=True, max_open=True),
    metavar="SHARE",
    help="Goal: expected share of pairs in the wrong order.  [default: 0.1]",
)
@click.option("--place", metavar="ID", help="Find the rank of this item among the others.")
@click.option("--judge", metavar="COMMAND", help="Program that answers; see above.")
@click.option(
    "--timeout",
    type=Real(0, 86400, min_open=True),
    default=60.0,
    help="Timeout for an answer of the program, in seconds.",
)
@click.option(
    "--workers",
    type=Whole(1, 64),
    default=1,
    help="Number of copies of the program that run in parallel.",
)
@lease_option
@store_option
@json_option
def label(
    name: str,
    annotator: str | None,
    number: int | None,
    until: float | None,
    place: str | None,
    judge: str | None,
    timeout: float,
    workers: int,
    lease: float,
    store: str | None,
    as_json: bool,
) -> None:
    """Answer "which is better?" for pairs of items of the collection NAME, one key per answer.

    Keys: 1 or left, 2 or right, 0 or down for a tie, space to skip, ? for can't say, z to undo,
    r for the ranking, h for help, q to quit. Every answer is stored before the next pair is
    shown: you can quit at any time and resume later. If stdin is not a terminal, each of its
    lines is an answer: left, right, tie, skip, cant-say, undo or quit. Images and sounds are
    shown as paths of their files; sortnet serve shows and plays them.

    The program of --judge reads one line of JSON per pair, {"id", "left", "right"}, each side
    with "id", "text", "image", "audio" and "features", and answers with a line such as
    {"answer": "left"}. It is started once, without a shell; after three failures in a row it is
    not restarted.

    \b
    Examples:
      sortnet label essays --as ana
      sortnet label essays --place essay-61
      sortnet label essays --judge 'python judge.py' --as model-7 --number 200
    """
    if judge is not None and place is not None:
        raise click.UsageError("--judge and --place cannot be combined")
    who = annotator or _login()
    from store.service.labelling import LabellingService

    with open_collection(store, name, write=True) as collection:
        seconds = max(lease, 4 * timeout if judge else 0)
        service = LabellingService(collection, lease_seconds=seconds, goal=until)
        collection.annotator(who)  # validates the name before anything is shown
        if judge is not None:
            said = _by_program(service, who, judge, number, timeout, workers)
        else:
            said = _by_hand(service, who, number, place)
    summary = {"collection": name, "annotator": who, **said}
    if as_json:
        print_json(summary)
    else:
        put(_in_words(summary))
    if said.get("fault"):
        raise SortNetError(f"--judge: {said['fault']}")


def _by_hand(
    service: LabellingService, who: str, number: int | None, place: str | None
) -> dict[str, Any]:
    asking = _asking(service, who, wait=place is not None or not _has_screen())
    why = "interrupted"
    extra: dict[str, Any] = {}
    try:
        with ended_by_signals(), _front(asking) as front:
            if place is None:
                why = asking.go_on(front, number)
            else:
                from cli.terminal.placing import place_item  # with torch, which takes a second

                why, extra = place_item(asking, front, place, number)
    finally:
        service.release(who)
    return _summary(asking, why) | extra


def _asking(service: LabellingService, who: str, *, wait: bool) -> Asking:
    with progress() as status:
        status("fitting the answers so far")
        (service.settle if wait else service.update)()
    return Asking(service, who)


def _by_program(
    service: LabellingService,
    who: str,
    command: str,
    number: int | None,
    timeout: float,
    workers: int,
) -> dict[str, Any]:
    from cli.terminal.program_judge import command_of, judge_by

    words = command_of(command)
    asking = _asking(service, who, wait=True)
    with ended_by_signals():
        outcome = judge_by(service, who, words, number=number, seconds=timeout, n_workers=workers)
    asking.answered += outcome.answered
    facts = {"failed": outcome.failed, "fault": outcome.fault}
    return _summary(asking, outcome.why) | facts


def _summary(asking: Asking, why: str) -> dict[str, Any]:
    remaining = asking.service.remaining
    return {
        "answered": asking.answered - asking.began,
        "in_all": asking.service.session.answered(asking.annotator),
        "questions_left": remaining.questions,
        "enough": remaining.stop,
        "why": why,
    }


def _in_words(summary: dict[str, Any]) -> str:
    done = f"{summary['annotator']}: {summary['answered']} answered, {summary['in_all']} in all"
    failed = f", {summary['failed']} failed" if "failed" in summary else ""
    return f"{done}{failed}; {summary['why']}"


@contextmanager
def _front(asking: Asking) -> Iterator[Front]:
    """A screen if stdin is a terminal, else lines."""
    if _has_screen():
        from cli.terminal.screen import screen_of

        with screen_of(asking.service, sys.stdin.fileno()) as screen:
            yield screen
    else:
        from cli.terminal.lines import Lines

        yield Lines(asking.service.items)


def _has_screen() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def _login() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        raise SortNetError("no annotator: give --as NAME") from None
