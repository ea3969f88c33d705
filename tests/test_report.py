"""sortnet report: one file that needs nothing else, says what the run learned, and escapes it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from cli_helpers import FAST, done, fault, invoke, letor
from pair_tables import table
from sqlalchemy import update
from test_web_browser import seen, violations

from sortnet import Queries
from sortnet.data import read_queries
from sortnet.metrics import evaluate
from sortnet.rankers.load_ranker import load_ranker
from store import Run, open_store
from store.database.schema import RunRow
from store.report import model_findings
from store.report.model_findings import Findings, find_out, some_documents
from store.report.run_page import render
from store.report.sources import Sources

VOID = {"meta", "img", "br", "link", "hr", "input"}
NASTY = "<script>alert('$x_{$')</script>&\"q"
TITLES = ["The data", "How good it is", "What decides", "How it learned", "Where it is still wrong"]


class Page(HTMLParser):
    """Tags with their attributes, checked for balance, and the text between them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())


def rows_of(text: str, caption: str) -> list[list[str]]:
    """The cells of the table whose caption begins with some words."""
    body = text.split(f"<caption>{caption}")[1].split("<tbody>")[1].split("</tbody>")[0]
    rows = body.split("</tr>")[:-1]
    return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in rows]


@pytest.fixture(autouse=True)
def _there(trained, monkeypatch):
    monkeypatch.chdir(trained)
    monkeypatch.setenv("SORTNET_STORE", "s.db")


@pytest.fixture(scope="module")
def text(trained, tmp_path_factory) -> str:
    """The page of a run, which takes seconds to draw."""
    to = tmp_path_factory.mktemp("page") / "r.html"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(trained)
        done("report", "last", "--store", "s.db", "-o", to)
    return to.read_text(encoding="utf-8")


@pytest.fixture
def unmeasured(monkeypatch):
    """Nothing is found out about the model: what is tested is elsewhere on the page."""
    monkeypatch.setattr("store.report.run_page.find_out", lambda *_: Findings())


@pytest.fixture
def run():
    with open_store("s.db") as store:
        yield store.run("last")


def made_run(
    store, *, qid: str = "q", docid: str = "d", command: str = "x", iterations: int = 0
) -> Run:
    """A run of one query whose iterations make the same two mistakes."""
    docids = [f"{docid}{k}" for k in range(4)]
    q = Queries.from_arrays(np.eye(4), [2, 1, 0, 0], qid=[qid] * 4, docids=docids)
    run = store.start_run(
        command=command, config={"quality": "map", "seed": 0, "pairs": "wrong"}, seed=0,
        versions={"sortnet": "0"}, train=q, vali=q,
        data={split: {"path": docid} for split in ("train", "vali")},
    )  # fmt: skip
    measures = {"train": {"map": 0.5}, "vali": {"map": 0.25}}
    names = ("comparisons", "miscompared", "new")
    counts = {f"{name}_{split}": 2 for name in names for split in ("train", "vali")}
    for iteration in range(iterations):
        for split in ("train", "vali"):
            run.add(split, iteration, table(np.array([0, 1]), np.array([1, 3])))
        facts = {"iteration": iteration, "best": iteration == 0, "quality": 0.25}
        run.record({**facts, **counts, "tp": 2, "vp": 2, "measures": measures})
    return run


def test_the_page_is_whole_and_asks_for_nothing_outside_itself(text):
    page = Page(text)
    assert page.of("script") == page.of("link") == page.of("iframe") == []
    assert not re.search(r"""(?:src|href|url)\s*[=(]\s*["']?(?:https?:|//|file:)""", text)
    anchors = {a["href"] for a in page.of("a")}
    assert anchors and anchors <= {"#" + at["id"] for _, at in page.tags if at.get("id")}
    assert not [name for _, at in page.tags for name in at if name.startswith(("on", "style"))]
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    assert policy_of(page) == {
        "default-src": "'none'", "img-src": "data:", "style-src": digest_of(style),
        "base-uri": "'none'", "form-action": "'none'",
    }  # fmt: skip
    assert re.findall(r"<h2[^>]*>(.*?)</h2>", text) == TITLES
    assert text.count("<details") == 1 and text.index("<details") > text.index(TITLES[-1])
    images = page.of("img")
    assert len(images) > 5 and all(len(image["alt"]) > 20 for image in images)
    for image in images:
        assert svg_of(image).tag.endswith("svg")


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize(("scheme", "width"), [("light", 1000), ("dark", 360)])
def test_the_page_can_be_read_by_who_does_not_see_it_or_sees_little(
    driver, text, tmp_path, scheme, width
):
    (tmp_path / "r.html").write_text(text)
    with seen(driver, scheme, width):
        driver.get((tmp_path / "r.html").as_uri())
        script = (
            "return [document.documentElement.scrollWidth, innerWidth, "
            "document.querySelector('details').offsetTop]"
        )
        page_width, window_width, top_of_fold = driver.execute_script(script)
        assert page_width <= window_width
        assert width < 1000 or top_of_fold <= 3000
        driver.execute_script("document.querySelector('details').open = true")
        assert violations(driver) == []


