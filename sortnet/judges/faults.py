"""Decide whose fault it is that a language model's server gave no answer to a question.

    the server's: busy, broken or away        -> wait, and ask the same question again
    the question's: too long, or filtered     -> skip the question, and ask another one
    the user's: wrong key, model or account   -> ask nothing more

Servers have no common codes for these cases, so that the words of an error count, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, NamedTuple


class Reason(Enum):
    """The reason why a judge gave no answer to a question."""

    TOO_LONG = "too long"
    FILTERED = "filtered"
    REFUSED = "refused"
    UNREADABLE = "unreadable"
    ERROR = "error"  # an exception of a function, or a program that fails


class Whose(Enum):
    """Who has to act on a failure."""

    SERVER = "the server"
    ADDRESS = "the address"  # there may be no server of language models at the address
    QUESTION = "the question"
    USER = "the user"


class Failure(NamedTuple):
    """The failure of a call.

    Attributes:
        whose: whose fault the failure is.
        status: HTTP status of the failure; a status in the body of the answer counts more.
        message: the server's words, which may contain secrets.
        reason: why the question has no answer, if the failure is the question's fault.
    """

    whose: Whose
    status: int
    message: str
    reason: Reason | None = None


# The words of an error are searched in this number of its texts, in so many characters of each.
_MOST_TEXTS = 20
_LONGEST_TEXT = 1000
_NO_CHAT = "not an answer of /v1/chat/completions"
# Parts of an error that repeat the request, so that their words are the user's.
_ECHOES = frozenset(
    (
        *("input", "inputs", "flagged_input", "messages", "prompt", "body", "content"),
        "failed_generation",
    )
)
_FILTER_REASONS = frozenset(
    (
        *("refusal", "safety", "recitation", "prohibited_content", "blocklist", "spii"),
        *("sensitive", "guardrail_intervened", "image_safety", "language", "blocked"),
    )
)  # values of `finish_reason`; others begin with `content_filter`
_SERVER_REASONS = frozenset(
    ("error", "network_error", "abort", "insufficient_system_resource", "model_error")
)  # values of `finish_reason`
_BUSY = frozenset((408, 409, 423, 424, 425, 429))  # besides 5xx
_USER = frozenset((401, 402, 403, 404, 405, 407, 410))

_NO_MONEY = re.compile(
    r"insufficient[ _-]?(?:quota|credit|balance|funds)|credit balance|billing[ _](?:hard|limit|not)"
    r"|exceeded your current quota|out of credits|payment required"
    r"|account.{0,30}(?:arrears|overdue)",
    re.IGNORECASE,
)
_SOON_FREE = re.compile(r"retry ?(?:in|delay|info|after)|per ?(?:minute|second)", re.IGNORECASE)
_BAD_KEY = re.compile(
    r"api[ _-]?key.{0,20}(?:not valid|invalid|incorrect|missing|expired)"
    r"|(?:invalid|incorrect|no|expired)[ _-]api[ _-]?key|invalid[ _]authentication",
    re.IGNORECASE,
)
_NO_MODEL = re.compile(
    r"model[ _-]?not[ _-]?(?:found|exist)|(?:invalid|unknown|no such) model\b"
    r"|\bmodel\b.{0,80}(?:does not exist|not exist|not found|is not a valid model|not available)",
    re.IGNORECASE,
)
_RATE = re.compile(
    r"rate[ _-]?limit|per[ _-]?(?:second|min|minute|hour|day)\b|quota|deadline|tim(?:ed|e)[ _-]?out"
    r"|concurren|overloaded|throttl|too many requests",
    re.IGNORECASE,
)
_INPUT = (
    r"(?:input|prompt|text|sequence|conversation|query|request|message|content|image|document"
    r"|token count|number of tokens|token)s?"
)
_EXCEEDS = (
    r"(?:exceed|longer than|larger than|greater than|must have less|cannot be more than|> ?\d"
    r"|must be (?:<=|less|shorter|at most))"
)
_TOO_LONG = re.compile(
    rf"\b{_INPUT}\b.{{0,80}}\btoo (?:long|large|big)\b|too many (?:input |prompt )?tokens"
    r"|\btoo (?:long|large|big)\b.{0,80}\b(?:model|context|tokens)\b"
    rf"|\b(?:input|prompt|sequence|conversation|token|text|length)s?\b.{{0,120}}{_EXCEEDS}"
    r"|exceed\w*\b.{0,80}\b(?:context|token limit|max_model_len|input|prompt)|exceed_context"
    r"|(?:exceed|larger than|greater than).{0,40}\bmax\w* (?:allowed )?(?:size|length|number of)"
    r"|context[ _-]?(?:length|window|size|limit).{0,100}(?:exceed|is \d|of \d|only|too |smaller)"
    r"|max(?:imum)?[ _](?:model[ _])?context|max(?:imum)?[ _](?:input|prompt|sequence)[ _]length"
    r"|reduce (?:the|your) (?:length|prompt|messages?|inputs?|size)|range of input length"
    r"|context.{0,30}overflow|overflow.{0,30}context|string_above_max|_too_(?:long|large)|超长",
    re.IGNORECASE | re.DOTALL,
)
# A request that is larger than the tokens of a minute is told with 429, and never succeeds.
_TOO_LARGE = re.compile(r"request too large|input or output tokens must be reduced", re.IGNORECASE)
# A limit of the answer's tokens that the model does not take is no matter of the prompt.
_ANSWER_LIMIT = re.compile(
    r"max_(?:completion_|new_|output_)?tokens\W.{0,40}too large"
    r"(?!.{0,200}(?:context|prompt|input|messages))"
    r"|at most \d+ (?:completion|output) tokens|maximum tokens you requested",
    re.IGNORECASE | re.DOTALL,
)
_FILTERED = re.compile(
    r"content[ _-]?filter|content[ _](?:management )?polic|usage polic|responsible ?ai"
    r"|safety(?!_identifier)|moderation|flagged|prohibited|block_?reason|inappropriate|guardrail"
    r"|high[ _-]risk|harmful|data_inspection|recitation|sensitive (?:content|words?|information)"
    r"|violat\w+ .{0,40}polic|polic\w+[ _]violation|invalid_prompt|blocklist|censor|敏感|违规",
    re.IGNORECASE,
)
# In a refusal of a key, only words about the prompt itself tell that the prompt is filtered.
_FILTERED_BESIDE_KEY = re.compile(
    r"content[ _-]?filter|content[ _](?:management )?policy|requires moderation|for moderation"
    r"|\b(?:input|prompt|content|message|text)s?\W.{0,30}(?:flagged|blocked|moderat|inappropriate)"
    r"|data_inspection|responsible ?ai",
    re.IGNORECASE,
)


def failure_in(status: int, body: bytes) -> Failure | None:
    """Find the failure in a server's answer; None if the answer has a reply of the model.

    Args:
        status: HTTP status of the answer.
        body: body of the answer.

    >>> failure_in(200, b'{"choices": [{"message": {"content": "A"}}]}') is None
    True
    >>> failure_in(500, b'{"error": "the prompt is too long"}').reason.value
    'too long'
    >>> failure_in(200, b'{"error": {"code": 429, "message": "slow down"}}').whose.value
    'the server'
    """
    answer = _parsed(body)
    if not 200 <= status < 300:
        return _failure_of_error(status, answer)
    if not isinstance(answer, dict):
        return None  # no JSON object: the reader of answers tells what the body has instead
    choices = answer.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    error = answer.get("error")
    if not error and isinstance(choice, dict):
        error = choice.get("error")
    if error:
        # A gateway passes an error of the provider on with status 200, and the status in its body.
        return _failure_of_error(_status_in(error) or status, error)
    if choice is None:
        failure = _failure_of_error(status, answer)
        if failure.whose is not Whose.SERVER:
            return failure
        whose = Whose.ADDRESS if choices is None else Whose.SERVER
        return failure._replace(whose=whose, message=f"{_NO_CHAT}: {failure.message}")
    return _failure_of_choice(status, choice)


def error_message(body: bytes) -> str:
    """Find the message in the body of an error; the whole body if it has no message.

    Gateways put the words of the provider into `error.metadata.raw`, which are added.
    """
    return _message_of(_parsed(body))


def _failure_of_error(status: int, error: Any) -> Failure:
    """Decide whose fault an error is, by its HTTP status and by its words."""
    message = _message_of(error)
    words = "\n".join(_texts_in(error))
    whose, reason = _whose(status, words)
    return Failure(whose, status, message, reason)


def _whose(status: int, words: str) -> tuple[Whose, Reason | None]:
    """Decide whose fault an error is; return the reason, too, if it is the question's fault."""
    is_about_rate = _RATE.search(words) is not None
    has_no_money = _NO_MONEY.search(words) is not None
    if has_no_money and ("insufficient_quota" in words or not _is_quota_of_minutes(words)):
        return Whose.USER, None
    if status in _USER:
        if status in (401, 403) and _FILTERED_BESIDE_KEY.search(words):
            return Whose.QUESTION, Reason.FILTERED
        return Whose.USER, None
    if status == 413 or _TOO_LARGE.search(words):
        return Whose.QUESTION, Reason.TOO_LONG
    if status == 429:
        return Whose.SERVER, None
    is_too_long = _TOO_LONG.search(words) is not None and not _ANSWER_LIMIT.search(words)
    if is_too_long and not is_about_rate:
        return Whose.QUESTION, Reason.TOO_LONG
    if status == 451 or _FILTERED.search(words):
        return Whose.QUESTION, Reason.FILTERED
    if status in _BUSY or status >= 500 or status < 300:
        return Whose.SERVER, None
    if _BAD_KEY.search(words) or _NO_MODEL.search(words) or status < 400:
        return Whose.USER, None
    return Whose.QUESTION, Reason.REFUSED


