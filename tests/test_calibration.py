"""Calibration of annotators who say how sure they are."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from collection_helpers import made_items
from hypothesis import given, settings
from hypothesis import strategies as st

from sortnet.lab.simulated_probabilities import answered
from sortnet.preference import Judgement
from sortnet.preference.calibration import EDGES, calibration
from sortnet.preference.study import Decision
from store import open_store
from store.report.collection_facts import facts_for_programs, facts_of_criteria
from store.report.collection_page import render

GOLD = [(0, 1), (3, 2)]
JUDGEMENTS = st.lists(
    st.builds(
        lambda who, pair, word, p: Judgement.of(who, pair, word, p=p),
        st.sampled_from(["model", "ana", "ben"]),
        st.permutations(range(4)).map(lambda items: items[:2]),
        st.sampled_from(["left", "right", "tie", "skip"]),
        st.one_of(st.none(), st.floats(0, 1)),
    ),
    max_size=12,
)


@settings(deadline=None)
@given(JUDGEMENTS)
def test_the_ranges_are_those_of_a_count_by_hand(judgements):
    expected = []
    for low, high in pairwise(EDGES):
        said, same, right = [], [], []
        for one in judgements:
            if one.annotator != "model" or one.p is None or one.answer not in ("left", "right"):
                continue
            p = one.p if one.word == "left" else 1 - one.p
            below = p < high or high == 1
            if not below or (p < low and low > EDGES[0]):
                continue
            winner = one.left if one.word == "left" else one.right
            said.append(p)
            for other in judgements:
                if other.annotator == "model" or other.pair != one.pair:
                    continue
                if other.word in ("left", "right"):
                    best = other.left if other.word == "left" else other.right
                    same.append(best == winner)
            right += [pair[0] == winner for pair in GOLD if one.pair == tuple(sorted(pair))]
        if said:
            expected.append(
                (len(said), np.mean(said), len(same), sum(same), len(right), sum(right))
            )
    ranges = calibration(judgements, "model", GOLD)
    assert [
        (
            r.answers,
            r.said,
            r.n_others,
            (r.others or 0) * r.n_others,
            r.n_gold,
            (r.gold or 0) * r.n_gold,
        )
        for r in ranges
    ] == [pytest.approx(row) for row in expected]


def test_an_honest_annotator_is_as_often_right_as_is_said():
    said = answered("honest", 40, 4000, 0)
    gold = [
        pair if said.scores[pair[0]] > said.scores[pair[1]] else pair[::-1]
        for pair in ((i, j) for i in range(40) for j in range(i))
    ]
    ranges = calibration(said.judgements, "model", gold)
    assert all(each.gold > each.said - 0.05 for each in ranges)  # mild: more often than is said
    gold_shares = [each.gold for each in ranges]
    assert gold_shares == sorted(gold_shares)


def test_the_report_of_a_collection_has_it(tmp_path):
    with open_store(tmp_path / "s.db") as store:
        collection = store.add_items("c", made_items(6, d=0))
        for name in ("model", "ana"):
            collection.annotator(name)
        judgements = [Judgement.of("model", (k, k + 1), "left", p=0.8) for k in range(5)]
        people = [replace(each, annotator="ana", p=None) for each in judgements[:4]]
        collection.append([*judgements, *people])
        collection.decide(Decision("gold", item=1, other=0), Decision("p-measurement", "model"))
        facts = facts_for_programs(collection)
        (model, ana) = sorted(facts["judges"], key=lambda judge: judge["name"] == "ana")
        (found,) = model["calibration"]
        assert (found["others"], found["n_others"]) == (1.0, 4)
        assert (found["gold"], found["n_gold"]) == (0.0, 1)
        assert model["probabilities"] == "measurement"
        assert (ana["calibration"], ana["probabilities"]) == ([], "")
        page = render(facts_of_criteria(collection), "c")
        assert "Stated probabilities, and agreement with others and with gold pairs" in page
