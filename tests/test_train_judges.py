"""store.training.train and resume with a language model, a program or a function as judge."""

from __future__ import annotations

import functools
import json
import shlex
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli_helpers import FAST, done, fault, invoke, judge_file, letor, quick_training
from forked_processes import exit_code_of
from language_model_server import Model, serving
from result_helpers import value_of

import sortnet
from sortnet.core import NamedColumns
from sortnet.errors import SortNetError
from store import open_store
from store.runs.judge_record import other_argument, record_of, recorded_judge
from store.runs.resuming import again
from store.training import RunOptions, Watcher, estimate, resume, train

COLUMNS = NamedColumns(query="search", id="product")
OPTIONS = RunOptions(store="s.db", columns=COLUMNS, threads=1)
SETTINGS = {
    **{"max_iter": 3, "epochs": 9, "hidden": 4, "committee": 1, "batch_size": 64},
    **{"weight_decay": 0.01, "scaling": "query", "max_stale": 5, "pairs": "uncertain"},
}
N = 40  # answers
KEY = "sk-very-secret"


@pytest.fixture(autouse=True)
def folder(here) -> Iterator[None]:
    """A folder with a table of products, whose larger one has the longer text and is better."""

    rng = np.random.default_rng(0)
    lines = ["search,product,text,size,secret,label"]
    for query in range(20):
        # The same names are in every query.
        for product, words in enumerate(rng.choice(np.arange(3, 40), 6, replace=False)):
            text = " ".join(rng.choice(["one", "two", "six"], words))
            lines.append(f"q{query},p{product},{text},{words + rng.random():.4f},9,{product % 2}")
    Path("products.csv").write_text("\n".join(lines) + "\n")
    with quick_training():
        yield


class Larger:
    """A function as judge that prefers the larger product, and keeps what it was asked.

    Attributes:
        fails_after: calls after which each raises `error`; None: never.
    """

    __qualname__ = "larger"

    def __init__(self, fails_after: int | None = None, error: BaseException | None = None) -> None:
        self.calls: list[tuple[dict, dict]] = []
        self.fails_after, self.error = fails_after, error

    def __call__(self, left, right):
        if self.fails_after is not None and len(self.calls) >= self.fails_after:
            raise self.error
        self.calls.append((left, right))
        return "left" if left["size"] > right["size"] else "right"

    @property
    def pairs(self) -> Counter[frozenset[str]]:
        """How often each pair of texts was asked about, whatever the sides."""
        return Counter(frozenset((left["text"], right["text"])) for left, right in self.calls)


def by_judge(judge, out="model", options=OPTIONS, **arguments):
    arguments = {"judgements": N, **SETTINGS, **arguments}
    return train("products.csv", out, judge=judge, options=options, **arguments)


def program() -> sortnet.Program:
    Path("judge.py").write_text(
        """
import json, sys
for line in sys.stdin:
    print(line.strip(), file=open("asked", "a"), flush=True)
    left, right = (json.loads(line)[side]["features"]["size"] for side in ("left", "right"))
    print(json.dumps({"answer": "left" if left > right else "right"}), flush=True)
"""
    )
    return sortnet.Program(f"{shlex.quote(sys.executable)} -S -E judge.py")


def answers() -> pd.DataFrame:
    """The judgements in the collection of the newest run."""
    with open_store("s.db", write=False) as store:
        return store.collection(store.run("last").collection).judgements_frame()


def stored() -> int:
    return len(answers())


def weights(folder: str) -> bytes:
    (file,) = Path(folder).glob("weights-*.safetensors")
    return file.read_bytes()


def test_a_plain_function_is_given_rows_without_grades_and_its_order_is_learned():
    judge = Larger()
    columns = NamedColumns("search", None, "product", ("secret",))
    trained = by_judge(judge, options=RunOptions(store="s.db", threads=1, columns=columns))
    assert len(judge.calls) == N == stored() and max(judge.pairs.values()) == 1
    assert trained.best["quality"] > 0.8
    _, *rows = Path("products.csv").read_text().splitlines()
    passed = {tuple(row.split(",")[:4]) for row in rows}
    for left, right in judge.calls:
        assert [*left] == ["search", "product", "text", "size"]
        assert left["search"] == right["search"] and left["product"] != right["product"]
        for side in (left, right):
            assert (*[*side.values()][:3], f"{side['size']:.4f}") in passed


def test_a_function_is_given_arrays_of_letor_text_and_answers_with_probabilities():
    Path("all.txt").write_text(letor(20, 0))
    calls = []

    def judge(left, right):
        calls.append((left, right))
        return 0.9 if left[0] > right[0] else 0.1

    options = RunOptions(store="s.db", threads=1)
    train("all.txt", "m", judge=judge, options=options, judgements=N, **SETTINGS)
    assert len(calls) == N and all(side.shape == (4,) for pair in calls for side in pair)
    assert {*answers()["p"]} == {0.9, 0.1}