def _is_quota_of_minutes(words: str) -> bool:
    """Whether an exceeded quota is one that is free again soon, as Google's servers tell."""
    return (
        re.search(r"retry ?(?:in|delay|info|after)|per ?(?:minute|second)", words, re.I) is not None
    )


def _failure_of_choice(status: int, choice: Any) -> Failure | None:
    """Find the failure in the first choice of an answer; None if it has a reply."""
    if not isinstance(choice, dict):
        return None
    finish = choice.get("finish_reason")
    finish = finish if isinstance(finish, str) else ""
    message = choice.get("message")
    message = message if isinstance(message, dict) else {}
    refusal = message.get("refusal")
    refusal = refusal if isinstance(refusal, str) else ""
    name = finish.lower()
    if name.startswith("content_filter") or name in _FILTER_REASONS:
        return Failure(Whose.QUESTION, status, refusal or finish, Reason.FILTERED)
    if refusal and not message.get("content"):
        return Failure(Whose.QUESTION, status, refusal, Reason.FILTERED)
    if name in _SERVER_REASONS and not message.get("content"):
        return Failure(Whose.SERVER, status, f"the answer ended with {finish}")
    return None


def decoded(body: bytes) -> str:
    """Decode a body in UTF-8, or in UTF-16 or UTF-32, which JSON allows, too.

    >>> decoded("a key".encode("utf-16"))
    'a key'
    """
    return body.decode(json.detect_encoding(body), "replace")


