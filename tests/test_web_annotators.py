"""What the admin page decides about annotators, and what these see then, over HTTP."""

from __future__ import annotations

import time

import pytest
from collections_made import Clock, made_items
from web_made import served

from sortnet.preference.study import Decision
from store import open_store

SCRIPT = "<script>document.title = 'taken'</script>"


@pytest.fixture
def collection(tmp_path):
    with open_store(tmp_path / "s.db") as opened:
        opened.add_items("essays", made_items(12, d=1))
        yield opened.collection("essays", clock=Clock(time.time()))


@pytest.fixture
def site(collection):
    with served(collection) as made:
        made.link("ana")
        made.link("eve")
        yield made


def decide(site, kind, **facts):
    return site.client.post(f"{site.admin}/decisions", {"kind": kind, **facts})


def state(site):
    return site.client.get(f"{site.admin}/state").json()


def person(site, name):
    return next(who for who in state(site)["people"] if who["name"] == name)


@pytest.mark.parametrize(
    ("kind", "undo", "why"),
    [
        ("exclude", "include", "No more questions: eve is excluded, until"),
        ("pause", "resume", "No questions for now: eve is paused, until"),
    ],
)
def test_somebody_who_is_out_gets_one_line_and_their_answer_is_not_counted(
    site, collection, kind, undo, why
):
    eve = site.link("eve")
    (lease, *_) = (pair["lease"] for pair in site.client.post(f"{eve}/next").json()["pairs"])
    assert decide(site, kind, annotator="eve").status == 201
    reply = site.client.post(f"{eve}/answer", {"lease": lease, "answer": "left"})
    assert reply.status == 410 and "taken back" in reply.json()["error"]
    assert reply.json()["pairs"] == [] and reply.json()["why"].startswith(why)
    assert collection.judgements() == []
    assert site.client.get(eve).status == 200
    assert person(site, "eve")["state"] in why
    assert decide(site, undo, annotator="eve").status == 201
    assert len(site.client.post(f"{eve}/next").json()["pairs"]) == 3


def test_a_full_quota_is_said(site):
    decide(site, "quota", annotator="ana", amount=2)
    ana = site.link("ana")
    reply = site.client.post(f"{ana}/next").json()
    assert len(reply["pairs"]) == 2
    for pair in reply["pairs"]:
        body = {"lease": pair["lease"], "answer": "left"}
        reply = site.client.post(f"{ana}/answer", body).json()
    assert reply["pairs"] == [] and not reply["stop"]
    assert reply["why"] == "No more questions: ana has given all 2 answers asked for."
    undone = site.client.post(f"{ana}/undo", {"last": reply["last"]}).json()
    assert undone["undone"] and len(undone["pairs"]) == 1


def test_a_revoked_link_is_a_page_that_says_so_and_a_new_one_opens(site):
    old = site.link("eve")
    decide(site, "revoke", annotator="eve")
    page = site.client.get(old, Accept="text/html")
    assert page.status == 403 and "This link was revoked" in page.body.decode()
    for path in ("next", "answer", "undo"):
        reply = site.client.post(f"{old}/{path}")
        assert reply.status == 403 and "was revoked" in reply.json()["error"]
    assert person(site, "eve")["revoked"]
    decide(site, "renew", annotator="eve")
    new = person(site, "eve")["path"]
    assert new != old and site.client.get(new).status == 200
    assert site.client.get(old).status == 404
    assert site.client.get(site.link("ana")).status == 200


def test_a_link_that_was_revoked_elsewhere_is_refused_at_once(site, collection):
    eve = site.link("eve")
    lease = site.client.post(f"{eve}/next").json()["pairs"][0]["lease"]
    collection.decide(Decision("revoke", "eve"))
    body = {"lease": lease, "answer": "left"}
    assert site.client.post(f"{eve}/answer", body).status == 403
    assert site.client.post(f"{eve}/next").status == 403
    assert collection.judgements() == []


def test_the_admin_chooses_gold_pairs(site, collection):
    assert decide(site, "gold", item=3, other=5).status == 201
    assert decide(site, "gold", item=3, other=5).json() == {"number": None}
    assert state(site)["gold"] == [{"item": 3, "other": 5, "better": "text 3", "worse": "text 5"}]
    assert "is a gold pair already" in decide(site, "gold", item=5, other=3).json()["error"]
    eve = site.link("eve")
    reply = site.client.post(f"{eve}/next").json()
    assert "strategy" not in reply["pairs"][0]
    assert decide(site, "no-gold", item=5, other=3).status == 201
    assert state(site)["gold"] == []


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ({}, "'kind' is not a text"),
        ({"kind": "hide"}, "Unknown decision 'hide'"),
        ({"kind": "exclude"}, "is about annotator"),
        ({"kind": "exclude", "annotator": "zoe"}, "there is no annotator 'zoe'"),
        ({"kind": "exclude", "annotator": ["eve"]}, "'annotator' is not a text"),
        ({"kind": "include", "annotator": "eve"}, "Annotator 'eve' is not excluded"),
        ({"kind": "gold", "item": 1, "other": 99}, "no item 99"),
        ({"kind": "gold", "item": True, "other": 2}, "'item' is not a whole number"),
        ({"kind": "gold", "item": 1, "other": 1}, "cannot be compared with itself"),
        ({"kind": "quota", "annotator": "eve", "amount": -1}, "'amount' is not a whole number"),
        ({"kind": "retire", "item": "x"}, "'item' is not a whole number"),
    ],
)
def test_a_decision_that_cannot_be_is_refused_in_one_line(site, collection, body, fault):
    reply = site.client.post(f"{site.admin}/decisions", body)
    assert reply.status == 422 and fault in reply.json()["error"]
    assert "\n" not in reply.json()["error"]
    assert collection.decisions() == []


def test_only_the_admin_decides_and_only_from_its_own_page(site, collection):
    body = {"kind": "exclude", "annotator": "eve"}
    assert site.client.post(f"{site.link('ana')}/decisions", body).status in (404, 405)
    assert site.client.post("/admin/nobody/decisions", body).status == 404
    foreign = {"Origin": "http://evil.example"}
    assert site.client.post(f"{site.admin}/decisions", body, **foreign).status == 403
    assert site.client.get(f"{site.admin}/decisions").status == 404
    assert collection.decisions() == []


def test_the_table_reports_on_everybody_also_the_excluded(site, collection):
    for name, answer in (("ana", "left"), ("eve", "right")):
        for _ in range(4):
            pair = site.client.post(f"{site.link(name)}/next").json()["pairs"][0]
            body = {"lease": pair["lease"], "answer": answer, "milliseconds": 900}
            site.client.post(f"{site.link(name)}/answer", body)
    decide(site, "exclude", annotator="eve", reason=SCRIPT)
    site.pages.services[0].settle()
    found = {who["name"]: who for who in state(site)["people"]}
    assert {name: who["report"]["answers"] for name, who in found.items()} == {"ana": 4, "eve": 4}
    assert found["eve"]["report"]["reason"] == SCRIPT and found["eve"]["excluded"]
    assert found["ana"]["report"]["reliability"] is None  # nobody else's answers count
    assert found["ana"]["state"] == "active"
    assert site.pages.services[0].session.answered("eve") == 0


def test_decisions_of_a_command_reach_a_running_server(site, collection):
    from sortnet.preference.study import Decision

    eve = site.link("eve")
    assert site.client.post(f"{eve}/next").json()["pairs"]
    collection.decide(Decision("exclude", "eve"))
    reply = site.client.post(f"{eve}/next").json()  # before the background has looked
    assert reply["pairs"] == [] and "eve is excluded" in reply["why"]
