"""Help: it is quick, tells the truth about the defaults, and shows an example of each command."""

from __future__ import annotations

import os
import subprocess
import sys

import click
import pytest
from cli_helpers import OLD_RUNNER, done, fault, invoke
from docs_helpers import walk
from setting_values import LACKING, others, whole

from cli.main import main
from cli.options import RARE, SETTINGS
from sortnet import __version__
from sortnet.config import Config, Training

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


@pytest.mark.parametrize("name", [*COMMANDS, *LEAVES])
def test_every_command_is_explained_with_an_example(name):
    text = done(*name.split(), "--help")
    assert f"sortnet {name}" in text.split("Example", 1)[1]
    wide = 92 if name == "experiment simulate" else 80  # its example names two files
    assert max(map(len, text.splitlines())) <= wide


@pytest.mark.parametrize("name", LEAVES)
def test_every_option_is_explained(name):
    options = [p for p in LEAVES[name].params if isinstance(p, click.Option)]
    unexplained = [p.name for p in options if not p.help and not isinstance(p.type, click.Choice)]
    assert unexplained == []


def test_without_arguments_a_newcomer_is_told_how_to_begin():
    text = done()
    assert text.startswith("Usage: sortnet")
    first = text.split("First steps:", 1)[1].split("\n")[1]
    assert first.split()[0] == "sortnet"


def test_the_version_is_the_package_s():
    assert __version__ in done("--version")


def test_every_setting_of_a_run_is_an_option_and_no_other():
    options = {p.name for p in main.commands["train"].params}
    assert options | {*RARE} >= Config().flat().keys() == SETTINGS.keys()
    typed = {p.name for p in main.commands["train"].params if not getattr(p, "hidden", False)}
    assert typed.isdisjoint(RARE)


def test_what_is_not_typed_has_the_defaults_of_the_settings_themselves():
    context = click.Context(main.commands["train"])
    values = {
        p.name: p.type_cast_value(context, p.get_default(context))
        for p in main.commands["train"].params
        if p.name in SETTINGS and p.name not in RARE
    }
    assert Config().changed(**values) == Config()


def test_help_shows_the_defaults_of_the_settings():
    text = " ".join(done("train", "--help").split())
    for name, value in (("--lr", Training.lr), ("--gain", Config.gain)):
        after = text.split(f"{name} ", 1)[1].split(" --", 1)[0]
        assert f"[default: {value}]" in after


def test_choices_are_those_that_the_settings_take():
    options = {p.name: p for p in main.commands["train"].params}
    chosen = [s for s in SETTINGS.values() if s.choices and s.name not in RARE]
    assert len(chosen) > 6
    for setting in chosen:
        if not setting.joined:
            assert tuple(options[setting.name].type.choices) == setting.choices
        for value in setting.choices:
            assert Config().changed(**{setting.name: value}).flat()[setting.name] == value


@pytest.mark.parametrize("comparator", LACKING)
def test_every_setting_reaches_its_field(comparator):
    expected = others(comparator)
    assert all(value != Config().flat()[name] for name, value in expected.items())
    assert Config().changed(**expected).flat() == whole(comparator, expected)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["nonsense"], "nonsense"),
        (["train", "--nonsense"], "(see 'sortnet train --help')"),
        (["train", "--hidden", "20,x"], "20,x"),
        (["train", "--hidden", "0"], "'0'"),
        (["train", "--comparator", "svm"], "svm"),
        (["train", "--epochs", "many"], "many"),
        (["evaluate", "model"], "DATA"),
        (["rank", "m", "d", "--format", "xml"], "xml"),
        (["rank", "m", "d", "--tag", "two words"], "two words"),
    ],
)
def test_a_misspelt_command_line_is_one_line_that_names_it(args, message):
    assert message in fault(*args) and invoke(*args).stdout == ""


@pytest.mark.skipif(os.name != "posix", reason="closes a pipe")
def test_a_reader_that_has_enough_is_no_fault_worth_a_word():
    code = "from cli.main import main; main(['train', '--help'])"
    ran = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    ran.stdout.close()
    assert ran.stderr.read() == ""
    ran.stderr.close()
    assert ran.wait(600) == 1


@pytest.mark.skipif(OLD_RUNNER, reason="prints the help, as click did then")
def test_a_group_without_a_command_says_what_there_is_in_one_line():
    said = fault("judgements")
    assert said.startswith("sortnet: sortnet judgements needs a command: list, export, import (see")