def _parsed(body: bytes) -> Any:
    """Parse the JSON of a body; the text itself if it is no JSON."""
    text = decoded(body)
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _message_of(error: Any) -> str:
    """Find the message of an error; servers put it in different fields."""
    if isinstance(error, list) and error:
        error = error[0]
    if not isinstance(error, dict):
        return error if isinstance(error, str) else json.dumps(error)
    for name in ("error", "message", "detail"):
        inner = error.get(name)
        if inner:
            message = _message_of(inner)
            metadata = error.get("metadata")
            raw = metadata.get("raw") if isinstance(metadata, Mapping) else None
            return f"{message}: {_message_of(_parsed(str(raw).encode()))}" if raw else message
    return json.dumps(error)


def _status_in(error: Any) -> int | None:
    """Return the HTTP status in an error of a body; None if it has none."""
    if not isinstance(error, dict):
        return None
    for name in ("code", "status", "status_code"):
        value = error.get(name)
        text = str(value) if isinstance(value, int | str) else ""
        if re.fullmatch("[45][0-9][0-9]", text, re.ASCII):
            return int(text)
    return None


def _texts_in(error: Any) -> Iterator[str]:
    """Yield the texts of an error with their keys, without the parts that repeat the request."""
    waiting: list[tuple[str, Any]] = [("", error)]
    n_texts = 0
    while waiting and n_texts < _MOST_TEXTS:
        key, value = waiting.pop()
        if isinstance(value, dict):
            waiting += [(str(name), inner) for name, inner in value.items() if name not in _ECHOES]
        elif isinstance(value, list):
            waiting += [(key, inner) for inner in value[:_MOST_TEXTS]]
        elif isinstance(value, str):
            n_texts += 1
            yield f"{key} {value[:_LONGEST_TEXT]}"
