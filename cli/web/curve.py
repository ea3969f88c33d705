"""The curve of the admin page: the share that is right by the number of answers."""

from __future__ import annotations

import math
from typing import Any


def drawn_curve(state: dict[str, Any]) -> dict[str, Any] | None:
    """What the template draws, its places in percent of the plot; None of fewer than two points.

    Without a line for the goal of a top, as that is a probability.
    """
    points = [point for point in state["curve"] if point["expected"] is not None]
    if len(points) < 2:
        return None
    top, last = state["top"], points[-1]
    goal = None if top else 1 - state["goal"]
    lines = {
        name: [(each["answers"], each[name]) for each in points if each[name] is not None]
        for name in ("holdout", "expected")
    }
    most: int = max(4, *(each["answers"] for each in points))
    drawn = [share for line in lines.values() for _, share in line]
    least: float = min(0.5, math.floor(10 * min(drawn if goal is None else [*drawn, goal])) / 10)

    def x(answers: float) -> float:
        return 100 * answers / most

    def y(share: float) -> float:
        return 100 * (1 - share) / (1 - least)

    tenths = range(10, round(10 * least) - 1, -2 if least < 0.5 else -1)
    what = f"the top {top} are" if top else "the pairs are"
    where = "to belong there" if top else "in the right order"
    checked = (
        "" if last["holdout"] is None else f", {last['holdout']:.0%} of the hold-out predicted"
    )
    wanted = state["wanted"] if goal is None else f"{goal:.0%}"
    said = f"After {last['answers']} answers {last['expected']:.0%} of {what} expected {where}"
    return {
        "lines": {name: [(x(n), y(share)) for n, share in line] for name, line in lines.items()},
        "shares": [(y(tenth / 10), f"{10 * tenth} %") for tenth in tenths],
        "answers": [(x(n), n) for n in range(0, most + 1, _step(most))],
        "goal": None if goal is None else y(goal),
        "said": f"{said}{checked}; the goal is {wanted}.".replace("%", " %"),
    }


def _step(most: int) -> int:
    """A round number of which about four make the most.

    >>> _step(4), _step(55), _step(1234)
    (1, 20, 500)
    """
    power = int(10 ** math.floor(math.log10(most / 4)))
    return next(digit * power for digit in (1, 2, 5, 10) if digit * power >= most / 4)
