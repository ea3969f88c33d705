"""A provider's batch endpoint by files: questions written, answers read by their leases."""

from __future__ import annotations

import json
import math
import os
import signal
from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import pytest
from cli_helpers import done, fault, invoke, judge_file
from forked_processes import exit_code_of
from language_model_server import Model, serving
from result_helpers import notes_of, value_of

from sortnet.errors import SortNetError
from sortnet.preference import Judgement
from store import open_store
from store.asking.batches import BatchAnswers
from store.collections.leases import Lease

N = 10
KEY = "s3cret-of-a-server"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SORTNET_STORE", "s.db")
    monkeypatch.setenv("SORTNET_KEY", KEY)
    add("t")
    return tmp_path


def add(name: str, n_items: int = N) -> None:
    rows = ["id,text", *(f"t{k},text number {k}" for k in range(n_items))]
    Path("t.csv").write_text("\n".join(rows) + "\n")
    done("items", "add", name, "t.csv")


def write(*args: object, name: str = "t", file: str = "requests.jsonl") -> dict:
    written = ("label", name, "--model", "judge", "--write-batch", file, "--json", *args)
    return value_of(done(*written), "batch")


def read(file: str = "answers.jsonl", *args: object, name: str = "t") -> dict:
    return value_of(done("label", name, "--read-batch", file, "--json", *args), "batch_answers")


def requests(file: str = "requests.jsonl") -> list[dict]:
    return [json.loads(line) for line in Path(file).read_text().splitlines()]


def model(**facts) -> Model:
    return Model(lambda text: float(text.split()[-1]), **facts)


def answered(request: dict, by: Model | None = None, status: int = 200) -> dict:
    """What a provider returns for a request."""
    body = request["body"]
    prompt = body["messages"][0]["content"]
    content = (by or model()).answer(prompt, wants=bool(body.get("logprobs")))
    response = {"status_code": status, "request_id": "r", "body": content}
    return {"id": "b", "custom_id": request["custom_id"], "response": response, "error": None}


def failed(request: dict, status: int, message: str) -> dict:
    response = {"status_code": status, "body": {"error": {"message": message}}}
    return {"custom_id": request["custom_id"], "response": response, "error": None}


def expired(request: dict) -> dict:
    error = {"code": "batch_expired", "message": "it took more than a day"}
    return {"custom_id": request["custom_id"], "response": None, "error": error}


def give(lines: list[dict], file: str = "answers.jsonl") -> str:
    Path(file).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def judgements(name: str = "t") -> list:
    with open_store("s.db") as store:
        return list(store.collection(name).judgements())


def leases(name: str = "t") -> list[Lease]:
    with open_store("s.db") as store:
        return store.collection(name).leases()


def test_questions_go_out_and_answers_come_back_without_a_server():
    batch = write("--number", 12)
    assert (batch["questions"], batch["annotator"], batch["file"]) == (
        12,
        "judge",
        "requests.jsonl",
    )
    lines = requests()
    assert len({line["custom_id"] for line in lines}) == len(lines) == 12
    assert all(len(line["custom_id"]) <= 64 for line in lines)
    for line in lines:
        assert (line["method"], line["url"]) == ("POST", "/v1/chat/completions")
        assert line["body"]["model"] == "judge" and line["body"]["temperature"] == 0
        assert "text number" in line["body"]["messages"][0]["content"]
    assert KEY not in Path("requests.jsonl").read_text()
    assert all(lease.expires == math.inf and lease.batch == batch["name"] for lease in leases())
    give([answered(line) for line in reversed(lines)])
    facts = read()
    assert (facts["stored"], facts["failed"], facts["open"]) == (12, 0, {})
    assert leases() == []
    for judgement in judgements():
        assert judgement.annotator == "judge"
        expected = 1 / (1 + math.exp(judgement.right - judgement.left))
        assert judgement.p == pytest.approx(expected, abs=1e-5)
        meta = json.loads(judgement.meta)
        assert (meta["model"], meta["batch"], meta["calls"]) == ("judge", batch["name"], 1)
    row = value_of(done("annotators", "list", "t", "--json"))[0]
    assert row["model"] is True


