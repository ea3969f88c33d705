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

SAME = "same"  # the answer in place of a letter if all items are equally good
# The patterns below read letters as names of places, A to F. `_MARKS` and `_NOUN` may stand between
# a word and its letter, as in "Best item: **B**".
_MARKS = r"[\s:*_\"'`(\[<=#-]*"
_NOUN = r"(?i:item|text|option|answer|choice|one)(?![^\W_])"
# `_LETTER` must not find the article in "A good text ...", nor a letter in "A or B". An A before a
# word in `_AFTER_A` is a letter, and no article.
_AFTER_A = r"because|since|as|is|and|for|with|by|due|has|in|which|then|worst"
_LETTER = (
    rf"([B-F](?!\w)|A(?!\w)(?! (?!(?:{_AFTER_A})\b)[a-z]))(?!\s*(?:or|and|[,/&=])\s*[A-F](?!\w))"
)
# {word: pattern that finds the letter after the word}, such as B in "The best is B".
_LETTER_AFTER_WORD = {
    name: re.compile(
        rf"(?<![^\W_])(?i:{name})(?![^\W_])(?:{_MARKS}{_NOUN})?{_MARKS}(?:(?i:is){_MARKS})?"
        rf"(?:{_NOUN}{_MARKS})?{_LETTER}"
    )
    for name in ("best", "worst", "answer")
}
# This matches the text before a word if the word is the first in its line.
_LINE_START = re.compile(r"\A[\W_]*\Z|\A.*\n[\W_]*\Z", re.DOTALL)
# This finds "Best: same", and an answer that begins with "same", "equal" or "tie".
_ALL_THE_SAME = re.compile(
    rf"(?i)(?:(?<![^\W_])(?:best|answer){_MARKS}|\A[\W_]*)(?:same|equal|tie)(?![^\W_])"
)
# These match rankings: "B > A > C", "C < A < B", and a list with a letter in each line.
_DESCENDING = re.compile(r"(?<!\w)[A-F](?:[^\w<=\n]+[A-F])+(?!\w)")
_ASCENDING = re.compile(r"(?<!\w)[A-F](?:\s*<\s*[A-F])+(?!\w)")
_LETTER_IN_EACH_LINE = re.compile(
    r"(?<!\w)[A-F](?:[^\w<=\n]*\n[^\w<=\n]*(?:\d+[^\w<=\n]+)?[A-F](?!\w))+"
)
_WORST_FIRST = re.compile(r"(?i)worst\s+(?:to|first)|ascending")
# These match an answer of two letters only, and an answer that begins with a letter.
_TWO_LETTERS = re.compile(r"[\W_]*([A-F])[^\w<=/&]+([A-F])[\W_]*")
_FIRST_LETTER = re.compile(r"[\s*_\"'`(\[#]*([A-F])[*_\"'`)\]]*\s*(?:[.,:;\n-]|$)")
# Everything that an answer may have besides a comment: words, letters and marks.
_ANSWER_WORDS = re.compile(r"(?i)(?<![^\W_])(?:best|worst|same|answer|json|[A-F])(?![^\W_])|[\W_]")


@dataclass(frozen=True)
class SetChoice:
    """The best and the worst of more than two items, as they are named in a text.

    Attributes:
        best: letter of the best item's place; None if all items are equally good.
        worst: letter of the worst item's place; None if the text does not name the worst item.
        best_at, worst_at: positions of the letters in the text, in characters from 0.
        ranks_all: whether the text has a ranking of all items.
    """

    best: str | None = None
    worst: str | None = None
    best_at: int = 0
    worst_at: int = 0
    ranks_all: bool = False


