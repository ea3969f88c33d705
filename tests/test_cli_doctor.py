"""sortnet doctor, and completion in a shell: what is there, and what to do about what is not."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
import torch
from cli_helpers import FAST, copy_run, done, invoke, make_fold
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


def train(home: Path, store: str) -> None:
    make_fold(home / "fold")
    done("train", home / "fold", "--out", home / "m", "--store", store, *FAST)


def test_a_healthy_machine_is_told_and_nothing_is_made(home):
    found = findings()
    assert found["ok"]
    assert found["sortnet"] == __version__
    assert "cpu" in found["devices"]
    assert found["threads"]["cores"] >= found["threads"]["numba"] >= 1
    assert found["store"]["exists"] is False
    assert found["store"]["url"] == f"sqlite:///{home}/.local/share/sortnet/sortnet.db"
    assert not [p for p in home.rglob("*") if "sortnet" in p.name], "looking makes nothing"
    lines = done("doctor").splitlines()
    assert lines[0].startswith(f"sortnet  {__version__}, Python 3.")
    assert lines[-1] == "everything that SortNet needs works"
    paths = (sys.executable, "sortnet.db")
    assert all(len(line) <= 80 or any(p in line for p in paths) for line in lines)
    assert any("sortnet train creates it" in line for line in lines)


def files_in(home: Path) -> list[Path]:
    """All files but those of other packages, which have theirs in .config."""
    return sorted(path for path in home.rglob("*") if ".config" not in path.parts)


def test_a_store_is_told_of_and_left_as_it_is(home, own_trained):
    before, files = Path("s.db").read_bytes(), files_in(home)
    found = findings("--store", "s.db")["store"]
    assert (found["runs"], found["exists"], found["problem"]) == (1, True, None)
    assert found["bytes"] == len(before)
    with sqlite3.connect("s.db") as connection:
        (version,) = connection.execute("SELECT version_num FROM sortnet_schema").fetchone()
    connection.close()
    assert found["schema"] == version
    assert "1 run, " in done("doctor", "--store", "s.db")
    assert Path("s.db").read_bytes() == before and files_in(home) == files


def test_a_run_that_is_at_work_is_seen(home, own_trained):
    """What the writer has not yet put into the main file is in the -wal beside it."""
    with open_store("s.db") as store:
        store.run("last").finish("running")
        assert Path("s.db-wal").stat().st_size > 0
        assert findings("--store", "s.db")["store"]["runs"] == 1


def test_the_store_of_the_environment_is_the_default_one(home, monkeypatch):
    monkeypatch.setenv("SORTNET_STORE", str(home / "team.db"))
    assert findings()["store"]["url"] == f"sqlite:///{home}/team.db"
    monkeypatch.delenv("SORTNET_STORE")
    monkeypatch.setenv("XDG_DATA_HOME", str(home / "data"))
    assert findings()["store"]["url"] == f"sqlite:///{home}/data/sortnet/sortnet.db"
    assert not (home / "data").exists()


def test_a_file_that_is_no_store_is_broken_and_left_alone(home):
    text = "not a database, but long enough to be taken for one\n" * 99
    Path("text.db").write_text(text)
    (broken,) = findings("--store", "text.db")["faults"]
    assert "text.db" in broken and "not a database" in broken and "--store" in broken
    result = invoke("doctor", "--store", "text.db")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-2:] == ["one thing is broken:", f"- {broken}"]
    assert Path("text.db").read_text() == text


def test_another_program_s_database_is_broken_and_an_empty_one_is_not(home):
    for name, made in (("theirs.db", "CREATE TABLE runs (x)"), ("empty.db", "SELECT 1")):
        with sqlite3.connect(name) as connection:
            connection.execute(made)
        connection.close()
    (broken,) = findings("--store", "theirs.db")["faults"]
    assert "'runs' that is not SortNet's" in broken
    Path("empty.db").touch()
    assert findings("--store", "empty.db")["ok"]


def test_a_store_that_cannot_be_reached_shows_no_password():
    url = "postgresql://me:s3cret@127.0.0.1:1/runs?connect_timeout=2"
    result = invoke("doctor", "--json", "--store", url)
    found = value_of(result.stdout, "installation")
    assert result.exit_code == 1 and "s3cret" not in result.output
    assert "127.0.0.1" in found["faults"][0]


@pytest.mark.postgresql
def test_a_store_on_postgresql_is_told_of_and_gets_no_tables_by_looking(postgresql_url):
    for _ in range(2):
        found = findings("--store", postgresql_url)
        assert found["ok"] and found["store"]["schema"] is None
    open_store(postgresql_url).close()
    found = findings("--store", postgresql_url)["store"]
    assert found["exists"] and found["runs"] == 0 and found["bytes"] > 0


def test_a_store_url_of_another_kind_is_broken():
    (broken,) = findings("--store", "mysql://h/db")["faults"]
    assert "mysql" in broken
    (broken,) = findings("--store", "//////")["faults"]  # found by fuzzing
    assert "is a folder" in broken


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
    assert found["ok"]
    extras = {row["name"]: row for row in found["extras"]}
    assert "dev" not in extras and {"parquet", "postgresql"} <= set(extras)
    assert extras["parquet"]["present"] is False
    assert "pip install 'sortnet[parquet]'" in done("doctor")


@pytest.mark.skipif(torch.backends.cuda.is_built(), reason="a GPU may work")
def test_a_gpu_that_does_not_work_is_broken_and_can_be_done_without(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    found = findings()
    assert found["devices"] == ["cpu"]
    (broken,) = found["faults"]
    assert broken.startswith("the GPU cannot be used (") and "--set device=cpu" in broken


# Shell completion


def words_of(line: str) -> dict[str, str]:
    """What bash says of the line that is to be completed."""
    return {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}


def completed(line: str, **env: str) -> list[str]:
    """What bash would be offered for the last word of a line."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (words_of(line) | env).items():
            patch.setenv(name, value)
        return BashComplete(main, {}, "sortnet", "_SORTNET_COMPLETE").complete().splitlines()


