"""Damaged stores: whatever is in one, a command that reads it ends with 0 or with one line."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest
from cli_helpers import runner
from fuzz_helpers import rounds
from reading_commands import OF_STORE, REPORT, add_collection

from cli.main import main
from store.database.schema import Base

COMMANDS = 3  # of each damaged store
VALUES = (
    None, -1, 2**62, -(2**63), 1.5, float("inf"), "", "x", "\x00", "\U0001f600" * 99, b"\xff\xfe",
    "[]", "{}", "5", "{", "[1, null]", '{"quality": 5}', '{"quality": "map", "training": []}',
    '{"train": []}', '{"train": {"map": "x"}, "vali": {"map": []}}', "[" * 9999, "NaN",
    '{"train": {"margins": 1, "ranks": {}, "cycles": {}}}', "2020-13-45 99:99:99", "yesterday",
    "9999-12-31 23:59:59.999999", "1999-01-01",
)  # fmt: skip


def flipped(file: Path, rng: random.Random) -> None:
    content = bytearray(file.read_bytes())
    for _ in range(rng.choice((1, 3, 20, 300))):
        content[rng.randrange(len(content))] = rng.randrange(256)
    file.write_bytes(content)


def cut(file: Path, rng: random.Random) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: rng.randrange(len(content))])


def wrong_values(file: Path, rng: random.Random) -> None:
    """Put other values into some columns, in one row or all."""
    statements = []
    for _ in range(rng.choice((1, 1, 2, 5))):
        table = rng.choice(Base.metadata.sorted_tables)
        column = rng.choice(list(table.columns)).name
        only = f' WHERE "{column}" = (SELECT "{column}" FROM "{table.name}" LIMIT 1)'
        change = f'UPDATE OR REPLACE "{table.name}" SET "{column}" = ?'
        statements.append((change + rng.choice(("", only)), (rng.choice(VALUES),)))
    changed(file, *statements)


NOTE = "no ids for "
DAMAGES: tuple[Callable[[Path, random.Random], None], ...] = (
    flipped, cut, wrong_values, wrong_values, wrong_values,
)  # fmt: skip


@pytest.fixture(scope="module")
def made(copy_of_trained: Path) -> Path:
    add_collection(copy_of_trained)
    return copy_of_trained


def test_a_damaged_store_is_one_line(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(made)
    commands = [*OF_STORE, REPORT] if "SORTNET_FUZZ_MINUTES" in os.environ else OF_STORE
    for seed in rounds(15):
        rng = random.Random(seed)
        shutil.copy("s.db", "damaged.db")
        rng.choice(DAMAGES)(Path("damaged.db"), rng)
        for args in rng.sample(commands, COMMANDS):
            result = runner().invoke(main, [*args, "--store", "damaged.db"])
            about = f"seed {seed}: {' '.join(args)}: {result.output[-999:]}"
            assert isinstance(result.exception, SystemExit | None), about
            broken = 1 if args[0] == "doctor" else 2
            assert result.exit_code in (0, broken), about
            # Notes on a run whose data are gone come before the fault.
            lines = [text for text in result.stderr.splitlines() if not text.startswith(NOTE)]
            assert result.exit_code == 0 or len(lines) <= 1, about


def test_a_collection_without_a_time_is_listed(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by fuzzing."""
    monkeypatch.chdir(made)
    shutil.copy("s.db", "damaged.db")
    changed(Path("damaged.db"), ("UPDATE collections SET created = NULL", ()))
    result = runner().invoke(main, ["items", "list", "--store", "damaged.db"])
    assert result.exit_code in (0, 2) and "Traceback" not in result.output


def changed(file: Path, *statements: tuple[str, tuple[object, ...]]) -> None:
    """Change a store whatever its tables allow."""
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_master SET sql = replace(sql, 'NOT NULL', '')")
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        for statement, values in statements:
            with suppress(sqlite3.IntegrityError):  # text as a row's own number
                connection.execute(statement, values)
