"""sortnet show --follow: rows as they come."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from typing import Any

import numpy as np
import pytest
from cli_helpers import done, fault, invoke
from forked_processes import Forked, ForkedScript
from pair_tables import table

from sortnet import Queries
from store import Run, Store, open_store

WAIT = 180.0


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SORTNET_STORE", "s.db")
    with open_store("s.db") as opened:
        yield opened


@pytest.fixture
def run(store) -> Run:
    return make(store)


def make(store: Store, **facts: Any) -> Run:
    q = Queries.from_arrays(np.eye(4), [2, 1, 0, 0], qid=["q"] * 4)
    facts = {"command": "sortnet train x --out m", "config": {"quality": "map"}} | facts
    return store.start_run(seed=0, versions={}, train=q, vali=q, out="m", **facts)


def record(run: Run, i: int) -> None:
    run.add("train", i, table(np.array([0]), np.array([i % 3 + 1])))
    names = ("comparisons_train", "comparisons_vali", "miscompared_train", "miscompared_vali",
             "new_train", "new_vali", "tp", "vp")  # fmt: skip
    run.record(
        {"iteration": i, "quality": 0.5, "best": i == 0, "seconds_sort": 0.5, "seconds_train": 1.0,
         "measures": {"train": {"map": 0.5 + i / 100}, "vali": {"map": 0.25}},
         **dict.fromkeys(names, 100 + i)}
    )  # fmt: skip


def piped(*args: object) -> ForkedScript:
    """`sortnet show --follow` in a process of its own, with pipes."""
    return ForkedScript("from cli.main import main; main()", "show", "--follow", *args)


def numbers(text: str) -> list[int]:
    """The iterations of the rows in what was printed."""
    return [int(n) for n in re.findall(r"^ +(\d+) +\d+ +[\d.]+% ", text, re.MULTILINE)]


def test_a_run_that_has_ended_is_a_table_and_a_next_step(run):
    for i in range(3):
        record(run, i)
    run.finish("done")
    result = done("show", "last", "--follow")
    assert numbers(result) == [0, 1, 2]
    assert [line.split()[4] for line in result.splitlines()[2:]] == ["0.5000", "0.5100", "0.5200"]


@pytest.mark.parametrize(
    ("status", "step"), [("interrupted", "sortnet train --resume --out m"), ("done", "report")]
)
def test_the_end_says_how_it_went_and_what_to_do(run, status, step):
    record(run, 0)
    run.finish(status)
    result = invoke("show", "last", "--follow")
    assert result.exit_code == 0 and result.stderr.count("\n") == 1
    assert f"is {status}, 1 iteration;" in result.stderr and step in result.stderr


@pytest.mark.slow
def test_rows_come_as_iterations_do_and_it_ends_with_the_run(run):
    record(run, 0)
    with piped("last", "--interval", "0.1") as watch:
        lines = [watch.stdout.readline() for _ in range(3)]
        assert numbers("".join(lines)) == [0]
        record(run, 1)
        assert numbers(watch.stdout.readline()) == [1]
        assert watch.poll() is None
        for i in range(2, 30):
            record(run, i)
        run.finish("done")
        rest, _ = watch.communicate()
    assert numbers(rest) == list(range(2, 30)) and watch.returncode == 0


def test_ctrl_c_leaves_without_a_word_of_python(run):
    record(run, 0)
    with piped("last", "--interval", "0.1") as watch:
        for _ in range(3):
            watch.stdout.readline()
        watch.send_signal(signal.SIGINT)
        _, message = watch.communicate()
    assert (watch.returncode, message) == (0, f"no longer following run {run.id}\n")
    assert run.status == "running"


def in_terminal(run: Run, *args: object, **environment: str) -> str:
    """What is written into a pseudo-terminal until the run has ended."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    import fcntl
    import struct
    import termios

    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    env = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "NO_COLOR")}
    env |= {"TERM": "xterm-256color", "PYTHONUTF8": "1", **environment}
    chunks: list[bytes] = []
    with Forked(["show", "--follow", *args], [theirs] * 3, env, terminal=True) as watch:
        os.close(theirs)

        def read() -> None:
            try:
                while part := os.read(ours, 65536):
                    chunks.append(part)
            except OSError:  # the other end is closed
                pass

        reader = threading.Thread(target=read)
        reader.start()
        until = time.monotonic() + WAIT
        while b"compared" not in b"".join(chunks) and time.monotonic() < until:
            time.sleep(0.05)
        record(run, 40)
        run.finish("done")
        watch.wait(WAIT)
        reader.join(WAIT)
    os.close(ours)
    assert watch.returncode == 0
    return b"".join(chunks).decode()


def test_a_terminal_gets_the_same_lines_above_the_moving_one(run):
    for i in range(40):
        record(run, i)
    text = in_terminal(run, "last", "--interval", "0.1")
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text.replace("\r", "\n"))
    assert numbers(plain) == list(range(41))
    assert plain.count("compared") == 1 and "running" in plain
    assert "done, 41 iterations; next: sortnet report" in plain
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h")  # the cursor is back


def test_without_colour_a_terminal_gets_none(run):
    record(run, 0)
    text = in_terminal(run, "last", "--interval", "0.1", NO_COLOR="1")
    assert not re.search(r"\x1b\[(3|4|9)\d(;|m)", text)


def test_what_cannot_be_followed_is_one_line(store, tmp_path):
    assert "no runs yet: sortnet train makes one" in fault("show", "--follow", "last")
    run = make(store)
    message = fault("show", "--follow", "zz")
    assert "no run 'zz'" in message and run.id in message
    assert "no such file" in fault("show", "--follow", "last", "--store", tmp_path / "none.db")
    assert list(tmp_path.glob("none*")) == []
