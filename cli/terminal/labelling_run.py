"""Run `sortnet label`: ask about each criterion in turn; a person or a judge answers."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cli.console import progress, put
from cli.judges.judge_options import judges_by_annotator
from cli.printing.labelled import labelled_result
from cli.printing.results import print_result
from cli.terminal.asking import Asker, Asking, labelled_facts, refuse_closed
from cli.terminal.front import Front
from cli.terminal.placing import place_item
from cli.terminal.signals import ended_by_signals
from sortnet.errors import SortNetError

if TYPE_CHECKING:
    from sortnet.judges import LanguageModel, Program
    from sortnet.preference.goal import Goal
    from store import Collection
    from store.service.labelling import LabellingService

# Seconds for which a question is reserved for a person, or at least for a judge. A person's lease
# is not renewed, so it must last longer than a break.
_LEASE_OF_PERSON = 3600.0
_LEAST_LEASE_OF_JUDGE = 600.0


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
        n_left = options.number
        if n_left is not None:
            n_left -= sum(facts["answered"] for facts in labelled)
        has_quit = any(facts["quit"] for facts in labelled)
        if n_left == 0 or has_quit:
            break
        with closing(_fitted_service(criterion, options)) as service:
            # A collection without criteria is never done: the annotator may want to answer more.
            is_criterion = criterion.criterion is not None
            if is_criterion and service.is_fitted and service.remaining.stop:
                continue
            facts_of_criterion = asker.ask(service, n_left)
        # Closing the service has checked that the store still has the answers that are reported.
        labelled += facts_of_criterion
        if not as_json:
            print_result(labelled_result(facts_of_criterion, criterion.criterion), as_json=False)
    if as_json:
        print_result(labelled_result(labelled), as_json=True)
    elif not labelled:
        put(f"{', '.join(asker.names)}: the goals of all criteria are reached")
    return labelled


def _lease_seconds(options: LabelOptions) -> float:
    """Return the seconds of a lease: longer than the slowest answer and a wait for the store."""
    if not options.judges:
        return _LEASE_OF_PERSON
    lease_seconds = _LEAST_LEASE_OF_JUDGE
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
    with progress() as status:
        status("fitting the answers so far")
        if options.judges or options.place is not None or not _has_screen():
            service.settle()
        else:
            service.keep_fitted()
    return service


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
        outcome: dict[str, Any] = {"why": "interrupted", "quit": True}
        try:
            with ended_by_signals():
                front = _user_interface(asking.service)
                if self.place is None:
                    why = asking.run(front, number)
                    outcome = {"why": why, "quit": asking.quit}
                else:
                    why, placed = place_item(asking, front, self.place, number)
                    outcome = {"why": why, "quit": asking.quit, **placed}
        finally:
            asking.service.release(self.annotator)
        return {**labelled_facts(asking.service, self.annotator, asking.n_new), **outcome}


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


def _user_interface(service: LabellingService) -> Front:
    """Make the user interface: of single keys at a terminal, otherwise of lines."""
    if _has_screen():
        from cli.terminal.screen import Screen

        return Screen(service)
    return Front(service)


def _has_screen() -> bool:
    """Whether the person sits at a terminal that can draw a screen."""
    return sys.stdin.isatty() and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
