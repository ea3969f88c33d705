"""Questions about more than two items in the store: rows, leases, undo, kills, older stores."""

from __future__ import annotations

import signal
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from collection_helpers import (
    ON_SQLITE,
    Clock,
    made_items,
    set_question,
    sqlite_url,
)
from forked_processes import ForkedScript
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from sortnet.errors import DataError, JudgementError
from sortnet.preference import Judgement
from sortnet.preference.base import MOST_ITEMS
from sortnet.preference.study import Decision
from store import Collection, Store, open_store
from store.service.labelling import LabellingService
from store.service.questions import change_questions

N_ITEMS = 9
ON_BOTH = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@st.composite
def answers(draw: st.DrawFn) -> Judgement:
    """An answer about two to six items, with whatever facts an answer may have."""
    size = draw(st.integers(2, MOST_ITEMS))
    items = tuple(draw(st.permutations(range(N_ITEMS)))[:size])
    facts: dict[str, Any] = {
        "milliseconds": draw(st.none() | st.integers(0, 2**53 - 1)),
        "strategy": draw(st.sampled_from(["informative", "random", "given"])),
        "probability": draw(st.floats(0, 1)),
        "at": draw(st.none() | st.floats(0, 2**33)),
        "comment": draw(st.none() | st.sampled_from(["", "why, so", "=1+1", "ü\n"])),
        "flagged": draw(st.none() | st.just(True)),
        "cost": draw(st.none() | st.floats(0, 1e9)),
    }
    alike = "tie" if size == 2 else "same"
    chosen = ["left", "right"] if size == 2 else ["best", "best", "best"]
    answer = draw(st.sampled_from([*chosen, alike, "skip", "cant-say"]))
    if answer == "best":
        facts["best"], worst = draw(st.permutations(items))[:2]
        facts["worst"] = draw(st.sampled_from([None, worst]))
    return Judgement.of(draw(st.sampled_from(["ana", "bo"])), items, answer, **facts)


names = (f"round {k}" for k in count())


@ON_BOTH
@given(given_answers=st.lists(answers(), max_size=12), data=st.data())
def test_answers_about_any_number_of_items_are_read_as_they_were_stored(
    store: Store, given_answers: list[Judgement], data: st.DataObject
) -> None:
    collection = store.add_items(next(names), made_items(N_ITEMS))
    stored = collection.append(given_answers)
    undone = data.draw(st.sets(st.sampled_from(stored), max_size=4)) if stored else set()
    undos = [collection.undo(judgement.annotator, judgement.number) for judgement in undone]
    assert all(undo.items == of.items for undo, of in zip(undos, undone, strict=True))
    assert [*collection.judgements()] == stored + undos
    after = data.draw(st.integers(0, len(stored)))
    assert [*collection.judgements(after)] == (stored + undos)[after:]
    live = collection.judgements().live.tolist()
    assert live == [one not in undone for one in stored] + [True] * len(undos)


@ON_SQLITE
def test_an_answer_names_the_worst_item_where_it_is_asked_for(collection: Collection) -> None:
    (lease,) = collection.lease("ana", [set_question(4, 1, 6, 2)], 60)
    best_only = lease.question.answered_by_place("ana", 0)
    with pytest.raises(JudgementError, match="names the best item and not the worst"):
        collection.answer(lease.id, best_only)
    assert len(collection.judgements()) == 0 and collection.leases() == [lease]
    collection.decide(Decision("worst", amount=0))
    assert collection.answer(lease.id, best_only).new


def test_a_size_that_no_group_has_is_refused(store: Store) -> None:
    collection = store.add_items("args", made_items(5, groups=("x",) * 3 + ("y",) * 2))
    change_questions(collection, None, [Decision("set-size", amount=3)])
    with pytest.raises(DataError, match="about 4 items, but there are only 3 in the largest group"):
        change_questions(collection, None, [Decision("set-size", amount=4)])
    collection.decide(Decision("retire", item=1))
    with pytest.raises(DataError, match="about 3 items, but there are only 2 in the largest group"):
        change_questions(collection, None, [Decision("set-size", amount=3)])


@pytest.mark.parametrize("seed", range(2))
def test_whatever_annotators_do_questions_share_no_pair_and_all_pairs_are_allowed(
    store: Store, clock: Clock, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    allowed = {(i, j) for j in range(12) for i in range(j) if (i < 7) == (j < 7) and (i + j) % 7}
    groups = ("x",) * 7 + ("y",) * 5
    store.add_items("g", made_items(12, groups=groups), pairs=np.array(sorted(allowed)))
    collection = store.collection("g", clock=clock)
    collection.decide(Decision("set-size", amount=4))
    services = [LabellingService(collection, lease_seconds=60) for _ in range(2)]
    n_items: list[int] = []
    for _ in range(30):
        service, who = services[rng.integers(2)], ("ana", "bo")[rng.integers(2)]
        leases = service.next(who, int(rng.integers(1, 4)))
        live = [pair for lease in collection.leases() for pair in lease.question.pairs]
        assert len(live) == len({*live}) and {*live} <= allowed
        match rng.integers(6):
            case 0:
                service.undo(who)
            case 1:
                clock.now += 61
            case 2:
                service.release(who)
            case _ if leases:
                n_items.append(len(leases[0].question.items))
                word = "same" if n_items[-1] > 2 else "tie"
                service.answer(leases[0].id, leases[0].question.answered(who, word))
    assert max(n_items) > 2
    for service in services:
        service.sync()
        assert service.session.judgements() == collection.judgements()


# Answers until it is killed; says which leases were answered when that is stored.
ANSWERS = """
import sys
from store import open_store
from store.service.labelling import LabellingService
service = LabellingService(open_store(sys.argv[1]).collection("many"))
while True:
    for lease in service.next("ana", 2):
        items = lease.question.items
        if len(items) > 2:
            answer = lease.question.answered_by_place("ana", 0, len(items) - 1)
        else:
            answer = lease.question.answered("ana", "left")
        print(lease.id, service.answer(lease.id, answer).judgement.number, flush=True)
"""


@pytest.mark.slow
def test_a_kill_in_the_middle_loses_no_answer_and_a_new_service_continues(
    tmp_path: Path,
) -> None:
    url = sqlite_url(tmp_path)
    with open_store(url) as store:
        collection = store.add_items("many", made_items(60))
        collection.decide(Decision("set-size", amount=4))
        for round_ in range(2):
            with ForkedScript(ANSWERS, url) as process:
                lines = [process.stdout.readline() for _ in range(7 + round_)]
                process.send_signal(signal.SIGKILL)
                lines += process.stdout.readlines()
            printed = {tuple(line.split()) for line in lines if line.endswith("\n")}
            with store.database.transaction() as connection:
                rows = connection.execute(text("SELECT lease, number FROM judgements")).all()
            stored = {(row.lease, str(row.number)) for row in rows}
            assert printed <= stored and len(stored) == len(rows) >= 7 + round_
            judgements = collection.judgements()
            assert judgements.number.tolist() == list(range(1, len(rows) + 1))
            assert (judgements.n_items > 2).sum() > len(rows) / 2
            held = [lease.question for lease in collection.leases("ana")]
            again = LabellingService(collection).next("ana", len(held))
            assert [lease.question for lease in again] == held