def test_the_file_is_what_a_server_would_have_been_sent():
    asked = model()
    bodies = []
    real = asked.reply
    asked.reply = lambda body, headers: bodies.append(body) or real(body, headers)  # type: ignore
    options = judge_file(request={"temperature": 0.5, "seed": 3}, structured=True)
    write("--number", 1, *options)
    done("label", "t", "--cancel-batch", write("--number", 1, *options, file="b.jsonl")["name"])
    with serving(asked) as url:
        common = ("--server", url, "--number", 1, "--as", "other")
        done("label", "t", "--model", "judge", *common, *options)
    (line,) = requests()
    (body,) = bodies
    assert {**line["body"], "messages": None} == {**body, "messages": None}
    write("--number", 1, *judge_file(request={"logprobs": False}), file="c.jsonl")
    (line,) = requests("c.jsonl")
    assert {*line["body"]} == {"model", "messages", "temperature", "max_tokens"}


def test_the_questions_are_a_set_and_no_pair_is_in_two_batches():
    write("--number", 20)
    second = write("--number", 30, file="more.jsonl")
    assert second["questions"] == 45 - 20  # all pairs of ten items, but for those of the first
    pairs = [lease.question.pair for lease in leases()]
    assert len(pairs) == len(set(pairs)) == 45
    said = fault("label", "t", "--model", "judge", "--write-batch", "none.jsonl")
    assert "in batch" in said and not Path("none.jsonl").exists()
    result = invoke("label", "t", "--as", "ana", "--json")
    assert "in batch" in value_of(result.stdout)[0]["why"]


def test_answers_of_a_batch_have_the_costs_of_the_judge_that_wrote_it():
    batch = write("--number", 4, *judge_file(price_in=1000, price_out=2000))
    assert batch["estimate"]["cost"] > 0
    give([answered(line) for line in requests()])
    read()
    for judgement in judgements():
        meta = json.loads(judgement.meta)
        tokens_in, tokens_out = meta["tokens"]
        assert judgement.cost == pytest.approx((1000 * tokens_in + 2000 * tokens_out) / 1e6)
    report = value_of(done("report", "t", "--json"))
    assert report["calls"] == 4
    assert report["cost"] == pytest.approx(sum(judgement.cost for judgement in judgements()))


@pytest.mark.parametrize(
    ("options", "n_requests", "limit"),
    [
        (("--max-calls", 3), 3, "the limit of 3 calls"),
        (("--max-calls", 3, "--both-orders"), 2, "the limit of 3 calls"),
        (("--max-cost", 0.3), None, "the limit of the cost, 0.3,"),
    ],
)
def test_a_limit_ends_a_batch_before_its_estimate_exceeds_the_limit(options, n_requests, limit):
    options = (*options, *judge_file(price_in=1000, price_out=2000))
    batch = write("--number", 20, *options)
    estimate = batch["estimate"]
    assert batch["limit"] == limit and 0 < batch["questions"] < 20
    assert len(leases()) == batch["questions"]
    assert estimate["calls"] == len(requests()) == (n_requests or len(requests()))
    assert "--max-cost" not in options or estimate["cost"] <= 0.3
    # One question more does not fit.
    per_question = 1 + 1 / batch["questions"]
    sums = {"--max-calls": (estimate["calls"], 3), "--max-cost": (estimate["cost"], 0.3)}
    spent, most = sums[options[0]]
    assert spent * per_question > most
    notes = notes_of(done("label", "t", "--model", "judge", "--write-batch", "b.jsonl",
                          "--json", *options))  # fmt: skip
    assert f"{limit} ended the batch: fewer questions were written" in notes


