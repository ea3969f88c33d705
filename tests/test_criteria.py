"""Criteria of a collection: judgements and rankings of their own about the same items."""

from __future__ import annotations

from typing import Any

import pytest
from collection_helpers import Clock, made_items

from cli.web.pages import Pages
from sortnet.errors import StoreError
from sortnet.preference import Judgement
from sortnet.preference.study import Decision
from store import Collection, Store
from store.service.labelling import LabellingService


@pytest.fixture
def replies(store: Store) -> Collection:
    """A collection with the criteria `helpful` and `honest`."""
    store.add_items("replies", made_items(6), seed=5, settings={"holdout": 0.2, "repeats": 0.0})
    collection = store.collection("replies", clock=Clock())
    collection.add_criterion("helpful")
    collection.add_criterion("honest")
    return collection


def answer(pages: Pages, asked: dict[str, Any]) -> None:
    service = pages.state_of(asked["criterion"]).service
    judgement = service.collection.question(asked["lease"]).answered("ana", "left")
    pages.answer(asked["criterion"], asked["lease"], judgement)


def test_criteria_share_items_and_settings_and_nothing_else(replies: Collection) -> None:
    helpful, honest = replies.asked()
    assert [helpful.name, honest.name] == ["replies:helpful", "replies:honest"]
    assert [replies.criterion, helpful.criterion] == [None, "helpful"]
    assert helpful.items().ids == replies.items().ids
    assert helpful.settings["holdout"] == 0.2
    helpful.append([Judgement.of("ana", (0, 1), "left")])
    assert len(helpful.judgements()) == 1 and honest.judgements() == []
    frame = helpful.judgements_frame()
    assert frame["items"][0] == ["i0", "i1"]


def test_items_of_the_collection_reach_its_criteria(store: Store, replies: Collection) -> None:
    (helpful, _) = services = [LabellingService(each) for each in replies.asked()]
    store.add_items("replies", made_items(2, first=6))
    assert [service.sync() for service in services] == [0, 0]
    assert helpful.session.n_items == 8
    frame = store.collections_frame()
    assert list(frame["items"]) == [8, 8, 8] and list(frame["features"]) == [2, 2, 2]


@pytest.mark.parametrize(
    ("name", "of", "fault"),
    [
        ("helpful", "replies", "has the criterion 'helpful' already"),
        ("a:b", "replies", "has no colon"),
        (" ", "replies", "name"),
        ("clear", "replies:helpful", "is a criterion, which has no criteria"),
    ],
)
def test_a_criterion_that_cannot_be(
    store: Store, replies: Collection, name: str, of: str, fault: str
) -> None:
    with pytest.raises(StoreError, match=fault):
        store.collection(of).add_criterion(name)


def test_judgements_about_the_collections_own_question_come_before_no_criteria(
    store: Store,
) -> None:
    judged = store.add_items("judged", made_items(3))
    judged.append([Judgement.of("ana", (0, 1), "left")])
    with pytest.raises(StoreError, match="has judgements about its own question already"):
        judged.add_criterion("helpful")


def test_one_question_must_be_meant_where_there_are_criteria(
    store: Store, replies: Collection
) -> None:
    both = "give one of replies:helpful, replies:honest"
    with pytest.raises(StoreError, match=both):
        replies.append([Judgement.of("ana", (0, 1), "left")])
    with pytest.raises(StoreError, match=both):
        LabellingService(replies)
    with pytest.raises(StoreError, match=r"has no criterion 'helpfull'; criteria: replies:helpful"):
        store.collection("replies:helpfull")
    with pytest.raises(StoreError, match="a name has no colon"):
        store.add_items("replies:helpful", made_items(2, first=6))


def test_a_collection_is_removed_with_its_criteria_and_a_criterion_alone(
    store: Store, replies: Collection
) -> None:
    helpful, honest = replies.asked()
    helpful.append([Judgement.of("ana", (0, 1), "left")])
    honest.remove()
    assert [each.name for each in replies.asked()] == ["replies:helpful"]
    replies.remove()
    assert store.collections_frame().empty


def test_in_turn_a_criterion_is_asked_until_it_has_no_more_questions(replies: Collection) -> None:
    pages = Pages(replies, lease_seconds=60)
    seen = []
    while asked := pages.next("ana")["pairs"]:
        criterion = asked[0]["criterion"]
        assert {question["criterion"] for question in asked} == {criterion}
        seen.append(criterion)
        answer(pages, asked[0])
    assert seen == ["helpful"] * 15 + ["honest"] * 15  # all pairs of 6 items
    assert pages.next("ana")["answered"] == 30


def test_an_annotator_excluded_from_one_criterion_is_asked_by_the_other(
    replies: Collection,
) -> None:
    for each in replies.asked():
        each.annotator("ana")
    replies.asked()[0].decide(Decision("exclude", "ana"))
    asked = Pages(replies).next("ana")["pairs"]
    assert {question["criterion"] for question in asked} == {"honest"}
