"""Programs as judges: what they are told, what they say, how they end, and `sortnet label`."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest
from asked_texts import add_texts, begin, judgements, label, program
from cli_helpers import done, fault, judge_file
from collection_helpers import Clock, made_items
from forked_processes import ForkedScript
from result_helpers import value_of

import sortnet
from sortnet.errors import SortNetError
from sortnet.judges import program as program_module
from sortnet.judges.connection import JudgeConnection
from sortnet.judges.program import RunningProgram, split_command
from sortnet.judges.verdicts import Fault, Verdict, parse_verdict
from sortnet.messages import ANSWERED
from store import Collection, open_store
from store.asking.machine import Machine
from store.asking.service_questions import ServiceQuestions
from store.service.labelling import LabellingService

N = 4
PAIRS = N * (N - 1) // 2
ANSWER = """
import json, os, sys, time
def ask():
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)
def say(**facts):
    print(json.dumps(facts), flush=True)
def better(q):
    return "left" if q["left"]["id"] < q["right"]["id"] else "right"
"""
GOOD = "while True:\n    q = ask()\n    say(id=q['id'], answer=better(q))\n"


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    begin(tmp_path, monkeypatch, N)


def judge(code: str, *args: str, n: int = 0) -> tuple[dict, str]:
    """Label by a program of this code as `robot`."""
    return label("--as", "robot", "--judge", program(ANSWER + code), *args, code=n)


def test_the_program_is_told_all_that_is_known_of_both_items(tmp_path):
    items = made_items(
        2, texts=("a\u2028\U0001f600\x1b" + "b" * 1_000_000, None), images=(None, "x/y.png"),
        audio=("z.wav", None), root=tmp_path, features=np.array([[1.5, np.nan], [0, 2]]),
        shown=({"price": "3"}, None), groups=("q", "q"), contexts=("Why?", "Why?"),
    )  # fmt: skip
    with open_store("s.db") as store:
        store.add_items("rich", items)
    code = "q = ask()\njson.dump(q, open('got.json', 'w'))\nsay(answer='cant-say')\nask()"
    done("label", "rich", "--judge", program(ANSWER + code), "--number", "1")
    got = json.loads(Path("got.json").read_text())
    assert (got["question"], got["group"], got["context"]) == ("Which is better?", "q", "Why?")
    assert sorted((got["left"], got["right"]), key=lambda side: side["id"]) == [
        {"id": "i0", "text": items.texts[0], "image": None, "audio": str(tmp_path / "z.wav"),
         "shown": {"price": "3"}, "features": {"f0": 1.5, "f1": None}},
        {"id": "i1", "text": None, "image": str(tmp_path / "x/y.png"), "audio": None,
         "shown": {}, "features": {"f0": 0.0, "f1": 2.0}},
    ]  # fmt: skip


# {what a program does in place of an answer: what is told of it}
BAD = {
    "print('left', flush=True)": "not a line of JSON",
    "print('[' * 50_000, flush=True)": "not a line of JSON",
    "sys.stdout.buffer.write(b'\\xff\\n'); sys.stdout.flush()": "not a line of JSON",
    "print(flush=True)": "not a line of JSON",
    "say(answer='A or B')": "its answer is not one of left, right, tie, skip, cant-say",
    "say(answer='undo')": "its answer is not one of",
    "say(answer=['left'])": "its answer is not one of",
    "say(id='another', answer='left')": "an answer to another pair",
    "say(id=None, answer='left')": "an answer to another pair",
    "print('x' * 300_000, flush=True)": "longer than 262,144 bytes",
    "time.sleep(60)": "no answer after 0.1 seconds",
    "print('half', end='', flush=True); time.sleep(60)": "no answer after 0.1 seconds",
    "print('tired', file=sys.stderr); sys.exit(3)": "it ended with code 3: tired",
    "raise ValueError('\\x1b[2Jboom')": "it ended with code 1: ValueError: \ufffd[2Jboom",
    "os.kill(os.getpid(), 9)": "it was killed by signal 9",
    "os.close(1); time.sleep(60)": "it closed its output",
    "sys.exit(0)": "it ended with code 0",
    "print('e' * 10_000_000, file=sys.stderr); sys.exit(1)": "it ended with code 1",
}  # fmt: skip
QUESTION = {"id": "x", "left": {"id": "a"}, "right": {"id": "b"}}


@pytest.mark.parametrize("code", BAD)
def test_a_program_that_gives_no_answer_is_told_of_in_one_line(code, monkeypatch):
    if "os.close(1)" in code:  # such a program is waited for: it may end, and say why
        monkeypatch.setattr(program_module, "_GRACE", 0.1)
    command = program(f"{ANSWER}q = ask()\n{code}\ntime.sleep(60)")
    seconds = 0.1 if "no answer" in BAD[code] else 60
    (worker,) = sortnet.Program(command, timeout=seconds).connect().make_workers()
    (verdict,) = worker.ask([QUESTION])
    worker.end()
    assert verdict.answer == "skip" and verdict.why.value == "error"
    assert BAD[code] in verdict.comment and len(verdict.comment) < 400
    assert "\x1b" not in verdict.comment and "\n" not in verdict.comment


@contextmanager
def running(code: str) -> Iterator[RunningProgram]:
    """A program that is ended afterwards."""
    started = RunningProgram(split_command(program(ANSWER + code)))
    try:
        yield started
    finally:
        started.end()


def test_an_answer_that_nobody_asked_for_is_no_answer_to_the_next_question():
    code = "q = ask(); say(answer='left'); say(answer='left'); open('said', 'w').write('x'); ask()"
    with running(code) as started:
        assert started.ask(b'{"id": 1}\n', 60) == b'{"answer": "left"}'
        wait_for("said")
        with pytest.raises(Fault, match="without a question"):
            started.ask(b"{}\n", 60)


@pytest.mark.parametrize(
    ("code", "seconds", "why"),
    [
        ("time.sleep(60)", 0.3, "no answer"),
        ("say(answer='tie')\ntime.sleep(60)", 60, "before it had|without"),
    ],
)
def test_a_program_that_does_not_read_what_it_is_sent_does_not_hold_us_up(code, seconds, why):
    with running(code) as started, pytest.raises(Fault, match=why):
        started.ask(b"x" * 10_000_000 + b"\n", seconds)


def wait_for(name: str) -> str:
    """What is in a file, once there is something in it."""
    until = time.monotonic() + 600
    while not (Path(name).exists() and Path(name).read_text()):
        assert time.monotonic() < until
        time.sleep(0.02)
    return Path(name).read_text()


def children_of(code: str) -> str:
    """A program that has started another one, whose number it has written to a file."""
    start = "import subprocess\np = subprocess.Popen(['sleep', '6000'])\n"
    return f"{start}open('child', 'w').write(str(p.pid))\n{code}"


def wait_until_gone(pid: int) -> None:
    """Wait until a process has ended; one that nobody has waited for yet counts too."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        until = time.monotonic() + 600
        while process.status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < until
            time.sleep(0.05)