def test_partial_late_and_repeated_answers_are_each_stored_once():
    batch = write("--number", 6)
    lines = requests()
    give([answered(line) for line in lines[:2]])
    facts = read()
    assert facts["stored"] == 2 and facts["open"] == {batch["name"]: 4}
    # Some time later, twice, and with what was read before.
    give([answered(line) for line in [*lines, lines[5]]])
    result = invoke("label", "t", "--read-batch", "answers.jsonl", "--json")
    facts = value_of(result.stdout)
    assert (facts["stored"], facts["repeated"]) == (4, 3)
    assert result.stderr.count("its question was answered before") == 3
    assert len(judgements()) == 6 and facts["open"] == {}
    assert read()["stored"] == 0
    assert len(judgements()) == 6


def test_a_failed_request_gives_its_pair_back():
    batch = write("--number", 4)
    first, second, third, fourth = requests()
    give([failed(first, 500, "overloaded"), expired(second), answered(third),
          failed(fourth, 400, "maximum context length is 99 tokens")])  # fmt: skip
    result = invoke("label", "t", "--read-batch", "answers.jsonl", "--json")
    facts = value_of(result.stdout)
    assert (facts["stored"], facts["failed"]) == (2, 2)
    assert "line 1: the request failed: overloaded" in result.stderr
    assert "line 2: the request failed: it took more than a day" in result.stderr
    assert sorted(j.word == "skip" for j in judgements()) == [False, True]
    assert leases() == []
    with open_store("s.db") as store:
        ids = [lease.question.pair for lease in leases()]
        assert not ids and [b.n_open for b in store.collection("t").batches()] == [0]
    # An answer to a request that is said to have failed comes too late.
    give([answered(first)])
    assert "none of its answers belongs" in fault_of("answers.jsonl")
    assert batch["name"]


def fault_of(file: str, name: str = "t") -> str:
    """The last line of a reading that must be refused."""
    result = invoke("label", name, "--read-batch", file)
    assert result.exit_code == 2 and "Traceback" not in result.stderr
    return result.stderr


def test_neither_letter_is_a_skip_and_a_body_that_is_none_a_failure():
    write("--number", 2)
    first, second = requests()
    bad = answered(second)
    bad["response"]["body"] = {"choices": []}
    give([answered(first, model(said=lambda letter: "I cannot say", logprobs=False)), bad])
    result = invoke("label", "t", "--read-batch", "answers.jsonl", "--json")
    facts = value_of(result.stdout)
    assert (facts["stored"], facts["failed"]) == (1, 1)
    assert [(j.word, j.comment) for j in judgements()] == [("skip", "I cannot say")]
    assert "not an answer of /v1/chat/completions" in result.stderr


def test_both_orders_are_two_requests_and_each_is_stored_once():
    batch = write("--number", 3, "--both-orders")
    lines = requests()
    assert batch["estimate"]["calls"] == len(lines) == 6
    give([answered(line) for line in reversed(lines)])
    assert read()["stored"] == 6
    assert read()["repeated"] == 6
    sides = [(j.left, j.right) for j in judgements()]
    assert len(sides) == 6 and all((right, left) in sides for left, right in sides)
    # A failure of one order leaves the other.
    write("--number", 1, "--both-orders", file="b.jsonl")
    first, second = requests("b.jsonl")
    give([failed(first, 500, "busy"), answered(second)])
    facts = read()
    assert (facts["stored"], facts["failed"]) == (1, 1) and leases() == []


def test_a_cancelled_batch_takes_no_answers_and_its_pairs_are_free():
    batch = write("--number", 5)
    lines = requests()
    give([answered(lines[0])])
    read()
    assert value_of(done("label", "t", "--cancel-batch", batch["name"], "--json")) == {
        "name": batch["name"], "questions": 4,
    }  # fmt: skip
    assert leases() == []
    give([answered(line) for line in lines])
    assert f"line 2: batch {batch['name']} was cancelled" in fault_of("answers.jsonl")
    assert len(judgements()) == 1
    said = fault("label", "t", "--cancel-batch", batch["name"])
    assert f"has no open batch {batch['name']!r}; open are none" in said
    other = write("--number", 2, file="b.jsonl")
    said = fault("label", "t", "--cancel-batch", "nobody")
    assert f"has no open batch 'nobody'; open are {other['name']}" in said