def test_the_data_are_described_by_part(text, trained):
    grades = np.bincount(read_queries(trained / "fold/vali.txt").grades)
    rows = rows_of(text, "What was read")
    assert [row[0] for row in rows] == ["training", "validation", "test"]
    shares = ", ".join(f"{n} × {grade}" for grade, n in enumerate(grades))
    assert rows[1][1:5] == ["8", "48", "4", shares]


def test_the_model_is_measured_on_validation_and_test_beside_lightgbm(text, trained):
    pytest.importorskip("lightgbm")
    rows = {(part, model): measures for part, model, *measures in rows_of(text, "Higher is")}
    names = ["before training", "this model", "LightGBM, on the same rows"]
    assert list(rows) == [
        *(("validation", name) for name in names),
        *(("test", name) for name in names[1:]),
    ]
    model = load_ranker(trained / "m")
    queries = read_queries(trained / "fold/test.txt")
    expected = evaluate(queries, model.order(queries), ["ndcg@10", "map", "p@10", "mrr"])
    assert sorted(rows["test", "this model"]) == sorted(f"{v:.4f}" for v in expected.values())


@pytest.mark.parametrize("iterations", [1, 2, 3])
def test_without_the_data_the_page_has_what_the_store_keeps(tmp_path, iterations):
    with open_store(tmp_path / "old.db") as store:
        text = render(made_run(store, iterations=iterations), Sources(), Findings())
    assert re.findall(r"<h2[^>]*>(.*?)</h2>", text) == [*TITLES[:2], *TITLES[3:]]
    assert "Rows are named by their place" in text or iterations < 3
    assert rows_of(text, "Higher is")[-1] == ["validation", "this model", "0.2500"]
    assert "not recorded" in Page(text).words  # the data's fingerprints
    # Iteration 0 sorts by chance, and in one further iteration no pair comes back.
    assert ("No pair was wrong after iteration 0" in text) == (iterations == 1)
    assert ("The hardest" in text) == (iterations > 1)
    assert ("keep coming back" in text) == (iterations > 2)
    if iterations > 2:
        first, *_ = rows_of(text, "Pairs that keep coming back")
        assert first == ["q", "training", "place 0", "place 1", "2 of 2"]


def test_what_is_needed_to_do_it_again_is_in_the_fold(text, run):
    words = Page(text.split("<details")[1].join(["<details", ""]).split("</main>")[0]).words
    about = [run.command, *run.versions.values(), f"the seed is {run.seed}"]
    about += [facts[key] for facts in run.data.values() for key in ("path", "fingerprint")]
    about += ["training.epochs 9", "gain 2^r-1, discount log2(1+rank)", "counted zero: "]
    assert [value for value in about if value not in words] == []


def test_ids_and_paths_are_text_whatever_they_hold(tmp_path):
    with open_store(tmp_path / "nasty.db") as store:
        made = made_run(store, qid=NASTY, docid=NASTY, command=f"sortnet {NASTY}", iterations=3)
        made.finish("done")
        page = Page(render(made, Sources(missing=NASTY), Findings()))
    assert page.of("script") == []
    assert page.words.count(NASTY) >= 5


@pytest.mark.parametrize("status", ["running", "interrupted", "failed"])
def test_a_run_that_has_not_ended_well_says_so_and_how_to_go_on(
    own_trained, unmeasured, monkeypatch, status
):
    monkeypatch.chdir(own_trained)
    with open_store("s.db") as store:
        run = store.run("last")
        run.finish(status)
        words = Page(done("report", "last", "--queries", "0", "-o", "-")).words
        again = f"sortnet train --resume --out {run.out}"
    assert status in words and again in words


def test_another_run_s_model_or_data_are_refused_by_name(own_trained, monkeypatch):
    monkeypatch.chdir(own_trained)
    Path("other.txt").write_text(letor(4, 9))
    message = fault("report", "last", "--data", "other.txt", "-o", "r")
    assert "other.txt" in message and "other content" in message
    path = Path("m/model.json")
    about = json.loads(path.read_text())
    about["info"]["run"] = "0123456789ab"
    path.write_text(json.dumps(about))
    message = fault("report", "last", "--model", "m", "-o", "r")
    assert "the model of run 0123456789ab" in message
    assert not Path("r").exists()


