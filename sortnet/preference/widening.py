"""The annotator whose answers make a ranking less sure."""

from __future__ import annotations

import numpy as np

from sortnet.core import F64
from sortnet.preference.annotator_reports import FEW
from sortnet.preference.goal import Goal
from sortnet.preference.groups import Groups
from sortnet.preference.laplace import choose_scales, fit
from sortnet.preference.posterior import Posterior
from sortnet.preference.stopping import progress
from sortnet.preference.vote_arrays import Votes

_MOST_ANNOTATORS = 4  # the least reliable ones are looked at
_MOST_VOTES = 20_000  # among more answers, one annotator's hardly make a difference
_MOST_ITEMS = 200  # with more items, a fit takes a second
# Without a third of good answers the expected share of wrong pairs grows by a half. An annotator
# counts only if without their answers the share falls below .98 of itself, further than by chance.
_SURER = 0.98


def widened_by(
    posterior: Posterior, features: F64, votes: Votes, groups: Groups, goal: Goal, *, seed: int = 0
) -> int | None:
    """The number of the annotator whose answers made the intervals wider, or None.

    Answers of somebody who contradicts the others make all scores less sure. A fit to the others'
    answers alone, with its own scales, then expects fewer pairs in the wrong order, although it has
    fewer answers.

    Args:
        posterior: posterior of the scores by all answers.
        features: (n, d) of the fit.
        votes: all answers.
        groups: groups of the items.
        goal: goal of the session.
        seed: seed of the pairs that are looked at.

    Cost: the scales and a fit for each of the four least reliable annotators with at least 20
    answers; nothing with more than 200 items or 20,000 answers, or with one annotator.
    """
    n_annotators = len(posterior.reliability)
    counts = np.bincount(votes.annotator[votes.first], minlength=n_annotators)
    too_many = len(votes) > _MOST_VOTES or len(features) > _MOST_ITEMS
    if too_many or np.count_nonzero(counts) < 2:
        return None
    widening: int | None = None
    least_wrong = _SURER * progress(posterior, groups, goal, seed=seed).wrong
    by_reliability = np.argsort(posterior.reliability, kind="stable").tolist()
    suspects = [number for number in by_reliability if counts[number] >= FEW]
    for number in suspects[:_MOST_ANNOTATORS]:
        remaining_votes = votes.where(votes.annotator != number)
        scales = choose_scales(features, remaining_votes, n_annotators, seed=seed)
        fitted = fit(features, remaining_votes, n_annotators, scales=scales, seed=seed)
        wrong = progress(fitted.posterior, groups, goal, seed=seed).wrong
        if wrong < least_wrong:
            widening = number
            least_wrong = wrong
    return widening
