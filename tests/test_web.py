"""The page of `sortnet serve` over HTTP: who gets in, what is taken, what comes back."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
import signal
import socket
import sys
import time
from dataclasses import replace
from html.parser import HTMLParser
from urllib.parse import urlsplit

import hypothesis
import psutil
import pytest
from cli_helpers import fault
from collection_helpers import Clock, answer_lease, made_items
from forked_processes import ForkedScript
from hypothesis import strategies as st
from PIL import Image
from result_helpers import value_of
from sqlalchemy import event
from web_helpers import WAIT, Client, listening, running, served

from cli.web.guard import HEADERS, LONGEST_PATH
from cli.web.pages import MOST_CHARACTERS, Pages
from cli.web.request_values import MOST_BYTES
from sortnet.preference import Judgement
from sortnet.preference.stopping import Standing
from sortnet.preference.study import Decision
from store import open_store
from store.report.html_page import rendered

SCRIPT = "<script>document.title = 'taken'</script>"


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "s.db") as opened:
        yield opened


@pytest.fixture
def clock():
    return Clock(time.time())


@pytest.fixture
def collection(store, clock):
    store.add_items("essays", made_items(12, d=1))
    return store.collection("essays", clock=clock)


@pytest.fixture
def site(collection):
    with served(collection) as made:
        yield made


@pytest.fixture(scope="module")
def standing(tmp_path_factory):
    """A site that no test changes."""
    with (
        open_store(tmp_path_factory.mktemp("standing") / "s.db") as opened,
        served(opened.add_items("essays", made_items(12, d=1))) as made,
    ):
        yield made


def pairs(reply) -> list[str]:
    return [pair["lease"] for pair in reply.json()["pairs"]]


def judged(collection) -> list[tuple[str, str]]:
    return [(j.annotator, j.word) for j in collection.judgements()]


def test_every_reply_says_what_a_browser_may_do_with_it(site):
    ana = site.link("ana")
    replies = [
        site.client.get(ana),
        site.client.get("/static/page.js"),
        site.client.get("/nothing"),
        site.client.post(f"{ana}/next"),
        site.client.get(ana, Host="evil.example"),
    ]
    assert [reply.status for reply in replies] == [200, 200, 404, 200, 421]
    for reply in replies:
        assert {name: reply.headers[name] for name in HEADERS} == HEADERS
        assert "Set-Cookie" not in reply.headers and "Server" not in reply.headers
    assert "default-src 'none'" in HEADERS["Content-Security-Policy"]
    assert "unsafe" not in HEADERS["Content-Security-Policy"]


def test_a_link_opens_its_own_door_only(site):
    ana = site.link("ana")
    token, admin = ana.removeprefix("/a/"), site.admin.removeprefix("/admin/")
    for path in (f"/admin/{token}/state", f"/a/{admin}", f"/a/{'x' * 22}/image/0"):
        reply = site.client.get(path)
        assert reply.status == 404 and "unknown" in reply.json()["error"]
        page = site.client.get(path, Accept="text/html,*/*")
        assert page.status == 404 and "This link is unknown" in page.body.decode()
    assert site.client.post(f"/a/{admin}/next").status == 404
    assert site.client.post(f"/admin/{token}/annotators", {"name": "eve"}).status == 404
    assert "eve" not in [annotator.name for annotator in site.pages.collection.annotators()]


def test_looking_changes_nothing(site, collection):
    ana = site.link("ana")
    site.client.post(f"{ana}/next")
    before = collection.judgements(), collection.leases("ana"), collection.annotators()
    for path in ("/next", "/answer", "/undo"):
        for method in ("GET", "HEAD", "PUT", "DELETE", "PATCH"):
            assert site.client.send(method, f"{ana}{path}").status in (404, 405, 415)
    assert site.client.get(f"{site.admin}/annotators?name=eve").status == 404
    for path in (ana, f"{site.admin}/state?find=text", f"{site.admin}/ranking.csv"):
        assert site.client.get(path).status == 200
    assert before == (collection.judgements(), collection.leases("ana"), collection.annotators())


def test_a_page_elsewhere_can_neither_ask_nor_change(site, collection):
    ana, own = site.link("ana"), f"http://127.0.0.1:{site.client.port}"
    for host in ("evil.example", f"evil.example:{site.client.port}", "127.0.0.1.evil.example", "["):
        assert site.client.get(ana, Host=host).status == 421
    lease = pairs(site.client.post(f"{ana}/next", Origin=own, Sec_Fetch_Site="same-origin"))[0]
    answer = {"lease": lease, "answer": "left"}
    for headers in (
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": f"https://127.0.0.1:{site.client.port}"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ):
        assert site.client.post(f"{ana}/answer", answer, **headers).status == 403
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        assert site.client.post(f"{ana}/answer", answer, Content_Type=kind).status == 415
    assert judged(collection) == []
    kind = "Application/JSON; charset=utf-8"
    assert site.client.post(f"{ana}/answer", answer, Content_Type=kind).status == 200


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400), (b"{", 400), (b"[]", 400), (b"\xff", 400), (b"[" * 4000, 400),
        (b"{}", 422), (b'{"lease": 3, "answer": "left"}', 422),
        (b'{"lease": "x", "answer": "undo"}', 422),
        (b'{"lease": "%s", "answer": "left"}' % (b"x" * 101), 422),
        (b'{"lease": "\\u0000", "answer": "left"}', 410),

        (b'{"lease": "\\udc00", "answer": "left"}', 400),  # no text in UTF-8
        (b'{"lease": "x", "answer": "left", "criterion": "\\udc00"}', 400),
        (b'{"lease": "x", "answer": "left", "comment": "%s"}' % (b"y" * 2001), 422),
        (b'{"lease": "x", "answer": "left", "comment": ["x"]}', 422),
        (b'{"lease": "x", "answer": "left", "flagged": "yes"}', 422),

    ],
)  # fmt: skip
def test_rubbish_is_refused_in_one_line(standing, body, status):
    path = f"{standing.link('ana')}/answer"
    if status == 422:  # the question is answered, but not by this
        lease = pairs(standing.client.post(f"{standing.link('ana')}/next"))[0]
        body = body.replace(b'"lease": "x"', f'"lease": "{lease}"'.encode())
    reply = standing.client.send("POST", path, body, Content_Type="application/json")
    assert reply.status == status
    assert "\n" not in reply.json()["error"]
    assert standing.pages.collection.judgements() == []


def test_a_reply_has_three_pairs_that_stay_until_they_are_answered(site, collection):
    ana = site.link("ana")
    first = site.client.post(f"{ana}/next")
    assert len(set(pairs(first))) == 3
    assert pairs(site.client.post(f"{ana}/next")) == pairs(first)
    body = {"lease": pairs(first)[0], "answer": "right", "milliseconds": 1234.5}
    other = site.client.post(f"{site.link('ben')}/answer", body)
    assert other.status == 410 and "not put to 'ben'" in other.json()["error"]
    after = site.client.post(f"{ana}/answer", body)
    assert pairs(after)[:2] == pairs(first)[1:] and len(pairs(after)) == 3
    (judgement,) = collection.judgements()
    shown = first.json()["pairs"][0]
    # Neither a score nor an id, nor anybody else.
    assert set(shown) == {"lease", "criterion", "question", "left", "right", "context"}
    assert set(shown["left"]) == {"text", "html", "image", "audio", "more", "shown"}
    texts = site.pages.items.texts
    assert shown["left"]["text"] == texts[judgement.left]
    assert (judgement.word, judgement.milliseconds) == ("right", 1234)
    assert site.client.post(f"{ana}/answer", body).json() == after.json()
    # As if the link were open in another tab: the answer is not lost without a word.
    other = site.client.post(f"{ana}/answer", body | {"answer": "left"})
    assert other.json() == after.json() | {"counted": "right"}
    for undone, words in ((True, ["right", "undo"]), (False, ["right", "undo"])):
        reply = site.client.post(f"{ana}/undo", {"last": judgement.number}).json()
        assert (reply["undone"], reply["answered"]) == (undone, 0)
        assert [answer for _, answer in judged(collection)] == words


def test_names_and_texts_are_data_wherever_they_stand(store):
    texts = tuple(f"{SCRIPT} {k}" for k in range(4))
    with served(store.add_items(SCRIPT, made_items(4, d=1, texts=texts))) as site:
        ana = site.link(f"ana {SCRIPT}")
        for path in (ana, site.admin):
            page = site.client.get(path).body.decode()
            assert page.count("<script") == page.count('<script src="../static/')
            assert "&lt;script&gt;" in page
        reply = site.client.post(f"{ana}/next")
        assert reply.headers["Content-Type"] == "application/json"
        assert reply.json()["pairs"][0]["left"]["text"].startswith(SCRIPT)


def test_a_long_text_is_cut_and_all_of_it_is_behind_a_link(store):
    long = "é" * (MOST_CHARACTERS + 1)
    with served(store.add_items("long", made_items(2, d=1, texts=(long, None)))) as site:
        ana = site.link("ana")
        pair = site.client.post(f"{ana}/next").json()["pairs"][0]
        bare, shown = sorted((pair["left"], pair["right"]), key=lambda item: len(item["text"]))
        assert bare["text"] == "i1"  # there is nothing else to show
        assert shown["text"] == "é" * MOST_CHARACTERS + " …"
        assert shown["more"] == "/text/0"
        whole = site.client.get(f"{ana}/text/0")
        assert whole.body.decode() == long
        assert whole.headers["Content-Type"] == "text/plain; charset=utf-8"
        assert "sandbox" in whole.headers["Content-Security-Policy"]


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Items with a picture, a sound, an SVG, files outside the folder, and missing ones."""
    tmp_path = tmp_path_factory.mktemp("pictures")
    root = tmp_path / "things"
    root.mkdir()
    exif = Image.Exif()
    exif.get_ifd(0x8825)[29] = "at home"  # GPS
    Image.new("RGB", (4, 3), "red").save(root / "a.png", exif=exif)
    (root / "b.wav").write_bytes(b"RIFF0000WAVE")
    (root / "c.svg").write_text(f"<svg xmlns='http://www.w3.org/2000/svg'>{SCRIPT}</svg>")
    Image.new("RGB", (4, 3)).save(tmp_path / "outside.png")
    (root / "link.png").symlink_to(tmp_path / "outside.png")
    images = (
        *("a.png", "c.svg", "../outside.png", str(tmp_path / "outside.png"), "link.png"),
        *("gone.png", "a\0.png", "."),
    )
    n = len(images)
    audio = ("b.wav", *(None,) * (n - 1))
    items = made_items(n, d=1, images=images, audio=audio, root=root)
    with open_store(tmp_path / "s.db") as opened:
        collection = opened.add_items("pictures", items)
        collection.append([Judgement.of("ana", (0, k), "left") for k in range(1, n)])
        with served(collection) as made:
            yield made


