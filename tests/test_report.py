"""sortnet report: one file that needs nothing else, says what the store says, and escapes it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from cli_helpers import FAST, copy_run, done, fault, invoke, letor, make_fold
from pair_tables import table
from test_web_browser import seen, violations

from sortnet import Queries
from sortnet.rankers.sortnet import Model
from store import Run, open_store
from store.frames import measure_names
from store.report import run_page
from store.report.run_page import PLOTS, render
from store.report.sources import Sources

MQ2008 = Path(__file__).resolve().parents[2] / "shared/data/mq2008/Fold1"
VOID = {"meta", "img", "br", "link", "hr", "input"}
NASTY = "<script>alert('$x_{$')</script>&\"q"


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


@pytest.fixture(autouse=True)
def _there(trained, monkeypatch):
    monkeypatch.chdir(trained)
    monkeypatch.setenv("SORTNET_STORE", "s.db")


@pytest.fixture(scope="module")
def text(trained, tmp_path_factory) -> str:
    """The page with all that there is on it, which takes seconds to draw."""
    to = tmp_path_factory.mktemp("page") / "r.html"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(trained)
        done("report", "last", "--store", "s.db", "-o", to)
    return to.read_text(encoding="utf-8")


@pytest.fixture
def few_plots(monkeypatch):
    """Only two of the plots of a run: what is tested is not among them."""
    monkeypatch.setattr(run_page, "PLOTS", PLOTS[:2])


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


def test_every_plot_is_there_once_and_every_picture_is_well_formed_and_told(text):
    page = Page(text)
    images = page.of("img")
    assert len(images) == len(PLOTS) + 6  # and three queries of each part
    for image in images:
        svg = ElementTree.fromstring(base64.b64decode(image["src"].partition(",")[2]))
        assert svg.tag.endswith("svg")
        assert len(image["alt"]) > 20
    for plot in PLOTS:
        assert plot.title in page.words


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 390)])
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
        assert violations(driver) == []


def test_the_table_of_iterations_is_the_store_s(text, run):
    body = text.split('<section id="iterations"')[1].split("<tbody>")[1].split("</tbody>")[0]
    rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in body.split("</tr>")[:-1]]
    frame = run.iterations_frame()
    first = measure_names(frame)[0]
    assert len(rows) == len(frame)
    for cells, row in zip(rows, frame.to_dict("records"), strict=True):
        kept = " (kept)" if row["iteration"] == frame.attrs["kept"] else ""
        assert cells[0] == f"{row['iteration']}{kept}"
        assert cells[1] == f"{row['comparisons_train'] + row['comparisons_vali']:,}"
        assert cells[5:7] == [f"{row['tp']:,}", f"{row['vp']:,}"]
        assert cells[7:9] == [f"{row[f'{split}_{first}']:.4f}" for split in ("train", "vali")]


def after_iteration_0(run: Run, split: str | None = None) -> pd.DataFrame:
    """The pairs that were wrong later than by chance, and how often."""
    pairs = run.pairs_frame(split)
    pairs["times"] -= (pairs["first_wrong"] == 0).astype(int)
    return pairs[pairs["times"] > 0]


def test_the_hardest_queries_are_those_of_the_most_mistakes_after_iteration_0(text, run):
    n = len(run.iterations_frame()) - 1
    assert n > 1
    shown = re.findall(r"Query <bdi>(\S+)</bdi> <small>\((\w+)\)", text)
    counted = rf"<p>(\d+) pairs were wrong, (\d+) times in all, in the {n} iterations from 1 on"
    counts = re.findall(counted, text)
    for part, split in (("validation", "vali"), ("training", "train")):
        pairs = after_iteration_0(run, split)
        totals = pairs.groupby("qid", observed=True)["times"].agg(["size", "sum"])
        mine = [q for q, p in shown if p == part]
        assert len(mine) == 3
        rest = totals.drop(mine)["sum"].max()
        assert totals.loc[mine, "sum"].min() >= rest
        for (qid, p), (size, times) in zip(shown, counts, strict=True):
            if p == part:
                assert (int(size), int(times)) == tuple(totals.loc[qid])


def table_of(text: str, section: str) -> tuple[str, list[list[str]]]:
    """The caption and the cells of a section's first table."""
    body = text.split(f'<section id="{section}"')[1].split("</table>")[0]
    caption = re.search(r"<caption>(.*?)</caption>", body)[1]
    rows = body.split("<tbody>")[1].split("</tr>")[:-1]
    return caption, [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in rows]


