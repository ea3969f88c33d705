"""Choose the feature scaling by short trial trainings; with judged pairs also the weight decay.

The candidates are equation 5 and ranks within the query, or the quantiles of each feature as normal
deviates, or both: three trials at most. Without trials the settings are `Config.with_defaults`.
No trial is run if answers are limited or a judge is to be asked: a trial would look at answers that
the budget does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
_EPOCH_STEPS = 8
_TRIED_ON = 20_000  # documents of a part, at most: a trial then takes seconds
# A setting replaces the first candidate only if it is better by this many standard errors. With two
# standard errors, small tables would keep the first scaling even where another scaling sorts them
# much better. With judged pairs less certainty is asked for, because too weak a weight decay does
# more harm than too strong a weight decay.
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
    """Choose the settings that `config` leaves open: scaling and, with judged pairs, weight decay.

    Args:
        train: labelled queries, not scaled.
        vali: labelled queries that trials are measured on.
        config: settings with a RankQuality.
        make_for: makes a custom comparator.
        ended: trials of an interrupted choice with the same arguments, as `on_trial` got them;
            they are not repeated. The result is the same as without the interruption.
        on_trial: called with each new trial when it is done.

    Returns:
        The settings, with nothing left open; and the trials, as JSON values: `scaling`,
        `weight_decay`, the `outcomes`, and as `quality` their mean, the RankQuality. If answers are
        limited (`judgements`) or a judge would be asked, there are no new trials, and a scaling
        left open is all of `INPUTS` together.

    Cost: at most three short trainings of a small committee, two more with judged pairs; a training
    has at most 20,000 documents of each part.
    """
    best = config.with_defaults
    trials = list(ended)
    chooses_weight_decay = config.training.weight_decay is None and train.judged is not None
    missing = "+missing" if any_missing(train.features) else ""
    is_asked = train.judge is not None or vali.judge is not None
    if is_asked or config.judgements is not None:
        return best.changed(scaling=config.scaling or INPUTS[-1] + missing), trials
    if config.scaling is not None and not chooses_weight_decay:
        return best, trials
    split = _split(train, vali, config)
    if split is None:
        return best, trials
    T, V = split

    def outcome(candidate: Config) -> F64:
        """RankQuality of a trial for each query of V; a trial that has ended is not run again."""
        settings = {"scaling": candidate.scaling, "weight_decay": candidate.training.weight_decay}
        for trial in trials:
            if settings.items() <= trial.items():
                return np.array(trial["outcomes"], np.float64)  # JSON's null becomes NaN
        progress(f"choosing the inputs, trial {len(trials) + 1}")
        values = _outcomes(T, V, candidate, make_for or make_comparator)
        quality = average(values, candidate.empty)
        numbers = [None if np.isnan(value) else value for value in values.tolist()]
        trials.append({**settings, "quality": quality, "outcomes": numbers})
        on_trial(trials[-1])
        return values

    if config.scaling is None:
        best = first_best([best.changed(scaling=inputs + missing) for inputs in INPUTS], outcome)
    if chooses_weight_decay:
        weight_decay = best.training.weight_decay or 0.0
        stronger = [best.changed(weight_decay=weight_decay * times) for times in STRONGER]
        best = first_best([best, *stronger], outcome, _SURE_OF_FEW)
    return best, trials


def first_best(
    candidates: Sequence[Config], outcome: Callable[[Config], F64], sure: float = _SURE
) -> Config:
    """The candidate with the best mean outcome if it is surely better, else the first candidate.

    A candidate is surely better than the first if the mean difference of their outcomes, query by
    query, is more than `sure` standard errors.
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
    config = _short(train, config)
    scaler = fit_scaler(str(config.scaling), train, seed=config.seed)
    T, V = scaler(train), scaler(vali)
    state = learn_to_sort(T, V, make_for(config, scaler.n_columns), config)
    assert state.best is not None  # the loop has run at least one iteration
    return outcomes(config.rank_quality, V, sort(state.best, V).order)


def _short(train: Queries, config: Config) -> Config:
    """Reduce the settings to the size of a trial: fewer heads, epochs, iterations, mini-batches."""
    epoch_pairs = Budget.of(train, config).epoch_pairs
    max_iter = 2  # sorts with random weights, and after a single training
    if config.start == "warm":
        max_iter = min(_ITERATIONS, config.trainings)
    return config.changed(
        committee=min(_HEADS, config.committee),
        epochs=min(_EPOCHS, config.training.epochs or _EPOCHS),
        max_iter=max_iter,
        batch_size=config.training.batch_size or max(SMALLEST_BATCH, epoch_pairs // _EPOCH_STEPS),
    )


def _split(train: Queries, vali: Queries, config: Config) -> tuple[Queries, Queries] | None:
    """Select the queries T that trials learn from, and the queries V that measure the trials.

    Returns None if nothing can be learned from T, or no query of V has a RankQuality.
    """
    T = _sample(train, config.seed)
    V = _sample(vali, config.seed)
    if vali is train and T.judged is None:
        if len(T) < 2:
            return None
        T, V = next(iter(query_folds(T, 2, seed=config.seed)))
    if can_be_learned(T) and can_choose(config.rank_quality, V).any():
        return T, V
    return None


def _sample(queries: Queries, seed: int) -> Queries:
    """Draw random queries with `_TRIED_ON` documents at most, but always one query at least."""
    if queries.n_docs <= _TRIED_ON:
        return queries
    order = np.random.default_rng(seed).permutation(len(queries))
    is_sampled = np.cumsum(queries.sizes[order]) <= _TRIED_ON
    is_sampled[0] = True
    return queries.take(np.sort(order[is_sampled]))
