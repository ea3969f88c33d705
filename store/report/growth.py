"""Draw how certain a collection's ranking has become with more answers: page, report, notebook."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import pandas as pd

from sortnet.files import Record, plain
from sortnet.preference.session import Session
from sortnet.preference.stopping import Goal, Remaining
from store.collections.collection import Collection
from store.plots.figures import certainty_growth
from store.report.html_page import Picture, picture
from store.service.labelling import LabellingService, new_session
from store.service.sentences import goal_in_words

# The model is fitted again to these shares of the judgements, the first judgements in each case.
# Large collections are not fitted again, which would take too long.
_REPLAYED_SHARES = (0.1, 0.2, 0.35, 0.5, 0.7, 0.85)
_MOST_ITEMS = 1000
_MOST_ANSWERS = 20_000
_FEWEST_HELD_OUT = 5  # fewest held-out answers from which a share is computed


def growth_of(service: LabellingService) -> list[Record]:
    """Return the certainty after different numbers of answers, the latest fit last.

    A point has the number of answers, `answers`; the share of pairs or top items that the model
    expected to be right, `expected`; and the share of the hold-out answers that it predicted,
    `holdout`, which is None if the hold-out had few answers.

    Args:
        service: the labelling service, which has the latest fit.

    Cost: six fits, of at most 1,000 items and 20,000 answers, whenever the answers have grown by a
    quarter.
    """
    n_answers = service.session.n_votes
    earlier: Sequence[Record] = ()
    if n_answers and len(service.items) <= _MOST_ITEMS and n_answers <= _MOST_ANSWERS:
        n_quarters = int(math.log(n_answers) / math.log(1.25))
        earlier = _replayed_points(service.session, service.collection, n_quarters)
    points = [point for point in earlier if point["answers"] < n_answers]
    return [*points, _point(n_answers, service.remaining)]


@lru_cache(4)
def _replayed_points(session: Session, collection: Collection, n_quarters: int) -> list[Record]:
    """Fit a new session to growing numbers of the first judgements; return a point for each fit.

    Points without any answer are left out.

    Args:
        session: the session whose judgements are fitted again.
        collection: the collection of the session.
        n_quarters: how often the answers have grown by a quarter, by which the points are cached.
    """
    judgements = session.judgements()
    replay = new_session(collection, collection.items(), session.study, goal=session.goal)
    points = []
    n_replayed = 0
    for share in _REPLAYED_SHARES:
        n_judgements = int(share * len(judgements))
        replay.replay(judgements[n_replayed:n_judgements])
        n_replayed = n_judgements
        replay.refit()
        if replay.n_votes:
            points.append(_point(replay.n_votes, replay.remaining(fresh=False)))
    return points


def _point(n_answers: int, remaining: Remaining) -> Record:
    """Make a point of the picture of growing certainty."""
    holdout = remaining.check.right if remaining.check.n >= _FEWEST_HELD_OUT else None
    point = {"answers": n_answers, "expected": 1 - remaining.wrong, "holdout": holdout}
    return dict(plain(point))


def growth_picture(points: Sequence[Record], goal: Goal) -> Picture | None:
    """Draw how certainty has grown; None if fewer than two points are known.

    Args:
        points: as `growth_of` returns them.
        goal: the goal of the session. A goal about top items is a probability and not a share, so
            it has no line in the picture.
    """
    known_points = [point for point in points if point["answers"]]
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
