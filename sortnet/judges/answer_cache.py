"""A file of language models' answers, so that several collections pay for an answer once."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sortnet.errors import SortNetError
from sortnet.files import refuse_irregular, refuse_output
from sortnet.judges.answer_form import AnswerForm
from sortnet.judges.asked_question import PLACES
from sortnet.judges.prices import Price
from sortnet.judges.verdicts import Verdict, stored_meta
from sortnet.preference.base import ORDER_ANSWERS

_FORM_FOR_TWO = AnswerForm()
# The first line of the file.
_FORMAT = {"format": "sortnet-answers", "format_version": 1}


def answer_key(
    model: str,
    messages: Sequence[Mapping[str, Any]],
    request: Mapping[str, Any],
    *,
    structured: bool,
    with_logprobs: bool = True,
    form: AnswerForm = _FORM_FOR_TWO,
) -> str:
    """Make the key of an answer in the cache: a hash of the request and of the form of the answer.

    Args:
        model: name of the model.
        messages: messages of the prompt.
        request: parameters of the user.
        structured: whether the answer is asked for by JSON schema.
        with_logprobs: whether log-probabilities are asked for.
        form: form of the answer.
    """
    parts: list[Any] = [model, list(messages), dict(request), structured, with_logprobs]
    if form.is_of_set:
        parts += [form.n_items, form.worst]
    text = json.dumps(parts, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def answered_from_cache(
    cached: Verdict, model: str, facts: Mapping[str, Any], price: Price
) -> Verdict:
    """Make the answer to a question from a cached answer, which takes no calls and costs nothing.

    Args:
        cached: the cached answer.
        model: name of the model.
        facts: facts to store with each answer of the model.
        price: price of the tokens.
    """
    meta = {"model": model, "tokens": [0, 0], "calls": 0, "cached": True, **facts}
    return replace(cached, cost=price.of(0, 0), meta=stored_meta(meta))


class AnswerCache:
    """Cache of answers in a file of JSON lines, by the keys of `answer_key`. Thread-safe.

    Each answer is appended at once, as a whole line. If the last line is incomplete because a
    process was killed, it is ignored. Two processes may use the file at the same time. Each process
    has the answers that were in the file when the process began, and its own answers.

    Args:
        file: path of the file; only its owner can read a new file.

    Raises:
        SortNetError: if the file cannot be read or made, or is no cache of answers.
    """

    def __init__(self, file: str) -> None:
        """Read the answers in the file, or write the first line of a new or empty file."""
        self._path = Path(file)
        self._lock = threading.Lock()
        self._verdicts: dict[str, Verdict] = {}
        self._is_cut = False  # whether the file ends in the middle of a line
        refuse_output(file)
        try:
            n_lines = self._read() if self._path.exists() else 0
            if n_lines == 0:
                self._append(_FORMAT)
        except OSError as error:
            raise self._fault(error) from None

    def __len__(self) -> int:
        return len(self._verdicts)

    def get(self, key: str) -> Verdict | None:
        """Return the answer that is stored under a key; None if there is none."""
        return self._verdicts.get(key)

    def add(self, key: str, verdict: Verdict) -> None:
        """Store an answer, unless the key has one already or the answer prefers no item.

        A skip is not stored, for example.

        Raises:
            SortNetError: if the file cannot be written.
        """
        if verdict.answer not in ORDER_ANSWERS:
            return
        with self._lock:
            if key in self._verdicts:
                return
            fields: dict[str, Any] = {
                "comment": verdict.comment,
                "best": verdict.best,
                "worst": verdict.worst,
            }
            present = {name: value for name, value in fields.items() if value is not None}
            # Time and cost are left out: they belong to the call, and not to a later question.
            self._verdicts[key] = Verdict(verdict.answer, verdict.p, **present)
            try:
                self._append({"key": key, "answer": verdict.answer, "p": verdict.p, **present})
            except OSError as error:
                raise self._fault(error) from None

    def _read(self) -> int:
        """Read the answers in the file; return the number of lines."""
        refuse_irregular(self._path, error=SortNetError)
        n_lines = 0
        with self._path.open("rb") as file:
            for line in file:
                n_lines += 1
                record = _record(line)
                if n_lines == 1 and record != _FORMAT:
                    raise SortNetError(f"{self._path}: not a cache of answers of SortNet")
                entry = _entry(record)
                if entry is not None:
                    key, verdict = entry
                    self._verdicts.setdefault(key, verdict)
                self._is_cut = not line.endswith(b"\n")
        return n_lines

    def _append(self, record: Mapping[str, Any]) -> None:
        """Append a line to the file by a single write, so that processes do not mix their lines."""
        line = json.dumps(record) + "\n"
        if self._is_cut:  # the record must not continue an incomplete line
            line = f"\n{line}"
            self._is_cut = False
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)

    def _fault(self, error: OSError) -> SortNetError:
        """Make the error to raise if the file cannot be read or written."""
        return SortNetError(f"cache of answers {self._path}: {error.strerror or error}")


def _record(line: bytes) -> Any:
    """Parse a line of JSON; None if the line is no JSON, for example because it is incomplete."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _entry(record: Any) -> tuple[str, Verdict] | None:
    """Read the key and the answer from the JSON value of a line; None if they are not valid."""
    if not isinstance(record, dict):
        return None
    key = record.get("key")
    answer = record.get("answer")
    if not isinstance(key, str) or answer not in ORDER_ANSWERS:
        return None
    p = record.get("p")
    if p is not None and not (isinstance(p, int | float) and 0 <= p <= 1):
        return None
    best = record.get("best")
    worst = record.get("worst")
    if not _are_places_of_answer(best, worst, answer):
        return None
    comment = record.get("comment")
    if not isinstance(comment, str):
        comment = None
    return key, Verdict(answer, p, comment=comment, best=best, worst=worst)


def _are_places_of_answer(best: object, worst: object, answer: object) -> bool:
    """Check two places, numbers from 0, which only the answer "best" has.

    With the answer "best", `worst` may be None. With any other answer both must be None.
    """
    if answer != "best":
        return best is None and worst is None
    chosen = [best] if worst is None else [best, worst]
    for place in chosen:
        if not isinstance(place, int) or isinstance(place, bool):
            return False
        if not 0 <= place < len(PLACES):
            return False
    return best != worst
