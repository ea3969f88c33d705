"""sortnet report COLLECTION: how reliable a ranking is, on one page and as JSON."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import pytest
from cli_helpers import done, fault, invoke
from result_helpers import value_of
from test_report import NASTY, Page
from test_web_browser import seen, violations

from sortnet.preference import Judgement
from sortnet.preference.stopping import Standing
from store import open_store
from store.report.collection_facts import facts_of_criteria
from store.report.collection_page import render
from store.report.growth import growth_of
from store.service.labelling import LabellingService

N = 8


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SORTNET_STORE", "s.db")
    rows = ["id,text", *(f"t{k},text number {k}" for k in range(N))]
    Path("t.csv").write_text("\n".join(rows) + "\n")
    done("items", "add", "t", "t.csv")
    return tmp_path


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
    answer(*by_score("big", p=0.2, cost=0.5, meta=meta))
    answer(*by_score("ana", milliseconds=2000), *by_score("tool", cost=0.0), *by_score("import"))
    done("ask", "t", "--kind", "big", "model", "--kind", "tool", "model")
    found = facts()
    by_name = {judge["name"]: judge for judge in found["judges"]}
    pairs = N * (N - 1) // 2
    assert {by_name[name]["kind"] for name in ("ana", "import")} == {"person"}
    assert {by_name[name]["kind"] for name in ("big", "tool")} == {"model"}
    assert (found["answers"], found["calls"]) == (4 * pairs, 2 * pairs)
    assert (found["tokens_in"], found["tokens_out"]) == (100 * pairs, 2 * pairs)
    assert found["cost"] == pytest.approx(0.5 * pairs)
    assert by_name["import"]["cost"] is None and by_name["tool"]["cost"] == 0
    assert found["agreement"]["krippendorff_alpha"] == 1
    assert [row["id"] for row in found["ranking"]] == [f"t{k}" for k in reversed(range(N))]
    assert all(row["among_top"] == 1 for row in found["ranking"])  # of fewer than ten

    assert done("report", "t") == "report-t.html\n"
    words = Page(Path("report-t.html").read_text()).words
    for text in ("Which is better?", f"{2 * pairs:,}, {102 * pairs:,} tokens", "text number 7",
                 "100 %", "Held-out accuracy", "Krippendorff's alpha of 1.00"):  # fmt: skip
        assert text in words


def test_the_top_is_as_asked_for_and_its_probabilities_add_up():
    answer(*by_score("ana"), *by_score("ben"))
    found = facts("--top", 3)
    assert [row["id"] for row in found["ranking"]] == ["t7", "t6", "t5"]
    assert found["top"] == 3 and all(0 < row["among_top"] <= 1 for row in found["ranking"])
    low, high = zip(*((row["low"], row["high"]) for row in found["ranking"]), strict=True)
    assert low[0] == 1 and max(high) <= N
    done("report", "t", "--top", 3, "-o", "r.html")
    assert "the top 3" in Page(Path("r.html").read_text()).words


def test_pairs_in_doubt_have_the_reasons_of_the_judges():
    answer(*by_score("ana"))
    answer(Judgement.of("big", (0, 7), "left", comment="t0 is shorter", p=0.75))
    first, *_ = facts()["in_doubt"]
    assert first["disputed"] and {first["first"]["id"], first["second"]["id"]} == {"t0", "t7"}
    [ana, big] = first["answers"]
    assert (ana["prefers"], ana["p_first"], ana["reason"]) == ("t7", None, None)
    assert (big["prefers"], big["reason"]) == ("t0", "t0 is shorter")
    assert big["p_first"] == (0.75 if first["first"]["id"] == "t0" else 0.25)
    done("report", "t")
    assert "t0 is shorter" in Page(Path("report-t.html").read_text()).words


def test_what_anybody_wrote_is_text():
    Path("n.csv").write_text(f'id,text\na,"{NASTY.replace(chr(34), chr(34) * 2)}"\nb,b\n')
    Path("rules.md").write_text(NASTY)
    done("items", "add", "n", "n.csv")
    done("ask", "n", "--question", NASTY, "--instructions", "rules.md")
    answer(Judgement.of(NASTY, (0, 1), "left", comment=NASTY, meta='"' * 3 + NASTY), name="n")
    text = done("report", "n", "-o", "-")
    page = Page(text)
    assert len(page.of("script")) == 2 and NASTY not in text  # the table's rows, and its script
    assert page.words.count("<script>alert('$x_{$')</script>&\"q") >= 5
    assert value_of(done("report", "n", "--json"))["question"] == NASTY


@pytest.mark.parametrize(
    "meta", ['{"model": 3, "tokens": "x"}', '{"model": "m", "tokens": [1, "2"], "calls": -1}',
             '{"model": "m", "calls": 1e300}', "[1]", "[" * 900, "nonsense"],
)  # fmt: skip
def test_a_meta_of_any_form_is_no_fault(meta):
    answer(Judgement.of("x", (0, 1), "left", meta=meta))
    assert facts()["tokens_out"] == 0


def test_groups_have_a_top_each_and_criteria_a_part_each():
    rows = [f"g{k},text {k},group {k % 2}" for k in range(8)]
    Path("g.csv").write_text("\n".join(["id,text,of", *rows]) + "\n")
    done("items", "add", "g", "g.csv", "--group", "of")
    found = value_of(done("report", "g", "--json", "--top", 2))
    assert [row["group"] for row in found["ranking"]] == ["group 0"] * 2 + ["group 1"] * 2
    assert "group 1" in Page(done("report", "g", "-o", "-")).words
    done("ask", "t", "--criterion", "short")
    done("ask", "t", "--criterion", "kind")
    both = value_of(done("report", "t", "--json"))
    assert [part["criterion"] for part in both] == ["short", "kind"]
    page = Page(done("report", "t", "-o", "-"))
    ids = [tag["id"] for tag in page.of("section")]
    assert len(ids) == len(set(ids)) and {link["href"][1:] for link in page.of("a")} < set(ids)
    assert re.findall(r"<a [^>]*>(.*?)</a>", done("report", "t", "-o", "-")) == ["short", "kind"]


def test_nobody_has_answered_yet():
    words = Page(done("report", "t", "-o", "-")).words
    assert "Nobody has answered yet." in words and "cycl" not in words
    assert facts()["judges"] == [] and facts()["in_doubt"] == []


def test_a_name_of_a_run_and_a_collection_is_told(trained, tmp_path, monkeypatch):
    import shutil

    shutil.copy(trained / "s.db", "both.db")
    monkeypatch.setenv("SORTNET_STORE", "both.db")
    with open_store("both.db") as store:
        run = store.run("last").id
    for name in ("last", run, run[:3]):
        done("items", "add", name, "t.csv")
    for name in ("last", run):
        result = invoke("report", name, "--json")
        assert result.exit_code == 2 and "--json is for a collection" in result.stderr
        assert f"run {run} is taken; the collection: sortnet report collection:{name}" in (
            result.stderr
        )
        assert value_of(done("report", f"collection:{name}", "--json"))["collection"] == name
    result = invoke("report", run[:3])
    assert result.stdout == f"report-{run[:3]}.html\n"
    assert f"collection {run[:3]} is taken; the run: sortnet report {run}" in result.stderr


def test_options_of_the_other_kind_and_unknown_names_are_refused(tmp_path):
    assert "are for a run" in fault("report", "t", "--model", "m")
    assert "leave out --output" in fault("report", "t", "--json", "-o", "r.html")
    assert "no collection 'nothing'" in fault("report", "collection:nothing")
    assert "no run 'nothing'; runs: none yet; collections: t" in fault("report", "nothing")


def policy_of(page: Page) -> dict[str, str]:
    (policy,) = [meta["content"] for meta in page.of("meta") if "http-equiv" in meta]
    return dict(rule.split(" ", 1) for rule in policy.split("; "))


def test_the_only_script_that_may_run_is_the_one_that_sorts_the_table():
    answer(*by_score("ana"))
    text = done("report", "t", "-o", "-")
    code = (files("store.report") / "templates" / "ranking.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    assert policy_of(Page(text))["script-src"] == f"'sha256-{digest}'"
    assert f"<script>{code}</script>" in text
    for word in ("fetch(", "innerHTML", "http:", "https:", "eval("):
        assert word not in code


@pytest.mark.slow
def test_all_items_are_in_the_page_and_programs_get_the_top():
    rows = ["id,text", *(f"i{k},text {k}" for k in range(130))]
    Path("many.csv").write_text("\n".join(rows) + "\n")
    done("items", "add", "many", "many.csv")
    answer(*(Judgement.of("ana", (k, k + 1), "left") for k in range(129)), name="many")
    text = done("report", "many", "-o", "-")
    page = Page(text)
    told = re.search(r'<script type="application/json">(.*?)</script>', text, re.DOTALL)
    cells = json.loads(told[1])
    ranked = value_of(done("ranking", "many", "--json"))
    assert [row[1][0] for row in cells] == [row["id"] for row in ranked]
    assert [row[0] for row in cells] == [str(row["rank"]) for row in ranked]
    assert [row[3] for row in cells] == [f"{row['low']}-{row['high']}" for row in ranked]
    assert "Ranking: all 130 items" in page.words
    ranking = text.split('<div class="sortable">')[1].split("</tbody>")[0]
    assert ranking.count('<th scope="row" class="text"') == 100
    assert len(value_of(done("report", "many", "--json"))["ranking"]) == 10
    some = Page(done("report", "many", "-o", "-", "--top", 3)).words
    assert "Ranking: the top 3" in some


def test_instructions_are_formatted_and_nothing_in_them_runs(monkeypatch):
    Path("rules.md").write_text(
        "# Rules\n\n**Be** fair, see [this](https://a.example) and [that](javascript:alert(1)).\n\n"
        "<script>alert(1)</script>\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    )
    done("ask", "t", "--instructions", "rules.md")
    text = done("report", "t", "-o", "-")
    assert "<strong>Be</strong>" in text and "<h3>Rules</h3>" in text and "**" not in text
    assert [link["href"] for link in Page(text).of("a") if link.get("rel")] == ["https://a.example"]
    assert "&lt;script&gt;alert(1)" in text
    monkeypatch.setitem(sys.modules, "store.report.markdown", None)  # as without the extra
    text = done("report", "t", "-o", "-")
    assert "**Be** fair" in text and "&lt;script&gt;alert(1)" in text


def test_a_page_has_pictures_with_words_for_who_cannot_see_them():
    assert Page(done("report", "t", "-o", "-")).of("img") == []  # nobody has answered
    answer(*by_score("ana"), *by_score("ben")[:10])
    images = Page(done("report", "t", "-o", "-")).of("img")
    intervals, growth = (image["alt"] for image in images)
    assert intervals.startswith("Intervals of the ranks. A line for each item")
    assert growth.startswith("After 38 answers the model expects")
    assert all(image["src"].startswith("data:image/svg+xml;base64,") for image in images)


@pytest.mark.parametrize("standing", [standing.name for standing in Standing])
def test_the_tile_of_the_goal_says_what_the_sentence_says(standing):
    answer(*by_score("ana"))
    with open_store("s.db") as store:
        (facts,) = facts_of_criteria(store.collection("t"), pictures=False)
    facts["remaining"]["standing"] = standing.lower().replace("_", "-")
    tile = dict(re.findall(r"<dt>(.*?)</dt><dd[^>]*>(.*?)</dd>", render([facts], "t")))["Goal"]
    if standing in ("UNCHECKED", "CONTRADICTED"):
        assert tile.startswith("seems reached, ")
    else:
        assert (tile == "reached") == (standing in ("REACHED", "ALL_TOP"))


def test_the_interval_of_a_judges_figures_is_small_print():
    answer(*by_score("ana"), *by_score("ben"))
    text = done("report", "t", "-o", "-")
    assert text.count("<small>[") >= 4 and "&lt;small" not in text


def test_a_share_of_a_few_answers_is_no_tile_and_too_few_are_told():
    pairs = by_score("ana")
    answer(*pairs, *by_score("ben")[:3], Judgement.of("ana", (0, 1), "right", strategy="random"))
    page = Page(done("report", "t", "-o", "-"))
    assert page.words.count("Held-out accuracy") == 1  # the sentence, and no tile
    assert "Krippendorff" not in page.words
    assert "Only 3 pairs answered by two judges or more: too few" in page.words


def test_the_growth_of_imported_answers_is_fitted_again_in_their_order():
    answer(*by_score("ana"), *by_score("ben"))
    with open_store("s.db") as store:
        service = LabellingService(store.collection("t"))
        service.settle()
        points = growth_of(service)
    assert [point["answers"] for point in points] == [5, 11, 19, 28, 39, 47, 56]
    assert points[-1]["expected"] == 1 - service.remaining.wrong
    assert points[0]["expected"] < points[-1]["expected"]


@dataclass(frozen=True)
class Report:
    """A report in a file, and the ids of its items by rank."""

    address: str
    ranked: list[str]


@pytest.fixture(scope="module")
def many(tmp_path_factory) -> Report:
    """A report of 250 items."""
    folder = tmp_path_factory.mktemp("many")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("SORTNET_STORE", "s.db")
        rows = ["id,text", *(f"i{k},text {k}" for k in range(250))]
        Path("many.csv").write_text("\n".join(rows) + "\n")
        rules = "# Rules\n\n**Be** fair.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
        Path("rules.md").write_text(rules)
        done("items", "add", "many", "many.csv")
        done("ask", "many", "--instructions", "rules.md")
        answer(*(Judgement.of("ana", (k, k + 1), "left") for k in range(249)), name="many")
        done("report", "many", "-o", "r.html")
        ranked = [row["id"] for row in value_of(done("ranking", "many", "--json"))]
    return Report((folder / "r.html").as_uri(), ranked)


@pytest.mark.browser
def test_a_table_of_many_items_is_sorted_and_searched_in_a_browser(driver, many):
    ranked = many.ranked
    driver.get(many.address)

    def shown() -> list[str]:
        return driver.execute_script(
            "return Array.from(document.querySelectorAll('.sortable tbody strong'), "
            "(id) => id.textContent)"
        )

    def press(words: str) -> None:
        driver.execute_script(
            "Array.from(document.querySelectorAll('button')).find((one) => "
            "one.textContent === arguments[0]).click()",
            words,
        )

    assert shown() == ranked[:100]
    press("Next")
    press("Next")
    assert shown() == ranked[200:]
    press("rank")
    press("rank")  # the second time downwards
    assert shown() == ranked[::-1][:100]
    press("item")
    assert shown()[:3] == ["i0", "i1", "i2"]
    driver.execute_script(
        "const find = document.querySelector('input'); find.value = 'text 24'; "
        "find.dispatchEvent(new Event('input'))"
    )
    assert shown() == ["i24", *(f"i{k}" for k in range(240, 250))]


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 390)])
def test_the_page_of_a_collection_can_be_read_by_who_sees_little(driver, many, scheme, width):
    with seen(driver, scheme, width):
        driver.get(many.address)
        assert violations(driver) == []
