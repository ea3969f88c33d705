"""Decisions about a study: the same in SQLite and PostgreSQL, and undone by their opposites."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from collection_helpers import ON_SQLITE, Clock, made_items, question, set_question
from hypothesis import assume, given
from hypothesis import strategies as st

from sortnet.errors import LeaseError, StudyError
from sortnet.preference import Judgement
from sortnet.preference.study import KINDS, Decision, study_of
from store import Collection, Store
from store.collections.judgement_files import export_judgements


@pytest.fixture
def collection(store: Store) -> Collection:
    store.add_items("args", made_items(6))
    made = store.collection("args", clock=Clock())
    for name in ("ana", "eve"):
        made.annotator(name)
    return made


def test_decisions_come_back_whole_with_numbers_from_one(collection: Collection) -> None:
    made = [
        Decision("exclude", "eve", reason="coin tosses"),
        Decision("gold", item=3, other=1),
        Decision("quota", "ana", amount=80),
        Decision("gold-rate", amount=0.2),
        Decision("pause"),
    ]
    stored = collection.decide(*made)
    assert stored == [replace(d, number=k, at=1000.0) for k, d in enumerate(made, start=1)]
    assert collection.decisions() == stored and collection.decisions(after=4) == stored[4:]
    study = collection.study()
    assert study.excluded["eve"].reason == "coin tosses"
    assert (study.gold[1, 3].item, study.quotas, study.gold_rate) == (3, {"ana": 80}, 0.2)
    assert [study.state(name) for name in ("ana", "eve")] == ["paused", "excluded"]


@ON_SQLITE
def test_a_decision_that_changes_nothing_is_refused_with_all_others(
    collection: Collection,
) -> None:
    for decisions, fault in (
        ([Decision("include", "eve")], "annotator 'eve' is not excluded"),
        ([Decision("exclude", "eve")] * 2, "annotator 'eve' is excluded already"),
        ([Decision("resume")], "the collection is not paused"),
        ([Decision("restore", item=2)], "item 'i2' is not retired"),
        ([Decision("retire", item=6)], "no item 6: there are 6"),
        ([Decision("gold", item=1, other=2), Decision("gold", item=2, other=1)], "'i2' and 'i1'"),
        ([Decision("no-gold", item=1, other=2)], "'i1' and 'i2' is not a gold pair"),
        ([Decision("retire", item=k) for k in range(5)], "two items must stay"),
    ):
        with pytest.raises(StudyError, match=fault):
            collection.decide(Decision("pause", "ana"), *decisions)
    assert collection.decisions() == []


@pytest.mark.parametrize(
    ("facts", "fault"),
    [
        ({"kind": "hide", "annotator": "eve"}, "unknown decision 'hide'; known are exclude,"),
        ({"kind": "exclude"}, "'exclude' is about annotator, and nothing else"),
        ({"kind": "pause", "item": 1}, "'pause' is about annotator or nothing"),
        ({"kind": "gold", "item": 1, "other": 1}, "item 1 cannot be compared with itself"),
        ({"kind": "overlap", "amount": 0}, "overlap 0 is not from 1"),
        ({"kind": "gold-rate", "amount": float("nan")}, "gold-rate nan is not from 0 to 1"),
    ],
)
def test_a_decision_about_nothing_or_out_of_range_cannot_be_made(facts, fault) -> None:
    with pytest.raises(StudyError, match=fault):
        Decision(**facts)


@ON_SQLITE
def test_judgements_of_the_excluded_stay_and_are_marked(collection: Collection) -> None:
    collection.append([Judgement.of("ana", (0, 1), "left"), Judgement.of("eve", (2, 3), "left")])
    collection.decide(Decision("exclude", "eve"))
    assert collection.judgements_frame()["excluded"].tolist() == [False, True]
    assert [j.annotator for j in collection.counted_judgements()] == ["ana"]
    for form, n_lines in (("csv", 3), ("chosen", 1)):
        text = io.StringIO(newline="")
        export_judgements(collection, text, form)
        assert len(text.getvalue().splitlines()) == n_lines


@ON_SQLITE
@pytest.mark.parametrize(("kind", "who"), [("exclude", "eve"), ("pause", "eve"), ("pause", None)])
def test_questions_of_those_who_are_out_are_taken_back(
    collection: Collection, kind: str, who: str | None
) -> None:
    (lease,) = collection.lease("eve", [question(0, 1)], 60)
    kept = collection.lease("ana", [question(2, 3)], 60)
    collection.decide(Decision(kind, who))
    with pytest.raises(LeaseError, match="taken back"):
        collection.answer(lease.id, lease.question.answered("eve", "left"))
    assert collection.lease("eve", [question(4, 5)], 60) == []
    assert collection.leases() == (kept if who else [])
    collection.decide(Decision(UNDONE_BY[kind], who))
    assert len(collection.lease("eve", [question(4, 5)], 60)) == 1


def test_questions_about_a_retired_item_are_taken_back(collection: Collection) -> None:
    asked = [question(0, 3), question(2, 1), set_question(0, 4, 5), set_question(1, 3, 5)]
    collection.lease("ana", asked, 60)
    collection.decide(Decision("retire", item=3))
    assert [lease.question.items for lease in collection.leases()] == [(2, 1), (0, 4, 5)]


UNDONE_BY = {
    **{"exclude": "include", "pause": "resume", "revoke": "renew"},
    **{"retire": "restore", "gold": "no-gold"},
}
DECISIONS = st.one_of(
    st.builds(Decision, st.sampled_from(["exclude", "pause", "revoke"]), st.just("eve")),
    st.builds(Decision, st.just("pause")),
    st.builds(Decision, st.just("retire"), item=st.integers(0, 3)),
    st.builds(Decision, st.just("gold"), item=st.integers(0, 3), other=st.integers(4, 6)),
)


@given(st.lists(st.tuples(DECISIONS, st.booleans())), DECISIONS)
def test_a_decision_and_its_opposite_leave_the_state_as_it_was(before, decision) -> None:
    earlier = [replace(d, kind=UNDONE_BY[d.kind]) if undone else d for d, undone in before]
    study = study_of(earlier)
    assume(decision.subject not in getattr(study, KINDS[decision.kind].field))
    assert study_of([*earlier, decision]) != study
    assert study_of([*earlier, decision, replace(decision, kind=UNDONE_BY[decision.kind])]) == study
