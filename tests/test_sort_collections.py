"""Which calls of sortnet.sort share answers, and what is told of the answers that are kept."""

from __future__ import annotations

import functools
import inspect
import os
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cli_helpers import nothing_changed

import sortnet
from sortnet.errors import SortNetError
from sortnet.judges.identity import identity_of
from store import open_store
from store.asking.sort_collection import name_by_content, turn_to_sort

TEXTS = ["a", "bb", "ccc", "dddd"]


pytestmark = pytest.mark.usefixtures("here")


@pytest.fixture
def temporary(tmp_path, monkeypatch) -> Path:
    """The folder in which temporary stores are made."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def longer(left: str, right: str) -> str:
    return "left" if len(left) > len(right) else "right"


def shorter(left: str, right: str) -> str:
    return "left" if len(left) < len(right) else "right"


def sort(judge=longer, items=TEXTS, **named):
    return sortnet.sort(items, judge=judge, progress=False, **named)


def test_without_a_store_nothing_is_remembered_and_no_file_stays(temporary):
    found = sort(longer)
    assert found.items == TEXTS[::-1]
    found.report("report.html")  # the result has its own store
    again = sort(longer)
    assert again.answered == found.answered == again.answered_in_all
    assert sort(sortnet.Function(shorter, name="longer")).items == TEXTS
    del found, again
    assert not [*temporary.iterdir()]
    assert {path.name for path in Path().iterdir()} == {"temporary", "report.html"}


def test_after_an_error_without_a_store_no_file_stays_and_the_loss_is_told(temporary):
    answers = iter(["left", "right", "nonsense"])
    with pytest.raises(SortNetError, match='2 answers are lost: store="FILE" keeps'):
        sort(lambda left, right: next(answers))
    assert not [*temporary.iterdir()]


def test_with_a_store_a_corrected_function_is_asked_anew_and_the_same_one_is_not():
    first = sort(longer, store="s.db")
    corrected = sortnet.Function(shorter, name="longer")
    second = sort(corrected, store="s.db")
    assert (first.items, second.items) == (TEXTS[::-1], TEXTS)
    assert {name: one.in_all for name, one in second.by.items()} == {"longer": second.answered}
    assert sort(longer, store="s.db").answered == sort(corrected, store="s.db").answered == 0
    assert not list(Path().glob("s.db-sort*"))


def test_with_a_name_the_ranking_rests_on_all_answers_and_says_whose():
    first = sort(longer, store="s.db", name="mine")
    second = sort(sortnet.Function(shorter, name="ana"), store="s.db", name="mine")
    n = first.answered
    assert second.by["longer"].in_all == n
    summary = f"longer: 0 answered, {n} in all"
    assert summary in repr(second) and summary in second._repr_html_()


def name_of(judge) -> str:
    from sortnet.items.given_items import items_from
    from sortnet.judges.any_judge import judges_by_name

    return name_by_content(items_from(TEXTS), judges_by_name(judge), defaultdict(lambda: None))


def test_the_name_depends_on_what_decides_a_models_or_programs_answers():
    model = functools.partial(sortnet.LanguageModel, "m")
    Path("p.jinja").write_text("{{ left.text }} {{ right.text }}")
    judges = [
        model(server="http://localhost:1"),
        model(server="http://localhost:2"),
        sortnet.LanguageModel("n", "http://localhost:1"),
        model(server="http://localhost:1", prompt="p.jinja"),
        model(server="http://localhost:1", request={"temperature": 1.0}),
        model(server="http://localhost:1", structured=True),
        model(server="http://localhost:1", logprobs=False),
        sortnet.Program("python a.py"),
        sortnet.Program("python b.py"),
        {"a": longer, "b": shorter},
        {"a": shorter, "b": longer},
    ]
    assert len({name_of(judge) for judge in judges}) == len(judges)
    same = model(server="http://localhost:1/", workers=4, timeout=9.0, request={"seed": 1})
    assert name_of(same) == name_of(judges[0])
    assert name_of({"b": shorter, "a": longer}) == name_of({"a": longer, "b": shorter})


def made(code: str, name: str = "judge") -> Callable[..., object]:
    """The function that a module of this code has."""
    module: dict[str, object] = {"__name__": "module"}
    exec(code, module)
    return module[name]


def judge_of(number: int) -> Callable[..., object]:
    return lambda left, right: number


class Weighted:
    def __init__(self, weight: float) -> None:
        self.weight = weight
        self.calls: list[str] = []

    def __call__(self, left: str, right: str) -> float:
        self.calls.append(left)
        return self.weight

    def other(self, left: str, right: str) -> float:
        return self.weight


HELPER = "def score(x):\n    return {}len(x)\ndef judge(a, b):\n    return score(a) / score(b)\n"
CONSTANT = "W = {}\ndef judge(a, b):\n    return W\n"
METHOD = "class J:\n    def __call__(self, a, b):\n        return {}\njudge = J()\n"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda left, right: "left", lambda left, right: "right"),
        (made(HELPER.format("")), made(HELPER.format("-"))),
        (made(CONSTANT.format("[1]")), made(CONSTANT.format("[2]"))),
        (made(METHOD.format(0.1)), made(METHOD.format(0.2))),
        (judge_of(1), judge_of(2)),
        (made("def judge(a, b, *, w=1): return w"), made("def judge(a, b, *, w=2): return w")),
        (functools.partial(longer, 1), functools.partial(longer, 2)),
        (functools.cache(longer), functools.cache(shorter)),
        (Weighted(0.1), Weighted(0.2)),
        (Weighted(0.1).other, Weighted(0.2).other),
        (judge_of(np.zeros(9999)), judge_of(np.eye(1, 9999, 5000))),
        (max, min),
    ],
)
def test_functions_that_may_answer_differently_are_different_judges(one, other):
    first, second = (identity_of(sortnet.Function(judge, name="j")) for judge in (one, other))
    assert first != second


COUNTER = "N = {}\ndef judge(a, b):\n    global N\n    N += 1\n    return N"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (made(HELPER.format("")), made("\n\n" + HELPER.format(""))),
        (made(COUNTER.format(0)), made(COUNTER.format(7))),  # the function itself changes N
        (functools.partial(longer, {"p": [1, 2]}), functools.partial(longer, {"p": [1, 2]})),
        (Weighted(0.5).other, Weighted(0.5).other),
    ],
)
def test_a_function_that_is_defined_again_is_the_same_judge(one, other):
    first, second = (identity_of(sortnet.Function(judge, name="j")) for judge in (one, other))
    assert first == second


def test_a_function_stays_the_same_judge_while_it_collects_what_it_was_asked():
    judge = Weighted(0.5)
    before = identity_of(sortnet.Function(judge)), identity_of(sortnet.Function(judge.other))
    judge("a", "b")
    after = identity_of(sortnet.Function(judge)), identity_of(sortnet.Function(judge.other))
    assert before == after


IDENTITY = """
import sortnet
from sortnet.judges.identity import identity_of
WORDS = {"good", "fine", "well"}
def count(text): return len(WORDS & set(text.split()))
def judge(left, right, *, at={"p": object}): return "left" if count(left) in {"a", "b"} else "right"
print(identity_of(sortnet.Function(judge)))
"""


def test_a_function_is_the_same_judge_in_a_later_process():
    path = str(Path(sortnet.__file__).parent.parent)
    outputs = set()
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path}
        command = [sys.executable, "-c", IDENTITY]
        outputs.add(subprocess.check_output(command, env=environment, text=True))
    assert len(outputs) == 1


def test_threads_that_sort_at_once_wait_for_each_other_and_other_collections_do_not(url):
    results: list[sortnet.SortedItems] = []
    is_asked = threading.Event()
    may_answer = threading.Event()

    def slow(left: str, right: str) -> str:
        is_asked.set()
        assert may_answer.wait(60)
        return longer(left, right)

    def run() -> None:
        results.append(sort(slow, store=url))

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert is_asked.wait(60)
    assert sort(longer, store=url).items == TEXTS[::-1]  # another judge, another collection
    may_answer.set()
    for thread in threads:
        thread.join()
    assert sorted(found.answered for found in results)[0] == 0
    assert results[0].items == results[1].items == TEXTS[::-1]


def test_a_call_that_waits_says_so_and_can_be_interrupted():
    def interrupt(text: str) -> None:
        if "waiting for another sort of the collection 'mine'" in text:
            raise KeyboardInterrupt

    with (
        open_store("s.db") as store,
        turn_to_sort(store.database, "mine", lambda text: None),
        pytest.raises(KeyboardInterrupt),
    ):
        sortnet.sort(TEXTS, judge=longer, store="s.db", name="mine", progress=interrupt)
    assert sort(store="s.db", name="mine").items == TEXTS[::-1]


@pytest.mark.parametrize(
    ("store", "kept"),
    [
        ("s.db", "interrupted: 2 answers are kept: the same call goes on"),
        (None, 'interrupted: 2 answers are lost: store="FILE" keeps them'),
    ],
)
def test_an_interrupt_says_what_is_kept(store, kept):
    answers = iter(["left", "right"])

    def judge(left: str, right: str) -> str:
        answer = next(answers, None)
        if answer is None:
            raise KeyboardInterrupt
        return answer

    with pytest.raises(KeyboardInterrupt) as raised:
        sortnet.sort(TEXTS, judge=judge, store=store, progress=False)
    assert raised.value.__notes__ == [kept]


def test_an_estimate_takes_the_arguments_of_sort_and_counts_the_answers_of_the_store():
    parameters = inspect.signature(sortnet.sort).parameters
    assert inspect.signature(sortnet.estimate).parameters.keys() == parameters.keys()
    texts = ["x" * k for k in range(1, 13)]
    arguments = {"judge": longer, "store": "s.db", "name": "mine", "progress": False}
    whole = sortnet.estimate(texts, **arguments)
    assert not Path("s.db").exists()
    sortnet.sort(texts, max_calls=8, **arguments)
    with nothing_changed(Path()):
        assert sortnet.estimate(texts, max_calls=9, **arguments).questions == 1
    assert whole.questions == 6
    sortnet.sort(texts, **arguments)
    assert sortnet.estimate(texts, **arguments).questions == 0
