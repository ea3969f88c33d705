"""Questions that get no answer: whose fault that is, what is asked next, and how a run ends."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest
from cli_helpers import done, invoke, judge_file
from language_model_server import Model, serving
from result_helpers import value_of
from starlette.responses import JSONResponse

import sortnet
from store import open_store

N = 13


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    """A folder whose store has thirteen texts."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SORTNET_STORE", "s.db")
    monkeypatch.setattr("sortnet.judges.model_worker._SHORTEST_WAIT", 0.01)
    rows = ["id,text", *(f"t{k},text number {k}" for k in range(N))]
    Path("t.csv").write_text("\n".join(rows) + "\n")
    done("items", "add", "t", "t.csv")
    return tmp_path


def model(**facts) -> Model:
    """A model that prefers the text with the larger number."""
    return Model(lambda text: float(text.split()[-1]), **facts)


def failing(fault: JSONResponse) -> Model:
    """A model whose server gives a fault in place of each answer about text 4."""
    judge = model()
    answer = judge.reply

    def reply(body, headers):
        is_bad = "text number 4\n" in body["messages"][0]["content"]
        judge.n_bad += is_bad
        return fault if is_bad else answer(body, headers)

    judge.reply, judge.n_bad = reply, 0  # type: ignore[attr-defined, method-assign]
    return judge


BEST_FIRST = [f"t{k}" for k in reversed(range(N)) if k != 4]


def label(url: str, *args: object, code: int = 0) -> tuple[dict, str]:
    """Facts about a labelling by the model, and what was told meanwhile."""
    result = invoke("label", "t", "--model", "judge", "--server", url, "--json", *args)
    assert result.exit_code == code, result.stderr
    (row,) = value_of(result.stdout, "labelled")
    return row, result.stderr


def judgements() -> list:
    with open_store("s.db") as store:
        assert store.collection("t").leases() == []
        return list(store.collection("t").judgements())


def error(status: int, **fields: object) -> JSONResponse:
    return JSONResponse({"error": fields}, status)


FILTERED = {"choices": [{"finish_reason": "content_filter", "message": {}}]}
FAULTS_OF_A_QUESTION = [
    (error(400, code="content_filter", message="The response was filtered"), "filtered"),
    (error(500, message="the prompt is too long: 9 tokens"), "too long"),
    (error(200, code=403, message="Input was flagged for moderation"), "filtered"),
    (JSONResponse({"promptFeedback": {"blockReason": "SAFETY"}}), "filtered"),
    (JSONResponse(FILTERED), "filtered"),
    (error(400, message="Could not process image"), "refused"),
]


@pytest.mark.parametrize(("fault", "reason"), FAULTS_OF_A_QUESTION)
def test_an_item_that_a_server_refuses_is_named_not_asked_again_and_the_others_are_ranked(
    fault, reason
):
    judge = failing(fault)
    with serving(judge) as url:
        facts, told = label(url)
        again, _ = label(url, "--until", 0.001, "--number", 5)
    assert facts["skipped"] == {reason: 2} and facts["failed"] == 0 and facts["answered"] > 20
    assert told.count("item 't4' is left out: ") == 1 and told.count("is left out") == 3
    skips = [judgement for judgement in judgements() if judgement.word == "skip"]
    assert all(4 in skip.pair for skip in skips)
    assert [json.loads(skip.meta)["unanswered"] for skip in skips[:2]] == [reason] * 2
    # A refused question is asked once, whatever starts again.
    assert judge.n_bad == len({skip.pair for skip in skips}) == len(skips)
    assert again["answered"] > 0
    assert ranked() == BEST_FIRST


def ranked() -> list[str]:
    return [row["id"] for row in value_of(done("ranking", "t", "--json")) if row["id"] != "t4"]


@pytest.mark.parametrize(
    "fault",
    [
        error(200, message="Internal error"),
        error(200, code=502, message="Bad gateway"),
        JSONResponse({"choices": [{"error": {"code": 502, "message": "away"}, "message": {}}]}),
        JSONResponse({"choices": []}),
        error(408, message="timeout"),
        error(500, message="context deadline exceeded"),
    ],
)
def test_a_fault_of_the_server_is_waited_for_and_costs_no_question(fault):
    with serving(model(faults=[None, lambda _: fault, lambda _: fault])) as url:
        facts, _ = label(url, "--number", 3)
    assert (facts["answered"], facts["failed"], facts["skipped"]) == (3, 0, {})
    assert facts["calls"] == 5
    with serving(model(faults=[None, *[lambda _: fault] * 90])) as url:
        facts, told = label(url, "--number", 2, *judge_file(patience=0.05), code=2)
    assert facts["end"] == "fault" and "is beyond the patience" in told


