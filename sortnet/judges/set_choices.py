"""Find a model's choice among more than two items in the text of its answer.

The text names the best item, or the best and the worst, or ranks all items.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sortnet.judges.asked_question import PLACES

SAME = "same"  # answered in place of a letter if all items are equally good
_MARKS = r"[\s:*_\"'`(\[<=#-]*"
_NOUN = r"(?i:item|text|option|answer|choice|one)(?![^\W_])"
# `_LETTER` must not find the article in "A good text ...", nor a letter in "A or B". An A before a
# word in `_AFTER_A` is a letter, and no article.
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
# This matches the text before a word if the word is the first in its line.
_LINE_START = re.compile(r"\A[\W_]*\Z|\A.*\n[\W_]*\Z", re.DOTALL)
_SAME = re.compile(
    rf"(?i)(?:(?<![^\W_])(?:best|answer){_MARKS}|\A[\W_]*)(?:same|equal|tie)(?![^\W_])"
)
_IN_A_LINE = re.compile(r"(?<!\w)[A-F](?:[^\w<=\n]+[A-F])+(?!\w)")
_ASCENDING = re.compile(r"(?<!\w)[A-F](?:\s*<\s*[A-F])+(?!\w)")
_NUMBERED = re.compile(r"(?<!\w)[A-F](?:[^\w<=\n]*\n[^\w<=\n]*(?:\d+[^\w<=\n]+)?[A-F](?!\w))+")
_WORST_FIRST = re.compile(r"(?i)worst\s+(?:to|first)|ascending")
_TWO = re.compile(r"[\W_]*([A-F])[^\w<=/&]+([A-F])[\W_]*")
_ONE = re.compile(r"[\s*_\"'`(\[#]*([A-F])[*_\"'`)\]]*\s*(?:[.,:;\n-]|$)")
_ANSWER_WORDS = re.compile(r"(?i)(?<![^\W_])(?:best|worst|same|answer|json|[A-F])(?![^\W_])|[\W_]")


@dataclass(frozen=True)
class SetChoice:
    """The best and the worst of more than two items, as they are named in a text.

    Attributes:
        best, worst: letters of the items' places; best is None if all items are equally good.
        best_at, worst_at: positions of the letters in the text.
        ranks_all: whether the text has a ranking of all items.
    """

    best: str | None = None
    worst: str | None = None
    best_at: int = 0
    worst_at: int = 0
    ranks_all: bool = False


def choice_in(text: str, n_items: int, *, worst: bool) -> SetChoice | None:
    """Find the choice in the text of an answer; None without a choice, or with several.

    Args:
        text: text of the answer.
        n_items: number of items in question, whose places have the letters from A.
        worst: whether the worst item was asked for, too.

    >>> def letters(text):
    ...     choice = choice_in(text, 4, worst=True)
    ...     return choice and (choice.best, choice.worst)
    >>> letters("**Best:** B, **worst:** D"), letters("C > A > D > B"), letters("Best: A or B")
    (('B', 'D'), ('C', 'B'), None)
    """
    choice_by_words = _choice_by_words(text, worst=worst)
    if choice_by_words is not None:
        return _if_possible(choice_by_words, n_items)
    if _SAME.search(text):
        return SetChoice()
    choice_by_ranking = _choice_by_ranking(text, n_items)
    if choice_by_ranking is not None:
        if worst:
            return choice_by_ranking
        return replace(choice_by_ranking, worst=None, worst_at=0)
    if worst:
        letters = _TWO.fullmatch(text)
        if letters is None:
            return None
        choice = SetChoice(letters[1], letters[2], letters.start(1), letters.start(2))
        return _if_possible(choice, n_items)
    letter = _match_of_word("answer", text) or _ONE.match(text)
    if letter is None:
        return None
    return _if_possible(SetChoice(letter[1], best_at=letter.start(1)), n_items)


def is_bare_choice(text: str) -> bool:
    """Whether a text has the choice only: letters, and words such as best, worst and same.

    >>> is_bare_choice("Best: B, worst: D"), is_bare_choice("Best: B, which is short. Worst: D")
    (True, False)
    """
    return not _ANSWER_WORDS.sub("", text)


def letter_shares(
    choice: SetChoice, tokens: Sequence[Any], n_items: int
) -> dict[str, dict[str, float]]:
    """The probability of each letter to be the best and to be the worst, from the tokens.

    The probabilities of the letters that the server names add up to 1. The dict has no `best` or
    `worst` where the server names no letters.
    """
    shares = {}
    if choice.best is not None:
        shares["best"] = _shares_at(tokens, choice.best_at, choice.best, n_items)
    if choice.worst is not None:
        shares["worst"] = _shares_at(tokens, choice.worst_at, choice.worst, n_items)
    return {name: letters for name, letters in shares.items() if letters}


def _choice_by_words(text: str, *, worst: bool) -> SetChoice | None:
    """Find the letters after the words `best` and `worst`; None if one of them is not clear."""
    best_match = _match_of_word("best", text)
    if best_match is None:
        return None
    if not worst:
        return SetChoice(best_match[1], best_at=best_match.start(1))
    worst_match = _match_of_word("worst", text)
    if worst_match is None:
        return None
    return SetChoice(best_match[1], worst_match[1], best_match.start(1), worst_match.start(1))


def _match_of_word(name: str, text: str) -> re.Match[str] | None:
    """Find a word and the letter after it; None if no letter or different letters follow.

    The word may occur several times; the last match is returned. If the word begins a line
    anywhere, only such matches count.
    """
    matches = [*_NAMED[name].finditer(text)]
    in_lines = [match for match in matches if _LINE_START.match(text[: match.start()])]
    candidates = in_lines or matches
    if len({match[1] for match in candidates}) != 1:
        return None
    return candidates[-1]


def _choice_by_ranking(text: str, n_items: int) -> SetChoice | None:
    """Find a ranking of all items; its first is the best, its last the worst.

    Returns None if the text has no ranking, or several different rankings.
    """
    rankings = []
    for pattern in (_IN_A_LINE, _ASCENDING, _NUMBERED):
        for match in pattern.finditer(text):
            letters = [*re.finditer(r"[A-F]", match[0])]
            if sorted(letter[0] for letter in letters) != [*PLACES[:n_items]]:
                continue
            # Words such as "worst to best" may stand in the same line or in the line before.
            lines_before = text[: match.start()].rsplit("\n", 2)[-2:]
            if pattern is _ASCENDING or _WORST_FIRST.search(" ".join(lines_before)):
                letters.reverse()
            rankings.append((match.start(), letters))
    orders = {tuple(letter[0] for letter in letters) for _, letters in rankings}
    if len(orders) != 1:
        return None
    start, letters = rankings[0]
    best = letters[0]
    worst = letters[-1]
    return SetChoice(
        best=best[0],
        worst=worst[0],
        best_at=start + best.start(),
        worst_at=start + worst.start(),
        ranks_all=True,
    )


def _if_possible(choice: SetChoice, n_items: int) -> SetChoice | None:
    """Return the choice; None if best and worst are the same, or not among the `n_items`."""
    letters = [letter for letter in (choice.best, choice.worst) if letter is not None]
    if len({*letters}) < len(letters) or not {*letters} <= {*PLACES[:n_items]}:
        return None
    return choice


def _shares_at(
    tokens: Sequence[Any], position: int, letter: str, n_items: int
) -> dict[str, float] | None:
    """The probabilities of all letters at the position of `letter` in the text.

    Returns None if the server gave none.
    """
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
    """The text of a token without spaces and marks, which may be around a letter."""
    return str(token["token"]).strip(" \t\r\n:\"'`*([")
