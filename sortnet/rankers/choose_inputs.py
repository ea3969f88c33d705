"""Choose the feature scaling by short trial trainings; with judged pairs also the weight decay.

There are three candidates for the scaling: the paper's equation 5 and ranks within the query
(`query+rank`), normal deviates of each feature's quantiles (`normal`), and both together. Without
trials the settings are `Config.with_defaults`. No trial is run if answers are limited or a judge is
to be asked, because a trial would use answers that the limit does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sortnet.comparators import MakeFor, make_comparator
from sortnet.config import Config
from sortnet.core import F64, Progress, Queries
from sortnet.data.divide import query_folds
from sortnet.data.scaling import any_missing, fit_scaler
from sortnet.learning.judges import can_be_learned
from sortnet.learning.loop import learn_to_sort
from sortnet.learning.step_budget import SMALLEST_BATCH, Budget
from sortnet.metrics import average, can_choose, is_gain, outcomes
from sortnet.sorting import sort

Trial = dict[str, Any]

INPUTS = ("query+rank", "normal", "query+rank+normal")
STRONGER = (10.0, 100.0)  # factors of the fixed weight decay
# Upper limits on the size of a trial. Two heads and eight mini-batches an epoch are enough to tell
# on which tables the scaling matters, and take a tenth of the time of a training.
_HEADS = 2
_EPOCHS = 6
_ITERATIONS = 3
_FRESH_ITERATIONS = 2  # with start=fresh: a sort before the only training, and a sort after it
_EPOCH_STEPS = 8
_MOST_DOCS = 20_000  # documents of a part in a trial, which then takes seconds
# Another candidate replaces the first candidate only if it is better by this many standard errors.
# With two standard errors, small tables would keep the first scaling even where another scaling
# sorts them much better. The weight decay needs less certainty, because too weak a weight decay
# does more harm than too strong a weight decay.
_SURE = 1.0
_SURE_OF_FEW = 0.5


def choose(
    train: Queries,
    vali: Queries,
    config: Config,
    *,
    make_for: MakeFor | None = None,
    progress: Progress = lambda text: None,
    ended: Sequence[Trial] = (),
    on_trial: Callable[[Trial], None] = lambda trial: None,
) -> tuple[Config, list[Trial]]:
    """Choose the scaling and, with judged pairs, the weight decay, if they are None in `config`.

    Args:
        train: labelled queries, not scaled.
        vali: labelled queries that trials are measured on.
        config: settings in which `quality`, the name of RankQuality, is not None.
        make_for: makes a custom comparator; None: the comparator of `config`.
        progress: called with a line of text before each trial.
        ended: finished trials of an earlier call that was interrupted, as `on_trial` was called
            with them. They are not run again, and the result is the same as without interruption.
        on_trial: called with each new trial when the trial is done.

    Returns:
        The settings with all values, and the trials. A trial has JSON values: its `scaling`
        and `weight_decay`; its `outcomes`, the RankQuality of each validation query; and their mean
        as `quality`. If answers are limited (`judgements`) or a judge would be asked, there are no
        new trials, and a scaling of None becomes all of `INPUTS` together.

    Cost: at most three short trainings of a small committee, two more with judged pairs; a training
    has at most 20,000 documents of each part.
    """
    best = config.with_defaults
    needs_scaling = config.scaling is None
    needs_weight_decay = config.training.weight_decay is None and train.judged is not None
    # The part `missing` of a scaling marks missing values.
    missing_suffix = "+missing" if any_missing(train.features) else ""
    if _are_answers_costly(train, vali, config):
        scaling = config.scaling or INPUTS[-1] + missing_suffix  # the last has all inputs together
        return best.changed(scaling=scaling), list(ended)
    if not needs_scaling and not needs_weight_decay:
        return best, list(ended)
    parts = _parts_of_trials(train, vali, config)
    if parts is None:
        return best, list(ended)

    trials = _Trials(*parts, make_for or make_comparator, list(ended), progress, on_trial)
    if needs_scaling:
        candidates = [best.changed(scaling=inputs + missing_suffix) for inputs in INPUTS]
        best = first_best(candidates, trials.outcome)
    if needs_weight_decay:
        weight_decay = best.training.weight_decay or 0.0
        stronger = [best.changed(weight_decay=weight_decay * factor) for factor in STRONGER]
        best = first_best([best, *stronger], trials.outcome, _SURE_OF_FEW)
    return best, trials.done


def _are_answers_costly(train: Queries, vali: Queries, config: Config) -> bool:
    """Check whether a judge gives the answers, or `judgements` limits the number of answers."""
    has_judge = train.judge is not None or vali.judge is not None
    are_limited = config.judgements is not None
    return has_judge or are_limited


@dataclass
class _Trials:
    """Trials of settings on the same queries; settings that were tried are not tried again.

    Attributes:
        train, vali: the queries that each trial learns from, and is measured on.
        make_for: function (settings, number of columns) -> function that makes the comparator of a
            trial from a seed.
        done: the finished trials, in the order in which they were run.
        progress: function that is called with a line of text before each trial.
        on_trial: function that is called with each trial that is finished.
    """

    train: Queries
    vali: Queries
    make_for: MakeFor
    done: list[Trial]
    progress: Progress
    on_trial: Callable[[Trial], None]

    def outcome(self, candidate: Config) -> F64:
        """Return RankQuality of each validation query, from a finished trial or a new trial."""
        settings = {"scaling": candidate.scaling, "weight_decay": candidate.training.weight_decay}
        for trial in self.done:
            if settings.items() <= trial.items():
                return np.array(trial["outcomes"], np.float64)  # JSON's null becomes NaN
        self.progress(f"choosing the inputs, trial {len(self.done) + 1}")
        values = _outcomes(self.train, self.vali, candidate, self.make_for)
        trial = {
            **settings,
            "quality": average(values, candidate.empty),
            # JSON has no NaN, the value of a query without a RankQuality.
            "outcomes": [None if np.isnan(value) else value for value in values.tolist()],
        }
        self.done.append(trial)
        self.on_trial(trial)
        return values


def first_best(
    candidates: Sequence[Config], outcome: Callable[[Config], F64], sure: float = _SURE
) -> Config:
    """Choose the candidate with the best mean outcome, or the first if the gain is not sure.

    The gain over the first candidate is sure if the mean difference of the two candidates'
    outcomes, query by query, is more than `sure` standard errors.

    Args:
        candidates: settings to choose from.
        outcome: function that returns the RankQuality of a candidate for each query.
        sure: number of standard errors.
    """
    outcomes_by_query = [outcome(candidate) for candidate in candidates]
    # The outcome of a query without a RankQuality is NaN, for every candidate.
    means = [np.nanmean(values) for values in outcomes_by_query]
    best = int(np.argmax(means))
    if is_gain(outcomes_by_query[best] - outcomes_by_query[0], sure):
        return candidates[best]
    return candidates[0]


def _outcomes(train: Queries, vali: Queries, config: Config, make_for: MakeFor) -> F64:
    """Train a small committee on `train`; return its RankQuality on each query of `vali`.

    If `vali` has judged pairs, the result has a value for each judged pair.
    """
    config = _shortened(train, config)
    scaler = fit_scaler(str(config.scaling), train, seed=config.seed)
    scaled_vali = scaler(vali)
    make = make_for(config, scaler.n_columns)
    state = learn_to_sort(scaler(train), scaled_vali, make, config)
    assert state.best is not None  # the loop has run at least one iteration
    order = sort(state.best, scaled_vali).order
    return outcomes(config.rank_quality, scaled_vali, order)


def _shortened(train: Queries, config: Config) -> Config:
    """Reduce the settings to the size of a trial: fewer heads, epochs, iterations, mini-batches."""
    max_iter = _FRESH_ITERATIONS
    if config.start == "warm":
        max_iter = min(_ITERATIONS, config.trainings)
    epoch_pairs = Budget.of(train, config).epoch_pairs
    default_batch_size = max(SMALLEST_BATCH, epoch_pairs // _EPOCH_STEPS)
    return config.changed(
        committee=min(_HEADS, config.committee),
        epochs=min(_EPOCHS, config.training.epochs or _EPOCHS),
        max_iter=max_iter,
        batch_size=config.training.batch_size or default_batch_size,
    )


def _parts_of_trials(
    train: Queries, vali: Queries, config: Config
) -> tuple[Queries, Queries] | None:
    """Select the training queries and the validation queries of all trials.

    If both parts are the same graded queries, they are divided in halves. The result is None if
    nothing can be learned from the training queries, or if RankQuality cannot choose.
    """
    tried_train = _sample(train, config.seed)
    tried_vali = _sample(vali, config.seed)
    if vali is train and tried_train.judged is None:
        if len(tried_train) < 2:
            return None
        halves = query_folds(tried_train, 2, seed=config.seed)
        tried_train, tried_vali = next(iter(halves))
    if can_be_learned(tried_train) and can_choose(config.rank_quality, tried_vali).any():
        return tried_train, tried_vali
    return None


def _sample(queries: Queries, seed: int) -> Queries:
    """Draw random queries with at most 20,000 documents in all, but always at least one query."""
    if queries.n_docs <= _MOST_DOCS:
        return queries
    order = np.random.default_rng(seed).permutation(len(queries))
    is_sampled = np.cumsum(queries.sizes[order]) <= _MOST_DOCS
    is_sampled[0] = True  # a query may have more documents by itself
    return queries.take(np.sort(order[is_sampled]))