def test_a_batch_of_another_collection_or_store_is_named(monkeypatch):
    add("u")
    batch = write("--number", 2)
    give([answered(line) for line in requests()])
    said = fault_of("answers.jsonl", name="u")
    assert f"batch {batch['name']} is of collection t" in said
    assert said.count("is of collection t") == 1
    said = fault("label", "u", "--cancel-batch", batch["name"])
    assert f"collection 'u' has no open batch {batch['name']!r}" in said
    monkeypatch.setenv("SORTNET_STORE", "other.db")
    add("t")
    assert "is of another store, or was removed" in fault_of("answers.jsonl")


def test_a_question_that_was_taken_back_meanwhile_is_told():
    write("--number", 3)
    lines = requests()
    with open_store("s.db") as store:
        collection = store.collection("t")
        item = collection.leases()[0].question.left
        id = collection.items().ids[item]
    done("items", "retire", "t", id)
    give([answered(line) for line in lines])
    result = invoke("label", "t", "--read-batch", "answers.jsonl")
    assert result.exit_code == 0
    assert "was taken back meanwhile" in result.stderr
    assert all(item not in (j.left, j.right) for j in judgements())


ID = "0a1b2c3d-abcdefgh-1"  # the id of a request


def changed(line: dict, **changes) -> dict:
    return {**line, **changes}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "answers.jsonl: none of its answers belongs to an open question of t"),
        ("id,text\n1,a\n", "answers.jsonl, line 1: is no JSON: id,text"),
        ('{"custom_id": "a', "answers.jsonl, line 1: is no JSON"),
        ("[1]\n", "line 1: is no answer of a batch: it has no custom_id"),
        ('{"custom_id": 3}\n', "line 1: is no answer of a batch: it has no custom_id"),
        (f'{{"custom_id": "{ID}"}}\n', "has neither a response nor an error: give the file that"),
        (f'{{"custom_id": "{ID}", "response": {{}}}}\n', "has neither a response nor an error"),
        ('{"custom_id": "a", "response": null, "error": null}\n', "'a' is no request of SortNet"),
        ("x" * (2 << 20) + "\n", "line 1: is no JSON: xxx"),
    ],
)
def test_a_file_that_is_none_of_answers_is_refused_in_one_line(text, why):
    write("--number", 2)
    Path("answers.jsonl").write_text(text)
    assert why in fault_of("answers.jsonl")
    assert judgements() == [] and len(leases()) == 2


def test_the_requests_are_no_answers_and_no_file_is_no_traceback():
    write("--number", 2)
    assert "give the file that the provider returned" in fault_of("requests.jsonl")
    assert "no such file" in fault_of("none.jsonl")


def test_a_bad_line_among_good_ones_is_told_and_the_others_are_stored():
    write("--number", 4)
    first, second, third, fourth = requests()
    foreign = changed(answered(third), custom_id="request-17")
    forged = changed(answered(fourth), custom_id=f"{fourth['custom_id'][:9]}{'x' * 22}-1")
    give([answered(first), foreign, forged, answered(second)])
    whole = Path("answers.jsonl").read_text()
    Path("answers.jsonl").write_text(whole + "\nnot json\n" + json.dumps(answered(fourth))[:-40])
    result = invoke("label", "t", "--read-batch", "answers.jsonl", "--json")
    assert result.exit_code == 0
    facts = value_of(result.stdout)
    assert (facts["stored"], facts["refused"]) == (2, 4)
    for line in (
        "answers.jsonl, line 2: 'request-17' is no request of SortNet",
        "answers.jsonl, line 3: its question is not one of batch",
        "answers.jsonl, line 6: is no JSON: not json",
        "answers.jsonl, line 7: is no JSON: ",
    ):
        assert line in result.stderr


