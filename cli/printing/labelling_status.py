"""How far a labelling is: one short line, and the rest of what is known."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from sortnet.messages import count, printable

if TYPE_CHECKING:
    from store.service.labelling import LabellingService


def short_status(service: LabellingService) -> str:
    """Say what is reached, what is left and what to do, and who made the intervals wider.

    Cost: see `widened_by`.
    """
    status = service.remaining.why
    annotator = service.session.widened_by()
    if annotator is None:
        return status
    name = shlex.quote(service.collection.name)
    who = printable(annotator)
    return f"{status}; {who}'s answers made it less sure: sortnet annotators {name}"


def who_answered(service: LabellingService) -> str:
    """The number of answers, and of people and models who gave them.

    Empty if nobody has answered.
    """
    events = service.session.judgements()
    numbers = set(events.annotator[events.is_answer].tolist())
    names = [events.annotators.order[number] for number in numbers]
    by_models = sum(name in service.study.models for name in names)
    by_people = len(names) - by_models
    by = []
    if by_people:
        by.append("1 person" if by_people == 1 else f"{by_people} people")
    if by_models:
        by.append(count(by_models, "model"))
    answers = int(events.is_answer.sum())
    return f"{count(answers, 'answer')} by {' and '.join(by)}" if by else ""


def standing_notes(
    service: LabellingService, group: str | None = None, *, verbose: bool = False
) -> list[str]:
    """The number of answers and how far the goal is, in one line; then, how far a group is.

    Args:
        group: the group; None: no group.
        verbose: whether to say more of how sure the ranking is.
    """
    notes = _standing_lines(service, verbose=verbose)
    items, groups = service.items, service.remaining.groups
    if group is not None and items.groups is not None and groups:
        status = groups[list(dict.fromkeys(items.groups)).index(group)]
        counts = f"{count(status.items, 'item')}, {count(status.answers, 'answer')}"
        wrong = service.session.goal.expected(status.wrong)
        notes.append(f"{printable(group)}: {counts}; {wrong}")
    criterion = service.collection.criterion
    return notes if criterion is None else [f"{criterion}: {note}" for note in notes]


def _note_on_shares_of_votes(service: LabellingService) -> str:
    """A sentence on models whose probabilities are shares of votes, as all were in SortNet 0.4."""
    names = service.models_of_before()
    if not names:
        return ""
    who = printable(", ".join(names))
    command = ["sortnet", "annotators", "probabilities", service.collection.name, names[0]]
    return (
        f"computed again, as models' errors are measured since SortNet 0.5; p of {who} still "
        f"counts as a share of votes: {printable(shlex.join(command))} measurement changes that"
    )


def _standing_lines(service: LabellingService, *, verbose: bool) -> list[str]:
    answers = who_answered(service)
    if not answers:
        return [f"no judgements yet: sortnet label {shlex.quote(service.collection.name)}"]
    remaining = service.remaining
    lines = [f"{len(service.items)} items, {answers}; {short_status(service)}"]
    if remaining.apart:
        lines.append(remaining.apart)
    if note := _note_on_shares_of_votes(service):
        lines.append(note)
    if not verbose:
        return lines
    set_size = service.study.set_size
    if set_size > 2:
        lines.append(f"questions are about {set_size} items")
    return [*lines, *remaining.details, remaining.checked]
