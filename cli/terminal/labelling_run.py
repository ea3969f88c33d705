"""A labelling in the terminal: criteria asked one after the other, by a person or a machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from cli.console import progress, put
from cli.judges.judge_options import is_asked
from cli.printing.labelled import labelled_result
from cli.printing.labelling_status import short_status
from cli.printing.results import print_result
from cli.terminal.asking import Ask, Asking, Front
from cli.terminal.signals import ended_by_signals
from sortnet.errors import SortNetError

if TYPE_CHECKING:
    from sortnet.preference.goal import Goal
    from store import Collection
    from store.service.labelling import LabellingService


@dataclass(frozen=True)
class LabelOptions:
    """Options of a labelling.

    Attributes:
        number: answers after which it ends; None: when the goal is reached.
        until: another goal than the collection's own.
        lease: seconds for which a pair is reserved.
        judge: the options of a machine that answers, the first one of several, and the item to
            `place`.
    """

    number: int | None
    until: Goal | None
    lease: float
    judge: dict[str, Any]


def label_criteria(
    collection: Collection, asks: Mapping[str, Ask], options: LabelOptions, *, as_json: bool
) -> list[dict[str, Any]]:
    """Ask about each criterion of a collection, and print what was answered.

    Args:
        asks: what asks each annotator, as `ask_by` makes it of the options.

    Returns:
        the facts of each criterion that was asked about.

    Raises:
        SortNetError: if an answer cannot be stored, or the collection is closed.
    """
    labelled: list[dict[str, Any]] = []
    with ExitStack() as added:
        for annotator in asks:
            added.enter_context(_none_without_answer(collection, annotator))
        criteria = collection.asked()
        if criteria != [collection] and options.judge["place"] is not None:
            collection.check_one_question()
        for service, n_left in _to_label(criteria, options, labelled):
            of_criterion = _labelled_by(service, asks, n_left)
            labelled += of_criterion
            if not as_json:  # at once, before the next criterion is asked
                criterion = service.collection.criterion
                print_result(labelled_result(of_criterion, criterion), as_json=False)
    if as_json:
        print_result(labelled_result(labelled), as_json=True)
    elif not labelled:
        put(f"{', '.join(asks)}: the goals of all criteria are reached")
    return labelled


def _lease_seconds(options: LabelOptions) -> float:
    """Duration of a lease: a renewed one outlives the slowest answer, and a store that is away."""
    judge = options.judge
    if not is_asked(judge):
        return options.lease
    slowest: float = 4 * judge["timeout"] * judge["batch"]
    patience: float = judge["store_patience"]
    return max(options.lease, 2 * (slowest + patience))  # renewed when half of it is over


def _fitted_service(collection: Collection, options: LabelOptions) -> LabellingService:
    """A service fitted to the answers so far; a person at a screen need not wait for a long fit."""
    from store.service.labelling import LabellingService

    service = LabellingService(
        collection, lease_seconds=_lease_seconds(options), goal=options.until, record=True
    )
    is_by_hand = not is_asked(options.judge)
    with progress() as status:
        status("fitting the answers so far")
        if is_by_hand and options.judge["place"] is None and _has_screen():
            service.update()
        else:
            service.settle()
    return service


def _to_label(
    criteria: Sequence[Collection], options: LabelOptions, labelled: Sequence[dict[str, Any]]
) -> Iterator[tuple[LabellingService, int | None]]:
    """Services to label by, one after the other, and how many answers are left for each.

    `labelled` grows meanwhile. Criteria whose goal is reached are left out, but not the only
    question of a collection.
    """
    for collection in criteria:
        n_left = None
        if options.number is not None:
            n_left = options.number - sum(facts["answered"] for facts in labelled)
        if n_left == 0 or any(facts["quit"] for facts in labelled):
            return
        with closing(_fitted_service(collection, options)) as service:
            is_done = service.is_fitted and service.remaining.stop
            if collection.criterion is None or not is_done:
                yield service, n_left


@contextmanager
def _none_without_answer(collection: Collection, annotator: str) -> Iterator[None]:
    """Create an annotator, and remove a new one without an answer: a fault leaves nobody."""
    is_new = annotator not in (known.name for known in collection.annotators())
    collection.annotator(annotator)
    try:
        yield
    finally:
        if is_new:
            collection.forget(annotator)


def _labelled_by(
    service: LabellingService, asks: Mapping[str, Ask], number: int | None
) -> list[dict[str, Any]]:
    """The facts of each annotator; several answer in turn."""
    if len(asks) == 1:
        ((annotator, ask),) = asks.items()
        return [_labelled(Asking(service, annotator), number, ask)]
    from cli.terminal.models_in_turn import labelled_in_turn

    return labelled_in_turn(
        [*asks],
        number,
        lambda annotator, n: _labelled(Asking(service, annotator), n, asks[annotator]),
    )


def _labelled(asking: Asking, number: int | None, ask: Ask) -> dict[str, Any]:
    service, annotator = asking.service, asking.annotator
    name = service.collection.name
    if closed := service.why_closed(annotator):
        raise SortNetError(f"{name}: {closed}")
    why, extra = ask(asking, number)
    return {
        "collection": name,
        "annotator": annotator,
        "answered": asking.answered - asking.began,
        "in_all": service.session.answered(annotator),
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


def ask_by(options: dict[str, Any], *, in_turn: bool = False) -> Ask:
    """What asks the machine that the options name, else the person at the terminal.

    Args:
        in_turn: whether the machine is one of several.

    Raises:
        SortNetError: if the machine cannot be asked.
    """
    if is_asked(options):
        from cli.judges.judge_options import judge_of
        from cli.terminal.label_by_judge import by_judge

        judge = judge_of(options)
        assert judge is not None
        return by_judge(judge, in_turn=in_turn)
    return partial(_by_hand, place=options["place"])


def _front(asking: Asking) -> AbstractContextManager[Front]:
    """A screen if stdin is a terminal, else lines."""
    if _has_screen():
        from cli.terminal.screen import screen_of

        return screen_of(asking.service, sys.stdin.fileno())
    from cli.terminal.lines import Lines

    return nullcontext(Lines(asking.service))


def _has_screen() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
