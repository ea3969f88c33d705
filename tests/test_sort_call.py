"""sortnet.sort with a function as judge: what the function gets and returns, identity, faults."""

from __future__ import annotations

import inspect
import threading
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import sortnet
from sortnet.errors import DataError, SortNetError, StoreError
from store import open_store

TEXTS = [f"text{'x' * k}" for k in range(8)]


pytestmark = pytest.mark.usefixtures("here")


class Longer:
    """A judge that prefers longer texts and counts the pairs it was asked about.

    Attributes:
        fails_after: calls after which each raises `error`; None: never.
    """

    __qualname__ = "longer"

    def __init__(self, fails_after: int | None = None, error: BaseException | None = None) -> None:
        self.calls: list[tuple[object, object]] = []
        self.fails_after, self.error = fails_after, error

    def __call__(self, left, right):
        if self.fails_after is not None and len(self.calls) >= self.fails_after:
            raise self.error
        self.calls.append((left, right))
        return "left" if len(left) > len(right) else "right"

    @property
    def pairs(self) -> Counter:
        """How often each pair was asked; a repeat that checks the judge exchanges the sides."""
        return Counter(self.calls)


def sort(items, judge, **named):
    return sortnet.sort(items, judge=judge, progress=False, **named)


def test_the_order_is_that_of_the_judge_and_the_same_call_again_asks_nothing():
    judge = Longer()
    found = sort(TEXTS, judge, store="s.db", wrong=0.05)
    assert found.items == sorted(TEXTS, key=len, reverse=True)
    assert found.answered == len(judge.calls) == found.answered_in_all
    assert found.frame.index.tolist() == [TEXTS.index(text) for text in found.items]
    assert (found.frame["low"] <= found.frame["rank"]).all()
    assert found.frame["judgements"].sum() == 2 * len(judge.calls)
    again = sort(TEXTS[::-1], judge, store="s.db", wrong=0.05)
    assert (again.answered, again.answered_in_all) == (0, found.answered)
    assert again.items == found.items


def sides(items, **named) -> list[object]:
    """What a function gets of the first pair."""
    got: list[object] = []

    def judge(left, right):
        got.extend([left, right])
        return "left"

    sort(items, judge, max_calls=1, **named)
    return got[:2]


def test_a_function_gets_the_items_as_they_were_passed(tmp_path):
    rows = [{"text": "a", "n": 1}, {"text": "b"}, {"text": "c", "n": 2.5}]
    numbers = [(1, 2), (3, 4)]
    for items in (rows, numbers):
        assert all(any(side is item for item in items) for side in sides(items))
    paths = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for path in paths:
        path.write_text(path.name)
    assert sorted(sides(paths)) == paths
    assert sorted(sides(".", name="folder")) == ["a.txt", "b.txt"]  # texts of a folder
    array = np.arange(6.0).reshape(3, 2)
    assert all((side == array).all(axis=1).any() for side in sides(array))


def test_a_function_is_called_in_the_callers_thread_one_at_a_time_unless_there_are_workers():
    threads: list[int] = []

    def judge(left, right):
        threads.append(threading.get_ident())
        return "left"

    sort(TEXTS[:4], judge)
    assert set(threads) == {threading.get_ident()}
    both = threading.Barrier(2, timeout=60)

    def in_two_threads(left, right):
        both.wait()  # returns only if two calls are running
        threads.append(threading.get_ident())
        return "left"

    threads.clear()
    sort(TEXTS[:4], sortnet.Function(in_two_threads, workers=2), max_calls=4)
    assert threading.get_ident() not in threads and len(threads) == 4


async def awaited(left, right):
    return "left"


class AwaitedCall:
    async def __call__(self, left, right):
        return "left"


def test_a_coroutine_is_refused_with_a_hint_before_anything_is_asked():
    with pytest.raises(SortNetError, match=r"coroutine function.*asyncio.run"):
        sort(["a", "b"], awaited)
    given = []

    def returns_one(left, right):
        given.append(awaited(left, right))
        return given[-1]

    for judge in (returns_one, AwaitedCall()):
        with pytest.raises(SortNetError, match=r"coroutine function.*asyncio.run"):
            sort(["a", "b", "c"], judge)
    assert len(given) == 1 and inspect.getcoroutinestate(given[0]) == inspect.CORO_CLOSED


def test_an_exception_three_times_in_a_row_is_raised_as_it_is_and_the_next_call_goes_on():
    error = ZeroDivisionError("of the judge")
    judge = Longer(fails_after=4, error=error)
    with pytest.raises(ZeroDivisionError) as raised:
        sort(TEXTS, judge, store="s.db")
    assert raised.value is error
    assert error.__notes__ == ["judge longer: 4 answers are kept: the same call goes on"]
    judge.fails_after = None
    found = sort(TEXTS, judge, store="s.db")
    assert found.answered == len(judge.calls) - 4
    assert max(judge.pairs.values()) == 1


def test_a_judge_that_fails_at_the_only_pair_is_an_error_not_an_empty_result():
    judge = Longer(fails_after=0, error=KeyError("nothing"))
    with pytest.raises(KeyError, match="nothing"):
        sort(["a", "bb"], judge)


def test_the_name_of_a_collection_is_a_hash_of_what_is_asked_about_what():
    def name(items, **named) -> str:
        return sort(items, Longer(), max_calls=1, **named).name

    first = name(["a", "bb"])
    assert name(["bb", "a"]) == first == name(["a", "bb", "a"], question="Which is better?")
    others = [
        name(["a", "bc"]),
        name(["a", "bb"], question="Which is nicer?"),
        name(["a", "bb"], instructions="Look twice."),
        sort([[1], [2]], lambda a, b: "left").name,
        sort(["1", "2"], lambda a, b: "left").name,
    ]
    assert len({first, *others}) == 6
    assert name(["a", "bb"], name="mine") == "mine"


