"""How labelling converges, as a run: one of all sessions, few iterations, no slower answers."""

from __future__ import annotations

import pytest
from cli_helpers import done, runner
from collection_helpers import answer_lease, made_items
from sqlalchemy import event

from cli.main import main
from sortnet.errors import StoreError
from store import Run, open_store
from store.service.labelling import LabellingService


@pytest.fixture
def store(url):
    with open_store(url) as store:
        yield store


@pytest.fixture
def collection(store):
    return store.add_items("args", made_items(12))


def answer_all(service, who, m):
    """Let one person answer m questions by the items' numbers, with a fit after each."""
    for _ in range(m):
        for lease in service.next(who, 1):
            better = "left" if lease.question.left > lease.question.right else "right"
            answer_lease(service, lease, who, better)
            service.settle()


def test_refits_at_each_quarter_more_judgements_and_the_last_are_iterations(store, collection):
    service = LabellingService(collection, record=True)
    answer_all(service, "ana", 17)
    assert store.run("last").iterations_frame()["iteration"].tolist() == [8, 10, 12, 15]
    service.close()
    frame = store.run("last").iterations_frame()
    assert frame["iteration"].tolist() == [8, 10, 12, 15, 17]
    last = frame.iloc[-1]
    assert last["train_order"] == 1 - service.remaining.wrong
    assert last["comparisons_train"] == service.session.n_votes == 17
    assert last["comparisons_vali"] == service.remaining.check.n > 0
    assert last["vali_order"] == service.remaining.check.right
    assert last["seconds_train"] > 0


def test_later_sessions_go_on_with_the_same_run_and_silent_ones_leave_it(store, collection):
    first = LabellingService(collection, record=True)
    answer_all(first, "ana", 9)
    assert store.run("last").status == "running"
    first.close()
    second = LabellingService(collection, record=True)
    answer_all(second, "ben", 2)
    second.close()
    for silent in (LabellingService(collection, record=True), LabellingService(collection)):
        silent.settle()
        silent.close()
    assert store.runs_frame()["status"].tolist() == ["done"]
    run = store.run("last")
    assert run.iterations_frame()["iteration"].tolist() == [8, 9, 10, 11]
    assert run.config == {"quality": "order", "collection": "args"}


def test_without_answers_there_is_no_run(store, collection):
    service = LabellingService(collection, record=True)
    service.settle()
    service.close()
    assert store.runs_frame().empty


def test_an_answer_costs_no_more_transactions_but_at_an_iteration(collection):
    begun = []
    event.listen(collection.database.engine, "begin", lambda connection: begun.append(1))
    counts = {}
    for record in (False, True):
        service = LabellingService(collection, record=record)
        answer_all(service, "ana", 12)  # the second time from 12 to 24
        before = len(begun)
        answer_all(service, "ben", 1)
        counts[record] = len(begun) - before
    assert counts[True] == counts[False]


def test_a_row_that_cannot_be_written_stops_nobody(store, collection, monkeypatch):
    service = LabellingService(collection, record=True)
    with monkeypatch.context() as broken:
        broken.setattr(Run, "record", raises)
        answer_all(service, "ana", 9)
        assert not service.fault and not service._n_unfitted
    answer_all(service, "ana", 1)
    service.close()
    assert store.run("last").iterations_frame()["iteration"].tolist() == [10]


def raises(run, row):
    raise StoreError("disk full")


def test_the_commands_show_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SORTNET_STORE", "s.db")
    (tmp_path / "c.csv").write_text("id,text\n" + "".join(f"{k},{'x' * k}\n" for k in range(1, 9)))
    done("items", "add", "c", "c.csv")
    lines = ("label", "c", "--as", "ana", "--number", "9")
    assert runner().invoke(main, lines, input="left\n" * 9).exit_code == 0
    shown = done("show", "last")
    assert "command  sortnet label c\n" in shown
    assert "judgements  answers    right   answers    right  seconds" in shown
    assert [line.split()[0] for line in shown.splitlines()[-2:]] == ["8", "9"]
    assert shown.splitlines()[-1] in done("show", "last", "--follow")
    assert done("runs").splitlines()[-1].endswith("  c")
    done("report", "last", "--output", "r.html")
    page = (tmp_path / "r.html").read_text()
    assert "<title>The ranking of c<" in page, "a run that records a labelling is its collection"
    assert "sort compared" not in page and "Not in this report" not in page
    assert "has answers and no pairs" in runner().invoke(main, ["pairs", "last"]).stderr