def test_pictures_and_sounds_come_with_their_type_and_can_do_nothing(pictures):
    ana = pictures.link("ana")
    image, sound = pictures.client.get(f"{ana}/image/0"), pictures.client.get(f"{ana}/sound/0")
    assert (image.status, image.headers["Content-Type"]) == (200, "image/png")
    assert (sound.status, sound.headers["Content-Type"]) == (200, "audio/wav")
    assert image.body.startswith(b"\x89PNG") and b"at home" not in image.body
    for reply in (image, sound):
        assert reply.headers["X-Content-Type-Options"] == "nosniff"
        assert "sandbox" in reply.headers["Content-Security-Policy"]
    part = pictures.client.get(f"{ana}/sound/0", Range="bytes=0-3")
    assert (part.status, part.body) == (206, b"RIFF")
    assert pictures.client.get(f"{pictures.admin}/image/0").body == image.body


OUTSIDE = (
    *("image/99999999999999999999", "image/-1", "image/..%2f..%2foutside.png", "sound/1"),
    *("image/../../../outside.png", "root/0", "image/a.png", "text/-1"),
)


@pytest.mark.parametrize("path", [*(f"image/{number}" for number in range(1, 8)), *OUTSIDE])
def test_nothing_active_and_nothing_outside_the_folder_is_shown(pictures, path):
    assert pictures.client.get(f"{pictures.link('ana')}/{path}").status == 404
    if ".." in path:
        assert pictures.client.get(f"/static/{path}").status == 404


