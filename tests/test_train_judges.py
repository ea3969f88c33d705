"""store.training.train and resume with a language model, a program or a function as judge."""

from __future__ import annotations

import json
import shlex
import signal
import sqlite3
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import fields
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli_helpers import FAST, done, fault, invoke, judge_file, letor, quick_training
from forked_processes import ForkedScript, exit_code_of
from language_model_server import Model, serving
from result_helpers import value_of
from starlette.responses import JSONResponse

import sortnet
from sortnet.core import NamedColumns
from sortnet.errors import DataError, SortNetError
from sortnet.judges.prompts import Prompt
from store import open_store
from store.runs.judge_record import is_stored_whole, other_argument, record_of, recorded_judge
from store.runs.unfinished import again
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
def folder(tmp_path, monkeypatch) -> Iterator[Path]:
    """A folder with a table of products, whose larger one has the longer text and is better."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SORTNET_STORE", "s.db")
    rng = np.random.default_rng(0)
    lines = ["search,product,text,size,secret,label"]
    for query in range(20):
        # The same names are in every query.
        for product, words in enumerate(rng.choice(np.arange(3, 40), 6, replace=False)):
            text = " ".join(rng.choice(["one", "two", "six"], words))
            lines.append(f"q{query},p{product},{text},{words + rng.random():.4f},9,{product % 2}")
    Path("products.csv").write_text("\n".join(lines) + "\n")
    with quick_training():
        yield tmp_path


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
    options = RunOptions(
        store="s.db", threads=1, columns=NamedColumns("search", None, "product", ("secret",))
    )
    trained = by_judge(judge, options=options)
    assert len(judge.calls) == N == stored() and max(judge.pairs.values()) == 1
    assert trained.best["quality"] > 0.8
    header, *rows = Path("products.csv").read_text().splitlines()
    assert header.split(",")[4:] == ["secret", "label"]
    passed = {tuple(row.split(",")[:4]) for row in rows}
    for left, right in judge.calls:
        assert [*left] == ["search", "product", "text", "size"]
        assert left["search"] == right["search"] and left["product"] != right["product"]
        for side in (left, right):
            assert (*[*side.values()][:3], f"{side['size']:.4f}") in passed
    record = json.loads(Path("model/run.json").read_text())
    assert record["judged_by"] == "function"


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


def test_a_program_from_python_is_the_one_of_the_command_line():
    judge = program()
    trained = by_judge(judge, question="Which is larger?")
    questions = [json.loads(line) for line in Path("asked").read_text().splitlines()]
    assert (
        len(questions) == N == stored() == sum(trained.training.judge.facts()["answers"].values())
    )
    assert {question["question"] for question in questions} == {"Which is larger?"}
    command = ["train", "products.csv", "--query", "search", "--id", "product", *FAST]
    command += ["--pairs", "uncertain", "--judgements", N, "--judge", judge.command]
    done(*command, "--question", "Which is larger?", "--out", "by-command")
    assert weights("by-command") == weights("model")


def words_in(text: str) -> float:
    return len(text.split()) / 5


def test_a_language_model_is_asked_and_its_key_is_nowhere():
    model = Model(words_in, key=KEY)
    with serving(model) as url:
        judge = sortnet.LanguageModel("judge", url, key=lambda: KEY, workers=2)
        trained = by_judge(judge, question="Which is longer?")
        assert resume("model", judge=judge, options=OPTIONS).best == trained.best
        assert resume("model", options=OPTIONS).best == trained.best
    assert len(model.prompts) == N == stored()
    assert all(prompt.startswith("Which is longer?") for prompt in model.prompts)
    assert trained.best["quality"] > 0.7
    assert KEY not in repr(judge) and KEY not in repr(trained.training)
    files = [path for path in Path().rglob("*") if path.is_file()]
    assert Path("s.db") in files and Path("model/run.json") in files
    assert all(KEY.encode() not in path.read_bytes() for path in files)


SCRIPT = """
import os, signal, sys
import numpy as np, torch
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
with quick_training():
    if os.path.exists("killed/run.json"):
        resume("killed", judge=larger, options=options)
    else:
        train("products.csv", "killed", judge=larger, options=options, judgements={n}, **{settings})
