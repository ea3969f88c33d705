"""The curve of the admin page: the share that is right against the number of answers."""

from __future__ import annotations

import math
from typing import Any


def draw_curve(state: dict[str, Any]) -> dict[str, Any] | None:
    """Compute the curve that the template draws, with coordinates in percent of the plot.

    None if there are fewer than two points. If the goal is a top k, it is a probability and not a
    share, so it has no line in the plot.
    """
    points = [point for point in state["curve"] if point["expected"] is not None]
    if len(points) < 2:
        return None
    goal = None if state["top"] else 1 - state["goal"]
    lines = {
        name: [(point["answers"], point[name]) for point in points if point[name] is not None]
        for name in ("holdout", "expected")
    }
    max_answers: int = max(4, *(point["answers"] for point in points))
    shares = [share for line in lines.values() for _, share in line]
    if goal is not None:
        shares.append(goal)
    min_share: float = min(0.5, math.floor(10 * min(shares)) / 10)

    def x(answers: float) -> float:
        return 100 * answers / max_answers

    def y(share: float) -> float:
        return 100 * (1 - share) / (1 - min_share)

    # The grid has a line at every tenth, or at every other tenth if there would be many lines.
    tenths = range(10, round(10 * min_share) - 1, -2 if min_share < 0.5 else -1)
    return {
        "lines": {name: [(x(n), y(share)) for n, share in line] for name, line in lines.items()},
        "shares": [(y(tenth / 10), f"{10 * tenth} %") for tenth in tenths],
        "answers": [(x(n), n) for n in range(0, max_answers + 1, _step(max_answers))],
        "goal": None if goal is None else y(goal),
        "text": _sentence(points[-1], state),
    }


def _sentence(last: dict[str, Any], state: dict[str, Any]) -> str:
    """Say the last point and the goal in a sentence, for readers who do not see the curve."""
    sentence = f"After {last['answers']} answers {last['expected']:.0%} of "
    if state["top"]:
        sentence += f"the top {state['top']} are expected to belong there"
    else:
        sentence += "the pairs are expected in the right order"
    if last["holdout"] is not None:
        sentence += f", {last['holdout']:.0%} of the hold-out predicted"
    goal = state["wanted"] if state["top"] else f"{1 - state['goal']:.0%}"
    return f"{sentence}; the goal is {goal}.".replace("%", " %")


def _step(most: int) -> int:
    """The smallest round number that is at least a quarter of `most`, as the step of the grid.

    >>> _step(4), _step(55), _step(1234)
    (1, 20, 500)
    """
    power = int(10 ** math.floor(math.log10(most / 4)))
    return next(digit * power for digit in (1, 2, 5, 10) if digit * power >= most / 4)