def test_without_output_the_file_is_named_for_the_run(
    tmp_path, trained, unmeasured, run, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    store = ("--store", trained / "s.db")
    assert done("report", "last", *store, "--queries", "0") == f"report-{run.id}.html\n"
    (page,) = tmp_path.iterdir()
    assert page.read_text().startswith("<!doctype html>")
    assert "cannot write" in fault("report", "last", *store, "-o", page / "r.html")


@pytest.mark.parametrize(
    ("status", "step"),
    [("running", "follow it: sortnet show "), ("interrupted", "resume it: x")],
)
def test_a_run_without_an_iteration_is_refused_with_the_next_step(tmp_path, status, step):
    with open_store(tmp_path / "s.db") as store:
        made_run(store).finish(status)
        message = fault("report", "last", "--store", tmp_path / "s.db")
    assert "no iteration yet" in message and step in message


def policy_of(page: Page) -> dict[str, str]:
    """The rules of the page's Content-Security-Policy."""
    (policy,) = [meta["content"] for meta in page.of("meta") if "http-equiv" in meta]
    return dict(rule.split(" ", 1) for rule in policy.split("; "))


def digest_of(text: str) -> str:
    """The source of a policy that allows a text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def svg_of(image: dict[str, str | None]) -> ElementTree.Element:
    """The picture in an image's address."""
    assert image["src"].startswith("data:image/svg+xml;base64,")
    return ElementTree.fromstring(base64.b64decode(image["src"].partition(",")[2]))


def test_the_columns_that_decide_are_named_and_a_hostile_name_is_text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    price, noise = rng.integers(1, 99, 240), rng.normal(size=240)
    colour = rng.choice(["red", "<b>blue</b>"], 240)
    frame = pd.DataFrame({"search": np.arange(240) // 6, "id": [f"<b>{k}</b>" for k in range(240)]})
    columns = {"<script>$x_{$": price, "colour": colour, "noise": noise}
    clicks = (price > 50).astype(int) + (colour == "red")
    frame.assign(**columns, clicks=clicks).to_csv("shop.csv", index=False)
    done("train", "shop.csv", "--query", "search", "--grade", "clicks", "--out", "m", *FAST)
    text = done("report", "last", "-o", "-", "--queries", "2")
    page = Page(text)
    alts = [image["alt"] for image in page.of("img")]
    (importance,) = [alt for alt in alts if alt.startswith("Drop of ")]
    first, second, *_ = importance.partition(": ")[2].split(", ")
    assert {first.split()[0], second.split()[0]} == {"<script>$x_{$", "colour"}
    assert any(", by colour" in alt and "% at red" in alt for alt in alts)
    assert page.of("script") == page.of("b") == []
    for image in page.of("img"):
        assert not [element for element in svg_of(image).iter() if element.tag.endswith("script")]


def test_a_model_or_data_that_went_elsewhere_or_changed_are_told_and_can_be_named(
    own_trained, monkeypatch
):
    monkeypatch.chdir(own_trained)
    with open_store("s.db") as store, store.database.transaction(write=True) as connection:
        connection.execute(update(RunRow).values(out="gone/m"))
    shutil.copytree("fold", "moved")
    Path("fold/train.txt").unlink()
    with Path("fold/vali.txt").open("a") as file:
        file.write("0 qid:new 1:0\n")
    (told,) = invoke("report", "last", "-o", "r.html").stderr.splitlines()
    words = Page(Path("r.html").read_text()).words
    for name in ("gone/m", "fold/train.txt", "vali.txt: its content differs", "--model", "--data"):
        assert name in told and name in words
    assert "What decides" not in words
    named = ("--model", "m", "--data", "moved/vali.txt", "--data", "moved/train.txt")
    words = Page(done("report", "last", "-o", "-", *named)).words
    assert "What decides" in words and "--model" not in words


def test_what_cannot_be_measured_is_left_out_and_told(trained, monkeypatch):
    pytest.importorskip("lightgbm")
    queries = read_queries(trained / "fold/vali.txt")
    some = some_documents(queries, 20)
    assert 20 <= some.n_docs < queries.n_docs and set(some.qids) < set(queries.qids)
    assert 0 < some_documents(queries.take([0]), 3).n_docs < 6
    monkeypatch.setattr(model_findings, "_MOST_FITTED", 3)
    model = load_ranker(trained / "m")
    strict = replace(model, config=model.config.changed(empty="error"))
    irrelevant = replace(queries, grades=np.zeros_like(queries.grades))
    sources = Sources(strict, {"train": queries, "vali": irrelevant})
    findings = find_out(sources, "it", lambda text: None)
    assert findings.measures == {} and findings.importance is None
    whys = ("would take long", "The validation part is not in the table: ", "is not known: ")
    for note, why in zip(findings.notes, whys, strict=True):
        assert why in note
    monkeypatch.setattr(model_findings, "some_documents", lambda queries, n: queries.take([0, 1]))
    findings = find_out(Sources(model, {"vali": queries}), "it", lambda text: None)
    assert findings.sampled == "a sample, 12 rows of 2 queries"
    assert list(findings.measures) == [("vali", "it")]


def test_pairs_that_keep_coming_back_are_counted_after_iteration_0(text, trained, run):
    pairs = run.pairs_frame()
    pairs["times"] -= (pairs["first_wrong"] == 0).astype(int)
    rows = rows_of(text, "Pairs that keep coming back")
    n_iterations = len(run.iterations_frame()) - 1
    times = sorted(pairs["times"], reverse=True)[: len(rows)]
    assert [cells[-1] for cells in rows] == [f"{n} of {n_iterations}" for n in times]
    first = pairs.loc[pairs["times"].idxmax()]
    queries = read_queries(trained / f"fold/{first['split']}.txt")
    better, worse = (
        f"{queries.docids[d]} (grade {queries.grades[d]})" for d in first[["winner", "loser"]]
    )
    assert [rows[0][0], *rows[0][2:4]] == [first["qid"], better, worse]
