"""Draw the curve of the admin page: the share that is right, by the number of answers."""

from __future__ import annotations

import math
from typing import Any

_FEWEST_ANSWERS = 4  # least number of answers at the right edge of the plot


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
    # Each point is a fit: `answers` so far, the share `expected` to be right, and the share of the
    # `holdout` that the model predicted, None if few answers are held out.
    points = [point for point in state["curve"] if point["expected"] is not None]
    if len(points) < 2:
        return None
    goal = None if state["top"] else 1 - state["goal"]
    lines = {
        name: [(point["answers"], point[name]) for point in points if point[name] is not None]
        for name in ("holdout", "expected")
    }
    max_answers: int = max(_FEWEST_ANSWERS, *(point["answers"] for point in points))
    shares = [share for line in lines.values() for _, share in line]
    if goal is not None:
        shares.append(goal)
    # The top of the plot is a share of 1. The bottom is a half, or the next tenth below all shares.
    lowest_tenth = math.floor(10 * min(shares)) / 10
    min_share: float = min(0.5, lowest_tenth)

    def x(answers: float) -> float:
        """Distance from the left of the plot, in percent."""
        return 100 * answers / max_answers

    def y(share: float) -> float:
        """Distance from the top of the plot, in percent."""
        return 100 * (1 - share) / (1 - min_share)

    # The grid has a line at every tenth, or at every other tenth if there would be many lines.
    tenths_between_lines = 2 if min_share < 0.5 else 1
    tenths = range(10, round(10 * min_share) - 1, -tenths_between_lines)
    answers_of_grid = range(0, max_answers + 1, _grid_step(max_answers))
    return {
        "lines": {name: [(x(n), y(share)) for n, share in line] for name, line in lines.items()},
        "shares": [(y(tenth / 10), f"{10 * tenth} %") for tenth in tenths],
        "answers": [(x(n), n) for n in answers_of_grid],
        "goal": None if goal is None else y(goal),
        "text": _in_words(points[-1], state),
    }


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
    `max_answers`.

    >>> _grid_step(4), _grid_step(55), _grid_step(1234)
    (1, 20, 500)
    """
    quarter = max_answers / 4
    power = int(10 ** math.floor(math.log10(quarter)))
    return next(digit * power for digit in (1, 2, 5, 10) if digit * power >= quarter)
