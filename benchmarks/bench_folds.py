"""MQ2008, five folds, every ranker: the table of docs/benchmarks-papers.md.

Two calls of `sortnet experiment folds MQ2008 --rankers all --jobs 2`, seed 0: the first trains, the
second takes the same rankings under the convention of the DirectRanker papers. Both conventions are
in the rows. It takes about half an hour of CPU.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "mq2008"
COMMAND = "sortnet experiment folds MQ2008 --rankers all --jobs 2"
FIGURES = ("ndcg@10", "map", "p@10")


def run(quick: bool) -> list[dict[str, Any]]:
    """A row for each ranker, the best first; errors and p stand in columns of their own."""
    if not DATA.exists():
        return [{"what": "MQ2008, every ranker", "note": "not measured: the data is not there"}]
    with tempfile.TemporaryDirectory() as folder:
        store = str(Path(folder) / "cells.db")
        rankers = "err,ranksvm" if quick else "all"
        left_out = compare(rankers, "skip", store)
        binarised = compare(rankers, "binarised", store)
    under_binarised = {row["ranker"]: row for row in binarised["summary"]}
    first = left_out["summary"][0]["ranker"]
    p_values = {frozenset((pair["a"], pair["b"])): pair["p_holm"] for pair in left_out["by_query"]}
    return [
        {
            "what": f"MQ2008, 5 folds, tuned: test ndcg@10 of {row['ranker']}",
            "ours": row["ndcg@10"],
            "note": f"± {row['ndcg@10_error']:.3f}; seed 0; {left_out['conventions']}",
            "command": COMMAND,
            "conventions": left_out["conventions"],
            "p": p_values.get(frozenset((first, row["ranker"]))),
            "summary": row,
            "binarised": under_binarised[row["ranker"]],
        }
        for row in left_out["summary"]
    ]


def compare(rankers: str, convention: str, store: str) -> dict[str, Any]:
    """The report of `sortnet experiment folds` under a convention."""
    command = [
        *(sys.executable, "-m", "cli", "experiment", "folds", str(DATA)),
        *("--rankers", rankers, "--jobs", "2", "--seed", "0"),
        *("--convention", convention, "--store", store, "--json"),
    ]
    finished = subprocess.run(command, capture_output=True, text=True)
    if not finished.stdout:
        raise RuntimeError(finished.stderr.strip())
    document = json.loads(finished.stdout)
    report: dict[str, Any] = {**document["comparison"], "conventions": document["notes"][0]}
    if report["failed"]:
        raise RuntimeError(f"these rankers failed: {report['failed']}")
    return report
