"""Studies of the papers: their cells, what is observed, their frames, tables and figures."""

from __future__ import annotations

from collections import Counter
from functools import partial
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cli_helpers import invoke
from letor_folds import write_folds
from result_helpers import value_of

from sortnet.config import Config
from sortnet.lab import cells as cells_module
from sortnet.lab.cells import Cell, Result, keys_of, work_out
from sortnet.lab.entries import entry_of
from sortnet.lab.splits import MadeClasses, OfficialFold
from sortnet.lab.studies import STUDIES, frame_of, points_of
from sortnet.lab.study_points import (
    SIZES,
    Point,
    Size,
    countable,
    iterations,
    learned_pairs,
    neighbours,
)
from sortnet.metrics import evaluate
from sortnet.rankers.fit_ranker import fit_ranker
from sortnet.rankers.sortnet import fit

NAMES = tuple(STUDIES)
TINY = Size(documents=200, tested=150, draws=1, folds=1, step=8, most=1_000, sets=40)
LISTS = MadeClasses(classes=3, features=8, n_train=400, n_test=200, lists=4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folds(tmp_path_factory.mktemp("studied"), folds=3, queries=5, docs=14)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SORTNET_STORE", str(tmp_path / "cells.db"))
    monkeypatch.setitem(SIZES, "small", TINY)

    return partial(invoke, "experiment", "study")


def points(name: str, folder: Path, size: Size) -> list[Point]:
    return points_of(name, None if STUDIES[name].data == "made" else str(folder), size)


@pytest.mark.parametrize("name", NAMES)
def test_no_cell_of_a_study_is_worked_out_twice(name, folder):
    plans = [points(name, folder, SIZES["small"])]
    if STUDIES[name].data == "either":
        plans.append(points_of(name, None, TINY))
    for found in plans:
        assert len({*keys_of([point.cell for point in found])}) == len(found) > 0


def test_the_cells_are_every_value_on_every_fold_or_draw(folder):
    units = Counter(point.cell.ranker.name for point in points("hidden", folder, SIZES["paper"]))
    assert units == {f"sortnet-paper:hidden={h}": 3 for h in (10, 20, 30)}
    noise = points_of("noise", None, SIZES["paper"], seed=7)
    drawn = Counter((point.x, point.cell.split.seed) for point in noise)
    assert drawn == {(x, seed): 1 for x in (0, 0.25, 0.5, 0.75, 1, 1.5) for seed in range(7, 12)}
    assert all(point.cell.split.noise == point.x for point in noise)
    for point in points_of("classes", None, TINY):
        assert point.cell.ranker.changes["hidden"] == (70, point.x)


def result(order: np.ndarray, **about: Any) -> Result:
    return Result(order, about)


def test_a_frame_has_means_and_standard_errors_over_the_cells(folder):
    found, by_hand = [], []
    for point in points("scaling", folder, SIZES["paper"])[:3]:  # one scaling, three folds
        test = point.cell.split.load().test
        order = np.arange(test.n_docs)
        found.append((point, result(order)))
        by_hand.append(evaluate(test, order, "map", empty="skip")["map"])
    frame = frame_of("scaling", found)
    row = frame[frame["measure"] == "MAP"].iloc[0]
    assert row["value"] == pytest.approx(np.mean(by_hand))
    assert row["value_error"] == pytest.approx(np.std(by_hand, ddof=1) / np.sqrt(3))
    assert row["cells"] == 3 and row["scaling"] == "none" and row["series"] == "CmpNN"
    assert frame_of("scaling", found[:1])["value_error"].isna().all()


def test_measures_by_rank_are_those_of_the_ranking(folder):
    point = points("hidden", folder, TINY)[0]
    test = point.cell.split.load().test
    order = np.arange(test.n_docs)
    frame = frame_of("hidden", [(point, result(order))])
    for kind, measure in (("ndcg", "NDCG@n"), ("p", "P@n")):
        own = frame[frame["measure"] == measure]
        expected = evaluate(test, order, [f"{kind}@{n}" for n in range(1, 11)], empty="skip")
        assert own["value"].tolist() == list(expected.values())
        assert own["n"].tolist() == list(range(1, 11))


def test_iterations_are_those_of_the_loop(folder):
    split = OfficialFold(str(folder / "Fold1"))
    cell = Cell(entry_of("sortnet-paper:max_iter=3"), split, quality="map", observe=iterations)
    seen, records = work_out(cell).about["observed"], []
    fold = split.load()
    config = Config().changed(**cell.ranker.changes, quality="map")
    fit(fold.train, fold.vali, config, callbacks=[lambda record, state: records.append(record)])
    values = {
        ("pairs kept", "training"): [record.tp for record in records],
        ("MAP", "validation"): [record.quality for record in records],
        ("share of comparisons wrong", "validation"): [
            record.miscompared_vali / record.comparisons_vali for record in records
        ],
    }
    for (measure, series), expected in values.items():
        assert [row[3] for row in seen if row[:2] == (measure, series)] == expected


def test_shares_of_pairs_are_counted_by_hand(folder):
    split = OfficialFold(str(folder / "Fold1"))
    train = split.load().train
    every = other = 0
    for k in range(len(train)):
        grades = train.grades[train.offsets[k] : train.offsets[k + 1]].tolist()
        every += sum(1 for _ in combinations(grades, 2))
        other += sum(a != b for a, b in combinations(grades, 2))
    assert countable(train) == (every, other)
    ranker = "sortnet:pairs=compared,scaling=query,hidden=4,weight_decay=0.03,max_iter=2,epochs=1"
    seen = work_out(Cell(entry_of(ranker), split, observe=learned_pairs)).about["observed"]
    assert 0.2 < seen["pairs"] <= 1 and 0.2 < seen["answers"] <= 1


def test_neighbours_and_their_classifier_are_those_of_brute_force():
    ranker = "directranker-neighbours:hidden=8,scaling=quantile,loss=squared,epochs=10"
    cell = Cell(entry_of(ranker), LISTS, quality="ndcg@20", observe=neighbours)
    found = work_out(cell)
    seen, fold = found.about["observed"], LISTS.load()
    settings = entry_of(ranker).settings(seed=0, quality="ndcg@20")
    made, test = fit_ranker(fold.train, fold.vali, settings), fold.test
    n = int(test.offsets[1])
    order, g = found.order[:n], made.real_scores(test)
    r = [float(made.margins(test, [order[k]], [order[k + 1]])[0]) for k in range(n - 1)]
    assert seen["r"] == pytest.approx(r, abs=1e-5)
    assert seen["grades"] == test.grades[order].tolist()
    cuts = [(g[order[k]] + g[order[k + 1]]) / 2 for k in seen["peaks"]]
    right = 0
    for doc in range(n, test.n_docs):
        right += sum(g[doc] > cut for cut in cuts) == test.grades[doc]
    assert seen["accuracy"] == pytest.approx(right / (test.n_docs - n), abs=0.01)
    others = test.grades[n:]
    assert seen["majority"] == max(np.mean(others == grade) for grade in range(3))


def test_the_answers_that_are_enough_are_read_off_the_curve():
    study = STUDIES["pair-efficiency"]
    figures = [("grades", 1.0, 0.8), ("random", 0.01, 0.5), ("random", 0.04, 0.9)]
    rows = [("NDCG@10", series, 2 * share, value) for series, share, value in figures]
    rows += [("share of pairs learned from", s, 2 * share, share) for s, share, _ in figures]
    (line,) = study.notes(pd.DataFrame(rows, columns=["measure", "series", study.x, "value"]))
    part = (0.99 * 0.8 - 0.5) / 0.4
    assert line.startswith("99% of the quality of all grades by random: ")
    assert f"{0.01 * 4**part:.2%} of the pairs, {0.02 * 4**part:.2%} of the answers" in line


def hasty(train: Any, vali: Any, config: Any, **others: Any) -> Any:
    """A ranker that has hardly been trained."""
    few = {"epochs": 1, "max_iter": 3, "rounds": 3}
    few |= {"committee": 1} if config.kind == "sortnet" else {"trees": 3}
    changes = {name: value for name, value in few.items() if name in config.flat()}
    return fit_ranker(train, vali, config.changed(**changes), **others)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_study_makes_its_table_and_figures_and_resumes(name, run, folder, monkeypatch):
    words = [name] if STUDIES[name].data == "made" else [name, folder]
    monkeypatch.setattr(cells_module, "fit_ranker", hasty)
    shown = run(*words, "--out", "o")
    lacks = name == "runtime" and find_spec("lightgbm") is None
    assert shown.exit_code == int(lacks), shown.output
    assert shown.stdout.startswith(STUDIES[name].question)
    frame = pd.read_csv(Path("o") / f"{name}.csv")
    assert list(frame) == ["measure", "series", STUDIES[name].x, "value", "value_error", "cells"]
    assert frame["value"].notna().all() and len(frame) > 1
    figures = sorted(path.suffix for path in Path("o").iterdir() if path.suffix != ".csv")
    assert figures and figures.count(".png") == figures.count(".svg") == len(figures) / 2
    if not lacks:
        monkeypatch.setattr(cells_module, "fit_ranker", None)  # nothing can be fitted any more
        again = run(*words, "--json")
        assert again.exit_code == 0 and "worked out before: " in again.stderr
        assert len(value_of(again.stdout, "study")["rows"]) == len(frame)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nois",), "unknown study 'nois'; there is noise"),
        (("hidden",), "the study hidden needs data"),
        (("noise", "somewhere"), "the study noise makes its data: leave out 'somewhere'"),
        (("hidden", "nowhere"), "nowhere: no such folder"),
    ],
)
def test_what_cannot_be_is_one_line(run, words, said):
    shown = run(*words)
    assert (shown.exit_code, shown.stdout) == (2, "")
    assert said in shown.stderr and shown.stderr.count("\n") == 1


def test_the_list_has_every_study(run):
    assert run().stdout == run("--list").stdout
    rows = value_of(run("--list", "--json").stdout, "studies")
    assert [row["name"] for row in rows] == list(NAMES)
