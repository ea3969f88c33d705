"""`SortNetRanker()` and `LGBMRanker()`, nothing set but the seed, on data of many kinds.

Both get the rows of training and validation part together, and the test part is only measured:
tables and shops by NDCG@10, the digits by the mean of the queries' Spearman correlations. LightGBM
sees a shop's titles as a bag of words. On MQ2008 it is tuned on the validation parts, and SortNet
chooses its settings there.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import lightgbm
import numpy as np
from made_tables import TABLES, friedman, made_shop, parts, rows, table
from measuring import Row, difference, mq2008, ndcg, order_of, row, smaller, spread, test_part
from sklearn.feature_extraction.text import CountVectorizer

from sortnet import SortNetRanker
from sortnet.config import Config
from sortnet.core import I64, Queries
from sortnet.data import Fold
from sortnet.lab.simulated_annotators import spearman
from sortnet.metrics import evaluate
from sortnet.rankers.sortnet import fit

DRAWS = 5
SEEDS = 3  # of a fold of MQ2008
BARS = {
    "a tree of depth 4": "ours >= peer - 0.005",
    "digits": "ours >= 0.955",
    "digits + 100": "ours >= 0.95",
    "made shops": "ours >= peer + 0.012",
}
OTHER_BAR = "ours >= peer + 0.003"
MQ2008_BARS = {"ndcg@10": "ours >= 0.710", "map": "ours >= 0.675"}
Values = tuple[float, float, float, float]  # ours, LightGBM's, CPU seconds of both


def run(quick: bool) -> list[Row]:
    """A row for each kind of data: means over the draws."""
    both(smaller(table("counts", 0)), mean_ndcg, 0)  # compiled and imported before it counts
    ways: dict[str, Callable[[int], Values]] = {
        name: partial(of_table, name, mean_ndcg, quick) for name in TABLES
    }
    ways |= {name: partial(of_table, name, mean_spearman, quick) for name in TABLES_OF_DIGITS}
    ways["made shops"] = partial(of_shop, 20 if quick else 200)
    kinds = [of_kind(name, way, 1 if quick else DRAWS) for name, way in ways.items()]
    return [*kinds, of_seconds(quick), *of_mq2008(quick)]


TABLES_OF_DIGITS = ("digits", "digits + 100")


def of_kind(name: str, way: Callable[[int], Values], draws: int) -> Row:
    """The row of one kind of data."""
    values = np.array(spread(way, [(seed,) for seed in range(draws)]))
    ours, peer, seconds, seconds_of_peer = values.mean(axis=0)
    measure = "Spearman" if name in TABLES_OF_DIGITS else "NDCG@10"
    return row(
        f"{name}: {measure} / LightGBM's, defaults",
        ours,
        peer,
        bar=BARS.get(name, OTHER_BAR),
        note=f"{difference(values[:, 0], values[:, 1])} SE, {draws} draws; "
        f"CPU seconds {seconds:.1f} and {seconds_of_peer:.1f}",
    )


def of_table(name: str, measure: Callable[[Queries, Any], float], quick: bool, seed: int) -> Values:
    fold = table(name, seed)
    return both(smaller(fold) if quick else fold, measure, seed)


def both(fold: Fold, measure: Callable[[Queries, Any], float], seed: int) -> Values:
    """The figures of both rankers on the test part of a table."""
    X, y, qid = rows(fold.train, fold.vali)
    test = test_part(fold)
    started = time.process_time()
    ranker = SortNetRanker(random_state=seed).fit(X, y, qid=qid)
    ours = ranker.predict(test.features, qid=test.query_of_docs())
    between = time.process_time()
    trees = lightgbm.LGBMRanker(random_state=seed, n_jobs=1, verbose=-1)
    trees.fit(X, y, group=np.bincount(qid))
    peer = trees.predict(test.features)
    ended = time.process_time()
    return measure(test, ours), measure(test, peer), between - started, ended - between


def of_shop(n_queries: int, seed: int) -> Values:
    """The figures of both rankers on a made shop, of which a third of the queries are tested."""
    frame, grades, qid = made_shop(seed, n_queries)
    learned = qid < 0.7 * n_queries
    words = CountVectorizer(min_df=3, binary=True).fit(frame["title"][learned])
    counts = words.transform(frame["title"]).toarray()
    columns = frame.drop(columns="title").apply(
        lambda c: c if c.dtype == float else c.factorize()[0]
    )
    X = np.column_stack([counts, columns]).astype(float)
    test = Queries.from_arrays(X[~learned], grades[~learned], qid=qid[~learned])
    started = time.process_time()
    ranker = SortNetRanker(random_state=seed).fit(frame[learned], grades[learned], qid=qid[learned])
    ours = ranker.predict(frame[~learned], qid=qid[~learned])
    between = time.process_time()
    trees = lightgbm.LGBMRanker(random_state=seed, n_jobs=1, verbose=-1)
    trees.fit(X[learned], grades[learned], group=np.bincount(qid[learned]))
    peer = trees.predict(X[~learned])
    ended = time.process_time()
    return mean_ndcg(test, ours), mean_ndcg(test, peer), between - started, ended - between


def mean_ndcg(queries: Queries, scores: Any) -> float:
    return ndcg(queries, order_of(scores, queries))


def mean_spearman(queries: Queries, scores: Any) -> float:
    """Spearman's rank correlation of scores and grades, the mean over the queries."""
    cuts = queries.offsets[1:-1]
    by_query = zip(np.split(scores, cuts), np.split(queries.grades, cuts), strict=True)
    return float(np.mean([spearman(mine, truth) for mine, truth in by_query]))