def test_a_judge_that_is_never_readable_ends_with_the_reason_and_leaves_nothing():
    judge = model(logprobs=False, said=lambda letter: "I cannot say")
    with serving(judge) as url:
        facts, told = label(url, code=1)
    assert (facts["answered"], facts["failed"], facts["skipped"]) == (0, 9, {})
    assert facts["calls"] == len(judge.prompts) == 18 and facts["end"] == "unanswered"
    last = told.splitlines()[-1]
    assert "failed at 9 of the last 9 questions, most often unreadable: I cannot say" in last
    assert "max_tokens, structured, or another prompt" in last
    assert judgements() == []


def test_a_judge_that_turns_bad_ends_and_its_answers_are_kept():
    judge = model(logprobs=False)
    judge.said = lambda letter: letter if len(judge.prompts) <= 12 else "hm"
    with serving(judge) as url:
        facts, told = label(url, "--until", 0.001, code=1)
    assert (facts["answered"], facts["failed"]) == (12, 9) and "of the last 10 questions" in told
    assert [judgement.word for judgement in judgements()].count("skip") == 0
    assert len(judgements()) == 12


def test_a_skip_that_the_judge_gives_is_an_answer():
    result = labelled_by("answer = {'answer': 'skip'}", "--number", "15")
    (row,) = value_of(result.stdout, "labelled")
    assert result.exit_code == 0 and row["skipped"] == {"by the judge": 15}


def labelled_by(answer: str, *args: str, **settings: int):
    Path("judge.py").write_text(PROGRAM.replace("ANSWER", answer))
    command = f"{shlex.quote(sys.executable)} -S -E judge.py"
    judge = judge_file(command=command, **settings)
    return invoke("label", "t", "--as", "robot", "--json", *judge, *args)


PROGRAM = """
import json, sys

def answer_to(question):
    left, right = (int(question[side]["id"][1:]) for side in ("left", "right"))
    answer = {"answer": "left" if left > right else "right"}
    ANSWER
    return answer

for line in sys.stdin:
    asked = json.loads(line)
    many = isinstance(asked, list)
    print(json.dumps([*map(answer_to, asked)] if many else answer_to(asked)), flush=True)
"""


@pytest.mark.parametrize("bad", ["answer['answer'] = 'up'", "sys.exit('boom')"])
@pytest.mark.parametrize("settings", [{}, {"batch": 3}, {"workers": 2}])
def test_an_item_at_which_a_program_fails_is_named_and_the_others_are_ranked(bad, settings):
    result = labelled_by(f"if 4 in (left, right): {bad}", **settings)
    assert result.exit_code == 0, result.stderr
    (row,) = value_of(result.stdout, "labelled")
    assert row["failed"] == 0 and 2 <= row["skipped"]["error"] <= 4
    assert result.stderr.count("item 't4' is left out") == 1
    assert ranked() == BEST_FIRST


@pytest.mark.parametrize("set_size", [2, 4])
def test_an_item_at_which_a_function_raises_is_named_and_the_others_are_sorted(set_size, caplog):
    def judge(*texts):
        if "text number 4" in texts:
            raise KeyError("four")
        numbers = [int(text.split()[-1]) for text in texts]
        if len(texts) == 2:
            return "left" if numbers[0] > numbers[1] else "right"
        return numbers.index(max(numbers)), numbers.index(min(numbers))

    texts = [f"text number {k}" for k in range(N)]
    found = sortnet.sort(texts, judge=judge, set_size=set_size, store="s.db", progress=False)
    others = [text for text in found.items if text != texts[4]]
    assert others[:3] == texts[:-4:-1]
    assert "is left out: KeyError" in caplog.text


def test_a_function_that_always_raises_ends_with_its_exception():
    calls = []

    def judge(left, right):
        calls.append(left)
        raise KeyError("always")

    with pytest.raises(KeyError, match="always") as raised:
        sortnet.sort([f"text {k}" for k in range(N)], judge=judge, progress=False)
    assert len(calls) == 9 and "0 answers are kept" in raised.value.__notes__[0]


def test_an_item_in_two_failures_is_not_blamed_for_what_others_cause():
    record = sortnet.judges.unanswered.AnswerRecord()
    reason = sortnet.judges.faults.Reason.UNREADABLE
    unanswered = sortnet.judges.unanswered.Unanswered
    record.note_answer({"b", "c"})
    for pair, left_out in (
        ("ab", set()),
        ("ab", set()),
        ("ac", {"a"}),
        ("ad", set()),
        ("cd", set()),
    ):
        assert record.note_unanswered(unanswered(frozenset(pair), reason, "")) == left_out
    assert record.note_unanswered(unanswered(frozenset("de"), reason, "")) == {"d"}