def test_an_annotator_reads_only_items_of_own_questions(store, tmp_path):
    Image.new("RGB", (2, 2)).save(tmp_path / "a.png")
    facts = {"images": ("a.png",) * 12, "root": tmp_path, "groups": ("x",) * 12}
    items = made_items(12, d=1, contexts=("of x",) * 12, **facts)
    collection = store.add_items("essays", items)
    with served(collection) as site:
        ana, ben = site.link("ana"), site.link("ben")

        def read(link, kind):
            path = f"{link}/{kind}/"
            return {k for k in range(12) if site.client.get(f"{path}{k}").status == 200}

        site.client.post(f"{ana}/next")
        asked = {k for lease in collection.leases("ana") for k in lease.question.pair}
        assert read(ana, "image") == read(ana, "text") == read(ana, "context") == asked
        assert asked and read(ben, "image") == set()
        assert read(site.admin, "image") == {*range(12)}
        (first, *_) = collection.leases("ana")
        answer_lease(site.pages.services[0], first, "ana")
        collection.release("ana")
        assert read(ana, "image") >= {*first.question.pair}


ELEMENTS = {"h3", "h4", "h5", "h6", "table", "tbody", "td", "th", "thead", "tr", "a", "blockquote"}
ELEMENTS |= {"br", "code", "em", "hr", "li", "ol", "p", "pre", "s", "strong", "ul"}


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("[x](javascript:alert(1))", "<p>[x](javascript:alert(1))</p>"),
        ("[x](data:text/html,y) [r]\n\n[r]: file:///etc", "[r]: file:///etc"),
        ("![x](http://e.example/x.png)", '!<a href="http://e.example/x.png" target="_blank"'),
        ("<img src=x onerror=y><b>", "<p>&lt;img src=x onerror=y&gt;&lt;b&gt;</p>"),
        ('[x](http://e.example/"onclick=y)', 'href="http://e.example/%22onclick=y" target'),
        ("[x](HTTPS://e.example)", 'rel="noopener noreferrer nofollow">x</a>'),
        ("# a\n\n###### b", "<h3>a</h3>\n<h6>b</h6>"),
        ("```<x>\n</code><script>\n```", "<pre><code>&lt;/code&gt;&lt;script&gt;\n</code></pre>"),
        ("|a|\n|-:|\n|1|", "<th>a</th>"),
        ("7. x\n8. ~~y~~", '<ol start="7">\n<li>x</li>\n<li><s>y</s></li>'),
        ("&lt;script&gt; &amp;amp;", "<p>&lt;script&gt; &amp;amp;</p>"),
    ],
)
def test_markdown_becomes_harmless_html(text, html):
    found = rendered(text)
    assert html in found
    names = {name.strip("</") for name in re.findall(r"<[^\s>]+", found)}
    assert names <= ELEMENTS and "style=" not in found and "class=" not in found


