"""Helpers for tests of the command line: small data, and functions that run a command."""

from __future__ import annotations

import inspect
import json
import shlex
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from cli.main import main

FAST = tuple(
    shlex.split(
        "--epochs 9 --max-iter 3 --scaling query --set hidden=4 --set committee=1 --set threads=1"
        # A batch size: without one an epoch is as many passes as make 16 steps.
        " --set batch_size=64 --set weight_decay=0.01 --set max_stale=5"
    )
)


@contextmanager
def quick_training() -> Iterator[None]:
    """Shorten training, for tests that do not look at what is learned.

    An epoch has one step in place of 32.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sortnet.learning.step_budget.STEPS", 1)
        yield


# The runner of click below 8.2, which mixes stderr into stdout unless told otherwise.
OLD_RUNNER = "mix_stderr" in inspect.signature(CliRunner).parameters


def runner() -> CliRunner:
    """Return a runner that keeps stdout and stderr apart, as click does from 8.2 on."""
    return CliRunner(**({"mix_stderr": False} if OLD_RUNNER else {}))


def invoke(*args: object, lines: str | None = None) -> Result:
    """Run a command in this process, whose stdin has these lines.

    An exception that is not a deliberate exit is raised.
    """
    result = runner().invoke(main, [str(arg) for arg in args], input=lines)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def done(*args: object) -> str:
    """Run a command that must succeed, and return its stdout."""
    result = invoke(*args)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def fault(*args: object) -> str:
    """Run a command that must be refused, and return its one line on stderr."""
    result = invoke(*args)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("sortnet: ")
    assert result.stderr.count("\n") == 1 and result.stderr.endswith("\n")
    return result.stderr


@contextmanager
def nothing_changed(folder: Path) -> Iterator[None]:
    """Check that no file comes, goes or changes, but for what SQLite keeps beside a store."""

    def seen() -> dict[Path, bytes | None]:
        paths = [path for path in folder.rglob("*") if not path.name.endswith(("-wal", "-shm"))]
        return {path: path.read_bytes() if path.is_file() else None for path in paths}

    before = seen()
    yield
    assert seen() == before


def judge_file(name: str = "judge.toml", **values: object) -> tuple[str, str]:
    """Write a file that describes a judge; return `--judge` and its path.

    A language model has the name `judge` and a server that does not exist, unless `values` or the
    options beside the file have others.
    """
    if "command" not in values:
        values = {"model": "judge", "server": "http://localhost:1", **values}
    Path(name).write_text("".join(f"{key} = {_toml(value)}\n" for key, value in values.items()))
    return "--judge", name


def _toml(value: object) -> str:
    """Write a value as TOML, which writes all but tables as JSON does."""
    if isinstance(value, dict):
        entries = [f"{json.dumps(key)} = {_toml(entry)}" for key, entry in value.items()]
        return f"{{{', '.join(entries)}}}"
    return json.dumps(value)


def letor(n_queries: int, seed: int, *, n_docs: int = 6, n_features: int = 4) -> str:
    """Make LETOR text of queries whose grades a small net can nearly learn."""
    rng = np.random.default_rng(seed)
    lines = []
    for q in range(n_queries):
        for d in range(n_docs):
            x = rng.normal(size=n_features).round(4)
            grade = int(np.clip(round(x[0] + x[1] * x[2] + 0.8), 0, 2))
            features = " ".join(f"{k}:{v}" for k, v in enumerate(x, 1))
            lines.append(f"{grade} qid:q{q} {features} #docid = d{q}-{d}\n")
    return "".join(lines)


def make_fold(folder: Path, **options: int) -> Path:
    """Write train.txt, vali.txt and test.txt into a folder, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (name, n) in enumerate([("train", 20), ("vali", 8), ("test", 8)]):
        (folder / f"{name}.txt").write_text(letor(n, seed, **options))
    return folder


def copy_run(folder: Path, to: Path, model: str = "m") -> Path:
    """Copy a folder with a run and its store, as if the run had been made in the copy."""
    shutil.copytree(folder, to, dirs_exist_ok=True)
    run = to / model / "run.json"
    run.write_text(run.read_text().replace(str(folder), str(to)))
    for store in to.glob("*.db"):
        with closing(sqlite3.connect(store)) as connection, connection:
            moved = "UPDATE runs SET data = replace(data, ?, ?)"
            connection.execute(moved, (json.dumps(str(folder)), json.dumps(str(to))))
    return to


def weights_of(folder: str | Path) -> Path:
    """Return the path of a model's weights."""
    (path,) = Path(folder).glob("weights-*.safetensors")
    return path
