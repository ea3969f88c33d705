"""Nonsense typed at the command line: exit code 0 or 2, one line, never a traceback."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from cli_helpers import FAST, done, fault, runner
from docs_helpers import walk
from fuzz_helpers import rounds

from cli.main import main

NONSENSE = (
    *("nan", "-inf", "-1", "0", "1e23", "1e-400", "0x10", "٣", "9" * 30, "9" * 5000, "1,2,x"),
    *("", " ", "-", "--", "fold", "m", "nowhere/at/all", "s.db", "s.db/x", "m/model.json"),
    *("häßlich 😀", "\u202eabc", "\udcff", "a\nb", "\x1b[2J", "%s{0}", "'; DROP TABLE run; --"),
    *("x" * 20_000, "/" * 5000, "postgresql://x@127.0.0.1:1/y", "http://[", "map@nan", "ndcg@-1"),
    *("mlflow:file:", "tensorboard:s.db"),
)
# What each command runs on; serve, demo and report get
# nothing that would let them begin: they stay, or take long.
BASES: dict[str, tuple[str, ...]] = {
    "demo": ("--store", "fold"),
    "train": ("fold", "--out", "new", *FAST, "--max-iter", "1"),
    "evaluate": ("m", "fold/test.txt"),
    "rank": ("m", "fold/test.txt"),
    "explain": ("m", "fold/test.txt", "0", "1"),
    "importance": ("m", "fold/test.txt", "--repeats", "1"),
    "show": ("last",),
    "pairs": ("last",),
    "report": ("nothing",),
    "items add": ("more", "items.csv"),
    "items show": ("some",),
    "items remove": ("some",),
    "label": ("some",),
    "serve": ("nothing",),
    "ranking": ("some",),
    "judgements list": ("some",),
    "judgements export": ("some",),
    "judgements import": ("some", "judgements.csv"),
    "experiment simulate": ("--seeds", "1", "--items", "4", "--budget", "3"),
}
STAYING = ("serve", "demo", "report")
CALLS = [
    (name.removeprefix("sortnet "), command, option)
    for name, command in walk()
    for option in (*[p for p in command.params if isinstance(p, click.Option)], None)
]


@pytest.fixture(scope="module")
def made(copy_of_trained) -> Path:
    folder = copy_of_trained
    items = "name,sugar,price\n" + "".join(f"sweet {k},{k / 8},{k * k}\n" for k in range(6))
    (folder / "items.csv").write_text(items)
    (folder / "judgements.csv").write_text("winner,loser,annotator\nsweet 1,sweet 2,ana\n")
    store = ("--store", folder / "s.db")
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
        about = f"SORTNET_FUZZ_SEED={seed}: sortnet {[arg[:80] for arg in args]}"
        result = runner().invoke(main, args)
        if not isinstance(result.exception, SystemExit | None):
            raise AssertionError(about) from result.exception
        ends = (0, 1, 2) if args[0] == "doctor" else (0, 2)  # 1: doctor found something broken
        assert result.exit_code in ends, about
        assert "Traceback" not in result.stderr, about
        if result.exit_code == 2:
            last = result.stderr.splitlines()[-1]
            assert last.startswith("sortnet: ") and len(last) <= 309, f"{about}: {last}"


@pytest.mark.parametrize(
    ("call", "code", "message"),
    [
        ("items show some >&-", 2, "sortnet: input or output: Bad file descriptor"),
        ("items show some >&- 2>&- <&-", 2, ""),
        ("items show some >/dev/full", 2, "sortnet: input or output: No space left on device"),
        ("nothing 2>/dev/full", 2, ""),
        ("items show some | true", 0, ""),
        ("items remove some <&-", 2, "interrupted"),
    ],
)
def test_closed_and_full_streams_end_without_a_traceback(home, call, code, message):
    script = f"{sys.executable} -c 'from cli.main import main; main()' {call}"
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent)}
    ran = subprocess.run(
        ["sh", "-c", script], cwd=home, env=environment, capture_output=True, text=True, timeout=600
    )
    assert ran.returncode == code, ran.stderr
    assert message in ran.stderr and "Traceback" not in ran.stderr


def test_with_no_home_or_none_that_can_be_written_the_place_is_named(home, monkeypatch):
    for name in ("SORTNET_STORE", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", "/dev/null")
    assert "cannot make /dev/null/" in fault("items", "add", "more", "items.csv")
    assert "/dev/null/" in fault("runs")
    assert done("rank", "m", "fold/test.txt")
    monkeypatch.delenv("HOME")
    assert done("rank", "m", "fold/test.txt")


@pytest.mark.parametrize("columns", ["20", "1", "0", "x", "9" * 30])
def test_any_width_of_the_terminal_will_do(home, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    for args in (("runs",), ("items", "show", "some"), ("train", "--help"), ("show", "last")):
        assert done(*args)


def test_no_number_on_the_command_line_is_nan_infinite_or_without_end():
    for _, command in walk():
        for param in command.params:
            kind = param.type
            if not isinstance(kind, click.types.IntParamType | click.types.FloatParamType):
                continue
            for value in ("nan", "inf", "-inf", "1e400", "9" * 400):
                with pytest.raises(click.BadParameter):
                    kind.convert(value, param, None)


def test_a_long_message_keeps_its_beginning_and_its_end(home):
    message = fault("train", "fold", "--comparator", "x" * 5000)
    assert len(message) <= len("sortnet: \n") + 300
    assert "xxx ... " in message and message.endswith("(see 'sortnet train --help')\n")
    message = fault("explain", "m", "fold/test.txt", "0", "9" * 5000)
    assert "no document" in message and len(message) <= 310
