"""sortnet label --judge: programs that answer, and programs that do not."""

from __future__ import annotations

import json
import shlex
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest
from cli_helpers import done, fault, invoke, judge_file
from click.testing import Result
from collection_helpers import Clock, made_items
from forked_processes import ForkedScript
from result_helpers import value_of

from sortnet.errors import SortNetError
from sortnet.judges import program as started_program
from sortnet.judges.connection import JudgeConnection
from sortnet.judges.program import RunningProgram, split_command
from sortnet.judges.verdicts import Fault, Verdict, parse_verdict
from sortnet.messages import ANSWERED
from sortnet.preference.session import Session
from sortnet.preference.stopping import Standing
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
GOOD = "while True:\n    q = ask()\n    say(id=q['id'], answer=better(q), reason='because')\n"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    """An empty working folder; the store is s.db in it, with four items."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SORTNET_STORE", "s.db")
    with open_store("s.db") as store:
        store.add_items("c", made_items(N, d=0))
    return tmp_path


def program(code: str, name: str = "judge.py") -> str:
    """A command that runs the code; what it needs of the standard library is there."""
    Path(name).write_text(ANSWER + code)
    return f"{shlex.quote(sys.executable)} -S -E {name}"


def judge(command: str, *args: str) -> Result:
    return invoke("label", "c", "--as", "robot", "--json", "--judge", command, *args)


def summary(result: Result, code: int = 0) -> dict:
    assert result.exit_code == code, result.stderr
    (row,) = value_of(result.stdout, "labelled")
    return row


def stored() -> list[str]:
    """Who was better in what is stored; nothing may be on loan any more."""
    with open_store("s.db") as store:
        collection = store.collection("c")
        assert collection.leases() == []
        assert all(
            j.annotator == "robot" and j.milliseconds is None for j in collection.judgements()
        )
        return [j.word for j in collection.judgements()]


@pytest.mark.parametrize("workers", [1, 3])
def test_a_program_answers_all_there_is(workers):
    facts = summary(judge(program(GOOD), "--workers", str(workers)))
    assert (facts["answered"], facts["in_all"], facts["failed"]) == (PAIRS, PAIRS, 0)
    assert facts["why"] == "all pairs were asked" and facts["fault"] == ""
    assert len(stored()) == PAIRS
    ranking = value_of(done("ranking", "c", "--json"))
    assert [row["id"] for row in ranking] == ["i0", "i1", "i2", "i3"]


def test_it_stops_after_so_many_and_goes_on_later():
    first = summary(judge(program(GOOD), "--number", "2", "--workers", "2"))
    assert (first["answered"], first["in_all"]) == (2, 2)
    second = summary(judge(program(GOOD)))
    assert (second["answered"], second["in_all"]) == (PAIRS - 2, PAIRS)


def told(name: str) -> dict:
    """What a program is told of the first pair of a collection."""
    code = "q = ask()\njson.dump(q, open('got.json', 'w'))\nsay(answer='cant-say')\nask()"
    done("label", name, "--judge", program(code), "--number", "1")
    return json.loads(Path("got.json").read_text())


def test_the_program_is_told_all_that_is_known_of_both_items(tmp_path):
    items = made_items(
        2, texts=("a\u2028\U0001f600\x1b" + "b" * 1_000_000, None), images=(None, "x/y.png"),
        audio=("z.wav", None), root=tmp_path, features=np.array([[1.5, np.nan], [0, 2]]),
        shown=({"price": "3"}, None),
    )  # fmt: skip
    with open_store("s.db") as store:
        store.add_items("rich", items)
    got = told("rich")
    asked = ["id", "question", "instructions", "left", "right"]
    assert list(got) == asked and got["question"] == "Which is better?"
    assert sorted((got["left"], got["right"]), key=lambda side: side["id"]) == [
        {"id": "i0", "text": items.texts[0], "image": None, "audio": str(tmp_path / "z.wav"),
         "shown": {"price": "3"}, "features": {"f0": 1.5, "f1": None}},
        {"id": "i1", "text": None, "image": str(tmp_path / "x/y.png"), "audio": None,
         "shown": {}, "features": {"f0": 0.0, "f1": 2.0}},
    ]  # fmt: skip


def test_the_program_is_told_the_group_and_its_context():
    with open_store("s.db") as store:
        store.add_items("g", made_items(2, groups=("q", "q"), contexts=("Why?", "Why?")))
    got = told("g")
    assert (got["group"], got["context"]) == ("q", "Why?")


BAD = {
    "print('left', flush=True)": "not a line of JSON",
    "print('[' * 50_000, flush=True)": "not a line of JSON",
    "sys.stdout.buffer.write(b'\\xff\\n'); sys.stdout.flush()": "not a line of JSON",
    "print(flush=True)": "not a line of JSON",
    "say(answer='A or B')": "its answer is not one of left, right, tie, skip, cant-say",
    "say(answer='up')": "its answer is not one of left, right, tie, skip, cant-say",
    "say(answer='undo')": "its answer is not one of",
    "say(answer=['left'])": "its answer is not one of",
    "say(reason='none')": "its answer is not one of",
    "say(id='another', answer='left')": "an answer to another pair",
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


@pytest.mark.parametrize("code", BAD)
def test_a_program_that_answers_nothing_ends_with_its_fault_and_leaves_nothing(code, monkeypatch):
    if "os.close(1)" in code:  # such a program is waited for: it may end, and say why
        monkeypatch.setattr(started_program, "_GRACE", 0.1)
    seconds = 0.1 if "no answer" in BAD[code] else 60
    command = program(f"q = ask()\n{code}\ntime.sleep(60)")
    _, file = judge_file(command=command, timeout=seconds)
    result = judge(file)
    facts = summary(result, code=1)
    assert (facts["answered"], facts["skipped"]) == (0, {}) and 3 < facts["failed"] <= PAIRS
    lines = result.stderr.splitlines()
    assert all(line.startswith("--judge: ") for line in lines[:-1])
    assert all(BAD[code] in line for line in lines)
    assert lines[-1].startswith("sortnet: --judge: failed at ")
    assert "\x1b" not in result.stderr and max(map(len, lines)) < 400
    assert stored() == []


def test_a_program_that_fails_now_and_then_is_started_again_and_nothing_is_lost():
    code = (
        "open('runs', 'a').write('x')\n"
        "q = ask(); say(answer=better(q))\n"
        "q = ask(); sys.exit('had enough')\n"
    )
    facts = summary(judge(program(code)))
    n_skips = facts["skipped"]["error"]
    assert facts["failed"] == 0 and facts["answered"] >= n_skips >= 2
    assert len(stored()) == facts["answered"] + n_skips
    assert summary(judge(program(GOOD)))["in_all"] == PAIRS


def test_an_answer_that_nobody_asked_for_is_no_answer_to_the_next_question():
    code = "q = ask(); say(answer='left'); say(answer='left'); open('said', 'w').write('x'); ask()"
    with ended(RunningProgram(split_command(program(code)))) as started:
        assert started.ask(b'{"id": 1}\n', 60) == b'{"answer": "left"}'
        wait_for("said")
        with pytest.raises(Fault, match="without a question"):
            started.ask(b"{}\n", 60)


def test_a_program_that_does_not_read_what_it_is_sent_does_not_hold_us_up():
    deaf, hasty = program("time.sleep(60)"), program("say(answer='tie')\ntime.sleep(60)", "b.py")
    for command, seconds, why in ((deaf, 0.3, "no answer"), (hasty, 60, "before it had|without")):
        with (
            ended(RunningProgram(split_command(command))) as started,
            pytest.raises(Fault, match=why),
        ):
            started.ask(b"x" * 10_000_000 + b"\n", seconds)


@contextmanager
def ended(started: RunningProgram) -> Iterator[RunningProgram]:
    """A program that is ended afterwards."""
    try:
        yield started
    finally:
        started.end()


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


def is_gone(pid: int) -> bool:
    """Ended; who has not been waited for yet counts too."""
    until = time.monotonic() + 600
    while time.monotonic() < until:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("code", ["ask()", "ask()\ntime.sleep(60)"])
def test_nothing_that_the_program_has_started_is_left_behind(code):
    with ended(RunningProgram(split_command(program(children_of(code))))):
        child = int(wait_for("child"))
    assert is_gone(child)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_the_program_too_and_keeps_what_was_answered(number):
    code = "q = ask(); say(answer='left')\nq = ask()\n" + children_of("time.sleep(60)")
    typed = ["label", "c", "--as", "robot", "--judge", program(code)]
    running = ForkedScript("from cli.main import main; main()", *typed)
    wait_for("child")
    running.send_signal(number)
    out, err = running.communicate()
    assert running.returncode == 2
    assert out.splitlines()[0] == "robot: 1 answered, 1 in all; interrupted"
    assert err == "sortnet: --judge: interrupted\n"
    assert is_gone(int(Path("child").read_text()))
    assert stored() == ["left"]


def test_a_command_that_cannot_be_started_is_one_line():
    assert "cannot start './nope.sh': No such file" in fault("label", "c", "--judge", "./nope.sh x")
    assert "No closing quotation" in fault("label", "c", "--judge", "python 'x")
    assert "a program as judge: no command" in fault("label", "c", "--judge", "  ")


def test_who_has_answered_nothing_is_left_behind_by_no_fault():
    with open_store("s.db") as store:
        store.collection("c").annotator("ana")
    fault("label", "c", "--as", "bo", "--judge", "./nope.sh")
    fault("label", "c", "--as", "cy", "--place", "i9")
    done("label", "c", "--as", "ana")  # stdin is empty
    done("label", "c", "--as", "di")
    judge(program("sys.exit('no model')"))
    with open_store("s.db") as store:
        assert [one.name for one in store.collection("c").annotators()] == ["ana"]
    judge(program(GOOD), "--number", "1")
    judge(program("sys.exit('no model')"))
    with open_store("s.db") as store:
        assert [one.name for one in store.collection("c").annotators()] == ["ana", "robot"]


def test_a_fast_program_waits_for_the_model_and_the_end_counts_every_answer():
    """Of so many items a fit is made aside: no question may be of a model long gone."""
    with open_store("s.db") as store:
        store.add_items("many", made_items(200, d=0))
    typed = ("label", "many", "--as", "bot", "--number", "100", "--json")
    (facts,) = value_of(done(*typed, "--judge", program(GOOD)))
    with open_store("s.db") as store:
        service = LabellingService(store.collection("many"))
    # How many are left is estimated at moments that depend on the speed of the fits.
    assert facts["in_all"] == len(service.session.judgements()) == 100
    assert facts["enough"] == service.session.remaining().stop
    models = [judgement.model for judgement in service.session.judgements()]
    behind = [k - model for k, model in enumerate(models)]
    # A fit begins after 20 answers and is waited for after 40; others were on their way.
    assert max(behind) <= 50


@pytest.mark.slow
def test_two_at_once_under_one_name_count_every_answer_once():
    with open_store("s.db") as store:
        store.add_items("many", made_items(30, d=0))
    Path("slow.py").write_text(ANSWER + GOOD.replace("say(", "time.sleep(0.02); say("))
    command = f"{shlex.quote(sys.executable)} -S -E slow.py"
    typed = ["label", "many", "--as", "bot", "--number", "25", "--json", "--judge", command]
    code = "from cli.main import main; main()"
    both = [ForkedScript(code, *typed) for _ in range(2)]
    said = [value_of(process.communicate()[0])[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    with open_store("s.db") as store:
        stored = len(store.collection("many").judgements())
    assert sum(facts["answered"] for facts in said) == stored == 50


def test_the_lease_of_a_pair_is_renewed_while_its_answer_takes_long(monkeypatch):
    renewed = threading.Event()
    held = LabellingService.held

    def note(self, annotator):
        leases = held(self, annotator)
        renewed.set()
        return leases

    class Slow:
        def ask(self, pairs):
            assert renewed.wait(600)
            return [Verdict("left") for _ in pairs]

        def stop(self):
            pass

        def end(self):
            pass

    monkeypatch.setattr(LabellingService, "held", note)
    with open_store("s.db") as store:
        clock = Clock()
        service = LabellingService(store.collection("c", clock=clock), lease_seconds=0.4)
        judge = JudgeConnection("slow", lambda: [Slow()])
        machine = Machine(ServiceQuestions(service), "robot", judge)
        with machine.opened():
            machine.ask(1)
    assert (machine.answered, machine.failed) == (1, 0)
    assert stored() == ["left"]


def test_an_answer_given_elsewhere_is_said_and_not_counted(monkeypatch):
    answer = Collection.answer

    def late(self, lease, judgement, **options):
        if not self.judgements():
            answer(self, lease, replace(judgement, answer="same", best=None))
        return answer(self, lease, judgement, **options)

    monkeypatch.setattr(Collection, "answer", late)
    result = judge(program(GOOD), "--number", "2")
    facts = summary(result)
    assert (facts["answered"], facts["in_all"], facts["failed"]) == (2, 3, 0)
    assert result.stderr.count(ANSWERED) == 1 and len(stored()) == 3


def test_an_answer_may_leave_out_the_id_but_not_have_another():
    failed = judge(program("while True:\n    say(id=None, answer=better(ask()))\n"))
    assert failed.exit_code == 1 and "an answer to another pair" in failed.stderr
    facts = summary(judge(program("while True:\n    say(answer=better(ask()), more=1)\n")))
    assert facts["answered"] == PAIRS


def test_what_a_program_says_besides_is_kept_and_what_is_unknown_told_once():
    more = "comment='why', flag=True, seconds=1.5, cost=2, meta={'n': 1}, reason=1"
    code = f"say(answer=better(q), {more})"
    result = judge(program(f"while True:\n    q = ask()\n    {code}\n"))
    assert summary(result)["answered"] == PAIRS
    assert result.stderr.count("'reason' is no key of an answer") == 1
    lines = [json.loads(line) for line in done("judgements", "export", "c").splitlines()]
    kept = {"comment": "why", "flagged": True, "milliseconds": 1500, "cost": 2.0}
    kept["meta"] = '{"n": 1}'
    assert all(line | kept == line for line in lines) and len(lines) == PAIRS


def test_a_probability_is_the_answer_and_counts_as_one():
    code = "say(p=0.75 if better(q) == 'left' else 0.25)"
    assert summary(judge(program(f"while True:\n    q = ask()\n    {code}\n")))["answered"] == PAIRS
    with open_store("s.db") as store:
        said = list(store.collection("c").judgements())
    assert {(j.word, j.p) for j in said} == {("left", 0.75), ("right", 0.25)}
    assert value_of(done("ranking", "c", "--json"))[0]["id"] == "i0"


def test_a_program_may_be_asked_again_later_and_about_several_pairs_at_once():
    code = """
