"""A provider's batch endpoint by files: questions written, answers read by their leases."""

from __future__ import annotations

import json
import math
import signal
from pathlib import Path

import numpy as np
import pytest
from asked_texts import add_texts, begin, judgements, model
from cli_helpers import done, fault, invoke, judge_file
from forked_processes import exit_code_of
from language_model_server import Model, serving
from result_helpers import value_of

from sortnet.preference import Judgement
from store import open_store
from store.asking.batches import URL
from store.collections.leases import Lease

WRITE = ("label", "t", "--model", "judge", "--write-batch")


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    begin(tmp_path, monkeypatch, 10)


def write(*args: object, name: str = "t", file: str = "requests.jsonl") -> dict:
    written = ("label", name, "--model", "judge", "--write-batch", file, "--json", *args)
    return value_of(done(*written), "batch")


def read(file: str = "answers.jsonl", name: str = "t") -> tuple[dict, str]:
    """The result of reading a file, and what was told of its lines."""
    result = invoke("label", name, "--read-batch", file, "--json")
    assert result.exit_code == 0, result.stderr
    return value_of(result.stdout, "batch_answers"), result.stderr


def fault_of(file: str, name: str = "t") -> str:
    """What is told of a file of which nothing can be stored."""
    result = invoke("label", name, "--read-batch", file)
    assert result.exit_code == 2 and "Traceback" not in result.stderr
    return result.stderr


def requests(file: str = "requests.jsonl") -> list[dict]:
    return [json.loads(line) for line in Path(file).read_text().splitlines()]


def answered(request: dict, by: Model | None = None, **fields: object) -> dict:
    """What a provider returns for a request; `fields` are further ones of the body."""
    body = request["body"]
    prompt = body["messages"][0]["content"]
    content = (by or model()).answer(prompt, wants=bool(body.get("logprobs")))
    response = {"status_code": 200, "request_id": "r", "body": content | fields}
    return {"id": "b", "custom_id": request["custom_id"], "response": response, "error": None}


def failed(request: dict, status: int, message: str) -> dict:
    response = {"status_code": status, "body": {"error": {"message": message}}}
    return {"custom_id": request["custom_id"], "response": response, "error": None}


def give(lines: list[dict], file: str = "answers.jsonl") -> str:
    Path(file).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def leases(name: str = "t") -> list[Lease]:
    with open_store("s.db") as store:
        return store.collection(name).leases()


def test_questions_go_out_and_answers_come_back_in_any_order_partly_and_again():
    batch = write("--number", 12, *judge_file(price_in=1000, price_out=2000))
    assert (batch["questions"], batch["annotator"]) == (12, "judge")
    lines = requests()
    assert len({line["custom_id"] for line in lines}) == 12
    assert all((line["method"], line["url"]) == ("POST", URL) for line in lines)
    assert all(lease.expires == math.inf and lease.batch == batch["name"] for lease in leases())
    give([answered(line) for line in lines[:5]])
    facts, _ = read()
    assert (facts["stored"], facts["open"]) == (5, {batch["name"]: 7})
    give([answered(line) for line in [*reversed(lines), lines[5]]])
    facts, told = read()
    assert (facts["stored"], facts["repeated"], facts["open"]) == (7, 6, {})
    assert told.count("its question was answered before") == 6
    first, *others = judgements()
    expected = 1 / (1 + math.exp(first.right - first.left))
    assert first.p == pytest.approx(expected, abs=1e-5) and len(others) == 11
    meta = json.loads(first.meta)
    assert (meta["model"], meta["batch"], meta["calls"]) == ("judge", batch["name"], 1)
    assert first.cost == pytest.approx(np.dot([1e-3, 2e-3], meta["tokens"]))


