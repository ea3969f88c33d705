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
from cli_helpers import FAST, copy_run, done, fault, invoke, letor
from pair_tables import table
from test_web_browser import seen, violations

from sortnet import Queries
from sortnet.data import read_queries
from sortnet.metrics import evaluate
from sortnet.rankers.load_ranker import load_ranker
from store import Run, open_store
from store.report import model_findings
from store.report.model_findings import find_out, some_documents
from store.report.run_page import render
from store.report.sources import Sources

MQ2008 = Path(__file__).resolve().parents[2] / "shared/data/mq2008/Fold1"
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
    monkeypatch.setattr("store.report.run_page.find_out", lambda *_: model_findings.Findings({}))


@pytest.fixture
def run():
    with open_store("s.db") as store:
        yield store.run("last")


def made_run(
    store, *, qid: str = "q", docid: str = "d", command: str = "x", pairs: str = "wrong"
) -> Run:
    q = Queries.from_arrays(
        np.eye(4), [2, 1, 0, 0], qid=[qid] * 4, docids=[docid + str(k) for k in range(4)]
    )
    facts = {split: {"path": docid} for split in ("train", "vali")}
    return store.start_run(
        command=command, config={"quality": "map", "seed": 0, "pairs": pairs}, seed=0,
        versions={"sortnet": "0"}, train=q, vali=q, data=facts, out=None,
    )  # fmt: skip


def record(run: Run, i: int = 0) -> None:
    """An iteration without what was observed."""
    pairs = table(np.array([0, 1]), np.array([1, 3]))
    for split in ("train", "vali"):
        run.add(split, i, pairs)
    counts = dict.fromkeys(("miscompared_train", "miscompared_vali", "tp", "vp"), 2)
    new = dict.fromkeys(("new_train", "new_vali"), 0 if i else 2)
    measures = {"train": {"map": 0.5}, "vali": {"map": 0.25}}
    run.record(
        {"iteration": i, "quality": 0.25, "best": i == 0, "measures": measures,
         "comparisons_train": 5, "comparisons_vali": 5, "seconds_sort": 1.0,
         "seconds_train": 2.0, **counts, **new}
    )  # fmt: skip


def test_the_page_is_whole_and_asks_for_nothing_outside_itself(text):
    page = Page(text)
    assert page.of("script") == page.of("link") == page.of("iframe") == []
    assert not re.search(r"""(?:src|href|url)\s*[=(]\s*["']?(?:https?:|//|file:)""", text)
    for image in page.of("img"):
        assert image["src"].startswith("data:image/svg+xml;base64,")
    anchors = {a["href"] for a in page.of("a")}
    ids = {"#" + at["id"] for _, at in page.tags if at.get("id")}
    assert anchors and anchors <= ids
    assert not [name for _, at in page.tags for name in at if name.startswith("on")]


def test_the_policy_allows_the_page_s_own_style_and_pictures_and_nothing_else(text):
    page = Page(text)
    (policy,) = [m["content"] for m in page.of("meta") if "http-equiv" in m]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert rules == {
        "default-src": "'none'", "img-src": "data:", "style-src": f"'sha256-{digest}'",
        "base-uri": "'none'", "form-action": "'none'",
    }  # fmt: skip
    assert not [1 for _, attributes in page.tags if "style" in attributes]


def test_the_parts_of_the_page_are_in_the_order_of_a_reader_s_questions(text):
    assert re.findall(r"<h2[^>]*>(.*?)</h2>", text) == TITLES
    assert text.count("<details") == 1 and text.index("<details") > text.index(TITLES[-1])


def test_every_picture_is_well_formed_and_told(text):
    images = Page(text).of("img")
    assert len(images) > 5
    for image in images:
        svg = ElementTree.fromstring(base64.b64decode(image["src"].partition(",")[2]))
        assert svg.tag.endswith("svg")
        assert len(image["alt"]) > 20


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize(("scheme", "width"), [("light", 1000), ("dark", 360)])
def test_the_page_can_be_read_by_who_does_not_see_it_or_sees_little(
    driver, text, tmp_path, scheme, width
):
    page = Page(text)
    assert len(page.of("caption")) == len(page.of("table"))
    assert all("scope" in header for header in page.of("th"))
    assert all(d.get("aria-label") for d in page.of("div") if d.get("role") == "region")
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
    rows = rows_of(text, "What was read")
    assert [row[0] for row in rows] == ["training", "validation", "test"]
    for row, name in zip(rows, ("train", "vali", "test"), strict=True):
        queries = read_queries(trained / f"fold/{name}.txt")
        assert row[1:4] == [str(len(queries)), str(queries.n_docs), "4"]
        counts = np.bincount(queries.grades)
        assert row[4] == ", ".join(f"{n} × {grade}" for grade, n in enumerate(counts))