late = True
while True:
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    if late:
        late = False
        print('{"retry_after": 0.01}', flush=True)
        continue
    print(json.dumps([{"id": q["id"], "answer": better(q)} for q in json.loads(line)]), flush=True)
"""
    _, file = judge_file(command=program(code), batch=4)
    facts = summary(judge(file))
    assert (facts["answered"], facts["failed"]) == (PAIRS, 0)


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ({"p": 1.5}, "p is not a number from 0 to 1"),
        ({"p": "x"}, "p is not a number"),
        ({"answer": "left", "cost": -1}, "cost is not a number from 0"),
        ({"answer": "left", "comment": 3}, "its comment is no text"),
        ({"answer": "undo"}, "not one of left, right"),
        ({}, "not one of left, right"),
    ],
)
def test_what_is_no_verdict_is_refused(said, fault):
    with pytest.raises(Fault, match=fault):
        parse_verdict(said, "...")
    assert parse_verdict({**said, "retry_after": 3}, "...") == 3.0


def test_a_goal_that_is_reached_ends_it_before_all_is_asked(monkeypatch):
    real = Session.remaining

    def remaining(self, **options):
        standing = Standing.REACHED if self.events >= 3 else Standing.ASKING
        return replace(real(self, **options), standing=standing)

    monkeypatch.setattr(Session, "remaining", remaining)
    facts = summary(judge(program(GOOD)))
    wanted = "at most 10% of the pairs in the wrong order"
    why = f"the goal is reached, {wanted} (--until sets another)"
    assert (facts["answered"], facts["why"], facts["enough"]) == (3, why, True)
    facts = summary(judge(program(GOOD), "--number", "9"))
    assert (facts["answered"], facts["why"]) == (0, why)


def test_no_shell_has_a_hand_in_it_and_a_windows_machine_is_told_so(monkeypatch):
    assert split_command("judge 'a b' $HOME; rm") == ["judge", "a b", "$HOME;", "rm"]
    monkeypatch.setattr("sortnet.judges.program.os.name", "nt")
    with pytest.raises(SortNetError, match="needs Linux or macOS"):
        split_command("judge")
