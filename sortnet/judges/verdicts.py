"""Verdicts of machine judges on a question, and the faults that come in place of one."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sortnet.judges.asked_pairs import PLACES
from sortnet.messages import cut, printable
from sortnet.preference import ANSWERS, Answer, Judgement, Question
from sortnet.preference.base import LONGEST_COMMENT, LONGEST_META, SET_ANSWERS

REPLIES = tuple(answer for answer in ANSWERS if answer not in ("undo", *SET_ANSWERS))
SET_REPLIES: tuple[Answer, ...] = ("same", "skip", "cant-say")  # that choose none of a set
KNOWN = (
    *("id", "answer", "best", "worst", "p", "comment", "flag", "seconds"),
    *("cost", "meta", "retry_after"),
)  # keys of an answer
_SECONDS = 86_400.0  # a day: more is no time that an answer took, or that one waits


class Fault(Exception):
    """A failure at one pair, in one line; the next may succeed. What was answered before counts."""

    def __init__(self, why: str, answered: Sequence[Verdict] = ()) -> None:
        super().__init__(why)
        self.answered = answered


class Refused(Fault):
    """A failure that every pair would meet, such as a wrong key."""


class Enough(Fault):
    """No failure: no more may be asked, as a cost is reached."""


@dataclass(frozen=True)
class Verdict:
    """An answer about a question, with the facts of a `Judgement`."""

    answer: Answer  # as of a person
    p: float | None = None  # how probably the left item is better
    comment: str | None = None
    flagged: bool | None = None
    milliseconds: int | None = None
    cost: float | None = None
    meta: str | None = None
    left_out: str | None = None  # an item that the judge cannot take: not asked about again
    best: int | None = None  # place of the best of more than two items, from 0
    worst: int | None = None  # place of the worst, if it was asked for

    def facts(self) -> dict[str, Any]:
        """What a judgement holds besides the answer."""
        return {k: v for k, v in vars(self).items() if k not in _NO_FACTS}

    def judgement(self, question: Question, annotator: str) -> Judgement:
        """The judgement of an annotator whose verdict it is."""
        if self.best is None:
            return question.answered(annotator, self.answer, **self.facts())
        return question.answered_by_place(annotator, self.best, self.worst, **self.facts())


_NO_FACTS = ("answer", "left_out", "best", "worst")


def word_of(p: float) -> Answer:
    """The answer that a probability of the left item stands for.

    >>> word_of(0.9), word_of(0.5), word_of(0.2)
    ('left', 'tie', 'right')
    """
    return "tie" if p == 0.5 else "left" if p > 0.5 else "right"


def verdict_of(
    reply: Mapping[str, Any], quoted: str, n_items: int = 2, *, worst: bool = False
) -> Verdict | float:
    """Verdict in a program's reply, or the seconds after which it is to be asked again.

    Args:
        reply: the reply.
        quoted: the reply as a message shows it.
        n_items: number of items that the program was asked about.
        worst: whether it was asked for the worst, too.

    Raises:
        Fault: if it is neither; the message has the answer `quoted`.
    """
    if (seconds := _number(reply, "retry_after", _SECONDS, quoted)) is not None:
        return seconds
    choice = _choice(reply, quoted) if n_items == 2 else _set_choice(reply, quoted, n_items, worst)
    comment, flag, meta = reply.get("comment"), reply.get("flag"), reply.get("meta")
    if not isinstance(comment, str | None) or not isinstance(flag, bool | None):
        raise Fault(f"its comment is no text, or its flag neither true nor false: {quoted}")
    seconds_taken = _number(reply, "seconds", _SECONDS, quoted)
    return replace(
        choice,
        comment=stored_text(comment), flagged=flag or None,
        milliseconds=None if seconds_taken is None else int(1000 * seconds_taken),
        cost=_number(reply, "cost", math.inf, quoted), meta=stored_meta(meta),
    )  # fmt: skip


def _choice(reply: Mapping[str, Any], quoted: str) -> Verdict:
    """What a reply says about two items."""
    p = _number(reply, "p", 1.0, quoted)
    answer = reply.get("answer")
    if answer is None and p is not None:
        answer = word_of(p)
    if not isinstance(answer, str) or answer not in REPLIES:
        raise Fault(f"its answer is not one of {', '.join(REPLIES)}: {quoted}")
    return Verdict(answer, p)


def _set_choice(reply: Mapping[str, Any], quoted: str, n_items: int, worst: bool) -> Verdict:
    """What a reply says about more than two items."""
    if reply.get("p") is not None:
        raise Fault(f"a p is for two items, and it was asked about {n_items}: {quoted}")
    answer = reply.get("answer")
    names = ("best", "worst") if worst else ("best",)
    if answer in SET_REPLIES:
        if any(reply.get(name) is not None for name in names):
            raise Fault(f"its answer is {answer}, and it names a best or a worst: {quoted}")
        return Verdict(answer)
    if answer not in (None, "best"):
        raise Fault(
            f"its answer about {n_items} items is not one of {', '.join(SET_REPLIES)}, nor does it "
            f"name the {' and the '.join(names)}: {quoted}"
        )
    places = [_place(reply, name, quoted, n_items) for name in names]
    if len({*places}) < len(places):
        raise Fault(f"its best is its worst, too: {quoted}")
    return Verdict("best", best=places[0], worst=places[1] if worst else None)


def _place(reply: Mapping[str, Any], name: str, quoted: str, n_items: int) -> int:
    """The place that a reply names, from 0."""
    letter = reply.get(name)
    if not isinstance(letter, str) or len(letter) != 1 or letter not in PLACES[:n_items]:
        raise Fault(f"its {name} is none of the places {', '.join(PLACES[:n_items])}: {quoted}")
    return PLACES.index(letter)


def stored_text(text: str | None, longest: int = LONGEST_COMMENT) -> str | None:
    """As much of a text as is kept, without what no database keeps; None if nothing is left."""
    if text is None:
        return None
    sound = text.replace("\0", "").encode(errors="replace").decode().strip()
    return (sound if len(sound) <= longest else sound[: longest - 2] + " …") or None


def stored_meta(meta: Any) -> str | None:
    """Further facts as JSON; those that are too long are not kept but for a word that says so."""
    if meta is None:
        return None
    text = json.dumps(meta, ensure_ascii=True)
    return text if len(text) <= LONGEST_META else json.dumps({"too_long": len(text)})


def quote(line: bytes | str) -> str:
    """The start of an answer, for a message."""
    text = line.decode("utf-8", "replace") if isinstance(line, bytes) else line
    return cut(printable(text), 83)


def _number(reply: Mapping[str, Any], name: str, most: float, quoted: str) -> float | None:
    value = reply.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        limit = "" if most == math.inf else f" to {most:g}"
        raise Fault(f"its {name} is not a number from 0{limit}: {quoted}")
    return float(value) if math.isfinite(value) else None
