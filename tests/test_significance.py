"""Significance equals statsmodels, scipy, published and hand-worked examples."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sortnet.errors import DataError
from sortnet.lab.significance import (
    corrected_t,
    critical_difference,
    friedman,
    holm,
    paired_by_part,
    paired_by_query,
)

# The ranks in table 6 of Demsar 2006: four variants of C4.5 on 14 data sets.
DEMSAR = [
    [4, 3, 2, 1], [1, 2, 3, 4], [4, 1, 2, 3], [4, 1, 3, 2], [4, 2, 3, 1], [1, 2.5, 4, 2.5],
    [3, 2, 4, 1], [2.5, 2.5, 4, 1], [4, 3, 2, 1], [2.5, 2.5, 2.5, 2.5], [4, 2.5, 1, 2.5],
    [3, 2, 4, 1], [4, 1, 2, 3], [3, 1, 4, 2],
]  # fmt: skip
# multipletests(P, method="holm")[1] of statsmodels 0.15.0
P = [0.001, 0.2, 0.04, 0.04, 0.013, 0.9, 0.6, 0.0004]
STATSMODELS = [0.007, 0.6000000000000001, 0.2, 0.2, 0.078, 1.0, 1.0, 0.0032]

figures_of = st.floats(-1, 1, width=32)


def test_the_corrected_t_test_of_three_splits_is_worked_out_by_hand():
    # mean .02, variance ((.01)^2 + 0 + (.01)^2) / 2 = .0001; 1/3 + 1/2 = 5/6
    t = 0.02 / sqrt(0.0001 * 5 / 6)
    p = 1 - t / sqrt(2 + t**2)  # Student's distribution of two degrees of freedom
    assert corrected_t([0.01, 0.02, 0.03], 0.5) == pytest.approx((t, p), abs=1e-12)
    assert corrected_t([-0.01, -0.02, -0.03], 0.5) == pytest.approx((-t, p), abs=1e-12)


@given(st.lists(figures_of, min_size=3, max_size=20).filter(lambda d: np.ptp(d) > 1e-3))
def test_without_overlap_the_corrected_t_test_is_the_plain_one(differences):
    plain = stats.ttest_1samp(differences, 0.0)
    assert corrected_t(differences, 0.0) == pytest.approx((plain.statistic, plain.pvalue), abs=1e-9)
    assert corrected_t(differences, 0.5)[1] >= plain.pvalue - 1e-12


def test_friedman_of_demsars_example():
    statistic, _, mean_ranks = friedman(-np.array(DEMSAR))
    assert mean_ranks.round(3).tolist() == [3.143, 2.0, 2.893, 1.964]
    # 9.28 there, without the correction for ties: three of two variants and one of four.
    ties = 1 - (3 * (2**3 - 2) + (4**3 - 4)) / (14 * (4**3 - 4))
    assert statistic * ties == pytest.approx(9.28, abs=0.02)


def test_critical_differences_are_demsars():
    # table 5a: q of 2 to 10 rankers at .05, and at .10
    for alpha, row in {
        0.05: [1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164],
        0.10: [1.645, 2.052, 2.291, 2.459, 2.589, 2.693, 2.780, 2.855, 2.920],
    }.items():
        for k, q in enumerate(row, 2):
            expected = q * sqrt(k * (k + 1) / (6 * 14))
            assert critical_difference(k, 14, alpha) == pytest.approx(expected, abs=1e-3)


def test_holm_is_that_of_statsmodels():
    assert holm(P) == pytest.approx(STATSMODELS, abs=1e-12)


def test_equal_figures_and_missing_p_values_are_defined():
    assert corrected_t([0.1] * 15, 0.5) == (np.inf, 0.0)
    assert corrected_t([0.0] * 15, 0.5) == (0.0, 1.0)
    statistic, p, mean_ranks = friedman([[1, 1, 1], [2, 2, 2]])
    assert (statistic, p, mean_ranks.tolist()) == (0, 1, [2, 2, 2])
    assert holm([np.nan, 0.02, 0.01]).tolist()[1:] == [0.02, 0.02]
    assert holm([]).tolist() == []


def made_figures(n_parts: int = 3, n: int = 8, rankers: str = "abc", again: bool = False):
    """Figures of each query; with `again` every part has the same queries."""
    rng = np.random.default_rng(7)
    rows = [
        (r, f"Fold{part}", str(q if again else part * n + q), rng.random(), rng.random())
        for r in rankers
        for part in range(n_parts)
        for q in range(n)
    ]
    return pd.DataFrame(rows, columns=["ranker", "part", "qid", "map", "ndcg@10"])


def of(frame: pd.DataFrame, ranker: str, measure: str = "map") -> np.ndarray:
    return frame.loc[frame["ranker"] == ranker, measure].to_numpy()


def test_by_query_is_the_paired_t_test_with_holms_correction():
    frame = made_figures()
    found = paired_by_query(frame.sample(frac=1, random_state=1), "map", "abc")
    assert found[["a", "b"]].to_numpy().tolist() == [["a", "b"], ["a", "c"], ["b", "c"]]
    for row in found.itertuples():
        plain = stats.ttest_rel(of(frame, row.a), of(frame, row.b))
        assert (row.t, row.p) == pytest.approx((plain.statistic, plain.pvalue), abs=1e-12)
        assert row.difference == pytest.approx((of(frame, row.a) - of(frame, row.b)).mean())
        assert row.n == 24
    assert found["p_holm"].to_numpy() == pytest.approx(holm(found["p"]))


def test_a_query_of_several_hold_outs_counts_once_by_its_mean_difference():
    frame = made_figures(again=True)
    frame.loc[0, "map"] = np.nan  # a has not the first query in the first part
    means = (of(frame, "a") - of(frame, "b")).reshape(3, 8)
    plain = stats.ttest_1samp(np.nanmean(means, axis=0), 0.0)
    row = paired_by_query(frame, "map", ["a", "b"]).iloc[0]
    assert (row["p"], row["n"]) == (pytest.approx(plain.pvalue, abs=1e-12), 8)


def test_by_part_is_the_corrected_test_of_the_means():
    frame = made_figures(n_parts=5)
    row = paired_by_part(frame, "ndcg@10", 0.5, ["c", "a"]).iloc[0]
    means = [of(frame, r, "ndcg@10").reshape(5, 8).mean(axis=1) for r in "ca"]
    assert (row["t"], row["p"]) == pytest.approx(corrected_t(means[0] - means[1], 0.5), abs=1e-12)
    assert (row["a"], row["b"], row["n"]) == ("c", "a", 5)


def test_a_measure_that_the_figures_lack_is_refused():
    with pytest.raises(DataError, match="no measure 'mrr'"):
        paired_by_query(made_figures(), "mrr")