def test_the_file_is_what_a_server_would_have_been_sent():
    asked, bodies = model(), []
    real = asked.reply
    asked.reply = lambda body, headers: bodies.append(body) or real(body, headers)  # type: ignore
    options = judge_file(request={"temperature": 0.5, "seed": 3}, structured=True)
    write("--number", 1, *options)
    with serving(asked) as url:
        done("label", "t", "--server", url, "--number", 1, "--as", "other", *options)
    ((line,), (body,)) = requests(), bodies
    assert {**line["body"], "messages": None} == {**body, "messages": None}
    write("--number", 1, *judge_file(request={"logprobs": False}), file="c.jsonl")
    (line,) = requests("c.jsonl")
    assert {*line["body"]} == {"model", "messages", "temperature", "max_tokens"}


def test_no_pair_is_in_two_batches_and_both_orders_are_two_requests():
    write("--number", 20)
    batch = write("--number", 30, "--both-orders", file="more.jsonl")
    assert batch["questions"] == 45 - 20  # all pairs of ten items, but for those of the first
    assert len({lease.question.pair for lease in leases()}) == 45
    assert "in batch" in fault(*WRITE, "none.jsonl") and not Path("none.jsonl").exists()
    assert "in batch" in value_of(invoke("label", "t", "--as", "ana", "--json").stdout)[0]["why"]
    lines = requests("more.jsonl")
    assert batch["estimate"]["calls"] == len(lines) == 50
    give([failed(lines[0], 500, "busy"), *map(answered, lines[1:])])
    facts, _ = read()
    assert (facts["stored"], facts["failed"]) == (49, 1)  # one order of a pair leaves the other
    done("label", "t", "--cancel-batch", leases()[0].batch)
    sides = [(j.left, j.right) for j in judgements()]
    assert sum((right, left) in sides for left, right in sides) == 48


def test_questions_about_sets_are_answered_as_they_were_asked():
    done("ask", "t", "--set-size", 4)
    write("--number", 6)
    done("ask", "t", "--no-worst")  # what was asked before stays as it was
    give([answered(line) for line in requests()])
    assert read()[0]["stored"] == 6
    sets = [one for one in judgements() if len(one.items) > 2]
    assert sets and all(one.best == max(one.items) for one in sets)
    assert all(one.worst == min(one.items) for one in sets)


def test_what_cannot_be_written_leases_nothing():
    Path("taken.jsonl").write_text("mine")
    for options, why in {
        "taken.jsonl": "it exists: name another file",
        "none/requests.jsonl": "no folder",
        "a.jsonl --both-orders --number 3 --max-calls 5": "a batch of about 6 calls",
        "a.jsonl --number 20 --max-cost 0.3": "exceeds max_calls or max_cost: ask fewer",
    }.items():
        typed = (*WRITE, *options.split(), *judge_file(price_in=1000, price_out=2000))
        assert why in fault(*typed)
        assert not Path("a.jsonl").exists()
    with open_store("s.db") as store:
        collection = store.collection("t")
        assert collection.leases() == collection.batches() == collection.annotators() == []
    assert Path("taken.jsonl").read_text() == "mine"


def test_a_quota_a_pause_and_the_goal_end_it():
    with open_store("s.db") as store:
        store.collection("t").annotator("judge")
    done("ask", "t", "--quota", "judge", 3)
    assert write("--number", 5)["questions"] == 3
    done("annotators", "pause", "t", "judge")
    assert "paused" in fault(*WRITE, "b.jsonl")
    add_texts("many", 25)
    rng = np.random.default_rng(0)
    pairs = [sorted(rng.choice(25, 2, replace=False).tolist()) for _ in range(150)]
    known = [Judgement.of("judge", (a, b), "right", strategy="random") for a, b in pairs]
    with open_store("s.db") as store:
        store.collection("many").append(known)
    common = ("label", "many", "--model", "judge", "--until", 0.2)
    assert "(--until sets another)" in fault(*common, "--write-batch", "b.jsonl")
    assert not Path("b.jsonl").exists() and leases("many") == []


