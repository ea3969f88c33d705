"""Verdicts of judges that are not people, and exceptions that are raised in place of a verdict."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sortnet.files import Record
from sortnet.judges.asked_question import PLACES
from sortnet.judges.faults import Reason
from sortnet.judges.parse_choice import SAME, read_phrase
from sortnet.messages import cut, printable
from sortnet.preference import Judgement, Question
from sortnet.preference.base import LONGEST_COMMENT, LONGEST_META, Word

REPLIES: tuple[Word, ...] = ("left", "right", "tie", "skip", "cant-say")
CHOICES_OF_TWO: dict[str, Word] = {"A": "left", "B": "right", SAME: "tie"}
SET_REPLIES: tuple[Word, ...] = ("same", "skip", "cant-say")  # replies without a best item
_MOST_SECONDS = 86_400.0  # a day, the longest time of an answer or a wait


class Fault(Exception):
    """Raised if a judge fails at a question; the next question may succeed."""


class Unreachable(Fault):
    """Raised if the server of a model cannot be reached, or does not answer in time."""


class Refused(Fault):
    """Raised if every question would fail, for example because of a wrong key."""


class Enough(Fault):
    """Raised when a limit is reached, so that nothing more is asked; not counted as a failure."""


@dataclass(frozen=True)
class Verdict:
    """A judge's answer to a question, with further facts that are stored in a `Judgement`."""

    answer: Word
    p: float | None = None  # probability that the left item is better
    comment: str | None = None
    flagged: bool | None = None
    milliseconds: int | None = None
    cost: float | None = None
    meta: str | None = None
    why: Reason | None = None  # why there is no answer; None: the judge gave the answer
    error: BaseException | None = None  # the exception of a function that gave no answer
    best: int | None = None  # place of the best item, from 0, if there are more than two
    worst: int | None = None  # place of the worst item, from 0, if it was asked for

    @classmethod
    def by_place(cls, n_items: int, best: int, worst: int | None = None) -> Verdict:
        """Make the verdict that names the best of the items by its place, and perhaps the worst."""
        if n_items == 2:
            return cls("right" if best else "left")
        return cls("best", best=best, worst=worst)

    def judgement(self, question: Question, annotator: str) -> Judgement:
        """Make the judgement that stores the verdict under the name of an annotator."""
        facts = {name: value for name, value in vars(self).items() if name not in _NOT_FACTS}
        if self.best is None:
            return question.answered(annotator, self.answer, **facts)
        return question.answered_by_place(annotator, self.best, self.worst, **facts)


_NOT_FACTS = ("answer", "why", "error", "best", "worst")


def unanswered(
    why: Reason,
    comment: str,
    *,
    meta: Mapping[str, Any] | None = None,
    error: BaseException | None = None,
    **facts: Any,
) -> Verdict:
    """Make the skip of a question that got no answer through its own fault.

    Args:
        why: the reason, which is stored in `meta` under `unanswered`.
        comment: the judge's words.
        meta: further facts.
        error: the exception of a function.
        facts: further fields of the verdict.
    """
    stored = stored_meta({**(meta or {}), "unanswered": why.value})
    return Verdict("skip", comment=stored_text(comment), meta=stored, why=why, error=error, **facts)


def answer_at(p: float) -> Word:
    """Convert a probability that the left item is better to an answer.

    >>> answer_at(0.9), answer_at(0.5), answer_at(0.2)
    ('left', 'tie', 'right')
    """
    if p == 0.5:
        return "tie"
    return "left" if p > 0.5 else "right"


