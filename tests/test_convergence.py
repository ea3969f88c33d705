"""How labelling converges, as a run: one of all sessions, few iterations, no slower answers."""

from __future__ import annotations

import pytest
from cli_helpers import done, fault
from collection_helpers import answer_lease, made_items

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
    first = LabellingService(collection, record=True)
    answer_all(first, "ana", 12)
    run = store.run("last")
    assert (run.status, run.iterations_frame()["iteration"].tolist()) == ("running", [8, 10, 12])
    first.close()
    second = LabellingService(collection, record=True)  # continues with the same run
    answer_all(second, "ben", 5)
    second.close()
    for silent in (LabellingService(collection, record=True), LabellingService(collection)):
        silent.settle()
        silent.close()
    assert store.runs_frame()["status"].tolist() == ["done"]
    assert run.config == {"quality": "order", "collection": "args"}
    frame = run.iterations_frame()
    assert frame["iteration"].tolist() == [8, 10, 12, 15, 17]
    last, remaining = frame.iloc[-1], second.remaining
    assert last["train_order"] == 1 - remaining.wrong
    assert last["comparisons_train"] == second.session.n_votes == 17
    assert last["comparisons_vali"] == remaining.check.n > 0
    assert last["vali_order"] == remaining.check.right
    assert last["seconds_train"] > 0


def test_without_answers_there_is_no_run(store, collection):
    service = LabellingService(collection, record=True)
    service.settle()
    service.close()
    assert store.runs_frame().empty


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


def test_the_commands_show_it(url, collection, tmp_path):
    service = LabellingService(collection, record=True)
    answer_all(service, "ana", 9)
    service.close()
    options = "--store", url
    shown = done("show", "last", *options)
    assert "iter  compared" in shown
    assert [line.split()[0] for line in shown.splitlines()[-2:]] == ["8", "9"]
    assert shown.splitlines()[-1] in done("show", "last", "--follow", *options)
    assert done("runs", *options).splitlines()[-1].endswith("  args")
    done("report", "last", "--output", tmp_path / "r.html", *options)
    page = (tmp_path / "r.html").read_text()
    assert "<title>The ranking of args<" in page, "the run of a labelling is its collection"
    assert "has answers and no pairs" in fault("pairs", "last", *options)
