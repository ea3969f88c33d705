"""A result has several faces: the command, the admin page and the report show the same figures."""

from __future__ import annotations

import random
import re
from dataclasses import asdict
from pathlib import Path

import pytest
from cli_helpers import done
from collection_helpers import made_items

from cli.web.admin_state import PEOPLE_HEADS, AdminState
from cli.web.pages import People
from cli.web.ranking_rows import View
from cli.web.replies import render_tables
from sortnet.preference import Judgement
from sortnet.preference.annotator_agreement import agreement, agreement_by_group
from sortnet.preference.judgement_table import Judgements
from sortnet.preference.study import Decision
from store import open_store
from store.report.annotator_figures import TITLES, Interval, figures_of
from store.service.annotators import report_annotators
from store.service.labelling import LabellingService


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store s.db with a collection of ten items, judged by two people."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SORTNET_STORE", "s.db")
    drawn = random.Random(0)
    with open_store("s.db") as store:
        collection = store.add_items("essays", made_items(10))
        judgements = []
        for k in range(80):
            left, right = drawn.sample(range(10), 2)
            answer = "left" if left + drawn.gauss(0, 2) > right else "right"
            judgements.append(Judgement.of(("ana", "ben")[k % 2], (left, right), answer))
        collection.append(judgements)
        collection.decide(Decision("top", amount=3))
        People(collection)


def admin_tables() -> str:
    """The tables of the admin page as HTML."""
    with open_store("s.db") as store:
        collection = store.collection("essays")
        service = LabellingService(collection)
        service.settle()
        state = AdminState(service, People(collection))
        html = render_tables("/admin", None, state.template_variables(View()))["html"]
    assert isinstance(html, str)
    return html


def cells_of(html: str, table: str) -> list[list[str]]:
    """The text of each cell of a table, row by row."""
    body = re.search(rf'<template data-into="#{table} tbody">(.*?)</template>', html, re.DOTALL)
    assert body is not None
    rows = re.findall(r"<tr>(.*?)</tr>", body[1], re.DOTALL)
    cells = [re.findall(r"<t[dh][ >].*?</t[dh]>", row, re.DOTALL) for row in rows]
    return [[re.sub(r"<[^>]+>", " ", cell).strip() for cell in row] for row in cells]


def numbers_in(text: str) -> list[float]:
    """The numbers in a text; a percentage is a share."""
    pairs = re.findall(r"(-?\d+(?:\.\d+)?)( ?%)?", text)
    return [float(number) / 100 if percent else float(number) for number, percent in pairs]


def test_the_admin_page_has_the_figures_of_the_command():
    with open_store("s.db", write=False) as store:
        reports = report_annotators(store.collection("essays")).reports
    printed = done("annotators", "essays").splitlines()
    rows = cells_of(admin_tables(), "people")
    first = [title for title, _ in PEOPLE_HEADS].index("Reliability")
    for row, report, line in zip(rows, reports, printed[1:], strict=True):
        assert row[0] == report.name and line.startswith(report.name)
        cells = row[first : first + len(TITLES)]
        for cell, figure in zip(cells, figures_of(asdict(report)), strict=True):
            if figure is None:
                assert cell == "–"
            elif isinstance(figure, Interval):
                texts = (figure.value, figure.low, figure.high)
                assert numbers_in(cell) == [float(text) for text in texts]
                assert f"{figure.value} [{figure.low},{figure.high}]" in line
            else:
                shares = [figure.observed, figure.expected]
                assert numbers_in(cell) == pytest.approx(shares, abs=0.005)
                assert figure.text() in line


def test_the_titles_of_the_figures_are_the_same_everywhere():
    header = " ".join(done("annotators", "essays").splitlines()[0].split())
    assert " ".join(TITLES) in header
    titles = [title.lower() for title, _ in PEOPLE_HEADS]
    assert all(any(title in head for head in titles) for title in TITLES)
    heads = re.findall(r"<th[^>]*>([^<]*)</th>", done("report", "essays", "--output", "-"))
    shown = [head for head in heads if head in TITLES]
    assert shown == [title for title in TITLES if title != "gold"]  # there are no gold pairs


def test_agreement_by_group_is_that_of_the_judgements_of_each_group():
    drawn = random.Random(1)
    groups = [f"g{k % 4}" for k in range(16)]
    judgements = []
    for _ in range(200):
        left = drawn.randrange(12)  # the last four items have no judgement
        answer = drawn.choice(["left", "right", "tie"])
        pair = left, (left + 4) % 12
        judgements.append(Judgement.of(drawn.choice(["ana", "ben"]), pair, answer))
    by_group = agreement_by_group(Judgements.of(judgements), groups)
    assert dict(by_group) == {
        name: agreement([one for one in judgements if groups[one.left] == name])
        for name in set(groups)
    }
    alphas = [measured.krippendorff_alpha for _, measured in by_group]
    assert alphas == sorted(alphas, key=lambda alpha: (alpha is None, alpha))
