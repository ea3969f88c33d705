"""Requests that are refused before any page sees them, over raw sockets."""

from __future__ import annotations

import json
import re
import socket
import time

import pytest
from collection_helpers import Clock, made_items
from sqlalchemy import event
from web_helpers import WAIT, served

from cli.web import guard
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


def exchange(site, text: str) -> bytes:
    """Everything that the server sends until it closes the connection."""
    with socket.create_connection(("127.0.0.1", site.client.port), timeout=WAIT) as connection:
        connection.sendall(text.encode())
        return b"".join(iter(lambda: connection.recv(65536), b""))


def statuses(replies: bytes) -> list[bytes]:
    return re.findall(rb"HTTP/1\.1 (\d+) ", replies)


def head(site, path: str, *lines: str) -> str:
    named = (f"POST {path} HTTP/1.1", f"Host: 127.0.0.1:{site.client.port}")
    kind = "Content-Type: application/json"
    return "\r\n".join((*named, kind, *lines)) + "\r\n\r\n"


def adding(site, name: str) -> str:
    """A request that adds an annotator, which the collection shows if it was run."""
    body = json.dumps({"name": name})
    return head(site, f"{site.admin}/annotators", f"Content-Length: {len(body)}") + body


def test_a_request_of_two_lengths_is_refused_and_nothing_after_it_is_run(site, collection):
    path, hidden = f"{site.link('ana')}/next", adding(site, "eve")
    chunked = f"2\r\n{{}}\r\n0\r\n\r\n{hidden}"
    for lines in (
        ("Content-Length: 2", "Transfer-Encoding: chunked"),
        ("Transfer-Encoding: chunked", f"Content-Length: {len(chunked)}"),
        ("content-length: 0", "transfer-encoding: Chunked"),
    ):
        assert statuses(exchange(site, head(site, path, *lines) + chunked)) == [b"400"]
    assert [one.name for one in collection.annotators()] == ["ana"]
    proper = head(site, path, "Transfer-Encoding: chunked") + "2\r\n{}\r\n0\r\n\r\n"
    last = head(site, path, "Content-Length: 2", "Connection: close") + "{}"
    assert statuses(exchange(site, proper + hidden + last)) == [b"200", b"201", b"200"]
    assert {one.name for one in collection.annotators()} == {"ana", "eve"}


@pytest.mark.parametrize("space", [" ", "\t"])
def test_a_folded_header_line_is_refused_also_behind_another_request(site, collection, space):
    path, hidden = f"{site.link('ana')}/next", adding(site, "eve")
    folded = head(site, path, "Content-Length: 2", "X-Note: one", f"{space}two") + "{}"
    assert statuses(exchange(site, folded + hidden)) == [b"400"]
    good = head(site, path, "Content-Length: 2") + "{}"
    assert statuses(exchange(site, good + folded + hidden)) == [b"200", b"400"]
    body = '{"note":\n \n\n "a line that begins with a space"}'
    closed = head(site, path, f"Content-Length: {len(body)}", "Connection: close") + body
    assert statuses(exchange(site, closed)) == [b"200"]
    assert [one.name for one in collection.annotators()] == ["ana"]


@pytest.mark.parametrize("framing", ["Content-Length", "chunks"])
def test_who_sends_ten_megabytes_is_told_that_they_are_too_many(site, framing):
    path, large = f"{site.link('ana')}/answer", b"x" * (10 * MEGABYTE)
    if framing == "chunks":
        lines = ("Transfer-Encoding: chunked",)
        sent = f"{len(large):x}\r\n".encode() + large + b"\r\n0\r\n\r\n"
    else:
        lines, sent = (f"Content-Length: {len(large)}",), large
    with socket.create_connection(("127.0.0.1", site.client.port), timeout=WAIT) as connection:
        connection.sendall(head(site, path, *lines).encode() + sent)  # not reset meanwhile
        replies = b"".join(iter(lambda: connection.recv(65536), b""))
    assert statuses(replies) == [b"413"]
    assert f"larger than {guard.MOST_BYTES} bytes".encode() in replies
    reply = site.client.send("POST", path, large, Content_Type="text/plain")
    assert reply.status == 415


def test_what_is_thrown_away_of_a_request_is_bounded(site, monkeypatch):
    monkeypatch.setattr(guard, "MOST_DISCARDED", 4 * MEGABYTE)
    path, sent = f"{site.link('ana')}/answer", 0
    with socket.create_connection(("127.0.0.1", site.client.port), timeout=WAIT) as connection:
        connection.sendall(head(site, path, "Transfer-Encoding: chunked").encode())
        with pytest.raises(OSError):  # reset, or a broken pipe
            while sent < 400 * MEGABYTE:
                connection.sendall(f"{MEGABYTE:x}\r\n".encode() + b"x" * MEGABYTE + b"\r\n")
                sent += MEGABYTE
    assert sent < 40 * MEGABYTE  # what the system buffers comes on top


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