PIECES = r"# ~- ~7. ~> ~```x~**~![~[x](~[~](~)~<script>~<a onclick=x>~</p>~<!--~<![CDATA[~\~    "
PIECES += "~javascript:~https://e.x~<https://e.x>~&lt;~&~'~|a|\n|:-|\n~\n~ x ~\0~é~\""
ATTRIBUTES = {"a": {"href", "target", "rel"}, "ol": {"start"}}


@hypothesis.given(
    st.lists(st.sampled_from([*PIECES.split("~"), "~~"]), max_size=12).map("".join) | st.text()
)
def test_of_any_text_only_harmless_elements_and_attributes_come(text):
    class Elements(HTMLParser):
        def handle_starttag(self, tag, attrs):
            assert tag in ELEMENTS and {name for name, _ in attrs} <= ATTRIBUTES.get(tag, set())
            assert dict(attrs).get("href", "http://").lower().startswith(("http://", "https://"))

        def handle_comment(self, data):
            raise AssertionError(data)

        handle_decl = unknown_decl = handle_pi = handle_comment

    Elements(convert_charrefs=True).feed(rendered(text))


def test_a_full_disk_is_told_once_on_the_terminal_and_that_it_is_over(site, collection, capsys):
    path, statuses = site.link("ana"), []

    def limit(connection, _record) -> None:
        connection.execute(f"PRAGMA max_page_count = {most}")

    def answer(comment: str) -> int:
        reply = site.client.post(f"{path}/next")
        if reply.status == 200:
            body = {"lease": pairs(reply)[0], "answer": "left", "comment": comment}
            reply = site.client.post(f"{path}/answer", body)
        return reply.status

    engine = collection.database.engine
    with engine.connect() as connection:
        most = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
    event.listen(engine, "connect", limit)
    engine.dispose()
    while statuses.count(503) < 3:
        statuses.append(answer("x" * 2000))
    assert {*statuses} == {200, 503}
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert told.startswith("sortnet: collection 'essays': no answer can be stored, pages keep")
    assert told.endswith("s.db: database or disk is full\n")
    most = 10**6
    engine.dispose()
    assert answer("") == answer("") == 200
    said = "sortnet: collection 'essays': answers are stored again\n"
    assert capsys.readouterr().err == said


