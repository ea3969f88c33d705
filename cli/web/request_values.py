"""Read and check the values in requests to the pages; an invalid value is an HTTPException."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any, cast

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from cli.web.admin_state import SORTS, View
from sortnet.files import Record
from sortnet.preference import Judgement, Question
from sortnet.preference.base import LONGEST_COMMENT, SIDES, Word
from sortnet.preference.study import KINDS, LONGEST, Decision
from store.collections.collection_rows import LONGEST_NAME

ANSWERS_OF_PAGES: tuple[Word, ...] = (*SIDES, "skip", "cant-say", "best", "same")
LONGEST_MS = 24 * 3600 * 1000  # a day: longest time to answer that is stored, in milliseconds
MOST_BYTES = 2**18  # bytes of a request's body: enough for instructions of 50,000 characters
_LONGEST_SEARCH = 200  # most characters of a search text; the rest is ignored
_LONGEST_REASON = 500  # most characters of a decision's reason
_MOST_PAGE_DIGITS = 7  # most digits of the number of a page
_WHOLE_NUMBERS_END = 2**53  # JavaScript has all whole numbers below this number


async def read_body(request: Request) -> Record:
    """Read the JSON object that is the body of a request."""
    text = b""
    try:
        async for chunk in request.stream():
            # A client that is refused before it has sent everything would never see the refusal.
            text += chunk if len(text) <= MOST_BYTES else b""
        if len(text) > MOST_BYTES:
            raise HTTPException(413, f"the request is larger than {MOST_BYTES} bytes")
        body = json.loads(text)
    except (ValueError, RecursionError, ClientDisconnect):
        body = None
    if not isinstance(body, dict):
        raise HTTPException(400, "the request is not a JSON object")
    return body


def text_in(body: Record, name: str, longest: int) -> str:
    """Return a text that the body must have, without surrounding space.

    Args:
        name: name of the value in the body.
        longest: most characters of the text.
    """
    text = optional_text_in(body, name, longest)
    if text is None:
        raise HTTPException(422, f"{name!r} is not a text of 1 to {longest} characters")
    return text


def optional_text_in(body: Record, name: str, longest: int) -> str | None:
    """Return a text without surrounding space; None if the body does not have it."""
    text = body.get(name)
    if text is None:
        return None
    if not isinstance(text, str) or not text.strip() or len(text) > longest:
        raise HTTPException(422, f"{name!r} is not a text of 1 to {longest} characters")
    try:
        text.encode()
    except UnicodeEncodeError:
        fault = f"{name!r} has half of a character (a lone surrogate)"
        raise HTTPException(400, fault) from None
    return text.strip()


def number_in(body: Record, name: str, *, is_whole: bool = True) -> Any:
    """Return a number of at least 0; None if the body does not have it."""
    number = body.get(name)
    if number is None:
        return None
    types = (int,) if is_whole else (int, float)
    if type(number) not in types or not 0 <= number < _WHOLE_NUMBERS_END:
        noun = "whole number" if is_whole else "number"
        raise HTTPException(422, f"{name!r} is not a {noun} from 0 on")
    return number


def flag_in(body: Record, name: str) -> bool:
    """Return a value that is true or false; False if the body does not have it."""
    flag = body.get(name)
    if flag is not None and type(flag) is not bool:
        raise HTTPException(422, f"{name!r} is neither true nor false")
    return bool(flag)


def criterion_in(body: Record) -> str | None:
    """Return the name of the criterion that a request is about; None if it names none."""
    return optional_text_in(body, "criterion", longest=200)


def judgement_in(body: Record, question: Question, annotator: str) -> Judgement:
    """Make the judgement by which an annotator's request answers a question."""
    answer = text_in(body, "answer", longest=20)
    if answer not in ANSWERS_OF_PAGES:
        known = ", ".join(ANSWERS_OF_PAGES)
        raise HTTPException(422, f"unknown answer {answer!r}; known are {known}")
    best = number_in(body, "best")
    worst = number_in(body, "worst")
    facts = _facts_in(body)
    has_place = best is not None or worst is not None
    if answer == "best" and best is not None:
        return question.answered_by_place(annotator, best, worst, **facts)
    if answer == "best" or has_place:
        raise HTTPException(422, "the answer 'best' alone has a place as 'best', and as 'worst'")
    return question.answered(annotator, cast(Word, answer), **facts)


def _facts_in(body: Record) -> Record:
    """Return the facts of a judgement besides the answer: the time, the comment, the flag.

    A fact that the body does not have is None.
    """
    text = body.get("comment") or ""
    if not isinstance(text, str) or len(text) > LONGEST_COMMENT:
        raise HTTPException(422, f"'comment' is not a text of at most {LONGEST_COMMENT} characters")
    # Databases keep neither zero bytes nor halves of characters.
    comment = text.replace("\0", "").encode(errors="replace").decode().strip()
    time: Any = body.get("milliseconds")
    # A page that measures an invalid time must not lose the answer: the time is left out.
    is_time = type(time) in (int, float) and 0 <= time <= LONGEST_MS
    return {
        "milliseconds": int(time) if is_time else None,
        "comment": comment or None,
        "flagged": flag_in(body, "flagged") or None,
    }


def decision_in(body: Record, annotators: Collection[str]) -> Decision:
    """Return the decision that the admin page sends; the collection checks whether it is allowed.

    Args:
        annotators: names of the annotators that the decision may be about.
    """
    kind = text_in(body, "kind", longest=20)
    annotator = optional_text_in(body, "annotator", LONGEST_NAME)
    reason: str | None = None
    # An empty question, or empty instructions, restore the default.
    if kind not in LONGEST or body.get("reason") != "":
        reason = optional_text_in(body, "reason", LONGEST.get(kind, _LONGEST_REASON))
    if annotator is not None and annotator not in annotators:
        raise HTTPException(422, f"there is no annotator {annotator[:60]!r}")
    is_whole = kind in KINDS and KINDS[kind].type is int
    amount = number_in(body, "amount", is_whole=is_whole)
    item = number_in(body, "item")
    other = number_in(body, "other")
    return Decision(kind, annotator=annotator, reason=reason, item=item, other=other, amount=amount)


def view_in(request: Request) -> View:
    """Return the view of the ranking that a request asks for, by ?find=TEXT&sort=-score&page=2.

    With a minus before the column, the largest value is first. Page 0 is page 1.
    """
    parameters = request.query_params
    sort = parameters.get("sort", "rank")
    column = sort.removeprefix("-")
    if column not in SORTS:
        raise HTTPException(422, f"the ranking is sorted by {', '.join(SORTS)}")
    page = parameters.get("page", "1")
    if not page.isdecimal() or len(page) > _MOST_PAGE_DIGITS:
        raise HTTPException(422, "'page' is not a whole number from 1 on")
    search = parameters.get("find", "")[:_LONGEST_SEARCH]
    return View(search, column, down=sort.startswith("-"), page=max(int(page), 1))