"""


@pytest.mark.slow
def test_a_function_killed_between_answers_is_asked_no_answered_pair_again():
    script = SCRIPT.format(
        tests=str(Path(__file__).parent), dies_at=(3, 30), n=N, settings=SETTINGS
    )
    codes = [exit_code_of(script) for _ in range(3)]
    assert codes == [-signal.SIGKILL, -signal.SIGKILL, 0]
    lines = [line.split("|", 1) for line in Path("asked").read_text().splitlines()]
    of_process: dict[str, list[str]] = {}
    for process, pair in lines:
        of_process.setdefault(process, []).append(pair)
    # The last question of a killed process was not answered; all before were.
    *killed, last = of_process.values()
    answered = [pair for pairs in killed for pair in pairs[:-1]] + last
    assert max(Counter(answered).values()) == 1 and len(answered) == N == stored()
    whole = Larger()
    by_judge(whole, "whole")
    assert weights("killed") == weights("whole")


MODEL_SCRIPT = """
import sys
import sortnet
from sortnet.core import NamedColumns
from store.training import RunOptions, train
options = RunOptions(store="s.db", columns=NamedColumns(query="search", id="product"), threads=1)
judge = sortnet.LanguageModel("judge", {url!r})
train("products.csv", "model", judge=judge, options=options, judgements={n}, **{settings})
"""


def test_a_run_by_a_language_model_that_is_killed_goes_on_without_repeats():
    is_killed = threading.Event()

    def hangs(body):
        is_killed.wait(60)
        return JSONResponse({}, 500)

    n_answered = 15
    model = Model(words_in, faults=[*[None] * n_answered, hangs])
    with serving(model) as url:
        script = MODEL_SCRIPT.format(url=url, n=N, settings=SETTINGS)
        with ForkedScript(script) as process:
            while process.poll() is None and len(model.prompts) <= n_answered:
                time.sleep(0.01)
        is_killed.set()
        assert process.returncode == -signal.SIGKILL and stored() == n_answered
        trained = resume("model", options=OPTIONS)
    assert stored() == N and trained.best["quality"] > 0.7
    # The call that was under way is made again, no other.
    answered = model.prompts[:n_answered] + model.prompts[n_answered + 1 :]
    assert len(answered) == len({*answered}) == N and model.prompts[n_answered] in answered


def test_three_exceptions_are_raised_as_they_are_and_the_run_goes_on_with_the_function_again():
    broken = Larger(fails_after=10, error=ValueError("broken"))
    with pytest.raises(ValueError, match="broken") as raised:
        by_judge(broken)
    (text,) = raised.value.__notes__
    call = "store.training.resume('model', judge=...)"
    assert text == f"judge larger: 10 of {N} answers are kept: go on with {call}"
    with pytest.raises(SortNetError, match=r"asks a function, which is not stored: pass it again"):
        resume("model", options=OPTIONS)
    assert f"is not stored: pass it again, {call}" in fault("train", "--resume", "--out", "model")
    with open_store("s.db", write=False) as store:
        run = store.run("last")
        assert (run.status, again(run)) == (
            "failed",
            f"store.training.resume({run.out!r}, judge=...)",
        )
    mended = Larger()
    resume("model", judge=mended, options=OPTIONS)
    assert len(mended.calls) == N - 10 and not mended.pairs & broken.pairs
    assert resume("model", options=OPTIONS).kept["kind"]  # it has ended: nobody is asked


def test_an_interrupt_within_the_function_says_how_to_go_on():
    with pytest.raises(SortNetError, match=r"resume with: store\.training\.resume\('model', judge"):
        by_judge(Larger(fails_after=5, error=KeyboardInterrupt()))
    assert stored() == 5


def test_an_answer_that_is_none_is_one_sentence_and_nothing_is_lost():
    answers = iter(["left", 0.3, "up"])
    fault = r"judge odd: the judge returned 'up'.*; 2 of 40 answers are kept: go on with store\."
    with pytest.raises(SortNetError, match=fault):
        by_judge(sortnet.Function(lambda left, right: next(answers), name="odd"))
    assert stored() == 2


@pytest.fixture
def begun():
    """Starts a run of a judge that fails after a few answers."""

    def begin(judge, **arguments):
        with pytest.raises((SortNetError, ValueError)):
            by_judge(judge, **arguments)
        return stored()

    return begin


def test_a_resumed_run_refuses_another_judge_than_its_function(begun):
    n_answers = begun(Larger(fails_after=4, error=ValueError()))
    others = [
        (program(), "another judge"),
        (sortnet.LanguageModel("judge", "http://127.0.0.1:9"), "another judge"),
        (sortnet.Function(Larger(), name="other"), "another function"),
    ]
    for judge, what in others:
        fault = f"started with {what}: answers of two judges would be mixed"
        with pytest.raises(SortNetError, match=fault):
            resume("model", judge=judge, options=OPTIONS)
    with pytest.raises(SortNetError, match="another question"):
        resume("model", judge=Larger(), question="Which is smaller?", options=OPTIONS)
    with pytest.raises(SortNetError, match="give a function of two items"):
        resume("model", judge="larger", options=OPTIONS)
    assert stored() == n_answers
    resume("model", judge=sortnet.Function(Larger(), workers=2), options=OPTIONS)
    assert stored() == N


def test_a_resumed_run_refuses_another_model_or_prompt_but_takes_other_workers(begun):
    Path("p.txt").write_text("<A>\n{{ left.text }}\n</A>\n<B>\n{{ right.text }}\n</B>")
    with serving(Model(words_in, faults=[500] * 3)) as url:
        judge = sortnet.LanguageModel("judge", url, patience=0)
        begun(judge)
        changes = {
            "model": {"model": "other"},
            "both_orders": {"both_orders": True},
            "prompt": {"prompt": "p.txt"},
        }
        for what, attributes in changes.items():
            other = sortnet.LanguageModel(**{"model": "judge", "server": url, **attributes})
            with pytest.raises(SortNetError, match=f"started with another {what}: answers of two"):
                resume("model", judge=other, options=OPTIONS)
        resume("model", judge=sortnet.LanguageModel("judge", url, workers=4), options=OPTIONS)
        with open_store("s.db", write=False) as store:
            assert store.run("last").judge["judge"]["workers"] == 4
    assert stored() == N


def test_a_prompt_that_was_changed_since_is_another_one_until_the_run_has_ended(begun):
    prompt = Path("p.txt")
    template = "<A>\n{{ left.text }}\n</A>\n<B>\n{{ right.text }}\n</B>"
    prompt.write_text(template)
    with serving(Model(words_in, faults=[500] * 3)) as url:
        begun(sortnet.LanguageModel("judge", url, patience=0, prompt="p.txt"))
        prompt.write_text(f"Which is longer?\n{template}")
        with pytest.raises(SortNetError, match="started with another prompt"):
            resume("model", options=OPTIONS)
        prompt.write_text(template)
        trained = resume("model", options=OPTIONS)
        prompt.write_text("other")
        assert resume("model", options=OPTIONS).best == trained.best


def test_a_key_from_a_function_is_asked_for_again_and_one_of_a_variable_is_not(begun, monkeypatch):
    monkeypatch.setenv("MY_KEY", KEY)
    for k, named in enumerate(({"key": lambda: KEY}, {"key": "MY_KEY"})):
        with serving(Model(words_in, key=KEY, faults=[500] * 3)) as url:
            judge = sortnet.LanguageModel("judge", url, patience=0, **named)
            begun(judge, out=f"m{k}")
            if callable(named["key"]):
                with pytest.raises(SortNetError, match="key comes from a function, which is not"):
                    resume(f"m{k}", options=OPTIONS)
                resume(f"m{k}", judge=judge, options=OPTIONS)
            else:
                resume(f"m{k}", options=OPTIONS)
        assert stored() == N
    with closing(sqlite3.connect("s.db")) as connection:
        assert not any(KEY in line for line in connection.iterdump())


def test_the_command_line_goes_on_with_a_run_of_python_and_python_with_one_of_the_command(begun):
    Path("stumbles").touch()
    judge = program()
    code = Path("judge.py").read_text()
    stumbling = (
        "import os; os.path.exists('stumbles') and len(open('asked').readlines()) > 9 and 1/0"
    )
    Path("judge.py").write_text(code.replace("    left,", f"    {stumbling}\n    left,"))
    assert 0 < begun(judge) < N
    Path("stumbles").unlink()
    done("train", "--resume", "--out", "model")
    assert stored() == N
    Path("asked").unlink()
    Path("stumbles").touch()
    command = ["train", "products.csv", "--query", "search", "--id", "product", *FAST]
    command += ["--judgements", N, "--judge", judge.command, "--out", "other"]
    with pytest.raises(AssertionError, match="answers are kept"):
        done(*command)
    Path("stumbles").unlink()
    resume("other", options=OPTIONS)
    assert stored() == N


def test_a_store_that_only_a_folder_names_runs_no_command_from_python(begun, monkeypatch):
    Path("judge.py").write_text("import sys; sys.exit(3)")
    command = f"{shlex.quote(sys.executable)} judge.py"
    begun(sortnet.Program(command))
    monkeypatch.delenv("SORTNET_STORE")
    monkeypatch.setenv("XDG_DATA_HOME", str(Path.cwd() / "data"))
    judge = program()
    elsewhere = RunOptions(threads=1)
    with pytest.raises(SortNetError, match="is not yours by default: give judge again, or store"):
        resume("model", options=elsewhere)
    assert not Path("asked").exists()
    resume("model", judge=judge, options=elsewhere)
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
    Path("fold").mkdir()
    for name in ("train", "vali"):
        Path("fold", f"{name}.txt").write_text(letor(9, len(name)))
    options = RunOptions(store="s.db", threads=1)
    train("fold", "graded", options=options, **SETTINGS)
    with pytest.raises(SortNetError, match="begun without a judge: leave out judge"):
        resume("graded", judge=Larger(), options=options)
    with pytest.raises(SortNetError, match="begun without a judge: leave out question"):
        resume("graded", question="Which?", options=options)


def test_numbers_alone_are_refused_for_a_language_model_not_for_a_function():
    Path("all.txt").write_text(letor(20, 0))
    options = RunOptions(store="s.db", threads=1)
    model = sortnet.LanguageModel("m", "http://127.0.0.1:9")
    with pytest.raises(DataError, match=r"has numbers only.*\(prompt\).*\(judge\)"):
        train("all.txt", "m", judge=model, options=options, judgements=N, **SETTINGS)
    assert not Path("m").exists()


def test_an_estimate_asks_and_writes_nothing(tmp_path):
    model = sortnet.LanguageModel("m", "http://127.0.0.1:9", both_orders=True, price_in=1.0)
    found = estimate(
        "products.csv", judge=model, question="Longer?", options=OPTIONS, judgements=70
    )
    assert found.question.startswith("Longer?\n") and found.planned.calls == 140
    assert found.planned.cost == pytest.approx(found.planned.tokens_in / 1e6)
    assert estimate("products.csv", judge=model, options=OPTIONS).planned is None
    with pytest.raises(SortNetError, match="a language model"):
        estimate("products.csv", judge=Larger(), options=OPTIONS, judgements=70)
    assert [path.name for path in tmp_path.iterdir()] == ["products.csv"]


# The options of a judge as version 0.4 stored them in a run.
OF_0_4 = {
    **{"judge": None, "timeout": 60.0, "workers": 2, "batch": 1, "model": None, "server": None},
    **{"key": None, "prompt": None, "both_orders": False, "max_calls": None, "max_tokens": None},
    **{"max_cost": None, "price_in": None, "price_out": None, "store_patience": 9.0},
    **{"insecure": False, "question": "Which?", "prompt_hash": None},
}


@pytest.mark.parametrize(
    ("options", "judge"),
    [
        ({"judge": "python a.py"}, sortnet.Program("python a.py", workers=2, patience=9.0)),
        (
            {"model": "m", "server": "http://s", "key": "MY_KEY", "prompt_hash": Prompt().hash},
            sortnet.LanguageModel("m", "http://s", key="MY_KEY", workers=2, patience=9.0),
        ),
    ],
)
def test_a_judge_that_version_0_4_stored_is_gone_on_with(options, judge):
    record = {**OF_0_4, **options}
    assert recorded_judge(record) == judge and is_stored_whole(record)
    now = record_of(judge, "Which?")
    assert other_argument(now, record) is None and recorded_judge(now) == judge
    assert other_argument(record_of(judge, "What?"), record) == "question"


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


def test_a_resumed_run_may_ask_for_no_logprobs(begun):
    model = Model(words_in, faults=[500] * 3)
    with serving(model) as url:
        begun(sortnet.LanguageModel("judge", url, patience=0))
        # Earlier versions stored the record of the only judge without its name.
        with open_store("s.db") as store:
            store.run("last").set_judge(store.run("last").judge["judge"])
        done("train", "--resume", "--out", "model", *judge_file(server=url, logprobs=False))
    assert stored() == N
    with open_store("s.db") as store:
        run = store.run(sortnet.load_ranker("model").info["run"])
        assert run.judge["judge"]["logprobs"] is False


class Notes(Watcher):
    def __init__(self):
        self.notes: list[str] = []
        self.lines: list[str] = []

    def note(self, text):
        self.notes.append(text)

    def progress(self, text):
        self.lines.append(text)


def test_a_watcher_is_told_of_failures_and_of_how_many_were_asked():
    calls = []

    def stumbles(left, right):
        calls.append(left)
        if len(calls) in (4, 24):
            raise ValueError("stumbled")
        return "left" if left["size"] > right["size"] else "right"

    watcher = Notes()
    options = RunOptions(store="s.db", columns=COLUMNS, threads=1, watcher=watcher)
    by_judge(sortnet.Function(stumbles, name="s"), options=options)
    assert watcher.notes == ["judge s: ValueError: stumbled"] * 2
    assert stored() == N
    told = [line for line in watcher.lines if " answered, " in line]
    assert len(told) >= N and told[-1].startswith(f"{N} answered, ")
    assert f", 0 of {N} left" in told[-1]


def by_several(url: str, *args: object, **of_model: object) -> list[object]:
    """The command of a training by a program and by the model `judge`."""
    words = ["train", "products.csv", "--query", "search", "--id", "product", *FAST]
    words += ["--pairs", "uncertain", "--judgements", N, "--judge", program().command]
    return [*words, *judge_file(server=url, **of_model), *args]


def answers_by_annotator() -> dict[str, int]:
    return answers()["annotator"].value_counts().to_dict()


def asked_of() -> list[tuple[str, ...]]:
    """The annotator and the items of each answer in the newest run."""
    frame = answers()
    return [
        (annotator, *items)
        for annotator, items in zip(frame["annotator"], frame["items"], strict=True)
    ]


def test_two_judges_answer_about_half_of_the_pairs_each():
    model = Model(words_in)
    with serving(model) as url:
        runs = value_of(done(*by_several(url, "--dry-run", "--json")), "dry_run")
        assert [run["judge"] for run in runs] == [program().command, "judge"]
        assert not Path("asked").exists() and not model.prompts
        facts = value_of(done(*by_several(url, "--json")))
    by_annotator = answers_by_annotator()
    assert by_annotator == {
        "judge": pytest.approx(N / 2, abs=3),
        program().command: pytest.approx(N / 2, abs=3),
    }
    assert sum(by_annotator.values()) == N == sum(facts["judge"]["answers"].values())
    judges = facts["judge"]["judges"]
    assert {name: judge["in_all"] for name, judge in judges.items()} == by_annotator
    assert judges["judge"]["calls"] == len(model.prompts) == by_annotator["judge"]
    assert facts["quality"]["accuracy"] > 0.7
    name = facts["judge"]["collection"]
    listed = value_of(done("annotators", "list", name, "--json"))
    assert {annotator["name"]: annotator["answers"] for annotator in listed} == by_annotator
    with open_store("s.db", write=False) as store:
        assert {*store.collection(name).study().models} == {*by_annotator}
    text = done("train", "--resume", "--out", "model")
    assert f"judge: 0 answered, {by_annotator['judge']} in all" in text
    two = ("--judge", program().command, "--judge", program().command)
    assert "their own names, which must differ" in fault("train", "products.csv", *two)


def test_a_judge_that_fails_is_asked_no_more_and_the_other_goes_on():
    model = Model(words_in, faults=[None] * 3 + [404] * 99)
    with serving(model) as url:
        result = invoke(*map(str, by_several(url)))
    assert result.exit_code == 0, result.stderr
    assert result.stderr.count("it is asked no more") == 1
    assert "--model judge: " in result.stderr and len(model.prompts) == 4
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
    model = Model(words_in, faults=[None] * 3 + [404])
    program()
    code = Path("judge.py").read_text()
    with serving(model) as url:
        words = by_several(url)
        broken = code.replace(
            "    left,", "    len(open('asked').readlines()) > 9 and 1/0\n    left,"
        )
        Path("judge.py").write_text(broken)
        line = invoke(*map(str, words)).stderr.splitlines()[-1]
        n_kept = stored()
        assert f"{n_kept} of {N} answers are kept: go on with sortnet train --resume" in line
        assert 3 < n_kept < N
        resumed = ("train", "--resume", "--out", "model")
        others = f"other judges: {program().command} and judge"
        assert others in fault(*resumed, "--judge", program().command)
        assert others in fault(*resumed, *judge_file(server=url))
        done(*resumed, "--server", url, "--workers", 2)
    assert stored() == N and answers_by_annotator()["judge"] > 3
    with open_store("s.db", write=False) as store:
        records = store.run("last").judge
    assert [*records] == [program().command, "judge"]
    assert [record["workers"] for record in records.values()] == [2, 2]


def test_a_resumed_run_takes_its_programs_in_any_order(begun):
    command = program().command
    code = Path("judge.py").read_text()
    Path("judge.py").write_text("import sys; sys.exit(3)")
    commands = [f"{command} {number}" for number in (1, 2)]
    begun({command: sortnet.Program(command) for command in commands})
    Path("judge.py").write_text(code)
    words = [word for command in reversed(commands) for word in ("--judge", command)]
    done("train", "--resume", "--out", "model", *words, "--workers", 2)
    with open_store("s.db", write=False) as store:
        records = store.run("last").judge
    assert [(name, record["judge"], record["workers"]) for name, record in records.items()] == [
        (command, command, 2) for command in commands
    ]
    assert {*answers_by_annotator()} == {*commands} and stored() == N


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
        f"no judge can be asked any more: 17 of {N} answers are kept, and are learned from",
    ]


def test_a_killed_run_by_two_judges_asks_no_answered_pair_again():
    is_killed = threading.Event()

    def hangs(body):
        is_killed.wait(60)
        return JSONResponse({}, 500)

    n_answered = 15
    model = Model(words_in, faults=[*[None] * n_answered, hangs])
    with serving(model) as url:
        one = "sortnet.LanguageModel('judge', {url!r})"
        script = MODEL_SCRIPT.replace(
            'judge = sortnet.LanguageModel("judge", {url!r})',
            f"judge = {{{{'first': {one}, 'second': {one}}}}}",
        ).format(url=url, n=N, settings=SETTINGS)
        with ForkedScript(script) as process:
            while process.poll() is None and len(model.prompts) <= n_answered:
                time.sleep(0.01)
        is_killed.set()
        assert process.returncode == -signal.SIGKILL and stored() == n_answered
        judge = sortnet.LanguageModel("judge", url)
        with pytest.raises(SortNetError, match="started with other judges: first and second"):
            resume("model", judge={"first": judge, "third": judge}, options=OPTIONS)
        with pytest.raises(SortNetError, match="started with other judges: first and second"):
            resume("model", judge=judge, options=OPTIONS)
        resume("model", judge={"second": judge, "first": judge}, options=OPTIONS)
        killed = asked_of()
        by_judge({"first": judge, "second": judge}, "whole")
        whole = asked_of()
    about_half = pytest.approx(N / 2, abs=3)
    assert answers_by_annotator() == {"first": about_half, "second": about_half}
    # The call that was under way is made again, no other.
    answered = model.prompts[:n_answered] + model.prompts[n_answered + 1 : N + 1]
    assert len(answered) == len({*answered}) == N == len(killed)
    assert {*killed} == {*whole}  # the same judge is asked about each pair