def answered(site, name: str, answers: int) -> None:
    link = site.link(name)
    for _ in range(answers):
        lease = pairs(site.client.post(f"{link}/next"))[0]
        body = {"lease": lease, "answer": "left", "milliseconds": 900}
        site.client.post(f"{link}/answer", body)


def test_the_ranking_and_the_answers_are_downloaded(site, collection):
    formula = "=cmd|' /C calc'!A0"
    answered(site, formula, 3)
    site.pages.services[0].settle()
    found = {}
    for name in ("ranking.csv", "ranking.json", "judgements.csv", "judgements.jsonl"):
        reply = site.client.get(f"{site.admin}/{name}")
        assert reply.headers["Content-Disposition"] == f'attachment; filename="{name}"'
        found[name] = reply.body.decode()
    assert len(value_of(found["ranking.json"], "ranking")) == 12
    assert found["ranking.csv"].startswith("rank,id,")
    lines = [json.loads(line) for line in found["judgements.jsonl"].splitlines()]
    rows = list(csv.DictReader(io.StringIO(found["judgements.csv"])))
    assert len(lines) == len(collection.judgements()) == 3
    assert {line["annotator"] for line in lines} == {formula}
    assert {row["annotator"] for row in rows} == {"'" + formula}  # a spreadsheet runs it else
    assert site.client.get(f"{site.admin}/passwords.csv").status == 404


@contextlib.contextmanager
def command(*args: object, last: str = "admin"):
    """`sortnet serve` in a process of its own, and the links it prints."""
    with ForkedScript("from cli.main import main; main()", "serve", *args) as process:
        links = {}
        for line in process.stdout:
            name, _, link = line.strip().partition(": ")
            links[name] = link
            if name == last:
                break
        yield process, links


def end_of(process: ForkedScript) -> tuple[int | None, str]:
    """Its exit code and what it said on stderr."""
    _, said = process.communicate()
    return process.returncode, said


def test_a_server_whose_collection_is_gone_ends_with_one_line(store, collection, tmp_path):
    words = ("essays", "--port", 0, "--store", tmp_path / "s.db")
    with command(*words) as (process, _):
        collection.remove()
        code, said = end_of(process)
        assert code == 2
        assert said.splitlines()[-1] == (
            "sortnet: collection 'essays' was removed, or another process serves it now"
        )
        assert "Traceback" not in said and len(said.splitlines()) <= 4


@pytest.mark.parametrize("root", ["/label", "/a"])
def test_a_proxy_may_pass_the_path_on_or_strip_it(collection, root):
    pages = Pages(collection)
    ana, admin = f"/a/{collection.annotator('ana').token}", f"/admin/{pages.admin_token}"
    with running([pages], root=root) as client:
        for at in ("", root):  # stripped, kept
            assert client.get(f"{at}/static/style.css").status == 200
            assert 'src="../static/page.js"' in client.get(f"{at}{ana}").body.decode()
            assert len(pairs(client.post(f"{at}{ana}/next"))) == 3
            assert f'href="{root}{admin}/ranking.csv"' in client.get(at + admin).body.decode()
            fault = client.get(f"{at}/a/nobody", Accept="text/html")
            assert fault.status == 404
            assert f'href="{root}/static/style.css"' in fault.body.decode()
        assert client.get(f"{root}{root}{ana}").status == 404


def test_one_server_of_two_collections_keeps_them_apart(store, tmp_path):
    both = [store.add_items(name, made_items(4, d=1)) for name in ("essays", "tales")]
    where = ("--port", 0, "--annotator", "ana", "--store", tmp_path / "s.db")
    with command("essays", "tales", "essays", *where, last="tales, admin") as (process, printed):
        assert list(printed) == ["essays, ana", "essays, admin", "tales, ana", "tales, admin"]
        client = Client(urlsplit(printed["tales, admin"]).port)
        for name in ("essays", "tales"):
            admin, ana = (urlsplit(printed[f"{name}, {who}"]).path for who in ("admin", "ana"))
            lease = pairs(client.post(f"{ana}/next"))[0]
            assert client.post(f"{ana}/answer", {"lease": lease, "answer": "left"}).status == 200
            while not client.get(f"{admin}/state").json()["remaining"]:
                time.sleep(0.05)  # the background fits both
        assert [len(collection.judgements()) for collection in both] == [1, 1]
        process.send_signal(signal.SIGTERM)
        code, said = end_of(process)
    assert code == 0 and "no longer serving 'essays', 'tales'" in said
    assert "no collection 'nothing'" in fault("serve", "essays", "nothing", *where)