def said(text: str, **fields: object):
    """A line whose model has said a text."""

    def line(request: dict) -> dict:
        answer = answered(request, model(said=lambda letter: text, logprobs=False))
        answer["response"]["body"]["choices"][0] |= fields
        return answer

    return line


# (a provider's line about a request, what comes of it, what is told)
LINES = [
    (answered, "stored", ""),
    (lambda r: answered(r, model="judge-2026-08-06"), "stored", ""),  # of the same model
    (said("I cannot say"), "skipped", ""),
    (said("<think>So A", finish_reason="length"), "skipped", ""),
    (lambda r: failed(r, 400, "maximum context length is 99 tokens"), "skipped", ""),
    (lambda r: failed(r, 500, "overloaded"), "failed", "the request failed: overloaded"),
    (
        lambda r: {**failed(r, 0, ""), "response": None, "error": {"message": "a day is over"}},
        "failed",
        "the request failed: a day is over",
    ),
    (lambda r: failed(r, 401, "Incorrect key: sk-abcdef0123456789"), "failed", "key: ***"),
    (lambda r: answered(r, choices=[]), "failed", "not an answer of /v1/chat/completions"),
    (lambda r: {**answered(r), "custom_id": "x-17"}, "refused", "no custom_id of a request"),
    (
        lambda r: {**answered(r), "custom_id": f"{r['custom_id'][:9]}{'x' * 22}-1"},
        "refused",
        "its question is not one of batch",
    ),
    (lambda r: "a text", "refused", "has no custom_id of a request of SortNet"),
]


def test_each_line_is_stored_a_skip_a_failure_or_refused_and_leaves_the_others():
    write("--number", len(LINES))
    give([made(request) for (made, *_), request in zip(LINES, requests(), strict=True)])
    Path("answers.jsonl").write_text(Path("answers.jsonl").read_text() + "\n" + '{"custom_id": "a')
    facts, told = read()
    counts = {kind: sum(outcome == kind for _, outcome, _ in LINES) for kind in facts}
    assert facts["stored"] == counts["stored"] + counts["skipped"]
    assert facts["skipped"] == {"unreadable": 2, "too long": 1}
    assert (facts["failed"], facts["refused"]) == (counts["failed"], counts["refused"] + 1)
    assert len(leases()) == counts["refused"] and "abcdef" not in told
    for number, (_, _, words) in enumerate(LINES, 1):
        assert (f"answers.jsonl, line {number}: " in told) == bool(words)
        assert words in told
    comments = [one.comment for one in judgements_stored() if one.word == "skip"]
    assert comments[0] == "I cannot say"
    assert comments[1].startswith("the token limit was reached inside the thoughts")


def judgements_stored() -> list[Judgement]:
    with open_store("s.db") as store:
        return list(store.collection("t").judgements())


def test_many_lines_that_cannot_be_used_are_cut_short():
    write("--number", 30)
    give([failed(line, 500, "busy") for line in requests()])
    _, told = read()
    assert told.count("the request failed") == 20 and "and 10 more lines of this kind" in told
    give([answered(line) for line in requests()])  # of requests that are said to have failed
    assert "none of its answers belongs" in fault_of("answers.jsonl")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "none of its answers belongs to an open question of t"),
        ("id,text\n1,a\n", "line 1: is no JSON: id,text"),
        ('{"custom_id": 3}\n', "line 1: has no custom_id of a request of SortNet"),
        ('{"custom_id": "0a1b2c3d-abcdefgh-1"}\n', "has neither a response nor an error"),
        ("x" * (2 << 20) + "\n", "line 1: is no JSON: xxx"),
        (None, "give the file that the provider returned"),
    ],
)
def test_a_file_that_is_none_of_answers_is_refused_in_one_line(text, why):
    write("--number", 2)
    if text is None:
        text = Path("requests.jsonl").read_text()
    Path("answers.jsonl").write_text(text)
    assert why in fault_of("answers.jsonl") and len(leases()) == 2
    assert "no such file" in fault_of("none.jsonl")


