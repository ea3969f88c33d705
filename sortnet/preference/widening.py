"""Find the annotator whose answers make a ranking less certain."""

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
# An annotator is reported only if the expected share of wrong pairs falls by 2 % or more when the
# answers of the annotator are left out. This is more than chance: if a third of good answers is
# left out, the share of wrong pairs grows by a half.
_SURER = 0.98


def widened_by(
    posterior: Posterior, features: F64, votes: Votes, groups: Groups, goal: Goal, *, seed: int = 0
) -> int | None:
    """Find the annotator whose answers made the intervals of the ranks wider.

    An annotator who contradicts the other annotators makes all scores less certain. Then a fit
    without this annotator's answers, with scales chosen again, expects fewer pairs in the wrong
    order, although it uses fewer answers.

    Args:
        posterior: the posterior given all answers.
        features: (n, d) the features of the n items.
        votes: all answers.
        groups: the groups of the items.
        goal: the goal of the session.
        seed: the seed of the fits, and of the pairs from which the share of wrong pairs is
            estimated.

    Returns:
        The number of the annotator; None if there is no such annotator.

    Cost: the scales and a fit for each of the four least reliable annotators with at least 20
    answers; nothing with more than 200 items or 20,000 answers, or with one annotator.
    """
    n_annotators = len(posterior.reliability)
    counts = np.bincount(votes.annotator[votes.first], minlength=n_annotators)
    is_too_slow = len(votes) > _MOST_VOTES or len(features) > _MOST_ITEMS
    if is_too_slow or np.count_nonzero(counts) < 2:
        return None
    most_widening: int | None = None
    least_wrong = _SURER * progress(posterior, groups, goal, seed=seed).wrong
    by_reliability = np.argsort(posterior.reliability, kind="stable").tolist()
    suspects = [number for number in by_reliability if counts[number] >= FEW]
    for number in suspects[:_MOST_ANNOTATORS]:
        remaining_votes = votes.where(votes.annotator != number)
        scales = choose_scales(features, remaining_votes, n_annotators, seed=seed)
        fitted = fit(features, remaining_votes, n_annotators, scales=scales, seed=seed)
        wrong = progress(fitted.posterior, groups, goal, seed=seed).wrong
        if wrong < least_wrong:
            most_widening = number
            least_wrong = wrong
    return most_widening
