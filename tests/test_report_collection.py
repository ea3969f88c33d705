"""sortnet report COLLECTION: how reliable a ranking is, on one page and as JSON."""

from __future__ import annotations

import json
import re
import sys
from importlib.resources import files
from pathlib import Path

import pandas as pd
import pytest
from cli_helpers import done, fault, invoke
from collection_helpers import made_items
from result_helpers import value_of
from test_report import NASTY, Page, digest_of, policy_of
from test_web_browser import seen, violations

from cli.web.admin_state import PEOPLE_HEADS
from sortnet.preference import Judgement
from store import open_store
from store.report.columns import TITLES
from store.report.html_page import _parser, rendered
from store.service.labelling import LabellingService

N = 8


@pytest.fixture(autouse=True)
def folder(here) -> None:

    rows = ["id,text", *(f"t{k},text number {k}" for k in range(N))]
    Path("t.csv").write_text("\n".join(rows) + "\n")
    done("items", "add", "t", "t.csv")


def answer(*judgements: Judgement, name: str = "t") -> None:
    with open_store("s.db") as store:
        collection = store.collection(name)
        for who in dict.fromkeys(one.annotator for one in judgements):
            collection.annotator(who)
        collection.append(judgements)


def by_score(who: str, **facts) -> list[Judgement]:
    """Every pair, the higher number is better."""
    return [Judgement.of(who, (i, j), "right", **facts) for j in range(N) for i in range(j)]


def facts(*args: object) -> dict:
    return value_of(done("report", "t", "--json", *args))


def test_the_page_and_the_json_say_who_answered_at_what_cost():
    meta = json.dumps({"model": "big", "tokens": [100, 2], "calls": 2})
    answer(*by_score("big", p=0.2, cost=0.5, meta=meta), *by_score("ana", milliseconds=2000))
    done("ask", "t", "--kind", "big", "model")
    found = facts()
    kinds = {judge["name"]: (judge["kind"], judge["cost"]) for judge in found["judges"]}
    assert kinds == {"ana": ("person", None), "big": ("model", pytest.approx(14))}
    sums = {"answers": 56, "calls": 56, "tokens_in": 2800, "tokens_out": 56, "cost": 14}
    assert {name: found[name] for name in sums} == pytest.approx(sums)
    assert done("report", "t") == "report-t.html\n"
    page = Page(Path("report-t.html").read_text())
    for part in ("Which is better?", "2,856", "text number 7", "Krippendorff's alpha of 1.00"):
        assert part in page.words
    alts = " ".join(str(image["alt"]) for image in page.of("img"))
    assert "Intervals of the ranks: the 90 % interval" in alts
    assert "After 56 answers the model expects" in alts


def test_pairs_in_doubt_have_the_reasons_of_the_judges():
    answer(*by_score("ana"))
    answer(Judgement.of("big", (0, 7), "left", comment="t0 is shorter", p=0.75))
    first, *_ = facts()["in_doubt"]
    assert first["disputed"] and {first["first"]["id"], first["second"]["id"]} == {"t0", "t7"}
    [ana, big] = first["answers"]
    assert (ana["prefers"], ana["p_first"], ana["reason"]) == ("t7", None, None)
    assert (big["prefers"], big["reason"]) == ("t0", "t0 is shorter")
    assert big["p_first"] == (0.75 if first["first"]["id"] == "t0" else 0.25)
    assert "t0 is shorter" in Page(done("report", "t", "-o", "-")).words


def test_what_anybody_wrote_is_text():
    pd.DataFrame({"id": ["a", "b"], "text": [NASTY, "b"]}).to_csv("n.csv", index=False)
    Path("rules.md").write_text(NASTY)
    done("items", "add", "n", "n.csv")
    done("ask", "n", "--question", NASTY, "--instructions", "rules.md")
    answer(Judgement.of(NASTY, (0, 1), "left", comment=NASTY, meta='"' * 3 + NASTY), name="n")
    text = done("report", "n", "-o", "-")
    page = Page(text)
    assert len(page.of("script")) == 2 and NASTY not in text  # the table's rows, and its script
    assert page.words.count(NASTY) >= 5
    assert value_of(done("report", "n", "--json"))["question"] == NASTY


@pytest.mark.parametrize(
    "meta", ['{"model": 3, "tokens": "x"}', '{"model": "m", "tokens": [1, "2"], "calls": -1}',
             "[1]", "[" * 900, "nonsense"],
)  # fmt: skip
def test_a_meta_of_any_form_is_no_fault(meta):
    answer(Judgement.of("x", (0, 1), "left", meta=meta))
    assert facts()["tokens_out"] == 0


def test_groups_have_a_top_each_and_criteria_a_part_each():
    with open_store("s.db") as store:
        store.add_items("g", made_items(8, groups=["group 0", "group 1"] * 4))
    found = value_of(done("report", "g", "--json", "--top", 2))
    assert [row["group"] for row in found["ranking"]] == ["group 0"] * 2 + ["group 1"] * 2
    words = Page(done("report", "g", "--top", 2, "-o", "-")).words
    assert "group 1" in words and "the top 2 of each group" in words
    for criterion in ("short", "kind"):
        done("ask", "t", "--criterion", criterion)
    both = value_of(done("report", "t", "--json"))
    assert [part["criterion"] for part in both] == ["short", "kind"]
    text = done("report", "t", "-o", "-")
    page = Page(text)
    ids = [tag["id"] for tag in page.of("section")]
    assert len(ids) == len(set(ids)) and {link["href"][1:] for link in page.of("a")} < set(ids)
    assert re.findall(r"<a [^>]*>(.*?)</a>", text) == ["short", "kind"]