@pytest.mark.parametrize("code", ["ask()", "ask()\ntime.sleep(60)"])
def test_nothing_that_the_program_has_started_is_left_behind(code):
    with running(children_of(code)):
        child = int(wait_for("child"))
    wait_until_gone(child)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_the_program_too_and_keeps_what_was_answered(number):
    code = "q = ask(); say(answer='left')\nq = ask()\n" + children_of("time.sleep(60)")
    typed = ["label", "t", "--as", "robot", "--judge", program(ANSWER + code)]
    process = ForkedScript("from cli.main import main; main()", *typed)
    wait_for("child")
    process.send_signal(number)
    out, err = process.communicate()
    assert process.returncode == 2
    assert out.splitlines()[0] == "robot: 1 answered, 1 in all; interrupted"
    assert err == "sortnet: --judge: interrupted\n"
    wait_until_gone(int(Path("child").read_text()))
    assert [j.word for j in judgements()] == ["left"]


def test_a_command_that_cannot_be_started_is_one_line(monkeypatch):
    assert "cannot start './nope.sh': No such file" in fault("label", "t", "--judge", "./nope.sh x")
    assert "No closing quotation" in fault("label", "t", "--judge", "python 'x")
    assert "a program as judge: no command" in fault("label", "t", "--judge", "  ")
    assert split_command("judge 'a b' $HOME; rm") == ["judge", "a b", "$HOME;", "rm"]
    monkeypatch.setattr("sortnet.judges.program.os.name", "nt")
    with pytest.raises(SortNetError, match="needs Linux or macOS"):
        split_command("judge")


