"""A session that asks about sets: which items, what is free, undo, and the counts."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sortnet.errors import JudgementError
from sortnet.preference.answers import Answers
from sortnet.preference.base import Judgement, Pair, Question
from sortnet.preference.goal import Goal
from sortnet.preference.history import History
from sortnet.preference.judgement_table import Judgements
from sortnet.preference.ranking import _p_of_best
from sortnet.preference.rule import Beliefs
from sortnet.preference.session import Session
from sortnet.preference.study import Decision, study_of


def answered(question: Question, annotator: str) -> Judgement:
    """The answer of somebody who prefers higher numbers."""
    items = question.items
    if len(items) == 2:
        return question.answered(annotator, "left" if items[0] > items[1] else "right")
    return question.answered(annotator, "best", best=max(items), worst=min(items))


def compared_pairs(answer: Judgement) -> list[Pair]:
    """The pairs of which the answer prefers an item."""
    return [pair for pair in answer.pairs if answer.better_of(*pair) is not None]


def asked(session: Session, n_questions: int, people: int = 2) -> list[tuple[str, Question]]:
    questions = []
    for k in range(n_questions):
        annotator = f"person-{k % people}"
        found = session.ask(annotator)
        if not found:
            break
        questions.append((annotator, found[0]))
        session.tell(answered(found[0], annotator))
    return questions


@pytest.mark.parametrize("goal", [Goal(), Goal(top=5)], ids=["order", "top"])
@pytest.mark.parametrize("size", [3, 4, 6])
def test_each_question_has_the_size_of_the_session_and_a_pair_that_is_new_to_its_annotator(
    size, goal
):
    session = Session(None, 30, seed=1, set_size=size, goal=goal, repeats=0.0)
    questions = asked(session, 40)
    compared: dict[str, set[Pair]] = {"person-0": set(), "person-1": set()}
    for annotator, question in questions:
        assert len({*question.items}) == len(question.items) == size
        assert not {*question.pairs} <= compared[annotator]
        compared[annotator].update(compared_pairs(answered(question, annotator)))


def test_every_pair_of_few_items_can_be_compared_though_sets_leave_some_out():
    session = Session(None, 8, seed=0, set_size=4, repeats=0.0, holdout=0.0)
    questions = asked(session, 100, people=1)
    answers = [answered(question, who) for who, question in questions]
    compared = {pair for answer in answers for pair in compared_pairs(answer)}
    assert len(compared) == 8 * 7 // 2


def test_questions_are_within_groups_without_retired_items_and_none_that_is_taken():
    study = study_of([Decision("retire", item=3), Decision("retire", item=17)])
    groups = [k % 3 for k in range(24)]
    session = Session(None, 24, seed=2, set_size=4, groups=groups, study=study)
    busy = [*combinations((0, 6, 9, 12), 2), *combinations((1, 4, 7), 2)]
    for k in range(25):
        (question,) = session.ask("ana", busy=busy)
        assert len({groups[item] for item in question.items}) == 1
        assert not {3, 17} & {*question.items}
        assert not {*busy} & {*question.pairs}
        if k % 2:
            session.tell(answered(question, "ana"))


def test_questions_asked_together_share_an_item_at_most():
    session = Session(None, 20, seed=3, set_size=4)
    questions = session.ask("ana", 8)
    assert len(questions) == 8
    for one, other in combinations(questions, 2):
        assert len({*one.items} & {*other.items}) <= 1


def test_small_groups_get_smaller_sets_and_every_pair_is_asked_in_the_end():
    groups = [0, 0, 0, 1, 1, 2, 2, 2, 2, 2, 2]
    session = Session(None, 11, seed=0, set_size=4, groups=groups, holdout=0.0, repeats=0.0)
    questions = asked(session, 100, people=1)
    pairs = {pair for _, question in questions for pair in question.pairs}
    assert pairs == {(i, j) for i, j in combinations(range(11), 2) if groups[i] == groups[j]}
    assert {len(q.items) for _, q in questions if groups[q.left] == 1} == {2}
    assert max(len(q.items) for _, q in questions if groups[q.left] == 0) == 3


def test_given_pairs_are_the_only_ones():
    among = [*combinations(range(6), 2), (6, 7), (7, 8)]
    session = Session(None, 9, seed=0, set_size=4, among=among)
    for _, question in asked(session, 12):
        assert {*question.pairs} <= {*among}
        if 7 in question.items:
            assert len(question.items) == 2


def test_an_undo_takes_all_of_an_answer_back_and_the_question_comes_again():
    session = Session(None, 15, seed=4, set_size=4, holdout=0.0, repeats=0.0)
    asked(session, 6, people=1)
    before = session._history
    seen, usable, n_votes = before.seen(), before.seen(holdout=False), session.n_votes
    n_pairs, components = before.n_asked(), before.all_components()
    votes = before.answers(6)
    (question,) = session.ask("person-0")
    session.tell(answered(question, "person-0"))
    assert session.answered("person-0") == 7
    assert session.n_votes == n_votes + 1
    assert [session._history.seen()[item] for item in question.items] == [
        seen[item] + 1 for item in question.items
    ]
    session.undo("person-0")
    history = session._history
    np.testing.assert_array_equal(history.seen(), seen)
    np.testing.assert_array_equal(history.seen(holdout=False), usable)
    assert history.n_asked() == n_pairs
    assert (session.n_votes, session.answered("person-0")) == (n_votes, 6)
    parts = history.all_components()
    assert len(np.unique(np.stack((parts, components)), axis=1).T) == len(np.unique(components))
    after = history.answers(8)
    for name in Answers.__dataclass_fields__:
        np.testing.assert_array_equal(getattr(after, name), getattr(votes, name))
    assert session.ask("person-0") == [question]


def test_a_replay_gives_the_same_session():
    first = Session(None, 15, seed=5, set_size=4)
    asked(first, 30)
    second = Session(None, 15, seed=5, set_size=4)
    second.replay(first.judgements())
    np.testing.assert_allclose(second.ranking().score, first.ranking().score, atol=1e-6)
    assert second.n_votes == first.n_votes


def test_a_repeat_shows_each_item_in_another_place():
    session = Session(None, 30, seed=6, set_size=4, repeats=0.5, holdout=0.0)
    questions = asked(session, 40, people=1)
    repeats = [q for _, q in questions if q.strategy == "repeat" and len(q.items) > 2]
    assert repeats
    for repeat in repeats:
        earlier = next(q for _, q in questions if {*q.items} == {*repeat.items})
        assert all(a != b for a, b in zip(earlier.items, repeat.items, strict=True))


def test_a_set_is_repeated_by_others_until_the_overlap_is_reached():
    study = study_of([Decision("overlap", amount=2)])
    session = Session(None, 15, seed=7, set_size=4, study=study, holdout=0.0, repeats=0.0)
    questions = asked(session, 20)
    by_items = [tuple(sorted(q.items)) for _, q in questions]
    assert {by_items.count(items) for items in by_items[:-1]} == {2}


def test_a_gold_question_is_a_set_with_the_gold_pair_in_it():
    study = study_of([Decision("gold", item=9, other=2), Decision("gold-rate", amount=1.0)])
    session = Session(None, 12, seed=8, set_size=4, study=study)
    (question,) = session.ask("ana")
    assert question.strategy == "gold"
    assert {2, 9} < {*question.items}
    assert len(question.items) == 4


def test_a_skipped_set_comes_back_when_nothing_else_is_left():
    session = Session(None, 4, seed=9, set_size=4, holdout=0.0, repeats=0.0)
    (question,) = session.ask("ana")
    session.tell(question.answered("ana", "skip"))
    (again,) = session.ask("ana")
    assert (again.strategy, {*again.items}) == ("skipped", {*question.items})


@pytest.mark.parametrize("size", [0, 1, 7])
def test_other_sizes_are_refused(size):
    with pytest.raises(JudgementError, match="it takes 2 to 6"):
        Session(None, 9, set_size=size)
    with pytest.raises(JudgementError, match="it takes 2 to 6"):
        Session(None, 9).ask("ana", set_size=size)


def test_one_session_asks_some_about_pairs_and_others_about_sets():
    session = Session(None, 20, seed=1, set_size=4, holdout=0.0)
    assert len(session.ask("ana")[0].items) == 4
    assert len(session.ask("ben", set_size=2)[0].items) == 2


def test_the_questions_of_a_session_about_pairs_do_not_depend_on_the_option():
    usual, explicit = Session(None, 12, seed=3), Session(None, 12, seed=3, set_size=2)
    assert asked(usual, 25) == asked(explicit, 25)


def test_fours_say_more_than_pairs_and_remaining_counts_answers():
    quality = {}
    for size in (2, 4):
        session = Session(None, 25, seed=2, set_size=size)
        asked(session, 40)
        score = session.ranking().score
        quality[size] = np.corrcoef(np.argsort(np.argsort(score)), np.arange(25))[0, 1]
        assert session.remaining().questions is not None
    assert quality[4] > quality[2] + 0.05


def test_reports_count_an_answer_about_a_set_once_and_gold_pairs_in_it():
    study = study_of([Decision("gold", item=9, other=2), Decision("gold", item=1, other=8)])
    session = Session(None, 12, seed=8, set_size=4, study=study, holdout=0.0, repeats=0.0)
    right = Judgement.of("ana", (9, 3, 2, 5), "best", best=9, worst=3)
    wrong = Judgement.of("ana", (8, 1, 0, 7), "best", best=8, worst=0)
    unsaid = Judgement.of("ana", (4, 9, 2, 6), "best", best=4, worst=6)
    alike = Judgement.of("ben", (4, 9, 1, 6), "same")
    session.replay([right, wrong, unsaid, alike])
    session.refit()
    ana, ben = session.reports(["ana", "ben"])
    assert (ana.answers, ben.answers) == (3, 1)
    assert (ana.gold_answers, ana.gold.value) == (2, 0.5)
    assert ben.gold_answers == 0
    assert ana.verdict == "too few answers"
    votes, weight = session.weighted()
    assert len(votes) == 5 + 5 + 5 + 6
    assert {*weight} == {"ana", "ben"}


def test_an_excluded_annotator_is_measured_by_answers_about_sets():
    session = Session(None, 15, seed=1, set_size=4, holdout=0.0, repeats=0.0)
    asked(session, 60)
    rng = np.random.default_rng(0)
    events = [*session.judgements()]
    for _ in range(60):
        items = tuple(rng.permutation(15)[:4].tolist())
        number = len(events) + 1
        events.append(Judgement("eve", items, "best", min(items), max(items), number=number))
    (report,) = session.reports(["eve"], judgements=events)
    assert report.reliability is not None
    assert report.reliability.high < 0


@given(st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_counts_after_undos_are_those_of_the_answers_that_are_left(seed):
    rng = np.random.default_rng(seed)
    history, kept = History(9), []
    for number in range(1, 25):
        name = f"person-{rng.integers(2)}"
        last = history.last(name)
        if last is not None and rng.random() < 0.3:
            event = replace(last.undo(), number=number)
            kept = [judgement for judgement in kept if judgement.number != last.number]
        else:
            items = rng.permutation(9)[: rng.integers(2, 6)].tolist()
            question = Question(tuple(items), "informative", 1.0, 0)
            event = replace(answered(question, name), number=number)
            if rng.random() < 0.2:
                event = question.answered(name, "skip", number=number)
            kept.append(event)
        history.add(Judgements.of([event]))
    fresh = History(9)
    fresh.add(Judgements.of(kept))
    np.testing.assert_array_equal(history.seen(), fresh.seen())
    assert (history.n_votes, history.n_asked()) == (fresh.n_votes, fresh.n_asked())
    for name in ("person-0", "person-1"):
        for pair in combinations(range(9), 2):
            assert history.has_compared(name, *pair) == fresh.has_compared(name, *pair)
        assert history.answered(name) == fresh.answered(name)
        found = [judgement.items for judgement in history.skipped(name)]
        assert found == [judgement.items for judgement in fresh.skipped(name)]
    joined = np.unique(np.stack((history.all_components(), fresh.all_components())), axis=1)
    assert joined.shape[1] == len(np.unique(fresh.all_components()))
    votes = history.comparisons()
    expected = fresh.comparisons()
    np.testing.assert_array_equal(votes.left, expected.left)
    np.testing.assert_array_equal(votes.target, expected.target)


@pytest.mark.parametrize("seed", range(3))
def test_all_questions_of_a_session_have_one_size_but_in_a_smaller_group(seed: int) -> None:
    """Hold-out, repeats, overlap, gold, skipped and informative questions, up to the last."""
    groups = ["a"] * 24 + ["b"] * 3 + ["c"] * 2
    gold = [Decision("gold", item=k, other=k + 1) for k in range(5, 12)]
    study = study_of([*gold, Decision("gold-rate", amount=0.2), Decision("overlap", amount=2)])
    session = Session(
        None, 29, seed=seed, set_size=4, groups=groups, holdout=0.3, repeats=0.2, study=study
    )
    rng = np.random.default_rng(seed)
    strategies = set()
    # Answers about pairs, from before the size was changed, are neither repeated nor completed.
    for number in range(3):
        session.tell(Judgement.of("cy", (number, number + 1), "left"))
    for number in range(90):
        annotator = "abc"[number % 2]
        questions = session.ask(annotator)
        if not questions:
            continue
        (question,) = questions
        strategies.add(question.strategy)
        group = groups[question.left]
        assert len(question.items) == min(4, groups.count(group)), question
        if rng.random() < 0.1:
            session.tell(question.answered(annotator, "skip"))
        elif len(question.items) > 2:
            ordered = sorted(question.items)
            places = [question.items.index(item) for item in (ordered[-1], ordered[0])]
            session.tell(question.answered_by_place(annotator, *places))
        else:
            session.tell(
                question.answered(annotator, "left" if question.left > question.right else "right")
            )
    assert {"random", "repeat", "overlap", "gold"} <= strategies


def test_the_hold_out_of_a_session_of_fours_checks_the_model() -> None:
    session = Session(None, 20, seed=1, set_size=4, holdout=0.5, repeats=0.0)
    n_holdout = 0
    while n_holdout < 12:
        (question,) = session.ask("ana")
        best = max(range(4), key=question.items.__getitem__)
        worst = min(range(4), key=question.items.__getitem__)
        session.tell(question.answered_by_place("ana", best, worst))
        n_holdout += question.strategy == "random"
    remaining = session.remaining()
    assert remaining.check.n == 12
    assert 0.25 < remaining.check.right <= 1 and 0.25 < remaining.check.expected < 1


def test_the_predicted_best_of_a_set_is_as_often_named_as_it_is_expected() -> None:
    """Answers are drawn by utilities with normal noise, of scores drawn from the prior."""
    rng = np.random.default_rng(5)
    session = Session(None, 40, seed=5, set_size=4, holdout=0.0, repeats=0.0)
    scores = rng.normal(size=40)

    def answer(question: Question) -> Judgement:
        utilities = scores[[*question.items]] + rng.normal(size=4) / np.sqrt(2)
        best, *_, worst = np.argsort(-utilities).tolist()
        return question.answered_by_place("ana", best, worst)

    for _ in range(120):
        (question,) = session.ask("ana")
        session.tell(answer(question))
    session.refit()
    sets = [rng.permutation(40)[:4].tolist() for _ in range(1500)]
    asked = [Question((i, j, k, m), "random", 1.0) for i, j, k, m in sets]
    table = Judgements.of([answer(question) for question in asked])
    answers = Answers.of_table(table, np.arange(len(table)))
    answers = answers.where(answers.direction > 0)
    of_place = _p_of_best(session.posterior, answers)
    p, is_right = of_place.max(axis=1), of_place.argmax(axis=1) == answers.share.argmax(axis=1)
    standard_error = float(np.sqrt(np.mean(p * (1 - p)) / len(p)))
    assert abs(p.mean() - is_right.mean()) < 0.05 + 2 * standard_error
    assert is_right.mean() > 0.5


def test_a_group_of_the_size_of_a_question_is_not_asked_about_again_and_again():
    session = Session(None, 8, groups="aaaabbbb", set_size=4, repeats=0, holdout=0)
    asked = []
    while questions := session.ask("model"):
        (question,) = questions
        asked.append(frozenset(question.items))
        places = sorted(range(len(question.items)), key=lambda place: -question.items[place])
        worst = places[-1] if len(places) > 2 else None
        session.tell(question.answered_by_place("model", places[0], worst))
    assert {frozenset({0, 1, 2, 3}), frozenset({4, 5, 6, 7})} <= {*asked}
    # The two items of each group that were neither best nor worst are then a pair.
    assert sorted(map(len, asked)) == [2, 2, 4, 4]
    order = session.ranking().order.tolist()
    assert [item for item in order if item < 4] == [3, 2, 1, 0]


def test_an_open_question_about_a_set_is_expected_once_when_it_is_answered(monkeypatch):
    expected = []
    expect_answer = Beliefs.expect_answer

    def noted(beliefs, items):
        expected.append(tuple(items))
        expect_answer(beliefs, items)

    monkeypatch.setattr(Beliefs, "expect_answer", noted)
    session = Session(None, 30, set_size=4, holdout=0, repeats=0)
    (question,) = session.ask("ana")
    session.ask("ben", busy=question.pairs, wait=False)
    n_open = len(expected)
    session.tell(question.answered_by_place("ana", 0, 3))
    session.ask("ben", wait=False)
    assert n_open > 0 and expected[n_open:] == []