def test_what_cannot_be_served_is_one_line(store, collection, tmp_path, monkeypatch):
    where = ("--store", tmp_path / "s.db")
    with listening() as taken:
        port = taken.getsockname()[1]
        assert f"port {port} is in use" in fault("serve", "essays", "--port", port, *where)
    for host in ("no such host", "192.0.2.1"):
        assert "not an address" in fault("serve", "essays", "--host", host, *where)
    assert "no such file" in fault("serve", "essays", "--store", tmp_path / "other.db")
    for url in ("ftp://label.example.org", "https://a.example/a?b=c", "https://a.example/%2e"):
        assert "is not an address such as" in fault("serve", "essays", "--url", url, *where)

    monkeypatch.setitem(sys.modules, "starlette", None)
    assert "pip install 'sortnet[web]'" in fault("serve", "essays", *where)


def test_what_is_too_large_or_too_long_is_refused(site, collection):
    ana = site.link("ana")
    # Who sends ten megabytes sees the refusal, and a connection that is not reset.
    reply = site.client.send("POST", f"{ana}/answer", b"x" * 10**7, Content_Type="application/json")
    assert reply.status == 413 and str(MOST_BYTES) in reply.json()["error"]
    reply = site.client.get(f"{ana}/image/{'5' * 5000}")
    assert reply.status == 414 and str(LONGEST_PATH) in reply.json()["error"]
    assert site.client.get(f"{ana}/text/{'5' * 200}").status == 404


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"comment": " unclear\n", "flagged": True}, ("unclear", True, None)),
        ({"comment": "", "flagged": False}, (None, None, None)),
        ({"comment": "é\0\ud800" * 600}, ("é?" * 600, None, None)),
        ({"comment": "字" * 2000, "milliseconds": 7}, ("字" * 2000, None, 7)),
        *(({"milliseconds": time}, (None, None, None)) for time in (-1, 10**12, "x", True, [1])),
    ],
)
def test_a_remark_is_kept_and_a_time_that_cannot_be_costs_no_answer(standing, facts, expected):
    who = f"judge {facts}"[:60].encode("ascii", "replace").decode()
    link = standing.link(who.replace("\n", " "))
    lease = pairs(standing.client.post(f"{link}/next"))[0]
    body = {"lease": lease, "answer": "left", **facts}
    assert standing.client.post(f"{link}/answer", body).status == 200
    stored = standing.pages.collection.judgements()[-1]
    assert (stored.comment, stored.flagged, stored.milliseconds) == expected


def test_the_admin_page_makes_links_that_outlive_the_server(site, store):
    made = site.client.post(f"{site.admin}/annotators", {"name": " carl "})
    assert (made.status, made.json()["name"]) == (201, "carl")
    assert site.client.get(made.json()["path"]).status == 200
    again = site.client.post(f"{site.admin}/annotators", {"name": "carl"})
    assert again.json() == made.json()
    for name in ("", " ", "x" * 201, "a\nb", "\x1b[2J", "\ud800", 3, None):
        reply = site.client.post(f"{site.admin}/annotators", {"name": name})
        assert reply.status in (400, 422) and "\n" not in reply.json()["error"]
    after = Pages(store.collection("essays"))
    assert after.admin_token == site.pages.admin_token and len(after.admin_token) >= 32
    assert after.collection.annotators() == site.pages.collection.annotators()
    assert [annotator.name for annotator in after.collection.annotators()] == ["carl"]
    assert Pages(store.add_items("other", made_items(2))).admin_token != after.admin_token


