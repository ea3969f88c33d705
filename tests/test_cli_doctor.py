"""sortnet doctor, and completion in a shell: what is there, and what to do about what is not."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from importlib import metadata
from pathlib import Path

import pytest
import torch
from cli_helpers import done, invoke, nothing_changed
from click.shell_completion import BashComplete
from result_helpers import value_of

from cli.main import main
from sortnet import __version__
from store import open_store


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch) -> Path:
    """An empty home, so that the tests see none of the user's."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("SORTNET_STORE", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def findings(*args: object) -> dict:
    result = invoke("doctor", "--json", *args)
    found = value_of(result.stdout, "installation")
    assert result.exit_code == (0 if found["ok"] else 1)
    assert found["ok"] == (not found["faults"])
    return found


def test_a_healthy_machine_is_told_and_nothing_is_made(home):
    found = findings()
    assert found["ok"] and found["sortnet"] == __version__
    assert "cpu" in found["devices"]
    assert found["threads"]["cores"] >= found["threads"]["numba"] >= 1
    assert found["store"]["exists"] is False
    assert found["store"]["url"] == f"sqlite:///{home}/.local/share/sortnet/sortnet.db"
    assert not [p for p in home.rglob("*") if "sortnet" in p.name], "looking makes nothing"
    lines = done("doctor").splitlines()
    assert lines[0].startswith(f"sortnet  {__version__}, Python 3.")
    assert lines[-1] == "everything that SortNet needs works"


@pytest.mark.postgresql
def test_a_store_on_postgresql_is_told_of_and_gets_no_tables_by_looking(postgresql_url):
    for _ in range(2):
        found = findings("--store", postgresql_url)
        assert found["ok"] and found["store"]["schema"] is None
    open_store(postgresql_url).close()
    found = findings("--store", postgresql_url)["store"]
    assert found["exists"] and found["runs"] == 0 and found["bytes"] > 0


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_is_broken(home):
    (home / "locked").mkdir(mode=0o500)
    (broken,) = findings("--store", "locked/s.db")["faults"]
    assert "is not writable" in broken


def test_an_extra_that_is_missing_is_no_fault_but_has_its_pip_line(monkeypatch):
    real = metadata.version

    def version(name):
        if name == "pyarrow":
            raise metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr("store.service.installation.metadata.version", version)
    found = findings()
    (parquet,) = (row for row in found["extras"] if row["name"] == "parquet")
    assert found["ok"] and parquet["present"] is False
    assert "pip install 'sortnet[parquet]'" in done("doctor")


@pytest.mark.skipif(torch.backends.cuda.is_built(), reason="a GPU may work")
def test_a_gpu_that_does_not_work_is_broken_and_can_be_done_without(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    (broken,) = findings()["faults"]
    assert broken.startswith("the GPU cannot be used (") and "--set device=cpu" in broken


# Shell completion


def words_of(line: str) -> dict[str, str]:
    """What bash says of the line that is to be completed."""
    return {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}


def test_the_shell_is_answered_without_loading_what_takes_long(trained):
    env = os.environ | words_of(f"sortnet pairs --store {trained}/s.db ")
    env["_SORTNET_COMPLETE"] = "bash_complete"
    command = [sys.executable, "-X", "importtime", "-c", "from cli.main import main; main()"]
    ran = subprocess.run(command, env=env, capture_output=True, text=True)
    run = json.loads((trained / "m/run.json").read_text())["run"]
    assert ran.stdout.splitlines() == ["plain,last", f"plain,{run}"]
    imported = {row.split("|")[-1].strip() for row in ran.stderr.splitlines()}
    assert "click" in imported and not imported & {"torch", "numba", "pandas", "matplotlib"}


# The commands that read the store: 80 columns, and the next step


def test_a_store_is_told_of_with_a_run_at_work_and_left_as_it_is(own_trained):
    with open_store("s.db") as store:
        store.run("last").finish("running")
        assert Path("s.db-wal").stat().st_size > 0, "which the main file does not have yet"
        before = Path("s.db").read_bytes()
        found = findings("--store", "s.db")["store"]
        assert Path("s.db").read_bytes() == before
    assert (found["runs"], found["exists"], found["problem"]) == (1, True, None)
    assert "1 run, " in done("doctor", "--store", "s.db")


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("text.db", "text.db: file is not a database"),
        ("theirs.db", "'runs' that is not SortNet's"),
        ("mysql://h/db", "mysql"),
        ("//////", "is a folder"),  # found by fuzzing
        ("postgresql://me:s3cret@127.0.0.1:1/runs?connect_timeout=2", "127.0.0.1"),
    ],
)
def test_a_store_that_cannot_be_used_is_broken_and_left_alone(url, why):
    Path("text.db").write_text("not a database, but long enough to be taken for one\n" * 99)
    with closing(sqlite3.connect("theirs.db")) as connection, connection:
        connection.execute("CREATE TABLE runs (x)")
    with nothing_changed(Path()):
        (broken,) = findings("--store", url)["faults"]
        lines = invoke("doctor", "--store", url).stdout.splitlines()
    assert why in broken and "s3cret" not in broken
    assert lines[-2:] == ["one thing is broken:", f"- {broken}"]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("sortnet ev", "plain,evaluate"),
        ("sortnet importance --rep", "plain,--repeats"),
        ("sortnet explain mo", "dir,mo"),
        ("sortnet rank model te", "file,te"),
        ("sortnet show ", "plain,last"),
        ("sortnet show --store text.db ", "plain,last"),
        ("sortnet show --store mysql://h/d ", "plain,last"),
    ],
)
def test_commands_options_files_and_runs_are_completed_and_nothing_is_made(
    home, monkeypatch, line, offered
):
    Path("text.db").write_text("no database")
    for name, value in words_of(line).items():
        monkeypatch.setenv(name, value)
    completion = BashComplete(main, {}, "sortnet", "_SORTNET_COMPLETE").complete()
    assert completion.splitlines() == [offered]
    assert [path.name for path in home.iterdir()] == ["text.db"]
