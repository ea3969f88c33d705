"""Reports on annotators: against sampling and simulated people who answer badly."""

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
CHANCES = {  # of an answer for the left item, by the chance that it is better
    "good": lambda p: p,
    "random": lambda p: np.full_like(p, 0.5),
    "inverted": lambda p: 1 - p,
    "left": np.ones_like,
    "right": np.zeros_like,
}


def people(*annotators: tuple[str, int, float], seed: int) -> list[Judgement]:
    """Answers about random pairs by p0, p1, ...: (kind, number of answers, reliability)."""
    rng, judgements = np.random.default_rng(seed), []
    scores = rng.normal(0, 1.5, N)
    for who, (kind, n_answers, reliability) in enumerate(annotators):
        left = rng.integers(0, N, n_answers)
        right = (left + rng.integers(1, N, n_answers)) % N
        p = CHANCES[kind](ndtr(reliability * (scores[left] - scores[right])))
        words = np.where(rng.random(n_answers) < p, "left", "right")
        for i, j, word in zip(left.tolist(), right.tolist(), words.tolist(), strict=True):
            number = len(judgements) + 1
            judgements.append(Judgement.of(f"p{who}", (i, j), word, number=number))
    return judgements


def three_good(kind: str, n_answers: int, seed: int) -> list[Judgement]:
    """p0 is of this kind and gives this number of answers, three good people 100 each."""
    return people((kind, n_answers, 1), *[("good", 100, 1)] * 3, seed=seed)


def session_of(judgements: list[Judgement], study: Study | None = None, features=None) -> Session:
    session = Session(features, 2 * N, seed=0, study=study)
    session.replay(judgements)
    session.refit()
    return session


def reported(
    judgements: list[Judgement], study: Study | None = None, features=None
) -> list[AnnotatorReport]:
    """A report on each annotator, by a fit without the excluded ones."""
    session = session_of(judgements, study, features)
    names = [*dict.fromkeys(judgement.annotator for judgement in judgements)]
    return session.reports(names, judgements)


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
@pytest.mark.parametrize(("n_answers", "seed"), [(100, 200), (200, 202)])
def test_who_answers_badly_is_named_and_nobody_else(kind, verdict, n_answers, seed):
    first, *others = reported(three_good(kind, n_answers, seed))
    assert first.verdict == verdict
    assert {report.verdict for report in others} <= set(FINE)
    assert (first.side_bias.low > 0.5) == (kind == "left")
    assert (first.side_bias.high < -0.5) == (kind == "right")


def test_honest_annotators_are_not_named_whatever_their_reliability():
    rng = np.random.default_rng(0)
    numbers = np.geomspace(60, 3000, 12).astype(int).tolist()
    honest = [("good", n_answers, rng.uniform(0.6, 1.4)) for n_answers in numbers]
    assert {report.verdict for report in reported(people(*honest, seed=0))} <= set(FINE)


def test_reliability_is_unknown_while_nobody_else_has_answered_about_the_same_items():
    alone = people(("left", 60, 1), seed=0)
    (report,) = reported(alone)
    assert (report.reliability, report.verdict) == (None, "always left")
    elsewhere = [Judgement.of("p1", (j.left + N, j.right + N), j.word) for j in alone]
    assert [report.reliability for report in reported(alone + elsewhere)] == [None, None]
    features = np.random.default_rng(0).standard_normal((2 * N, 1))  # inform all items' scores
    assert reported(alone + elsewhere, features=features)[0].reliability is not None


def test_intervals_of_reliability_cover_that_of_equal_annotators():
    reports = [report for seed in range(8) for report in reported(three_good("good", 60, seed))]
    covered = np.mean([r.reliability.low <= 1 <= r.reliability.high for r in reports])
    assert covered >= 0.8  # of 32; the scale is that of the median annotator


def test_few_answers_say_nothing():
    few = people(*[("inverted", FEW - 1, 1)] * 2, seed=0)
    assert {report.verdict for report in reported(few)} == {"too few answers"}


def test_who_answers_about_sets_alone_prefers_no_side():
    sets = [Judgement.of("p0", (k, k + 1, k + 2), "best", best=k) for k in range(FEW)]
    assert [report.verdict for report in reported(sets)] == [""]


def test_expected_agreement_is_that_of_sampled_people():
    judgements = people(("good", 200, 1), seed=1)
    i, j = judgements[0].items
    judgements.append(Judgement.of("p1", (i, j), "left"))
    session = session_of(judgements)
    (report,) = session.reports(["p1"], judgements)
    draws = session.posterior.draws
    p = expit(SHARPNESS * (draws[:, i] - draws[:, j]))
    assert report.shared > 0
    assert report.expected_agreement == pytest.approx(np.mean(p**2 + (1 - p) ** 2), abs=0.01)


def test_an_excluded_annotator_is_measured_by_the_scores_of_the_others():
    study = study_of([Decision("exclude", "p0", reason="seen to guess")])
    first, second, *_ = reported(three_good("inverted", 80, 0), study)
    assert (first.state, first.reason, first.verdict) == ("excluded", "seen to guess", "inverted")
    assert second.state == "active"


@pytest.mark.parametrize(("milliseconds", "verdict"), [(200, "too fast"), (2000, "")])
def test_who_answers_faster_than_one_can_read_is_named(milliseconds, verdict):
    judgements = three_good("good", 100, 200)
    timed = [replace(judgement, milliseconds=milliseconds) for judgement in judgements[:100]]
    assert reported(timed + judgements[100:])[0].verdict == verdict