@pytest.mark.usefixtures("hangups")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_the_command_prints_links_and_a_signal_ends_it_while_it_answers(
    store, collection, tmp_path, number
):
    collection.annotator("eve")
    collection.annotator("robot")  # which needs no link
    collection.decide(Decision("revoke", "eve"), Decision("model", "robot"))
    token = collection.annotator("ana").token
    with command("essays", "--port", 0, "--store", tmp_path / "s.db") as (process, printed):
        assert set(printed) == {"ana", "admin"} and printed["ana"].endswith(f"/a/{token}")
        message = fault("serve", "essays", "--port", 0, "--store", tmp_path / "s.db")
        assert "served by another process" in message
        address = urlsplit(printed["ana"])
        head = f"POST {address.path}/next HTTP/1.1\r\nHost: {address.netloc}\r\n"
        with socket.create_connection((address.hostname, address.port), timeout=WAIT) as client:
            rest = "Content-Type: application/json\r\nContent-Length: 2\r\nExpect: 100-continue"
            client.sendall(f"{head}{rest}\r\n\r\n".encode())
            assert client.recv(4096).startswith(b"HTTP/1.1 100 ")  # it waits for the body now
            process.send_signal(number)
            code, said = end_of(process)
    assert code == 0
    assert "Traceback" not in said and "no longer serving" in said and "link revoked" in said
    with collection.serving():
        pass  # the command's claim is gone


def test_a_server_whose_file_was_removed_acknowledges_nothing_and_ends_with_an_error(
    store, collection, tmp_path
):
    file = tmp_path / "s.db"
    with command("essays", "--port", 0, "--annotator", "ana", "--store", file) as (process, links):
        address = urlsplit(links["ana"])
        client = Client(address.port)
        lease = pairs(client.post(f"{address.path}/next"))[0]
        file.unlink()
        reply = client.post(f"{address.path}/answer", {"lease": lease, "answer": "left"})
        assert reply.status == 503 and "s.db was removed while it was" in reply.json()["error"]
        process.send_signal(signal.SIGTERM)
        code, said = end_of(process)
    assert code == 2 and "no longer serving" not in said and not file.exists()
    assert said.splitlines()[-1].startswith(f"sortnet: store {file}: s.db was removed")


def test_who_lets_others_in_is_warned_and_a_proxy_has_its_own_address(store, collection, tmp_path):
    where = ("essays", "--port", 0, "--host", "0.0.0.0", "--store", tmp_path / "s.db")
    url = ("--url", "https://Label.example.org/", "--annotator", "ana")
    with command(*where, *url) as (process, printed):
        assert printed["ana"].startswith("https://label.example.org/a/")
        (connection, *_) = [
            c for c in psutil.Process(process.pid).net_connections() if c.status == "LISTEN"
        ]
        client = Client(connection.laddr.port)
        path = urlsplit(printed["ana"]).path
        for host, status in (("192.0.2.1:80", 404), ("[::1]", 404), ("evil.example", 421)):
            assert client.get("/", Host=host).status == status
        own = {"Host": "label.example.org", "Origin": "https://label.example.org"}
        assert client.post(f"{path}/next", **own).status == 200
        own["Origin"] = "http://label.example.org.evil.example"
        assert client.post(f"{path}/next", **own).status == 403
        process.send_signal(signal.SIGTERM)
        assert "only protection" in end_of(process)[1]


def test_who_watches_sees_the_pace_and_the_people(site):
    answered(site, "ana", 20)
    answered(site, "ben", 5)
    site.pages.services[0].settle()
    state = site.client.get(f"{site.admin}/state").json()
    assert (state["items"], state["answers"]) == (12, 25)

    assert state["last_hour"] == 25
    people = {who["name"]: who for who in state["people"]}
    assert {name: who["standing"] for name, who in people.items()} == {"ana": 20, "ben": 5}
    assert people["ana"]["report"]["median_seconds"] == 0.9
    assert people["ana"]["path"] == site.link("ana")


def test_the_distance_from_the_goals_of_all_criteria_is_told_together(store, collection):
    for name in ("clear", "kind"):
        collection.add_criterion(name)
    with served(store.collection("essays")) as site:
        ana, services = site.link("ana"), site.pages.services
        for service in services:
            service.settle()
            left = {"questions": 90, "fewest": 60, "most": 140}
            service.remaining = replace(service.remaining, standing=Standing.ASKING, **left)
        reply = site.client.post(f"{ana}/next").json()
        assert (reply["stop"], reply["left"], reply["range"]) == (False, 180, "120 to 280 left")
        for service in services:
            service.remaining = replace(service.remaining, standing=Standing.REACHED)
        reply = site.client.post(f"{ana}/next").json()
        assert (reply["stop"], reply["left"]) == (True, 0) and "goal is reached" in reply["why"]
