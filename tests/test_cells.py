"""Cells: worked out from their own words alone, alike in this process, in others, on a cluster."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from dying_worker import Dies
from letor_folds import write_folds
from optional_extras import needs

from sortnet.config import settings_of
from sortnet.errors import DataError, SortNetError
from sortnet.lab import executor
from sortnet.lab.cells import Cell, keys_of, learnable, work_out
from sortnet.lab.entries import ENTRIES, entries_named, entry_of, grid_of
from sortnet.lab.executor import work_out_all
from sortnet.lab.splits import HoldOut, folds_of
from sortnet.metrics import evaluate
from sortnet.rankers.fit_ranker import fit_ranker
from sortnet.rankers.registry import KINDS, VARIANTS, name_of, settings_for
from store import open_store
from store.lab.cell_rows import StoredCell, keep_cell, kept_cells


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folds(tmp_path_factory.mktemp("letor"))


@pytest.fixture
def cells(folder: Path) -> list[Cell]:
    err = [Cell(entry_of("err"), fold) for fold in folds_of(str(folder))]
    return [
        *err,
        Cell(entry_of("ranksvm:C=0.1"), err[0].split),
        Cell(entry_of("err"), drawn(folder), inner=2),
    ]


def drawn(folder: Path, number: int = 1) -> HoldOut:
    return HoldOut(str(folder / "Fold1"), number, 0.33, 0.2, seed=0)


def test_a_cell_is_what_tuning_and_fitting_by_hand_give(folder):
    cell = Cell(entry_of("ranksvm:C=0.1"), folds_of(str(folder))[0], quality="map")
    found = work_out(cell)
    fold = cell.split.load()
    ranker = fit_ranker(
        fold.train, fold.vali, settings_for("ranksvm").changed(C=0.1, quality="map")
    )
    assert found.order.tolist() == ranker.order(fold.test).tolist()
    assert found.about["quality"] == ranker.info["quality"]
    assert evaluate(fold.test, found.order, "map")["map"] > 0.7  # the first feature says it


def test_the_settings_are_those_that_are_best_on_the_validation_part(folder):
    found = work_out(Cell(entry_of("ranksvm"), folds_of(str(folder))[0]))
    trials = found.about["trials"]
    assert len({trial["C"] for trial in trials}) > 1
    best = max(trials, key=lambda trial: trial["quality"])
    assert found.about["settings"]["C"] == best["C"]
    few = work_out(Cell(entry_of("ranksvm"), folds_of(str(folder))[0], trials=1))
    assert few.about["trials"] == trials[:1]
    none = work_out(Cell(entry_of("ranksvm"), folds_of(str(folder))[0], seconds=0.0))
    assert none.about["trials"] == trials[:1]


def test_a_grid_of_ones_own_takes_the_place_of_the_kinds(folder):
    fold = folds_of(str(folder))[0]
    texts = ("hidden=3,4-2", "dropout=0,0.2")
    entry = entry_of("directranker:epochs=2,loss=squared")
    entries = [replace(entry, grids=(grid_of(entry.kind, texts[:n]),)) for n in (2, 1)]
    cell, other = (Cell(each, fold) for each in entries)
    assert keys_of([cell]) != keys_of([other])
    about = work_out(cell).about
    tried = [(trial["hidden"], trial["dropout"]) for trial in about["trials"]]
    assert tried == [([3], 0), ([3], 0.2), ([4, 2], 0), ([4, 2], 0.2)]
    best = max(about["trials"], key=lambda trial: trial["quality"])
    assert {name: about["settings"][name] for name in ("hidden", "dropout")} == {
        name: best[name] for name in ("hidden", "dropout")
    }
    assert about["settings"]["training"]["loss"] == "squared"


def test_optuna_draws_from_the_same_grid(folder):
    needs("optuna")
    cell = Cell(entry_of("lambdarank"), folds_of(str(folder))[0], search="optuna", trials=3)
    about = work_out(cell).about
    tried = about["trials"]
    assert 1 <= len(tried) <= 3  # it may draw one twice
    grids = settings_for("ranknet").grids
    for name, values in ((n, v) for grid in grids for n, v in grid.items()):
        known = [list(v) if isinstance(v, tuple) else v for v in values]
        assert all(trial[name] in known for trial in tried)
    best = max(tried, key=lambda trial: trial["quality"])
    assert about["quality"] == best["quality"]  # refitted with the same seed


def test_inner_parts_choose_by_all_queries_that_do_not_test(folder):
    one, other = (
        work_out(Cell(entry_of("ranksvm"), drawn(folder), inner=inner)) for inner in (0, 3)
    )
    qualities = [[trial["quality"] for trial in found.about["trials"]] for found in (one, other)]
    assert qualities[0] != qualities[1]


def test_training_grades_are_made_binary_and_test_grades_are_not(folder):
    cell = Cell(entry_of("err"), folds_of(str(folder))[0], binarise=True, relevant_from=2)
    graded, binary = learnable(replace(cell, binarise=False)), learnable(cell)
    assert binary.train.grades.tolist() == (graded.train.grades >= 2).astype(int).tolist()
    assert set(binary.vali.grades) == {0, 1}
    assert set(binary.test.grades) == {0, 1, 2}
    assert work_out(cell).about["settings"]["quality"] == "map"


def test_a_cell_is_known_by_its_words_and_its_data_not_by_its_place(folder, tmp_path):
    cell = Cell(entry_of("err"), folds_of(str(folder))[0])
    elsewhere = tmp_path / "elsewhere"
    (folder / "Fold1").rename(elsewhere)
    try:
        [moved] = keys_of([Cell(entry_of("err"), folds_of(str(elsewhere))[0])])
    finally:
        elsewhere.rename(folder / "Fold1")
    [key] = keys_of([cell])
    assert key == moved
    others = [
        Cell(entry_of("err"), folds_of(str(folder))[1]),
        *(
            replace(cell, **{name: value})
            for name, value in (
                ("seed", 1), ("quality", "map"), ("binarise", True), ("inner", 3), ("trials", 2)
            )
        ),
    ]  # fmt: skip
    assert len({key, *keys_of(others)}) == 7


def test_a_cell_of_another_version_is_not_found_again(folder, monkeypatch):
    cell = Cell(entry_of("err"), folds_of(str(folder))[0])
    before = keys_of([cell])
    monkeypatch.setattr("sortnet.lab.cells.__version__", "0.3.0")
    assert keys_of([cell]) != before


def test_hold_outs_differ_by_their_number_and_leave_out_each_query_alike(folder):
    one, two = (drawn(folder, number).load() for number in (1, 2))
    assert one.test.qids.tolist() != two.test.qids.tolist()
    assert drawn(folder).load().test.qids.tolist() == one.test.qids.tolist()
    everything = sorted([*one.train.qids, *one.vali.qids, *one.test.qids])
    assert len(everything) == len(set(everything)) == 18


def test_a_query_both_learned_and_tested_is_refused(folder, tmp_path):
    for part in ("train", "vali", "test"):
        (tmp_path / f"{part}.txt").write_text((folder / "Fold1" / f"{part}.txt").read_text())
    line = (tmp_path / "train.txt").read_text().splitlines()[0]
    with (tmp_path / "test.txt").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(DataError, match=r"1 queries are both in .*train.txt and in .*test.txt"):
        work_out(Cell(entry_of("err"), folds_of(str(tmp_path))[0]))


def test_a_fold_without_a_test_part_is_refused(folder, tmp_path):
    for part in ("train", "vali"):
        (tmp_path / f"{part}.txt").write_text((folder / "Fold1" / f"{part}.txt").read_text())
    with pytest.raises(DataError, match=r"there is no test\.txt"):
        folds_of(str(tmp_path))


def test_entries_name_every_kind_and_each_has_its_settings():
    assert {entry.kind for entry in ENTRIES.values()} == {*KINDS, *VARIANTS} - {"posterior"}
    for entry in ENTRIES.values():
        settings = entry.settings(seed=3, quality="map")
        assert (name_of(settings), settings.seed) == (entry.kind, 3)
        assert set(entry.changes) <= set(settings_of(type(settings)))


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ("ranksvmm", "unknown ranker 'ranksvmm'; there is ranksvm"),
        ("err,err", "'err' is given twice"),
        ("ranksvm:c=1", "has no setting 'c'"),
        ("ranksvm:C=one", "C must be a number above 0, got 'one'"),
    ],
)
def test_a_misspelt_ranker_or_setting_is_named_with_near_ones(names, words):
    with pytest.raises(SortNetError, match=words):
        entries_named(names)


def test_settings_of_an_entry_are_typed_behind_its_name():
    first, second = entries_named("sortnet:hidden=20-20,committee=1, err")
    assert first.name == "sortnet:hidden=20-20,committee=1" and second == ENTRIES["err"]
    assert first.changes == {"hidden": (20, 20), "committee": 1} and first.grids == ()
    assert first == ENTRIES["sortnet"].changed(hidden=(20, 20), committee=1)


def by_number(found) -> dict[int, object]:
    """Results without their seconds; a cell that has none fails here."""
    return {k: (r.order.tolist(), {**r.about, "seconds": None}) for k, r in found}


@pytest.fixture
def cluster():
    needs("distributed")
    import distributed

    with distributed.LocalCluster(
        n_workers=1,
        threads_per_worker=1,
        dashboard_address=None,
        host="127.0.0.1",
        scheduler_port=0,
    ) as made:
        yield made


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_cluster_gives_what_this_process_gives_even_if_a_worker_is_killed(cells, cluster):
    cells = [replace(cell, seed=seed) for seed in range(2) for cell in cells]
    here = by_number(work_out_all(cells))
    address = cluster.scheduler_address.replace("tcp://", "dask://")
    found = work_out_all(cells, cluster=address)
    first = next(found)
    pid = next(iter(cluster.workers.values())).process.pid
    os.kill(pid, signal.SIGKILL)
    assert by_number([first, *found]) == here


@pytest.mark.slow
def test_processes_give_what_this_one_gives_even_if_one_dies(cells, tmp_path, monkeypatch):
    marker = tmp_path / "died"
    monkeypatch.setattr(executor, "worked_out", Dies(marker))
    found = by_number(work_out_all(cells, jobs=2))
    assert marker.exists()
    monkeypatch.undo()
    assert found == by_number(work_out_all(cells)) and len(found) == len(cells)


def test_a_cluster_that_cannot_be_reached_is_said(cells, monkeypatch):
    needs("distributed")
    monkeypatch.setattr(executor, "_TIMEOUT", 0.5)
    with pytest.raises(SortNetError, match=r"cluster dask://127.0.0.1:9 cannot be reached"):
        list(work_out_all(cells, cluster="dask://127.0.0.1:9"))


def test_what_came_of_a_cell_is_kept_and_found_by_its_key(url, cells):
    result = StoredCell(np.array([2, 0, 1]), {"quality": 0.5, "seconds": {"fit": 1.0}})
    about = {"ranker": "directranker", "part": "Fold1", "cell": cells[0].to_json()}
    keys = keys_of(cells[:2])
    with open_store(url) as store:
        keep_cell(store.database, keys[0], result, **about)
        keep_cell(store.database, keys[0], result._replace(about={"quality": 0.75}), **about)
        found = kept_cells(store.database, keys)
    assert list(found) == keys[:1]
    assert found[keys[0]].order.tolist() == [2, 0, 1]
    assert found[keys[0]].about == {"quality": 0.75}
