"""The curve of the admin page: the share that is right by the number of answers."""

from __future__ import annotations

import math
from typing import Any


def draw_curve(state: dict[str, Any]) -> dict[str, Any] | None:
    """The curve that the template draws, with places in percent of the plot.

    None if there are fewer than two points. With a top, the goal is a probability and not a share,
    so it has no line.
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

    # The lines of the grid: every tenth of the shares, or every other tenth if they are many.
    tenths = range(10, round(10 * min_share) - 1, -2 if min_share < 0.5 else -1)
    return {
        "lines": {name: [(x(n), y(share)) for n, share in line] for name, line in lines.items()},
        "shares": [(y(tenth / 10), f"{10 * tenth} %") for tenth in tenths],
        "answers": [(x(n), n) for n in range(0, max_answers + 1, _step(max_answers))],
        "goal": None if goal is None else y(goal),
        "text": _sentence(points[-1], state),
    }


def _sentence(last: dict[str, Any], state: dict[str, Any]) -> str:
    """The last point and the goal as a sentence, for readers who do not see the curve."""
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
    """A round number, of which about four make the most.

    >>> _step(4), _step(55), _step(1234)
    (1, 20, 500)
    """
    power = int(10 ** math.floor(math.log10(most / 4)))
    return next(digit * power for digit in (1, 2, 5, 10) if digit * power >= most / 4)
