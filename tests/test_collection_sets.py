"""A study about four items: asked, answered, undone, listed, reported, exported, learned."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from cli_helpers import done, fault
from collection_helpers import made_items
from result_helpers import value_of

import sortnet
from sortnet.errors import SortNetError
from sortnet.preference import Judgement
from sortnet.preference.base import unordered_pair
from sortnet.preference.comparisons import Comparisons
from sortnet.preference.judgement_table import Judgements
from sortnet.preference.study import Decision
from store import open_store
from store.service.labelling import LabellingService

N = 40


def true_scores(n: int = N) -> np.ndarray:
    return made_items(n, d=3).features[:, 0]


def answer(service: LabellingService, who: str, n: int, scores: np.ndarray) -> None:
    """Answer n questions by scores."""
    for _ in range(n):
        (lease,) = service.next(who)
        of_items = scores[[*lease.question.items]]
        best, worst = int(of_items.argmax()), int(of_items.argmin())
        if len(of_items) > 2:
            judgement = lease.question.answered_by_place(who, best, worst, milliseconds=2000)
        else:
            judgement = lease.question.answered(who, ("left", "right")[best], milliseconds=1000)
        service.answer(lease.id, judgement)


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A folder with a store; two people have answered about its collection `c`."""
    folder = tmp_path_factory.mktemp("sets")
    with open_store(folder / "s.db") as store:
        collection = store.add_items("c", made_items(N, d=3))
        collection.decide(Decision("set-size", amount=4))
        service = LabellingService(collection)
        for who in ("ana", "bo"):
            answer(service, who, 25, true_scores())
            service.release(who)
        service.undo("ana")
    return folder


@pytest.fixture(autouse=True)
def folder(made, monkeypatch) -> Path:
    monkeypatch.chdir(made)
    monkeypatch.setenv("SORTNET_STORE", "s.db")
    return made


def test_the_size_is_set_shown_and_refused():
    with open_store("s.db") as store:
        store.add_items("few", made_items(3))
    (asked,) = value_of(done("ask", "few", "--json"))
    assert (asked["set_size"], asked["worst"]) == (2, False)
    assert "a question" not in done("ask", "few")
    assert "items         3 a question: the best and the worst" in done(
        "ask", "few", "--set-size", "3"
    )
    assert "items         3 a question: the best\n" in done("ask", "few", "--no-worst")
    assert "a question about 4 items, but there are only 3" in fault("ask", "few", "--set-size", 4)
    assert "a question" not in done("ask", "few", "--set-size", "2")
    for size in (1, 7):
        assert "set-size" in fault("ask", "few", "--set-size", size)


def test_answers_are_counted_once_and_listed_with_their_items():
    listed = value_of(done("judgements", "list", "c", "--json", "--limit", "100"))
    assert len(listed) == 51  # with the undo
    sizes = [len(row["items"]) for row in listed]
    assert sizes.count(4) > 40
    words = done("judgements", "list", "c", "--limit", "3")
    assert words.split()[:5] == ["judgement", "annotator", "items", "answer", "seconds"]
    people = value_of(done("annotators", "list", "c", "--json"))
    assert {one["name"]: one["answers"] for one in people} == {"ana": 24, "bo": 25}


def random_answers(seed: int) -> list[Judgement]:
    """Answers of a person about two to six of ten items."""
    rng = np.random.default_rng(seed)
    answers: list[Judgement] = []
    for _ in range(150):
        items = tuple(rng.permutation(10)[: rng.integers(2, 7)].tolist())
        words = ["left", "right", "tie", "skip"] if len(items) == 2 else ["best", "same", "skip"]
        word, facts = str(rng.choice(words)), {}
        if word == "best":
            best, worst = rng.permutation(items)[:2].tolist()
            facts = {"best": best, "worst": worst if rng.random() < 0.5 else None}
        answers.append(Judgement.of("ana", items, word, **facts))
    return answers


def followed(one: Judgement) -> list[tuple[int, int, float]]:
    """(better, worse, 1), or (a, b, ½) for items that are alike, of an answer."""
    if one.word in ("tie", "same"):
        return [(*pair, 0.5) for pair in one.pairs]
    preferred = [(one.better_of(*pair), pair) for pair in one.pairs]
    return [(best, *({*pair} - {best}), 1.0) for best, pair in preferred if best is not None]


@pytest.mark.parametrize("seed", range(3))
def test_comparisons_of_a_table_are_those_of_its_answers(seed):
    answers = random_answers(seed)
    table = Judgements.of(answers)
    found = Comparisons.of_table(table)
    expected = Counter(
        (row, *unordered_pair(a, b), target if a < b or target == 0.5 else 0.0)
        for row in np.flatnonzero(table.is_answer).tolist()
        for a, b, target in followed(answers[row])
    )
    low, high = np.minimum(found.left, found.right), np.maximum(found.left, found.right)
    columns = (found.row, low, high, found.for_low)
    assert Counter(zip(*(column.tolist() for column in columns), strict=True)) == expected
    # All comparisons that follow from an answer about n items weigh n - 1 together.
    weights = np.bincount(found.row, found.weight)
    assert all(weights[row] == pytest.approx(len(answers[row].items) - 1) for row in found.row)


def test_sort_refuses_a_judge_of_pairs_and_a_size_that_cannot_be(tmp_path):
    store = tmp_path / "t.db"
    for size, message in {
        4: "answers about two items, not about 4: set the size to 2",
        9: "set_size: 9 is no whole number from 2 to 6",
        True: "set_size: True is no whole number",
        6: "a question about 6 items, but there are only 5",
    }.items():
        with pytest.raises(SortNetError) as error:
            sortnet.sort(
                list("abcde"), judge=lambda left, right: "left", set_size=size, store=store
            )
        assert message in str(error.value) and len(str(error.value).splitlines()) == 1
    assert not store.exists()


def test_a_prompt_about_pairs_is_refused_by_a_study_about_four():
    Path("two.jinja").write_text("{{ left.text }} or {{ right.text }}?")
    options = ("--model", "m", "--server", "http://127.0.0.1:9", "--prompt", "two.jinja")
    message = fault("label", "c", *options, "--as", "tool")
    assert "answers about two items, not about 4: list {{ items }} in prompt two.jinja" in message
    with open_store("s.db", write=False) as store:
        assert "tool" not in {one.name for one in store.collection("c").annotators()}
    assert json.loads(done("ask", "c", "--json"))
