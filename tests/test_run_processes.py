"""Runs whose process is gone are known as killed, by whoever reads; nothing is written for it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from cli_helpers import done, invoke
from result_helpers import value_of
from sqlalchemy import text

from sortnet.config import Config
from sortnet.core import Queries
from sortnet.errors import StoreError
from store import Run, Store, open_store

STARTS = """
import sys
sys.path.insert(0, sys.argv[2])
from test_run_processes import begin
from store import open_store
with open_store(sys.argv[1]) as store:
    begin(store)
    print("begun", flush=True)
    sys.stdin.read()
"""


def begin(store: Store) -> Run:
    part = Queries.from_arrays(np.eye(2), [1, 0])
    run = store.start_run(
        command="sortnet train x --out m", config=Config(quality="map").to_json(),
        seed=0, versions={}, train=part, vali=part, out="the model",
    )  # fmt: skip
    counts = ("comparisons", "miscompared", "new")
    run.record(
        {"iteration": 0, "quality": 0.5, "best": True, "seconds_sort": 0.5, "seconds_train": 1.0,
         "tp": 1, "vp": 1, "measures": {"train": {"map": 0.5}, "vali": {"map": 0.5}},
         **{f"{name}_{split}": 1 for name in counts for split in ("train", "vali")}}
    )  # fmt: skip
    return run


@pytest.fixture
def killed(url: str) -> Iterator[Store]:
    """A store whose run was killed."""
    with open_store(url) as store:
        begin(store)
    with open_store(url) as store:
        yield store


def written(store: Store) -> str:
    with store.database.transaction() as connection:
        return str(connection.execute(text("SELECT status FROM runs")).scalar_one())


def statuses(store: Store, run: Run) -> set[str]:
    return {run.status, *store.runs_frame()["status"]}


def test_a_run_goes_on_while_its_process_lives_and_is_killed_when_it_is_gone(url: str) -> None:
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", STARTS, url, str(Path(__file__).parent)]
    with (
        subprocess.Popen(command, text=True, stdin=pipe, stdout=pipe) as child,
        open_store(url) as store,
    ):
        assert child.stdout is not None
        assert child.stdout.readline() == "begun\n"
        run = store.run("last")
        assert statuses(store, run) == {"running"}
        with pytest.raises(StoreError, match="is running in another process"):
            run.finish("running")
        child.send_signal(signal.SIGKILL)
        child.wait()
        assert statuses(store, run) == {"killed"}
        assert written(store) == "running", "who reads does not write"


def test_a_killed_run_that_is_resumed_is_this_process_s(killed: Store) -> None:
    run = killed.run("last")
    for status in ("running", "done"):
        run.finish(status)
        assert statuses(killed, run) == {status}


def test_commands_call_it_killed_and_say_how_to_go_on(here: Path) -> None:
    with open_store("s.db") as store:
        begin(store)
    again = "sortnet train --resume --out 'the model'"
    for command in (["runs"], ["show", "last"], ["show", "last", "--follow"]):
        result = invoke(*command)
        assert result.exit_code == 0
        assert "killed" in result.stdout + result.stderr and again in result.stderr
    assert value_of(done("runs", "--json"))[0]["status"] == "killed"
    page = done("report", "last", "--output", "-")
    assert "killed after 1 iteration." in page
    assert "sortnet train --resume --out &#39;the model&#39;" in page
