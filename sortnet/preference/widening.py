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

_MOST_ANNOTATORS = 4  # only the least reliable annotators are checked
_MOST_VOTES = 20_000  # among more answers, the answers of one annotator hardly make a difference
_MOST_ITEMS = 200  # with more items, a fit takes a second
# If a third of good answers is removed, the expected share of wrong pairs grows by a half. An
# annotator counts only if without their answers the share falls below .98 of the share with them,
# which is more than by chance.
_SURER = 0.98


def widened_by(
    posterior: Posterior, features: F64, votes: Votes, groups: Groups, goal: Goal, *, seed: int = 0
) -> int | None:
    """The number of the annotator whose answers made the intervals wider, or None.

    An annotator who contradicts the other annotators makes all scores less sure. A fit without this
    annotator's answers, with scales chosen again, then expects fewer pairs in the wrong order,
    although it has fewer answers.

    Args:
        posterior: the posterior given all answers.
        features: (n, d) the features of the fit.
        votes: all answers.
        groups: the groups of the items.
        goal: the goal of the session.
        seed: the seed of the pairs from which the share is estimated.

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
