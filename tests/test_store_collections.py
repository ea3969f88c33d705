"""Collections: items, annotators and judgements, the same in SQLite and PostgreSQL."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from collection_helpers import ON_SQLITE, Clock, made_items, question, set_question
from sqlalchemy import text

from sortnet.errors import JudgementError, LeaseError, StoreError
from sortnet.preference import Judgement
from sortnet.preference.study import Decision
from store import Collection, Store


@pytest.fixture
def collection(store: Store) -> Collection:
    store.add_items("args", made_items(6), seed=5, settings={"holdout": 0.2})
    return store.collection("args", clock=Clock())


def said(annotator: str, left: int, right: int, **changes: object) -> Judgement:
    word = changes.pop("answer", "left")
    return Judgement.of(annotator, (left, right), word, **changes)  # type: ignore[arg-type]


def test_items_come_back_as_they_were_given(store: Store, tmp_path: Path) -> None:
    given_items = made_items(
        3,
        texts=("a\nb", None, "<script>"),
        images=(None, "b.png", None),
        audio=(None, None, "c.wav"),
        features=np.array([[np.nan, 1], [1e-40, -0.0], [3e38, np.inf]], np.float32),
        root=tmp_path,
    )
    found = store.add_items("things", given_items).items()
    for name in ("ids", "texts", "images", "audio", "feature_names", "root", "source"):
        assert getattr(found, name) == getattr(given_items, name)
    assert found.features.dtype == np.float32
    assert found.features.tobytes() == given_items.features.tobytes()


def test_an_update_replaces_items_where_they_stand_and_adds_the_others(
    store: Store,
    collection: Collection,
) -> None:
    before, change = collection.items(), made_items(3, first=5)
    with pytest.raises(StoreError, match=r"'args': made\.csv: an item 'i5' is there already"):
        store.add_items(collection.name, change)
    assert collection.items().ids == before.ids
    same = before.take([5, 2])
    assert store.add_items("args", same).items().ids == before.ids
    store.add_items("args", change, update=True)
    after = collection.items()
    assert after.ids == (*before.ids, "i6", "i7")
    assert np.array_equal(after.features, np.vstack([before.features[:5], change.features]))


@ON_SQLITE
def test_an_id_twice_is_refused_and_makes_no_collection(store: Store) -> None:
    with pytest.raises(StoreError, match=r"made\.csv: two items are named 'a'"):
        store.add_items("twice", made_items(2, ids=("a", "a")))
    assert store.collections_frame().empty


@ON_SQLITE
def test_other_features_than_before_are_refused_unless_all_items_are_replaced(
    store: Store,
    collection: Collection,
) -> None:
    with pytest.raises(StoreError, match=r"'args': .*: there is no feature 'f1', as the others"):
        store.add_items(collection.name, made_items(5, d=1), update=True)
    store.add_items("args", made_items(6, d=1), update=True)
    assert collection.items().features.shape == (6, 1)


@ON_SQLITE
def test_what_nobody_can_type_is_no_name(store: Store, collection: Collection) -> None:
    for name in ("", " a", "a\n", "a\x00b", "\ud800", "x" * 201):
        for give in (partial(store.add_items, items=made_items(1)), collection.annotator):
            with pytest.raises(StoreError, match="a name has 1 to 200 printable characters"):
                give(name)


def test_collections_are_listed_with_what_is_in_them(store: Store, collection: Collection) -> None:
    store.add_items("second", made_items(2, d=0))
    collection.append([said("ana", 0, 1), said("bo", 1, 2), said("ana", 2, 3)])
    frame = store.collections_frame()
    columns = ["name", "items", "features", "annotators", "judgements", "seed", "settings"]
    assert frame[columns].to_numpy().tolist() == [
        ["args", 6, 2, 2, 3, 5, {"holdout": 0.2}],
        ["second", 2, 0, 0, 0, 0, {}],
    ]


def test_an_annotator_keeps_name_and_token(store: Store, collection: Collection) -> None:
    ana, bo = collection.annotator("ana"), collection.annotator("bo")
    assert ana.token != bo.token and len(ana.token) >= 20
    assert collection.annotator("ana") == ana
    assert collection.annotators() == [ana, bo]
    assert ana.created <= datetime.now(UTC)
    assert store.add_items("other", made_items(2)).annotator("ana").token != ana.token


@ON_SQLITE
def test_only_an_annotator_who_said_nothing_is_forgotten(store: Store) -> None:
    collection = store.add_items("args", made_items(6))
    helpful = collection.add_criterion("helpful")
    for who in ("ana", "bo", "cy", "di"):
        collection.annotator(who)
    helpful.append([said("ana", 0, 1)])
    collection.decide(Decision("pause", "bo"))
    helpful.lease("cy", [question(0, 1)], 60)
    helpful.lease("di", [question(2, 1)], 60)
    helpful.release("di")
    for who in ("ana", "bo", "cy", "di", "eve"):
        collection.forget(who)
    for each in (collection, helpful):
        assert [annotator.name for annotator in each.annotators()] == ["ana", "bo", "cy"]


@ON_SQLITE
@pytest.mark.parametrize(
    ("who", "number", "fault"),
    [
        ("ana", 9, "judgement 9, which is not there"),
        ("ana", 0, "judgement 0, which is not there"),
        ("bo", 1, "judgement 1 is not 'bo''s"),
        ("ana", 2, "judgement 2 is undone already"),
        ("ana", 3, "judgement 3 is an undo"),
    ],
)
def test_what_cannot_be_undone_is_refused_and_leaves_no_trace(
    collection: Collection, who: str, number: int, fault: str
) -> None:
    collection.append([said("ana", 0, 1), said("ana", 1, 2)])
    collection.undo("ana", 2)
    with pytest.raises(JudgementError, match=fault):
        collection.undo(who, number)
    assert len(collection.judgements()) == 3
    assert [a.name for a in collection.annotators()] == ["ana"]


@ON_SQLITE
def test_one_item_that_is_not_there_refuses_all_that_is_appended(collection: Collection) -> None:
    with pytest.raises(JudgementError, match="6, numbered from 0"):
        collection.append([said("ana", 0, 1), said("ana", 0, 6)])
    assert collection.judgements() == [] and collection.annotators() == []


def test_the_frame_names_items_and_marks_undone_judgements(store: Store) -> None:
    collection = store.add_items("args", made_items(4, groups=("p", "p", "q", "q")))
    empty = collection.judgements_frame()
    collection.append([said("ana", 3, 2, milliseconds=900, at=1.5), said("bo", 0, 1)])
    collection.undo("ana", 1)
    frame = collection.judgements_frame()
    columns = ["number", "annotator", "items", "answer", "undone", "group"]
    assert frame[columns].to_numpy().tolist() == [
        [1, "ana", ["i3", "i2"], "best", True, "q"],
        [2, "bo", ["i0", "i1"], "best", False, "p"],
        [3, "ana", ["i3", "i2"], "undo", False, "q"],
    ]
    assert frame["at"][0].isoformat() == "1970-01-01T00:00:01.500000+00:00"
    assert empty.empty and empty["at"].dtype == frame["at"].dtype


def test_a_removed_collection_leaves_no_row_and_its_holder_gets_an_error(
    store: Store, collection: Collection
) -> None:
    collection.append([said("ana", 0, 1)])
    collection.lease("ana", [question(0, 1)], 60)
    collection.decide(Decision("exclude", "ana"))
    stale = store.collection("args")
    collection.remove()
    with store.database.transaction() as connection:
        for table in ("items", "annotators", "judgements", "leases", "decisions"):
            assert connection.execute(text(f"SELECT count(*) FROM {table}")).scalar_one() == 0
    store.add_items("args", made_items(2))
    with pytest.raises(StoreError, match="collection 'args' was removed"):
        stale.append([said("ana", 0, 1)])
    assert store.collection("args").judgements() == []


GROUPED = {"groups": ("x", "x", "x", "y", "y", "z"), "contexts": ("X?", "X?", "X?", None, None, "")}


def test_groups_contexts_pairs_and_columns_come_back_as_they_were_given(store: Store) -> None:
    items = made_items(6, **GROUPED)
    columns = {"id": "name", "group": "topic", "features": ["f0", "f1"]}
    pairs = np.array([[0, 2], [3, 4]])
    found = store.add_items("args", items, settings={"holdout": 0.2}, columns=columns, pairs=pairs)
    assert (found.items().groups, found.items().contexts) == (items.groups, items.contexts)
    assert found.settings == {"holdout": 0.2, "columns": columns}
    assert found.allowed_pairs().tolist() == [[0, 2], [3, 4]]
    again = store.add_items("args", items, update=True, pairs=np.array([[0, 1], [0, 2]]))
    assert again.allowed_pairs().tolist() == [[0, 1], [0, 2], [3, 4]]
    assert again.settings == found.settings


def test_new_groups_keep_judged_and_listed_pairs_together(
    store: Store, collection: Collection
) -> None:
    collection.append([Judgement.of("ana", (0, 1, 2), "same")])
    kept = collection.lease("ana", [question(1, 2)], 60)
    (crossing,) = collection.lease("ben", [set_question(2, 3, 4)], 60)
    with pytest.raises(StoreError, match="'i0' and 'i2' are a judged pair, so they stay in one"):
        store.add_items("args", made_items(6, groups=tuple("xxzyyz")), update=True)
    assert collection.items().groups is None
    store.add_items(collection.name, made_items(6, **GROUPED), update=True)
    assert collection.leases() == kept, "the question across groups is withdrawn"
    with pytest.raises(LeaseError, match="was taken back"):
        collection.answer(crossing.id, crossing.question.answered("ben", "same"))
    with pytest.raises(StoreError, match="'i3' and 'i5' are a listed pair, so they stay in one"):
        store.add_items("args", made_items(6, **GROUPED), update=True, pairs=np.array([[3, 5]]))
