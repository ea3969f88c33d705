"""Models that share errors, people and gold pairs beside them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest
from cli_helpers import done
from collection_helpers import made_items
from scipy.optimize import approx_fprime
from scipy.special import ndtr

from sortnet.preference import Judgement, problem
from sortnet.preference.laplace import choose_scales, fit
from sortnet.preference.problem import Problem
from sortnet.preference.reliability import Annotators
from sortnet.preference.scales import SHARED, Prior, Scales
from sortnet.preference.session import Session
from sortnet.preference.study import Decision, study_of
from sortnet.preference.vote_arrays import GOLD, MODEL, PERSON, Votes
from store import open_store

NO_FEATURES = np.empty((30, 0))


def answered(
    c: Iterable[float], kinds: Iterable[int], numbers: Iterable[int], seed: int, d: int = 0
) -> tuple[np.ndarray, np.ndarray, Votes]:
    """Features, true scores, and answers of annotators of these reliabilities and kinds about
    random pairs of 30 items; models see the scores and an error that they share.
    """
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((30, d))
    scores, errors = (X @ rng.standard_normal(d) + rng.standard_normal(30) for _ in range(2))
    parts = []
    for who, (reliability, kind, m) in enumerate(zip(c, kinds, numbers, strict=True)):
        left = rng.integers(30, size=m)
        right = (left + rng.integers(1, 30, size=m)) % 30
        seen = reliability * scores + (kind == MODEL) * errors
        said = rng.random(m) < ndtr(seen[left] - seen[right])
        parts.append((left, right, said.astype(float), np.full(m, who), np.full(m, kind)))
    left, right, target, who, kind = (np.concatenate(column) for column in zip(*parts, strict=True))
    return X, scores, Votes(left, right, target, who, None, kind)


def as_of_people(votes: Votes) -> Votes:
    return replace(votes, kind=None)


def coverage(X: np.ndarray, scores: np.ndarray, votes: Votes, people: int) -> float:
    """Share of the differences of scores within their 90 % intervals."""
    posterior = fit(X, votes, people).posterior
    i, j = np.triu_indices(30, 1)
    mean, variance = posterior.difference(i, j)
    off = scores[i] - scores[j] - mean
    return float((np.abs(off) < 1.645 * np.sqrt(variance)).mean())


@pytest.mark.parametrize("d", [0, 2])
def test_intervals_cover_the_scores_where_models_share_errors(d):
    kinds = (PERSON, MODEL, MODEL, MODEL)
    with_errors, without = [], []
    for seed in range(4):
        X, scores, votes = answered([1, 1, 0.8, 1.2], kinds, [60, 600, 600, 600], seed, d)
        with_errors.append(coverage(X, scores, votes, 4))
        without.append(coverage(X, scores, as_of_people(votes), 4))
    assert np.mean(with_errors) > 0.85
    assert np.mean(without) < 0.7


def test_no_number_of_models_makes_the_scores_certain():
    kinds = (PERSON, *(MODEL,) * 8)
    _, scores, votes = answered(np.ones(9), kinds, [40, *(600,) * 8], 1)
    i, j = np.triu_indices(30, 1)
    spread = [
        np.sqrt(fit(NO_FEATURES, each, 9).posterior.difference(i, j)[1].mean())
        for each in (votes, as_of_people(votes))
    ]
    assert spread[0] > 0.5 * np.std(scores) > 2 * spread[1]


def test_models_are_measured_by_what_people_say_not_by_their_agreement():
    """Two models that agree on what is not so, and one that sees what people see."""
    kinds, found = (PERSON, MODEL, MODEL, MODEL), []
    for seed in range(4):
        _, scores, votes = answered([1, 0, 0, 1.5], kinds, [300, 900, 900, 900], seed)
        ours, alike = (fit(NO_FEATURES, each, 4).posterior for each in (votes, as_of_people(votes)))
        correlation = [np.corrcoef(each.scores, scores)[0, 1] for each in (ours, alike)]
        assert correlation[0] > 0.95 > 0.8 > correlation[1]
        found.append(ours.reliability)
    people, first, second, good = np.mean(found, axis=0)
    assert people == pytest.approx(1) and good > 1
    assert abs(first) < 0.3 and abs(second) < 0.3


def with_gold(votes: Votes, scores: np.ndarray, m: int) -> Votes:
    """And m gold pairs."""
    rng = np.random.default_rng(5)
    pairs = [rng.choice(30, 2, replace=False) for _ in range(m)]
    better = [tuple(sorted(pair.tolist(), key=lambda k: -scores[k])) for pair in pairs]
    models = np.unique(votes.annotator[votes.of_kind(MODEL)]).tolist()
    return as_of_people(votes).with_known(models, better)


def test_gold_pairs_tell_inverted_models_from_right_ones():
    _, scores, votes = answered([-1, 1], (MODEL, MODEL), [500, 500], 3)
    known = with_gold(votes, scores, 40)
    assert (known.kind == GOLD).sum() == 40
    posterior = fit(NO_FEATURES, known, 2).posterior
    assert posterior.reliability[0] < -0.3 and posterior.reliability[1] > 0.3
    assert np.corrcoef(posterior.scores, scores)[0, 1] > 0.8


def test_a_gold_pair_is_in_its_order_whatever_an_annotator_says():
    said = Votes.of_one(np.array([0, 1, 0]), np.array([1, 2, 1]), np.array([0.0, 1, 0]))
    before, known = (
        fit(np.empty((3, 0)), each, 1) for each in (said, said.with_known([], [(0, 1)]))
    )
    assert before.posterior.scores[0] < before.posterior.scores[1]
    assert known.posterior.scores[0] > known.posterior.scores[1]


def test_answers_of_people_alone_are_as_they_were():
    _, _, votes = answered([1, 1], (PERSON, PERSON), [90, 90], 4)
    plain = as_of_people(votes)
    assert plain.with_known([], []) is plain and plain.with_known([7], []) is not None
    marked, before = (fit(NO_FEATURES, each, 2).posterior for each in (votes, plain))
    assert np.array_equal(marked.mean, before.mean)
    assert np.array_equal(marked.draws, before.draws)


def test_one_model_alone_is_taken_as_one_person():
    _, _, votes = answered([1], (MODEL,), [90], 4)
    alone = as_of_people(votes)
    assert alone.with_known([0], []) is alone
    assert alone.with_known([0], [(2, 3)]).of_kind(MODEL).sum() == 90
    assert as_of_people(votes).with_known([], [(2, 3)]).of_kind(PERSON).sum() == 90


def sharing(ratio: float, seed: int) -> tuple[np.ndarray, Votes]:
    """True scores, and answers of people and of three models that share errors of that variance."""
    rng = np.random.default_rng(seed)
    scores = rng.standard_normal(30)
    errors = np.sqrt(ratio) * rng.standard_normal(30)
    who = np.repeat(np.arange(4), [200, 400, 400, 400])
    left = rng.integers(30, size=len(who))
    right = (left + rng.integers(1, 30, size=len(who))) % 30
    kind = np.where(who > 0, MODEL, PERSON)
    seen = scores[left] - scores[right] + (who > 0) * (errors[left] - errors[right])
    target = (rng.random(len(who)) < ndtr(seen)).astype(float)
    return scores, Votes(left, right, target, who, None, kind)


def test_what_models_share_is_measured_by_people_and_not_assumed():
    shared, covered = {}, {}
    i, j = np.triu_indices(30, 1)
    for ratio in (0.0, 2.0):
        of_seeds = []
        for seed in range(4):
            scores, votes = sharing(ratio, seed)
            scales = choose_scales(NO_FEATURES, votes, 4)
            mean, variance = fit(NO_FEATURES, votes, 4, scales=scales).posterior.difference(i, j)
            off = scores[i] - scores[j] - mean
            of_seeds.append((scales.shared, np.mean(np.abs(off) < 1.645 * np.sqrt(variance))))
        shared[ratio], covered[ratio] = np.mean(of_seeds, axis=0)
    assert shared[0.0] < 0.4 < 0.9 < shared[2.0]
    assert min(covered.values()) > 0.85


def test_a_model_under_another_name_widens_the_intervals_little():
    _, _, votes = answered([1, 1], (PERSON, PERSON), [300, 51], 4)
    said = judged(votes)
    study = study_of([Decision("model", "a0"), Decision("model", "a1")])
    widths = []
    for judgements in (said[:300], said):
        session = Session(None, 30, study=study)
        session.replay(judgements)
        ranking = session.ranking()
        widths.append(np.mean(ranking.high - ranking.low))
    assert widths[1] < 1.35 * widths[0]  # it was twice as wide with errors as large as the scores


def test_models_alone_share_errors_as_large_as_those_by_which_they_differ():
    shared = []
    for variance in (0.0, 2.0):
        rng = np.random.default_rng(7)
        seen = 2 * rng.standard_normal(30) + np.sqrt(variance) * rng.standard_normal((3, 30))
        who = np.repeat(np.arange(3), 300)
        left = rng.integers(30, size=len(who))
        right = (left + rng.integers(1, 30, size=len(who))) % 30
        gap = seen[who, left] - seen[who, right]
        target = (rng.random(len(who)) < ndtr(gap)).astype(float)
        votes = Votes(left, right, target, who, None, np.full(len(who), MODEL))
        shared.append(choose_scales(NO_FEATURES, votes, 3).shared)
    assert shared[0] < 0.1 and shared[1] > 3 * shared[0]


def scales_of(people: int) -> Scales:
    usual, none = Annotators.average(people), np.zeros(people)
    known = replace(usual, reliability=np.linspace(0.6, 1.4, people), reliability_sd=none + 0.1)
    return Scales((Prior(0.7, 0.4),), np.ones(1), replace(known, side_sd=none + 0.2), 0.4, 0.1)


def made_problem(m: int = 40) -> Problem:
    X, scores, votes = answered([1, 1, 1], (PERSON, MODEL, MODEL), [m, m, m], 6, d=2)
    return Problem(X, with_gold(votes, scores, 5), 3, scales_of(3))


def test_the_slope_and_the_curvature_are_those_of_the_loss():
    made = made_problem()
    precision = made.precision(made.scales.priors[0])
    theta = 0.5 * np.random.default_rng(1).standard_normal(made.n_unknowns)
    assert made.n_unknowns == 2 * (2 + 30) + 3 == len(precision)

    def loss(at):
        return 0.5 * precision @ at**2 - made.likelihood(at).log_p.sum()

    def slope(at):
        return precision * at - made.pull_back(made.summed(made.likelihood(at).slope))

    assert np.allclose(slope(theta), approx_fprime(theta, loss, 1e-7), atol=1e-4)
    unit = np.eye(made.n_unknowns)
    inverse = made.solver(made.likelihood(theta).weight, made.scales.priors[0]).solve(unit)
    numeric = np.array([(slope(theta + h) - slope(theta - h)) / 2e-5 for h in 1e-5 * unit])
    assert np.allclose(inverse @ numeric, unit, atol=1e-5)


def test_many_items_and_few_have_the_same_posterior(monkeypatch):
    made = made_problem()
    dense = fit(made.features, made.votes, 3, scales=made.scales).posterior
    monkeypatch.setattr(problem, "DENSE", 1)
    large = fit(made.features, made.votes, 3, scales=made.scales, draws=4000).posterior
    assert large.covariance is None and dense.covariance is not None
    assert large.mean == pytest.approx(dense.mean, abs=1e-3)
    assert large.draws.var(axis=0) == pytest.approx(np.diag(dense.covariance), rel=0.15)
    some = made.votes.where(made.votes.of_kind(MODEL, PERSON))
    assert large.predicted(some) == pytest.approx(dense.predicted(some), abs=0.03)


def test_of_many_items_those_without_an_answer_are_as_the_prior_says(monkeypatch):
    made = made_problem()
    X = np.vstack((made.features, np.random.default_rng(7).standard_normal((20, 2))))
    whole = fit(X, made.votes, 3, scales=made.scales, draws=4000).posterior
    monkeypatch.setattr("sortnet.preference.laplace.MANY", 40)
    some = fit(X, made.votes, 3, scales=made.scales, draws=4000).posterior
    assert some.mean[:53] == pytest.approx(whole.mean[:53], abs=1e-6)
    assert some.draws[:, :53].std(axis=0) == pytest.approx(
        whole.draws[:, :53].std(axis=0), rel=0.15
    )
    assert len(some.mean) == len(whole.mean) == 2 * 50 + 3


def test_a_models_answer_is_predicted_with_the_errors_it_shares():
    made = made_problem(200)
    posterior = fit(made.features, made.votes, 3, scales=made.scales).posterior
    models = made.votes.where(made.votes.of_kind(MODEL))
    v, first, s = models, posterior.errors, posterior.draws
    c = posterior.reliability[v.annotator]
    z = c * (s[:, v.left] - s[:, v.right]) + s[:, first + v.left] - s[:, first + v.right]
    z += posterior.mean[30 + v.annotator]
    left, right = (ndtr(side * z - posterior.tie).mean(axis=0) for side in (1, -1))
    assert posterior.predicted(v) == pytest.approx(left / (left + right), abs=0.03)
    plain = posterior.predicted(as_of_people(v))
    assert np.abs(plain - posterior.predicted(v)).max() > 0.1


def test_an_answer_taken_in_is_about_what_a_fit_with_it_finds():
    made = made_problem()
    one = Votes(
        np.array([4]), np.array([9]), np.array([1.0]), np.array([1]), None, np.array([MODEL])
    )
    columns = ("left", "right", "target", "annotator", "kind")
    both = Votes(*(np.append(getattr(made.votes, c), getattr(one, c)) for c in columns[:4]),
                 None, np.append(made.votes.kind, MODEL))  # fmt: skip
    before, after = (
        fit(made.features, votes, 3, scales=made.scales).posterior for votes in (made.votes, both)
    )
    start = before.mean.copy()
    before.observe(4, 9, 1.0, 1, MODEL)
    moved, should = before.mean - start, after.mean - start
    assert np.corrcoef(moved, should)[0, 1] > 0.98
    assert np.diag(before.covariance) == pytest.approx(np.diag(after.covariance), rel=0.1)


def judged(votes: Votes) -> list[Judgement]:
    said = {1.0: "left", 0.0: "right"}
    return [
        Judgement(f"a{who}", left, right, said[target], number=k + 1)
        for k, (left, right, target, who) in enumerate(votes.rows())
    ]


def test_a_session_replayed_is_the_same_and_takes_a_few_answers_of_people_in():
    c, kinds = [1, -1, 1.5], (PERSON, MODEL, MODEL)
    _, scores, votes = answered(c, kinds, [60, 900, 900], 8)
    order = [*range(60, 1860), *range(60)]  # people last: fewer than a quarter of all
    said = judged(as_of_people(votes.where(np.array(order))))
    study = study_of([Decision("model", "a1"), Decision("model", "a2")])
    live, again = (Session(None, 30, study=study) for _ in range(2))
    for at in range(0, len(said), 300):
        live.replay(said[at : at + 300])
        live.ask("a0")
    again.replay(said)
    assert live.ranking().score == pytest.approx(again.ranking().score, abs=1e-6)
    reports = {report.name: report for report in again.reports(["a0", "a1", "a2"])}
    assert reports["a1"].model and not reports["a0"].model
    assert reports["a1"].reliability.value < 0 < reports["a2"].reliability.value
    assert np.corrcoef(again.ranking().score, scores)[0, 1] > 0.8


def test_what_only_models_said_is_told():
    _, _, votes = answered([1, 1], (MODEL, MODEL), [60, 60], 9)
    said = judged(as_of_people(votes))
    marked = [Decision("model", "a0"), Decision("model", "a1")]
    gold = Decision("gold", item=3, other=4)
    for decisions, judgements, words in [
        (marked, said, "only models have answered"),
        (marked, said[:60], "only a model has answered"),
        ([*marked, gold], said, ""),
        (marked[:1], said, ""),
        ([], said, ""),
    ]:
        session = Session(None, 30, study=study_of(decisions))
        session.replay(judgements)
        details = "; ".join(session.remaining().details)
        assert words in details and ("only" in details) == bool(words)


def test_scales_are_chosen_with_all_that_measures_models(monkeypatch):
    _, _, votes = answered([1, 1], (PERSON, MODEL), [50, 2000], 10)
    seen = []
    monkeypatch.setattr("sortnet.preference.laplace._MOST_VOTES_TO_MATCH", 500)
    monkeypatch.setattr(
        "sortnet.preference.laplace.Problem",
        lambda *args: seen.append(args[1]) or Problem(*args),
    )
    choose_scales(NO_FEATURES, votes, 2)
    assert seen[0].of_kind(PERSON).sum() == 50 and seen[0].of_kind(MODEL).sum() < 700


def test_a_program_is_a_model_until_somebody_says_otherwise(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SORTNET_STORE", "s.db")
    with open_store("s.db") as store:
        store.add_items("c", made_items(4, d=0))
    (tmp_path / "judge.py").write_text(
        'import sys\nfor line in sys.stdin:\n    print(\'{"answer": "left"}\', flush=True)\n'
    )
    judge = ("label", "c", "--as", "robot", "--judge", "python judge.py", "--number", "2")
    done(*judge)
    assert "active model" in done("annotators", "list", "c")
    assert "models        robot" in done("ask", "c")
    done("ask", "c", "--kind", "robot", "person")
    done(*judge)  # who has answered stays what they are
    assert "model" not in done("annotators", "list", "c").split("robot")[1].splitlines()[0]
    done("ask", "c", "--kind", "robot", "model")
    assert "models        robot" in done("ask", "c")


def test_models_that_never_contradict_each_other_share_no_larger_errors_for_it():
    """Answers without noise make the scores large, and say nothing of errors in common."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 20))
    scores = X @ rng.standard_normal(20)
    left = rng.integers(30, size=600)
    right = (left + rng.integers(1, 30, size=600)) % 30
    better, worse = np.argsort(-scores)[:2], np.argsort(scores)[:2]
    votes = Votes(
        np.concatenate((left, better)),
        np.concatenate((right, worse)),
        np.concatenate(((scores[left] > scores[right]).astype(float), np.ones(2))),
        np.concatenate((np.arange(600) % 3, np.full(2, 3))),
        None,
        np.concatenate((np.full(600, MODEL), np.full(2, GOLD))),
    )
    scales = choose_scales(X, votes, 4)
    assert scales.shared < 2 * SHARED


