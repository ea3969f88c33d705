"""sortnet label --place: binary search with a person as the comparator."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
import pytest
from cli_helpers import invoke
from collection_helpers import made_items

from cli.terminal.asking import Asking
from cli.terminal.placing import STRATEGY, place_item
from sortnet.errors import SortNetError
from sortnet.preference import Judgement, Question
from store import open_store
from store.service.labelling import LabellingService

N = 12
WORTH = np.random.default_rng(5).permutation(N).tolist()


class Person:
    """A front; `reply` is told which items are left and right, and whether it is the n-th time."""

    def __init__(self, reply: Callable[[int, int, int], str]) -> None:
        self.reply, self.asked, self.notes = reply, [], []

    def ask(self, question, annotator, status_line):
        self.asked.append(question.pair)
        reply = self.reply(question.left, question.right, len(self.asked))
        if reply in ("undo", "quit"):
            return reply
        return question.answered(annotator, reply, milliseconds=100)

    def notify(self, text: str) -> None:
        self.notes.append(text)


def better(left: int, right: int, _: int = 0) -> str:
    return "left" if WORTH[left] > WORTH[right] else "right"


@pytest.fixture
def service(tmp_path) -> Iterator[LabellingService]:
    """Twelve items whose order everybody agrees on, but for number 4, which nobody has seen."""
    with open_store(f"{tmp_path}/s.db") as store:
        collection = store.add_items("c", made_items(N, d=0))
        known = [k for k in sorted(range(N), key=WORTH.__getitem__) if k != 4]
        collection.append([Judgement.of("bo", (b, a), "left") for a, b in pairwise(known)] * 5)
        yield LabellingService(collection)


def place(service: LabellingService, person: Person, item: int = 4, number: int | None = None):
    service.settle()
    return place_item(Asking(service, "ana"), person, f"i{item}", number)


@pytest.mark.parametrize("worth", [-1, 2.5, 5.5, 8.5, N])
def test_a_new_item_gets_its_place_with_few_questions(service, worth):
    person = Person(lambda left, right, _: "left" if at(left) > at(right) else "right")

    def at(item: int) -> float:
        return worth if item == 4 else WORTH[item]

    rank = 1 + sum(WORTH[k] > worth for k in range(N) if k != 4)
    facts = place(service, person)
    why = f"i4 is number {rank} of 12"
    assert facts == {"why": why, "placed": "i4", "rank": rank}
    assert len(person.asked) <= math.ceil(math.log2(N)) == 4
    stored = [j for j in service.collection.judgements() if j.annotator == "ana"]
    assert [j.pair for j in stored] == person.asked and all(4 in pair for pair in person.asked)
    assert {j.strategy for j in stored} == {STRATEGY}


def test_after_an_undo_the_same_question_comes_again_and_only_that_one(service):
    replies = iter(["right", "undo", "undo"])
    person = Person(lambda left, right, _: next(replies, None) or better(left, right))
    facts = place(service, person)
    assert facts == place(service, Person(better))
    assert person.notes[1:3] == ["undone", "there is nothing to undo"]
    assert person.asked[0] == person.asked[2] == person.asked[3]
    assert len(set(person.asked[2:])) <= 4


def test_what_is_skipped_is_decided_by_the_model_and_a_tie_goes_behind(service):
    skipped = Person(lambda left, right, _: "skip")
    service.settle()
    ranking = service.ranking
    others = [k for k in ranking.order.tolist() if k != 4]
    place_of_model = 1 + sum(ranking.score[k] >= ranking.score[4] for k in others)
    assert place(service, skipped)["rank"] == place_of_model
    assert len(skipped.asked) == len(set(skipped.asked)) <= 4
    # What was skipped is asked again the next time.
    tied = Person(lambda left, right, _: "tie")
    assert place(service, tied)["rank"] == N
    assert tied.asked[0] == skipped.asked[0]


def test_who_quits_goes_on_later(service):
    quitter = Person(lambda left, right, n: better(left, right) if n < 3 else "quit")
    facts = place(service, quitter)
    assert facts["rank"] is None and "resume with the same command" in facts["why"]
    assert place(service, Person(better), number=1)["rank"] is None
    rest = Person(better)
    assert place(service, rest)["rank"] == 1 + sum(w > WORTH[4] for w in WORTH)
    assert not set(rest.asked) & set(quitter.asked[:2])


def test_placing_by_the_command_line(here):
    with open_store("s.db") as store:
        collection = store.add_items("c", made_items(2, d=0))
        result = invoke("label", "c", "--as", "ana", "--place", "i1", lines="left\n")
        assert result.exit_code == 0, result.stderr
        (stored,) = collection.judgements()
        assert collection.leases() == []
    rank = 1 if stored.left == 1 else 2
    first, status = result.stdout.splitlines()
    assert first == f"ana: 1 answered, 1 in all; i1 is number {rank} of 2"
    assert "more annotators are needed, 0 questions left for these" in status


def test_a_pair_that_somebody_else_has_is_not_put_to_two_people(service):
    first = Person(lambda left, right, _: "quit")
    place(service, first)
    service.collection.release("ana")
    service.collection.lease("bo", [Question(first.asked[0], "random", 1.0)], 60)
    with pytest.raises(SortNetError, match="another annotator is asked about"):
        place(service, Person(better))
