"""Nonsense typed at the command line: exit code 0 or 2, one line, never a traceback."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import click
import pytest
from cli_made import FAST, done, make_fold
from click.testing import CliRunner
from docs_made import walk
from fuzz_made import rounds

from cli.main import main

NONSENSE = (
    *("nan", "-nan", "inf", "-inf", "-1", "0", "-0.0", "1e23", "1e-400", "1e400", "0x10", "٣"),
    *("99999999999999", "9" * 30, "9" * 5000, "1,2,x", "1.5", "None", "true"),
    *("", " ", "-", "--", "fold", "m", ".", "nowhere/at/all", "s.db", "s.db/x", "m/model.json"),
    *("häßlich 😀", "\u202eabc", "\udcff", "a\nb", "\x1b[2J", "%s{0}", "'; DROP TABLE run; --"),
    *("x" * 300, "x" * 20_000, "/" * 5000, "sqlite://", "postgresql://x@127.0.0.1:1/y", "http://["),
    *("mlflow:file:", "tensorboard:s.db", "map@nan", "p@" + "9" * 30, "ndcg@-1"),
)
# What each command runs on; serve, watch and demo get nothing that would let them begin.
BASES: dict[str, tuple[str, ...]] = {
    "demo": ("--store", "fold"),
    "train": ("fold", "--out", "new", *FAST, "--max-iter", "1"),
    "evaluate": ("m", "fold/test.txt"),
    "rank": ("m", "fold/test.txt"),
    "compare": ("m", "fold/test.txt", "0", "1"),
    "explain": ("m", "fold/test.txt", "0", "1"),
    "importance": ("m", "fold/test.txt", "--repeats", "1"),
    "show": ("last",),
    "pairs": ("last",),
    "report": ("last",),
    "watch": ("nothing",),
    "items add": ("more", "items.csv"),
    "items show": ("some",),
    "items remove": ("some",),
    "label": ("some",),
    "serve": ("nothing",),
    "ranking": ("some",),
    "judgements list": ("some",),
    "judgements export": ("some",),
    "judgements import": ("some", "judgements.csv"),
    "simulate": ("--seeds", "1", "--items", "4", "--budget", "3"),
    "completion": ("bash",),
}
STAYING = ("watch", "serve", "demo")
CALLS = [
    (name.removeprefix("sortnet "), command, option)
    for name, command in walk()
    for option in (*[p for p in command.params if isinstance(p, click.Option)], None)
]


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("nonsense")
    make_fold(folder / "fold", n_docs=3)
    items = "name,sugar,price\n" + "".join(f"sweet {k},{k / 8},{k * k}\n" for k in range(6))
    (folder / "items.csv").write_text(items)
    (folder / "judgements.csv").write_text("winner,loser,annotator\nsweet 1,sweet 2,ana\n")
    store = ("--store", folder / "s.db")
    done("train", folder / "fold", "--out", folder / "m", *store, *FAST)
    done("items", "add", "some", folder / "items.csv", *store)
    done("judgements", "import", "some", folder / "judgements.csv", *store)
    return folder


@pytest.fixture
def home(made, tmp_path, monkeypatch) -> Path:
    """A function's own folder to work in, whose store is the one that commands go to."""
    place = tmp_path / "work"
    shutil.copytree(made, place)
    monkeypatch.chdir(place)
    for name in ("HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.setenv("SORTNET_STORE", "s.db")
    return place


def call_of(seed: int) -> list[str]:
    """A command line: an option with nonsense, at times another, at times an argument too."""
    rng = random.Random(seed)
    name, command, option = CALLS[seed % len(CALLS)]
    args = list(BASES.get(name, ()))
    if args and name not in STAYING and (option is None or rng.random() < 0.15):
        args[rng.randrange(len(args))] = rng.choice(NONSENSE)
    options, typed = [option] if option else [], []
    if rng.random() < 0.2:
        options.append(rng.choice([p for p in command.params if isinstance(p, click.Option)]))
    for each in options:
        typed += [each.opts[0]] if each.is_flag else [each.opts[0], rng.choice(NONSENSE)]
    # Of an option given twice the last one counts.
    return [*name.split(), *(typed + args if name in STAYING else args + typed)]


def test_four_hundred_nonsense_calls_end_with_a_line_and_no_traceback(made, home):
    for seed in rounds(400):
        shutil.rmtree(home)
        shutil.copytree(made, home)
        os.chdir(home)
        args = call_of(seed)
        told = f"SORTNET_FUZZ_SEED={seed}: sortnet {[arg[:80] for arg in args]}"
        result = CliRunner().invoke(main, args)
        if not isinstance(result.exception, SystemExit | None):
            raise AssertionError(told) from result.exception
        ends = (0, 1, 2) if args[0] == "doctor" else (0, 2)  # 1: doctor found something broken
        assert result.exit_code in ends, told
        assert "Traceback" not in result.stderr, told
        if result.exit_code == 2:
            last = result.stderr.splitlines()[-1]
            assert last.startswith("sortnet: ") and len(last) <= 309, f"{told}: {last}"
