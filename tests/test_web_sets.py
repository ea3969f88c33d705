"""Questions about more than two items on the page, by HTTP."""

from __future__ import annotations

import pytest
from collection_helpers import made_items, sets_of
from web_helpers import served

from sortnet.preference.study import Decision
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
    places = [(0, 3), (3, 1), (2, 0)]
    shown = []
    for best, worst in places:
        asked = first(site, ana)
        shown.append([item["text"] for item in asked["items"]])
        assert set(asked) == {"lease", "criterion", "question", "items", "worst", "context"}
        assert asked["worst"] is True
        assert {*asked["items"][0]} == {"text", "html", "image", "audio", "more", "shown"}
        body = {"lease": asked["lease"], "answer": "best", "best": best, "worst": worst}
        reply = site.client.post(f"{ana}/answer", {**body, "milliseconds": 1500, "comment": "so"})
        assert reply.status == 200 and "counted" not in reply.json()
        again = site.client.post(f"{ana}/answer", body)
        assert again.json()["answered"] == len(shown)
    stored = [*collection.judgements()]
    assert [[texts[item] for item in judgement.items] for judgement in stored] == shown
    chosen = [
        (judgement.items.index(judgement.best), judgement.items.index(judgement.worst))
        for judgement in stored
    ]
    assert chosen == places
    assert {(judgement.milliseconds, judgement.comment) for judgement in stored} == {(1500, "so")}


def test_an_answer_without_the_worst_is_refused_where_the_worst_is_asked(site, collection):
    ana = site.link("ana")
    body = {"lease": first(site, ana)["lease"], "answer": "best", "best": 0}
    reply = site.client.post(f"{ana}/answer", body)
    assert reply.status == 422
    assert "names the best item and not the worst" in reply.json()["error"]
    assert len(collection.judgements()) == 0


@pytest.mark.parametrize("answer", ["same", "skip", "cant-say"])
def test_an_answer_of_one_word_is_about_the_whole_set(site, collection, answer):
    ana = site.link("ana")
    asked = first(site, ana)
    reply = site.client.post(f"{ana}/answer", {"lease": asked["lease"], "answer": answer})
    assert reply.json()["answered"] == (answer == "same")
    (judgement,) = collection.judgements()
    assert (judgement.word, judgement.best, len(judgement.items)) == (answer, None, 4)


@pytest.mark.parametrize(
    "wrong",
    [
        {"answer": "best"},
        {"answer": "best", "worst": 1},
        {"answer": "best", "best": 1, "worst": 1},
        {"answer": "best", "best": 4, "worst": 1},
        {"answer": "best", "best": 0, "worst": 4},
        {"answer": "best", "best": 2**60, "worst": 1},
        {"answer": "best", "best": -1, "worst": 1},
        {"answer": "best", "best": True, "worst": 0},
        {"answer": "best", "best": "0", "worst": 1},
        {"answer": "best", "best": 0, "worst": [1]},
        {"answer": "same", "worst": 1},
        {"answer": "skip", "best": 1, "worst": 2},
        {"answer": "left"},
        {"answer": "tie"},
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


def test_media_of_every_item_may_be_read_by_who_is_asked_and_by_nobody_else(tmp_path):
    texts = tuple("x" * 60_000 + str(k) for k in range(N))
    with open_store(tmp_path / "s.db") as store:
        collection = sets_of(store, made_items(N, d=1, texts=texts))
        with served(collection) as site:
            ana, ben = site.link("ana"), site.link("ben")
            for item in first(site, ana)["items"]:
                assert site.client.get(f"{ana}{item['more']}").status == 200
                assert site.client.get(f"{ben}{item['more']}").status == 404


def test_the_admin_page_says_what_pairs_and_sets_took_and_bought(site, collection):
    ana = site.link("ana")
    for seconds in (4, 6, 8):
        asked = first(site, ana)
        body = {"lease": asked["lease"], "answer": "best", "best": 0, "worst": 1}
        more = {"milliseconds": 1000 * seconds, "comment": "see", "flagged": True}
        assert site.client.post(f"{ana}/answer", {**body, **more}).status == 200
    collection.decide(Decision("set-size", amount=2))
    while "items" in (asked := first(site, ana)):  # leased before
        site.client.post(f"{ana}/answer", {"lease": asked["lease"], "answer": "skip"})
    body = {"lease": asked["lease"], "answer": "left", "milliseconds": 2000}
    assert site.client.post(f"{ana}/answer", body).status == 200
    state = site.client.get(f"{site.admin}/state").json()
    names = ("items", "answers", "comparisons", "seconds")
    sizes = [tuple(size[name] for name in names) for size in state["sizes"]]
    assert sizes == [(2, 1, 1, 2.0), (4, 3, 15, 6.0)]
    comments = state["comments"]["newest"]
    assert [item["choice"] for item in comments[0]["items"]] == ["best", "worst", "", ""]
    tables = site.client.get(f"{site.admin}/tables").json()["html"]
    assert "the best of 4" in tables and "<td>15</td><td>6.0</td>" in tables
