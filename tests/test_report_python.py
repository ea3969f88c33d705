"""Reports from Python: the page of a sorted collection and of a run, without the command line."""

from __future__ import annotations

import io
import re

import pytest
from collection_helpers import made_items
from test_report import Page

import sortnet
from sortnet.preference import Judgement
from store import open_store
from store.report.subject_page import report
from store.service.labelling import LabellingService

TEXTS = ["pear", "fig", "blackcurrant", "kiwi fruit"]
BY_LENGTH = sorted(TEXTS, key=len, reverse=True)


def is_longer(left: str, right: str) -> str:
    return "left" if len(left) > len(right) else "right"


def ranked_texts(page: Page) -> list[str]:
    """The texts of the items in the order of the page's table of the ranking."""
    table = page.words.split("Ranking: ", 1)[1]
    mentions = re.findall("|".join(map(re.escape, TEXTS)), table)  # also as the items' ids
    return list(dict.fromkeys(mentions))


def test_a_page_never_replaces_the_store_that_it_is_about(tmp_path):
    store = tmp_path / "fruit.db"
    found = sortnet.sort(TEXTS, judge=is_longer, store=store, progress=False)
    with pytest.raises(sortnet.SortNetError, match="that is a database, and would be lost"):
        found.report(store)
    with pytest.raises(sortnet.SortNetError, match="there is no folder"):
        found.report(tmp_path / "none" / "page.html")


def test_the_run_of_a_labelling_is_reported_as_its_collection(tmp_path):
    with open_store(tmp_path / "s.db") as store:
        collection = store.add_items("essays", made_items(6))
        service = LabellingService(collection)
        collection.annotator("ana")
        collection.append([Judgement.of("ana", (n - 1, n), "right") for n in range(1, 6)])
        service.sync()
        service.settle()
        service.close()
        report(store.run("last"), tmp_path / "page.html")
    words = Page((tmp_path / "page.html").read_text(encoding="utf-8")).words
    assert "The ranking of essays" in words and "Ranking: all 6 items" in words


def test_a_sort_writes_a_page_that_has_its_question_judge_goal_and_ranking(tmp_path):
    question = "Which is longer?"
    found = sortnet.sort(TEXTS, judge=is_longer, question=question, top=2, progress=False)
    found.report(tmp_path / "lengths.html")
    page = Page((tmp_path / "lengths.html").read_text(encoding="utf-8"))
    assert ranked_texts(page)[:2] == found.items[:2] == BY_LENGTH[:2]
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