def test_the_titles_of_the_figures_about_annotators_are_the_same_everywhere():
    answer(*by_score("ana") * 2, *by_score("ben"))
    header = " ".join(done("annotators", "t").splitlines()[0].split())
    assert " ".join(TITLES) in header
    titles = [title.lower() for title, _ in PEOPLE_HEADS]  # of the admin page
    assert all(any(title in head for head in titles) for title in TITLES)
    heads = re.findall(r"<th[^>]*>([^<]*)</th>", done("report", "t", "-o", "-"))
    shown = [head for head in heads if head in TITLES]
    assert shown == [title for title in TITLES if title != "gold"]  # there are no gold pairs


def test_nobody_has_answered_yet():
    page = Page(done("report", "t", "-o", "-"))
    assert "Nobody has answered yet." in page.words and page.of("img") == []
    assert facts()["judges"] == [] and facts()["in_doubt"] == []


def test_a_name_of_a_run_and_a_collection_is_told(own_trained):
    with open_store("s.db") as store:
        run = store.run("last").id
        for name in ("last", run[:3]):
            store.add_items(name, made_items(3))
    message = invoke("report", "last", "--json").stderr
    assert "--json is for a collection" in message
    assert f"run {run} is taken; the collection: sortnet report collection:last" in message
    assert value_of(done("report", "collection:last", "--json"))["collection"] == "last"
    message = invoke("report", run[:3]).stderr
    assert f"collection {run[:3]} is taken; the run: sortnet report {run}" in message


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (("t", "--model", "m"), "are for a run"),
        (("t", "--json", "-o", "r.html"), "leave out --output"),
        (("collection:nothing",), "no collection 'nothing'"),
        (("nothing",), "no run 'nothing'; runs: none yet; collections: t"),
    ],
)
def test_options_of_the_other_kind_and_unknown_names_are_refused(args, why):
    assert why in fault("report", *args)


def test_the_only_script_that_may_run_is_the_one_that_sorts_the_table():
    answer(*by_score("ana"))
    text = done("report", "t", "-o", "-")
    code = (files("store.report") / "templates" / "ranking.js").read_text(encoding="utf-8")
    assert policy_of(Page(text))["script-src"] == digest_of(code)
    assert f"<script>{code}</script>" in text
    for word in ("fetch(", "innerHTML", "http:", "https:", "eval("):
        assert word not in code


def test_all_items_are_in_the_page_and_programs_get_the_top(many, monkeypatch):
    monkeypatch.chdir(many)
    text = Path("r.html").read_text()
    told = re.search(r'<script type="application/json">(.*?)</script>', text, re.DOTALL)
    ranked = value_of(done("ranking", "many", "--json"))
    assert [row[1][0] for row in json.loads(told[1])] == [row["id"] for row in ranked]
    ranking = text.split('<div class="sortable">')[1].split("</tbody>")[0]
    assert ranking.count('<th scope="row" class="text"') == 100
    assert len(value_of(done("report", "many", "--json"))["ranking"]) == 10


def test_instructions_are_formatted_and_nothing_in_them_runs(monkeypatch):
    Path("rules.md").write_text("**Be** fair.\n\n<script>alert(1)</script>\n")
    done("ask", "t", "--instructions", "rules.md")
    text = done("report", "t", "-o", "-")
    assert "<strong>Be</strong>" in text and "&lt;script&gt;alert(1)" in text
    rendered.cache_clear()
    _parser.cache_clear()
    monkeypatch.setitem(sys.modules, "markdown_it", None)  # as without the extra
    text = done("report", "t", "-o", "-")
    assert "**Be** fair" in text and "&lt;script&gt;alert(1)" in text


@pytest.fixture(scope="module")
def many(tmp_path_factory) -> Path:
    """A folder with a collection of 250 judged items, and its report."""
    folder = tmp_path_factory.mktemp("many")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("SORTNET_STORE", "s.db")
        with open_store("s.db") as store:
            collection = store.add_items("many", made_items(250))
            collection.append([Judgement.of("ana", (k, k + 1), "left") for k in range(249)])
        done("report", "many", "-o", "r.html")
    return folder


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 360)])
def test_a_table_of_many_items_is_sorted_and_searched_in_a_browser(driver, many, scheme, width):
    with open_store(many / "s.db") as store:
        service = LabellingService(store.collection("many"))
        service.settle()
        ranked = [f"i{item}" for item in service.session.ranking().order]
    with seen(driver, scheme, width):
        driver.get((many / "r.html").as_uri())
        assert violations(driver) == []

        def shown() -> list[str]:
            ids = driver.find_elements("css selector", ".sortable tbody strong")
            return [element.get_attribute("textContent") for element in ids]

        def press(*words: str) -> None:
            for word in words:
                button = driver.find_element("xpath", f"//button[text()='{word}']")
                driver.execute_script("arguments[0].click()", button)

        assert shown() == ranked[:100]
        press("Next", "Next")
        assert shown() == ranked[200:]
        press("rank", "rank")  # the second time downwards
        assert shown() == ranked[::-1][:100]
        press("item")
        assert shown()[:3] == ["i0", "i1", "i2"]
        driver.find_element("css selector", "input").send_keys("text 24")
        assert shown() == ["i24", *(f"i{k}" for k in range(240, 250))]