def test_answers_of_another_model_or_an_order_that_was_not_asked_are_refused():
    batch = write("--number", 4)
    first, second, third, fourth = (answered(line) for line in requests())
    first["response"]["body"]["model"] = "other"
    second["response"]["body"]["model"] = "judge-mini"
    third["response"]["body"]["model"] = "judge-2026-08-06"  # a version of the same model
    turned = {**answered(requests()[0]), "custom_id": f"{first['custom_id'][:-1]}2"}
    give([first, second, third, turned, fourth])
    result = invoke("label", "t", "--read-batch", "answers.jsonl", "--json")
    facts = value_of(result.stdout)
    assert (facts["stored"], facts["refused"], facts["failed"]) == (2, 3, 0)
    assert len(judgements()) == 2 == len(leases())
    for line in (
        f"line 1: an answer of the model 'other', and batch {batch['name']} asks 'judge'",
        "line 2: an answer of the model 'judge-mini'",
        f"line 4: batch {batch['name']} asks in one order of the items, not in both",
    ):
        assert line in result.stderr


def test_a_key_in_an_error_of_the_provider_is_not_shown():
    write("--number", 2)
    first, second = requests()
    give([failed(first, 401, "Incorrect API key provided: sk-abcdef0123456789"), answered(second)])
    result = invoke("label", "t", "--read-batch", "answers.jsonl")
    assert "Incorrect API key provided: ***" in result.stderr
    assert "abcdef" not in result.output + result.stderr


def test_a_file_that_exists_or_cannot_be_written_leases_nothing():
    Path("taken.jsonl").write_text("mine")
    common = ("label", "t", "--model", "judge", "--write-batch")
    assert "it exists: name another file" in fault(*common, "taken.jsonl")
    assert Path("taken.jsonl").read_text() == "mine"
    assert "no folder" in fault(*common, "none/requests.jsonl")
    if os.geteuid():
        Path("closed").mkdir(mode=0o500)
        assert "cannot write" in fault(*common, "closed/requests.jsonl")
    said = fault(*common, "a.jsonl", "--both-orders", "--number", 50_000)
    assert "a batch of 100,000 requests: 50,000 at most" in said
    assert leases() == []
    assert value_of(done("annotators", "list", "t", "--json")) == []
    with open_store("s.db") as store:
        assert store.collection("t").batches() == []


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--write-batch", "a.jsonl"), "--write-batch needs one language model"),
        (("--write-batch", "a.jsonl", "--judge", "cat"), "--write-batch needs one language model"),
        (("--write-batch", "a", "--read-batch", "b"), "cannot be combined"),
        (("--read-batch", "b", "--cancel-batch", "c"), "cannot be combined"),
        (("--read-batch", "b", "--model", "m"), "--read-batch needs no --model"),
        (("--read-batch", "b", "--as", "ana"), "--read-batch needs no --as"),
        (("--cancel-batch", "b", "--number", "5"), "--cancel-batch needs no --number"),
        (("--write-batch", "a", "--model", "m", "--place", "t1"), "--place is for people"),
        (
            ("--write-batch", "a", "--model", "m", "--server", "http://x"),
            "--server is for a server",
        ),
        (("--cancel-batch", "b", "--max-calls", "3"), "--cancel-batch needs no --max-calls"),
    ],
)
def test_options_that_do_not_go_together_are_named(options, why):
    assert why in fault("label", "t", *options)


