"""A session that asks about sets: which items, what is free, undo, and the counts."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_session import answered

from sortnet.preference.answers import Answers
from sortnet.preference.base import Judgement, Pair, Question
from sortnet.preference.history import History
from sortnet.preference.judgement_table import Judgements
from sortnet.preference.rule import Beliefs
from sortnet.preference.session import Session
from sortnet.preference.stopping import Goal
from sortnet.preference.study import Decision, study_of


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


def test_a_set_is_repeated_by_others_until_the_overlap_is_reached():
    study = study_of([Decision("overlap", amount=2)])
    session = Session(None, 15, seed=7, set_size=4, study=study, holdout=0.0, repeats=0.0)
    questions = asked(session, 20)
    by_items = [tuple(sorted(q.items)) for _, q in questions]
    assert {by_items.count(items) for items in by_items[:-1]} == {2}


def test_one_session_asks_some_about_pairs_and_others_about_sets():
    session = Session(None, 20, seed=1, set_size=4, holdout=0.0)
    assert len(session.ask("ana")[0].items) == 4
    assert len(session.ask("ben", set_size=2)[0].items) == 2


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
    assert history.n_votes == fresh.n_votes
    assert history.n_annotators_of_pairs() == fresh.n_annotators_of_pairs()
    for name in ("person-0", "person-1"):
        for pair in combinations(range(9), 2):
            assert history.has_compared(name, *pair) == fresh.has_compared(name, *pair)
        assert history.answered(name) == fresh.answered(name)
        assert [*history.skipped(name)] == [*fresh.skipped(name)]
    np.testing.assert_array_equal(history.all_components(), fresh.all_components())
    for name in Answers.__dataclass_fields__:
        if name not in ("event", "annotator"):
            votes, expected = history.answers(24), fresh.answers(24)
            np.testing.assert_array_equal(getattr(votes, name), getattr(expected, name))


@pytest.mark.parametrize("seed", range(3))
def test_all_questions_of_a_session_have_one_size_but_in_a_smaller_group(seed: int) -> None:
    """Hold-out, repeats, overlap, gold, skipped and informative questions, up to the last."""
    groups = ["a"] * 24 + ["b"] * 3 + ["c"] * 2
    golds = [Decision("gold", item=k, other=k + 1) for k in range(5, 12)]
    study = study_of([*golds, Decision("gold-rate", amount=0.2), Decision("overlap", amount=2)])
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
        for question in session.ask(annotator):
            strategies.add(question.strategy)
            is_gold = any({gold.item, gold.other} <= {*question.items} for gold in golds)
            assert is_gold or question.strategy != "gold"
            group = groups[question.left]
            assert len(question.items) == min(4, groups.count(group)), question
            is_skipped = rng.random() < 0.1
            skip = question.answered(annotator, "skip")
            session.tell(skip if is_skipped else answered(question, annotator))
    assert {"random", "repeat", "overlap", "gold"} <= strategies


def test_a_group_of_the_size_of_a_question_is_not_asked_about_again_and_again():
    session = Session(None, 8, groups="aaaabbbb", set_size=4, repeats=0, holdout=0)
    questions = [frozenset(question.items) for _, question in asked(session, 20, people=1)]
    assert {frozenset({0, 1, 2, 3}), frozenset({4, 5, 6, 7})} <= {*questions}
    # The two items of each group that were neither best nor worst are then a pair.
    assert sorted(map(len, questions)) == [2, 2, 4, 4]
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
