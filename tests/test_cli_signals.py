"""Signals that come before a command has begun: while its modules load."""

from __future__ import annotations

import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

# Runs `python -m PACKAGE WORDS`, where a signal comes as the module is looked for.
LOADING = """
import runpy, signal, sys

package, words, module, number, *ignored = sys.argv[1:]
number = int(number)
if ignored:
    signal.signal(number, signal.SIG_IGN)

class Signalling:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            signal.raise_signal(number)

sys.meta_path.insert(0, Signalling())
sys.argv[1:] = words.split()
runpy.run_module(package, run_name="__main__", alter_sys=True)
"""


# Runs `python -m cli evaluate m d`, where Ctrl-C comes in a callback of an object that is freed, as
# imports have some: Python can raise nothing there.
LOST = """
import runpy, signal, sys, weakref

class Freed:
    pass

def interrupt(reference):
    signal.raise_signal(signal.SIGINT)
    for _ in range(1000):
        pass

class Signalling:
    def find_spec(self, name, path=None, target=None):
        if name == "sortnet.rankers.base":
            freed = Freed()
            reference = weakref.ref(freed, interrupt)
            del freed

sys.meta_path.insert(0, Signalling())
sys.argv[1:] = ["evaluate", "m", "d"]
runpy.run_module("cli", run_name="__main__", alter_sys=True)
"""


# Runs `python -m cli WORDS`, where a signal comes after the command, as the interpreter ends.
ENDING = """
import atexit, runpy, signal, sys

words, number = sys.argv[1:]
atexit.register(signal.raise_signal, int(number))
sys.argv[1:] = words.split()
runpy.run_module("cli", run_name="__main__", alter_sys=True)
"""


@pytest.mark.usefixtures("hangups")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("words", "code", "stdout", "stderr"),
    [
        ("--version", 0, "sortnet, version ", ""),
        ("show missing --store missing.db", 2, "", "sortnet: "),
    ],
)
def test_a_signal_after_a_command_has_reported_adds_no_line(words, code, stdout, stderr, number):
    end = ended(ENDING, words, int(number))
    assert end.returncode == code
    assert end.stdout.startswith(stdout) and end.stdout.count("\n") == (code == 0)
    assert end.stderr.startswith(stderr) and end.stderr.count("\n") == (code != 0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_signal_that_is_ignored_stays_ignored_while_the_modules_load(number):
    end = ended(LOADING, "cli", "--version", "click", int(number), "ignored")
    assert (end.returncode, end.stderr) == (0, "")


def test_a_ctrl_c_that_is_lost_in_a_callback_ends_the_command_with_one_line():
    end = ended(LOST)
    assert end.stderr.split("\n")[-2:] == ["sortnet: interrupted", ""]
    assert len(end.stderr.split()) == 2


def test_the_installed_command_hears_signals_while_the_modules_load():
    pyproject = Path(__file__).parent.parent / "pyproject.toml"
    scripts = tomllib.loads(pyproject.read_text())["project"]["scripts"]
    assert scripts == {"sortnet": "cli.__main__:main"}


def ended(code: str, *args: object) -> subprocess.CompletedProcess[str]:
    """The end of Python code in a process of its own."""
    command = [sys.executable, "-c", code, *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600)


@pytest.mark.usefixtures("hangups")
@pytest.mark.parametrize(
    ("package", "module", "words"),
    [
        ("sortnet", "click", "--version"),
        ("cli", "cli.console", "--version"),
        ("cli", "sortnet.rankers.base", "evaluate m d"),
    ],
)
@pytest.mark.parametrize(
    ("number", "line"),
    [
        (signal.SIGINT, "sortnet: interrupted\n"),
        (signal.SIGTERM, "sortnet: ended by SIGTERM\n"),
        (signal.SIGHUP, "sortnet: ended by SIGHUP\n"),
    ],
)
def test_a_signal_while_modules_load_ends_the_command_with_one_line(
    package, module, words, number, line
):
    end = ended(LOADING, package, words, module, int(number))
    assert (end.returncode, end.stdout, end.stderr.lstrip("\n")) == (2, "", line)
