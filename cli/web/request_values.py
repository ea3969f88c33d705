"""Read and check the values in requests to the pages; an invalid value is an HTTPException."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import Any, cast

from starlette.exceptions import HTTPException
from starlette.requests import Request

from cli.web.ranking_rows import SORTS, View
from sortnet.preference import Judgement, Question
from sortnet.preference.base import LONGEST_COMMENT, SIDES, Word
from sortnet.preference.study import KINDS, LONGEST, Decision
from store.collections.collection_rows import LONGEST_NAME

ANSWERS_OF_PAGES: tuple[Word, ...] = (*SIDES, "skip", "cant-say", "best", "same")
LONGEST_MS = 24 * 3600 * 1000  # a day: longest time to answer that is stored, in milliseconds
_LONGEST_SEARCH = 200  # most characters of a search text; the rest is ignored
_LONGEST_REASON = 500  # most characters of a decision's reason
_MOST_PAGE_DIGITS = 7  # most digits of the number of a page
_NOT_WHOLE = "not a whole number from 0 on"  # description of an invalid value
_WHOLE_NUMBERS_END = 2**53  # JavaScript has all whole numbers below this number


async def read_body(request: Request) -> dict[str, Any]:
    """Read the JSON object that is the body of a request."""
    try:
        body = json.loads(await request.body())
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise HTTPException(400, "the request is not a JSON object")
    return body


def text_in(body: dict[str, Any], name: str, longest: int) -> str:
    """Return a text that the body must have, without surrounding space.

    Args:
        name: name of the value in the body.
        longest: most characters of the text.
    """
    text = body.get(name)
    if not isinstance(text, str) or not text.strip() or len(text) > longest:
        raise HTTPException(422, f"{name!r} is not a text of 1 to {longest} characters")
    try:
        text.encode()
    except UnicodeEncodeError:
        fault = f"{name!r} has half of a character (a lone surrogate)"
        raise HTTPException(400, fault) from None
    return text.strip()


def whole_number_in(body: dict[str, Any], name: str, fault: str) -> int | None:
    """Return a whole number of at least 0; None if the body does not have it.

    Args:
        name: name of the value in the body.
        fault: description of an invalid value, such as `not the number of a place`.
    """
    return cast(int | None, _number_in(body, name, (int,), fault))


def flag_in(body: dict[str, Any], name: str) -> bool:
    """Return a value that is true or false; False if the body does not have it."""
    flag = body.get(name)
    if flag is not None and type(flag) is not bool:
        raise HTTPException(422, f"{name!r} is neither true nor false")
    return bool(flag)


def criterion_in(body: dict[str, Any]) -> str | None:
    """Return the name of the criterion that a request is about; None if it names none."""
    return _optional_text_in(body, "criterion", longest=200)


def judgement_in(body: dict[str, Any]) -> Callable[[Question, str], Judgement]:
    """Return the answer in a request, as a function that makes the judgement of a question.

    The function takes the question and the name of the annotator.
    """
    answer = text_in(body, "answer", longest=20)
    if answer not in ANSWERS_OF_PAGES:
        known = ", ".join(ANSWERS_OF_PAGES)
        raise HTTPException(422, f"unknown answer {answer!r}; known are {known}")
    best = whole_number_in(body, "best", "not the number of a place")
    worst = whole_number_in(body, "worst", "not the number of a place")
    facts = _facts_in(body)
    if answer == "best" and best is not None:
        place = best
        return lambda question, annotator: question.answered_by_place(
            annotator, place, worst, **facts
        )
    if answer == "best" or best is not None or worst is not None:
        raise HTTPException(422, "the answer 'best' alone has a place as 'best', and as 'worst'")
    return lambda question, annotator: question.answered(annotator, cast(Word, answer), **facts)


def _facts_in(body: dict[str, Any]) -> dict[str, Any]:
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
    milliseconds: int | None = None
    if type(time) in (int, float) and 0 <= time <= LONGEST_MS:
        milliseconds = int(time)
    return {
        "milliseconds": milliseconds,
        "comment": comment or None,
        "flagged": flag_in(body, "flagged") or None,
    }


def decision_in(body: dict[str, Any], annotators: Collection[str]) -> Decision:
    """Return the decision that the admin page sends; the collection checks whether it is allowed.

    Args:
        annotators: names of the annotators that the decision may be about.
    """
    kind = text_in(body, "kind", longest=20)
    annotator = _optional_text_in(body, "annotator", LONGEST_NAME)
    reason: str | None = None
    # An empty question, or empty instructions, restore the default.
    if kind not in LONGEST or body.get("reason") != "":
        reason = _optional_text_in(body, "reason", LONGEST.get(kind, _LONGEST_REASON))
    if annotator is not None and annotator not in annotators:
        raise HTTPException(422, f"there is no annotator {annotator[:60]!r}")
    item = whole_number_in(body, "item", _NOT_WHOLE)
    other = whole_number_in(body, "other", _NOT_WHOLE)
    if kind in KINDS and KINDS[kind].type is int:
        amount: float | None = whole_number_in(body, "amount", _NOT_WHOLE)
    else:
        amount = _number_in(body, "amount", (int, float), "not a number from 0 on")
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


def _optional_text_in(body: dict[str, Any], name: str, longest: int) -> str | None:
    """Return a text; None if the body does not have it."""
    return None if body.get(name) is None else text_in(body, name, longest)


def _number_in(
    body: dict[str, Any], name: str, types: tuple[type, ...], fault: str
) -> float | None:
    """Return a number of at least 0; None if the body does not have it.

    Args:
        name: name of the value in the body.
        types: allowed types of the number.
        fault: description of an invalid value.
    """
    number: Any = body.get(name)
    if number is None:
        return None
    if type(number) not in types or not 0 <= number < _WHOLE_NUMBERS_END:
        raise HTTPException(422, f"{name!r} is {fault}")
    return cast(float, number)