def test_who_has_answered_nothing_is_left_behind_by_no_fault():
    def annotators() -> list[str]:
        with open_store("s.db") as store:
            return [one.name for one in store.collection("t").annotators()]

    fault("label", "t", "--as", "bo", "--judge", "./nope.sh")
    fault("label", "t", "--as", "cy", "--place", "i9")
    done("label", "t", "--as", "di")  # stdin is empty
    judge("sys.exit('no model')", n=1)
    judge("sys.exit('no model')", "--number", "2", n=1)
    assert annotators() == []
    judge(GOOD, "--number", "1")
    assert annotators() == ["robot"]


def test_criteria_share_the_wanted_number_of_answers():
    done("ask", "t", "--criterion", "short")
    done("ask", "t", "--criterion", "kind")
    typed = ("label", "t", "--judge", program(ANSWER + GOOD), "--number", "3", "--json")
    rows = value_of(done(*typed), "labelled")
    assert [(row["collection"], row["answered"]) for row in rows] == [("t:short", 2), ("t:kind", 1)]


def test_a_fast_program_waits_for_the_model_and_the_end_counts_every_answer():
    """Of so many items a fit is made aside: no question may be of a model long gone."""
    add_texts("many", 200)
    typed = ("label", "many", "--as", "bot", "--number", "100", "--json")
    (facts,) = value_of(done(*typed, "--judge", program(ANSWER + GOOD)))
    with open_store("s.db") as store:
        service = LabellingService(store.collection("many"))
    # How many are left is estimated at moments that depend on the speed of the fits.
    assert facts["in_all"] == len(service.session.judgements()) == 100
    assert facts["enough"] == service.session.remaining().stop
    models = [judgement.model for judgement in service.session.judgements()]
    # A fit begins after 20 answers and is waited for after 40; others were on their way.
    assert max(k - model for k, model in enumerate(models)) <= 50


def test_the_lease_of_a_pair_is_renewed_while_its_answer_takes_long(monkeypatch):
    renewed = threading.Event()
    next_questions = LabellingService.next

    def note(self, annotator, k=1):
        leases = next_questions(self, annotator, k)
        if k == 0:  # asked for no question, it renews leases
            renewed.set()
        return leases

    class Slow:
        def ask(self, pairs):
            assert renewed.wait(600)
            return [Verdict("left") for _ in pairs]

        def stop(self):
            pass

        end = stop

    monkeypatch.setattr(LabellingService, "next", note)
    with open_store("s.db") as store:
        collection = store.collection("t", clock=Clock())
        service = LabellingService(collection, lease_seconds=0.4)
        slow = JudgeConnection("slow", lambda: [Slow()])
        machine = Machine(ServiceQuestions(service), "robot", slow)
        with machine.opened():
            machine.ask(1)
    assert (machine.answered, machine.failed) == (1, 0)
    assert [j.word for j in judgements()] == ["left"]


