"""Judgements as columns, against plain loops over the judgements one by one."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest
from collection_helpers import made_items

from sortnet.errors import JudgementError
from sortnet.preference import Judgement
from sortnet.preference.annotator_agreement import most_disputed
from sortnet.preference.base import TARGETS, unordered_pair
from sortnet.preference.comparisons import Comparisons
from sortnet.preference.history import History
from sortnet.preference.judgement_table import Judgements
from sortnet.preference.session import Session
from sortnet.preference.study import Decision, Study, study_of
from store import open_store
from store.service.labelling import LabellingService

N = 12
ANSWERS = ("left", "right", "tie", "skip", "cant-say")
WAYS = ("bald", "random", "repeat", "given")


def events(seed: int, m: int = 300, people: int = 5, n: int = N) -> list[Judgement]:
    """Answers, repeats and undos as a collection may have them, numbered from 1 with gaps."""
    rng = np.random.default_rng(seed)
    found: list[Judgement] = []
    standing: dict[str, list[Judgement]] = defaultdict(list)
    number = 0
    for k in range(m):
        who = f"p{rng.integers(people)}"
        number += int(rng.integers(1, 3))
        at = None if rng.random() < 0.1 else 1000.0 + 9 * k
        if rng.random() < 0.15 and standing[who]:
            undone = standing[who].pop(int(rng.integers(len(standing[who]))))
            found.append(Judgement(**vars(undone.undo()) | {"number": number, "at": at}))
            continue
        left, right = rng.choice(n, 2, replace=False).tolist()
        facts: dict[str, Any] = {
            "milliseconds": None if rng.random() < 0.2 else int(rng.integers(5000)),
            "comment": ("why", "", None, None)[rng.integers(4)],
            "flagged": (None, None, False, True)[rng.integers(4)],
            "strategy": WAYS[rng.integers(4)],
        }
        answer = ANSWERS[rng.choice(5, p=[0.35, 0.3, 0.15, 0.1, 0.1])]
        found.append(Judgement.of(who, (left, right), answer, number=number, at=at, **facts))
        standing[who].append(found[-1])
    return found


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


def test_choices_that_do_not_go_with_their_items_are_refused() -> None:
    good = vars(Judgement("ana", (0, 1, 2, 3), "best", best=2, worst=0))
    for facts, fault in (
        ({"items": (0, 1, 2, 1)}, "item 1 cannot be compared with itself"),
        ({"items": (0, 1, 2, 3, 4, 5, 6)}, "7 items: it takes 2 to 6"),
        ({"items": (0,)}, "1 items: it takes 2 to 6"),
        ({"items": (0, 1, -1)}, "there is no item -1"),
        ({"items": (0, 2), "worst": 0}, "only one is left"),
        ({"answer": "left"}, "if and only if"),
        ({"answer": "better", "best": None, "worst": None}, "unknown answer 'better'"),
        ({"answer": "same", "best": None}, "none is the best"),
        ({"worst": 2}, "cannot be the best and the worst"),
        ({"best": 7}, "none of those in question"),
        ({"p": 0.7}, "a p is for two items, and there are 4"),
        ({"milliseconds": -5}, "milliseconds must be 0 or more"),
        ({"undoes": 7}, "`undoes` must be set"),
        ({"comment": "x" * 2001}, "2,001 characters"),
    ):
        with pytest.raises(JudgementError, match=fault):
            Judgement(**good | facts)
    with pytest.raises(JudgementError, match="'left' is no answer about 4 items"):
        Judgement.of("ana", (0, 1, 2, 3), "left")


def votes_of(said: list[Judgement]) -> list[Judgement]:
    undone = {judgement.undoes for judgement in said}
    return [j for j in said if j.word in TARGETS and j.number not in undone]


SETS = [replace(answer, number=k) for k, answer in enumerate(random_answers(0), 1)]


@pytest.mark.parametrize("said", [events(0), events(1), SETS])
def test_a_table_is_the_sequence_of_its_judgements(said: list[Judgement]) -> None:
    table = Judgements.of(said)
    assert table == said and said == table and [*table] == said
    assert (table[-1], table[7], len(table)) == (said[-1], said[7], len(said))
    assert table[50:80] == said[50:80] and table[::-3] == said[::-3]
    assert table.n_items.tolist() == [len(judgement.items) for judgement in said]
    same_items = [[{*a.items} == {*b.items} for b in said] for a in said]
    assert (table.question[:, None] == table.question).tolist() == same_items
    undone = {judgement.undoes for judgement in said}
    assert table.live.tolist() == [j.number not in undone for j in said]
    with pytest.raises(IndexError):
        table[len(said)]
    grown = Judgements()
    for start in range(0, len(said), 7):
        before, rows = grown[:], len(grown)
        grown.extend(Judgements.of(said[start : start + 7]))
        assert (before == said[:rows]) and (before.live == Judgements.of(said[:rows]).live).all()
    assert grown == said and (grown.undone_by == table.undone_by).all()
    assert grown.without(["p1", "nobody"]) == [j for j in said if j.annotator != "p1"]


def test_an_event_that_cannot_be_leaves_no_trace() -> None:
    history = History(3)
    history.add(Judgements.of([Judgement.of("ana", (0, 1), "left")]))
    for wrong, fault in (
        (Judgement.of("ben", (0, 1), "undo", undoes=1), "judgement 1 is not 'ben''s to undo"),
        (Judgement.of("ana", (0, 1), "undo", undoes=4), "judgement 4, which is not there"),
        (Judgement.of("ana", (0, 3), "left"), "no item 3 among 3"),
    ):
        with pytest.raises(JudgementError, match=fault):
            history.add(Judgements.of([Judgement.of("eve", (1, 2), "left"), wrong]))
        assert len(history.events) == history.n_votes == len(history.annotators) == 1
    undo = Judgement.of("ana", (0, 1), "undo", undoes=1)
    with pytest.raises(JudgementError, match="undone already"):
        history.add(Judgements.of([undo, undo]))
    assert history.n_votes == 1 and history.events.live.all()
    history.add(Judgements.of([undo]))
    assert history.n_votes == 0 and history.last("ana") is None


def for_low(judgement: Judgement) -> float:
    """1 if the lower item number is better, 0 if not, 1/2 for a tie."""
    target = TARGETS[judgement.word]
    return target if judgement.left < judgement.right else 1 - target


@pytest.mark.parametrize("seed", range(3))
def test_disputed_pairs_are_those_of_loops(seed: int) -> None:
    said = events(seed, m=500, n=9)
    of_pair = defaultdict(list)
    for vote in votes_of(said):
        of_pair[vote.pair].append(vote)
    spreads = [2 * np.var([*map(for_low, votes)]) * len(votes) for votes in of_pair.values()]
    table, posterior = Judgements.of(said), Session(None, 9).posterior
    n_disputed, disputed = most_disputed(table, posterior, 1000)
    assert n_disputed == np.count_nonzero(np.array(spreads) > 1e-9) > 20
    contradictions = [pair.contradiction for pair in disputed]
    assert contradictions == pytest.approx(sorted(spreads, reverse=True))
    for pair in disputed:
        assert [answer for answer, _ in pair.answers] == of_pair[tuple(sorted(pair.pair))]
    assert len(most_disputed(table, posterior, 3)[1]) == 3
    assert most_disputed(Judgements(), posterior, 3) == (0, [])


def test_reports_are_those_of_loops() -> None:
    said = events(5, m=500)
    study = study_of([Decision("gold", item=3, other=1), Decision("gold", item=2, other=7)])
    session = Session(None, N)
    session.replay(votes_of(said))
    session.refit()
    names = [f"p{k}" for k in range(5)] + ["nobody"]
    undone = {judgement.undoes for judgement in said}
    votes = votes_of(said)

    def mean(pairs: list[tuple[Judgement, Judgement]]) -> tuple[Any, Any]:
        pairs = [(a, b) for a, b in pairs if "tie" not in (a.word, b.word)]
        if not pairs:
            return 0, None
        return len(pairs), np.mean([for_low(a) == for_low(b) for a, b in pairs])

    for report in session.reports(names, said, study):
        own = [j for j in votes if j.annotator == report.name]
        standing = [j for j in said if j.annotator == report.name and j.number not in undone]
        others = [j for j in votes if j.annotator != report.name]
        assert report.answers == len(own)
        shared = mean([(a, b) for a in own for b in others if a.pair == b.pair])
        assert (report.shared, report.agreement) == pytest.approx(shared)
        first: dict[Any, Judgement] = {}
        pairs = [(first.setdefault(a.pair, a), a) for a in own]
        again = mean([(a, b) for a, b in pairs if a is not b])
        assert (report.repeats, report.consistency) == pytest.approx(again)
        gold = [
            for_low(j) == (study.gold[j.pair].item == j.pair[0])
            for j in own
            if j.pair in study.gold
        ]
        assert report.gold_answers == len(gold)
        assert (report.gold and report.gold.value) == (np.mean(gold) if gold else None)
        counts = Counter(j.word for j in standing)
        replies = (report.skipped, report.cant_say, report.undone)
        assert replies == (counts["skip"], counts["cant-say"], counts["undo"])
        times = [j.milliseconds for j in own if j.milliseconds is not None]
        assert report.median_seconds == (median(times) / 1000 if times else None)
    assert sum(report.answers for report in session.reports(names, [], Study())) == 0


def test_a_collection_read_in_blocks_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(tmp_path / "s.db") as store:
        collection = store.add_items("c", made_items(N, d=1))
        stored = collection.append(events(8, m=50))
        collection.decide(Decision("exclude", "p1"))
        whole = LabellingService(collection)
        monkeypatch.setattr("store.collections.judgement_rows.BLOCK", 7)
        blocks = LabellingService(collection)
        assert blocks.judgements() == whole.judgements() == stored
        assert blocks.session.judgements() == collection.counted_judgements()
        assert blocks.next("p0") == whole.next("p0")
        more = collection.append([Judgement.of("p0", (0, k), "left") for k in range(1, N)])
        blocks.sync()
        assert blocks.judgements() == stored + more
        assert all(blocks.sees("p0", i) for i in range(N))


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
