"""Calibration of annotators who say how sure they are."""

from __future__ import annotations

from dataclasses import replace

import pytest
from collection_helpers import made_items

from sortnet.preference import Judgement
from sortnet.preference.annotator_reports import calibration
from sortnet.preference.study import Decision
from store import open_store
from store.report.collection_facts import facts_for_programs, facts_of_criteria
from store.report.collection_page import render


def test_gold_comes_before_others_and_ties_are_left_out():
    said = [
        Judgement.of("model", (0, 1), "left", p=0.75),  # gold says so
        Judgement.of("model", (3, 2), "right", p=0.25),  # 2 of 3 others say so
        Judgement.of("model", (4, 5), "left", p=0.9),  # nobody else
        Judgement.of("model", (2, 1), "tie", p=0.5),
        Judgement.of("model", (0, 2), "left"),  # without p
        Judgement.of("ana", (1, 0), "left"),
        *(Judgement.of(who, (2, 3), "left") for who in ("ana", "ben")),
        Judgement.of("cat", (3, 2), "left"),
        Judgement.of("ana", (2, 1), "left"),
    ]
    found = calibration(said, "model", [(0, 1)])
    assert found is not None
    assert (found.answers, found.said, found.right) == (2, 0.75, pytest.approx(5 / 6))
    assert found.curve == [(0.75, pytest.approx(5 / 6), 2)]
    of_second = 2 / 3 * 0.25**2 + 1 / 3 * 0.75**2
    assert found.brier == pytest.approx((0.25**2 + of_second) / 2)
    assert calibration(said, "ana") is None


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
        found = model["calibration"]
        assert (found["answers"], found["right"]) == (4, 0.75)  # gold contradicts one
        assert model["probabilities"] == "measurement"
        assert (ana["calibration"], ana["probabilities"]) == (None, "")
        page = render(facts_of_criteria(collection), "c")
        assert "right in 0.75 of 4 answers; Brier score" in page and "as stated" in page
