"""Decide whose fault it is that a language model's server gave no answer to a question.

    the server's: busy, broken or away        -> wait, and ask the same question again
    the question's: too long, or filtered     -> skip the question, and ask another one
    the user's: wrong key, model or account   -> ask nothing more

Servers have no common codes for these cases, so that the words of an error count, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple

from sortnet.files import Record


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


_LONGEST_ERROR = 3000  # characters of an error that are searched for words
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
    fields = choice if isinstance(choice, dict) else {}
    error = answer.get("error") or fields.get("error")
    if error:
        # A gateway passes an error of the provider on with status 200, and the status in its body.
        return _failure_of_error(_status_in(error) or status, error)
    if choice is None:
        failure = _failure_of_error(status, answer)
        if failure.whose is not Whose.SERVER:
            return failure
        whose = Whose.ADDRESS if choices is None else Whose.SERVER
        return failure._replace(whose=whose, message=f"{_NO_CHAT}: {failure.message}")
    return _failure_of_choice(status, fields)


def _failure_of_error(status: int, error: Any) -> Failure:
    """Decide whose fault an error is, by its HTTP status and by its words."""
    whose, reason = _whose(status, _words(error))
    return Failure(whose, status, _message_of(error), reason)


def _whose(status: int, words: str) -> tuple[Whose, Reason | None]:
    """Decide whose fault an error is; return the reason, too, if it is the question's fault."""
    # A quota of minutes is free again soon, as Google's servers tell.
    is_lasting = "insufficient_quota" in words or not _SOON_FREE.search(words)
    if _NO_MONEY.search(words) and is_lasting:
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
    if is_too_long and not _RATE.search(words):
        return Whose.QUESTION, Reason.TOO_LONG
    if status == 451 or _FILTERED.search(words):
        return Whose.QUESTION, Reason.FILTERED
    if status in _BUSY or status >= 500 or status < 300:
        return Whose.SERVER, None
    if _BAD_KEY.search(words) or _NO_MODEL.search(words) or status < 400:
        return Whose.USER, None
    return Whose.QUESTION, Reason.REFUSED


def _failure_of_choice(status: int, choice: Record) -> Failure | None:
    """Find the failure in the first choice of an answer; None if it has a reply."""
    finish = str(choice.get("finish_reason") or "")
    message = choice.get("message")
    message = message if isinstance(message, dict) else {}
    refusal = str(message.get("refusal") or "")
    is_filtered = finish.lower() in _FILTER_REASONS or finish.lower().startswith("content_filter")
    if is_filtered or (refusal and not message.get("content")):
        return Failure(Whose.QUESTION, status, refusal or finish, Reason.FILTERED)
    if finish.lower() in _SERVER_REASONS and not message.get("content"):
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
    """Find the message of an error; servers put it in different fields.

    Gateways put the words of the provider into `error.metadata.raw`, which are added.
    """
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
    fields = error if isinstance(error, dict) else {}
    for name in ("code", "status", "status_code"):
        text = str(fields.get(name))
        if re.fullmatch("[45][0-9][0-9]", text, re.ASCII):
            return int(text)
    return None


def _words(error: Any) -> str:
    """Return the keys and texts of an error in lines, without the parts that repeat the request."""

    def without_echoes(fields: Record) -> Record:
        return {name: value for name, value in fields.items() if name not in _ECHOES}

    try:
        own_fields = json.loads(json.dumps(error), object_hook=without_echoes)
        lines = json.dumps(own_fields, ensure_ascii=False, separators=("\n", ": "))
    except RecursionError:
        return ""
    return lines[:_LONGEST_ERROR]
