"""Run `sortnet label`: ask about each criterion in turn; a person or a judge answers."""

from __future__ import annotations

import getpass
import math
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from cli.console import progress, put
from cli.judges.judge_options import judges_by_annotator
from cli.printing.labelling import labelled_result
from cli.printing.results import print_result
from cli.signals import ended_by_signals
from cli.terminal.asking import Asking, labelled_facts, refuse_closed
from cli.terminal.front import Front
from cli.terminal.placing import place_item
from sortnet.errors import SortNetError

if TYPE_CHECKING:
    from sortnet.judges import LanguageModel, Program
    from sortnet.preference.stopping import Goal
    from store import Collection
    from store.service.labelling import LabellingService

# Seconds for which a question is reserved for an annotator, at least. A person's lease is not
# renewed, so it must last longer than a break.
_LEAST_LEASE = 3600.0
# Asks about a criterion at most so many questions, or without a limit; returns facts about the
# labelling: a dict for each annotator that was asked.
Asker: TypeAlias = "Callable[[LabellingService, int | None], list[dict[str, Any]]]"


@dataclass(frozen=True)
class LabelOptions:
    """Options of a run of `sortnet label`.

    Attributes:
        number: number of answers after which the labelling ends, of which each criterion gets an
            equal share; None: it ends when the goal is reached.
        until: goal in place of the collection's own goal; None: the collection's own goal.
        judges: programs and language models that answer; empty: a person answers.
        place: id of an item whose rank is to be found; None: all items are asked about.
    """

    number: int | None
    until: Goal | None
    judges: Sequence[LanguageModel | Program] = ()
    place: str | None = None


def label_criteria(
    collection: Collection, ask: Asker, options: LabelOptions, *, as_json: bool
) -> list[dict[str, Any]]:
    """Ask about each criterion of a collection, and print a result for each.

    Args:
        collection: the collection.
        ask: asks the annotators about a criterion, made by `asker_of`.
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
    criteria = collection.asked()
    for n_before, criterion in enumerate(criteria):
        n_wanted = options.number
        if n_wanted is not None:  # the criteria that are left share the answers that are left
            n_left = n_wanted - sum(facts["answered"] for facts in labelled)
            n_wanted = math.ceil(n_left / (len(criteria) - n_before))
        has_quit = any(facts["quit"] for facts in labelled)
        if n_wanted == 0 or has_quit:
            break
        with closing(_fitted_service(criterion, options)) as service:
            # A collection without criteria is never done: the annotator may want to answer more.
            is_criterion = criterion.criterion is not None
            if is_criterion and service.is_fitted and service.remaining.stop:
                continue
            facts_of_criterion = ask(service, n_wanted)
        # Closing the service has checked that the store still has the answers that are reported.
        labelled += facts_of_criterion
        if not as_json:
            print_result(labelled_result(facts_of_criterion, criterion.criterion), as_json=False)
    if as_json:
        print_result(labelled_result(labelled), as_json=True)
    elif not labelled:
        put("the goals of all criteria are reached")
    return labelled


def _fitted_service(collection: Collection, options: LabelOptions) -> LabellingService:
    """Make a labelling service of a collection, fitted to the answers so far.

    A lease lasts longer than the slowest answer and a wait for the store.

    A person at a screen who is asked about all items does not wait for a long fit, which ends in
    the background. In all other cases the fit ends before the function returns.
    """
    from store.service.labelling import LabellingService

    # A question can take four calls: two orders, each of which is asked again if it is not clear. A
    # program may get several questions together.
    slowest = [
        4 * judge.timeout * getattr(judge, "batch", 1) + judge.patience for judge in options.judges
    ]
    # A lease is renewed when half of its time is over, so the other half must be long enough.
    lease_seconds = max([_LEAST_LEASE, *(2 * seconds for seconds in slowest)])
    service = LabellingService(collection, lease_seconds=lease_seconds, goal=options.until)
    with progress() as status:
        status("fitting the answers so far")
        if options.judges or options.place is not None or not _has_screen():
            service.settle()
        else:
            service.keep_fitted()
    return service


def asker_of(options: LabelOptions, annotator: str | None) -> Asker:
    """Return what asks the judges of the options, or the person at the terminal without judges.

    Args:
        options: options of the labelling.
        annotator: value of `--as`. If None, judges have their own names, and a person has the login
            name of the user.

    Raises:
        click.UsageError: if several judges would have the same name.
        SortNetError: if a judge cannot be asked.
    """
    if not options.judges:
        return partial(_ask_person, annotator=annotator or _login(), place=options.place)
    from cli.terminal.label_by_judge import ask_judges
    from sortnet.judges.any_judge import connect_judges

    judges = judges_by_annotator(options.judges)
    if annotator is not None:
        judges = {annotator: options.judges[0]}
    return partial(ask_judges, judges=judges, connections=connect_judges(judges))


def _ask_person(
    service: LabellingService, number: int | None, *, annotator: str, place: str | None
) -> list[dict[str, Any]]:
    """Ask the person at the terminal about a criterion, and return facts about the labelling.

    Args:
        service: the service of the criterion.
        number: number of answers; None: there is no such limit.
        annotator: name of the person.
        place: id of the item whose rank is to be found; None: ask about all items.
    """
    from store.service.labelling import created_annotator

    outcome: dict[str, Any] = {"why": "interrupted", "quit": True}
    with created_annotator(service.collection, annotator):
        refuse_closed(service, annotator)
        asking = Asking(service, annotator)
        try:
            with ended_by_signals():
                front = _user_interface(service)
                if place is None:
                    outcome = {"why": asking.run(front, number)}
                else:
                    outcome = place_item(asking, front, place, number)
                outcome["quit"] = asking.quit
        finally:
            service.release(annotator)
    return [{**labelled_facts(service, annotator, asking.n_new), **outcome}]


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