def share_wrong(judgements: list[Judgement], gold: int, scores: np.ndarray) -> float:
    """Share of the pairs expected wrong, of models named `a0` and `a1`, beside gold pairs."""
    pairs = np.random.default_rng(5).permutation(30)[: 2 * gold].reshape(-1, 2).tolist()
    better = [sorted(pair, key=lambda k: -scores[k]) for pair in pairs]
    known = [Decision("gold", item=first, other=second) for first, second in better]
    models = [Decision("model", name) for name in ("a0", "a1")]
    session = Session(None, 30, study=study_of([*models, *known]))
    session.replay(judgements)
    session.refit()
    return session.remaining().wrong


def test_one_answer_of_another_model_or_one_gold_pair_costs_next_to_no_certainty():
    """Nothing has measured yet how far the first model errs, as before."""
    shares = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        scores = 1.5 * rng.standard_normal(30)
        left = rng.integers(30, size=201)
        right = (left + rng.integers(1, 30, size=201)) % 30
        target = (rng.random(201) < ndtr(scores[left] - scores[right])).astype(float)
        said = judged(Votes(left, right, target, np.repeat([0, 1], [200, 1])))
        shares.append(
            [
                share_wrong(said[:200], 0, scores),
                share_wrong(said, 0, scores),
                share_wrong(said[:200], 1, scores),
            ]
        )
    alone, with_other, with_gold_pair = np.mean(shares, axis=0)
    assert with_other < alone + 0.015
    assert with_gold_pair < alone + 0.04


def test_agreeing_models_beside_outside_answers_are_as_unsure_as_one_model():
    """Two names of one model agree, whatever both of them do not see."""
    shared = []
    for n_models in (1, 2):
        kinds = (PERSON, *(MODEL,) * n_models)
        _, _, votes = answered([1] * len(kinds), kinds, [30, *(300,) * n_models], 12)
        shared.append(choose_scales(NO_FEATURES, votes, len(kinds)).shared)
    assert shared[1] > 0.5 * shared[0] > 0.1
