"""Choose the best of several items, then the worst, by their numbers from 1."""

from __future__ import annotations

import re

from cli.terminal.asking import Reply

_NUMBERS = re.compile(r"([1-9])(?:[ ,]+([1-9]))?")


def choice_among(n_items: int, *, is_worst_asked: bool) -> SetChoice | None:
    """Begin a choice among the items of a question; None for two items: one key answers these.

    >>> choice_among(2, is_worst_asked=True) is None
    True
    """
    return SetChoice(n_items, is_worst_asked=is_worst_asked) if n_items > 2 else None


class SetChoice:
    """The state of a choice among the items of a question, whose places count from 0.

    Attributes:
        best: the place of the chosen best item while the worst item is asked for; else None.
    """

    def __init__(self, n_items: int, *, is_worst_asked: bool) -> None:
        self.n_items = n_items
        self.best: int | None = None
        self._is_worst_asked = is_worst_asked

    @property
    def prompt(self) -> str:
        """The question to answer next.

        >>> SetChoice(4, is_worst_asked=True).prompt
        'which is the best?'
        """
        if self.best is None:
            return "which is the best?"
        return f"{self.best + 1} is the best: which is the worst? ({self.best + 1}: take it back)"

    def choose(self, place: int) -> Reply | None:
        """Choose the item at a place; return the answer if it is complete now.

        If the place of the best item is chosen again, the choice is taken back.

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
        """Choose the item whose number is the key, see `choose`; other keys choose nothing."""
        place = self._place_of(key)
        return None if place is None else self.choose(place)

    def has_place(self, key: str | None) -> bool:
        """Whether the key is the number of an item."""
        return self._place_of(key) is not None

    def _place_of(self, key: str | None) -> int | None:
        numbers = [str(k + 1) for k in range(self.n_items)]
        return numbers.index(key) if key in numbers else None

    def choose_by_line(self, line: str) -> Reply | str | None:
        """Choose by a line with one number, or with the numbers of the best and the worst item.

        Returns:
            The answer; a text that says what is wrong with the line; or None if the worst item is
            still to be named.

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