def choice_in(text: str, n_items: int, *, worst: bool) -> SetChoice | None:
    """Find the choice in the text of an answer; None if there is no choice, or several.

    Args:
        text: text of the answer.
        n_items: number of items in question; their places have the letters from A.
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
    if _ALL_THE_SAME.search(text):
        return SetChoice()  # neither a best nor a worst item
    choice_by_ranking = _choice_by_ranking(text, n_items)
    if choice_by_ranking is not None:
        if worst:
            return choice_by_ranking
        return replace(choice_by_ranking, worst=None, worst_at=0)
    # Bare letters are the last resort, since they may also be the start of a sentence.
    bare_choice = _choice_by_bare_letters(text, worst=worst)
    return None if bare_choice is None else _if_possible(bare_choice, n_items)


def is_bare_choice(text: str) -> bool:
    """Whether a text has only a choice: letters, and words such as best, worst and same.

    >>> is_bare_choice("Best: B, worst: D"), is_bare_choice("Best: B, which is short. Worst: D")
    (True, False)
    """
    return not _ANSWER_WORDS.sub("", text)


def letter_shares(
    choice: SetChoice, tokens: Sequence[Any], n_items: int
) -> dict[str, dict[str, float]]:
    """Read the probabilities of letters, {"best": {letter: p}, "worst": {letter: p}}.

    The probabilities are normalised, so that they add up to 1 over the letters of the items. The
    dict has no `best` or no `worst` if the server gives no probabilities of letters there.

    Args:
        choice: choice in the text, with the positions of its letters.
        tokens: tokens of the text with their log-probabilities, as the server gives them.
        n_items: number of items in question.
    """
    shares = {}
    if choice.best is not None:
        shares["best"] = _shares_at(tokens, choice.best_at, choice.best, n_items)
    if choice.worst is not None:
        shares["worst"] = _shares_at(tokens, choice.worst_at, choice.worst, n_items)
    return {name: letters for name, letters in shares.items() if letters}


def _choice_by_words(text: str, *, worst: bool) -> SetChoice | None:
    """Find the letters after the words `best` and `worst`; None if one is missing or unclear."""
    best_match = _match_of_word("best", text)
    if best_match is None:
        return None
    if not worst:
        return SetChoice(best_match[1], best_at=best_match.start(1))
    worst_match = _match_of_word("worst", text)
    if worst_match is None:
        return None
    return SetChoice(
        best=best_match[1],
        worst=worst_match[1],
        best_at=best_match.start(1),
        worst_at=worst_match.start(1),
    )


def _choice_by_bare_letters(text: str, *, worst: bool) -> SetChoice | None:
    """Find a choice without the words `best` and `worst`.

    If the worst item was asked for, the text must have two letters and nothing else. If not, the
    text has a letter after the word `answer`, or begins with a letter.
    """
    if worst:
        letters = _TWO_LETTERS.fullmatch(text)
        if letters is None:
            return None
        return SetChoice(
            best=letters[1],
            worst=letters[2],
            best_at=letters.start(1),
            worst_at=letters.start(2),
        )
    letter = _match_of_word("answer", text) or _FIRST_LETTER.match(text)
    return None if letter is None else SetChoice(letter[1], best_at=letter.start(1))


def _match_of_word(name: str, text: str) -> re.Match[str] | None:
    """Find a word and the letter after it; None if no letter or different letters follow.

    The word may occur several times; the last match is returned. If any match begins a line, only
    matches that begin a line count.
    """
    matches = [*_LETTER_AFTER_WORD[name].finditer(text)]
    line_matches = [match for match in matches if _LINE_START.match(text[: match.start()])]
    candidates = line_matches or matches
    if len({match[1] for match in candidates}) != 1:
        return None
    return candidates[-1]


def _choice_by_ranking(text: str, n_items: int) -> SetChoice | None:
    """Find a ranking of all items; the best item comes first and the worst item last.

    Returns None if the text has no ranking, or several different rankings.
    """
    rankings = _rankings_in(text, n_items)
    different_orders = {tuple(letter for letter, _ in ranking) for ranking in rankings}
    if len(different_orders) != 1:
        return None
    first_ranking = rankings[0]
    best, best_at = first_ranking[0]
    worst, worst_at = first_ranking[-1]
    return SetChoice(best, worst, best_at, worst_at, ranks_all=True)


def _rankings_in(text: str, n_items: int) -> list[list[tuple[str, int]]]:
    """Find the rankings in a text that rank each item once.

    Returns:
        Rankings, each a list of (letter of the item, position of the letter in the text), the best
        item first.
    """
    rankings = []
    for pattern in (_DESCENDING, _ASCENDING, _LETTER_IN_EACH_LINE):
        for match in pattern.finditer(text):
            ranking = [
                (letter[0], match.start() + letter.start())
                for letter in re.finditer(r"[A-F]", match[0])
            ]
            ranks_each_item_once = sorted(letter for letter, _ in ranking) == [*PLACES[:n_items]]
            if not ranks_each_item_once:
                continue
            if pattern is _ASCENDING or _says_worst_first(text[: match.start()]):
                ranking.reverse()
            rankings.append(ranking)
    return rankings


def _if_possible(choice: SetChoice, n_items: int) -> SetChoice | None:
    """Return the choice; None if best and worst are the same, or a letter names no item."""
    letters = [letter for letter in (choice.best, choice.worst) if letter is not None]
    distinct_letters = {*letters}
    if len(distinct_letters) < len(letters) or not distinct_letters <= {*PLACES[:n_items]}:
        return None
    return choice


def _says_worst_first(text_before: str) -> bool:
    """Whether words such as "worst to best" introduce a ranking.

    Args:
        text_before: the text before the ranking. Its last two lines count: the start of the line of
            the ranking, and the line before.
    """
    last_two_lines = text_before.rsplit("\n", 2)[-2:]
    return _WORST_FIRST.search(" ".join(last_two_lines)) is not None


def _shares_at(
    tokens: Sequence[Any], position: int, letter: str, n_items: int
) -> dict[str, float] | None:
    """Read the normalised probabilities of the items' letters, {letter: probability}.

    The probabilities are read from the token at `position`, which must be `letter`. The result is
    None if there is no such token, or if the server gave no probabilities of letters for the token.
    """
    probabilities = dict.fromkeys(PLACES[:n_items], 0.0)
    try:
        token = _token_at(tokens, position)
        if token is None or _letter_of(token) != letter:
            return None
        for alternative in token.get("top_logprobs") or ():
            name = _letter_of(alternative)
            if name in probabilities:
                # Several tokens may be the same letter, such as "B" and " B".
                probabilities[name] += math.exp(min(float(alternative["logprob"]), 0.0))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError):
        return None  # a server may send any JSON
    total = sum(probabilities.values())
    if not (total and math.isfinite(total)):
        return None
    return {name: round(p / total, 4) for name, p in probabilities.items() if p}


def _token_at(tokens: Sequence[Any], position: int) -> Any:
    """Find the token that has the character at a position of the text; None if there is none."""
    end = 0
    for token in tokens:
        end += len(token["token"])
        if end > position:
            return token
    return None


def _letter_of(token: Mapping[str, Any]) -> str:
    """Return the text of a token without the spaces and marks that may be around a letter."""
    return str(token["token"]).strip(" \t\r\n:\"'`*([")