def of_seconds(quick: bool) -> Row:
    """CPU seconds of a table of 3,000 rows."""
    fold = parts(friedman(0, queries=60, size=50))
    ((_, _, ours, peer),) = spread(both, [(smaller(fold) if quick else fold, mean_ndcg, 0)])
    what = "3,000 rows x 25: CPU seconds with defaults / LightGBM's"
    return row(what, ours, peer, bar="ours <= 3", note="one thread; the shorter fit included")


def of_mq2008(quick: bool) -> list[Row]:
    """Means over the folds of MQ2008: test figures beside LightGBM's, and CPU seconds."""
    folds = mq2008([1] if quick else range(1, 6))
    if not folds:
        return []
    cases = [(fold, seed, quick) for fold in folds for seed in range(1 if quick else SEEDS)]
    *ours, seconds = np.transpose(spread(learned, cases))
    peers = np.mean([figures(fold, lightgbm_order(fold, quick)) for fold in folds], axis=0)
    of_metrics = []
    for (metric, bar), values, peer in zip(MQ2008_BARS.items(), ours, peers, strict=True):
        by_seed = values.reshape(len(folds), -1).mean(axis=0)
        note = f"{len(by_seed)} seeds, from {by_seed.min():.4f} to {by_seed.max():.4f}"
        of_metrics.append(
            row(
                f"MQ2008, {len(folds)} folds, defaults: test {metric} / LightGBM's",
                by_seed.mean(),
                peer,
                bar=bar,
                note=f"{note}; peer: tuned on the validation parts",
            )
        )
    what = "MQ2008, CPU seconds a fold with defaults, mean"
    note = f"{max(seconds):.0f} at most"
    return [*of_metrics, row(what, np.mean(seconds), bar="ours <= 8", note=note)]


def learned(fold: Fold, seed: int, quick: bool) -> list[float]:
    """Test figures of the defaults on a fold, and the CPU seconds it took."""
    started = time.process_time()
    config = Config(seed=seed).changed(epochs=2) if quick else Config(seed=seed)
    model = fit(fold.train, fold.vali, config)
    values = figures(fold, model.order(test_part(fold)))
    return [*values, time.process_time() - started]


def figures(fold: Fold, order: I64) -> list[float]:
    values = evaluate(test_part(fold), order, tuple(MQ2008_BARS), empty="skip")
    return [values[metric] for metric in MQ2008_BARS]


def lightgbm_order(fold: Fold, quick: bool) -> I64:
    """The test part by LightGBM's lambdarank, tuned on validation NDCG@10, early stopping."""
    # LightGBM's ranker hands on what it was given by the name that it calls deprecated.
    warnings.filterwarnings("ignore", message="The argument 'eval_set' is deprecated")
    train, vali = fold.train, fold.vali
    models = []
    grid = list(product((7, 15, 31), (0.03, 0.1), (20, 60)))
    for leaves, rate, least in grid[:1] if quick else grid:
        model = lightgbm.LGBMRanker(
            n_estimators=500, num_leaves=leaves, learning_rate=rate, min_child_samples=least,
            random_state=0, n_jobs=2, verbose=-1,
        )  # fmt: skip
        model.fit(
            train.features, train.grades, group=train.sizes,
            eval_X=(vali.features,), eval_y=(vali.grades,), eval_group=[vali.sizes], eval_at=[10],
            callbacks=[lightgbm.early_stopping(50, verbose=False)],
        )  # fmt: skip
        models.append(model)
    best = max(models, key=lambda model: mean_ndcg(vali, model.predict(vali.features)))
    return order_of(best.predict(test_part(fold).features), test_part(fold))
