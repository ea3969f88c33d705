"""One contract of all judges that are asked: programs, language models and functions."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from asked_texts import begin, judgements, model, number_in, program
from language_model_server import SIDES, serving
from starlette.responses import JSONResponse

import sortnet
from sortnet.judges.faults import Reason
from sortnet.judges.unanswered import AnswerRecord, Unanswered
from sortnet.preference.stopping import Goal
from store import open_store
from store.asking.machine import EndReason, Machine
from store.asking.service_questions import ServiceQuestions, ask_in_turn, why_ended
from store.service.labelling import LabellingService

N = 7
PAIRS = N * (N - 1) // 2
KINDS = ("program", "model", "function")
each_kind = pytest.mark.parametrize("kind", KINDS)

# The judge has written a question down before it answers, or fails where FAILS is true: of `n`, the
# number of the question, and `numbers`, those of the texts.
JUDGE = """
def answer(numbers):
    with open("asked", "a") as file:
        print(*numbers, file=file)
    with open("asked") as file:
        n = len(file.readlines())
    if FAILS:
        raise ValueError("broken")
    return "left" if numbers[0] > numbers[1] else "right"
"""
PROGRAM = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    pairs = asked if isinstance(asked, list) else [asked]
    texts = [[pair[side]["text"] for side in ("left", "right")] for pair in pairs]
    said = [{"answer": answer([int(text.split()[-1]) for text in two])} for two in texts]
    print(json.dumps(said if isinstance(asked, list) else said[0]), flush=True)
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    begin(tmp_path, monkeypatch, N)
    with open_store("s.db") as store:
        store.collection("t").setting("repeats", 0.0)


@contextmanager
def judge_of(kind: str, fails: str, **fields: object) -> Iterator[object]:
    """Yield a judge that fails where the expression `fails` is true."""
    code = JUDGE.replace("FAILS", fails)
    if kind == "program":
        yield sortnet.Program(program(code + PROGRAM), **fields)
        return
    module: dict = {}
    exec(code, module)

    def answer(left: str, right: str) -> str:
        return module["answer"]([int(number_in(text)) for text in (left, right)])

    if kind == "function":
        yield sortnet.Function(answer, "function", **fields)
        return
    server = model()
    reply = server.reply

    def reply_or_fail(body, headers):
        try:
            answer(*SIDES.search(body["messages"][0]["content"]).groups())
        except ValueError as error:
            return JSONResponse({"error": {"message": f"Could not process it: {error}"}}, 400)
        return reply(body, headers)

    server.reply = reply_or_fail  # type: ignore[method-assign]
    with serving(server) as url:
        yield sortnet.LanguageModel("judge", url, **fields)


def ask(kind: str, *, number: int | None = None, fails: str = "False", **fields) -> Machine:
    """Let a judge answer, and return the machine that has asked it."""
    told: list[str] = []
    with (
        open_store("s.db") as store,
        closing(LabellingService(store.collection("t"), goal=Goal(1e-6))) as service,
        judge_of(kind, fails, **fields) as judge,
    ):
        items = service.items
        connection = judge.connect("J", dict(zip(items.ids, items.texts, strict=True)))
        machine = Machine(ServiceQuestions(service), "robot", connection, told.append)
        ask_in_turn([machine], service, number)
        machine.told, machine.why = told, why_ended(service, machine)
    return machine


def asked() -> list[frozenset[str]]:
    """The pairs that the judge was asked about, in order."""
    return [frozenset(line.split()) for line in Path("asked").read_text().splitlines()]


def assert_right(n_skips: int = 0) -> None:
    """What is stored follows from the numbers, but for skips."""
    words = [(j.word, "left" if j.left > j.right else "right") for j in judgements()]
    assert sum(word == "skip" for word, _ in words) == n_skips
    assert all(word in (right, "skip") for word, right in words)


@each_kind
@pytest.mark.parametrize("workers", [1, 3])
def test_all_is_asked_once_and_a_later_process_asks_the_rest(kind, workers):
    first = ask(kind, number=4, workers=workers)
    assert (first.answered, first.reason, first.failed) == (4, EndReason.NUMBER, 0)
    assert len(judgements()) == 4
    rest = ask(kind, workers=workers)
    assert rest.answered == len(judgements()) - 4
    assert rest.reason in (EndReason.GOAL, EndReason.NOTHING_LEFT)
    assert max(Counter(asked()).values()) == 1
    assert_right()


@each_kind
def test_each_answer_is_stored_before_the_next_question(kind, monkeypatch):
    seen = []
    stored = ServiceQuestions.answer

    def answer(self, lease, verdicts, **options):
        seen.append((len(asked()), len(self.service.collection.judgements())))
        return stored(self, lease, verdicts, **options)

    monkeypatch.setattr(ServiceQuestions, "answer", answer)
    ask(kind, number=5)
    assert seen == [(k + 1, k) for k in range(5)]


@pytest.mark.parametrize("kind", KINDS[:2])
def test_a_limit_of_calls_ends_the_asking(kind):
    machine = ask(kind, max_calls=3)
    assert (machine.answered, machine.reason) == (3, EndReason.BUDGET)
    assert machine.judge.budget.why() == "the limit of 3 calls is reached"


@each_kind
@pytest.mark.parametrize("workers", [1, 2])
def test_a_failure_now_and_then_is_a_skip_and_nothing_is_lost(kind, workers):
    machine = ask(kind, fails="n % 5 == 3", workers=workers, number=12)
    reason = "refused" if kind == "model" else "error"
    assert machine.skipped == {reason: len(judgements()) - machine.summary(0).answered}
    metas = [judgement.meta for judgement in judgements() if judgement.word == "skip"]
    assert all(json.loads(meta)["unanswered"] == reason for meta in metas)
    assert machine.answered == 12 and machine.failed == 0
    assert_right(n_skips=machine.skipped[reason])


@each_kind
def test_an_item_at_which_a_judge_fails_is_left_out_and_the_others_are_ranked(kind):
    machine = ask(kind, fails="4 in numbers")
    assert sum("item 't4' is left out" in text for text in machine.told) == 1
    assert sum(pair >= {"4"} for pair in asked()) <= 4
    assert machine.skipped.total() > 1 and machine.failed == 0
    with open_store("s.db") as store, closing(LabellingService(store.collection("t"))) as service:
        service.settle()
        order = [int(item) for item in service.ranking.order if item != 4]
    assert order == [6, 5, 3, 2, 1, 0]


@each_kind
def test_nine_of_ten_questions_without_an_answer_end_the_asking_and_are_not_stored(kind):
    machine = ask(kind, fails="n > 4")
    assert (machine.answered, machine.failed, machine.reason) == (4, 9, EndReason.UNANSWERED)
    assert "failed at 9 of the last 10 questions" in machine.fault and "broken" in machine.fault
    assert len(machine.told) < 9  # of one kind only the first are told
    assert_right()
    assert len(judgements()) == 4
    assert ask(kind, number=2).answered == 2


@each_kind
def test_a_judge_that_always_fails_leaves_nothing(kind):
    machine = ask(kind, fails="True")
    assert machine.reason == EndReason.UNANSWERED and machine.answered == 0
    assert judgements() == [] and len(asked()) == 9
    with open_store("s.db") as store:
        assert list(store.collection("t").annotators()) == []


def test_several_questions_at_once_are_asked_alone_after_a_failure():
    machine = ask("program", fails="4 in numbers", batch=3)
    assert machine.failed == 0 and sum("is left out" in text for text in machine.told) == 1
    assert_right(n_skips=machine.skipped["error"])


def test_an_item_in_two_failures_is_not_blamed_for_what_others_cause():
    record = AnswerRecord()
    record.note_answer({"b", "c"})
    left_out = [
        record.note_unanswered(Unanswered(frozenset(pair), Reason.ERROR, ""))
        for pair in ("ab", "ab", "ac", "ad", "cd", "de")
    ]
    assert left_out == [set(), set(), {"a"}, set(), set(), {"d"}]


@each_kind
def test_the_skip_of_the_last_question_is_stored_after_other_answers(kind):
    machine = ask(kind, fails="n == 3", number=3)
    assert (machine.answered, machine.failed, machine.reason) == (3, 0, EndReason.NUMBER)
    assert_right(n_skips=1)
    assert len(judgements()) == 3
