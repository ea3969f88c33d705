"""The choice of the best of several items, then of the worst, by their numbers from 1."""

from __future__ import annotations

import re

from cli.terminal.asking import Reply

_NUMBERS = re.compile(r"([1-9])(?:[ ,]+([1-9]))?")


def choice_among(n_items: int, *, is_worst_asked: bool) -> SetChoice | None:
    """The choice among the items of a question; None of two, which one key answers.

    >>> choice_among(2, is_worst_asked=True) is None
    True
    """
    return SetChoice(n_items, is_worst_asked=is_worst_asked) if n_items > 2 else None


class SetChoice:
    """What is chosen so far of the items of a question; places are from 0.

    Attributes:
        best: the place of the best item, while the worst one is asked for; else None.
    """

    def __init__(self, n_items: int, *, is_worst_asked: bool) -> None:
        self.n_items, self._is_worst_asked = n_items, is_worst_asked
        self.best: int | None = None

    @property
    def asked(self) -> str:
        """What is asked now.

        >>> SetChoice(4, is_worst_asked=True).asked
        'which is the best?'
        """
        if self.best is None:
            return "which is the best?"
        return f"{self.best + 1} is the best: which is the worst? ({self.best + 1}: take it back)"

    def choose(self, place: int) -> Reply | None:
        """Choose a place; the answer, if it is complete.

        The place of the best item, chosen again, takes the choice back.

        >>> choice = SetChoice(4, is_worst_asked=True)
        >>> choice.choose(1), choice.choose(3).worst
        (None, 3)
        """
        best = self.best
        self.best = None
        if best is None and self._is_worst_asked:
            self.best = place
            return None
        if best is None:
            return Reply("best", best=place)
        if best == place:
            return None
        return Reply("best", best=best, worst=place)

    def choose_by_key(self, key: str | None) -> Reply | None:
        """Choose the place of a key; another key chooses nothing."""
        place = self._place_of(key)
        return None if place is None else self.choose(place)

    def has_place(self, key: str | None) -> bool:
        """Whether it is the key of a place."""
        return self._place_of(key) is not None

    def _place_of(self, key: str | None) -> int | None:
        numbers = [str(k + 1) for k in range(self.n_items)]
        return numbers.index(key) if key in numbers else None

    def choose_by_line(self, line: str) -> Reply | str | None:
        """The answer of a line with one number or two; why it is none; None if it is incomplete.

        >>> choice = SetChoice(4, is_worst_asked=True)
        >>> choice.choose_by_line("2 4").best
        1
        >>> choice.choose_by_line("2 2")
        '2 cannot be the best and the worst'
        """
        numbers = _NUMBERS.fullmatch(line)
        if numbers is None or not all(map(self.has_place, numbers.groups("1"))):
            return f"unknown answer {line[:40]!r}"
        best, worst = map(self._place_of, numbers.groups())
        if best is None or worst is None:
            return self.choose_by_key(numbers[1])
        if not self._is_worst_asked:
            return "only the best is asked for"
        if best == worst:
            return f"{best + 1} cannot be the best and the worst"
        self.best = None
        return Reply("best", best=best, worst=worst)
