"""A server that is started again while a run trains ends the run, which is resumed to its end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cli_helpers import FAST, done, invoke, make_fold, weights_of
from sqlalchemy import Engine, event

from store import open_store

if TYPE_CHECKING:
    from conftest import Server


@pytest.mark.postgresql
@pytest.mark.slow
@pytest.mark.parametrize("place", ["INSERT INTO pairs", "INSERT INTO iterations"])
def test_a_run_whose_server_was_restarted_is_resumed_to_the_same_end(
    own_server: Server, tmp_path: Path, place: str
) -> None:
    make_fold(tmp_path / "fold")
    here = ("train", tmp_path / "fold", *FAST, "--store")
    done(*here, tmp_path / "s.db", "--out", tmp_path / "m")
    n_seen = 0

    def restart(*args: object) -> None:
        nonlocal n_seen
        n_seen += place in str(args[2])
        if n_seen == 2:
            n_seen += 1
            own_server.restart()

    event.listen(Engine, "before_cursor_execute", restart)
    try:
        torn = invoke(*here, own_server.url, "--out", tmp_path / "n")
    finally:
        event.remove(Engine, "before_cursor_execute", restart)
    assert torn.exit_code == 2 and "sortnet: store postgresql://" in torn.stderr
    done("train", "--resume", "--out", tmp_path / "n", "--store", own_server.url)
    assert weights_of(tmp_path / "m").read_bytes() == weights_of(tmp_path / "n").read_bytes()
    names = ["iteration", "tp", "vp", "new_train", "new_vali", "quality", "best"]
    with open_store(tmp_path / "s.db") as whole, open_store(own_server.url) as other:
        runs = whole.run("last"), other.run("last")
        assert [run.status for run in runs] == ["done", "done"]
        assert runs[0].pairs_frame().equals(runs[1].pairs_frame())
        assert runs[0].iterations_frame()[names].equals(runs[1].iterations_frame()[names])
