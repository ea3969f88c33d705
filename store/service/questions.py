"""Show and change the questions that a collection asks: text, goal, deadline, quotas etc."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sortnet.errors import DataError
from sortnet.messages import count

if TYPE_CHECKING:
    from sortnet.items import Items
    from sortnet.preference.goal import Goal
    from sortnet.preference.study import Decision
    from store import Collection


@dataclass(frozen=True)
class QuestionChanges:
    """Changes of what annotators are asked; a value that is None or empty changes nothing.

    Attributes:
        question: the question about each pair.
        instructions: a file of Markdown, or `none`.
        criterion: the criterion that is changed; a new one is added.
        goal: the goal at which the asking stops.
        deadline: seconds since 1970 after which nothing is asked; 0: no deadline.
        overlap: number of annotators who answer each pair before new pairs are asked.
        set_size: number of items of a question.
        worst: whether a question about more than two items also asks for the worst item.
        quotas: pairs (annotator, most answers); 0: no quota.
        kinds: pairs (annotator, kind), where kind is `person` or `model`.
    """

    question: str | None = None
    instructions: str | None = None
    criterion: str | None = None
    goal: Goal | None = None
    deadline: float | None = None
    overlap: int | None = None
    set_size: int | None = None
    worst: bool | None = None
    quotas: tuple[tuple[str, int], ...] = ()
    kinds: tuple[tuple[str, str], ...] = ()

    def decisions(self) -> list[Decision]:
        """Turn the changes into decisions to store.

        Raises:
            DataError: if the file of instructions cannot be read.
        """
        from sortnet.preference.study import Decision

        decisions = []
        if self.question is not None:
            decisions.append(Decision("question", reason=self.question))
        if self.instructions is not None:
            text = _read_instructions(self.instructions)
            decisions.append(Decision("instructions", reason=text))
        for kind, amount in self._amounts():
            decisions.append(Decision(kind, amount=amount))
        for annotator, n_answers in self.quotas:
            decisions.append(Decision("quota", annotator=annotator, amount=n_answers))
        for annotator, kind in self.kinds:
            decisions.append(Decision(kind, annotator=annotator))
        return decisions

    def _amounts(self) -> Iterator[tuple[str, float]]:
        """Yield the kind and the amount of each decision that is a number."""
        if self.goal is not None:
            yield "goal", self.goal.wrong
            yield "top", self.goal.top
        if self.deadline is not None:
            yield "deadline", self.deadline
        if self.overlap is not None:
            yield "overlap", self.overlap
        if self.set_size is not None:
            yield "set-size", self.set_size
        if self.worst is not None:
            yield "worst", int(self.worst)


def change_questions(
    collection: Collection, criterion: str | None, goal: Goal | None, decisions: list[Decision]
) -> None:
    """Store decisions about what annotators of a collection, or of a criterion, are asked.

    Args:
        criterion: the criterion that is changed, added if it is new; None: the collection.
        goal: the goal among the decisions.

    Raises:
        DataError: if the goal is a top of all items, or a question is about more items than there
            are; then no criterion is added.
    """
    if criterion is None:
        _check_goal_and_set_size(collection, goal, decisions)
    else:
        criteria = {asked.criterion: asked for asked in collection.asked()}
        _check_goal_and_set_size(criteria.get(criterion, collection), goal, decisions)
        collection = criteria.get(criterion) or collection.add_criterion(criterion)
    if decisions:
        collection.decide(*decisions)


def _check_goal_and_set_size(
    collection: Collection, goal: Goal | None, decisions: Sequence[Decision]
) -> None:
    """Refuse a top of all items, and questions about more items than there are."""
    if goal is not None and goal.top:
        _refuse_top_of_all(collection, goal.top)
    for decision in decisions:
        if decision.kind == "set-size":
            retired = collection.study().retired
            check_set_size(collection.items(), int(decision.amount or 2), retired)


def check_set_size(items: Items, set_size: int, retired: Iterable[int] = ()) -> None:
    """Refuse questions about more items than the largest group has.

    In smaller groups, questions are about fewer items.

    Args:
        retired: items that nobody is asked about.

    Raises:
        DataError: if the largest group has fewer than `set_size` items.
    """
    n_items, in_group = largest_group(items, retired)
    if set_size > max(n_items, 2):
        raise DataError(
            f"a question about {set_size} items, but there are only {n_items}{in_group}: ask about "
            "fewer"
        )


def largest_group(items: Items, retired: Iterable[int] = ()) -> tuple[int, str]:
    """Return the number of items in the largest group, and words for a message about it.

    The words are ` in the largest group`, or empty if there are no groups.

    Args:
        retired: items that are not counted.
    """
    if items.groups is None:
        return len(items) - len({*retired}), ""
    sizes = Counter(items.groups)
    sizes.subtract(items.groups[item] for item in retired)
    return max(sizes.values(), default=0), " in the largest group"


def question_facts(collection: Collection) -> list[dict[str, Any]]:
    """Return facts about each criterion's question, or about the only question."""
    return [_facts(criterion) for criterion in collection.asked()]


def _facts(collection: Collection) -> dict[str, Any]:
    """Return the question of a collection with its goal, quotas and number of judgements."""
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


def _refuse_top_of_all(collection: Collection, top: int) -> None:
    """Refuse a top that all items of each group would belong to; retired items do not count."""
    n_items, in_group = largest_group(collection.items(), collection.study().retired)
    if top >= n_items:
        raise DataError(
            f"--goal: top {top} of {count(n_items, 'item')}{in_group}: all of them are the top"
        )


def _read_instructions(file: str) -> str:
    """Read the instructions in a file; the name `none` means no instructions."""
    if file == "none":
        return ""
    try:
        return Path(file).read_text(encoding="utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise DataError(f"{file}: is not UTF-8 text (byte {error.start})") from None
    except OSError as error:
        raise DataError(f"{file}: {error.strerror}") from None
