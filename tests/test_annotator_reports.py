"""Reports on annotators: against refits, sampling and simulated people who answer badly."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, ndtr

from sortnet.preference import Judgement
from sortnet.preference.annotator_reports import FEW, FINE, AnnotatorReport
from sortnet.preference.model import SHARPNESS
from sortnet.preference.session import Session
from sortnet.preference.study import Decision, Study, study_of

N = 30
KINDS = {
    "good": lambda p: p,
    "random": lambda p: np.full_like(p, 0.5),
    "inverted": lambda p: 1 - p,
    "left": lambda p: np.ones_like(p),
    "right": lambda p: np.zeros_like(p),
}


def people(*annotators: tuple[str, int, float], seed: int, n: int = N) -> list[Judgement]:
    """Answers about random pairs by p0, p1, ...: (kind, number of answers, reliability)."""
    rng, found = np.random.default_rng(seed), []
    scores = rng.normal(0, 1.5, n)
    for who, (kind, n_answers, reliability) in enumerate(annotators):
        left = rng.integers(0, n, n_answers)
        right = (left + rng.integers(1, n, n_answers)) % n
        p = KINDS[kind](ndtr(reliability * (scores[left] - scores[right])))
        sides = np.where(rng.random(n_answers) < p, "left", "right")
        for i, j, answer in zip(left.tolist(), right.tolist(), sides.tolist(), strict=True):
            found.append(Judgement.of(f"p{who}", (i, j), answer, number=len(found) + 1))
    return found


def three_good(kind: str, n_answers: int, seed: int) -> list[Judgement]:
    """p0 is of this kind and gives this number of answers, three good people 100 each."""
    return people((kind, n_answers, 1), *[("good", 100, 1)] * 3, seed=seed)


def session_of(judgements: list[Judgement], study: Study | None = None, n: int = N) -> Session:
    session = Session(None, n, seed=0, study=study)
    session.replay(judgements)
    session.refit()
    return session


def reported(judgements: list[Judgement], study: Study | None = None) -> list[AnnotatorReport]:
    """A report on each annotator, by a fit without the excluded ones."""
    names = [*dict.fromkeys(judgement.annotator for judgement in judgements)]
    return session_of(judgements, study).reports(names, judgements)


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
@pytest.mark.parametrize(("n_answers", "seed"), [(100, 200), (200, 201), (200, 202)])
def test_who_answers_badly_is_named_and_nobody_else(kind, verdict, n_answers, seed):
    first, *others = reported(three_good(kind, n_answers, seed))
    assert first.verdict == verdict
    assert {report.verdict for report in others} <= set(FINE)
    assert first.reliability.low <= first.reliability.value <= first.reliability.high
    assert (first.side_bias.low > 0.5) == (kind == "left")
    assert (first.side_bias.high < -0.5) == (kind == "right")


def test_honest_annotators_are_not_named_whatever_their_reliability():
    """From .6 to 1.4, with 60 to 3,000 answers each."""
    rng = np.random.default_rng(0)
    c, answers = rng.uniform(0.6, 1.4, 16), np.exp(rng.uniform(np.log(60), np.log(3000), 16))
    honest = [("good", int(n), reliability) for n, reliability in zip(answers, c, strict=True)]
    reports = reported(people(*honest, seed=0))
    assert [report.verdict for report in reports if report.verdict not in FINE] == []


def test_reliability_is_unknown_while_nobody_else_has_answered():
    alone = people(("left", 60, 1), seed=0)
    (report,) = reported(alone)
    assert (report.reliability, report.verdict) == (None, "always left")
    both = alone + [replace(j, annotator="p1", number=61) for j in alone[:1]]
    assert reported(both)[0].reliability is not None


def test_reliability_is_unknown_while_others_answer_about_other_items_only():
    first = people(("good", 60, 1), seed=0)
    second = [Judgement.of("p1", (j.left + N, j.right + N), j.word, number=j.number) for j in first]
    both = first + second
    for features in (None, np.random.default_rng(0).standard_normal((2 * N, 1))):
        session = Session(features, 2 * N, seed=0)
        session.replay(both)
        session.refit()
        found = session.reports(["p0", "p1"], both)
        # Features inform the scores of all items.
        assert [r.reliability is not None for r in found] == [features is not None] * 2


def test_intervals_of_reliability_cover_that_of_equal_annotators():
    found = [
        report.reliability for seed in range(8) for report in reported(three_good("good", 60, seed))
    ]
    covered = np.mean([r.low <= 1 <= r.high for r in found])
    assert covered >= 0.8  # of 32; the scale is that of the median annotator


def test_few_answers_say_nothing():
    few = people(*[("inverted", FEW - 1, 1)] * 2, seed=0)
    assert {report.verdict for report in reported(few)} == {"too few answers"}


def test_expected_agreement_is_that_of_sampled_people():
    judgements = three_good("good", 200, 1)
    session = session_of(judgements)
    posterior = session.posterior
    (ana,) = session.reports(["p0"], judgements)
    others = [j for j in judgements if j.annotator != "p0"]
    own = [j for j in judgements if j.annotator == "p0"]
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
    (ana,) = reported(judgements, study)
    assert (ana.gold.value, ana.gold_answers) == (0.5, 4)
    assert 0 < ana.gold.low < 0.5 < ana.gold.high < 1


def test_an_excluded_annotator_is_measured_by_the_scores_of_the_others():
    judgements = three_good("inverted", 80, 0)
    study = study_of([Decision("exclude", "p0", reason="inverted")])
    first, second, *_ = reported(judgements, study)
    assert (first.state, first.reason, first.verdict, first.answers) == (
        "excluded", "inverted", "inverted", 80,
    )  # fmt: skip
    assert second.state == "active"


def test_undone_answers_count_for_nothing():
    judgements = people(("good", 3, 1), seed=0)
    undo = Judgement.of("p0", judgements[0].pair, "undo", undoes=1, number=4)
    one, nobody = session_of([*judgements, undo]).reports(["p0", "zoe"])
    assert one.answers == 2
    assert (nobody.answers, nobody.reliability, nobody.verdict) == (0, None, "no answers")
