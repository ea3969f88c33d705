"""Reports on annotators: against refits, sampling and simulated people who answer badly."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, ndtr

from sortnet.preference import Judgement
from sortnet.preference.annotator_reports import (
    BELOW_AVERAGE,
    FEW,
    FINE,
    AnnotatorReport,
)
from sortnet.preference.model import SHARPNESS
from sortnet.preference.session import Session
from sortnet.preference.study import Decision, Study, study_of

N = 16
KINDS = {
    "good": lambda p: p,
    "random": lambda p: np.full_like(p, 0.5),
    "inverted": lambda p: 1 - p,
    "left": lambda p: np.ones_like(p),
    "right": lambda p: np.zeros_like(p),
}


def judged(kinds: dict[str, str], each: int, seed: int) -> list[Judgement]:
    """Answers about random pairs by annotators of these kinds."""
    rng = np.random.default_rng(seed)
    scores = np.linspace(0, 5, N)
    found: list[Judgement] = []
    for name, kind in kinds.items():
        pairs = np.array([rng.choice(N, 2, replace=False) for _ in range(each)])
        p = KINDS[kind](ndtr(scores[pairs[:, 0]] - scores[pairs[:, 1]]))
        for (left, right), is_left in zip(pairs.tolist(), rng.random(each) < p, strict=True):
            answer = "left" if is_left else "right"
            found.append(Judgement.of(name, (left, right), answer, number=len(found) + 1))
    return found


def reported(
    judgements: list[Judgement], study: Study | None = None, *, seed: int = 0
) -> dict[str, AnnotatorReport]:
    """Reports after a fit without the excluded annotators."""
    session = Session(None, N, seed=seed, study=study)
    session.replay(judgements)
    session.refit()
    names = [*dict.fromkeys(j.annotator for j in judgements)]
    return {r.name: r for r in session.reports(names, judgements)}


PEOPLE = {"ana": "good", "ben": "good", "cat": "good"}


@pytest.mark.parametrize(
    ("kind", "verdict"),
    [
        ("random", "answers at random"),
        ("inverted", "inverted"),
        ("left", "always left"),
        ("right", "always right"),
        ("good", ""),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_who_answers_badly_is_named_and_nobody_else(kind, verdict, seed):
    reports = reported(judged({**PEOPLE, "eve": kind}, 80, seed))
    assert {name: r.verdict for name, r in reports.items()} == {
        **dict.fromkeys(PEOPLE, ""),
        "eve": verdict,
    }
    eve = reports["eve"]
    assert eve.reliability.low < eve.reliability.value < eve.reliability.high
    assert (eve.side_bias.low > 0.5) == (kind == "left")
    assert (eve.side_bias.high < -0.5) == (kind == "right")


def people(c: np.ndarray, answers: np.ndarray, seed: int, kind: str = "good") -> list[Judgement]:
    """Answers of annotators of these reliabilities about random pairs of 40 items; the first is of
    another kind."""
    rng, found = np.random.default_rng(seed), []
    scores = rng.normal(0, 1.5, N_ITEMS)
    for who, (reliability, n) in enumerate(zip(c, answers, strict=True)):
        left = rng.integers(0, N_ITEMS, n)
        right = (left + rng.integers(1, N_ITEMS, n)) % N_ITEMS
        p = ndtr(reliability * (scores[left] - scores[right]))
        p = KINDS[kind](p) if who == 0 else p
        for i, j, is_left in zip(left.tolist(), right.tolist(), rng.random(n) < p, strict=True):
            answer = "left" if is_left else "right"
            found.append(Judgement.of(f"p{who}", (i, j), answer, number=len(found) + 1))
    return found


N_ITEMS = 40


def session_of(judgements: list[Judgement]) -> Session:
    session = Session(None, N_ITEMS, seed=0)
    session.replay(judgements)
    session.refit()
    return session


@pytest.mark.parametrize("seed", range(2))
def test_honest_annotators_are_not_named_whatever_their_reliability(seed):
    """From .6 to 1.4, with 60 to 3,000 answers each."""
    rng = np.random.default_rng(seed)
    c, answers = rng.uniform(0.6, 1.4, 16), np.exp(rng.uniform(np.log(60), np.log(3000), 16))
    judgements = people(c, answers.astype(int), seed)
    reports = session_of(judgements).reports([f"p{k}" for k in range(16)], judgements)
    assert [r.verdict for r in reports if r.verdict not in FINE] == []
    weaker = [r.verdict for r, k in zip(reports, c, strict=True) if k < 0.65 and r.answers > 1000]
    assert set(weaker) <= {BELOW_AVERAGE}


@pytest.mark.parametrize(
    ("kind", "verdict"),
    [("random", "answers at random"), ("inverted", "inverted"), ("left", "always left")],
)
def test_who_spoils_the_others_is_named(kind, verdict):
    judgements = people(np.ones(5), np.array([150, 100, 100, 100, 100]), 1, kind)
    session = session_of(judgements)
    report, *others = session.reports([f"p{k}" for k in range(5)], judgements)
    assert report.verdict == verdict and {r.verdict for r in others} <= set(FINE)


def test_reliability_is_unknown_while_nobody_else_has_answered():
    alone = people(np.ones(1), np.array([60]), 0, "left")
    (report,) = session_of(alone).reports(["p0"], alone)
    assert (report.reliability, report.verdict) == (None, "always left")
    both = alone + [replace(j, annotator="p1", number=61) for j in alone[:1]]
    assert session_of(both).reports(["p0"], both)[0].reliability is not None


def test_reliability_is_unknown_while_others_answer_about_other_items_only():
    first = people(np.ones(1), np.array([60]), 0)
    second = [
        Judgement.of("p1", (j.left + N_ITEMS, j.right + N_ITEMS), j.word, number=j.number)
        for j in first
    ]
    both = first + second
    for features in (None, np.random.default_rng(0).standard_normal((2 * N_ITEMS, 1))):
        session = Session(features, 2 * N_ITEMS, seed=0)
        session.replay(both)
        session.refit()
        found = session.reports(["p0", "p1"], both)
        # Features inform the scores of all items.
        assert [r.reliability is not None for r in found] == [features is not None] * 2


def test_intervals_of_reliability_cover_that_of_equal_annotators():
    found = [
        report.reliability
        for seed in range(8)
        for report in reported(judged({**PEOPLE, "dan": "good"}, 60, seed)).values()
    ]
    covered = np.mean([r.low <= 1 <= r.high for r in found])
    assert covered >= 0.8  # of 32; the scale is that of the median annotator


def test_few_answers_say_nothing():
    few = reported(judged({**PEOPLE, "eve": "inverted"}, FEW - 1, 0))
    assert {r.verdict for r in few.values()} == {"too few answers"}


def test_expected_agreement_is_that_of_sampled_people():
    judgements = judged(PEOPLE, 200, 1)
    session = Session(None, N, seed=0)
    session.replay(judgements)
    session.refit()
    posterior = session.posterior
    ana, *_ = session.reports([*PEOPLE], judgements)
    others = [j for j in judgements if j.annotator != "ana"]
    own = [j for j in judgements if j.annotator == "ana"]
    pairs = [a.pair for a in own for b in others if a.pair == b.pair]
    i, j = np.array(pairs).T
    p = expit(SHARPNESS * (posterior.draws[:, i] - posterior.draws[:, j]))
    assert ana.shared == len(pairs)
    assert ana.expected_agreement == pytest.approx(np.mean(p**2 + (1 - p) ** 2), abs=0.01)
    same = [
        (a.word == b.word) == (a.left == b.left) for a in own for b in others if a.pair == b.pair
    ]
    assert ana.agreement == pytest.approx(np.mean(same))


def test_gold_scores_count_every_answer_about_a_gold_pair():
    study = study_of([Decision("gold", item=3, other=1), Decision("gold", item=2, other=5)])
    said = [("left", 3, 1), ("right", 1, 3), ("left", 1, 3), ("tie", 2, 5), ("left", 7, 8)]
    judgements = [
        Judgement.of("ana", (left, right), answer, number=k)
        for k, (answer, left, right) in enumerate(said, start=1)
    ]
    ana = reported(judgements, study)["ana"]
    assert (ana.gold.value, ana.gold_answers) == (0.5, 4)
    assert 0 < ana.gold.low < 0.5 < ana.gold.high < 1


def test_an_excluded_annotator_is_measured_by_the_scores_of_the_others():
    judgements = judged({**PEOPLE, "eve": "inverted"}, 80, 0)
    reports = reported(judgements, study_of([Decision("exclude", "eve", reason="inverted")]))
    eve = reports["eve"]
    assert (eve.state, eve.reason, eve.verdict, eve.answers) == (
        "excluded", "inverted", "inverted", 80,
    )  # fmt: skip
    assert reports["ana"].state == "active"


def test_undone_answers_count_for_nothing():
    judgements = judged({"ana": "good"}, 3, 0)
    undo = Judgement.of("ana", judgements[0].pair, "undo", undoes=1, number=4)
    assert reported(judgements)["ana"].answers == 3
    session = Session(None, N, seed=0)
    session.replay([*judgements, undo])
    session.refit()
    ana, nobody = session.reports(["ana", "zoe"])
    assert ana.answers == 2
    assert (nobody.answers, nobody.reliability, nobody.verdict) == (0, None, "no answers")
