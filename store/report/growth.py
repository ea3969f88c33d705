"""Draw how certain a collection's ranking has become with more answers: page, report, notebook."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import pandas as pd

from sortnet.files import plain
from sortnet.preference.goal import Goal
from sortnet.preference.stopping import Remaining
from store.plots.figures import certainty_growth
from store.report.columns import Record
from store.report.html_page import Picture, picture
from store.service.convergence import FEW
from store.service.labelling import LabellingService
from store.service.sentences import goal_in_words


def growth_points(service: LabellingService, recorded_fits: Sequence[Record]) -> list[Record]:
    """Return the certainty after different numbers of answers, the latest fit last.

    A point has the number of answers, `answers`; the share of pairs or top items that the model
    expected to be right, `expected`; and the share of the hold-out answers that it predicted,
    `holdout`, which is None if the hold-out had few answers.

    Args:
        service: the labelling service, which has the latest fit.
        recorded_fits: the result of `store.service.convergence.recorded`.
    """
    n_answers = service.session.n_votes
    # The latest fit replaces a recorded fit of as many answers. A recorded fit has more answers
    # if some of them were undone later, or their annotator was excluded.
    fits_of_fewer_answers = [fit for fit in recorded_fits if (fit["answers"] or 0) < n_answers]
    return [*fits_of_fewer_answers, _point(n_answers, service.remaining)]


def _point(n_answers: int, remaining: Remaining) -> Record:
    """Make a point of the picture of growing certainty."""
    holdout = remaining.check.right if remaining.check.n >= FEW else None
    point = {"answers": n_answers, "expected": 1 - remaining.wrong, "holdout": holdout}
    return dict(plain(point))


def growth_picture(points: Sequence[Record], goal: Goal) -> Picture | None:
    """Draw how certainty has grown; None if fewer than two points are known.

    Args:
        points: as `growth_points` returns them.
        goal: the goal of the session. A goal about top items is a probability and not a share, so
            it has no line in the picture.
    """
    known_points = [point for point in points if point["expected"] is not None and point["answers"]]
    if len(known_points) < 2:
        return None
    return _drawn(
        tuple((point["answers"], point["expected"], point["holdout"]) for point in known_points),
        goal,
    )


@lru_cache(16)  # an open page asks again every few seconds
def _drawn(points: tuple[tuple[int, float, float | None], ...], goal: Goal) -> Picture:
    """Draw points (answers, expected, holdout), and tell the last expected share."""
    frame = pd.DataFrame(points, columns=["answers", "expected", "holdout"])
    figure = certainty_growth(frame, goal=None if goal.top else 1 - goal.wrong)
    answers, expected, _ = points[-1]
    aim = f"top {goal.top} to belong there" if goal.top else "pairs to be in the right order"
    alt = (
        f"After {answers} answers the model expects {expected:.0%} of the {aim}; the goal: "
        f"{goal_in_words(goal)}."
    )
    subject = f"the top {goal.top} that belong there" if goal.top else "pairs in the right order"
    caption = (
        f"Share of {subject}, by number of answers: expected by the model, and of the hold-out "
        "answers that it predicted."
    )
    return picture(figure, alt, caption)
