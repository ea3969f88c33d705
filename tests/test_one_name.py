"""Two processes that label under one name: no pair is asked twice of one annotator."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from collection_helpers import ON_SQLITE, Clock, answer_lease, made_items
from forked_processes import ForkedScript
from result_helpers import value_of
from sqlalchemy import make_url

from sortnet.preference import Question
from store import Collection, Lease, Store, open_store
from store.service.labelling import LabellingService

N = 12


@pytest.fixture
def collection(store: Store, clock: Clock) -> Collection:
    """Items of which no pair is repeated on purpose."""
    store.add_items("args", made_items(N), settings={"repeats": 0.0})
    return store.collection("args")


# Takes three questions, and keeps them until it is killed.
HOLDS = """
import sys
from store import open_store
from store.service.labelling import LabellingService
service = LabellingService(open_store(sys.argv[1]).collection("args"))
print(*(lease.id for lease in service.next("bot", 3)), flush=True)
sys.stdin.read()
"""


@contextmanager
def holding(url: str) -> Iterator[list[str]]:
    """The ids of leases that a living process has; it is killed at the end."""
    with ForkedScript(HOLDS, url) as process:
        yield process.stdout.readline().split()


def ids(leases: list[Lease]) -> list[str]:
    return [lease.id for lease in leases]


def test_leases_of_a_living_process_are_left_to_it_and_those_of_a_killed_one_taken_over(
    url: str, collection: Collection
) -> None:
    with holding(url) as theirs:
        service = LabellingService(collection)
        mine = service.next("bot", 3)
        assert len(theirs) == len(mine) == 3
        assert not {*theirs} & {*ids(mine)}
        service.release("bot")
        assert ids(collection.leases("bot")) == theirs
        assert collection.lease("bot", [], 60, renew=theirs) == []
    again = LabellingService(collection)
    assert ids(again.next("bot", 3)) == theirs
    assert {lease.process for lease in collection.leases("bot")} == {
        collection.database.claims.process
    }


@ON_SQLITE
def test_the_next_process_removes_the_file_that_a_killed_one_has_left(
    url: str, collection: Collection
) -> None:
    file = Path(str(make_url(url).database))
    with holding(url):
        pass
    (left,) = file.parent.glob("*-process-*.lock")
    name = collection.database.claims.process
    assert [*file.parent.glob("*-process-*.lock")] == [file.with_name(f"{file.name}-{name}.lock")]
    collection.database.close()
    assert not [*file.parent.glob("*.lock")] and not left.exists()


def test_of_two_processes_that_find_the_leases_of_a_killed_one_the_first_has_them(
    url: str, collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    with holding(url) as theirs:
        pass
    first_store = open_store(url)
    one, other = (
        LabellingService(first_store.collection("args")),
        LabellingService(collection),
    )
    read_changes = other._read_changes
    first: list[Lease] = []

    def read_then_lose() -> list[Lease]:
        """Let the first process take over what the second has seen."""
        live = read_changes()
        if not first:
            first.extend(one.next("bot", 3))
        return live

    monkeypatch.setattr(other, "_read_changes", read_then_lose)
    mine = other.next("bot", 3)
    assert ids(first) == theirs and len(mine) == 3
    assert not {*theirs} & {*ids(mine)}
    assert ids(other.next("bot", 3)) == ids(mine)
    first_store.close()


def test_a_pair_that_was_answered_since_the_last_look_is_not_leased_again(
    collection: Collection, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the choice of a question and its lease the other process asks it and stores it."""
    service, other = LabellingService(collection), store.collection("args")
    lease = collection.lease
    answered: list[Any] = []

    def late(annotator: str, questions: list[Question], *args: Any, **options: Any) -> list[Lease]:
        if len(answered) < 2:
            for each in other.lease(annotator, questions, 60):
                answered.append(answer_lease(other, each, annotator).pair)
        return lease(annotator, questions, *args, **options)

    monkeypatch.setattr(collection, "lease", late)
    mine = [each.question.pair for each in service.next("bot", 2)]
    assert len(mine) == 2 and not {*mine} & {*answered}
    assert service.session.answered("bot") == len(answered) >= 2
    pair = answered[0]
    of_another = lease("ana", [Question(pair, "random", 1.0)], 60, after=0)
    assert [each.question.pair for each in of_another] == [pair], "of another annotator it is free"


JUDGE = """
import json, os, sys
log = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
for line in sys.stdin:
    pair = json.loads(line)
    ids = sorted((pair["left"]["id"], pair["right"]["id"]))
    os.write(log, (" ".join(ids) + "\\n").encode())
    print(json.dumps({"answer": "left" if pair["left"]["id"] == ids[0] else "right"}), flush=True)
"""


@pytest.mark.slow
def test_two_label_at_once_under_one_name_ask_no_pair_twice(
    url: str, store: Store, tmp_path: Path
) -> None:
    store.add_items("many", made_items(30, d=0), settings={"repeats": 0.0})
    (tmp_path / "judge.py").write_text(JUDGE)
    words = [sys.executable, "-S", "-E", str(tmp_path / "judge.py"), str(tmp_path / "asked")]
    typed = ["label", "many", "--as", "bot", "--number", "25", "--json", "--store", url]
    typed += ["--until", "0.001", "--judge", shlex.join(words)]
    code = "from cli.main import main; main()"
    both = [ForkedScript(code, *typed, "--workers", workers) for workers in (1, 3)]
    results = [value_of(process.communicate()[0])[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    asked = Counter((tmp_path / "asked").read_text().splitlines())
    assert max(asked.values()) == 1 and len(asked) == 50
    assert sum(result["answered"] for result in results) == 50
    with open_store(url) as opened:
        assert len(opened.collection("many").judgements()) == 50
        assert opened.collection("many").leases() == []