def test_an_answer_given_elsewhere_is_said_and_not_counted(monkeypatch):
    answer = Collection.answer

    def late(self, lease, judgement, **options):
        if not self.judgements():
            answer(self, lease, replace(judgement, answer="same", best=None))
        return answer(self, lease, judgement, **options)

    monkeypatch.setattr(Collection, "answer", late)
    facts, told = judge(GOOD, "--number", "2")
    assert (facts["answered"], facts["in_all"], facts["failed"]) == (2, 3, 0)
    assert told.count(ANSWERED) == 1 and len(judgements()) == 3


def test_what_a_program_says_besides_is_kept():
    more = "comment='why', flag=True, seconds=1.5, cost=2, meta={'n': 1}, reason=1"
    code = f"say(p=0.75 if better(q) == 'left' else 0.25, {more})"
    facts, _ = judge(f"while True:\n    q = ask()\n    {code}\n", "--number", "5")
    assert facts["answered"] == 5
    lines = [json.loads(line) for line in done("judgements", "export", "t").splitlines()]
    kept = {"comment": "why", "flagged": True, "milliseconds": 1500, "cost": 2.0}
    kept["meta"] = '{"n": 1}'
    assert all(line | kept == line for line in lines) and len(lines) == 5
    assert {(j.word, j.p) for j in judgements()} <= {("left", 0.75), ("right", 0.25)}


def test_a_program_may_be_asked_again_later_and_about_several_pairs_at_once():
    code = """
print('{"retry_after": 0.01}', flush=True) if ask() else None
while True:
    print(json.dumps([{"id": q["id"], "answer": better(q)} for q in ask()]), flush=True)
"""
    facts, _ = label("--as", "robot", *judge_file(command=program(ANSWER + code), batch=4))
    assert (facts["answered"], facts["failed"]) == (PAIRS, 0)


def test_a_skip_that_the_judge_gives_is_an_answer():
    facts, _ = judge("while True:\n    ask(); say(answer='skip')\n", "--number", "5")
    assert facts["skipped"] == {"by the judge": 5}


NO_PLACES = "not different best and worst of A, B, C, D, nor one of same, skip, cant-say"
# (what a program says, about how many items, what is read or the fault)
SAID = [
    ({"answer": "left"}, 2, Verdict("left")),
    ({"answer": "Option B", "p": 0.25}, 2, Verdict("right", 0.25)),
    ({"p": 0.5}, 2, Verdict("tie", 0.5)),
    ({"answer": "cant-say", "comment": " "}, 2, Verdict("cant-say")),
    ({"p": 7, "retry_after": 3}, 2, 3.0),
    ({"p": 1.5}, 2, "p is not a number from 0 to 1"),
    ({"answer": "left", "cost": -1}, 2, "cost is not a number from 0"),
    ({"answer": "left", "comment": 3}, 2, "its comment is no text"),
    ({}, 2, "not one of left, right"),
    ({"best": "D", "worst": "A", "cost": 2}, 4, Verdict("best", cost=2.0, best=3, worst=0)),
    ({"answer": "best", "best": "b", "worst": "C"}, 4, Verdict("best", best=1, worst=2)),
    ({"answer": "same"}, 4, Verdict("same")),
    ({"retry_after": 2}, 4, 2.0),
    ({"best": "A", "worst": "A"}, 4, NO_PLACES),
    ({"best": "A", "worst": "E"}, 4, NO_PLACES),
    ({"best": 1, "worst": "C"}, 4, NO_PLACES),
    ({"best": "A"}, 4, NO_PLACES),
    ({"answer": "left"}, 4, NO_PLACES),
    ({"answer": "same", "best": "A"}, 4, NO_PLACES),
    ({"best": "A", "worst": "B", "p": 0.7}, 4, NO_PLACES),
]


@pytest.mark.parametrize(("said", "n_items", "expected"), SAID)
def test_a_line_of_a_program_is_a_verdict_or_a_fault(said, n_items, expected):
    if isinstance(expected, str):
        with pytest.raises(Fault, match=expected):
            parse_verdict(said, "...", n_items, worst=n_items > 2)
        return
    assert parse_verdict(said, "...", n_items, worst=n_items > 2) == expected
