"""The admin page over HTTP: what it shows and decides, and what annotators see then."""

from __future__ import annotations

import csv
import io
import time
from urllib.parse import quote

import pytest
from collection_helpers import Clock, made_items
from web_helpers import served

from sortnet.preference import Judgement
from sortnet.preference.stopping import Goal
from sortnet.preference.study import LONGEST, QUESTION, Decision
from store import open_store

SCRIPT = "<script>document.title = 'taken'</script>"


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "s.db") as opened:
        yield opened


@pytest.fixture
def collection(store):
    store.add_items("essays", made_items(12, d=1))
    return store.collection("essays", clock=Clock(time.time()))


@pytest.fixture
def site(collection):
    with served(collection) as made:
        made.link("ana")
        made.link("eve")
        yield made


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """A site of 120 items that no test changes; its texts go against the order of its ids."""
    texts = tuple(f"text {999 - k}" for k in range(120))
    with (
        open_store(tmp_path_factory.mktemp("many") / "s.db") as opened,
        served(opened.add_items("many", made_items(120, texts=texts))) as made,
    ):
        made.pages.services[0].settle()
        yield made


def state(site, **asked):
    query = "&".join(f"{name}={quote(str(value))}" for name, value in asked.items())
    return site.client.get(f"{site.admin}/state?{query}").json()


def append(collection, *said: tuple) -> None:
    """Store answers: (annotator, left, right, answer) and further fields by name."""
    facts = [(row[:4], row[4] if len(row) > 4 else {}) for row in said]
    collection.append(
        [Judgement.of(who, (left, right), word, **more) for (who, left, right, word), more in facts]
    )


def decide(site, kind, **facts):
    return site.client.post(f"{site.admin}/decisions", {"kind": kind, **facts})


def study(site, **asked):
    query = "&".join(f"{name}={value}" for name, value in asked.items())
    return site.client.get(f"{site.admin}/tables?{query}").json()["study"]


def test_what_is_asked_is_changed_while_serving(site):
    long = "é\n" * (LONGEST["instructions"] // 2)
    deadline = 4e9 + 0.5
    for kind, facts in (
        ("question", {"reason": "Which is clearer?"}),
        ("instructions", {"reason": long}),
        ("goal", {"amount": 0.05}),
        ("top", {"amount": 3}),
        ("deadline", {"amount": deadline}),
    ):
        assert decide(site, kind, **facts).status == 201
    expected = {"question": "Which is clearer?", "instructions": long.strip()}
    assert study(site) == expected | {"goal": 0.05, "top": 3, "deadline": deadline}
    service = site.pages.services[0]
    assert service.session.goal == Goal(0.05, top=3)

    for kind, facts in (("question", {"reason": ""}), ("goal", {"amount": 0})):
        assert decide(site, kind, **facts).status == 201
    found = study(site)
    assert (found["question"], found["goal"]) == (QUESTION, 0)


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ({"kind": "question", "reason": "x" * 501}, "'reason' is not a text of 1 to 500"),
        ({"kind": "instructions", "reason": "x" * 50_001}, "1 to 50000 characters"),
        ({"kind": "goal", "amount": "0.1"}, "'amount' is not a number"),
        ({"kind": "goal", "amount": float("nan")}, "'amount' is not a number"),
        ({"kind": "goal"}, "is about amount"),
        ({"kind": "top", "amount": 2.5}, "'amount' is not a whole number"),
        ({"kind": "deadline", "amount": True}, "'amount' is not a number"),
        ({"kind": "pause", "annotator": ""}, "'annotator' is not a text"),
        ({"kind": "pause", "criterion": "clear"}, "no criterion 'clear'"),
        ({}, "'kind' is not a text"),
        ({"kind": "exclude", "annotator": "zoe"}, "there is no annotator 'zoe'"),
        ({"kind": "include", "annotator": "eve"}, "Annotator 'eve' is not excluded"),
        ({"kind": "gold", "item": True, "other": 2}, "'item' is not a whole number"),
    ],
)
def test_a_decision_that_cannot_be_is_refused_in_one_line(site, collection, body, fault):
    reply = site.client.post(f"{site.admin}/decisions", body)
    assert reply.status == 422 and fault in reply.json()["error"]
    assert "\n" not in reply.json()["error"]
    assert collection.decisions() == []


def test_each_criterion_has_a_ranking_and_a_question_of_its_own(store, collection):
    for name in ("clear", "kind"):
        collection.add_criterion(name)
    with served(store.collection("essays")) as site:
        site.link("ana")
        decide(site, "pause", annotator="ana")
        assert decide(site, "question", reason="Which is more clear?").status == 201  # the first
        decide(site, "question", reason="Which is more kind?", criterion="kind")
        decide(site, "gold", item=0, other=1, criterion="kind")
        kind = store.collection("essays:kind")
        append(kind, ("ana", 0, 1, "left"))
        kind.decide(Decision("goal", amount=0.2))  # as a command decides
        site.pages.services[1].sync()
        found = [state(site, criterion=name) for name in ("clear", "kind")]
        facts = [(of["answers"], len(of["gold"]), of["goal"]) for of in found]
        assert facts == [(0, 0, 0.1), (1, 1, 0.2)]
        assert [of["people"][0]["paused"] for of in found] == [True, True]
        assert study(site, criterion="kind")["question"] == "Which is more kind?"
        assert study(site)["question"] == "Which is more clear?"
        reply = site.client.get(f"{site.admin}/judgements.csv?criterion=kind")
        (row,) = csv.DictReader(io.StringIO(reply.body.decode()))
        assert (row["criterion"], row["question"]) == ("kind", "Which is more kind?")


