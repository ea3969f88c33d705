"""A store file that 0.1.0 wrote: read as it is, and upgraded by the first command that writes."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from cli_helpers import done, invoke
from result_helpers import value_of

OLD = Path(__file__).parent / "data" / "store-0.1.0.sqlite"
RUN = "af77ab34b383"
ORDER = ["i3", "i4", "i5", "i1", "i2", "i0"]


@pytest.fixture
def store(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SORTNET_STORE", "old.sqlite")
    return Path(shutil.copy(OLD, tmp_path / "old.sqlite"))


def opened(path: Path) -> closing[sqlite3.Connection]:
    return closing(sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True))


def rows(statement: str) -> list[tuple[object, ...]]:
    with opened(OLD) as connection:
        return connection.execute(statement).fetchall()


def dump(path: Path) -> list[str]:
    with opened(path) as connection:
        return list(connection.iterdump())


def shown() -> dict[str, str]:
    """What every command that reads a store says of this one."""
    commands = (
        ("runs",),
        ("runs", "--json"),
        ("show", "last"),
        ("show", RUN, "--json"),
        ("pairs", RUN),
        ("pairs", RUN, "--format", "jsonl", "--split", "vali"),
        ("show", "--follow", RUN),
        ("items", "list", "--json"),
        ("items", "show", "wishes", "--json"),
        ("ranking", "wishes", "--json"),
        ("judgements", "list", "wishes", "--json"),
        ("judgements", "export", "wishes"),
        ("annotators", "wishes", "--json"),
    )
    return {" ".join(command): done(*command) for command in commands}


def test_every_command_that_reads_shows_what_0_1_0_wrote_and_changes_nothing(store):
    said = shown()
    (run,) = value_of(said["runs --json"], "runs")
    kept = rows("SELECT iteration, quality FROM iterations WHERE best ORDER BY iteration")[-1]
    assert (run["id"], run["status"], run["iterations"]) == (RUN, "done", 3)
    assert (run["best_iteration"], run["best_quality"]) == kept
    iterations = value_of(said[f"show {RUN} --json"], "run")["iterations"]
    assert [(row["tp"], row["vp"]) for row in iterations] == rows("SELECT tp, vp FROM iterations")
    pairs = [line.split(",") for line in said[f"pairs {RUN}"].splitlines()]
    first = rows("SELECT split, winner, loser, times FROM pairs ORDER BY split, winner, loser")[0]
    named = [dict(zip(pairs[0], row, strict=True)) for row in pairs[1:]]
    assert len(named) == 38 == sum(n for (n,) in rows("SELECT count(*) FROM pairs"))
    assert tuple(named[0][name] for name in ("split", "winner", "loser", "times")) == tuple(
        map(str, first)
    )
    assert [row["id"] for row in value_of(said["ranking wishes --json"], "ranking")] == ORDER
    names = ("answer", "left", "right")
    judged = value_of(said["judgements list wishes --json"], "judgements")
    assert [tuple(row[name] for name in names) for row in judged] == rows(
        "SELECT answer, a.id, b.id FROM judgements"
        " JOIN items a ON left_item = a.number JOIN items b ON right_item = b.number"
        " ORDER BY judgements.number"
    )
    assert store.read_bytes() == OLD.read_bytes()
    assert [path.name for path in store.parent.iterdir()] == [store.name]


def test_the_first_command_that_writes_upgrades_it_after_a_copy(store):
    before = shown()
    Path("more.csv").write_text("left,right,answer\ni0,i1,right\n")
    added = invoke("judgements", "import", "wishes", "more.csv", "--as", "ben")
    assert added.exit_code == 0, added.stderr
    (copy,) = (
        path for path in store.parent.iterdir() if path.name not in ("old.sqlite", "more.csv")
    )
    assert (
        f"old.sqlite was upgraded to a new schema; copy of the old file: {copy.name}"
        in added.stderr
    )
    assert dump(copy) == dump(OLD)
    after = shown()
    changed = {name for name in before if before[name] != after[name]}
    of_judgements = {"items list --json", "ranking wishes --json", "judgements list wishes --json"}
    assert changed == {*of_judgements, "judgements export wishes", "annotators wishes --json"}
    assert len(value_of(after["judgements list wishes --json"], "judgements")) == 4


@pytest.mark.slow
def test_its_run_is_drawn_as_a_report(store):
    assert done("report", RUN) == f"report-{RUN}.html\n"
    assert RUN in Path(f"report-{RUN}.html").read_text()