def test_a_cancelled_batch_takes_no_answers_and_its_pairs_are_free():
    batch = write("--number", 5)
    lines = requests()
    give([answered(lines[0])])
    read()
    cancel = ("label", "t", "--cancel-batch", batch["name"])
    assert value_of(done(*cancel, "--json")) == {"name": batch["name"], "questions": 4}
    assert leases() == []
    give([answered(line) for line in lines])
    assert "line 2: its question is not one of batch" in read()[1]
    assert len(judgements()) == 1
    assert f"has no open batch {batch['name']!r}; open are none" in fault(*cancel)
    other = write("--number", 2, file="b.jsonl")
    assert f"'nobody'; open are {other['name']}" in fault(*cancel[:-1], "nobody")


def test_a_batch_of_another_collection_or_store_is_named(monkeypatch):
    add_texts("u", 3)
    batch = write("--number", 2)
    give([answered(line) for line in requests()])
    assert f"u has no batch {batch['name']}" in fault_of("answers.jsonl", "u")
    assert "has no open batch" in fault("label", "u", "--cancel-batch", batch["name"])
    monkeypatch.setenv("SORTNET_STORE", "other.db")
    add_texts("t", 3)
    assert f"t has no batch {batch['name']}" in fault_of("answers.jsonl")


def test_a_question_that_was_taken_back_meanwhile_is_told():
    write("--number", 3)
    with open_store("s.db") as store:
        collection = store.collection("t")
        item = collection.leases()[0].question.left
        done("items", "retire", "t", collection.items().ids[item])
    give([answered(line) for line in requests()])
    assert "was taken back meanwhile" in read()[1]
    assert all(item not in (j.left, j.right) for j in judgements())


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("--write-batch a.jsonl", "--write-batch needs one language model"),
        ("--write-batch a.jsonl --judge cat", "--write-batch needs one language model"),
        ("--write-batch f --model a --model b", "needs one language model"),
        ("--write-batch a --read-batch b", "--write-batch takes no --read-batch"),
        ("--read-batch b --model m", "--read-batch takes no --model"),
        ("--cancel-batch b --number 5", "--cancel-batch takes no --number"),
        ("--write-batch a --model m --place t1", "--place is for people"),
        ("--write-batch a --model m --server http://x", "--write-batch takes no --server"),
    ],
)
def test_options_that_do_not_go_together_are_named(options, why):
    assert why in fault("label", "t", *options.split())


def test_with_criteria_one_is_written_and_read():
    done("ask", "t", "--criterion", "length")
    done("ask", "t", "--criterion", "taste")
    assert "has criteria: give one of t:length, t:taste" in fault(*WRITE, "a.jsonl")
    write("--number", 3, name="t:length")
    give([answered(line) for line in requests()])
    assert "has criteria: give one of" in fault_of("answers.jsonl")
    assert read(name="t:length")[0]["stored"] == 3
    assert len(judgements("t:length")) == 3 and not judgements("t:taste")


READ = """
import os, signal
from store import open_store
from store.asking import batches
from store.service.labelling import LabellingService
batches._TOGETHER = 2
real = batches.BatchAnswers._store_line
n_taken = 0
def take(self, known, line):
    global n_taken
    n_taken += 1
    if n_taken == 8:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(self, known, line)
batches.BatchAnswers._store_line = take
with open_store("s.db") as store:
    answers = batches.BatchAnswers(LabellingService(store.collection("t")))
    answers.read("answers.jsonl")
"""


def test_a_killed_reading_goes_on_where_it_was():
    write("--number", 12)
    give([answered(line) for line in requests()])
    assert exit_code_of(READ) == -signal.SIGKILL
    n_stored = len(judgements_stored())
    assert n_stored in (5, 6, 7)  # whole transactions of two lines
    facts, _ = read()
    assert (facts["stored"], facts["repeated"]) == (12 - n_stored, n_stored)
    assert len(judgements()) == 12
