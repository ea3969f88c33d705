"""Run every benchmark in one go: `python benchmarks/run.py [--quick] [--output FILE] [WHAT ...]`.

Each bench_<what>.py gets a process of its own, so that peak memory and thread settings are its own.
Without --quick the table goes to results.json; some of WHAT renew their rows of it only, so each
row names the version and the day of its measurement.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import psutil

from sortnet import __version__

FOLDER = Path(__file__).resolve().parent
COLUMNS = ("what", "ours", "peer", "ratio", "bar", "ok", "note")
VERSIONS_OF = ("torch", "numpy", "numba", "scikit-learn", "sqlalchemy", "lightgbm")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the table, write the JSON; 1 if a benchmark failed to run, 0 otherwise."""
    names = sorted(path.stem.removeprefix("bench_") for path in FOLDER.glob("bench_*.py"))
    parser = argparse.ArgumentParser(prog="benchmarks/run.py")
    parser.add_argument("what", nargs="*", help=f"some of: {', '.join(names)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="small sizes: does everything run?")
    parser.add_argument(
        "--output", type=Path, help="default: benchmarks/results.json, if not quick"
    )
    chosen = parser.parse_args(arguments)
    if unknown := set(chosen.what) - set(names):
        parser.error(f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    output = chosen.output
    if output is None and not chosen.quick:
        output = FOLDER / "results.json"

    rows = [row for name in chosen.what or names for row in measure(name, quick=chosen.quick)]
    print(markdown(rows))
    if output is not None:
        rows = _renewed(output, rows) if chosen.what else rows
        report = {"quick": chosen.quick, "machine": machine(), "rows": rows}
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(json.dumps(report, indent=2, default=_plain) + "\n")
        print(f"\nwritten to {output}", file=sys.stderr)
    return int(any("failed" in row for row in rows))


def _renewed(output: Path, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of the file, those of the benchmarks that were run replaced; by benchmark."""
    if not output.exists():
        return rows
    run = {row["benchmark"] for row in rows}
    before = json.loads(output.read_text())["rows"]
    kept = [row for row in before if row["benchmark"] not in run]
    return sorted(kept + rows, key=lambda row: str(row["benchmark"]))


def measure(name: str, *, quick: bool) -> list[dict[str, Any]]:
    """The rows of one benchmark; one row with the key "failed" where it could not be run."""
    print(f"{name} ...", end=" ", flush=True, file=sys.stderr)
    start = time.perf_counter()
    try:
        with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as pool:
            rows = pool.submit(_run, name, quick).result()
    except Exception as error:  # one that fails must not take the others' results with it
        fault = f"{type(error).__name__}: {error}"
        rows = [{"what": name, "note": f"failed: {fault}", "failed": True}]
    print(f"{time.perf_counter() - start:.0f} s", file=sys.stderr)
    measured = {"version": __version__, "date": datetime.now(UTC).date().isoformat()}
    return [{"benchmark": name, **measured, **row} for row in rows]


def _run(name: str, quick: bool) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = importlib.import_module(f"bench_{name}").run(quick)
    # Small sizes say nothing about bars.
    return [row | {"ok": None} for row in rows] if quick else rows


def machine() -> dict[str, Any]:
    """What the figures depend on, and nothing that names the machine."""
    return {
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {"sortnet": __version__, **{name: version(name) for name in VERSIONS_OF}},
    }


def markdown(rows: Iterable[dict[str, Any]]) -> str:
    """The rows as an aligned table, readable in a terminal and in the documentation."""
    cells = [list(COLUMNS), *([cell(row.get(column)) for column in COLUMNS] for row in rows)]
    widths = [max(len(line[k]) for line in cells) for k in range(len(COLUMNS))]
    cells.insert(1, ["-" * width for width in widths])
    padded = ([text.ljust(w) for text, w in zip(line, widths, strict=True)] for line in cells)
    return "\n".join(f"| {' | '.join(line)} |" for line in padded)


def cell(value: Any) -> str:
    """A value as a table shows it: three digits, yes or no."""
    value = _plain(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    return "" if value is None else " ".join(str(value).replace("|", "\\|").split())


def _plain(value: Any) -> Any:
    """numpy's numbers as Python's."""
    return value.item() if hasattr(value, "item") else value


if __name__ == "__main__":
    sys.exit(main())
