"""A session: what it asks, that it is a replay of its events, and what each answer means."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.stats import spearmanr

from sortnet.errors import DataError, JudgementError
from sortnet.preference import Judgement
from sortnet.preference.history import History
from sortnet.preference.judgement_table import Judgements
from sortnet.preference.session import Session
from sortnet.preference.stopping import Standing


def by_truth(scores, question):
    return "left" if scores[question.left] > scores[question.right] else "right"


def asked_all(session, scores, m, people=("ana", "ben")):
    """Let people answer m questions by the truth; the questions."""
    questions = []
    for k in range(m):
        who = people[k % len(people)]
        for question in session.ask(who):
            questions.append(question)
            session.tell(question.answered(who, by_truth(scores, question)))
    return questions


def asked_noisily(session, scores, rng, k):
    """Let the one or the other answer a question by the scores and a normal noise."""
    who = ("ana", "ben")[k % 2]
    (q,) = session.ask(who)
    left = scores[q.left] - scores[q.right] + rng.standard_normal() > 0
    session.tell(q.answered(who, "left" if left else "right"))


@pytest.mark.parametrize("d", [0, 2])
def test_a_replay_of_the_events_is_the_same_session(d):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, d)) if d else None
    scores = rng.standard_normal(20)
    session = Session(X, 20, seed=3)
    for k in range(60):
        who = ("ana", "ben")[k % 2]
        (question,) = session.ask(who)
        answer = ("left", "right", "tie", "skip", "cant-say")[k % 5] if k % 7 == 0 else None
        session.tell(question.answered(who, answer or by_truth(scores, question)))
        if k % 11 == 10:
            session.undo(who)
    other = Session(X, 20, seed=3)
    for event in session.judgements():
        other.tell(event)
    a, b = session.ranking(), other.ranking()
    assert a.order.tolist() == b.order.tolist()
    assert a.judgements.tolist() == b.judgements.tolist()
    assert np.allclose(a.score, b.score, atol=1e-5)
    assert session.last("ana") == other.last("ana")
    left, right = session.remaining(), other.remaining()
    assert left.wrong == pytest.approx(right.wrong, abs=1e-5)
    assert left.check.n == right.check.n


def test_what_was_undone_was_never_said_but_is_asked_again():
    session, plain = Session(None, 6, seed=1), Session(None, 6, seed=1)
    for _ in range(4):
        (question,) = session.ask("ana")
        for each in (session, plain):
            each.tell(question.answered("ana", by_truth(range(6), question)))
    (wrong,) = session.ask("ana")
    session.tell(wrong.answered("ana", "tie"))
    session.undo("ana")
    assert np.allclose(session.ranking().score, plain.ranking().score, atol=1e-4)
    (again,) = session.ask("ana")
    assert (again.left, again.right, again.strategy) == (wrong.left, wrong.right, wrong.strategy)
    session.tell(again.answered("ana", "left"))
    assert session.ask("ana")[0].pair != wrong.pair


def test_an_undo_takes_back_the_annotators_own_answer_only():
    session = Session(None, 5, seed=0)
    session.tell(Judgement.of("ana", (0, 1), "left"))
    session.tell(Judgement.of("ben", (1, 2), "left"))
    assert session.undo("ana").pair == (0, 1)
    assert session.undo("ana") is None and session.last("ben").pair == (1, 2)


def test_a_tie_a_skip_and_cant_say_are_three_things():
    session = Session(None, 3, seed=0)
    session.tell(Judgement.of("ana", (0, 1), "tie"))
    session.tell(Judgement.of("ana", (1, 2), "skip"))
    session.tell(Judgement.of("ana", (0, 2), "cant-say"))
    assert session.ranking().judgements.tolist() == [1, 1, 0]  # only the tie says something
    (question,) = session.ask("ana")
    assert question.pair == (1, 2)  # what was skipped comes again when nothing else is left
    session.tell(question.answered("ana", "left"))
    assert session.ask("ana") == []


def test_nobody_is_asked_about_a_pair_twice_but_for_repeats_with_sides_swapped():
    session = Session(None, 12, seed=2, repeats=0.2)
    seen: dict[tuple[int, int], list] = {}
    for question in asked_all(session, range(12), 60, people=("ana",)):
        seen.setdefault(question.pair, []).append(question)
    twice = [questions for questions in seen.values() if len(questions) > 1]
    assert twice
    for first, again, *more in twice:
        assert not more
        assert again.strategy == "repeat"
        assert (again.left, again.right) == (first.right, first.left)


def test_every_pair_is_asked_of_one_annotator_and_then_none_is():
    session = Session(None, 6, seed=0, repeats=0)
    asked = [question.pair for question in asked_all(session, range(6), 40, people=("ana",))]
    assert sorted(asked) == sorted(combinations(range(6), 2))
    assert session.ask("ana") == []
    assert len(session.ask("ben", 3)) == 3


def test_busy_pairs_and_each_others_are_not_asked():
    session = Session(None, 5, seed=0)
    busy = {(0, 1), (2, 3), (1, 4)}
    pairs = [question.pair for question in session.ask("ana", 20, busy=busy)]
    assert len(pairs) == len(set(pairs)) == 7
    assert not busy & set(pairs)


def test_sides_are_dealt_out_evenly_and_the_same_again():
    def sides(session):
        return [(q.left, q.right) for q in asked_all(session, range(40), 300, people=("ana",))]

    first, again = sides(Session(None, 40, seed=5)), sides(Session(None, 40, seed=5))
    assert first == again
    low_is_left = np.mean([left < right for left, right in first])
    assert abs(low_is_left - 0.5) < 4 * 0.5 / np.sqrt(300)


def test_hold_out_answers_are_never_used_to_choose():
    """Two truths that differ in the hold-out answers only lead to the same questions."""
    X = np.random.default_rng(0).standard_normal((25, 2))
    truthful, contrary = Session(X, seed=4), Session(X, seed=4)
    random_questions = 0
    for _ in range(60):
        (a,), (b,) = truthful.ask("ana"), contrary.ask("ana")
        assert a == b
        said = by_truth(X[:, 0], a)
        other = {"left": "right", "right": "left"}[said]
        random_questions += a.strategy == "random"
        truthful.tell(a.answered("ana", said))
        contrary.tell(a.answered("ana", other if a.strategy == "random" else said))
    assert random_questions >= 2
    assert not np.allclose(truthful.ranking().score, contrary.ranking().score)
    assert truthful.remaining().check.right > contrary.remaining().check.right


def test_about_a_tenth_of_the_questions_are_the_hold_outs():
    session = Session(None, 60, seed=0)
    arms = [question.strategy for question in asked_all(session, range(60), 400)]
    share = np.mean([arm == "random" for arm in arms])
    assert abs(share - 0.1) < 4 * np.sqrt(0.1 * 0.9 / 400)


@pytest.mark.parametrize("d", [0, 3])
def test_the_first_questions_connect_all_items(d):
    n = 30
    X = np.random.default_rng(0).standard_normal((n, d)) if d else None
    session = Session(X, n, seed=1, holdout=0, repeats=0)
    questions = asked_all(session, range(n), n * 5 if not d else n + 3)
    low, high = np.array([question.pair for question in questions]).T
    graph = coo_array((np.ones(len(low)), (low, high)), shape=(n, n))
    assert connected_components(graph, directed=False)[0] == 1


def test_items_nobody_compared_are_ranked_by_what_was_learned_of_their_features():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 3))
    scores = X @ [2.0, -1.0, 0.5]
    session = Session(X, seed=0)
    for _ in range(150):
        i, j = rng.choice(40, 2, replace=False)  # the other forty are never seen
        session.tell(
            Judgement.of("ana", (int(i), int(j)), "left" if scores[i] > scores[j] else "right")
        )
    ranking = session.ranking()
    assert (ranking.judgements[40:] == 0).all()
    assert spearmanr(ranking.score[40:], scores[40:])[0] > 0.95


def test_a_ranking_is_a_permutation_within_its_intervals():
    session = Session(None, 15, seed=0)
    before = session.ranking()
    asked_all(session, range(15), 80)
    after = session.ranking()
    for ranking in (before, after):
        assert sorted(ranking.order.tolist()) == list(range(15))
        assert (ranking.rank[ranking.order] == np.arange(1, 16)).all()
        assert (ranking.low >= 1).all()
        assert (ranking.low <= ranking.rank).all()
        assert (ranking.rank <= ranking.high).all()
        assert (ranking.high <= 15).all()
    assert (after.high - after.low).mean() < (before.high - before.low).mean() / 2


def test_intervals_hold_the_truth_about_as_often_as_they_say():
    held = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        scores = rng.standard_normal(25) * 1.4
        session = Session(None, 25, seed=seed)
        for k in range(120):
            asked_noisily(session, scores, rng, k)
        ranking = session.ranking()
        truth = np.empty(25, int)
        truth[np.argsort(-scores)] = np.arange(1, 26)
        held += ((ranking.low <= truth) & (truth <= ranking.high)).tolist()
    assert 0.83 < np.mean(held) < 0.98  # 125 intervals of level 0.9


@pytest.mark.slow
def test_the_share_of_wrong_pairs_is_about_the_true_one_and_it_ends():
    differences = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        scores = rng.standard_normal(30) * 2
        session = Session(None, 30, seed=seed, goal=0.12)
        for k in range(600):
            asked_noisily(session, scores, rng, k)
            if k % 20 == 19 and session.remaining().stop:
                break
        done = session.remaining()
        assert done.stop, done.standing
        assert done.questions == 0
        i, j = np.triu_indices(30, 1)
        got = session.ranking().score
        wrong = np.mean((got[i] > got[j]) != (scores[i] > scores[j]))
        differences.append(wrong - done.wrong)
    assert abs(np.mean(differences)) < 0.04


def test_nobody_is_promised_more_questions_than_there_are():
    session = Session(None, 3, seed=0)
    asked_all(session, range(3), 3, people=("ana",))
    remaining = session.remaining()
    assert remaining.questions == 0
    assert not remaining.stop
    assert remaining.standing is Standing.SHORT


def test_an_undo_leaves_the_parts_that_the_answers_that_stand_connect():
    history = History(6)
    for number, pair in enumerate([(0, 1), (1, 2), (3, 4), (2, 3)], start=1):
        history.add(Judgements.of([Judgement.of("ana", pair, "left", number=number)]))
    history.add(Judgements.of([Judgement.of("ana", (1, 2), "undo", undoes=2, number=5)]))
    part = history.all_components()
    assert part[0] == part[1]
    assert part[2] == part[3] == part[4]
    assert len(set(part.tolist())) == 3
    history.add(Judgements.of([Judgement.of("ana", (5, 0), "left", number=6)]))
    assert history.all_components()[5] == history.all_components()[0]


def test_a_strategy_says_with_what_probability_it_chose():
    session = Session(None, 10, seed=0, holdout=1.0)
    (first,) = session.ask("ana")
    assert first.probability == pytest.approx(1 / 45)  # of all pairs, none was answered by others
    session.tell(first.answered("ana", "left"))
    shared = {q.pair: q.probability for q in (session.ask("ben")[0] for _ in range(30))}
    assert shared.pop(first.pair) == pytest.approx(0.5)
    assert shared
    assert all(p == pytest.approx(0.5 / 45) for p in shared.values())
    chosen = Session(None, 10, seed=0, holdout=0, repeats=0).ask("ana")[0]
    assert (chosen.strategy, chosen.probability) == ("informative", 1.0)


def test_it_does_not_stop_if_the_hold_out_contradicts_the_model():
    X = np.arange(40.0)[:, None]
    session = Session(X, seed=0, holdout=0.06, goal=0.1)
    rng = np.random.default_rng(0)
    for _ in range(200):
        (q,) = session.ask("ana")
        said = by_truth(X[:, 0], q)
        if q.strategy == "random":
            said = ("left", "right")[rng.integers(2)]
        session.tell(q.answered("ana", said))
    left = session.remaining()
    assert left.check.n >= 8
    assert left.reached and left.wrong <= session.goal.wrong
    assert left.standing is Standing.CONTRADICTED


def test_an_annotator_gets_some_hold_out_pairs_that_another_has_answered():
    session = Session(None, 40, seed=0, holdout=0.5)
    arms: dict[str, set] = {"ana": set(), "ben": set()}
    for k in range(100):
        who = ("ana", "ben")[k % 2]
        (q,) = session.ask(who)
        if q.strategy == "random":
            arms[who].add(q.pair)
        session.tell(q.answered(who, by_truth(range(40), q)))
    assert len(arms["ana"] & arms["ben"]) >= 5


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_whatever_people_do_counts_stay_right(data):
    n = data.draw(st.integers(2, 6))
    session = Session(None, n, seed=data.draw(st.integers(0, 5)))
    said: list[tuple[str, str, tuple[int, int]]] = []
    for _ in range(data.draw(st.integers(0, 25))):
        who = data.draw(st.sampled_from(["ana", "ben"]))
        if data.draw(st.integers(0, 4)) == 0:
            undone = session.undo(who)
            mine = [k for k, s in enumerate(said) if s[0] == who]
            assert (undone is None) == (not mine)
            if undone is not None:
                assert said.pop(mine[-1])[2] == undone.pair
            continue
        for question in session.ask(who):
            answer = data.draw(st.sampled_from(["left", "right", "tie", "skip", "cant-say"]))
            session.tell(question.answered(who, answer))
            said.append((who, answer, question.pair))
    counts = np.zeros(n, int)
    for _, answer, pair in said:
        if answer in ("left", "right", "tie"):
            counts[list(pair)] += 1
    assert session.ranking().judgements.tolist() == counts.tolist()


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: Session(None, 1), DataError, "two items"),
        (lambda: Session([[1.0], [np.inf]]), DataError, "not finite"),
        (lambda: Session(None, 3, strategy="luck"), JudgementError, "unknown strategy 'luck'"),
        (lambda: Judgement.of("ana", (1, 1), "left"), JudgementError, "with itself"),
        (lambda: Judgement.of("ana", (1, 2), "maybe"), JudgementError, "unknown answer 'maybe'"),
        (lambda: Judgement.of("ana", (1, 2), "undo"), JudgementError, "`undoes` must be set if"),
        (
            lambda: Session(None, 3).tell(Judgement.of("a", (0, 3), "left")),
            JudgementError,
            "no item 3",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_words(call, error, says):
    with pytest.raises(error, match=says):
        call()


def test_true_ties_are_no_errors_so_it_ends():
    """A perfect judge of four grades, who says that items of the same grade are alike."""
    grade = np.random.default_rng(0).permutation(np.arange(40) % 4)
    session = Session(None, 40, seed=0)
    done = session.remaining()
    while not done.stop and session.events < 300:
        for _ in range(20):
            (q,) = session.ask("ana")
            tie = grade[q.left] == grade[q.right]
            session.tell(q.answered("ana", "tie" if tie else by_truth(grade, q)))
        done = session.remaining()
    assert done.stop
    assert done.wrong <= 0.1
    score = session.ranking().score
    i, j = np.triu_indices(40, 1)
    assert np.mean((score[i] - score[j]) * (grade[i] - grade[j]) < 0) <= 0.02


@pytest.mark.parametrize("honest", [True, False])
def test_imported_votes_are_checked_by_leaving_some_out(honest):
    rng = np.random.default_rng(0)
    scores, session = 3 * rng.standard_normal(12), Session(None, 12, seed=0)
    for _ in range(400):
        i, j = rng.choice(12, 2, replace=False).tolist()
        left = scores[i] > scores[j] if honest else rng.random() < 0.5
        session.tell(Judgement.of("file", (i, j), "left" if left else "right"))
    done = session.remaining()
    assert done.check.left_out
    assert 60 <= done.check.n <= 100  # a fifth of them
    assert abs(done.check.right - done.check.expected) < (0.05 if honest else 0.2)
    assert done.stop == honest


def test_a_skip_is_no_answer():
    session = Session(None, 6, seed=0)
    session.tell(Judgement.of("ana", (0, 1), "tie"))
    for answer, pair in (("skip", (1, 2)), ("cant-say", (2, 3))):
        session.tell(Judgement.of("ana", pair, answer))
    assert session.answered("ana") == 1
    session.undo("ana")
    assert session.answered("ana") == 1
    session.undo("ana")
    session.undo("ana")
    assert session.answered("ana") == 0


@pytest.mark.parametrize("n", [20, 400])
def test_who_asks_gets_the_model_fitted_whatever_the_size(n):
    session, other = Session(None, n, seed=0), Session(None, n, seed=0)
    for k in range(30):
        (q,) = session.ask("ana")
        assert q.model >= k - (0 if n == 20 else n // 50 - 1)
        judgement = q.answered("ana", by_truth(range(n), q))
        session.tell(judgement)
        other.tell(judgement)
        (question,) = other.ask("ana", wait=False)
        assert question.model == 0  # the fits are left to another thread


@pytest.mark.parametrize(("n", "least"), [(300, 1), (1_000, 20), (10_000, 100), (1_000_000, 100)])
def test_a_fit_is_never_left_out_for_many_answers(n, least):
    session = Session(None, n)
    assert not session.is_due(0)
    session.replay([Judgement.of("ana", (k, k + 1), "left") for k in range(least - 1)])
    assert not session.is_due(0)
    session.tell(Judgement.of("ana", (least, least + 1), "left"))
    assert session.is_due(0)


@pytest.mark.parametrize("strategy", ["default", "random"])
def test_a_session_held_to_some_pairs_asks_each_of_them_once_and_no_other(strategy):
    among = [(3, 1), (2, 3), (0, 249), (7, 8)]
    session = Session(None, 250, among=among, strategy=strategy, repeats=0)
    asked = []
    while questions := session.ask("ana"):
        q = questions[0]
        asked.append(q.pair)
        session.tell(Judgement.of("ana", (q.left, q.right), "left", strategy=q.strategy))
    assert sorted(asked) == [(0, 249), (1, 3), (2, 3), (7, 8)]


@pytest.mark.parametrize("pair", [(0, 3), (-1, 1), (2, 2)])
def test_a_session_cannot_be_held_to_what_is_no_pair(pair):
    with pytest.raises(JudgementError, match="is no pair of 3 items"):
        Session(None, 3, among=[(0, 1), pair])