def test_the_model_is_measured_on_validation_and_test_beside_lightgbm(text, trained):
    pytest.importorskip("lightgbm")
    rows = {(part, model): measures for part, model, *measures in rows_of(text, "Higher is")}
    assert list(rows) == [
        ("validation", "before training"),
        ("validation", "this model"),
        ("validation", "LightGBM, on the same rows"),
        ("test", "this model"),
        ("test", "LightGBM, on the same rows"),
    ]
    model = load_ranker(trained / "m")
    for part, name in (("validation", "vali"), ("test", "test")):
        queries = read_queries(trained / f"fold/{name}.txt")
        expected = evaluate(queries, model.order(queries), ["ndcg@10", "map", "p@10", "mrr"])
        assert sorted(rows[part, "this model"]) == sorted(f"{v:.4f}" for v in expected.values())


def test_the_columns_that_decide_are_named_and_the_first_have_curves(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows = ["search,id,price,colour,noise,clicks"]
    for search in range(40):
        for k in range(6):
            price, colour = rng.integers(1, 99), rng.choice(["red", "blue"])
            clicks = int(price > 50) + int(colour == "red")
            rows.append(f"s{search},d{search}-{k},{price},{colour},{rng.normal():.3f},{clicks}")
    Path("shop.csv").write_text("\n".join(rows) + "\n")
    done("train", "shop.csv", "--query", "search", "--grade", "clicks", "--out", "m", *FAST)
    text = done("report", "last", "-o", "-", "--queries", "2")
    alts = [image["alt"] for image in Page(text).of("img")]
    (importance,) = [alt for alt in alts if alt.startswith("Drop of ")]
    first, second, *_ = importance.partition(": ")[2].split(", ")
    assert {first.split()[0], second.split()[0]} == {"price", "colour"}
    (price,) = [alt for alt in alts if ", by price" in alt]
    low, high = (int(share) for share in re.findall(r"(\d+)% at", price))
    assert low < high
    assert any(", by colour" in alt and "% at red" in alt for alt in alts)
    assert [row[-1] for row in rows_of(text, "What was read")] == ["shop.csv"] * 3


def test_large_data_are_sampled_and_lightgbm_is_left_out(run, trained, monkeypatch):
    pytest.importorskip("lightgbm")
    queries = read_queries(trained / "fold/vali.txt")
    some = some_documents(queries, 20)
    assert 20 <= some.n_docs < queries.n_docs and set(some.qids) < set(queries.qids)
    assert 0 < some_documents(queries.take([0]), 3).n_docs < 6
    monkeypatch.setattr(model_findings, "_MOST_FITTED", 3)
    monkeypatch.setattr(model_findings, "some_documents", lambda queries, n: queries.take([0, 1]))
    sources = Sources(load_ranker(trained / "m"), {"train": queries, "vali": queries})
    findings = find_out(sources, "it", lambda text: None)
    assert findings.sampled == "a sample, 12 rows of 2 queries"
    assert list(findings.measures) == [("vali", "it")]
    assert "would take long" in findings.notes[0]


def test_a_part_that_cannot_be_measured_is_told(trained):
    queries = read_queries(trained / "fold/vali.txt")
    model = load_ranker(trained / "m")
    strict = replace(model, config=model.config.changed(empty="error"))
    irrelevant = replace(queries, grades=np.zeros_like(queries.grades))
    findings = find_out(Sources(strict, {"vali": irrelevant}), "it", lambda text: None)
    assert findings.measures == {} and findings.importance is None
    assert "The validation part is not in the table: " in findings.notes[0]
    assert "Importance is not known: " in findings.notes[1]


def after_iteration_0(run: Run, split: str | None = None) -> pd.DataFrame:
    """The pairs that were wrong later than by chance, and how often."""
    pairs = run.pairs_frame(split)
    pairs["times"] -= (pairs["first_wrong"] == 0).astype(int)
    return pairs[pairs["times"] > 0]


def test_the_hardest_queries_are_those_of_the_most_mistakes_after_iteration_0(text, run):
    rows = rows_of(text, "The hardest validation queries")
    pairs = after_iteration_0(run, "vali")
    totals = pairs.groupby("qid", observed=True)["times"].agg(["size", "sum"])
    assert 0 < len(rows) <= 5
    for qid, n_pairs, times, *_ in rows:
        assert (int(n_pairs), int(times)) == tuple(totals.loc[qid])
    rest = totals.drop([row[0] for row in rows])["sum"]
    assert rest.empty or rest.max() <= int(rows[-1][2])


def test_pairs_that_keep_coming_back_are_named_by_their_documents(text, trained, run):
    rows = rows_of(text, "Pairs that keep coming back")
    pairs, n = after_iteration_0(run), len(run.iterations_frame()) - 1
    expected = sorted(pairs.itertuples(), key=lambda r: (-r.times, r.Index))[: len(rows)]
    data = {s: read_queries(trained / f"fold/{s}.txt") for s in ("train", "vali")}
    part = {"train": "training", "vali": "validation"}
    for cells, r in zip(rows, expected, strict=True):
        queries = data[r.split]
        names = [f"{queries.docids[d]} (grade {queries.grades[d]})" for d in (r.winner, r.loser)]
        assert cells == [r.qid, part[r.split], *names, f"{r.times} of {n}"]


def test_without_the_data_the_page_has_what_the_store_keeps(tmp_path):
    with open_store(tmp_path / "old.db") as store:
        made = made_run(store)
        for iteration in range(3):
            record(made, iteration)
        text = render(made)
    assert re.findall(r"<h2[^>]*>(.*?)</h2>", text) == [*TITLES[:2], *TITLES[3:]]
    rows = rows_of(text, "Pairs that keep coming back")
    assert rows[0] == ["q", "training", "place 0", "place 1", "2 of 2"]
    assert "Rows are named by their place" in text
    assert rows_of(text, "Higher is")[-1] == ["validation", "this model", "0.2500"]
    assert "not recorded" in Page(text).words  # the data's fingerprints


@pytest.mark.parametrize("iterations", [1, 2])
def test_in_one_iteration_no_pair_comes_back_and_the_first_counts_for_nothing(tmp_path, iterations):
    with open_store(tmp_path / "s.db") as store:
        run = made_run(store)
        for iteration in range(iterations):
            record(run, iteration)
        text = render(run)
    assert "keep coming back" not in text
    assert ("The hardest" in text) == (iterations == 2)
    assert ("No pair was wrong after iteration 0" in text) == (iterations == 1)


def test_what_is_needed_to_do_it_again_is_in_the_fold(text, run):
    words = Page(text.split("<details")[1].join(["<details", ""]).split("</main>")[0]).words
    about = [run.command, *run.versions.values(), f"the seed is {run.seed}"]
    about += [facts[key] for facts in run.data.values() for key in ("path", "fingerprint")]
    about += ["training.epochs 9", "gain 2^r-1, discount log2(1+rank)"]
    assert [value for value in about if value not in words] == []


def test_the_conventions_count_the_queries_without_a_relevant_document(text, trained):
    grades = [line.split()[:2] for line in (trained / "fold/vali.txt").read_text().splitlines()]
    relevant = {qid for grade, qid in grades if grade != "0"}
    n = len({qid for _, qid in grades})
    assert f"counted zero: {n - len(relevant)} of {n}" in text


def test_ids_and_paths_are_text_whatever_they_hold(tmp_path):
    with open_store(tmp_path / "nasty.db") as store:
        made = made_run(store, qid=NASTY, docid=NASTY, command=f"sortnet {NASTY}")
        for iteration in range(3):
            record(made, iteration)
        made.finish("done")
        text = render(made, Sources(missing=NASTY))
    page = Page(text)
    assert page.of("script") == []
    assert page.words.count("<script>alert('$x_{$')</script>&\"q") >= 5


def test_columns_and_documents_of_a_hostile_name_are_text_in_pictures_and_tables(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    header = 'search,id,"<script>$x_{$",grade\n'
    rows = [f"s{k // 4},<b>{k}</b>,{k % 4},{k % 3}\n" for k in range(120)]
    Path("t.csv").write_text(header + "".join(rows))
    done("train", "t.csv", "--query", "search", "--out", "m", "--store", "s.db", *FAST)
    page = Page(done("report", "last", "--store", "s.db", "-o", "-"))
    assert page.of("script") == page.of("b") == []
    assert "(grade 2)" in page.words
    for image in page.of("img"):
        svg = base64.b64decode(image["src"].partition(",")[2])
        assert not [e for e in ElementTree.fromstring(svg).iter() if e.tag.endswith("script")]


@pytest.mark.parametrize(
    ("status", "said"),
    [("running", "was running"), ("interrupted", "was interrupted"), ("failed", "failed")],
)
def test_a_run_that_has_not_ended_well_says_so_and_how_to_go_on(
    trained, unmeasured, tmp_path, status, said
):
    shutil.copy(trained / "s.db", tmp_path / "s.db")
    with open_store(tmp_path / "s.db") as store:
        store.run("last").finish(status)
        done("report", "last", "--store", tmp_path / "s.db", "--queries", "0", "-o", tmp_path / "r")
        shown = invoke("show", "last", "--store", tmp_path / "s.db").stderr
    words = Page((tmp_path / "r").read_text()).words
    assert said in words
    assert ("before its learning rate came down" in words) == (status != "running")
    assert f"sortnet train --resume --out {trained / 'm'}" in words
    message = "the learning rate has not come down"
    assert (message in shown) == (status != "running")


def test_a_model_or_data_that_went_elsewhere_are_told_and_can_be_named(trained, tmp_path):
    store = tmp_path / "s.db"
    shutil.copy(trained / "s.db", store)
    moved = tmp_path / "moved"
    shutil.copytree(trained / "fold", moved)
    shutil.copytree(trained / "m", tmp_path / "m")
    with open_store(store) as opened:
        from sqlalchemy import update

        from store.database.schema import RunRow

        data = opened.run("last").data
        gone = {s: {**facts, "path": f"gone/{s}.txt"} for s, facts in data.items()}
        with opened.database.transaction(write=True) as connection:
            connection.execute(update(RunRow).values(out="gone/m", data=gone))
    out = tmp_path / "r.html"
    (told,) = invoke("report", "last", "--store", store, "-o", out).stderr.splitlines()
    page = Page(out.read_text())
    for name in ("gone/m", "gone/train.txt", "gone/vali.txt", "--model", "--data"):
        assert name in told and name in page.words
    assert "What decides" not in page.words
    named = ("--model", tmp_path / "m", "--data", moved / "vali.txt")
    done("report", "last", "--store", store, "-o", out, *named)
    page = Page(out.read_text())
    assert "What decides" in page.words
    assert "gone/train.txt" in page.words and "--model" not in page.words


def test_another_run_s_model_or_data_are_refused_by_name(trained, tmp_path):
    (tmp_path / "other.txt").write_text(letor(4, 9))
    message = fault("report", "last", "--data", tmp_path / "other.txt", "-o", tmp_path / "r")
    assert "other.txt" in message and "other content" in message
    shutil.copytree(trained / "m", tmp_path / "m")
    path = tmp_path / "m/model.json"
    about = json.loads(path.read_text())
    about["info"]["run"] = "0123456789ab"
    path.write_text(json.dumps(about))
    message = fault("report", "last", "--model", tmp_path / "m", "-o", tmp_path / "r")
    assert "the model of run 0123456789ab" in message
    assert not (tmp_path / "r").exists()


def test_changed_data_are_not_taken_for_the_run_s(trained, unmeasured, tmp_path, monkeypatch):
    monkeypatch.chdir(copy_run(trained, tmp_path / "work"))
    with Path("fold/vali.txt").open("a") as file:
        file.write("0 qid:new 1:0\n")
    words = Page(done("report", "last", "-o", "-")).words
    assert "vali.txt: its content differs from what the run read" in words


def test_without_output_the_file_is_named_for_the_run(
    tmp_path, trained, unmeasured, run, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    message = done("report", "last", "--store", trained / "s.db", "--queries", "0")
    assert message == f"report-{run.id}.html\n"
    assert (tmp_path / message.strip()).read_text().startswith("<!doctype html>")


def test_a_place_that_cannot_be_written_keeps_no_part_of_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    assert "cannot write" in fault("report", "last", "-o", tmp_path / "file" / "r.html")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("status", "step"),
    [("running", "follow it: sortnet show "), ("interrupted", "resume it: x")],
)
def test_a_run_without_an_iteration_is_refused_with_the_next_step(tmp_path, status, step):
    with open_store(tmp_path / "s.db") as store:
        made_run(store).finish(status)
        message = fault("report", "last", "--store", tmp_path / "s.db")
    assert "no iteration yet" in message and step in message


@pytest.mark.slow
@pytest.mark.skipif(not MQ2008.exists(), reason="needs MQ2008 Fold1")
def test_a_report_of_mq2008_fold1_is_under_a_megabyte(tmp_path):
    fast = (*FAST[:-2], "--epochs", "1", "--max-iter", "2")
    done("train", MQ2008, "--out", tmp_path / "m", "--store", tmp_path / "s.db", *fast)
    done("report", "last", "--store", tmp_path / "s.db", "-o", tmp_path / "r.html")
    assert 100_000 < (tmp_path / "r.html").stat().st_size < 1_000_000
