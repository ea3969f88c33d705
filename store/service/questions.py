"""Show and change what a collection asks: the question, its goal, gold pairs, quotas etc."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from sortnet.errors import DataError
from sortnet.files import Record
from sortnet.messages import count

if TYPE_CHECKING:
    from sortnet.items import Items
    from sortnet.preference.stopping import Goal
    from sortnet.preference.study import Decision, Study
    from store import Collection


def question_decisions(
    *,
    question: str | None = None,
    instructions: str | None = None,
    goal: Goal | None = None,
    deadline: float | None = None,
    overlap: int | None = None,
    set_size: int | None = None,
    worst: bool | None = None,
    quotas: Sequence[tuple[str, int]] = (),
    kinds: Sequence[tuple[str, str]] = (),
) -> list[Decision]:
    """Turn changes of what annotators are asked into decisions; None or empty changes nothing.

    Args:
        question: the question about each pair.
        instructions: path of a Markdown file; `none` removes the instructions.
        goal: the goal at which the asking stops.
        deadline: time after which nothing is asked, in seconds since 1970; 0: no deadline.
        overlap: number of annotators who answer each pair before new pairs are asked.
        set_size: number of items of a question.
        worst: whether a question about more than two items also asks for the worst item.
        quotas: pairs (annotator, most answers), where 0 removes the quota.
        kinds: pairs (annotator, kind), where kind is `person` or `model`.

    Raises:
        DataError: if the file of instructions cannot be read.
    """
    from sortnet.preference.study import Decision

    texts = {
        "question": question,
        "instructions": None if instructions is None else _read_instructions(instructions),
    }
    amounts = {
        "goal": None if goal is None else goal.wrong,
        "top": None if goal is None else goal.top,
        "deadline": deadline,
        "overlap": overlap,
        "set-size": set_size,
        "worst": None if worst is None else int(worst),
    }
    return [
        *(Decision(kind, reason=text) for kind, text in texts.items() if text is not None),
        *(Decision(kind, amount=value) for kind, value in amounts.items() if value is not None),
        *(Decision("quota", annotator, amount=n_answers) for annotator, n_answers in quotas),
        *(Decision(kind, annotator) for annotator, kind in kinds),
    ]


def change_questions(
    collection: Collection, criterion: str | None, decisions: Sequence[Decision]
) -> None:
    """Store decisions about what annotators are asked, in a collection or one of its criteria.

    Args:
        collection: the collection.
        criterion: name of the criterion that is changed, which is added if it is new; None: the
            decisions are about the collection.
        decisions: the decisions.

    Raises:
        DataError: if all items would be top items, or a question is about more items than there
            are; then no criterion is added.
    """
    criteria = {asked.criterion: asked for asked in collection.asked()}
    # A new criterion has no row yet, so the collection is checked, which has the same items.
    changed = criteria.get(criterion, collection)
    for decision in decisions:
        number = int(decision.amount or 0)  # 0: the whole order, or pairs
        if decision.kind == "set-size":
            check_set_size(collection.items(), number, changed.study().retired)
        elif decision.kind == "top" and number:
            n_items, in_group = largest_group(collection.items(), changed.study().retired)
            if number >= n_items:
                items = f"{count(n_items, 'item')}{in_group}"
                raise DataError(f"--goal: top {number} of {items}: all of them are the top")
    if criterion is not None and criterion not in criteria:
        changed = collection.add_criterion(criterion)
    if decisions:
        changed.decide(*decisions)


def change_gold(
    collection: Collection, file: str | None, rate: float | None, *, remove: bool
) -> tuple[Study, int]:
    """Add or remove gold pairs, and set the share of the questions that are about gold pairs.

    Args:
        file: file of pairs to add or remove; None: the pairs stay.
        rate: share of the questions that are about gold pairs; None: the share stays.
        remove: whether the pairs of the file are removed.

    Returns:
        The study after the change, and the number of requested changes that had been made before.

    Raises:
        DataError: if the file cannot be used.
    """
    from sortnet.preference.study import Decision
    from store.collections.judgement_lines import read_gold

    items = collection.items()
    decisions = [] if file is None else read_gold(file, items, remove=remove)
    if rate is not None:
        decisions.append(Decision("gold-rate", amount=rate))
    stored = collection.decide(*decisions)
    return collection.study(), len(decisions) - len(stored)


def check_set_size(items: Items, set_size: int, retired: Iterable[int] = ()) -> None:
    """Raise DataError if the largest group has fewer than `set_size` items.

    In smaller groups, questions are about fewer items.

    Args:
        items: the items of a collection.
        set_size: number of items of a question.
        retired: items that nobody is asked about.
    """
    n_items, in_group = largest_group(items, retired)
    # A session refuses fewer than two items, so pairs are always allowed here.
    if set_size > max(n_items, 2):
        raise DataError(
            f"a question about {set_size} items, but there are only {n_items}{in_group}: ask about "
            "fewer"
        )


def largest_group(items: Items, retired: Iterable[int] = ()) -> tuple[int, str]:
    """Count the items of the largest group, and tell for messages where the items are.

    Args:
        items: the items of a collection.
        retired: items that are not counted.

    Returns:
        The number of items, and the words ` in the largest group`. Without groups, all items are
        counted, and the words are empty.
    """
    if items.groups is None:
        return len(items) - len({*retired}), ""
    sizes = Counter(items.groups)
    sizes.subtract(items.groups[item] for item in retired)
    return max(sizes.values(), default=0), " in the largest group"


def question_facts(collection: Collection) -> list[Record]:
    """Return facts about the question of each criterion, or about a collection's only question."""
    with collection.database.one_state():
        return [_question_facts(criterion) for criterion in collection.asked()]


def _question_facts(collection: Collection) -> Record:
    """Return facts about what a collection or a criterion asks, such as its question and goal."""
    study = collection.study()
    deadline: str | None = None
    if study.deadline:
        deadline = datetime.fromtimestamp(study.deadline, UTC).isoformat()
    return {
        "name": collection.name,
        "criterion": collection.criterion,
        "question": study.question,
        "instructions": study.instructions,
        "goal": study.goal or None,
        "top": study.top or None,
        "deadline": deadline,
        "overlap": study.overlap,
        "set_size": study.set_size,
        "worst": study.worst and study.set_size > 2,
        "quotas": dict(study.quotas),
        "models": sorted(study.models),
        "judgements": collection.n_judgements,
    }


def _read_instructions(file: str) -> str:
    """Read the instructions in a file; the name `none` stands for empty instructions."""
    if file == "none":
        return ""
    try:
        return Path(file).read_text(encoding="utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise DataError(f"{file}: is not UTF-8 text (byte {error.start})") from None
    except OSError as error:
        raise DataError(f"{file}: {error.strerror}") from None
