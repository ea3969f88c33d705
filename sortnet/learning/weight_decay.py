"""Choose the weight decay if none is given: the strongest that does not hurt on validation data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sortnet.comparators import MakeFor, make_comparator
from sortnet.config import Config, settle_quality
from sortnet.data.scaling import fit_scaler
from sortnet.learning.judges import can_be_learned
from sortnet.learning.loop import learn_to_sort
from sortnet.learning.training import strongest_weight_decay
from sortnet.metrics import average, can_choose, per_query
from sortnet.sorting import sort
from sortnet.types import F64, Progress, Queries

WEAKER = (1, 5, 25)  # times weaker than the strongest
_TRIED_ON = 20_000  # documents of each part at most, so that trials take seconds
_ITERATIONS = 4


def weight_decays(n_docs: int) -> list[float]:
    """Weight decays worth trying on n training documents, the strongest first.

    >>> weight_decays(10_000)
    [0.01, 0.002, 0.0004]
    """
    return [float(f"{strongest_weight_decay(n_docs) / times:.2g}") for times in WEAKER]


def settle_weight_decay(
    train: Queries,
    vali: Queries,
    config: Config,
    *,
    make_for: MakeFor | None = None,
    progress: Progress = lambda text: None,
) -> Config:
    """Choose a weight decay by short trials, if the settings have none.

    One comparator is trained for a few iterations with each of three weight decays, on at most
    20,000 documents of each part. The strongest is chosen whose RankQuality on `vali` is within one
    standard error (of the mean difference, query by query) of the best: the rule of Breiman et al.,
    Classification and Regression Trees (1984), section 3.4.3. Noisy grades need a strong one, clean
    grades suffer from it, and the number of documents does not show which they are.

    Args:
        train: labelled queries, not scaled.
        vali: labelled queries to choose by.
        config: settings; returned unchanged if they have a weight decay.
        make_for: the settings and the scaling's number of columns -> what builds a custom
            comparator from a seed.
        progress: called with progress messages.

    Cost: nine trainings of one comparator, whatever the size of the data.
    """
    if config.training.weight_decay is not None:
        return config
    config = settle_quality(train, vali, config)
    some, judges = _sample(train, config.seed), _sample(vali, config.seed)
    tried = weight_decays(some.n_docs)
    chosen = 0
    if can_be_learned(some) and can_choose(config.rank_quality, judges).any():
        values = []
        for number, weight_decay in enumerate(tried, 1):
            progress(f"choosing the weight decay, trial {number}/{len(tried)}")
            candidate = _with_weight_decay(config, weight_decay)
            values.append(_qualities(some, judges, candidate, make_for))
        chosen = _strongest_as_good(values, config)
    return _with_weight_decay(config, weight_decays(train.n_docs)[chosen])


def _sample(queries: Queries, seed: int) -> Queries:
    if queries.n_docs <= _TRIED_ON:
        return queries
    order = np.random.default_rng(seed).permutation(len(queries))
    fitting = np.cumsum(queries.sizes[order]) <= _TRIED_ON
    fitting[0] = True
    return queries.take(np.sort(order[fitting]))


def _qualities(train: Queries, vali: Queries, config: Config, make_for: MakeFor | None) -> F64:
    """(n_queries,) RankQuality of the best iteration of a short run, on `vali`."""
    scaler = fit_scaler(config.scaling, train, seed=config.seed)
    V, quality = scaler(vali), config.rank_quality
    one = config if make_for else replace(config, committee=1)
    make = (make_for or make_comparator)(one, scaler.n_columns)
    state = learn_to_sort(
        scaler(train), V, make, quality=quality, empty=config.empty, training=config.training,
        max_iter=min(config.max_iter, _ITERATIONS), warm_start=config.warm_start,
        seed=config.seed,
    )  # fmt: skip
    assert state.best is not None  # the loop has run at least one iteration
    ranked = V.grades[sort(state.best, V).order]
    return per_query(quality, ranked, V.offsets)


def _strongest_as_good(values: list[F64], config: Config) -> int:
    """Index of the first whose mean is within one standard error of the best mean."""
    best = values[int(np.argmax([average(v, config.empty) for v in values]))]
    for number, each in enumerate(values):
        less = (best - each)[~np.isnan(best)]  # queries without a relevant document do not count
        if len(less) < 2 or less.mean() <= less.std(ddof=1) / np.sqrt(len(less)):
            return number
    return 0


def _with_weight_decay(config: Config, weight_decay: float) -> Config:
    return replace(config, training=replace(config.training, weight_decay=weight_decay))
