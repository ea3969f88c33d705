"""Requests with texts that are refused, and a disk that is full."""

from __future__ import annotations

import time

import pytest
from collection_helpers import Clock, made_items
from sqlalchemy import event
from web_helpers import served

from sortnet.preference.study import LONGEST
from store import open_store

MEGABYTE = 10**6


@pytest.fixture
def collection(tmp_path):
    with open_store(tmp_path / "s.db") as store:
        store.add_items("essays", made_items(12, d=1))
        yield store.collection("essays", clock=Clock(time.time()))


@pytest.fixture
def site(collection):
    with served(collection) as made:
        made.link("ana")
        yield made


@pytest.mark.parametrize("kind", LONGEST)
def test_text_that_is_no_unicode_is_the_fault_of_the_request(site, collection, kind):
    body = b'{"kind": "%s", "reason": "a \\ud800 b"}' % kind.encode()
    reply = site.client.send(
        "POST", f"{site.admin}/decisions", body, Content_Type="application/json"
    )
    assert reply.status == 400
    assert reply.json() == {"error": "'reason' has half of a character (a lone surrogate)"}
    assert collection.decisions() == []


@pytest.mark.parametrize("name", ["lease", "answer", "criterion"])
def test_half_a_character_of_an_annotator_is_refused_too(site, name):
    facts = {"lease": '"x"', "answer": '"left"', "criterion": "null", name: '"\\udc00"'}
    body = "{" + ", ".join(f'"{key}": {value}' for key, value in facts.items()) + "}"
    path = f"{site.link('ana')}/answer"
    reply = site.client.send("POST", path, body.encode(), Content_Type="application/json")
    assert reply.status == 400 and f"'{name}' has half" in reply.json()["error"]


def test_a_full_disk_is_told_once_on_the_terminal_and_that_it_is_over(site, collection, capsys):
    path, n_refused = site.link("ana"), 0

    def limit(connection, _record) -> None:
        connection.execute(f"PRAGMA max_page_count = {most}")

    engine = collection.database.engine
    with engine.connect() as connection:
        most = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
    event.listen(engine, "connect", limit)
    engine.dispose()
    while n_refused < 3:
        reply = site.client.post(f"{path}/next")
        if reply.status == 200:
            lease = reply.json()["pairs"][0]["lease"]
            body = {"lease": lease, "answer": "left", "comment": "x" * 2000}
            reply = site.client.post(f"{path}/answer", body)
        assert reply.status in (200, 503)
        n_refused += reply.status == 503
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert told.startswith("sortnet: collection 'essays': no answer can be stored, pages keep")
    assert told.endswith("s.db: database or disk is full\n")
    most = 10**6
    engine.dispose()
    lease = site.client.post(f"{path}/next").json()["pairs"][0]["lease"]
    assert capsys.readouterr().err == ""
    for _ in range(2):  # the second is the first repeated
        body = {"lease": lease, "answer": "left"}
        assert site.client.post(f"{path}/answer", body).status == 200
    said = "sortnet: collection 'essays': answers are stored again\n"
    assert capsys.readouterr().err == said
