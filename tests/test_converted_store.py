"""A store of version 0.4 is converted to a new store, which says the same of its collections."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from cli_helpers import done, fault, invoke
from old_version import EXPECTED, unpacked
from result_helpers import notes_of, value_of
from sqlalchemy import MetaData, create_engine, event, insert, select, text

from sortnet.errors import StoreError
from store import open_store
from store.database.conversion import convert

COLLECTIONS: dict[str, dict[str, Any]] = EXPECTED["collections"]
ASKED = [name for name, facts in COLLECTIONS.items() if "ranking" in facts]
OLD = "store.sqlite"
# Facts about annotators that do not come from the model.
COUNTED = ("name", "answers", "agreement", "shared", "consistency", "repeats", "gold",
           "gold_answers", "skipped", "cant_say", "undone", "median_seconds", "state",
           "reason")  # fmt: skip
TABLES = ("collections", "items", "allowed_pairs", "annotators", "judgements",
          "decisions", "batches", "leases")  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that 0.4.0 wrote as the working folder; commands take the new store."""
    written = unpacked(tmp_path)
    monkeypatch.chdir(written)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("SORTNET_STORE", "new.db")
    return written


@pytest.fixture
def new(folder: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """URL of a store that was converted, in either database."""
    if url.startswith("sqlite"):
        url = "new.db"
    monkeypatch.setenv("SORTNET_STORE", url)
    convert(OLD, url)
    return url


def printed(*args: object) -> Any:
    return value_of(done(*args, "--json"))


def same(found: Any, expected: Any) -> None:
    """Check that rows are the same, but for rounding and further columns."""
    assert type(found) is type(expected) or {type(found), type(expected)} <= {int, float}
    if isinstance(expected, dict):
        for key, value in expected.items():
            same(found[key], value)
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            same(one, other)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-3, abs=1e-3)
    else:
        assert found == expected


