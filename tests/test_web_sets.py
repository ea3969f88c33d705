"""Questions about more than two items on the page, by HTTP."""

from __future__ import annotations

import pytest
from collection_helpers import made_items, sets_of
from web_helpers import served

from store import open_store

N = 12


@pytest.fixture
def collection(tmp_path):
    with open_store(tmp_path / "s.db") as store:
        yield sets_of(store, made_items(N, d=1))


@pytest.fixture
def site(collection):
    with served(collection) as made:
        yield made


def first(site, link: str):
    return site.client.post(f"{link}/next").json()["pairs"][0]


def test_a_question_has_its_items_and_an_answer_names_their_places(site, collection):
    ana = site.link("ana")
    texts = site.pages.items.texts
    asked = first(site, ana)
    assert set(asked) == {"lease", "criterion", "question", "items", "worst", "context"}
    assert asked["worst"] is True
    body = {"lease": asked["lease"], "answer": "best", "best": 3, "worst": 1}
    more = {"milliseconds": 1500, "comment": "so"}
    for _ in range(2):  # the reply to the first was lost
        reply = site.client.post(f"{ana}/answer", {**body, **more}).json()
        assert reply["answered"] == 1 and "counted" not in reply
    for answer in ("same", "skip", "cant-say"):
        lease = first(site, ana)["lease"]
        reply = site.client.post(f"{ana}/answer", {"lease": lease, "answer": answer}).json()
    assert reply["answered"] == 2
    stored, *others = collection.judgements()
    assert [texts[item] for item in stored.items] == [item["text"] for item in asked["items"]]
    assert (stored.best, stored.worst) == (stored.items[3], stored.items[1])
    assert (stored.milliseconds, stored.comment) == (1500, "so")
    assert [one.word for one in others] == ["same", "skip", "cant-say"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"answer": "best"},
        {"answer": "best", "best": 0},
        {"answer": "best", "best": 1, "worst": 1},
        {"answer": "best", "best": 4, "worst": 1},
        {"answer": "best", "best": 2**60, "worst": 1},
        {"answer": "best", "best": -1, "worst": 1},
        {"answer": "best", "best": True, "worst": 0},
        {"answer": "best", "best": 0, "worst": [1]},
        {"answer": "same", "worst": 1},
        {"answer": "left"},
        {"answer": "undo"},
    ],
)
def test_a_wrong_answer_is_refused_in_one_line_and_nothing_is_stored(site, collection, wrong):
    ana = site.link("ana")
    asked = first(site, ana)
    reply = site.client.post(f"{ana}/answer", {"lease": asked["lease"], **wrong})
    assert 400 <= reply.status < 500
    assert reply.json()["error"].strip() and "\n" not in reply.json()["error"]
    assert [*collection.judgements()] == []
    assert first(site, ana) == asked