def test_pairs_that_keep_coming_back_are_named_by_their_documents(text, trained, run):
    from sortnet.data import read_queries

    caption, rows = table_of(text, "recurring")
    pairs, n = after_iteration_0(run), len(run.iterations_frame()) - 1
    expected = sorted(pairs.itertuples(), key=lambda r: (-r.times, r.Index))[:20]
    as_often = (pairs["times"] >= expected[-1].times).sum()
    assert f": 20 of {as_often} that" in caption and "place" not in caption
    data = {s: read_queries(trained / f"fold/{s}.txt") for s in ("train", "vali")}
    part = {"train": "training", "vali": "validation"}
    for cells, r in zip(rows, expected, strict=True):
        queries = data[r.split]
        grades = " &gt; ".join(str(queries.grades[d]) for d in (r.winner, r.loser))
        docids = [queries.docids[d] for d in (r.winner, r.loser)]
        assert cells[:6] == [r.qid, part[r.split], *docids, grades, f"{r.times} of {n}"]


def test_pairs_of_data_that_are_gone_are_named_by_their_places(tmp_path):
    with open_store(tmp_path / "old.db") as store:
        made = made_run(store)
        for iteration in range(3):
            record(made, iteration)
        text = render(made)
        caption, rows = table_of(text, "recurring")
    assert "named by their place" in caption
    assert rows[0] == ["q", "training", "place 0", "place 1", "2 of 2", "0 to 2"]


@pytest.mark.parametrize("iterations", [1, 2])
def test_in_one_iteration_no_pair_comes_back_and_the_first_counts_for_nothing(
    tmp_path, few_plots, iterations
):
    with open_store(tmp_path / "s.db") as store:
        run = made_run(store)
        for iteration in range(iterations):
            record(run, iteration)
        text = render(run)
    assert 'id="recurring"' not in text
    assert ('id="hardest"' in text) == (iterations == 2)
    assert ("2 pairs were wrong, 2 times in all, in iteration 1" in text) == (iterations == 2)


def test_documents_stand_in_the_model_s_order_with_their_grades(text, trained):
    from sortnet.data import read_queries

    queries, model = read_queries(trained / "fold/vali.txt"), Model.load(trained / "m")
    article = text.split("<article>")[1]
    qid = re.search(r"Query <bdi>(\S+)</bdi> <small>\(validation\)", article)[1]
    one = queries.take(np.flatnonzero(queries.qids == qid))
    body = article.split("<tbody>")[1].split("</tbody>")[0]
    found = re.findall(r"<td>(\d+)</td><th[^>]*>(\S+)</th><td>(\d)</td><td>(\d+)</td>", body)
    order = model.sort(one).order
    assert [doc for _, doc, _, _ in found] == one.docids[order].tolist()
    assert [int(grade) for _, _, grade, _ in found] == one.grades[order].tolist()
    assert sorted(int(before) for *_, before in found) == list(range(1, one.n_docs + 1))


def test_what_is_needed_to_do_it_again_is_there(text, run):
    words = Page(text).words
    about = [run.command, *run.versions.values(), f"the seed is {run.seed}"]
    about += [facts[key] for facts in run.data.values() for key in ("path", "fingerprint")]
    assert [value for value in about if value not in words] == []
    setting = r"training\.epochs</th><td class=\"text\" dir=\"auto\">9</td>"
    assert re.search(setting, text)


def test_the_conventions_count_the_queries_without_a_relevant_document(text, trained):
    grades = [line.split()[:2] for line in (trained / "fold/vali.txt").read_text().splitlines()]
    relevant = {qid for grade, qid in grades if grade != "0"}
    n = len({qid for _, qid in grades})
    assert f"validation: gain 2^r-1, discount log2(1+rank)" in text  # noqa: F541
    assert f"counted zero: {n - len(relevant)} of {n}" in text


def test_ids_and_paths_are_text_whatever_they_hold(tmp_path):
    with open_store(tmp_path / "nasty.db") as store:
        made = made_run(store, qid=NASTY, docid=NASTY, command=f"sortnet {NASTY}")
        record(made)
        record(made, 1)
        made.finish("done")
        text = render(made, Sources(notes=[NASTY]), [NASTY])
    page = Page(text)
    assert page.of("script") == []
    assert page.words.count("<script>alert('$x_{$')</script>&\"q") >= 5
    assert any(NASTY in (image["alt"] or "") for image in page.of("img"))
    for image in page.of("img"):
        svg = base64.b64decode(image["src"].partition(",")[2])
        assert not [e for e in ElementTree.fromstring(svg).iter() if e.tag.endswith("script")]


