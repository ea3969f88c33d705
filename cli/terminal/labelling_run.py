"""Run `sortnet label`: ask about each criterion in turn; a person or a judge answers."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cli.console import progress, put
from cli.judges.judge_options import judges_by_annotator
from cli.printing.labelling import labelled_result
from cli.printing.results import print_result
from cli.terminal.asking import Asker, Asking, Front, labelled_facts, refuse_closed
from cli.terminal.signals import ended_by_signals
from sortnet.errors import SortNetError

if TYPE_CHECKING:
    from sortnet.judges import LanguageModel, Program
    from sortnet.preference.goal import Goal
    from store import Collection
    from store.service.labelling import LabellingService

_LEASE_SECONDS = 600.0  # for which a question is reserved for an annotator, at least


@dataclass(frozen=True)
class LabelOptions:
    """Options of a run of `sortnet label`.

    Attributes:
        number: number of answers after which the labelling ends; None: it ends when the goal is
            reached.
        until: goal in place of the collection's own goal; None: the collection's own goal.
        judges: programs and language models that answer; empty: a person answers.
        place: id of an item whose rank is to be found; None: all items are asked about.
    """

    number: int | None
    until: Goal | None
    judges: Sequence[LanguageModel | Program] = ()
    place: str | None = None


def label_criteria(
    collection: Collection, asker: Asker, options: LabelOptions, *, as_json: bool
) -> list[dict[str, Any]]:
    """Ask about each criterion of a collection, and print a result for each.

    Args:
        collection: the collection.
        asker: asks the annotators, made by `asker_of`.
        options: options of the labelling.
        as_json: whether a single result is printed as JSON at the end.

    Returns:
        Facts about the labelling: a dict for each criterion and annotator that was asked.

    Raises:
        SortNetError: if an answer cannot be stored, or the collection is closed.
    """
    labelled: list[dict[str, Any]] = []
    if options.place is not None:
        collection.check_one_question()  # each criterion may place the item elsewhere
    for criterion in collection.asked():
        n_left = _answers_left(options.number, labelled)
        has_quit = any(facts["quit"] for facts in labelled)
        if n_left == 0 or has_quit:
            break
        labelled += _label_criterion(criterion, asker, options, n_left, prints=not as_json)
    if as_json:
        print_result(labelled_result(labelled), as_json=True)
    elif not labelled:
        put(f"{', '.join(asker.names)}: the goals of all criteria are reached")
    return labelled


def _label_criterion(
    criterion: Collection,
    asker: Asker,
    options: LabelOptions,
    number: int | None,
    *,
    prints: bool,
) -> list[dict[str, Any]]:
    """Ask the annotators about a criterion, unless its goal is reached already.

    Args:
        criterion: the criterion.
        asker: asks the annotators.
        options: options of the labelling.
        number: number of answers about this criterion after which the labelling ends; None: it
            ends when the goal is reached.
        prints: whether a result is printed as text, before the next criterion is asked.

    Returns:
        Facts about the labelling: a dict for each annotator that was asked.
    """
    with closing(_fitted_service(criterion, options)) as service:
        if _is_done(service):
            return []
        labelled = asker.ask(service, number)
    # Closing the service has checked that the store still has the answers that are reported.
    if prints:
        print_result(labelled_result(labelled, criterion.criterion), as_json=False)
    return labelled


def _lease_seconds(options: LabelOptions) -> float:
    """Return the seconds of a lease: longer than the slowest answer and a wait for the store."""
    lease_seconds = _LEASE_SECONDS
    for judge in options.judges:
        # A question can take four calls: two orders, each of which is asked again if it is not
        # clear. A program may get several questions together.
        slowest = 4 * judge.timeout * getattr(judge, "batch", 1)
        # A lease is renewed when half of its time is over, so the other half must be long enough.
        lease_seconds = max(lease_seconds, 2 * (slowest + judge.patience))
    return lease_seconds


def _fitted_service(collection: Collection, options: LabelOptions) -> LabellingService:
    """Make a labelling service of a collection, fitted to the answers so far.

    A person at a screen who is asked about all items does not wait for a long fit, which ends in
    the background. In all other cases the fit ends before the function returns.
    """
    from store.service.labelling import LabellingService

    service = LabellingService(
        collection, lease_seconds=_lease_seconds(options), goal=options.until, record=True
    )
    is_person = not options.judges
    with progress() as status:
        status("fitting the answers so far")
        is_about_all_items = options.place is None
        if is_person and is_about_all_items and _has_screen():
            service.keep_fitted()
        else:
            service.settle()
    return service


def _answers_left(number: int | None, labelled: Sequence[Mapping[str, Any]]) -> int | None:
    """Return how many of `number` answers are still to be given; None if `number` is None.

    `labelled` has facts about the labelling so far, a dict for each criterion and annotator.
    """
    if number is None:
        return None
    n_answered: int = sum(facts["answered"] for facts in labelled)
    return number - n_answered


def _is_done(service: LabellingService) -> bool:
    """Whether the service asks about a criterion and has reached the goal.

    A collection without criteria is never done: the annotator may want to give more answers.
    """
    if service.collection.criterion is None:
        return False
    return service.is_fitted and service.remaining.stop


@dataclass(frozen=True)
class PersonAsker:
    """Asks the person at the terminal.

    Attributes:
        annotator: name of the person.
        place: id of the item whose rank is to be found; None: ask about all items.
    """

    annotator: str
    place: str | None

    @property
    def names(self) -> list[str]:
        """The name of the person, the only annotator."""
        return [self.annotator]

    def ask(self, service: LabellingService, number: int | None) -> list[dict[str, Any]]:
        """Ask about a criterion, and return facts about the labelling."""
        from store.service.annotators import created_annotator

        with created_annotator(service.collection, self.annotator):
            refuse_closed(service, self.annotator)
            return [self._ask_person(Asking(service, self.annotator), number)]

    def _ask_person(self, asking: Asking, number: int | None) -> dict[str, Any]:
        """Ask the person, and return facts about the labelling."""
        why = "interrupted"
        further_facts: dict[str, Any] = {}
        asking.interrupted = True  # until the body has ended without a signal
        try:
            with ended_by_signals(), _user_interface(asking) as front:
                if self.place is None:
                    why = asking.run(front, number)
                else:
                    # Imported here, because it imports torch, which takes a second.
                    from cli.terminal.placing import place_item

                    why, further_facts = place_item(asking, front, self.place, number)
                asking.interrupted = False
        finally:
            asking.service.release(self.annotator)
        facts = labelled_facts(asking.service, self.annotator, asking.n_new)
        has_quit = asking.quit or asking.interrupted
        return {**facts, "why": why, "quit": has_quit, **further_facts}


def asker_of(options: LabelOptions, annotator: str | None) -> Asker:
    """Make what asks the judges of the options, or the person at the terminal without judges.

    Args:
        options: options of the labelling.
        annotator: value of `--as`. If None, judges have their own names, and a person has the login
            name of the user.

    Raises:
        click.UsageError: if several judges would have the same name.
        SortNetError: if a judge cannot be asked.
    """
    if not options.judges:
        return PersonAsker(annotator or _login(), options.place)
    from cli.terminal.label_by_judge import JudgesAsker

    if annotator is not None:
        return JudgesAsker.of({annotator: options.judges[0]})
    return JudgesAsker.of(judges_by_annotator(options.judges))


def _login() -> str:
    """Return the login name of the user, under which answers are stored without --as."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        raise SortNetError("no annotator: give --as NAME") from None


def _user_interface(asking: Asking) -> AbstractContextManager[Front]:
    """Make the user interface: a screen if stdin is a terminal, otherwise lines."""
    if _has_screen():
        from cli.terminal.screen import screen_of

        return screen_of(asking.service, sys.stdin.fileno())
    from cli.terminal.lines import Lines

    return nullcontext(Lines(asking.service))


def _has_screen() -> bool:
    """Whether the person sits at a terminal that can draw a screen."""
    return sys.stdin.isatty() and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
