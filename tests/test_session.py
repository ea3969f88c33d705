"""A session: what it asks, that it is a replay of its events, and what each answer means."""

from __future__ import annotations

import numpy as np
import pytest

from sortnet.errors import DataError, JudgementError
from sortnet.preference import Judgement
from sortnet.preference.session import Session
from sortnet.preference.stopping import Goal, Standing


def by_truth(scores, question):
    return "left" if scores[question.left] > scores[question.right] else "right"


def answered(question, who):
    """The answer of somebody who prefers higher numbers."""
    worst = int(np.argmin(question.items)) if len(question.items) > 2 else None
    return question.answered_by_place(who, int(np.argmax(question.items)), worst)


def asked_all(session, m, people=("ana", "ben")):
    """Let people answer m questions; the questions."""
    questions = []
    for k in range(m):
        who = people[k % len(people)]
        for question in session.ask(who):
            questions.append(question)
            session.tell(answered(question, who))
    return questions


@pytest.mark.parametrize(
    ("d", "goal", "set_size"),
    [(0, Goal(), 2), (2, Goal(), 2), (2, Goal(0.4, top=5), 2), (0, Goal(), 4)],
)
def test_a_replay_of_the_events_is_the_same_session(d, goal, set_size):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, d)) if d else None
    sessions = [Session(X, 20, seed=3, goal=goal, set_size=set_size) for _ in range(2)]
    session, other = sessions
    for k in range(60):
        who = ("ana", "ben")[k % 2]
        (question,) = session.ask(who)
        if k % 7 == 0:
            session.tell(question.answered(who, ("skip", "cant-say")[k % 2]))
        else:
            session.tell(answered(question, who))
        if k % 11 == 10:
            session.undo(who)
    other.replay(session.judgements())
    a, b = session.ranking(), other.ranking()
    assert a.order.tolist() == b.order.tolist()
    assert a.judgements.tolist() == b.judgements.tolist()
    assert np.allclose(a.score, b.score, atol=1e-5)
    if goal.top:
        assert a.among_top == pytest.approx(b.among_top, abs=0.02)
        assert a.among_top.sum() == pytest.approx(5)
    left, right = session.remaining(), other.remaining()
    assert left.wrong == pytest.approx(right.wrong, abs=1e-2 if goal.top else 1e-5)
    assert (left.standing, left.check.n) == (right.standing, right.check.n)


def test_what_was_undone_was_never_said_but_is_asked_again():
    session, plain = Session(None, 6, seed=1), Session(None, 6, seed=1)
    for _ in range(2):  # with the undo these are too few events to choose hyperparameters
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


@pytest.mark.parametrize("set_size", [2, 4])
def test_only_repeats_come_twice_with_each_item_in_another_place(set_size):
    session = Session(None, 30, seed=2, repeats=0.3, holdout=0, set_size=set_size)
    seen: dict[tuple[int, ...], list] = {}
    for question in asked_all(session, 60, people=("ana",)):
        seen.setdefault(tuple(sorted(question.items)), []).append(question)
    twice = [questions for questions in seen.values() if len(questions) > 1]
    assert twice
    for first, again, *more in twice:
        assert not more
        assert again.strategy == "repeat"
        assert all(a != b for a, b in zip(first.items, again.items, strict=True))


def test_sides_are_dealt_out_evenly():
    questions = asked_all(Session(None, 40, seed=5), 300, people=("ana",))
    low_is_left = np.mean([question.left < question.right for question in questions])
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


def test_a_ranking_is_a_permutation_within_its_intervals():
    session = Session(None, 15, seed=0)
    before = session.ranking()
    asked_all(session, 80)
    after = session.ranking()
    for ranking in (before, after):
        assert sorted(ranking.order.tolist()) == list(range(15))
        assert (ranking.rank[ranking.order] == np.arange(1, 16)).all()
        assert (ranking.low >= 1).all()
        assert (ranking.low <= ranking.rank).all()
        assert (ranking.rank <= ranking.high).all()
        assert (ranking.high <= 15).all()
    assert (after.high - after.low).mean() < (before.high - before.low).mean() / 2


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


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: Session(None, 1), DataError, "two items"),
        (lambda: Session([[1.0], [np.inf]]), DataError, "not finite"),
        (lambda: Session(None, 3, strategy="luck"), JudgementError, "unknown strategy 'luck'"),
        (lambda: Session(None, 9, set_size=7), JudgementError, "it takes 2 to 6"),
        (lambda: Session(None, 9).ask("a", set_size=1), JudgementError, "it takes 2 to 6"),
        (lambda: Session(None, 3, among=[(0, 3)]), JudgementError, "is no pair of 3 items"),
        (lambda: Session(None, 3, among=[(-1, 1)]), JudgementError, "is no pair of 3 items"),
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


def test_a_range_counts_the_items_that_no_answer_and_no_feature_tells_about():
    """Two hundred items, and five answers: at least half of the items must still take part."""
    features = np.random.default_rng(0).standard_normal((200, 2))
    session = Session(features, seed=0)
    for _ in range(5):
        (question,) = session.ask("ana")
        session.tell(question.answered("ana", by_truth(range(200), question)))
    fewest = session.remaining().fewest
    assert fewest is not None and fewest >= 50
