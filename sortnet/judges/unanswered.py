"""Keep a record of the questions that a judge leaves unanswered: their reasons and their items."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sortnet.judges.faults import Reason
from sortnet.messages import count, cut

RECENT = 10  # the last questions, of which ...
MOST_UNANSWERED = 9  # ... so many without an answer end the asking
_SEVERAL = 5
_LEAST_IN_COMMON = 2  # questions without an answer that have an item in common
_LONGEST_COMMENT = 120  # most characters of a judge's words
_ADVICE = {
    Reason.TOO_LONG: "shorten the items, or ask another model",
    Reason.FILTERED: "ask another model, or by another prompt",
    Reason.REFUSED: "ask by another request, or by another prompt",
    Reason.UNREADABLE: "give a larger max_tokens, structured, or another prompt",
    Reason.ERROR: "mend the judge",
}


class Unanswered(NamedTuple):
    """A question that got no answer.

    Attributes:
        items: ids of its items.
        why: the reason.
        comment: the judge's words.
    """

    items: frozenset[str]
    why: Reason
    comment: str


@dataclass
class AnswerRecord:
    """Record of the questions to a judge, from which it follows whose fault missing answers are.

    If an item is in two questions without an answer, and in no question with an answer, the item
    is left out. If nine of the last ten questions got no answer, the judge is not asked any more.
    The caller must hold a lock.

    Attributes:
        answered_items: ids of the items about which the judge has answered a question.
        n_answered: number of questions that were answered.
        left_out: ids of the items about which the judge is not asked.

    >>> record = AnswerRecord()
    >>> record.note_answer({"b", "c"})
    >>> for other in "bc":
    ...     record.note_unanswered(Unanswered(frozenset({"a", other}), Reason.FILTERED, "flagged"))
    set()
    {'a'}
    >>> record.left_out, record.why_no_more()
    ({'a'}, '')
    """

    answered_items: set[str] = field(default_factory=set)
    n_answered: int = 0
    left_out: set[str] = field(default_factory=set)
    # The last questions; None stands for a question that was answered.
    _recent: deque[Unanswered | None] = field(default_factory=lambda: deque(maxlen=RECENT))
    _n_unanswered: int = 0
    # The items of each question without an answer that no left out item explains.
    _unexplained: set[frozenset[str]] = field(default_factory=set)

    def note_answer(self, items: Iterable[str]) -> None:
        """Note that the judge has answered a question about items."""
        self.answered_items.update(items)
        self.left_out -= self.answered_items
        self.n_answered += 1
        self._recent.append(None)

    def note_unanswered(self, question: Unanswered) -> set[str]:
        """Note a question that got no answer; return the items that are left out from now on."""
        self._recent.append(question)
        self._n_unanswered += 1
        all_items = {*self._unexplained, question.items}
        self._unexplained = {items for items in all_items if items.isdisjoint(self.left_out)}
        n_questions = Counter(item for items in self._unexplained for item in items)
        suspects = question.items - self.answered_items
        new = {item for item in suspects if n_questions[item] >= _LEAST_IN_COMMON}
        self.left_out |= new
        return new

    def why_no_more(self) -> str:
        """Return why the judge is not asked any more; empty while it answers often enough."""
        n_unanswered = sum(question is not None for question in self._recent)
        return self._summary() if n_unanswered >= MOST_UNANSWERED else ""

    def why_useless(self, last: Sequence[Collection[str]] = ()) -> str:
        """Return why the asking was no success; empty if it was one.

        It was none if more than two of three questions, and several, got no answer. Nor was it one
        if the last questions got no answer, and no answer in this process or before it shows that
        their items are to blame.

        Args:
            last: the items of each of the last questions without an answer.
        """
        is_rare = self._n_unanswered >= max(_SEVERAL, 2 * self.n_answered + 1)
        # The judge has answered about other items, and never about some item of each question.
        is_explained = self.answered_items and not any(map(self.answered_items.issuperset, last))
        is_none = last and not self.n_answered and not is_explained
        return self._summary() if is_rare or is_none else ""

    def _summary(self) -> str:
        """Describe the last questions without an answer: their number, commonest reason, advice."""
        unanswered = [question for question in self._recent if question is not None]
        ((why, _),) = Counter(question.why for question in unanswered).most_common(1)
        comment = next(question.comment for question in reversed(unanswered) if question.why is why)
        return (
            f"failed at {len(unanswered)} of the last {count(len(self._recent), 'question')}, "
            f"most often {why.value}: {cut(comment, _LONGEST_COMMENT)}; {_ADVICE[why]}"
        )


def skipped_text(n_skipped: Mapping[str, int]) -> str:
    """Describe the number of skips, and each reason with its number.

    >>> skipped_text({"filtered": 2, "by the judge": 1})
    '3 skipped (2 filtered, 1 by the judge)'
    """
    reasons = ", ".join(f"{number} {reason}" for reason, number in n_skipped.items())
    return f"{sum(n_skipped.values())} skipped ({reasons})"