def test_with_criteria_one_is_written_and_all_are_read():
    done("ask", "t", "--criterion", "length")
    done("ask", "t", "--criterion", "taste")
    common = ("--model", "judge", "--write-batch")
    assert "has criteria: give one of t:length, t:taste" in fault("label", "t", *common, "a.jsonl")
    write("--number", 3, name="t:length", file="a.jsonl")
    write("--number", 2, name="t:taste", file="b.jsonl")
    give([answered(line) for line in requests("a.jsonl")], "a.out")
    give([answered(line) for line in requests("b.jsonl")], "b.out")
    facts = value_of(done("label", "t", "--read-batch", "a.out", "--read-batch", "b.out", "--json"))
    assert facts["stored"] == 5
    assert len(judgements("t:length")) == 3 and len(judgements("t:taste")) == 2


def test_a_quota_and_a_pause_end_it():
    with open_store("s.db") as store:
        store.collection("t").annotator("judge")
    done("ask", "t", "--quota", "judge", 3)
    assert write("--number", 5)["questions"] == 3
    common = ("label", "t", "--model", "judge", "--write-batch", "b.jsonl")
    assert "sortnet: t: " in fault(*common)
    give([answered(line) for line in requests()])
    assert read()["stored"] == 3
    assert "judge has given all 3 answers asked for" in fault(*common)
    done("annotators", "pause", "t", "judge")
    assert "paused" in fault(*common)
    assert not Path("b.jsonl").exists()


def test_nothing_is_written_once_the_goal_is_reached():
    add("many", 25)
    rng = np.random.default_rng(0)
    pairs = [sorted(rng.choice(25, 2, replace=False).tolist()) for _ in range(150)]
    known = [Judgement.of("judge", (a, b), "right", strategy="random") for a, b in pairs]
    with open_store("s.db") as store:
        store.collection("many").append(known)
    common = ("label", "many", "--model", "judge", "--until", 0.2)
    said = fault(*common, "--write-batch", "b.jsonl")
    assert "(--until sets another)" in said
    assert not Path("b.jsonl").exists() and leases("many") == []


READ = """
import sys
from store import open_store
from store.asking import batches
batches._TOGETHER = 2
real = batches.BatchAnswers._store_lines
n_taken = 0
def take(self, name, lines):
    global n_taken
    n_taken += 1
    if n_taken == 4:
        import os, signal
        os.kill(os.getpid(), signal.SIGKILL)
    real(self, name, lines)
batches.BatchAnswers._store_lines = take
with open_store("s.db") as store:
    answers = batches.BatchAnswers(store.collection("t"))
    answers.read("answers.jsonl")
"""


def test_a_killed_reading_goes_on_where_it_was():
    write("--number", 12)
    give([answered(line) for line in requests()])
    assert exit_code_of(READ) == -signal.SIGKILL
    assert len(judgements()) == 6
    facts = read()
    assert (facts["stored"], facts["repeated"]) == (6, 6)
    assert len(judgements()) == 12


def test_damaged_answers_are_lines_or_one_error_and_never_stored_twice():
    write("--number", 20)
    give([answered(line) for line in requests()])
    whole = Path("answers.jsonl").read_bytes()
    rng = np.random.default_rng(0)
    with open_store("s.db") as store:
        collection = store.collection("t")
        for _ in range(60):
            damaged = bytearray(whole[: rng.integers(1, len(whole))])
            for place in rng.integers(len(damaged), size=rng.integers(1, 40)):
                damaged[place] = rng.choice([*b'{}[]":,0\n\x00\xff', rng.integers(256)])
            Path("damaged.jsonl").write_bytes(damaged)
            notes: list[str] = []
            answers = BatchAnswers(collection, notify=notes.append)
            with closing(answers), suppress(SortNetError):
                answers.read("damaged.jsonl")
            assert all("\n" not in text and text.isprintable() for text in notes)
        answers = BatchAnswers(collection)
        answers.read("answers.jsonl")
        answers.close()
    pairs = [frozenset((j.left, j.right)) for j in judgements() if j.strategy != "repeat"]
    assert len(pairs) == len(set(pairs))
