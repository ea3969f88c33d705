"""A command that reads changes no file, and reads where nothing may be written."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from cli_helpers import done, fault, invoke
from reading_commands import ELSE, OF_MODEL, OF_STORE, REPORT, add_collection

from store import open_store

READING = (*OF_STORE, REPORT, *OF_MODEL, *ELSE)


@pytest.fixture(scope="module")
def made(copy_of_trained: Path) -> Path:
    add_collection(copy_of_trained)
    return copy_of_trained


@pytest.fixture
def there(made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(made)
    monkeypatch.setenv("SORTNET_STORE", "s.db")
    monkeypatch.setenv("XDG_CACHE_HOME", str(made / "out"))
    return made


def hashes(folder: Path) -> dict[str, str]:
    """The content of every file, but for what commands are told to write."""
    out = folder / "out"
    files = (p for p in folder.rglob("*") if p.is_file() and out not in p.parents)
    return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


@pytest.mark.parametrize("args", READING, ids=" ".join)
def test_a_reading_command_changes_no_file(there: Path, args: tuple[str, ...]) -> None:
    before = hashes(there)
    done(*args)
    assert hashes(there) == before


def test_reading_beside_a_writer_leaves_its_files_alone(there: Path) -> None:
    with open_store("s.db") as store:
        store.collection("shop").lease("bo", [], 1)
        store.run("last").finish("done")
        before = hashes(there)
        assert {"s.db-wal", "s.db-shm"} <= {Path(name).name for name in before}
        for args in OF_STORE:
            done(*args)
        after = hashes(there)
        for found in (before, after):  # the index in memory that all share
            found.pop(str(there / "s.db-shm"))
        assert after == before
    done("runs")
    assert not list(there.glob("s.db-*"))


def test_what_a_killed_writer_left_is_read_and_kept(there: Path, tmp_path: Path) -> None:
    with open_store("s.db") as store:
        store.add_items("late", store.collection("shop").items())
        for name in ("s.db", "s.db-wal"):
            shutil.copy(name, tmp_path)
        store.collection("late").remove()
    before = hashes(tmp_path)
    assert "late" in done("items", "list", "--store", tmp_path / "s.db")
    assert before.items() <= hashes(tmp_path).items()


@contextmanager
def read_only(file: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the file that may not be written, in a folder that may not, even by root.

    Root loses the right to write anyway, not its user, who alone may enter a private checkout.
    """
    override, version = 1 << 1, 0x20080522  # of linux/capability.h
    libc, header = ctypes.CDLL(None), (ctypes.c_uint32 * 2)(version, 0)
    rights = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable, and 32 more of each
    assert libc.capget(header, rights) == 0
    before = rights[0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(file, folder / "s.db")
        (folder / "s.db").chmod(0o444)
        folder.chmod(0o555)
        rights[0] &= ~override
        assert libc.capset(header, rights) == 0
        # The system's own answer is about the rights that root could take up again.
        monkeypatch.setattr("os.access", partial(os.access, effective_ids=True))
        try:
            yield folder / "s.db"
        finally:
            rights[0] = before
            assert libc.capset(header, rights) == 0
            folder.chmod(0o755)


def test_a_store_that_may_not_be_written_is_read(
    there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading = [a for a in OF_STORE if "out" not in str(a) and a[0] != "doctor"]
    expected = [done(*args) for args in reading]  # and all is imported
    with read_only(there / "s.db", monkeypatch) as store:
        with pytest.raises(PermissionError):
            store.open("ab")
        assert [done(*args, "--store", store) for args in reading] == expected
        monkeypatch.setenv("XDG_CACHE_HOME", str(store.parent))
        seen = invoke("doctor", "--store", store).stdout
        assert "read-only: only commands that read work" in seen and "writable" not in seen
        assert [p.name for p in store.parent.iterdir()] == ["s.db"]
        for args in (("items", "remove", "shop", "--yes"), ("label", "shop", "--as", "ana")):
            message = fault(*args, "--store", store)
            assert "s.db: it is read-only here; to write, SQLite needs the file and" in message
        new = store.with_name("new.db")
        message = fault("items", "add", "shop", "shop.csv", "--store", new)
        assert message == f"sortnet: store {new}: cannot make {new}: Permission denied\n"


def test_a_foreign_file_is_refused_by_every_command_that_takes_a_store(there: Path) -> None:
    import sqlite3

    with sqlite3.connect("out/places.sqlite") as connection:
        connection.execute("CREATE TABLE moz_places (url TEXT)")
    connection.close()
    file = Path("out/places.sqlite")
    before = file.read_bytes()
    writing = (
        ("train", "fold", "--out", "out/m"),
        ("demo", "--out", "out/d"),
        ("items", "add", "shop", TEST_ITEMS),
        ("items", "remove", "shop"),
        ("judgements", "import", "shop", TEST_ITEMS),
        ("label", "shop", "--as", "ana"),
        ("serve", "shop", "--port", "0"),
    )
    for args in (*(a for a in OF_STORE if a[0] != "doctor"), REPORT, *writing):
        assert "'moz_places' that is not SortNet's" in fault(*args, "--store", file), args
    assert "moz_places" in invoke("doctor", "--store", file).output
    assert file.read_bytes() == before
    assert not list(Path("out").glob("places.sqlite-*"))


TEST_ITEMS = "fold/test.txt"