def test_other_pictures_under_the_same_file_names_are_other_items(tmp_path):
    from PIL import Image

    names = []
    for number, folder in enumerate(("one", "two")):
        Path(folder).mkdir()
        for k in range(2):
            Image.new("RGB", (8, 8), (9 * k, 50 * number, 0)).save(f"{folder}/{k}.png")
        files = sorted(Path(folder).iterdir())
        names.append(sort(files, lambda a, b: "left", store="s.db").name)
    assert names[0] != names[1]


def test_more_items_under_one_name_are_added_and_missing_or_changed_ones_refused():
    judge = Longer()
    sort(TEXTS[:4], judge, store="s.db", name="mine")
    found = sort(TEXTS, judge, store="s.db", name="mine")
    assert len(found.frame) == 8 and max(judge.pairs.values()) == 1
    rows = [{"id": f"i{k}", "text": text} for k, text in enumerate(TEXTS)]
    sort(rows, Rows(), store="s.db", name="rows")
    for items, named, fault in (
        (
            [*rows[2:], {"id": "n", "text": ""}],
            {},
            "2 items that were not passed, such as 'i0'",
        ),
        ([*rows[:-1], rows[-1] | {"text": "changed"}], {}, "another text of item 'i7'"),
        (rows, {"question": "Nicer?"}, "has answers to the question 'Which is better"),
    ):
        with pytest.raises(StoreError, match=fault):
            sort(items, Rows(), store="s.db", name="rows", **named)


def test_equal_items_are_one_item_with_two_rows():
    judge = Longer()
    found = sort(["aa", "b", "aa"], judge)
    assert len(judge.pairs) == 1
    assert found.items == ["aa", "aa", "b"] and found.frame["rank"].tolist() == [1, 1, 2]


@pytest.mark.parametrize(
    ("items", "named", "fault"),
    [
        ([], {}, "there are 0; sorting needs 2"),
        (["a", "a"], {}, "all 2 are equal"),
        (["1", 2], {}, "of the kinds int, str"),
        ([Path("a.txt"), "b"], {}, "of the kinds PosixPath, str"),
        ({"a": 1, "b": 2}, {}, "is no list, data frame, array or file"),
        ("nowhere.csv", {}, "nowhere.csv: no such file"),
        ([Path("no.txt"), Path("more.txt")], {}, "there is no file .*no.txt"),
        (["a", "b"], {"top": 2}, "top: 2 of 2 items"),
        (["a", "b"], {"max_calls": 0}, "max_calls: 0 is no whole number from 1"),
        (["a", "b"], {"wrong": "x"}, "wrong: 'x' is no share"),
        (["a", "b"], {"text": "t"}, "name columns, and a list has none"),
        ([{"a": "b c"}, {"a": "d"}], {"text": "t"}, "there is no column 't'"),
        (["a\0", "b"], {}, "holds a NUL byte"),
        ([{"t": "a\ud800"}, {"t": "b"}], {}, "is not Unicode"),
        (["a", "b"], {"name": "a:b"}, "a name has no colon"),
        (["a", "b"], {"store": "."}, "is a folder"),
        (["a", "b"], {"judge": {}}, "judge: there is none"),
        (["a", "b"], {"judge": "a model"}, "the judge is 'a model'"),
    ],
)
def test_bad_input_is_one_sentence(items, named, fault):
    with pytest.raises(SortNetError, match=fault) as raised:
        sort(items, **{"judge": Longer(), **named})
    assert "\n" not in str(raised.value)


@pytest.mark.slow
def test_a_ranker_ranks_new_texts_without_a_call():
    rng = np.random.default_rng(0)
    words = ["fine", "bad", "so"]
    texts = sorted({" ".join(rng.choice(words, 6)) + f" {k}" for k in range(20)})

    def judge(left, right):
        gap = left.count("fine") - right.count("fine")
        return "tie" if gap == 0 else "left" if gap > 0 else "right"

    found = sort(texts, judge, max_calls=30, wrong=0.01)
    new = ["bad bad bad", "fine fine fine fine", "so fine so fine"]
    frame = found.ranker.rank(new)
    assert frame["item"].tolist()[0] == "fine fine fine fine"
    assert frame["rank"].tolist() == [1, 2, 3]
    assert frame["score"].is_monotonic_decreasing
    with pytest.raises(DataError):
        found.ranker.rank([])


def test_nonsense_is_one_error_and_nothing_is_lost():
    answers = iter(["left", "right", "up"])
    odd = sortnet.Function(lambda a, b: next(answers), name="odd")
    with pytest.raises(SortNetError, match=r"odd: the judge returned 'up'.*; 2 answers are kept"):
        sort(TEXTS, odd, store="s.db", name="c")
    with open_store("s.db") as store:
        assert [j.word for j in store.collection("c").judgements()] == ["left", "right"]
        assert store.collection("c").leases() == []


class Rows(Longer):
    """A judge that prefers rows with longer texts."""

    def __call__(self, left, right):
        return "left" if len(left["text"]) > len(right["text"]) else "right"


def test_items_are_compared_and_ranked_within_their_groups():
    rows = [{"text": text, "topic": k % 2} for k, text in enumerate(TEXTS)]
    found = sort(rows, Rows(), group="topic")
    assert found.frame["group"].tolist() == ["0"] * 4 + ["1"] * 4
    assert [row["text"] for row in found.items[:4]] == TEXTS[6::-2]
