"""Pictures of a collection's report: how sure each rank is, how that grew, who answered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from sortnet.errors import DataError
from sortnet.files import plain
from sortnet.messages import count
from store.plots.labelling import (
    NAMED,
    answers_by_annotator,
    certainty_growth,
    ranking_intervals,
)
from store.report.svg import picture
from store.service.convergence import FEW, recorded
from store.service.labelling import LabellingService, new_session

_REPLAYED = (0.1, 0.2, 0.35, 0.5, 0.7, 0.85)  # shares of the judgements that are fitted again
_MOST_ITEMS, _MOST_ANSWERS = 500, 20_000  # of larger collections only recorded fits are drawn


def pictures_of(
    service: LabellingService, judges: Sequence[dict[str, Any]]
) -> list[dict[str, str]]:
    """The pictures that there is enough for."""
    goal = service.session.goal
    makers: tuple[Callable[[], dict[str, str]], ...] = (
        partial(_intervals, service),
        partial(_growth, service, None if goal.top else 1 - goal.wrong),
        partial(_annotators, judges),
    )
    pictures = []
    for make in makers:
        try:
            pictures.append(make())
        except DataError:  # nothing to draw yet
            continue
    return pictures


def _intervals(service: LabellingService) -> dict[str, str]:
    """Intervals of the ranks; with groups, those of the group with the most answers."""
    ranking, items = service.ranking, service.items
    order = ranking.order
    title = "Intervals of the ranks"
    if items.groups is not None:
        groups = np.array(items.groups, object)
        names = list(dict.fromkeys(items.groups))
        answers = [ranking.judgements[groups == name].sum() for name in names]
        largest = names[int(np.argmax(answers))]
        order = order[groups[order] == largest]
        title = f"Intervals of the ranks in the group {largest}"
    if not ranking.judgements[order].any():
        raise DataError("no answers yet")
    columns = {name: getattr(ranking, name)[order] for name in ("rank", "low", "high")}
    frame = pd.DataFrame({"id": [items.ids[k] for k in order.tolist()], **columns})
    width = frame["high"] - frame["low"] + 1
    form = "A band" if len(frame) > NAMED else "A line for each item"
    alt = (
        f"{title}. {form}; the 90 % interval of a rank has a median of {width.median():.0f} of "
        f"{len(frame)} ranks, {width.min()} at least and {width.max()} at most; see the ranking."
    )
    caption = (
        "The narrower an interval, the surer the rank; items whose intervals overlap may change."
    )
    return picture(title, caption, alt, ranking_intervals(frame))


def _growth(service: LabellingService, goal_share: float | None) -> dict[str, str]:
    frame = pd.DataFrame(growth_of(service))
    figure = certainty_growth(frame, goal=goal_share)
    first, last = (frame.iloc[k].to_dict() for k in (0, -1))
    alt = (
        f"Growth of certainty. Lines; the expected share rises from {first['expected']:.0%} after "
        f"{first['answers']:.0f} answers to {last['expected']:.0%} after {last['answers']:.0f}."
    )
    top = service.session.goal.top
    subject = f"the top {top} that belong there" if top else "pairs in the right order"
    caption = (
        f"The share of {subject} that the model expects, and the share of the hold-out answers "
        "that it predicts. Answers of somebody who contradicts the others make it fall."
    )
    return picture("Growth of certainty", caption, alt, figure)


def growth_of(service: LabellingService) -> list[dict[str, Any]]:
    """The share expected right after some numbers of answers, and that of the hold-out.

    They are those of the recorded fits; where there are fewer than four, as of imported answers,
    the first answers are fitted again.

    Cost: of the latter six fits, of at most 500 items and 20,000 answers.
    """
    session, remaining = service.session, service.remaining
    answers = session.n_votes
    points = [
        point
        for point in recorded(service.collection, session.goal)
        if 0 < (point["answers"] or 0) < answers and point["expected"] is not None
    ]
    few = len(service.items) <= _MOST_ITEMS and answers <= _MOST_ANSWERS
    if len(points) < 3 and few:
        points = _replayed(service)
    holdout = remaining.holdout_right if remaining.holdout_n >= FEW else None
    now = {"answers": answers, "expected": 1 - remaining.wrong, "holdout": holdout}
    return [*points, dict(plain(now))] if answers else []


def _replayed(service: LabellingService) -> list[dict[str, Any]]:
    events, session = service.session.judgements(), service.session
    again = new_session(service.collection, service.items, service.study, goal=session.goal)
    points = []
    replayed = 0
    for share in _REPLAYED:
        upto = int(share * len(events))
        if upto <= replayed:
            continue
        again.replay(events[replayed:upto])
        replayed = upto
        again.refit()
        then = again.remaining(fresh=False)
        holdout = then.holdout_right if then.holdout_n >= FEW else None
        if 0 < again.n_votes < session.n_votes:
            point = {"answers": again.n_votes, "expected": 1 - then.wrong, "holdout": holdout}
            points.append(dict(plain(point)))
    return points


def _annotators(judges: Sequence[dict[str, Any]]) -> dict[str, str]:
    columns = {"annotator": [judge["name"] for judge in judges]}
    columns["answers"] = [judge["answers"] for judge in judges]
    figure: Figure = answers_by_annotator(pd.DataFrame(columns))
    busiest = max(judges, key=lambda judge: int(judge["answers"]))
    alt = (
        f"Who answered how many. Bars of {count(len(judges), 'annotator')}; {busiest['name']} "
        f"gave the most, {busiest['answers']}; see the judges."
    )
    return picture("Who answered how many", "Answers that were not undone.", alt, figure)