def today(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of judgements as today's version has them, of rows as 0.4 had them."""
    converted = []
    for row in rows:
        sides = {"left": row["left"], "right": row["right"]}
        facts = {name: value for name, value in row.items() if name not in sides}
        if row.get("items") is None:
            answer = row["answer"]
            facts["items"] = [*sides.values()]
            facts["answer"] = {"left": "best", "right": "best", "tie": "same"}.get(answer, answer)
            facts["best"], facts["worst"] = sides.get(answer), None
        converted.append(facts)
    return converted


@pytest.mark.slow
@pytest.mark.parametrize("name", ASKED)
def test_commands_say_of_a_collection_what_0_4_said_but_for_its_model(new: str, name: str) -> None:
    expected = COLLECTIONS[name]
    ranked = {row["id"] for row in printed("ranking", name)}
    assert ranked == {row["id"] for row in expected["ranking"]}
    same(
        [{fact: row[fact] for fact in COUNTED} for row in printed("annotators", "list", name)],
        [{fact: row[fact] for fact in COUNTED} for row in expected["annotators"]],
    )
    agreement = printed("annotators", "agreement", name)
    same(agreement, {fact: expected["agreement"][fact] for fact in ("shared_pairs", "repeats")})
    same(printed("judgements", "list", name, "--limit", 1000), today(expected["judgements"]))
    same(printed("ask", name), expected["asked"])


def test_decisions_links_leases_and_batches_are_brought(new: str) -> None:
    with open_store(new, write=False) as store:
        for name, expected in COLLECTIONS.items():
            collection = store.collection(name)
            decisions = [asdict(decision) for decision in collection.decisions()]
            assert decisions == expected["decisions"]
            assert (collection.settings, collection.seed) == (
                expected["settings"],
                expected["seed"],
            )
            tokens = {each.name: each.token for each in collection.annotators()}
            assert tokens == expected["tokens"]
            if name not in ASKED:
                continue
            batches = [
                [batch.name, batch.annotator, batch.n_open, batch.cancelled is None]
                for batch in collection.batches()
            ]
            assert batches == expected["batches"]
            of_batches = [lease for lease in expected["leases"] if lease[2] is not None]
            leases = [
                [lease.annotator, list(lease.question.items), lease.batch]
                for lease in collection.leases()
            ]
            assert [lease for lease in leases if lease[2] is not None] == of_batches
        study = store.collection("essays").study()
        assert sorted(study.gold_pairs()) == [(3, 0), (4, 1)]
        assert ([*study.excluded], study.quotas, [*study.retired]) == (["eve"], {"ben": 50}, [23])


def test_new_rows_are_numbered_after_the_converted_rows(new: str) -> None:
    with open_store(new) as store:
        collection = store.collection("essays")
        numbers = collection.judgements().number
        judgement = collection.judgements()[-1]
        (undo,) = collection.append([judgement.undo()])
        assert undo.number == numbers[-1] + 1
        assert collection.annotator("zoe").name == "zoe"
        with store.database.transaction(write=True) as connection:
            added = connection.execute(text("SELECT max(number) FROM annotators")).scalar_one()
        assert added == EXPECTED["tables"]["annotators"] + 1


def test_the_old_store_is_only_read_and_all_of_its_rows_are_counted(folder: Path) -> None:
    before = Path(OLD).read_bytes()
    result = invoke("doctor", "--convert", OLD, "new.db", "--json")
    assert result.exit_code == 0
    value, counts = value_of(result.stdout, "converted"), EXPECTED["tables"]
    names = ("items", "annotators", "judgements", "decisions")
    assert {name: value["brought"][name] for name in names} == {
        name: counts[name] for name in names
    }
    runs = f"runs are not converted: store {OLD} keeps {counts['runs']} runs"
    assert value["runs_not_converted"] == counts["runs"] and notes_of(result.stdout) == [runs]
    assert Path(OLD).read_bytes() == before
    assert not list(folder.glob(f"{OLD}-*"))
    has_all_rows("new.db")
    assert Path("new.db").stat().st_mode & 0o777 == 0o600


def test_a_store_that_cannot_be_converted_is_refused_and_leaves_no_new_store(folder: Path) -> None:
    done("doctor", "--convert", OLD, "new.db")
    files = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    Path("dangling").symlink_to("nowhere")
    for old, new, reason in (
        (OLD, "new.db", "store new.db exists already"),
        (OLD, OLD, f"store {OLD} exists already"),
        (OLD, "photos", "store photos exists already"),
        (OLD, "dangling", "store dangling exists already"),
        ("new.db", "newer.db", "only stores of version 0.4 (m0015) are converted"),
        ("missing.db", "newer.db", "store missing.db: no such file"),
        ("essays.csv", "newer.db", "not a database"),
    ):
        assert reason in fault("doctor", "--convert", old, new)
    assert "leave out --store" in fault("doctor", "--convert", OLD, "x.db", "--store", "y.db")
    assert {path: path.read_bytes() for path in folder.iterdir() if path.is_file()} == files


@pytest.mark.parametrize(("strategy", "expected"), [("merge", "default"), ("random", "random")])
def test_a_strategy_that_is_gone_is_the_rule_of_today(folder, strategy, expected):
    with closing(sqlite3.connect(OLD)) as connection, connection:
        settings = f'{{"strategy": "{strategy}", "holdout": 0.2}}'
        connection.execute("UPDATE collections SET settings = ? WHERE name = 'essays'", [settings])
    convert(OLD, "new.db")
    with open_store("new.db") as store:
        assert store.collection("essays").settings == {"strategy": expected, "holdout": 0.2}
    assert value_of(done("ranking", "essays", "--json"))


@pytest.mark.postgresql
def test_a_store_of_0_4_on_postgresql_is_converted(folder: Path, postgresql_url: str) -> None:
    put_on_server(postgresql_url)
    with pytest.raises(StoreError, match="has a store already"):
        convert(OLD, postgresql_url)
    convert(postgresql_url, "new.db")
    has_all_rows("new.db")
    expected = today(COLLECTIONS["fours"]["judgements"])
    same(printed("judgements", "list", "fours", "--limit", 1000), expected)


def has_all_rows(path: str) -> None:
    """Check that each table of a new store has as many rows as in the old store."""
    with closing(sqlite3.connect(path)) as connection:
        for name in TABLES:
            (n,) = connection.execute(f"SELECT count(*) FROM {name}").fetchone()
            assert n == EXPECTED["tables"][name], name


def put_on_server(url: str) -> None:
    """Put the tables of the old store, as they lie in the file, into an empty database."""
    tables = MetaData()

    @event.listens_for(tables, "column_reflect")
    def _generic(inspector: object, table: object, column: dict[str, Any]) -> None:
        column["type"] = column["type"].as_generic()

    file, server = create_engine(f"sqlite:///{OLD}"), create_engine(url)
    with file.connect() as reading, server.begin() as writing:
        tables.reflect(reading)
        for table in tables.sorted_tables:
            table.indexes.clear()  # the condition of an index is not read back
        tables.create_all(writing)
        for table in tables.sorted_tables:
            rows = [dict(row) for row in reading.execute(select(table)).mappings()]
            if rows:
                writing.execute(insert(table), rows)
    file.dispose()
    server.dispose()
