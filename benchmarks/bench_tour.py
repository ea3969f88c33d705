"""The README's tour of labels on MQ2008, Fold1: its commands, and what they print.

The rows hold whole outputs; README shows the lines that `SHOWN` picks. Two pictures of the run are
drawn into docs/. Seed 0, one thread.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from store import open_store, plots

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data" / "mq2008"
ITERATIONS = tuple(f"{number:>4} " for number in range(11))
# The commands, and the beginnings of the lines of their output that README shows.
SHOWN = {
    "sortnet train mq2008/Fold1 --out m": (
        *("ndcg@10 chooses", "one training", "      compared", "iter "),
        *(*ITERATIONS, "best is iteration", "kept "),
    ),
    "sortnet evaluate m mq2008/Fold1/test.txt": ("metric", "map", "ndcg@10", "gain"),
    "sortnet rank m mq2008/Fold1/test.txt --output run.trec": (),
    "sortnet explain m mq2008/Fold1/test.txt row:0 row:1 --top 3": ("GX",),
}


def run(quick: bool) -> list[dict[str, Any]]:
    """A row for each command, with its output."""
    if not DATA.exists():
        return [{"what": "README's tour", "note": "not measured: the data is not there"}]
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "mq2008").symlink_to(DATA)
        rows = [{"what": command, "output": output_of(command, home, quick)} for command in SHOWN]
        if not quick:
            draw(home / "data/sortnet/sortnet.db")
    return rows


def draw(store: Path) -> None:
    """Draw how the pairs of the store's run grew, and where its mistakes are, into docs/."""
    with open_store(store, write=False) as opened:
        last = opened.run("last")
        growth, mistakes = plots.pair_growth(last.iterations_frame()), last.mistakes_frame()
    growth.savefig(ROOT / "docs/pair-growth.png", metadata={"Software": None})
    figure = plots.mistakes_by_rank(mistakes)
    figure.savefig(ROOT / "docs/mistakes.png", metadata={"Software": None})


def output_of(command: str, home: Path, quick: bool) -> list[str]:
    """The lines that a command prints in that home, messages among them."""
    arguments = shlex.split(command)[1:]
    if arguments[0] == "train":
        arguments += ["--set", "threads=1", *(["--epochs", "2"] if quick else [])]
    environment = os.environ | {
        "HOME": str(home),
        "XDG_DATA_HOME": str(home / "data"),
        "XDG_CACHE_HOME": str(home / "cache"),
        "COLUMNS": "100",
        "PYTHONPATH": str(ROOT),
    }
    finished = subprocess.run(
        [sys.executable, "-m", "cli", *arguments],
        cwd=home,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if finished.returncode:
        raise RuntimeError(f"{command}: {finished.stdout}")
    lines = finished.stdout.replace(str(home), "~").splitlines()
    return [line.rstrip() for line in lines if not line.startswith("run ")]  # its id is random


def shown_lines(row: dict[str, Any]) -> list[str]:
    """The command and the lines of its output that README shows; `...` where some are left out."""
    lines, left_out = [f"$ {row['what']}"], False
    for line in row["output"]:
        if line.startswith(SHOWN[row["what"]]):
            lines.append(line)
            left_out = False
        elif SHOWN[row["what"]] and line.strip() and not left_out:
            lines.append("...")
            left_out = True
    return lines
