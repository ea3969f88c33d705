"""All judgements so far, counted as they come: whose, and when."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable

from sortnet.preference import Judgement


class Log:
    """Judgements by number, each once whoever tells of it; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: dict[int, Judgement] = {}
        self._standing: Counter[str] = Counter()
        self._complete = 0

    def add(self, judgements: Iterable[Judgement]) -> None:
        with self._lock:
            for judgement in judgements:
                if judgement.number not in self._events:
                    self._events[judgement.number] = judgement
                    self._standing[judgement.annotator] += -1 if judgement.answer == "undo" else 1
            while self._complete + 1 in self._events:
                self._complete += 1

    @property
    def complete(self) -> int:
        """The number up to which all judgements are here."""
        return self._complete

    def answered(self, annotator: str) -> int:
        """How many answers of theirs stand."""
        return self._standing[annotator]

    def events(self) -> list[Judgement]:
        """All of them, in order."""
        with self._lock:
            return [self._events[number] for number in sorted(self._events)]