def words_in(text: str) -> float:
    return len(text.split()) / 5


def test_a_language_model_is_asked_and_its_key_is_nowhere():
    model = Model(words_in, key=KEY)
    with serving(model) as url:
        judge = sortnet.LanguageModel("judge", url, key=lambda: KEY, workers=2)
        trained = by_judge(judge, question="Which is longer?")
        assert resume("model", options=OPTIONS).best == trained.best
    assert len(model.prompts) == N == stored()
    assert all(prompt.startswith("Which is longer?") for prompt in model.prompts)
    assert KEY not in repr(judge) and KEY not in repr(trained.training)
    files = [path for path in Path().rglob("*") if path.is_file()]
    assert Path("s.db") in files and Path("model/run.json") in files
    assert all(KEY.encode() not in path.read_bytes() for path in files)


SCRIPT = """
import os, signal, sys
from sortnet.core import NamedColumns
from store.training import RunOptions, resume, train
sys.path.insert(0, {tests!r})
from cli_helpers import quick_training

def larger(left, right):
    with open("asked", "a") as log:
        print(os.getpid(), *sorted([left["text"], right["text"]]), sep="|", file=log, flush=True)
    if len(open("asked").readlines()) in {dies_at}:
        os.kill(os.getpid(), signal.SIGKILL)
    return "left" if left["size"] > right["size"] else "right"

options = RunOptions(store="s.db", columns=NamedColumns(query="search", id="product"), threads=1)
judges = {{"first": larger, "second": larger}}
with quick_training():
    if os.path.exists("killed/run.json"):
        resume("killed", judge=judges, options=options)
    else:
        train("products.csv", "killed", judge=judges, options=options, judgements={n}, **{settings})
"""


def test_three_exceptions_are_raised_as_they_are_and_the_run_goes_on_with_the_function_again():
    broken = Larger(fails_after=10, error=ValueError("broken"))
    with pytest.raises(ValueError, match="broken") as raised:
        by_judge(broken)
    call = "store.training.resume('model', judge=...)"
    note = f"judge larger: 10 of {N} answers are kept: go on with {call}"
    assert raised.value.__notes__ == [note]
    assert f"is not stored: pass it again, {call}" in fault("train", "--resume", "--out", "model")

    with open_store("s.db", write=False) as store:
        run = store.run("last")
        assert again(run) == f"store.training.resume({run.out!r}, judge=...)"
    mended = Larger()
    with pytest.raises(SortNetError, match="started with another judge: answers of two judges"):
        resume("model", judge=program(), options=OPTIONS)
    resume("model", judge=mended, options=OPTIONS)
    assert len(mended.calls) == N - 10 and not mended.pairs & broken.pairs
    assert resume("model", options=OPTIONS).kept["kind"]  # it has ended: nobody is asked


@pytest.fixture
def begun():
    """Starts a run of a judge that fails after a few answers."""

    def begin(judge, **arguments):
        with pytest.raises((SortNetError, ValueError)):
            by_judge(judge, **arguments)
        return stored()

    return begin


def test_a_key_from_a_function_is_asked_for_again_and_one_of_a_variable_is_not(begun, monkeypatch):
    monkeypatch.setenv("MY_KEY", KEY)
    with serving(Model(words_in, key=KEY, faults=[500] * 3)) as url:
        by_variable = sortnet.LanguageModel("judge", url, patience=0, key="MY_KEY")
        begun(by_variable, out="first")
        resume("first", options=OPTIONS)
    with serving(Model(words_in, key=KEY, faults=[500] * 3)) as url:
        by_function = sortnet.LanguageModel("judge", url, patience=0, key=lambda: KEY)
        begun(by_function, out="second")
        with pytest.raises(SortNetError, match="key comes from a function, which is not"):
            resume("second", options=OPTIONS)
        resume("second", judge=by_function, options=OPTIONS)
    assert stored() == N


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"judgements": None}, "a judge needs judgements N"),
        ({"judgements": 1}, "judgements: a judge has to give 2 answers at least"),
        ({"quality": "map"}, "by accuracy"),
        ({"question": 5}, "question: 5 is no text"),
        ({"question": "x" * 501}, "question: at most 500 characters"),
        ({"judge": {}}, "judge: there is none"),
        ({"judge": {"a": "b"}}, "give a function of two items"),
        ({"judge": sortnet.Program("no-such-program")}, "cannot start 'no-such-program'"),
        ({"judge": sortnet.LanguageModel("m", "ftp://x")}, "is no http or https URL"),
    ],
)
def test_what_cannot_be_asked_is_refused_before_anything_is_written(arguments, said):
    with pytest.raises(SortNetError, match=said):
        by_judge(**{"judge": Larger(), **arguments})
    assert not Path("model").exists() and not Path("s.db").exists()


