"""Reports from Python: the page of a sorted collection and of a run, without the command line."""

from __future__ import annotations

import io

import pytest
from test_report import Page

import sortnet
from store import open_store
from store.report.subject_page import report

TEXTS = ["pear", "fig", "blackcurrant", "kiwi fruit"]
BY_LENGTH = sorted(TEXTS, key=len, reverse=True)


def is_longer(left: str, right: str) -> str:
    return "left" if len(left) > len(right) else "right"


def test_a_page_never_replaces_the_store_that_it_is_about(tmp_path):
    store = tmp_path / "fruit.db"
    found = sortnet.sort(TEXTS, judge=is_longer, store=store, progress=False)
    with pytest.raises(sortnet.SortNetError, match="that is a database, and would be lost"):
        found.report(store)
    with pytest.raises(sortnet.SortNetError, match="about a run or a collection"):
        report("last")
    with pytest.raises(sortnet.SortNetError, match="there is no folder"):
        found.report(tmp_path / "none" / "page.html")


def test_a_sort_writes_a_page_that_has_its_question_judge_goal_and_ranking(tmp_path):
    question = "Which is longer?"
    found = sortnet.sort(TEXTS, judge=is_longer, question=question, top=2, progress=False)
    found.report(tmp_path / "lengths.html")
    page = Page((tmp_path / "lengths.html").read_text(encoding="utf-8"))
    first, second = BY_LENGTH[:2]
    table = page.words.split("Ranking: ", 1)[1]
    assert found.items[:2] == [first, second] and table.index(first) < table.index(second)
    assert question in page.words and "is_longer" in page.words
    assert f"{found.answered_in_all} by 1 judge" in page.words
    assert found.status[1:] in page.words  # the first letter of the sentence is a capital there


def test_the_page_of_a_run_is_written_from_another_folder(own_trained, monkeypatch, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    with open_store(own_trained / "s.db", write=False) as store:
        run = store.run("last")
        page = io.StringIO()
        report(run, page)
    assert f"SortNet run {run.id}" in Page(page.getvalue()).words
