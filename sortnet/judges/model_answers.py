"""Read the text, letter, probability, number of tokens or error in a language model's answer."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sortnet.judges.verdicts import Fault, Verdict, answer_at, stored_text
from sortnet.preference import Answer

CHARACTERS = 4  # approximate number of characters in a token
_MOST_TOKENS = 10**9  # tokens of a call; a larger number is a mistake of the server
LETTERS: dict[str, Answer] = {"A": "left", "B": "right", "C": "tie"}
_WORDS = {"LEFT": "A", "RIGHT": "B", "TIE": "C", "FIRST": "A", "SECOND": "B", "EQUAL": "C"}
# `_ANSWERED` finds the letter in a text such as "Answer: B"; `FIRST` finds a letter that begins the
# text and is followed by a mark or by nothing.
_ANSWERED = re.compile(
    r"(?i:\banswer\b)[\s:*_\"'`(]*(?:is[\s:*_\"'`(]+)?([ABC])\b(?! (?:or|and|tie)\b)"
)
FIRST = re.compile(r"[\s*_\"'`(\[#]*([ABC])[*_\"'`)\]]*\s*(?:[.,:;\n-]|$)")


# Value of the parameter `response_format`, which makes a model answer JSON such as {"answer": "A"}.
RESPONSE_FORMAT = {
    "type": "json_schema",
    "json_schema": {
        "name": "answer",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {"answer": {"type": "string", "enum": [*LETTERS]}},
            "required": ["answer"],
            "additionalProperties": False,
        },
    },
}


@dataclass(frozen=True)
class Reply:
    """The reply of a language model.

    Attributes:
        text: text of the reply; empty if there is none.
        why_empty: reason why there may be no text.
        tokens_in: number of tokens in the prompt; 0 if the server does not count them.
        tokens_out: number of tokens in the reply; 0 if the server does not count them.
        logprobs: tokens of the text with their log-probabilities; empty if the server gives none.
    """

    text: str
    why_empty: str
    tokens_in: int
    tokens_out: int
    logprobs: Sequence[Any]


def parse_reply(raw: bytes) -> Reply:
    """Parse the body of a server's answer.

    Raises:
        Fault: if the body is no answer. The message of the fault has the whole body, which may
            contain secrets.
    """
    try:
        answer = json.loads(raw)
        choice = answer["choices"][0]
        text = choice["message"].get("content") or ""
        usage = answer.get("usage") or {}
        tokens_in = _number_of_tokens(usage.get("prompt_tokens"))
        tokens_out = _number_of_tokens(usage.get("completion_tokens"))
        logprobs = (choice.get("logprobs") or {}).get("content") or []
        if not isinstance(text, str) or not isinstance(logprobs, list):
            raise TypeError
        refusal = choice["message"].get("refusal")
        reason = choice.get("finish_reason")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError, OverflowError):
        body = raw.decode("utf-8", "replace")
        raise Fault(f"not an answer of /v1/chat/completions: {body}") from None
    why_empty = f"the model answered without a text: {reason or 'no reason was given'}"
    if refusal:
        why_empty = str(refusal)
    return Reply(text, why_empty, tokens_in, tokens_out, logprobs)


def _number_of_tokens(value: Any) -> int:
    """Convert the number of tokens that a server counted to an int; 0 if the number is missing."""
    return min(max(int(value or 0), 0), _MOST_TOKENS)


def letter_in(text: str) -> str | None:
    """Find the letter A, B or C that is the answer in a text; None without a clear letter.

    >>> letter_in("B."), letter_in("Answer: **A**"), letter_in("A or B"), letter_in("a tie")
    ('B', 'A', None, 'C')
    """
    letters_after_answer = {*_ANSWERED.findall(text)}
    if letters_after_answer:
        return _only_letter(letters_after_answer)
    first_letter = FIRST.match(text)
    if first_letter is not None:
        return first_letter[1]
    # Elsewhere in the text, all letters and words that name an answer must name the same answer.
    words = re.findall(r"\b(?:[ABC]|left|right|tie|first|second|equal)\b", text)
    return _only_letter({_WORDS.get(word.upper(), word) for word in words})


def _only_letter(letters: set[str]) -> str | None:
    """Return the only letter in a set; None if the set has no letter, or several."""
    return letters.pop() if len(letters) == 1 else None


def verdict_of_reply(reply: Reply, text: str, facts: Mapping[str, Any]) -> Verdict | None:
    """Read the verdict from a model's reply about two items; None without a clear answer.

    Args:
        reply: the reply.
        text: text of the reply without secrets, which is stored as a comment if it has more than
            the answer.
        facts: further fields of the verdict.
    """
    letter = letter_in(reply.text)
    begins_with_letter = FIRST.match(reply.text) is not None
    letter_at_end = None if begins_with_letter else letter  # such as B in "Answer: B"
    p = probability(reply.logprobs, letter_at_end)
    comment = None if is_bare(text) else stored_text(text)
    if p is not None:
        return Verdict(answer_at(p), p, comment=comment, **facts)
    if letter is not None:
        return Verdict(LETTERS[letter], comment=comment, **facts)
    return None


def is_bare(text: str) -> bool:
    """Whether a text has only an answer, a letter or JSON, so that it is not worth storing.

    >>> is_bare("B."), is_bare('{"answer": "B"}'), is_bare("B, as it is longer")
    (True, True, False)
    """
    if len(text.strip()) <= 3:  # a letter with marks, such as "B." or "(B)"
        return True
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(answer, dict) and {*answer} == {"answer"}


def count_tokens(reply: Reply, messages: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
    """Return the tokens of the prompt and of the reply, estimated if the server counts none."""
    n_characters = sum(_number_of_characters(message["content"]) for message in messages)
    return (
        reply.tokens_in or n_characters // CHARACTERS,
        reply.tokens_out or len(reply.text) // CHARACTERS + 1,
    )


def _number_of_characters(content: str | Sequence[Mapping[str, Any]]) -> int:
    """Count the characters in a message, which is a text, or a list of texts and images."""
    if isinstance(content, str):
        return len(content)
    return sum(len(part.get("text", "")) for part in content)


def probability(tokens: Sequence[Any], letter: str | None = None) -> float | None:
    """Compute the probability that A is better, (P(A) + P(C) / 2) / (P(A) + P(B) + P(C)).

    The letter C answers that A and B are equally good. The probabilities are read at the first
    token that is a letter. If `letter` is passed, because the text ends with the answer, they are
    read at the last token that is `letter`. The result is None if there is no such token, or if the
    token has no probability of A or of B.

    >>> def top(**p): return [{"token": k, "logprob": math.log(v)} for k, v in p.items()]
    >>> round(probability([{"token": "A", "top_logprobs": top(A=0.6, B=0.2, C=0.1)}]), 3)
    0.722
    """
    try:
        token = _token_of_answer(tokens, letter)
        if token is None:
            return None
        mass = _probability_of_letters(token)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError):
        return None  # a server may send any JSON
    total = sum(mass.values())
    if not (mass["A"] and mass["B"] and math.isfinite(total)):
        return None
    return min(max((mass["A"] + mass["C"] / 2) / total, 0.0), 1.0)


def _token_of_answer(tokens: Sequence[Any], letter: str | None) -> Any:
    """Find the last token of the given letter, or the first token of any letter if it is None.

    The result is None if there is no such token.
    """
    if letter is None:
        return next((token for token in tokens if _letter_of(token) in LETTERS), None)
    return next((token for token in reversed(tokens) if _letter_of(token) == letter), None)


def _probability_of_letters(token: Mapping[str, Any]) -> dict[str, float]:
    """Sum the probabilities of each letter over the tokens that the model might have chosen.

    Returns {letter: probability}.
    """
    probability_of_letter = dict.fromkeys(LETTERS, 0.0)
    for alternative in token.get("top_logprobs") or ():
        letter = _letter_of(alternative)
        if letter in probability_of_letter:
            # Several tokens may be the same letter, such as "B" and " B".
            probability_of_letter[letter] += math.exp(min(float(alternative["logprob"]), 0.0))
    return probability_of_letter


def _letter_of(token: Mapping[str, Any]) -> str:
    """Return the text of a token without spaces and without the quotes of JSON."""
    return str(token["token"]).strip(' "\t\r\n')
