"""`sortnet experiment`: the table, the files, what is kept, and what is refused."""

from __future__ import annotations

import os
import re
import shutil
import signal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli_helpers import done, invoke
from click.testing import Result
from forked_processes import Forked
from letor_folds import write_folds
from result_helpers import notes_of, value_of

from sortnet.data import read_fold
from sortnet.metrics import evaluate
from sortnet.rankers.fit_ranker import fit_ranker
from sortnet.rankers.registry import settings_for


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folds(tmp_path_factory.mktemp("experiment"), folds=3)


pytestmark = pytest.mark.usefixtures("here")


def run(*words: object) -> Result:
    return invoke("experiment", *words)


TWO = ("--rankers", "err,ranksvm:C=0.1", "--measures", "ndcg@5,map")


def test_the_table_is_the_mean_over_the_folds_of_what_each_ranker_gives(folder):
    shown = done("experiment", "folds", folder, *TWO, "--json")
    found = value_of(shown, "comparison")
    settings = settings_for("ranksvm").changed(C=0.1)
    by_fold = []
    for k in (1, 2, 3):
        fold = read_fold(folder / f"Fold{k}")
        order = fit_ranker(fold.train, fold.vali, settings).order(fold.test)
        by_fold.append(evaluate(fold.test, order, ["ndcg@5", "map"], empty="skip"))
    row = next(row for row in found["summary"] if row["ranker"] == "ranksvm:C=0.1")
    for name in ("ndcg@5", "map"):
        assert row[name] == pytest.approx(np.mean([values[name] for values in by_fold]))
    assert notes_of(shown)[0].startswith("convention skip; gain 2^r-1")
    assert found["failed"] == []


def test_the_files_hold_every_query_and_the_means(folder, tmp_path):
    done("experiment", "folds", folder, *TWO, "--out", "written")
    results = pd.read_csv(tmp_path / "written" / "results.csv")
    assert len(results) == 2 * 3 * 6
    assert list(results.columns) == ["ranker", "part", "qid", "ndcg@5", "map"]
    summary = pd.read_csv(tmp_path / "written" / "summary.csv").set_index("ranker")
    by_part = results.groupby(["ranker", "part"])["map"].mean()
    for name in ("err", "ranksvm:C=0.1"):
        assert summary.loc[name, "map"] == pytest.approx(by_part[name].mean())
    page = (tmp_path / "written" / "report.html").read_text()
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org", "")
    assert "ranksvm:C=0.1" in page
    latex = run(
        "holdout", folder, "--rankers", "err", "--splits", 2, "--measures", "map", "--latex"
    )
    assert latex.stdout.startswith(r"\begin{table}")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--rankers", "ranksvmm"), "unknown ranker 'ranksvmm'; there is ranksvm"),
        (("--rankers", "err,err"), "'err' is given twice"),
        (("--rankers", "ranksvm:C=one"), "C must be a number above 0, got 'one'"),
        (("--rankers", "err,ranknet", "--grid", "dropout=0,0.2"), "err has no setting 'dropout'"),
        (("--rankers", "ranknet", "--grid", "hidden"), "hidden: '' is not a number"),
        (("--measures", "ndgc@10"), "ndgc"),
        (("--convention", "letor5"), "letor5"),
        (("--json", "--latex"), "give one of them"),
        (("--cluster", "dask://127.0.0.1:9"), "cannot be reached"),
    ],
)
def test_what_cannot_be_is_one_line(folder, words, said, monkeypatch):
    monkeypatch.setattr("sortnet.lab.executor._TIMEOUT", 0.5)
    shown = run("folds", folder, *words)
    assert (shown.exit_code, shown.stdout) == (2, "")
    lines = shown.stderr.removeprefix("9 cells to work out\n").splitlines()
    assert len(lines) == 1 and said in lines[0]


def test_a_cell_that_fails_is_reported_and_the_others_go_on(folder, tmp_path):
    own = shutil.copytree(folder, tmp_path / "own")
    train = own / "Fold2" / "train.txt"
    alike = [f"0 {line.split(' ', 1)[1]}" for line in train.read_text().splitlines(keepends=True)]
    train.write_text("".join(alike))
    shown = run("folds", own, *TWO, "--json")
    assert shown.exit_code == 1
    found = value_of(shown.stdout, "comparison")
    assert [row["parts"] for row in found["summary"]] == [2, 2]
    assert [cell["cell"] for cell in found["failed"]] == ["err on Fold2", "ranksvm:C=0.1 on Fold2"]
    assert "two" in found["failed"][0]["why"]


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_an_interrupted_experiment_goes_on_where_it_was(folder, tmp_path, jobs):
    endless = ["--rankers", "err,es-rank:generations=100000000"]
    reads, writes = os.pipe()
    with Path("out").open("w") as out, os.fdopen(reads) as errors:
        streams = [out.fileno(), out.fileno(), writes]
        typed = ["experiment", "folds", folder, *endless, "--jobs", jobs]
        with Forked(typed, streams, dict(os.environ)) as process:
            os.close(writes)
            assert errors.readline().startswith("6 cells to work out")
            assert errors.readline().startswith("1 of 6")
            os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C does, to all its processes
            assert process.wait() == 2
        assert "interrupted: the same command resumes it" in errors.read()
    # A cell is looked up by its own ranker and fold, so fewer rankers resume it as well.
    shown = run("folds", folder, "--rankers", "err", "--json")
    assert shown.exit_code == 0, shown.output
    worked_out = re.match(r"worked out before: ([1-3]) of 3 cells\n", shown.stderr)
    assert worked_out is not None
    assert len(re.findall(r"^\d of \d  err", shown.stderr, re.M)) == 3 - int(worked_out[1])
