"""sortnet show --follow: rows as they come."""

from __future__ import annotations

import re
import signal

import pytest
from cli_helpers import fault, invoke
from forked_processes import ForkedScript
from test_run_processes import begin

from store import Run, open_store


@pytest.fixture
def store(here):
    with open_store("s.db") as opened:
        yield opened


@pytest.fixture
def run(store) -> Run:
    """A run with iteration 0."""
    return begin(store)


def record(run: Run, *numbers: int) -> None:
    """Record iterations that are like iteration 0."""
    (first,) = run.iteration_rows()[:1]
    columns = {name: value for name, value in first.items() if not name.endswith("_map")}
    measures = {"train": {"map": 0.5}, "vali": {"map": 0.25}}
    del columns["created"]
    for number in numbers:
        run.record({**columns, "measures": measures, "iteration": number})


def numbers_in(text: str) -> list[int]:
    """The iterations of the rows in what was printed."""
    return [int(n) for n in re.findall(r"^ +(\d+) +\d+ +[\d.]+% ", text, re.MULTILINE)]


@pytest.mark.parametrize(
    ("status", "step"),
    [("interrupted", "sortnet train --resume --out 'the model'"), ("done", "report")],
)
def test_a_run_that_has_ended_is_a_table_and_a_next_step(run, status, step):
    record(run, 1, 2)
    run.finish(status)
    result = invoke("show", "last", "--follow")
    assert result.exit_code == 0 and numbers_in(result.stdout) == [0, 1, 2]
    assert f"is {status}, 3 iterations;" in result.stderr and step in result.stderr


@pytest.mark.slow
def test_rows_come_as_iterations_do_and_ctrl_c_leaves_without_a_word_of_python(run):
    script = "from cli.main import main; main()"
    with ForkedScript(script, "show", "--follow", "last", "--interval", "0.1") as watch:
        lines = [watch.stdout.readline() for _ in range(3)]
        assert numbers_in("".join(lines)) == [0]
        record(run, 1)
        assert numbers_in(watch.stdout.readline()) == [1]
        watch.send_signal(signal.SIGINT)
        _, message = watch.communicate()
    assert (watch.returncode, message) == (0, f"no longer following run {run.id}\n")
    assert run.status == "running"


def test_what_cannot_be_followed_is_one_line(store, tmp_path):
    assert "no runs yet: sortnet train makes one" in fault("show", "--follow", "last")
    run = begin(store)
    message = fault("show", "--follow", "zz")
    assert "no run 'zz'" in message and run.id in message
    assert "no such file" in fault("show", "--follow", "last", "--store", tmp_path / "none.db")
    assert list(tmp_path.glob("none*")) == []
