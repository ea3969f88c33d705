"""A server that is started again while a run goes on is waited for; one that stays away is not."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cli_helpers import FAST, done, make_fold, weights_of
from sqlalchemy import Engine, event, text

import store.database.engine
from sortnet.errors import StoreError
from store import open_store
from store.database.engine import Database

if TYPE_CHECKING:
    from conftest import Server

PLACES = ("INSERT INTO pairs", "INSERT INTO iterations", "UPDATE runs SET")


@contextmanager
def restarted(server: Server, call: int, number: int) -> Iterator[list[str]]:
    """Within the n-th statement of each place the server ends, and begins to start again."""
    seen, stopped = dict.fromkeys(PLACES, 0), []

    def restart(*args: object) -> None:
        for place in PLACES:
            seen[place] += place in str(args[2])
            if seen[place] == call and place not in stopped and place in str(args[2]):
                stopped.append(place)
                server.stop(number)
                server.start()

    event.listen(Engine, "before_cursor_execute", restart)
    try:
        yield stopped
    finally:
        event.remove(Engine, "before_cursor_execute", restart)


@pytest.mark.postgresql
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT])
def test_a_run_outlives_restarts_of_its_server_and_ends_the_same(
    own_server: Server, tmp_path: Path, number: int
) -> None:
    make_fold(tmp_path / "fold")
    here = ("train", tmp_path / "fold", *FAST, "--store")
    done(*here, tmp_path / "s.db", "--out", tmp_path / "m")
    with restarted(own_server, 2, number) as stopped:
        done(*here, own_server.url, "--out", tmp_path / "n")
    assert sorted(stopped) == sorted(PLACES)
    weights = [weights_of(tmp_path / name).read_bytes() for name in "mn"]
    assert weights[0] == weights[1]
    names = ["iteration", "tp", "vp", "new_train", "new_vali", "quality", "best"]
    with open_store(tmp_path / "s.db") as whole, open_store(own_server.url) as torn:
        runs = whole.run("last"), torn.run("last")
        assert [run.status for run in runs] == ["done", "done"]
        assert runs[0].pairs_frame().equals(runs[1].pairs_frame())
        assert runs[0].iterations_frame()[names].equals(runs[1].iterations_frame()[names])


@pytest.mark.postgresql
def test_a_server_that_stays_away_is_given_up_with_one_line(
    postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store.database.engine, "RETRY_SECONDS", 0.3)
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", lambda seconds: waits.append(seconds))
    database = Database(postgresql_url)

    def end_the_session(connection: object) -> None:
        connection.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))  # type: ignore[attr-defined]

    def n_waits() -> int:
        n_before = len(waits)
        with pytest.raises(StoreError, match=r"^store postgresql://.*terminat") as caught:
            database.retrying(end_the_session)
        assert "\n" not in str(caught.value)
        return len(waits) - n_before

    assert n_waits() > 1 and waits == sorted(waits)
    assert n_waits() == 0, "it has waited for a minute already"
    assert database.retrying(lambda connection: connection.execute(text("SELECT 7")).scalar()) == 7
    assert n_waits() > 1, "it was there again, so it is waited for again"
    database.close()


def test_a_fault_of_the_statement_is_not_tried_again(url: str) -> None:
    database = Database(url)
    tries = []

    def wrong(connection: object) -> None:
        tries.append(os.getpid())
        connection.execute(text("SELECT colour FROM nowhere"))  # type: ignore[attr-defined]

    with pytest.raises(StoreError):
        database.retrying(wrong)
    assert len(tries) == 1
    database.close()