def person(site, name):
    return next(who for who in state(site)["people"] if who["name"] == name)


def test_an_excluded_annotator_reads_how_many_they_have_answered(site, collection):
    eve = site.link("eve")
    for answer in ("left", "skip", "tie"):
        lease = site.client.post(f"{eve}/next").json()["pairs"][0]["lease"]
        site.client.post(f"{eve}/answer", {"lease": lease, "answer": answer})
    for kind in ("exclude", "include", "exclude"):
        assert decide(site, kind, annotator="eve", reason=SCRIPT).status == 201
        assert site.client.post(f"{eve}/next").json()["answered"] == 2
    site.pages.services[0].settle()
    report = person(site, "eve")["report"]
    assert (report["answers"], report["reason"]) == (2, SCRIPT)
    assert site.pages.services[0].session.answered("eve") == 0
    with served(collection) as later:
        assert later.client.post(f"{eve}/next").json()["answered"] == 2


def test_a_revoked_link_is_a_page_that_says_so_and_a_new_one_opens(site, collection):
    old = site.link("eve")
    collection.decide(Decision("revoke", "eve"))  # as a command decides, seen at once
    for path in ("next", "undo"):
        reply = site.client.post(f"{old}/{path}")
        assert reply.status == 403 and "was revoked" in reply.json()["error"]
    page = site.client.get(old, Accept="text/html")
    assert page.status == 403 and "This link was revoked" in page.body.decode()
    site.pages.sync()  # as the server does every second
    assert person(site, "eve")["revoked"]
    decide(site, "renew", annotator="eve")
    new = person(site, "eve")["path"]
    assert new != old and site.client.get(new).status == 200
    assert site.client.get(old).status == 404


def test_only_the_admin_decides_and_only_from_its_own_page(site, collection):
    body = {"kind": "exclude", "annotator": "eve"}
    assert site.client.post(f"{site.link('ana')}/decisions", body).status in (404, 405)
    assert site.client.post("/admin/nobody/decisions", body).status == 404
    foreign = {"Origin": "http://evil.example"}
    assert site.client.post(f"{site.admin}/decisions", body, **foreign).status == 403
    assert site.client.get(f"{site.admin}/decisions").status == 404
    assert collection.decisions() == []
    assert decide(site, "gold", item=3, other=5).status == 201
    assert decide(site, "gold", item=3, other=5).json() == {"number": None}
    reply = site.client.post(f"{site.link('eve')}/next").json()
    assert "strategy" not in reply["pairs"][0]  # which would tell gold pairs


def test_the_whole_ranking_comes_in_pages_sorted_and_searched(many):
    pages = [state(many, page=page) for page in (1, 2, 3)]
    assert [len(page["ranking"]) for page in pages] == [50, 50, 20]
    assert [row["rank"] for page in pages for row in page["ranking"]] == list(range(1, 121))
    assert {(page["found"], page["pages"]) for page in pages} == {(120, 3)}
    beyond = state(many, page=99)
    assert beyond["page"] == 3 and beyond["ranking"] == pages[2]["ranking"]
    found = state(many, find="TEXT 99", page=2)  # 990 to 999
    assert (found["found"], found["page"], found["pages"]) == (10, 1, 1)
    assert {row["id"] for row in state(many, find="I119")["ranking"]} == {"i119"}
    for column in ("rank", "low", "high", "score", "judgements"):
        up, down = (
            [row[column] for row in state(many, sort=order)["ranking"]]
            for order in (column, f"-{column}")
        )
        assert up == sorted(up) and down == sorted(down, reverse=True) and down[0] >= up[-1]
    assert state(many, sort="item")["ranking"][0]["text"] == "text 880"
    assert state(many, sort="-item")["ranking"][0]["text"] == "text 999"


def test_disputes_and_comments_come_without_undone_answers(site, collection):
    append(
        collection,
        ("ana", 0, 1, "left", {"at": 1000, "comment": "<b>both</b> are short"}),
        ("ben", 1, 0, "right"),
        ("eva", 1, 0, "left"),
        *(("ana", 2, 3, "left", {"at": 1010}), ("ben", 3, 2, "right")),  # agreed
        *(("ana", 4, 5, "tie", {"at": 1020}), ("ana", 5, 4, "left", {"at": 5000})),
        ("ana", 6, 7, "skip", {"at": 5010, "flagged": True}),
        ("ben", 6, 7, "left"),  # a skip says nothing
        ("ana", 8, 9, "left", {"at": 5020}),
        ("ben", 8, 9, "right", {"number": 99, "comment": "by mistake"}),
        ("ben", 8, 9, "undo", {"undoes": 99}),
    )
    site.pages.services[0].sync()
    shown = state(site)
    assert shown["disputed"]["found"] == 2
    first, second = shown["disputed"]["pairs"]
    assert [item["id"] for item in first["items"]] == ["i0", "i1"]
    assert first["said"] == [["ana", 1.0], ["ben", 1.0], ["eva", 0.0]]
    assert second["said"] == [["ana", 0.5], ["ana", 0.0]]  # not with herself
    newest, oldest = shown["comments"]["newest"]
    assert (newest["answer"], newest["flagged"], newest["comment"]) == ("skip", True, None)
    assert [item["id"] for item in newest["items"]] == ["i6", "i7"]
    assert oldest["comment"] == "<b>both</b> are short"
    assert person(site, "ana")["last"] == 5020


def test_a_view_that_cannot_be_is_refused_in_one_line(many):
    for query in ("sort=name", "page=x", "page=-1", "page=", f"page={'9' * 5000}", "criterion=x"):
        reply = many.client.get(f"{many.admin}/state?{query}")
        assert reply.status == 422 and "\n" not in reply.json()["error"]
