"""Draw the curve of the admin page: the share that is right, by the number of answers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_FEWEST_ANSWERS = 4  # least number of answers at the right edge of the plot
_USUAL_MIN_SHARE = 0.5  # share at the bottom of the plot, unless a share is lower


@dataclass(frozen=True)
class _Plot:
    """The axes of the curve: numbers of answers from left to right, shares from bottom to top.

    Attributes:
        max_answers: the number of answers at the right edge; 0 answers are at the left edge.
        min_share: the share at the bottom; the share at the top is 1.
    """

    max_answers: int
    min_share: float

    def x(self, answers: float) -> float:
        """Return the distance of a number of answers from the left edge, in percent."""
        return 100 * answers / self.max_answers

    def y(self, share: float) -> float:
        """Return the distance of a share from the top, in percent."""
        return 100 * (1 - share) / (1 - self.min_share)

    def share_grid(self) -> list[tuple[float, str]]:
        """Return the height and the label of each horizontal grid line.

        The lines are at every tenth, or at every other tenth if there would be many lines.
        """
        tenths_between_lines = 2 if self.min_share < _USUAL_MIN_SHARE else 1
        tenths = range(10, round(10 * self.min_share) - 1, -tenths_between_lines)
        return [(self.y(tenth / 10), f"{10 * tenth} %") for tenth in tenths]

    def answers_grid(self) -> list[tuple[float, int]]:
        """Return the place and the number of each label below the plot."""
        numbers = range(0, self.max_answers + 1, _grid_step(self.max_answers))
        return [(self.x(number), number) for number in numbers]


def draw_curve(state: dict[str, Any]) -> dict[str, Any] | None:
    """Compute the curve that the template draws, with coordinates in percent of the plot.

    None if there are fewer than two points. A goal about top items is a probability and not a
    share, so it has no line in the plot.

    Args:
        state: the state of the admin page, see `AdminState.state`.

    Returns:
        `lines` {name: (x, y) points}; the grid lines `shares` and `answers`, each a place and a
        label or number; the height `goal` of the goal's line, or None; and `text`, the curve in a
        sentence.
    """
    # Each point is a fit. `answers` is the number of answers so far, `expected` the share of pairs
    # that the model expects to be right, and `holdout` the share of held-out answers that it
    # predicted (None if few answers are held out).
    points = [point for point in state["curve"] if point["expected"] is not None]
    if len(points) < 2:
        return None
    goal = None if state["top"] else 1 - state["goal"]
    lines = {
        name: [(point["answers"], point[name]) for point in points if point[name] is not None]
        for name in ("holdout", "expected")
    }
    plot = _plot_of(lines, goal)
    return {
        "lines": {
            name: [(plot.x(answers), plot.y(share)) for answers, share in line]
            for name, line in lines.items()
        },
        "shares": plot.share_grid(),
        "answers": plot.answers_grid(),
        "goal": None if goal is None else plot.y(goal),
        "text": _in_words(points[-1], state),
    }


def _plot_of(lines: Mapping[str, Sequence[tuple[int, float]]], goal: float | None) -> _Plot:
    """Make a plot that is large enough for all lines and the goal.

    The bottom is a share of a half, or the next tenth below all shares.

    Args:
        lines: {name: its points}, each a number of answers and a share.
        goal: the share to reach; None if the plot does not show it.
    """
    all_points = [point for line in lines.values() for point in line]
    max_answers = max(_FEWEST_ANSWERS, *(answers for answers, _ in all_points))
    shares = [share for _, share in all_points]
    if goal is not None:
        shares.append(goal)
    lowest_tenth = math.floor(10 * min(shares)) / 10
    return _Plot(max_answers, min(_USUAL_MIN_SHARE, lowest_tenth))


def _in_words(last_point: dict[str, Any], state: dict[str, Any]) -> str:
    """Tell the last point and the goal in a sentence, for people who do not see the curve."""
    sentence = f"After {last_point['answers']} answers {last_point['expected']:.0%} of "
    if state["top"]:
        goal = state["wanted"]
        sentence += f"the top {state['top']} are expected to belong there"
    else:
        goal = f"{1 - state['goal']:.0%}"
        sentence += "the pairs are expected in the right order"
    if last_point["holdout"] is not None:
        sentence += f", {last_point['holdout']:.0%} of the hold-out predicted"
    return f"{sentence}; the goal is {goal}.".replace("%", " %")


def _grid_step(max_answers: int) -> int:
    """Choose a round step between grid lines, so that the grid has at most five lines.

    The step is the smallest of 1, 2, 5, 10, 20, 50, ... that is at least a quarter of
    `max_answers`, which is 4 or more.

    >>> _grid_step(4), _grid_step(55), _grid_step(1234)
    (1, 20, 500)
    """
    quarter = max_answers / 4
    power = int(10 ** math.floor(math.log10(quarter)))
    return next(digit * power for digit in (1, 2, 5, 10) if digit * power >= quarter)
