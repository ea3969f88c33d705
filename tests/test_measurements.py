"""Probabilities as measurements: their likelihood, what is learned of them, honest intervals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtri
from simulated_probabilities import MILD, PROBABILITIES, answered

from sortnet.preference import Judgement
from sortnet.preference.session import Session
from sortnet.preference.study import Decision, study_of

MODEL = "model"
MEASURES = Decision("p-measurement", MODEL)


def session_with(said, *decisions: Decision) -> Session:
    session = Session(None, len(said.scores), study=study_of(decisions))
    session.replay(said.judgements)
    session.refit()
    return session


def session_of(kind: str, seed: int = 0) -> Session:
    return session_with(answered(kind, 30, 200, seed), MEASURES, Decision("model", MODEL))


def test_the_scale_of_an_honest_annotator_is_learned():
    scales = [session_of("honest", k).posterior.annotators.scale[0] for k in range(3)]
    assert scales == [pytest.approx(MILD, rel=0.2)] * 3
    triple = session_of("of a scale three times wrong").posterior.annotators.scale[0]
    assert triple == pytest.approx(3 * MILD, rel=0.3)


@pytest.mark.parametrize("kind", ["always .99", "always .5", "0 or 1", "unrelated to the truth"])
def test_who_says_nothing_of_the_errors_counts_as_words(kind):
    """A p beyond .01 and .99 only says "at least"; other ones are found to tell nothing."""
    session = session_of(kind)
    said = answered(kind, 30, 200, 0).judgements
    is_measurement = any(0.01 < judgement.p < 0.99 for judgement in said)
    assert session.posterior.annotators.in_words[0] == is_measurement
    words = Session(None, 30)
    words.replay(replace(judgement, p=None) for judgement in said)
    assert session.ranking().order.tolist() == words.ranking().order.tolist()


@pytest.mark.parametrize("kind", PROBABILITIES)
@pytest.mark.parametrize("n_of_people", [0, 150])
def test_intervals_cover_the_ranks_whatever_the_probabilities_are(kind, n_of_people):
    coverage = []
    for seed in range(3):
        said = answered(kind, 30, 200, seed, n_of_people=n_of_people)
        ranking = session_with(said, MEASURES, Decision("model", MODEL)).ranking()
        coverage.append(said.coverage(ranking.low, ranking.high))
    assert np.mean(coverage) > 0.82


def test_measurements_rank_better_than_words_and_are_surer_than_shares():
    correlation, width = {}, {}
    for kind in ("p-measurement", "p-share", "p-ignored"):
        correlations, widths = [], []
        for seed in range(4):
            said = answered("honest", 30, 120, seed)
            decisions = [] if kind == "p-share" else [Decision(kind, MODEL)]
            ranking = session_with(said, *decisions).ranking()
            correlations.append(np.corrcoef(ranking.score, said.scores)[0, 1])
            widths.append(np.mean(ranking.high - ranking.low))
        correlation[kind] = np.mean(correlations)
        width[kind] = np.mean(widths)
    assert correlation["p-measurement"] > correlation["p-ignored"] + 0.02
    assert width["p-measurement"] < 0.7 * width["p-share"]


def test_a_tie_stays_a_word_and_training_gets_soft_targets():
    said = [Judgement.of(MODEL, (0, 1), "tie", p=0.5), Judgement.of(MODEL, (1, 2), "left", p=0.8)]
    session = Session(None, 3, study=study_of([MEASURES]))
    session.replay(said)
    answers = session.history.answers(2)
    assert answers.share[:, 0].tolist() == [0.5, 1.0]
    assert answers.tied.tolist() == [True, False]
    assert answers.is_measured.tolist() == [False, True]
    assert answers.probit[1] == pytest.approx(ndtri(0.8))
    assert session.weighted()[0].target.tolist() == [0.5, 0.8]
