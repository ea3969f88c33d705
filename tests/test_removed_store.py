"""A SQLite file that is removed or replaced under a running command: nothing is acknowledged."""

from __future__ import annotations

import shlex
import shutil
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from cli_helpers import fault
from collection_helpers import made_items
from forked_processes import ForkedScript
from sqlalchemy import event

from sortnet import sort
from sortnet.errors import StoreError
from sortnet.preference import Judgement
from store import Collection, open_store


def remove_with_logs(file: Path) -> None:
    for name in (file, log(file, "-wal"), log(file, "-shm")):
        name.unlink()


def remove_changes(file: Path) -> None:
    log(file, "-wal").unlink()


def remove_index(file: Path) -> None:
    log(file, "-shm").unlink()


def replace_by_copy(file: Path) -> None:
    shutil.copy(file, file.with_name("copy"))
    file.with_name("copy").replace(file)


def replace_by_link(file: Path) -> None:
    """Move the file, and let a link lead to it: SQLite looks for its logs beside the new place."""
    moved = file.rename(file.with_name("moved.db"))
    file.symlink_to(moved)


def move_folder(file: Path) -> None:
    file.parent.rename(file.parent.with_name("elsewhere"))


def remove_folder(file: Path) -> None:
    shutil.rmtree(file.parent)


CHANGES = [
    *(Path.unlink, remove_with_logs, remove_changes, remove_index, replace_by_copy),
    *(replace_by_link, move_folder, remove_folder),
]


def log(file: Path, suffix: str) -> Path:
    return file.with_name(f"{file.name}{suffix}")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A store with a collection of five items, in a folder of its own."""
    path = tmp_path / "folder" / "s.db"
    with open_store(path) as store:
        store.add_items("c", made_items(5, d=0))
    return path


def write(collection: Collection) -> None:
    collection.append([Judgement.of("ana", (0, 1), "left")])


@pytest.mark.parametrize("change", CHANGES)
def test_no_process_writes_to_a_file_that_its_path_no_longer_leads_to(
    file: Path, change: Callable[[Path], None]
) -> None:
    with open_store(file) as store:
        collection = store.collection("c")
        write(collection)
        change(file)
        for use in (write, Collection.judgements):
            with pytest.raises(StoreError, match=r"s\.db.* was (removed|replaced) while"):
                use(collection)
    assert not file.parent.exists() or list(file.parent.glob("s.db")) == [file] * file.exists()


def test_a_file_that_is_put_back_is_written_again(file: Path) -> None:
    with open_store(file) as store:
        collection = store.collection("c")
        moved = file.rename(file.with_name("moved.db"))
        with pytest.raises(StoreError, match="was removed"):
            write(collection)
        moved.rename(file)
        write(collection)
    with open_store(file, write=False) as store:
        assert store.collection("c").n_judgements == 1


@pytest.mark.parametrize("moment", ["commit", "connect"])
def test_a_file_that_is_removed_in_a_transaction_stores_nothing(file: Path, moment: str) -> None:
    def remove_once(*_: object) -> None:
        file.unlink(missing_ok=True)

    with open_store(file) as store:
        collection = store.collection("c")
        if moment == "connect":
            store.database.close()  # so that the next transaction opens a connection
        event.listen(store.database.engine, moment, remove_once, insert=True)
        with pytest.raises(StoreError, match=rf"{file}: (s.db was removed|disk I/O error)"):
            write(collection)
    assert not file.exists()


# Answers in the order of the ids, and changes the store before its third answer.
JUDGE = """
import json, os, shutil, sys
for number, line in enumerate(sys.stdin):
    if number == 2:
        {change}
    question = json.loads(line)
    answer = "left" if question["left"]["id"] < question["right"]["id"] else "right"
    print(json.dumps({{"id": question["id"], "answer": answer}}), flush=True)
"""


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ("os.remove('s.db')", "removed"),
        ("shutil.copy('s.db', 'copy'); os.replace('copy', 's.db')", "replaced"),
    ],
)
def test_label_ends_with_an_error_and_counts_no_lost_answer(
    file: Path, monkeypatch: pytest.MonkeyPatch, change: str, word: str
) -> None:
    monkeypatch.chdir(file.parent)
    Path("judge.py").write_text(JUDGE.format(change=change))
    judge = f"{shlex.quote(sys.executable)} -S -E judge.py"
    message = fault("label", "c", "--as", "robot", "--judge", judge, "--store", "s.db")
    assert f"store s.db: s.db was {word}" in message
    if file.exists():
        assert _answers_in(file) == 2
        with closing(sqlite3.connect(file)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_a_person_at_a_terminal_is_told_that_an_answer_is_lost(file: Path) -> None:
    code = "from cli.main import main; main()"
    words = ("label", "c", "--as", "ana", "--number", 9, "--store", file)
    with ForkedScript(code, *words) as process:
        process.stdin.write("left\n")
        process.stdin.flush()
        while not _answers_in(file):
            time.sleep(0.05)
        remove_folder(file)
        process.stdin.write("right\n")
        _, said = process.communicate()
    assert process.returncode == 2
    assert f"sortnet: store {file}: s.db was removed while it was in use" in said
    assert "answered: " not in said and not file.exists()


def _answers_in(file: Path) -> int:
    with open_store(file, write=False) as store:
        return len(store.collection("c").judgements())


def test_sort_ends_with_an_error(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    asked: list[str] = []

    def longer(left: str, right: str) -> str:
        asked.append(left)
        if len(asked) == 3:
            path.unlink()
        return "left" if len(left) > len(right) else "right"

    with pytest.raises(StoreError, match=r"s\.db was removed"):
        sort(["a", "bb", "ccc", "dddd", "eeeee"], judge=longer, store=path)