def test_a_run_begun_by_grades_takes_no_judge():
    Path("all.txt").write_text(letor(9, 0))
    options = RunOptions(store="s.db", threads=1)
    train("all.txt", "graded", options=options, **SETTINGS)
    for argument, value in (("judge", Larger()), ("question", "Which?")):
        with pytest.raises(SortNetError, match=f"begun without a judge: leave out {argument}"):
            resume("graded", options=options, **{argument: value})


def test_an_estimate_is_of_a_language_model():
    model = sortnet.LanguageModel("m", "http://127.0.0.1:9", both_orders=True)
    found = estimate("products.csv", judge=model, options=OPTIONS, judgements=70)
    assert found.planned.calls == 140
    with pytest.raises(SortNetError, match="a language model"):
        estimate("products.csv", judge=Larger(), options=OPTIONS, judgements=70)


def test_a_record_holds_all_of_a_judge_but_its_functions():
    Path("p.txt").write_text("{{ left.text }} {{ right.text }}")
    model = sortnet.LanguageModel(
        "m", "http://s", key="MY_KEY", prompt="p.txt", request={"seed": 1}, structured=True,
        logprobs=False, both_orders=True, image_size=64, max_calls=3, max_cost=5.0,
        price_in=1.0, price_out=2.0, workers=2, timeout=3.0, patience=4.0,
    )  # fmt: skip
    defaults = sortnet.LanguageModel("m", "http://s")
    for field in fields(model):
        is_default = getattr(model, field.name) == getattr(defaults, field.name)
        assert not is_default or field.name in ("model", "server"), field.name
    for judge in (model, sortnet.Program("cat", timeout=3.0, workers=2, batch=4, patience=5.0)):
        assert recorded_judge(json.loads(json.dumps(record_of(judge, "?")))) == judge


class Notes(Watcher):
    def __init__(self):
        self.notes: list[str] = []
        self.lines: list[str] = []

    def note(self, text):
        self.notes.append(text)

    def progress(self, text):
        self.lines.append(text)


def by_several(url: str, *args: object, **of_model: object) -> list[object]:
    """The command of a training by a program and by the model `judge`."""
    words = ["train", "products.csv", "--query", "search", "--id", "product", *FAST]
    words += ["--pairs", "uncertain", "--judgements", N, "--judge", program().command]
    return [*words, *judge_file(server=url, **of_model), *args]


def answers_by_annotator() -> dict[str, int]:
    return answers()["annotator"].value_counts().to_dict()


def test_two_judges_answer_about_half_of_the_pairs_each():
    model = Model(words_in)
    with serving(model) as url:
        facts = value_of(done(*by_several(url, "--json")))
    command = program().command
    by_annotator = answers_by_annotator()
    about_half = pytest.approx(N / 2, abs=3)
    assert by_annotator == {"judge": about_half, command: about_half}
    assert sum(by_annotator.values()) == N
    judges = facts["judge"]["judges"]
    assert {name: judge["in_all"] for name, judge in judges.items()} == by_annotator
    assert judges["judge"]["calls"] == len(model.prompts) == by_annotator["judge"]
    text = done("train", "--resume", "--out", "model")
    assert f"judge: 0 answered, {by_annotator['judge']} in all" in text


def test_a_judge_that_fails_is_asked_no_more_and_the_other_goes_on():
    model = Model(words_in, faults=[None] * 3 + [404] * 99)
    with serving(model) as url:
        result = invoke(*map(str, by_several(url)))
    assert result.exit_code == 0, result.stderr
    assert result.stderr.count("it is asked no more") == 1
    assert "judge judge: " in result.stderr and len(model.prompts) == 4
    assert answers_by_annotator() == {program().command: N - 3, "judge": 3}


def test_a_pair_that_gets_no_answer_is_asked_of_the_other_judge():
    def stumbles(left, right):
        raise_at.append(1)
        if len(raise_at) % 3 == 0:
            raise ValueError("stumbled")
        return "left" if left["size"] > right["size"] else "right"

    raise_at: list[int] = []
    steady = Larger()
    trained = by_judge({"stumbling": stumbles, "steady": steady})
    assert max(steady.pairs.values()) == 1
    judges = trained.training.judge.facts()["judges"]
    assert judges["steady"]["failed"] == 0 < judges["stumbling"]["failed"]
    by_annotator = answers_by_annotator()
    assert by_annotator["steady"] == len(steady.calls) == N - by_annotator["stumbling"] > N / 2
    with pytest.raises(SortNetError, match="other judges: stumbling and steady"):
        resume("model", judge={"steady": steady}, options=OPTIONS)