def test_the_shell_is_answered_without_loading_what_takes_long(home, trained):
    copy_run(trained, home)
    run = json.loads(Path("m/run.json").read_text())["run"]
    ran = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", "from cli.main import main; main()"],
        env={**os.environ, **words_of(f"sortnet pairs --store s.db {run[:4]}"),
             "_SORTNET_COMPLETE": "bash_complete"},
        capture_output=True, text=True,
    )  # fmt: skip
    assert ran.stdout.splitlines() == [f"plain,{run}"]
    imported = {row.split("|")[-1].strip() for row in ran.stderr.splitlines()}
    assert "click" in imported and not imported & {"torch", "numba", "pandas", "matplotlib"}


def test_commands_options_files_and_folders_are_completed():
    assert completed("sortnet ev") == ["plain,evaluate"]
    assert completed("sortnet importance --rep") == ["plain,--repeats"]
    assert completed("sortnet explain mo") == ["dir,mo"]
    assert completed("sortnet rank model te") == ["file,te"]
    assert completed("sortnet train --out mo") == ["dir,mo"]


def test_runs_are_completed_from_the_store_without_making_one(home, trained):
    assert completed("sortnet show ") == ["plain,last"]
    assert list(home.rglob("*")) == []
    copy_run(trained, home)
    run = json.loads(Path("m/run.json").read_text())["run"]
    assert completed("sortnet show ", SORTNET_STORE="s.db") == ["plain,last", f"plain,{run}"]
    Path("text.db").write_text("no database")
    assert completed("sortnet show ", SORTNET_STORE="text.db") == ["plain,last"]
    assert completed("sortnet show ", SORTNET_STORE="mysql://h/d") == ["plain,last"]


# The commands that read the store: 80 columns, and the next step


def test_runs_fit_the_columns_there_are(home, monkeypatch):
    train(home, "s.db")
    whole = done("runs", "--store", "s.db")
    assert str(home / "m") in whole, "a pipe gets the whole path"
    monkeypatch.setenv("COLUMNS", "80")
    lines = done("runs", "--store", "s.db").splitlines()
    assert max(map(len, lines)) <= 80 and lines[1].endswith("/m")
    for command in (("show", "last"), ("evaluate",)):
        args = ("m", "fold/test.txt") if command == ("evaluate",) else ("--store", "s.db")
        lines = done(*command, *args).splitlines()
        table = [x for x in lines if x[:4].strip().isdecimal() or x[:4] == "iter" or x[:3] == "map"]
        assert table and max(map(len, table)) <= 80
