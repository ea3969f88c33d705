"""Choose the best of several items, then the worst, by their numbers from 1."""

from __future__ import annotations

import re

from cli.terminal.asking import Reply

_NUMBERS = re.compile(r"([1-9])(?:[ ,]+([1-9]))?")


def choice_among(n_items: int, *, is_worst_asked: bool) -> SetChoice | None:
    """Begin a choice among more than two items.

    For two items the result is None, because a single key answers the question.

    >>> choice_among(2, is_worst_asked=True) is None
    True
    """
    return SetChoice(n_items, is_worst_asked=is_worst_asked) if n_items > 2 else None


class SetChoice:
    """State of a choice among the items of a question; places of items are numbers from 0.

    Args:
        n_items: number of items.
        is_worst_asked: whether the worst item must be chosen, too.

    Attributes:
        n_items: number of items.
        best: place of the chosen best item while the worst item is awaited; otherwise None.
    """

    def __init__(self, n_items: int, *, is_worst_asked: bool) -> None:
        self.n_items = n_items
        self.best: int | None = None
        self._is_worst_asked = is_worst_asked

    @property
    def prompt(self) -> str:
        """Question that the annotator must answer next.

        >>> SetChoice(4, is_worst_asked=True).prompt
        'which is the best?'
        """
        if self.best is None:
            return "which is the best?"
        return f"{self.best + 1} is the best: which is the worst? ({self.best + 1}: take it back)"

    def choose(self, place: int) -> Reply | None:
        """Choose the item at a place; return the reply if it is complete, otherwise None.

        If the best item is chosen again, the choice is taken back.

        >>> choice = SetChoice(4, is_worst_asked=True)
        >>> choice.choose(1), choice.choose(3).worst
        (None, 3)
        """
        if self.best is None:
            if not self._is_worst_asked:
                return Reply("best", best=place)
            self.best = place
            return None
        best = self.best
        self.take_back()
        if place == best:
            return None
        return Reply("best", best=best, worst=place)

    def take_back(self) -> None:
        """Take back the choice of the best item."""
        self.best = None

    def choose_by_key(self, key: str | None) -> Reply | None:
        """Choose an item by the key of its number; any other key chooses nothing."""
        place = self._place_of_key(key)
        return None if place is None else self.choose(place)

    def has_place(self, key: str | None) -> bool:
        """Whether the key is the number of an item."""
        return self._place_of_key(key) is not None

    def _place_of_key(self, key: str | None) -> int | None:
        """Return the place from 0 that a key means, such as 0 for `1`; None for other keys."""
        numbers = [str(place + 1) for place in range(self.n_items)]
        return numbers.index(key) if key in numbers else None

    def choose_by_line(self, line: str) -> Reply | str | None:
        """Choose by a line with one number, or with the numbers of the best and the worst item.

        Returns:
            The reply; a text about what is wrong with the line; or None if the worst item must
            still be named.

        >>> choice = SetChoice(4, is_worst_asked=True)
        >>> choice.choose_by_line("2 4").best
        1
        >>> choice.choose_by_line("2 2")
        '2 cannot be the best and the worst'
        """
        match = _NUMBERS.fullmatch(line)
        if match is None:
            return f"unknown answer {line[:40]!r}"
        numbers = [number for number in match.groups() if number is not None]
        if not all(self.has_place(number) for number in numbers):
            return f"unknown answer {line[:40]!r}"
        if len(numbers) == 1:
            return self.choose_by_key(numbers[0])
        best, worst = (self._place_of_key(number) for number in numbers)
        if not self._is_worst_asked:
            return "only the best is asked for"
        if best == worst:
            return f"{numbers[0]} cannot be the best and the worst"
        self.best = None
        return Reply("best", best=best, worst=worst)
