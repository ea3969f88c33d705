"""Cells: worked out from their own words alone, alike in this process, in others, on a cluster."""

from __future__ import annotations

import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from dying_worker import Dies
from letor_folds import write_folds
from optional_extras import needs

from sortnet.errors import DataError
from sortnet.lab import executor
from sortnet.lab.cells import Cell, keys_of, learnable, work_out
from sortnet.lab.entries import entry_of, grid_of
from sortnet.lab.executor import work_out_all
from sortnet.lab.splits import HoldOut, folds_of
from store import open_store
from store.cell_rows import keep_cell, kept_cells


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


def test_training_grades_are_made_binary_and_test_grades_are_not(folder):
    cell = Cell(entry_of("err"), folds_of(str(folder))[0], binarise=True, relevant_from=2)
    graded, binary = learnable(replace(cell, binarise=False)), learnable(cell)
    assert binary.train.grades.tolist() == (graded.train.grades >= 2).astype(int).tolist()
    assert set(binary.vali.grades) == {0, 1}
    assert set(binary.test.grades) == {0, 1, 2}
    assert work_out(cell).about["settings"]["quality"] == "map"


def test_a_cell_is_known_by_its_words_and_its_data_not_by_its_place(folder, tmp_path, monkeypatch):
    cell = Cell(entry_of("err"), folds_of(str(folder))[0])
    shutil.copytree(folder / "Fold1", tmp_path / "elsewhere")
    moved = replace(cell, split=folds_of(str(tmp_path / "elsewhere"))[0])
    [key] = keys_of([cell])
    assert keys_of([moved]) == [key]
    others = [replace(cell, split=folds_of(str(folder))[1])]
    for change in (("seed", 1), ("quality", "map"), ("binarise", True), ("inner", 3)):
        others.append(replace(cell, **dict([change])))
    gridded = replace(cell.ranker, grids=(grid_of("ranksvm", ["C=1,2"]),))
    others.append(replace(cell, ranker=gridded))
    assert len({key, *keys_of(others)}) == 7
    monkeypatch.setattr("sortnet.lab.cells.__version__", "0.3.0")
    assert keys_of([cell]) != [key]


def test_a_fold_that_lacks_its_test_part_or_shares_a_query_is_refused(folder, tmp_path):
    own = shutil.copytree(folder / "Fold1", tmp_path / "own")
    line = (own / "train.txt").read_text().splitlines()[0]
    with (own / "test.txt").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(DataError, match=r"1 queries are both in .*train.txt and in .*test.txt"):
        work_out(Cell(entry_of("err"), folds_of(str(own))[0]))
    (own / "test.txt").unlink()
    with pytest.raises(DataError, match=r"there is no test\.txt"):
        folds_of(str(own))


def test_hold_outs_differ_by_their_number_and_leave_out_each_query_alike(folder):
    one, two = (drawn(folder, number).load() for number in (1, 2))
    assert one.test.qids.tolist() != two.test.qids.tolist()
    assert drawn(folder).load().test.qids.tolist() == one.test.qids.tolist()
    everything = sorted([*one.train.qids, *one.vali.qids, *one.test.qids])
    assert len(everything) == len(set(everything)) == 18


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


def test_what_came_of_a_cell_is_kept_and_found_by_its_key(url, cells):
    order = np.array([2, 0, 1])
    names = {"ranker": "directranker", "part": "Fold1", "cell": cells[0].to_json()}
    keys = keys_of(cells[:2])
    with open_store(url) as store:
        keep_cell(store.database, keys[0], order, {"quality": 0.5}, **names)
        keep_cell(store.database, keys[0], order, {"quality": 0.75}, **names)
        found = kept_cells(store.database, keys)
    assert list(found) == keys[:1]
    kept_order, about = found[keys[0]]
    assert (kept_order.tolist(), about) == ([2, 0, 1], {"quality": 0.75})
