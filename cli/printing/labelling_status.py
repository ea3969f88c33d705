"""Lines about the progress of a labelling: a short line, and notes with details."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from sortnet.messages import count, printable

if TYPE_CHECKING:
    from store.service.labelling import LabellingService


def short_status(service: LabellingService) -> str:
    """Tell the distance to the goal."""
    from store.service.sentences import why

    return why(service.remaining)


def answers_in_words(service: LabellingService) -> str:
    """Tell the number of answers, and how many people and models gave them.

    The text is empty if nobody has answered.
    """
    judgements = service.session.judgements()
    numbers = set(judgements.annotator[judgements.is_answer].tolist())
    if not numbers:
        return ""
    names = [name for name, number in judgements.annotators.items() if number in numbers]
    n_models = sum(name in service.study.models for name in names)
    n_people = len(names) - n_models
    annotators = []
    if n_people:
        people = "1 person" if n_people == 1 else f"{n_people} people"
        annotators.append(people)
    if n_models:
        annotators.append(count(n_models, "model"))
    n_answers = int(judgements.is_answer.sum())
    return f"{count(n_answers, 'answer')} by {' and '.join(annotators)}"


def standing_notes(
    service: LabellingService, group: str | None = None, *, verbose: bool = False
) -> list[str]:
    """Write a line with the number of answers and the distance to the goal, then details.

    Args:
        service: the labelling service of the collection.
        group: name of a group whose distance to the goal is also told, or None.
        verbose: whether to say more about how sure the ranking is.
    """
    notes = _status_lines(service, verbose=verbose)
    if group is not None:
        notes += _lines_about_group(service, group)
    criterion = service.collection.criterion
    if criterion is None:
        return notes
    return [f"{criterion}: {note}" for note in notes]


def _lines_about_group(service: LabellingService, group: str) -> list[str]:
    """Tell the number of items and answers of a group, and how much of its order may be wrong.

    There is no line if the items have no groups, or no model was fitted yet.
    """
    from store.service.sentences import expected_errors

    groups_of_items = service.items.groups
    standings = service.remaining.groups
    if groups_of_items is None or not standings:
        return []
    group_names = list(dict.fromkeys(groups_of_items))  # in the order of the standings
    standing = standings[group_names.index(group)]
    counts = f"{count(standing.items, 'item')}, {count(standing.answers, 'answer')}"
    errors = expected_errors(service.remaining.goal, standing.wrong)
    return [f"{printable(group)}: {counts}; {errors}"]


def _note_on_shares_of_votes(service: LabellingService) -> str:
    """Name the models whose probabilities still count as shares of votes, as in version 0.4.

    The text is empty if there are no such models.
    """
    names = service.models_of_before()
    if not names:
        return ""
    arguments = ["annotators", "probabilities", service.collection.name, names[0], "measurement"]
    command = printable(shlex.join(["sortnet", *arguments]))
    return (
        "computed again, as models' errors are measured since SortNet 0.5; "
        f"p of {printable(', '.join(names))} still "
        f"counts as a share of votes: {command} changes that"
    )


def _status_lines(service: LabellingService, *, verbose: bool) -> list[str]:
    """Write the lines about a collection: its number of answers, the distance to the goal, notes.

    Args:
        service: the labelling service of the collection.
        verbose: whether to add details of the distance, and how well the model predicts answers.
    """
    from store.service import sentences

    answers = answers_in_words(service)  # such as "9 answers by 2 people"
    if not answers:
        return [f"no judgements yet: sortnet label {shlex.quote(service.collection.name)}"]
    remaining = service.remaining
    lines = [f"{len(service.items)} items, {answers}; {short_status(service)}"]
    note_on_uncompared_items = sentences.sets_apart(remaining)
    note_on_shares_of_votes = _note_on_shares_of_votes(service)
    for note in (note_on_uncompared_items, note_on_shares_of_votes):
        if note:
            lines.append(note)
    if not verbose:
        return lines
    set_size = service.study.set_size
    if set_size > 2:
        lines.append(f"questions are about {set_size} items")
    return [*lines, *sentences.details(remaining), sentences.model_check(remaining)]
