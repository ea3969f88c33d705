"""Summaries are means and standard errors over the parts; LaTeX prints them, the best in bold."""

from __future__ import annotations

import re
from math import nan, sqrt

import pandas as pd
import pytest

from sortnet.errors import DataError
from sortnet.lab.summaries import escaped, latex, summary


@pytest.fixture
def figures() -> pd.DataFrame:
    rows = [
        ("svm", "Fold1", "1", 0.2, 0.5),
        ("svm", "Fold1", "2", 0.4, nan),
        ("svm", "Fold2", "3", 0.5, 0.7),
        ("tree_s", "Fold1", "1", 0.9, 0.5),
        ("tree_s", "Fold1", "2", 0.7, nan),
        ("tree_s", "Fold2", "3", 0.4, 0.5),
    ]
    return pd.DataFrame(rows, columns=["ranker", "part", "qid", "map", "ndcg@10"])


def test_a_summary_weighs_the_parts_alike_and_has_the_best_first(figures):
    before = figures.copy(deep=True)
    found = summary(figures, ["map", "ndcg@10"]).set_index("ranker")
    assert list(found.index) == ["tree_s", "svm"]
    assert found.loc["svm", "map"] == pytest.approx((0.3 + 0.5) / 2)
    assert found.loc["svm", "map_error"] == pytest.approx(sqrt(0.02) / sqrt(2))  # sd of .3, .5
    assert found["ndcg@10_error"].tolist() == [0.0, pytest.approx(0.1)]
    assert found[["parts", "queries"]].to_numpy().tolist() == [[2, 3], [2, 3]]
    assert list(summary(figures, ["ndcg@10", "map"])["ranker"]) == ["svm", "tree_s"]
    pd.testing.assert_frame_equal(figures, before)
    with pytest.raises(DataError, match="the figures have no measure 'mrr'"):
        summary(figures, ["map", "mrr"])


def test_a_deviation_may_stand_in_place_of_the_error(figures):
    found = summary(figures, ["map"], "deviation").set_index("ranker")
    assert found.loc["svm", "map_deviation"] == pytest.approx(sqrt(0.02))
    assert r"svm & 0.400 $\pm$ 0.141" in latex(found.reset_index())


def test_one_part_has_no_standard_error_and_a_part_without_value_does_not_count(figures):
    figures.loc[figures["part"] == "Fold2", "map"] = nan
    found = summary(figures, ["map"])
    assert found["map"].tolist() == [pytest.approx(0.8), pytest.approx(0.3)]
    assert found["map_error"].isna().all()


def test_latex_is_a_booktabs_table_with_the_best_in_bold(figures):
    assert latex(summary(figures, ["map", "ndcg@10"])).splitlines() == [
        r"\begin{tabular}{lrr}",
        r"\toprule",
        r"ranker & map & ndcg@10 \\",
        r"\midrule",
        r"tree\_s & \textbf{0.600} $\pm$ 0.200 & 0.500 $\pm$ 0.000 \\",
        r"svm & 0.400 $\pm$ 0.100 & \textbf{0.600} $\pm$ 0.100 \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_rankers_that_print_alike_are_both_best():
    frame = pd.DataFrame(
        {"ranker": ["a", "b", "c"], "map": [0.70049, 0.6996, nan], "map_error": [nan, 0.1, nan]}
    )
    text = latex(frame)
    assert text.count(r"\textbf{0.700}") == 2
    assert r"c & -- \\" in text


def test_every_special_character_of_latex_is_escaped():
    assert escaped(r"a_b & 50% #1 {x} $y$ \z ~^ <>") == (
        r"a\_b \& 50\% \#1 \{x\} \$y\$ \textbackslash{}z \textasciitilde{}\textasciicircum{} "
        r"\textless{}\textgreater{}"
    )
    frame = pd.DataFrame({"ranker": ["r&d_%"], "ndcg@10": [0.5], "ndcg@10_error": [0.1]})
    text = latex(frame, caption="P@10 divides by 10; 5 % of_it")
    assert text.startswith(
        "\\begin{table}\n\\centering\n\\caption{P@10 divides by 10; 5 \\% of\\_it}"
    )
    assert text.endswith("\\end{tabular}\n\\end{table}\n")
    assert not re.search(r"(?<!\\)[_%#]", text)
    assert text.count("&") - text.count(r"\&") == 2  # one a row: the head and the ranker's