def parse_verdict(reply: Record, quoted: str, n_items: int, *, worst: bool) -> Verdict | float:
    """Read a program's reply: a verdict, or the seconds to wait until the question is asked again.

    Args:
        reply: the reply.
        quoted: start of the reply, for messages.
        n_items: number of items that the program was asked about.
        worst: whether the program was asked for the worst item, too.

    Raises:
        Fault: if the reply has neither a verdict nor a time; the message ends with `quoted`.
    """
    seconds_to_wait = _number(reply, "retry_after", _MOST_SECONDS, quoted)
    if seconds_to_wait is not None:
        return seconds_to_wait
    choice = _choice_of_two(reply, quoted) if n_items == 2 else _choice(reply, n_items, worst)
    if choice is None:
        asked = f"one of {', '.join(REPLIES)}"
        if n_items > 2:
            best = "different best and worst" if worst else "a best"
            places = ", ".join(PLACES[:n_items])
            asked = f"{best} of {places}, nor one of {', '.join(SET_REPLIES)}"
        raise Fault(f"its answer is not {asked}: {quoted}")
    comment = reply.get("comment")
    flag = reply.get("flag")
    if not isinstance(comment, str | None) or not isinstance(flag, bool | None):
        raise Fault(f"its comment is no text, or its flag neither true nor false: {quoted}")
    seconds = _number(reply, "seconds", _MOST_SECONDS, quoted)
    return replace(
        choice,
        comment=stored_text(comment),
        flagged=flag or None,  # an answer that is not flagged is stored without a flag
        milliseconds=None if seconds is None else int(1000 * seconds),
        cost=_number(reply, "cost", math.inf, quoted),
        meta=stored_meta(reply.get("meta")),
    )


def _choice_of_two(reply: Record, quoted: str) -> Verdict | None:
    """Read the answer about two items and its probability; None if the answer is not valid."""
    p = _number(reply, "p", 1.0, quoted)
    answer = reply.get("answer")
    if answer is None and p is not None:
        return Verdict(answer_at(p), p)
    word = CHOICES_OF_TWO.get(read_phrase(answer) or "", answer)
    return Verdict(word, p) if word in REPLIES else None


def _choice(reply: Record, n_items: int, worst: bool) -> Verdict | None:
    """Read the answer about more than two items; None if the reply has no valid answer."""
    names = ("best", "worst") if worst else ("best",)
    values = [reply[name] for name in names if reply.get(name) is not None]
    answer = reply.get("answer")
    if reply.get("p") is not None:  # only an answer about two items has a probability
        return None
    if answer in SET_REPLIES:
        return None if values else Verdict(answer)
    places = [PLACES[:n_items].find(read_phrase(value, n_items) or "-") for value in values]
    is_whole = len({*places}) == len(names) and -1 not in places
    return Verdict.by_place(n_items, *places) if is_whole and answer in (None, "best") else None


def stored_text(text: str | None) -> str | None:
    """Cut a text in its middle for the store, and remove characters that databases refuse.

    The choice of a model that thinks first is at the end. The result is None if nothing is left.
    """
    if text is None:
        return None
    storable = text.replace("\0", "").encode(errors="replace").decode().strip()
    if len(storable) > LONGEST_COMMENT:
        half = (LONGEST_COMMENT - 3) // 2
        storable = f"{storable[:half]} … {storable[-half:]}"
    return storable or None


def stored_meta(meta: Any) -> str | None:
    """Convert further facts to JSON for the store.

    If the JSON is too long, the result has only its length, {"too_long": length}.
    """
    if meta is None:
        return None
    text = json.dumps(meta, ensure_ascii=True)
    if len(text) > LONGEST_META:
        return json.dumps({"too_long": len(text)})
    return text


def quote(line: bytes | str) -> str:
    """Return the start of a program's answer, as a message shows it."""
    text = line.decode("utf-8", "replace") if isinstance(line, bytes) else line
    return cut(printable(text), 83)


def _number(reply: Record, name: str, most: float, quoted: str) -> float | None:
    """Read a number from a reply; None if the number is missing or infinite.

    Args:
        reply: the reply.
        name: key of the number.
        most: largest number that is valid.
        quoted: start of the reply, for messages.

    Raises:
        Fault: if the value is no number from 0 to `most`.
    """
    value = reply.get(name)
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= most:
        limit = "" if most == math.inf else f" to {most:g}"
        raise Fault(f"its {name} is not a number from 0{limit}: {quoted}")
    return float(value) if math.isfinite(value) else None
