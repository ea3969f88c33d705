"""Reads of several statements see one state, whatever others write in between."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
import pytest
from collection_helpers import made_items
from pair_tables import table
from sqlalchemy import event

from cli.printing.runs import run_result
from sortnet.core import Queries
from sortnet.preference import Judgement, Question
from sortnet.preference.study import Decision
from store import Collection, Store, open_store
from store.collections.judgement_files import export_judgements
from store.service.collection_items import rank_collection
from store.service.judged_queries import annotator_weights, read_judged, write_judgements
from store.service.labelling import LabellingService, report_annotators
from store.service.questions import question_facts


def _text(write: Callable[[io.StringIO], object]) -> str:
    text = io.StringIO()
    write(text)
    return text.getvalue()


def _replayed(collection: Collection) -> Any:
    service = LabellingService(collection)
    return [*service.judgements()], service.study, len(service.items)


READS_OF_COLLECTION: dict[str, Callable[[Collection], Any]] = {
    "counted judgements": lambda c: [*c.counted_judgements()],
    "frame": lambda c: c.judgements_frame(),
    "items": lambda c: c.items().ids,
    "export": lambda c: _text(lambda text: export_judgements(c, text, "jsonl")),
    "export for tuning": lambda c: _text(lambda text: write_judgements(c, text, "chosen")),
    "session": _replayed,
    "questions": question_facts,
    "weights": annotator_weights,
    "training": lambda c: read_judged(c).facts,
    "annotators": lambda c: [r.name for r in report_annotators(c)],
    "ranking": lambda c: [frame for _, frame in rank_collection(c)],
}


@contextmanager
def others_write_after_each_statement(store: Store, write: Callable[[], None]) -> Iterator[None]:
    """Let another process write after each statement by which `store` reads."""

    def write_after(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith("SELECT"):
            write()

    event.listen(store.database.engine, "after_cursor_execute", write_after)
    try:
        yield
    finally:
        event.remove(store.database.engine, "after_cursor_execute", write_after)


def _plain(value: Any) -> Any:
    """The value with frames as texts, so that it can be compared."""
    if isinstance(value, pd.DataFrame):
        return value.to_csv(), value.attrs
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value


def _check_one_state(store: Store, read: Callable[[], Any], write: Callable[[], None]) -> None:
    """Compare what is read while others write with what was read before."""
    before = _plain(read())
    n_writes = 0

    def count_and_write() -> None:
        nonlocal n_writes
        n_writes += 1
        write()

    with others_write_after_each_statement(store, count_and_write):
        assert _plain(read()) == before
    assert n_writes > 1  # there was something between two statements
    assert _plain(read()) != before


def _fours(*starts: int) -> list[Question]:
    return [Question((k, k + 1, k + 2, k + 3), "bald", 1.0) for k in starts]


@pytest.fixture
def collection(store: Store) -> Collection:
    """A collection of 60 items with answers about pairs and fours, and a leased four."""
    made = store.add_items("args", made_items(60, d=2))
    made.decide(Decision("set-size", amount=4))
    rng = np.random.default_rng(0)
    pairs = [rng.permutation(8)[:2].tolist() for _ in range(30)]
    made.append([Judgement.of("ana", (i, j), "left" if i > j else "right") for i, j in pairs])
    made.append([Judgement.of("bo", (0, 1, 2, 3), "best", best=3, worst=0)])
    made.lease("ana", _fours(8), 600)
    made.add_batch("bo", {})
    return made


@pytest.mark.parametrize("name", READS_OF_COLLECTION)
def test_a_read_of_a_collection_sees_one_state(
    store: Store, collection: Collection, url: str, name: str
) -> None:
    with open_store(url) as other_store:
        other = other_store.collection("args")
        numbers = iter(range(1000))

        def write() -> None:
            """Answer about a pair and a four, exclude an annotator, add an item, lease a four."""
            number = next(numbers)
            name = f"new{number}"
            of_four = Judgement.of(name, (0, 1, 2, 3), "best", best=1, worst=2)
            other.append([Judgement.of(name, (2, 1), "left"), of_four])
            if number == 0:
                other.decide(Decision("exclude", "ana"), Decision("question", reason="Which?"))
                other_store.add_items("args", made_items(61, d=2), update=True)
                batch = other.add_batch(name, {})
                other.lease(name, _fours(20), 600, batch=batch)
            other.lease(name, _fours(24 + 4 * (number % 9)), 600)

        read = READS_OF_COLLECTION[name]
        _check_one_state(store, lambda: read(collection), write)


def test_the_list_of_criteria_sees_one_state(store: Store, url: str) -> None:
    collection = store.add_items("many", made_items(3))
    names = [f"c{number}" for number in range(20)]
    for name in names[:3]:
        collection.add_criterion(name)
    with open_store(url) as other_store:
        left = iter(names)

        def write() -> None:
            """Remove a criterion, and add another."""
            name = next(left)
            other_store.collection(f"many:{name}").remove()
            other_store.collection("many").add_criterion(names[names.index(name) + 3])

        _check_one_state(store, lambda: [c.name for c in collection.asked()], write)


READS_OF_RUN: dict[str, Callable[[Any], Any]] = {
    "pairs": lambda run: run.pairs_frame(),
    "parts of pairs": lambda run: [*run.iter_pairs(5)],
    "pairs to learn from": lambda run: len(run.pairs("train")),
    "iterations": lambda run: run.iterations_frame(),
    "facts": lambda run: [*run_result(run).value.items()],
}


@pytest.mark.parametrize("name", READS_OF_RUN)
def test_a_read_of_a_run_sees_one_state(
    store: Store, url: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.runs.pair_rows.READ_AT_ONCE", 5)
    part = Queries.from_arrays(np.zeros((30, 1)))
    config = {"pairs": "wrong"}
    run = store.start_run(command="", config=config, seed=0, versions={}, train=part, vali=part)

    def add(to: Any, iteration: int) -> None:
        winner = np.arange(20)
        for split in ("train", "vali"):
            to.add(split, iteration, table(winner, winner + 1 + iteration % 9))
        to.record({"iteration": iteration, "tp": iteration, "vp": 2, "best": True})

    add(run, 0)
    with open_store(url) as other_store:
        other = other_store.run("last")
        iterations = iter(range(1, 1000))
        read = READS_OF_RUN[name]
        _check_one_state(store, lambda: read(run), lambda: add(other, next(iterations)))


def test_nothing_is_written_while_one_state_is_read(store: Store) -> None:
    collection = store.add_items("args", made_items(3))
    with store.database.one_state(), pytest.raises(RuntimeError, match="nothing is written"):
        collection.append([Judgement.of("ana", (0, 1), "left")])