def test_documents_of_a_hostile_name_are_text_in_pictures_and_tables(
    tmp_path, few_plots, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    make_fold(tmp_path / "fold")
    for name in ("train", "vali"):
        path = tmp_path / f"fold/{name}.txt"
        path.write_text(path.read_text().replace("docid = d", "docid = <script>$x_{$--</script>"))
    done("train", "fold", "--out", "m", "--store", "s.db", *FAST)
    done("report", "last", "--store", "s.db", "--queries", "1", "-o", "r.html")
    page = Page((tmp_path / "r.html").read_text())
    assert page.of("script") == []
    assert "<script>$x_{$--</script>" in page.words
    for image in page.of("img"):
        ElementTree.fromstring(base64.b64decode(image["src"].partition(",")[2]))


@pytest.mark.parametrize(
    ("status", "said"),
    [("running", "was running"), ("interrupted", "was interrupted"), ("failed", "failed")],
)
def test_a_run_that_has_not_ended_well_says_so_and_how_to_go_on(
    trained, few_plots, tmp_path, status, said
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


def test_a_run_of_an_older_version_has_its_pictures_but_those_it_kept_nothing_for(tmp_path):
    with open_store(tmp_path / "old.db") as store:
        made = made_run(store)
        record(made)
        record(made, 1)
        made.finish("done")
        page = Page(render(made))
    assert len(page.of("img")) == len(PLOTS) - 3
    for plot in PLOTS:
        if plot.function in ("margins", "mistakes_by_rank", "cycles"):
            assert f"{plot.title}: nothing to draw" in page.words
    assert "not recorded" in page.words  # the data's fingerprints


def test_a_model_or_data_that_went_elsewhere_are_told_and_can_be_named(
    trained, few_plots, tmp_path
):
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
    done("report", "last", "--store", store, "-o", out)
    page = Page(out.read_text())
    assert len(page.of("img")) == len(run_page.PLOTS)
    for name in ("gone/m", "gone/train.txt", "gone/vali.txt", "--model", "--data"):
        assert name in page.words
    named = ("--model", tmp_path / "m", "--data", moved / "vali.txt")
    done("report", "last", "--store", store, "-o", out, *named)
    page = Page(out.read_text())
    assert len(page.of("img")) == len(run_page.PLOTS) + 3
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


def test_changed_data_are_not_taken_for_the_run_s(trained, few_plots, tmp_path, monkeypatch):
    monkeypatch.chdir(copy_run(trained, tmp_path / "work"))
    with Path("fold/vali.txt").open("a") as file:
        file.write("0 qid:new 1:0\n")
    done("report", "last", "-o", "r.html")
    assert (
        "vali.txt: its content differs from what the run read"
        in Page(Path("r.html").read_text()).words
    )


def test_without_output_the_file_is_named_for_the_run(
    tmp_path, trained, few_plots, run, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    message = done("report", "last", "--store", trained / "s.db", "--queries", "0")
    assert message == f"report-{run.id}.html\n"
    assert (tmp_path / message.strip()).read_text().startswith("<!doctype html>")


def test_on_stdout_there_is_the_page_alone(few_plots):
    assert Page(done("report", "last", "-o", "-", "--queries", "0")).of("h1")


def test_a_place_that_cannot_be_written_keeps_no_part_of_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    assert "cannot write" in fault("report", "last", "-o", tmp_path / "file" / "r.html")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


class TestBadInput:
    @pytest.mark.parametrize(
        ("status", "step"),
        [("running", "follow it: sortnet show "), ("interrupted", "resume it: x")],
    )
    def test_no_iteration_yet(self, tmp_path, status, step):
        with open_store(tmp_path / "s.db") as store:
            made_run(store).finish(status)
            message = fault("report", "last", "--store", tmp_path / "s.db")
        assert "no iteration yet" in message and step in message


@pytest.mark.slow
@pytest.mark.skipif(not MQ2008.exists(), reason="needs MQ2008 Fold1")
def test_a_report_of_mq2008_fold1_is_under_five_megabytes(tmp_path):
    fast = (*FAST[:-2], "--epochs", "1", "--max-iter", "2")
    done("train", MQ2008, "--out", tmp_path / "m", "--store", tmp_path / "s.db", *fast)
    done("report", "last", "--store", tmp_path / "s.db", "-o", tmp_path / "r.html")
    assert 200_000 < (tmp_path / "r.html").stat().st_size < 5_000_000