def test_the_run_ends_when_all_judges_fail_and_goes_on_with_all_of_them():
    command = program().command
    code = Path("judge.py").read_text()
    with serving(Model(words_in, faults=[None] * 3 + [404])) as url:
        words = by_several(url)
        stop = "    len(open('asked').readlines()) > 9 and 1/0\n    left,"
        Path("judge.py").write_text(code.replace("    left,", stop))
        line = invoke(*map(str, words)).stderr.splitlines()[-1]
        n_kept = stored()
        assert f"{n_kept} of {N} answers are kept: go on with sortnet train --resume" in line
        assert 3 < n_kept < N
        program()
        resumed = ("train", "--resume", "--out", "model")
        assert f"other judges: {command} and judge" in fault(*resumed, "--judge", command)
        done(*resumed, "--judge", command, *judge_file(server=url), "--workers", 2)
    assert stored() == N and answers_by_annotator()["judge"] > 3


def test_the_limit_of_calls_is_one_of_each_judge():
    with serving(Model(words_in)) as url:
        few, more = (
            sortnet.LanguageModel("judge", url, max_calls=max_calls) for max_calls in (5, 12)
        )
        watcher = Notes()
        options = RunOptions(store="s.db", columns=COLUMNS, threads=1, watcher=watcher)
        by_judge({"few": few, "more": more}, options=options)
    assert answers_by_annotator() == {"few": 5, "more": 12}
    assert watcher.notes == [
        "judge few: the limit of 5 calls is reached; it is asked no more",
        "judge more: the limit of 12 calls is reached; it is asked no more",
    ]


@pytest.mark.slow
def test_functions_killed_between_answers_are_asked_no_answered_pair_again():
    script = SCRIPT.format(
        tests=str(Path(__file__).parent), dies_at=(3, 30), n=N, settings=SETTINGS
    )
    codes = [exit_code_of(script) for _ in range(3)]
    assert codes == [-signal.SIGKILL, -signal.SIGKILL, 0]
    of_process: dict[str, list[str]] = {}
    for line in Path("asked").read_text().splitlines():
        process, pair = line.split("|", 1)
        of_process.setdefault(process, []).append(pair)
    # The last question of a killed process was not answered; all before were.
    *killed, last = of_process.values()
    answered = [pair for pairs in killed for pair in pairs[:-1]] + last
    assert max(Counter(answered).values()) == 1 and len(answered) == N == stored()
    of_killed = asked_of()
    by_judge({"first": Larger(), "second": Larger()}, "whole")
    assert weights("killed") == weights("whole")
    assert asked_of() == of_killed  # the same judge is asked about each pair


def asked_of() -> set[tuple[str, ...]]:
    """The annotator and the items of each answer in the newest run."""
    frame = answers()
    pairs = zip(frame["annotator"], frame["items"], strict=True)
    return {(annotator, *items) for annotator, items in pairs}


def test_a_run_keeps_its_judge_in_all_that_decides_its_answers():
    Path("p.txt").write_text("{{ left.text }} {{ right.text }}")
    model = functools.partial(sortnet.LanguageModel, "m", "http://s")
    stored = record_of(model(request={"top_p": 0.5, "seed": 1}), "?")
    others = {
        "judge": program(),
        "model": sortnet.LanguageModel("n", "http://s"),
        "both_orders": model(both_orders=True),
        "prompt": model(prompt="p.txt"),
        "request": model(request={"top_p": 0.7}),
        "structured": model(request={"top_p": 0.5}, structured=True),
        None: model(request={"top_p": 0.5, "seed": 2}, workers=4, max_calls=9, logprobs=False),
    }
    for argument, judge in others.items():
        assert other_argument(record_of(judge, "?"), stored) == argument
    assert other_argument({**stored, "question": "!"}, stored) == "question"
    functions = [record_of(sortnet.Function(max, name=name), "?") for name in "ab"]
    assert other_argument(*functions) == "function"


def test_a_resumed_run_takes_its_programs_in_any_order_from_the_command_line(begun):
    command = program().command
    code = Path("judge.py").read_text()
    Path("judge.py").write_text("import sys; sys.exit(3)")
    commands = [f"{command} {number}" for number in (1, 2)]
    begun({command: sortnet.Program(command) for command in commands})
    Path("judge.py").write_text(code)
    words = [word for command in reversed(commands) for word in ("--judge", command)]
    done("train", "--resume", "--out", "model", *words, "--workers", 2)
    with open_store("s.db", write=False) as store:
        assert [*store.run("last").judge] == commands
    assert {*answers_by_annotator()} == {*commands} and stored() == N
