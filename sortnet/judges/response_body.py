"""Parse the body of a language model's server: an answer with its tokens, or an error."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sortnet.judges.faults import decoded
from sortnet.judges.verdicts import Fault

CHARACTERS = 4  # approximate number of characters in a token
_MOST_TOKENS = 10**9  # tokens of a call; a larger number is a mistake of the server


@dataclass(frozen=True)
class Reply:
    """The reply of a language model.

    Attributes:
        choice: first element of `choices`, which `sortnet.judges.parse_choice` reads.
        tokens_in: number of tokens in the prompt; 0 if the server does not count them.
        tokens_out: number of tokens in the reply; 0 if the server does not count them.
    """

    choice: Mapping[str, Any]
    tokens_in: int = 0
    tokens_out: int = 0


def parse_reply(raw: bytes) -> Reply:
    """Parse the body of a server's answer.

    Raises:
        Fault: if the body is no answer. The message of the fault has the whole body, which may
            contain secrets.
    """
    try:
        answer = json.loads(raw)
        choice = answer["choices"][0]
        if not isinstance(choice.get("message"), dict) and not isinstance(choice["text"], str):
            raise TypeError
        usage = answer.get("usage") or {}
        tokens_in = _number_of_tokens(usage.get("prompt_tokens"))
        tokens_out = _number_of_tokens(usage.get("completion_tokens"))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError, OverflowError):
        raise Fault(f"not an answer of /v1/chat/completions: {decoded(raw)}") from None
    return Reply(choice, tokens_in, tokens_out)


def _number_of_tokens(value: Any) -> int:
    """Convert the number of tokens that a server counted to an int; 0 if the number is missing."""
    return min(max(int(value or 0), 0), _MOST_TOKENS)


def count_tokens(reply: Reply, text: str, messages: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
    """Return the tokens of the prompt and of the reply, estimated if the server counts none."""
    n_characters = sum(_number_of_characters(message["content"]) for message in messages)
    return (
        reply.tokens_in or n_characters // CHARACTERS,
        reply.tokens_out or len(text) // CHARACTERS + 1,
    )


def _number_of_characters(content: str | Sequence[Mapping[str, Any]]) -> int:
    """Count the characters in a message, which is a text, or a list of texts and images."""
    if isinstance(content, str):
        return len(content)
    return sum(len(part.get("text", "")) for part in content)
