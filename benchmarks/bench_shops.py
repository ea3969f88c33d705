"""`SortNetRanker()` on frames of a made shop, beside LightGBM with a bag of words.

A shop has titles whose worth is in single words, numbers with missing values, a brand and a date.
Both get the same rows: 140 queries to learn from, of which LightGBM stops early by the last fifth,
and 60 queries to report NDCG@10 (gain 2^grade - 1).
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import lightgbm
import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import CountVectorizer

from sortnet import SortNetRanker
from sortnet.core import Queries
from sortnet.core.arrays import F64, I64
from sortnet.metrics import evaluate

DRAWS = 5
AHEAD = 0.012  # of LightGBM's NDCG@10, at least
QUERIES, DOCS = 200, 15
N_WORDS, N_WORTHY = 400, 40  # words of the titles, and those that decide
BRANDS = [*"ABCDEFGH"]
FIRST_DAY = pd.Timestamp("2023-01-01")


class Shop(NamedTuple):
    """The rows of a shop, their grades and queries."""

    frame: pd.DataFrame
    grades: I64
    qid: I64

    def where(self, mask: Any) -> Shop:
        return Shop(self.frame[mask].reset_index(drop=True), self.grades[mask], self.qid[mask])


def made_shop(seed: int, queries: int) -> Shop:
    """A shop whose grades are bands of the rank, in its query, of a sum of worths and noise."""
    rng = np.random.default_rng(seed)
    n = queries * DOCS
    worth_of_word = np.zeros(N_WORDS)
    worth_of_word[:N_WORTHY] = rng.normal(size=N_WORTHY)
    share = rng.permutation(np.arange(1, N_WORDS + 1) ** -0.6)
    words = [rng.choice(N_WORDS, 6, replace=False, p=share / share.sum()) for _ in range(n)]
    worth = worth_of_word[np.array(words)].sum(axis=1)
    price = rng.lognormal(3, 1, n)
    rating = rng.normal(4, 0.6, n)
    brand = rng.integers(len(BRANDS), size=n)
    day = rng.integers(1000, size=n)
    score = 1.2 * worth / worth.std() - 0.6 * np.log(price) + (rating - 4)
    score += 0.5 * rng.normal(size=len(BRANDS))[brand] + 0.5 * day / 290
    score += 0.5 * rng.normal(size=n)
    qid = np.repeat(np.arange(queries), DOCS)
    rank = pd.Series(score).groupby(qid).rank(pct=True)
    frame = pd.DataFrame(
        {
            "title": [" ".join(f"w{word:03d}" for word in title) for title in words],
            "price": np.where(rng.random(n) < 0.1, np.nan, price),
            "rating": np.where(rng.random(n) < 0.1, np.nan, rating),
            "stock": rng.normal(size=n),
            "brand": np.array(BRANDS)[brand],
            "date": (FIRST_DAY + pd.to_timedelta(day, "D")).strftime("%Y-%m-%d"),
        }
    )
    return Shop(frame, np.digitize(rank, [0.4, 0.65, 0.82, 0.94]), qid)


def run(quick: bool) -> list[dict[str, Any]]:
    """The means over the draws."""
    n_queries = 20 if quick else QUERIES
    found = np.array([compared(seed, n_queries) for seed in range(1 if quick else DRAWS)])
    ours, peer, seconds, seconds_of_peer = found.mean(axis=0)
    differences = found[:, 0] - found[:, 1]
    error = "" if quick else f" ± {differences.std(ddof=1) / np.sqrt(DRAWS):.4f} SE"
    return [
        {
            "what": "made shops: NDCG@10 / LightGBM's with a bag of words",
            "ours": ours,
            "peer": peer,
            "ratio": ours / peer,
            "bar": f"ours >= peer + {AHEAD:g}",
            "ok": bool(ours >= peer + AHEAD),
            "note": f"{differences.mean():+.4f}{error}, {len(found)} draws; "
            f"CPU seconds {seconds:.1f} and {seconds_of_peer:.1f}",
        }
    ]


def compared(seed: int, n_queries: int) -> tuple[float, float, float, float]:
    """NDCG@10 of ours and of LightGBM's on test queries, and the CPU seconds of both."""
    shop = made_shop(seed, n_queries)
    is_train = shop.qid < 0.7 * n_queries
    train, test = shop.where(is_train), shop.where(~is_train)
    started = time.process_time()
    ranker = SortNetRanker(random_state=seed).fit(train.frame, train.grades, qid=train.qid)
    ours = ranker.predict(test.frame, qid=test.qid)
    between = time.process_time()
    peer = lightgbm_scores(train, test, seed)
    ended = time.process_time()
    return ndcg(test, ours), ndcg(test, peer), between - started, ended - between


def lightgbm_scores(train: Shop, test: Shop, seed: int) -> F64:
    """LightGBM's scores of the test rows, from counts of words, numbers, brands and days."""
    counts = CountVectorizer(min_df=3, binary=True).fit(train.frame["title"])

    def features(shop: Shop) -> F64:
        frame = shop.frame
        brands = frame["brand"].to_numpy()[:, None] == np.array(BRANDS)
        days = (pd.to_datetime(frame["date"]) - FIRST_DAY).dt.days
        numbers = np.column_stack([frame[["price", "rating", "stock"]], brands, days])
        return np.column_stack([counts.transform(frame["title"]).toarray(), numbers]).astype(float)

    is_learned = train.qid < np.quantile(train.qid, 0.8)
    learned, vali = train.where(is_learned), train.where(~is_learned)
    trees = lightgbm.LGBMRanker(
        n_estimators=400, learning_rate=0.05, num_leaves=15, random_state=seed, n_jobs=1, verbose=-1
    )
    trees.fit(
        features(learned), learned.grades, group=np.unique(learned.qid, return_counts=True)[1],
        eval_X=(features(vali),), eval_y=(vali.grades,),
        eval_group=[np.unique(vali.qid, return_counts=True)[1]], eval_at=[10],
        callbacks=[lightgbm.early_stopping(40, verbose=False)],
    )  # fmt: skip
    scores: F64 = np.asarray(trees.predict(features(test)))
    return scores


def ndcg(shop: Shop, scores: Any) -> float:
    queries = Queries.from_arrays(np.zeros((len(scores), 1)), shop.grades, qid=shop.qid)
    order = np.lexsort((-np.asarray(scores), queries.query_of_docs()))
    return evaluate(queries, order, "ndcg@10", empty="skip")["ndcg@10"]


def main() -> None:
    for line in run(quick=False):
        print(line)


if __name__ == "__main__":
    main()
