"""Help: it is quick, tells the truth about the defaults, and shows an example of each command."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields

import click
import pytest
from cli_helpers import OLD_RUNNER, done, fault
from docs_helpers import walk
from result_helpers import value_of

from cli.main import main
from cli.training.typed_settings import known_settings, typed_settings
from sortnet import LanguageModel, Program, __version__
from sortnet.config import PAPER, Config, parse_settings
from sortnet.rankers.registry import KINDS, settings_for

COMMANDS = sorted(main.commands)
LEAVES = {name.removeprefix("sortnet "): command for name, command in walk()}
HEAVY = ("torch", "numba", "pandas", "sklearn", "sqlalchemy", "scipy", "matplotlib", "pyarrow")
CODE = """
import sys
from cli.main import main
for args in {calls!r}:
    try:
        main(args)
    except SystemExit as end:
        assert not end.code, args
print("loaded:", [name for name in {heavy!r} if name in sys.modules])
"""


@pytest.mark.parametrize("module", ["cli", "sortnet"])
def test_python_m_is_the_command(module):
    command = [sys.executable, "-m", module, "nonsense"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == "sortnet: No such command 'nonsense'. (see 'sortnet --help')\n"


def test_no_help_loads_what_takes_long_to_load():
    calls = [[], ["--help"], ["--version"], *([name, "--help"] for name in COMMANDS)]
    code = CODE.format(calls=calls, heavy=HEAVY)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == "loaded: []"


def test_without_arguments_a_newcomer_is_told_how_to_begin():
    text = done()
    assert text.startswith("Usage: sortnet")
    first = text.split("First steps:", 1)[1].split("\n")[1]
    assert first.split()[0] == "sortnet"
    assert __version__ in done("--version")


@pytest.mark.parametrize("kind", [*KINDS, "xgboost"])
def test_the_settings_of_a_kind_are_listed_with_defaults_that_can_be_typed(kind):
    rows = value_of(done("settings", kind, "--json"))
    settings = settings_for(kind)
    values = settings.flat()
    assert {row["name"] for row in rows} == values.keys() | {"threads"}
    typed = {row["name"]: row["default"] for row in rows if row["default"] is not None}
    parsed = parse_settings(kind, known_settings(settings), typed)
    for name, value in values.items():
        assert parsed.get(name) == value
    assert all(row["meaning"] and row["allowed"] for row in rows)


def test_the_settings_of_a_judge_are_the_keys_of_its_file():
    rows = value_of(done("settings", "judge", "--json"))
    names = [field.name for judge in (LanguageModel, Program) for field in fields(judge)]
    assert [row["name"] for row in rows] == names


def test_options_and_assignments_are_the_same_settings():
    words = ["x", "--epochs", "3", "--set", "batch-size=64", "--set", "epochs=4", "--seed", "5"]
    context = main.commands["train"].make_context(
        "train", [*words, "--preset", "paper", "--set", "threads=2"]
    )
    values, threads = typed_settings(context, Config())
    assert values == {**PAPER, "epochs": 4, "batch_size": 64, "seed": 5}
    assert threads == 2


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["train", "--nonsense"], "(see 'sortnet train --help')"),
        (["train", "--set", "hidden=20,x"], "20,x"),
        (["train", "--set", "hiden=4"], "no setting 'hiden'; there is hidden"),
        (["train", "--set", "empty=none"], "known are zero, skip, one, error"),
        (["train", "--set", "depth=99"], "depth must be a whole number from 1 to 12, got 99"),
        (["train", "--epochs", "many"], "many"),
        (["train", "--batch-size", "64"], "give --set batch_size=..."),
        (["train", "--prompt", "p.jinja"], "write prompt = ... into the FILE.toml of --judge"),
        (["settings", "elo"], "unknown kind of ranker 'elo'; known are sortnet"),
        (["evaluate", "model"], "DATA"),
        (["rank", "m", "d", "--tag", "two words"], "two words"),
        (["rank", "m", "d", "--json"], "No such option '--json': give --format jsonl (see"),
    ],
)
def test_a_misspelt_command_line_is_one_line_that_names_it(args, message):
    assert message in fault(*args)


@pytest.mark.skipif(OLD_RUNNER, reason="prints the help, as click did then")
def test_a_group_without_a_command_says_what_there_is_in_one_line():
    said = fault("judgements")
    assert said.startswith("sortnet: sortnet judgements needs a command: list, export, import (see")


@pytest.mark.parametrize("name", [*COMMANDS, *LEAVES])
def test_every_command_is_explained_shortly_with_an_example(name, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = done(*name.split(), "--help")
    assert f"sortnet {name}" in text.split("Example", 1)[1]
    lines = text.splitlines()
    wide = 92 if name == "experiment simulate" else 80  # its example names two files
    assert max(map(len, lines)) <= wide
    assert len(lines) <= (80 if name == "train" else 60)
    command = LEAVES.get(name)
    for option in command.params if command else ():
        if isinstance(option, click.Option) and not isinstance(option.type, click.Choice):
            assert option.help, option.name
