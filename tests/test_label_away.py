"""A judge whose store is away: answers are kept and stored later, or the run ends in one line."""

from __future__ import annotations

import itertools
import shlex
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cli_helpers import invoke, judge_file
from click.testing import Result
from collection_helpers import made_items
from language_model_server import Model, serving
from result_helpers import value_of
from sqlalchemy import delete
from sqlalchemy.exc import OperationalError

from sortnet.errors import StoreError
from sortnet.messages import ANSWERED
from sortnet.preference.study import Decision
from store import Collection, open_store
from store.database.engine import Database
from store.database.schema import LeaseRow

if TYPE_CHECKING:
    from conftest import Server

pytestmark = pytest.mark.postgresql
N = 5
PAIRS = N * (N - 1) // 2
JUDGE = """
import json, sys
asked = open("asked", "a")
for line in sys.stdin:
    question = json.loads(line)
    items = question.get("items") or [question["left"], question["right"]]
    ids = [item["id"] for item in items]
    print(*ids, file=asked, flush=True)
    best, worst = ids.index(min(ids)), ids.index(max(ids))
    answer = {"best": "ABCD"[best], "worst": "ABCD"[worst]}
    if len(ids) == 2:
        answer = {"answer": ["left", "right"][best]}
    print(json.dumps(answer), flush=True)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("judge.py").write_text(JUDGE)
    return tmp_path


def add_items(url: str) -> None:
    with open_store(url) as store:
        store.add_items("c", made_items(N, d=0), settings={"repeats": 0.0})


def label(url: str, *args: object, model: str | None = None, patience: float = 600.0) -> Result:
    command = shlex.join([sys.executable, "-S", "-E", "judge.py"])
    by = ("--model", "judge", "--server", model)
    if model is None:
        by = judge_file(command=command, patience=patience)
    common = ["label", "c", "--as", "bot", "--json", "--store", url, "--until", "0.0001"]
    return invoke(*common, *by, *args)


def judgements(url: str) -> list[tuple[int, ...]]:
    """The items of what is stored; no lease may be left."""
    with open_store(url) as store:
        collection = store.collection("c")
        assert collection.leases() == []
        return [judgement.items for judgement in collection.judgements()]


@pytest.fixture
def killed(own_server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server that is killed as the third answer comes, and starts at its third attempt."""
    answer = Collection.answer
    n_answers = 0

    def answer_late(self: Collection, *args: Any, **options: Any) -> Any:
        nonlocal n_answers
        n_answers += 1
        if n_answers == 3:
            own_server.stop(signal.SIGQUIT)
        if n_answers == 5:
            starter.submit(own_server.start).result()
        return answer(self, *args, **options)

    monkeypatch.setattr(Collection, "answer", answer_late)
    # The server ends with the thread that has started it.
    with ThreadPoolExecutor(1) as starter:
        yield own_server


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("by", ["program", "model"])
def test_answers_are_kept_while_the_server_of_the_store_is_away(
    killed: Server, by: str, workers: int
) -> None:
    add_items(killed.url)
    # Words, because five items would be ranked by probabilities before all pairs were asked.
    model = Model(lambda text: float(text.split()[-1]), logprobs=False)
    with serving(model) as url:
        options = [] if by == "program" else ["--both-orders"]
        server = None if by == "program" else url
        result = label(killed.url, "--workers", workers, *options, model=server)
    assert result.exit_code == 0, result.output
    (facts,) = value_of(result.stdout)
    assert (facts["answered"], facts["failed"], facts["why"][:18]) == (
        PAIRS,
        0,
        "all pairs were ask",
    )
    assert result.stderr.count(" is away: waiting for at most 600 seconds") == 1
    assert ANSWERED not in result.stderr
    stored = judgements(killed.url)
    if by == "program":
        n_asked = len(Path("asked").read_text().splitlines())
        assert n_asked == len(stored) == len({*stored}) == PAIRS
    else:
        assert len(model.prompts) == len(stored) == len({*stored}) == 2 * PAIRS


def test_a_store_that_stays_away_ends_the_run_with_one_line(
    own_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_items(own_server.url)
    answer = Collection.answer

    def answer_never(self: Collection, *args: Any, **options: Any) -> Any:
        if own_server.process.poll() is None:
            own_server.stop(signal.SIGQUIT)
        return answer(self, *args, **options)

    monkeypatch.setattr(Collection, "answer", answer_never)
    result = label(own_server.url, "--workers", 2, patience=0.3)
    assert result.exit_code == 2 and result.stdout == ""
    waiting, fault = result.stderr.splitlines()
    assert waiting.startswith("--judge: store postgresql://127.0.0.1:")
    assert waiting.endswith("is away: waiting for at most 0.3 seconds")
    assert fault.startswith("sortnet: store postgresql://127.0.0.1:")
    assert "Connection refused" in fault


@pytest.mark.parametrize("set_size", [2, 4])
def test_every_question_is_asked_and_stored_once_though_a_server_loses_leases(
    postgresql_url: str, monkeypatch: pytest.MonkeyPatch, set_size: int
) -> None:
    n_items = 7
    with open_store(postgresql_url) as store:
        settings = {"repeats": 0.0, "holdout": 0.0}
        collection = store.add_items("c", made_items(n_items, d=0), settings=settings)
        collection.decide(Decision("set-size", amount=set_size))
    answer = Collection.answer
    calls = itertools.count()

    def lose_leases(self: Collection, *args: Any, **options: Any) -> Any:
        n_calls = next(calls)
        if n_calls % 3 == 1:
            with self.locked() as connection:
                connection.execute(delete(LeaseRow).where(LeaseRow.open))
            raise away()
        stored = answer(self, *args, **options)
        if n_calls % 5 == 0:
            raise away()
        return stored

    monkeypatch.setattr(Collection, "answer", lose_leases)
    monkeypatch.setattr("store.asking.patience.SHORTEST_WAIT", 0.01)
    result = label(postgresql_url, "--workers", 3)
    assert result.exit_code == 0, result.output
    (facts,) = value_of(result.stdout)
    stored = judgements(postgresql_url)
    n_asked = len(Path("asked").read_text().splitlines())
    assert facts["failed"] == 0, result.stderr
    assert n_asked == facts["answered"] == len(stored) == len({*stored})
    if set_size == 2:
        assert len(stored) == n_items * (n_items - 1) // 2


def away() -> StoreError:
    """The error of a server that is away."""
    error = StoreError("the connection is lost")
    error.__cause__ = OperationalError("COMMIT", None, Exception("the connection is lost"))
    return error


def test_a_fault_of_a_file_is_no_server_that_is_away(tmp_path: Path) -> None:
    database = Database(tmp_path / "s.db")
    with pytest.raises(StoreError) as caught, database.transaction() as connection:
        connection.exec_driver_sql("SELECT x FROM nowhere")
    assert isinstance(caught.value.__cause__, OperationalError)
    assert not database.is_away(caught.value)
    database.close()
