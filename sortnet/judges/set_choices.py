"""What a text says about more than two items: the best, and the worst, or a ranking of all."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sortnet.judges.asked_pairs import PLACES

SAME = "same"  # what is answered in place of a letter if all are equally good
_MARKS = r"[\s:*_\"'`(\[<=#-]*"
_NOUN = r"(?i:item|text|option|answer|choice|one)(?![^\W_])"
# A letter, but no article ("A good text ..."), and no choice between two ("A or B").
_AFTER_A = r"because|since|as|is|and|for|with|by|due|has|in|which|then|worst"
_LETTER = (
    rf"([B-F](?!\w)|A(?!\w)(?! (?!(?:{_AFTER_A})\b)[a-z]))(?!\s*(?:or|and|[,/&=])\s*[A-F](?!\w))"
)
_NAMED = {
    name: re.compile(
        rf"(?<![^\W_])(?i:{name})(?![^\W_])(?:{_MARKS}{_NOUN})?{_MARKS}(?:(?i:is){_MARKS})?"
        rf"(?:{_NOUN}{_MARKS})?{_LETTER}"
    )
    for name in ("best", "worst", "answer")
}
_LINE = re.compile(r"\A[\W_]*\Z|\A.*\n[\W_]*\Z", re.DOTALL)  # what is before a line's first word
_SAME = re.compile(
    rf"(?i)(?:(?<![^\W_])(?:best|answer){_MARKS}|\A[\W_]*)(?:same|equal|tie)(?![^\W_])"
)
_IN_A_LINE = re.compile(r"(?<!\w)[A-F](?:[^\w<=\n]+[A-F])+(?!\w)")
_ASCENDING = re.compile(r"(?<!\w)[A-F](?:\s*<\s*[A-F])+(?!\w)")
_NUMBERED = re.compile(r"(?<!\w)[A-F](?:[^\w<=\n]*\n[^\w<=\n]*(?:\d+[^\w<=\n]+)?[A-F](?!\w))+")
_WORST_FIRST = re.compile(r"(?i)worst\s+(?:to|first)|ascending")
_TWO = re.compile(r"[\W_]*([A-F])[^\w<=/&]+([A-F])[\W_]*")
_ONE = re.compile(r"[\s*_\"'`(\[#]*([A-F])[*_\"'`)\]]*\s*(?:[.,:;\n-]|$)")
_OF_ANSWERS = re.compile(r"(?i)(?<![^\W_])(?:best|worst|same|answer|json|[A-F])(?![^\W_])|[\W_]")


@dataclass(frozen=True)
class SetChoice:
    """What a text says about more than two items.

    Attributes:
        best, worst: letters of places; no best: all are equally good.
        best_at, worst_at: where the letters are in the text.
        ranks_all: whether the text has a ranking of all items.
    """

    best: str | None = None
    worst: str | None = None
    best_at: int = 0
    worst_at: int = 0
    ranks_all: bool = False


def choice_in(text: str, n_items: int, *, worst: bool) -> SetChoice | None:
    """The choice that a text answers with; None if it has none, or several that differ.

    Args:
        text: of the answer.
        n_items: number of items in question, of which the places have the letters from A.
        worst: whether the worst was asked for, too.

    >>> def letters(text):
    ...     choice = choice_in(text, 4, worst=True)
    ...     return choice and (choice.best, choice.worst)
    >>> letters("**Best:** B, **worst:** D"), letters("C > A > D > B"), letters("Best: A or B")
    (('B', 'D'), ('C', 'B'), None)
    """
    if choice := _named(text, worst=worst):
        return _sound(choice, n_items)
    if _SAME.search(text):
        return SetChoice()
    if choice := _ranking(text, n_items):
        return choice if worst else SetChoice(choice.best, best_at=choice.best_at, ranks_all=True)
    if worst and (two := _TWO.fullmatch(text)):
        return _sound(SetChoice(two[1], two[2], two.start(1), two.start(2)), n_items)
    if not worst and (one := _one(text)):
        return _sound(SetChoice(one[1], best_at=one.start(1)), n_items)
    return None


def is_bare_choice(text: str) -> bool:
    """Whether a text holds letters, the words that they were asked for with, and nothing else.

    >>> is_bare_choice("Best: B, worst: D"), is_bare_choice("Best: B, which is short. Worst: D")
    (True, False)
    """
    return not _OF_ANSWERS.sub("", text)


def letter_shares(
    choice: SetChoice, tokens: Sequence[Any], n_items: int
) -> dict[str, dict[str, float]]:
    """How probable each letter was as the best and the worst, by the tokens of an answer.

    The shares are of the letters that the server names. Empty where it names none.
    """
    shares = {}
    for name, letter, position in (
        ("best", choice.best, choice.best_at),
        ("worst", choice.worst, choice.worst_at),
    ):
        share = None if letter is None else _shares_at(tokens, position, letter, n_items)
        if share:
            shares[name] = share
    return shares


def _named(text: str, *, worst: bool) -> SetChoice | None:
    """A choice by the words `best` and `worst`; None if one of them has no letter, or several."""
    best = _match_of("best", text)
    if best is None:
        return None
    if not worst:
        return SetChoice(best[1], best_at=best.start(1))
    last = _match_of("worst", text)
    return last and SetChoice(best[1], last[1], best.start(1), last.start(1))


def _match_of(name: str, text: str) -> re.Match[str] | None:
    """Where a letter follows a word: at the start of a line, else anywhere, but one letter only."""
    matches = [*_NAMED[name].finditer(text)]
    in_lines = [match for match in matches if _LINE.match(text[: match.start()])]
    candidates = in_lines or matches
    if len({match[1] for match in candidates}) != 1:
        return None
    return candidates[-1]


def _one(text: str) -> re.Match[str] | None:
    """Where a text has the letter that it answers with."""
    return _match_of("answer", text) or _ONE.match(text)


def _ranking(text: str, n_items: int) -> SetChoice | None:
    """The first and the last of a ranking of all items; None if there is none, or several."""
    rankings = []
    for pattern in (_IN_A_LINE, _ASCENDING, _NUMBERED):
        for run in pattern.finditer(text):
            letters = [*re.finditer(r"[A-F]", run[0])]
            if sorted(letter[0] for letter in letters) != [*PLACES[:n_items]]:
                continue
            before = text[: run.start()].rsplit("\n", 2)[-2:]
            is_ascending = pattern is _ASCENDING or _WORST_FIRST.search(" ".join(before))
            rankings.append((run.start(), [*reversed(letters)] if is_ascending else letters))
    if len({tuple(letter[0] for letter in letters) for _, letters in rankings}) != 1:
        return None
    start, letters = rankings[0]
    first, last = letters[0], letters[-1]
    return SetChoice(first[0], last[0], start + first.start(), start + last.start(), True)


def _sound(choice: SetChoice, n_items: int) -> SetChoice | None:
    """A choice of two different places that are in question; None for another one."""
    letters = [letter for letter in (choice.best, choice.worst) if letter is not None]
    if len({*letters}) < len(letters) or not {*letters} <= {*PLACES[:n_items]}:
        return None
    return choice


def _shares_at(
    tokens: Sequence[Any], position: int, letter: str, n_items: int
) -> dict[str, float] | None:
    """The shares of the letters in the token at a position of the text."""
    mass = dict.fromkeys(PLACES[:n_items], 0.0)
    end = 0
    try:
        for token in tokens:
            end += len(token["token"])
            if end <= position:
                continue
            if _letter_of(token) != letter:
                return None
            for candidate in token.get("top_logprobs") or ():
                name = _letter_of(candidate)
                if name in mass:
                    mass[name] += math.exp(min(float(candidate["logprob"]), 0.0))
            total = sum(mass.values())
            if not (total and math.isfinite(total)):
                return None
            return {name: round(value / total, 4) for name, value in mass.items() if value}
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError):
        return None
    return None


def _letter_of(token: Mapping[str, Any]) -> str:
    """A token without spaces and marks around a letter."""
    return str(token["token"]).strip(" \t\r\n:\"'`*([")
