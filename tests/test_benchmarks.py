"""`benchmarks/run.py` on benchmarks made here: small ones, failing ones."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sortnet import __version__

RUNNER = Path(__file__).resolve().parent.parent / "benchmarks/run.py"

MET = """
import numpy as np
def run(quick):
    size = 10 if quick else 1000
    return [{"what": f"sort {size}", "ours": np.float64(0.25), "peer": 2.0, "ratio": 0.125,
             "bar": "<= 0.3", "ok": np.bool_(True), "note": "a|b"}]
"""
BROKEN = "def run(quick):\n    raise ValueError('no data\\nhere')\n"
KILLED = "import os\ndef run(quick):\n    os._exit(3)\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "benchmarks").mkdir()
    shutil.copy(RUNNER, tmp_path / "benchmarks")
    (tmp_path / "benchmarks/bench_sort.py").write_text(MET)
    return tmp_path


def bench(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "benchmarks/run.py", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)


def test_the_table_has_a_line_for_every_row_and_the_json_its_numbers(folder):
    done = bench(folder)
    assert done.returncode == 0, done.stderr
    assert "| sort 1000 | 0.25 | 2    | 0.125 | <= 0.3 | yes | a\\|b |" in done.stdout
    report = json.loads((folder / "benchmarks/results.json").read_text())
    (row,) = report["rows"]
    assert (row["benchmark"], row["ours"], row["ok"]) == ("sort", 0.25, True)
    assert row["version"] == __version__
    assert report["quick"] is False


def test_a_quick_run_does_not_overwrite_the_results(folder):
    assert "sort 10 " in bench(folder, "--quick").stdout
    assert not (folder / "benchmarks/results.json").exists()
    bench(folder, "--quick", "--output", "quick/report.json")
    assert json.loads((folder / "quick/report.json").read_text())["quick"] is True


@pytest.mark.parametrize(
    ("source", "fault"), [(BROKEN, "ValueError: no data here"), (KILLED, "BrokenProcessPool")]
)
def test_a_benchmark_that_fails_leaves_the_others_their_results(folder, source, fault):
    (folder / "benchmarks/bench_a.py").write_text(source)
    done = bench(folder)
    assert done.returncode == 1
    assert f"failed: {fault}" in done.stdout
    assert "sort 1000" in done.stdout


def test_only_what_was_named_is_run_and_unknown_names_are_refused(folder):
    (folder / "benchmarks/bench_a.py").write_text(BROKEN)
    assert bench(folder, "sort", "--quick").returncode == 0
    done = bench(folder, "sorting")
    assert done.returncode == 2
    assert "no benchmark sorting; there are a, sort" in done.stderr
