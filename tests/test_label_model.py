"""Language models as judges: what is sent, read, kept and spent, and `sortnet label`."""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from asked_texts import begin, by_model, judgements, label, model, number_in, program
from cli_helpers import done, fault, invoke, judge_file
from forked_processes import ForkedScript
from language_model_server import Answers, Model, pair_made, serving, worker_of
from result_helpers import value_of
from starlette.responses import JSONResponse, RedirectResponse, Response

import sortnet
from sortnet.errors import SortNetError
from sortnet.judges.model_server import HttpAnswer
from sortnet.judges.prompts import Prompt
from sortnet.judges.verdicts import Fault, Refused, Verdict
from store import open_store

KEY = "s3cret-of-a-server"
N = 8


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    begin(tmp_path, monkeypatch, N)


def keyed(monkeypatch: pytest.MonkeyPatch, **facts) -> Model:
    """A model whose server asks for the key of the environment."""
    monkeypatch.setenv("SORTNET_KEY", KEY)
    return model(key=KEY, **facts)


def refused(url: str, *args: object, name: str = "judge") -> str:
    """The last line of a labelling that must end with a fault."""
    result = invoke("label", "t", "--model", name, "--server", url, *args)
    assert result.exit_code == 2 and KEY not in result.output + result.stderr, result.output
    return result.stderr.strip().splitlines()[-1]


# What is sent, and what is read.


class Taking:
    """Connections to a server that refuses some parameters, and says these texts in turn."""

    def __init__(self, *texts: str, refuses: tuple[str, ...] = (), status: int = 400) -> None:
        self.texts, self.refuses, self.status = [*texts], refuses, status
        self.bodies: list[dict] = []

    def post(self, body: dict) -> HttpAnswer:
        self.bodies.append(body)
        for name in self.refuses:
            if name in body:
                error = {"message": f"Unsupported parameter: '{name}' is not supported"}
                return HttpAnswer(self.status, {}, json.dumps({"error": error}).encode())
        answer = {"choices": [{"message": {"content": self.texts.pop(0)}}]}
        return HttpAnswer(200, {}, json.dumps(answer).encode())


def ask(client: object, n_items: int = 2, **of_server: object) -> Verdict:
    """Ask a server one question, without a store."""
    question = pair_made()
    if n_items > 2:
        question |= {"items": [{"id": str(k)} for k in range(n_items)], "worst": True}
    worker = worker_of(client)
    for name, value in of_server.items():
        setattr(worker.server, name, value)
    (verdict,) = worker.ask([question])
    return verdict


@pytest.mark.parametrize("status", [400, 422])
def test_a_parameter_that_a_server_refuses_is_left_out_unless_it_is_the_users(status, caplog):
    refuses = ("temperature", "max_tokens", "top_logprobs", "response_format")
    client = Taking("B", refuses=refuses, status=status)
    verdict = ask(client, structured=True)
    assert verdict.answer == "right" and "structured" not in json.loads(verdict.meta)
    # Without the schema, temperature and max_tokens; ten and five log-probabilities.
    assert len(client.bodies) == 6 and client.bodies[-1]["max_completion_tokens"] == 256
    assert caplog.text.count("takes no JSON schema: a letter is asked for") == 1
    with pytest.raises(Refused, match="does not take temperature of the request"):
        ask(Taking("B", refuses=("temperature",)), request={"temperature": 0.5})
    words = "'max_tokens' is too large: 256. This model's maximum context length is 99 tokens"
    answer = HttpAnswer(status, {}, json.dumps({"error": {"message": words}}).encode())
    assert ask(Answers([answer])).why.value == "too long"


# (items in question, by JSON schema, what is said, what it is asked again with)
AGAIN = [
    (2, False, "I cannot say", "Answer with nothing but A, B or C."),
    (2, True, '{"winner": 1}', "nothing but JSON such as"),
    (4, False, "Best: A\nWorst: A", 'but "Best: A" and "Worst: D"'),
    (4, True, "Best: E", '{"best": "A", "worst": "D"}'),
]


@pytest.mark.parametrize(("n_items", "structured", "said", "again"), AGAIN)
def test_an_answer_that_cannot_be_read_is_asked_for_once_more_and_then_a_skip(
    n_items, structured, said, again
):
    client = Taking(said, said)
    verdict = ask(client, n_items, structured=structured)
    assert (verdict.answer, verdict.comment) == ("skip", said)
    meta = json.loads(verdict.meta)
    assert meta["calls"] == 2 and meta["unanswered"] == "unreadable"
    assert meta["tokens"][0] > 0  # the server counts none
    assert again in client.bodies[1]["messages"][-1]["content"]
    schema = client.bodies[0].get("response_format", {}).get("json_schema", {}).get("schema")
    assert (schema is not None) == structured
    if structured:
        names = {2: ["answer"], 4: ["best", "worst"]}[n_items]
        assert schema["required"] == names
        assert schema["properties"][names[-1]]["enum"] == [*"ABCD"[: max(n_items, 3)]]
    assert ask(Taking(said, "A" if n_items == 2 else "Best: A\nWorst: B")).answer != "skip"


@pytest.mark.parametrize("workers", [1, 4])
def test_a_model_ranks_texts_and_its_probabilities_are_kept(workers, monkeypatch):
    with serving(keyed(monkeypatch)) as url:
        facts = by_model(url, "--workers", workers, "--until", "0.02")
    assert facts["calls"] == facts["answered"] == len(judgements()) > 10
    for j in judgements():
        assert j.p == pytest.approx(1 / (1 + np.exp(j.right - j.left)), abs=1e-5)
        assert j.word == ("left" if j.p > 0.5 else "right") and j.annotator == "judge"
    ids = [row["id"] for row in value_of(done("ranking", "t", "--json"))]
    assert ids == [f"t{k}" for k in reversed(range(N))]


def test_both_orders_are_asked_and_kept():
    with serving(model(side=0.4)) as url:
        assert by_model(url, "--both-orders", "--number", 6)["calls"] == 12
    sides = {(judgement.left, judgement.right) for judgement in judgements()}
    assert len(sides) == 12 and sides == {(right, left) for left, right in sides}


@pytest.mark.parametrize("workers", [1, 4])
def test_a_budget_or_a_fault_in_the_middle_of_a_pair_loses_nothing(workers):
    server = model(faults=[None] * 4 + [lambda _: Response(b"{")])
    with serving(server) as url:
        facts = by_model(url, "--both-orders", "--max-calls", 3, "--workers", workers)
        assert (facts["calls"], facts["failed"]) == (3, 0) and "calls is reached" in facts["why"]
        assert len(judgements()) == len(server.prompts) == 3
        facts = by_model(url, "--both-orders", "--number", 1)
        assert (facts["answered"], facts["failed"], len(judgements())) == (1, 0, 4)


def test_parameters_are_sent_with_every_request_and_kept_with_every_answer():
    bodies = []
    server = model(said=lambda letter: json.dumps({"answer": letter}))
    reply = server.reply
    server.reply = lambda body, headers: bodies.append(body) or reply(body, headers)  # type: ignore
    request = {"temperature": 0.7, "seed": 3, "max_completion_tokens": 9, "extra": {"a": [1, "b"]}}
    with serving(server) as url:
        by_model(url, "--number", 3, *judge_file(request=request, structured=True))
    assert len(bodies) == 3 and not any("max_tokens" in body for body in bodies)
    assert all({name: body[name] for name in request} == request for body in bodies)
    for judgement in judgements():
        meta = json.loads(judgement.meta)
        assert meta["request"] == request and meta["structured"] is True
        assert judgement.word == ("left" if judgement.left > judgement.right else "right")


def test_what_an_answer_took_is_kept_with_it_and_its_words_are_printed_safely():
    texts = iter(["I cannot say", "B", "A. It has the larger \x1b number"])
    with serving(model(logprobs=False, said=lambda letter: next(texts))) as url:
        by_model(url, "--number", 2, *judge_file(price_in=1))
    one, other = judgements()
    meta = json.loads(one.meta)
    assert (one.word, one.p, meta["model"], meta["calls"]) == ("right", None, "judge", 2)
    assert one.cost == pytest.approx(meta["tokens"][0] / 1e6)
    printed = done("judgements", "list", "t")
    assert "larger" in other.comment and "It has the larger" in printed and "\x1b" not in printed


def test_prices_in_a_file_give_costs_and_a_limit():
    prices = judge_file(price_in=1000, price_out=2000)
    with serving(model()) as url:
        assert by_model(url, "--number", 1)["cost"] is None
        facts = by_model(url, "--number", 2, *prices)
        cost = (1000 * facts["tokens_in"] + 2000 * facts["tokens_out"]) / 1e6
        assert facts["cost"] == facts["cost_in_all"] == pytest.approx(cost)
        facts = by_model(url, "--max-cost", 0.75 * cost, *prices)
        assert "the limit of the cost, " in facts["why"] and facts["calls"] == 2
        said = done("label", "t", "--server", url, "--number", 1, *prices)
        assert " spent\n" in said and "all answers cost " in said
    assert value_of(done("report", "t", "--json"))["cost"] > cost
    limit = ("label", "t", "--model", "judge", "--server", url, "--max-cost", 1)
    assert "--max-cost needs prices: give --judge FILE.toml" in fault(*limit)


# Faults.


def test_a_busy_server_is_waited_for_and_nothing_is_asked_twice():
    server = model(faults=[429, 500, 429, 503])
    with serving(server) as url:
        facts = by_model(url, "--number", 4)
    assert (facts["answered"], facts["failed"], facts["calls"]) == (4, 0, 8)
    with serving(model(faults=[500] * 15)) as url:
        assert "still 500 after" in refused(url, *judge_file(patience=0.1))


def test_a_server_that_goes_away_after_an_answer_is_waited_for():
    with serving(model()) as url:
        connection = sortnet.LanguageModel("judge", url, patience=0.2).connect()
        text = "<A>\ntext 2\n</A>\n<B>\ntext 1\n</B>"
        question = pair_made() | {"messages": [{"role": "user", "content": text}]}
        with connection.open_connections():
            (worker,) = connection.make_workers()
            assert [one.answer for one in worker.ask([question])] == ["left"]
            worker.server.client._url = "http://127.0.0.1:9/v1"
            with pytest.raises(Fault, match=r"still .*is the server running.. after 0 sec"):
                list(worker.ask([question]))


def test_three_faults_in_a_row_end_it_with_one_line():
    for body, words in ((b"{", "not an answer of"), (b"x" * (3 << 20), "more than 1,048,576")):
        with serving(model(faults=[lambda _, body=body: Response(body)] * 3)) as url:
            said = refused(url)
            assert "failed 3 times in a row" in said and words in said
    with serving(model(faults=[lambda _: Response(b"{")])) as url:
        facts = by_model(url, "--number", 2)
    assert (facts["answered"], facts["failed"]) == (2, 1)


def test_what_every_call_would_meet_ends_it_at_once(monkeypatch):
    server = keyed(monkeypatch, faults=[lambda _: RedirectResponse("http://elsewhere.example/v1")])
    done("ask", "t", "--criterion", "short")
    done("ask", "t", "--criterion", "kind")
    with serving(server) as url:
        assert "redirects to http://elsewhere.example/v1" in refused(url)
        assert len(server.prompts) == 1  # nor are the other criteria asked about
        assert "no such model or address (404): the model x does not" in refused(url, name="x")
        monkeypatch.setenv("SORTNET_KEY", "another")
        said = refused(url)
        assert "takes no such key (401): wrong key ***" in said and "another" not in said
        monkeypatch.delenv("SORTNET_KEY")
        assert "the server asks for a key (401), which SORTNET_KEY may have" in refused(url)
    result = invoke("label", "t", "--model", "m", "--server", "http://127.0.0.1:9", "--workers", 8)
    lines = result.stderr.splitlines()  # of eight workers, not 24 lines
    assert "Connection refused" in lines[0] and len(lines) == 4
    assert "failed 24 times in a row" in lines[3]


def test_a_judge_that_is_never_readable_ends_with_the_reason_and_leaves_nothing():
    server = model(logprobs=False, said=lambda letter: "I cannot say")
    with serving(server) as url:
        facts, told = label("--model", "judge", "--server", url, code=1)
    assert (facts["answered"], facts["failed"], facts["skipped"]) == (0, 9, {})
    assert facts["calls"] == len(server.prompts) == 18 and facts["end"] == "unanswered"
    last = told.splitlines()[-1]
    assert "failed at 9 of the last 9 questions, most often unreadable: I cannot say" in last
    assert "max_tokens, structured, or another prompt" in last
    assert judgements() == []


def test_an_interrupt_keeps_the_answers_under_way():
    server = model(seconds=1.0)
    with serving(server) as url:
        typed = ["label", "t", "--model", "judge", "--server", url, "--workers", 4]
        run = ForkedScript("from cli.main import main; main()", *typed)
        while len(server.prompts) < 4 and run.poll() is None:
            time.sleep(0.005)
        run.send_signal(signal.SIGINT)
        said, _ = run.communicate()
    assert "4 answered" in said
    assert len(judgements()) == len(server.prompts) == 4


def test_a_key_is_in_no_file_and_no_words_whatever_the_server_says(monkeypatch):
    server = keyed(monkeypatch, logprobs=False, said=lambda letter: f"Answer: {letter}, by {KEY}")
    with serving(server) as url:
        printed = invoke("label", "t", "--number", 4, *judge_file(server=url, request={"seed": 1}))
    assert printed.exit_code == 0 and KEY not in printed.output + printed.stderr
    assert all("***" in judgement.comment for judgement in judgements())
    assert KEY not in repr(sortnet.LanguageModel("judge", url, key=lambda: KEY))
    files = [path for path in Path().rglob("*") if path.is_file()]
    assert files and not any(KEY.encode() in file.read_bytes() for file in files)
    said = fault("label", "t", *judge_file(request={"user": KEY}))
    assert "it has the server's key" in said and KEY not in said
    unset = ("label", "t", "--model", "m", "--server", "http://localhost", "--key", "NO_SUCH")
    assert "the variable NO_SUCH, which is to have the key, is not set" in fault(*unset)


# Several models.


class Several(Model):
    """A server of several models, of which some fail; `asked` are their names in order."""

    def __init__(self, *names: str, fails: tuple[str, ...] = (), **facts) -> None:
        super().__init__(number_in, **facts)
        self.names, self.fails = names, fails
        self.asked: list[str] = []

    def reply(self, body, headers):
        if body["model"] in self.fails:
            return JSONResponse({"error": {"message": "no such model here"}}, 404)
        assert body["model"] in self.names
        self.asked.append(body["model"])
        return super().reply(body | {"model": "judge"}, headers)


def command(url: str, *names: str) -> tuple[object, ...]:
    return ("label", "t", "--server", url, *(part for name in names for part in ("--model", name)))


def test_models_answer_in_turn_each_under_its_own_name():
    server = Several("a", "b")
    with serving(server) as url:
        rows = value_of(done(*command(url, "a", "b"), "--number", 24, "--json"), "labelled")
    assert [(row["annotator"], row["answered"], row["calls"]) for row in rows] == [
        ("a", 12, 12), ("b", 12, 12),
    ]  # fmt: skip
    assert server.asked == ["a"] * 12 + ["b"] * 12
    assert Counter(judgement.annotator for judgement in judgements()) == {"a": 12, "b": 12}
    with serving(server) as url:
        rows = value_of(done(*command(url, "a", "b"), "--number", 1, "--json"))
    assert [(row["answered"], row["end"]) for row in rows] == [(1, "number"), (0, "number")]


def test_a_model_that_fails_leaves_nobody_and_the_others_go_on():
    with serving(Several("a", "c", fails=("b",))) as url:
        result = invoke(*command(url, "a", "b", "c"), "--number", 12, "--json")
    assert result.exit_code == 2
    rows = {row["annotator"]: row for row in value_of(result.stdout)}
    assert rows["a"]["answered"] + rows["c"]["answered"] == 12 and rows["b"]["answered"] == 0
    assert rows["b"]["end"] == "fault" and "no such model" in rows["b"]["fault"]
    assert "no such model or address (404)" in result.stderr
    names = [row["name"] for row in value_of(done("annotators", "list", "t", "--json"))]
    assert names == ["a", "c"] == sorted({judgement.annotator for judgement in judgements()})


def test_the_goal_ends_all_and_a_budget_one():
    with open_store("s.db") as store:
        store.collection("t").setting("holdout", 0.9)  # so that a few answers measure the order
    with serving(Several("a", "b")) as url:
        rows = value_of(done(*command(url, "a", "b"), "--max-calls", 3, "--json"))
        assert [(row["calls"], row["end"]) for row in rows] == [(3, "budget"), (3, "budget")]
        rows = value_of(done(*command(url, "a", "b"), "--until", 0.4, "--json"))
    assert rows[-1]["enough"] is True and rows[-1]["end"] == "goal"
    assert "(--until sets another)" in rows[-1]["why"]


# Options, dry runs, and answers of several models under one name.


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("--model m", "--model needs --server"),
        ("--max-calls 3", "--max-calls is for --judge and --model"),
        ("--dry-run", "--dry-run is for --judge and --model"),
        ("--model m --judge x", "--model is for a language"),
        ("--judge cat --judge cat", "names, which must differ"),
        ("--model a --model b --as x", "--as is for one judge"),
        ("--judge a --judge b --model c --model d", "several --judge or several --model, not both"),
        ("--judge cat --judge tac --both-orders", "--both-orders is for a language"),
    ],
)
def test_options_that_do_not_go_together_are_named(options, why):
    assert why in fault("label", "t", *options.split())


def test_nothing_is_sent_in_a_dry_run():
    of_model = judge_file(server="http://127.0.0.1:9", price_in=1)
    common = ("label", "t", *of_model, "--judge", program(""), "--dry-run")
    run, other = value_of(done(*common, "--number", 70, "--json"), "dry_run")
    assert judgements() == []
    assert "<A>\ntext number 0\n</A>" in run["question"]
    assert [run[name]["calls"] for name in ("once", "hundred", "planned")] == [N // 2, 100, 70]
    n_tokens = 70 * (len(run["question"]) // 4)
    assert run["planned"]["cost"] == pytest.approx(n_tokens / 1e6)
    assert json.loads(other["question"])["left"]["text"] == "text number 0"
    text = done(*common)
    assert run["question"] in text and text.endswith("nothing was sent\n")
    assert f"every item once: about {N // 2} calls" in text
    batch = judge_file(command="cat", batch=8)
    (run,) = value_of(done("label", "t", *batch, "--dry-run", "--json"))
    assert run["hundred"]["calls"] == 13 and isinstance(json.loads(run["question"]), list)


def test_answers_to_another_prompt_or_request_under_one_name_are_told():
    Path("p.txt").write_text("<A>\n{{ left.text }}\n</A>\n<B>\n{{ right.text }}\n</B>")
    told = []
    with serving(model()) as url:
        for options in (
            judge_file("a.toml"),
            judge_file("b.toml", request={"seed": 5}),
            judge_file("c.toml", request={"temperature": 0.5}),
            judge_file("d.toml", prompt="p.txt"),
        ):
            told.append(label("--server", url, "--number", 1, *options)[1])
    assert not any("--as NAME" in text for text in told[:2])
    assert (
        "earlier answers are of another model, prompt or request: --as NAME keeps them apart"
        in told[2]
    )
    assert "judge: earlier answers are of another model, prompt or request" in told[3]


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        ({"X-Api-Key": "x"}, "'X-Api-Key' looks like a secret"),
        ({"extra_headers": {"Authorization": "x"}}, "'Authorization' looks like a secret"),
        ({"user": "sk-abcdef123456"}, "a text in it looks like a secret"),
        ({"a": {"b": ["Bearer abcdefgh"]}}, "a text in it looks like a secret"),
        ({"model": "x"}, "model is set by SortNet: the name of the model"),
        ({"messages": []}, "messages is set by SortNet: the messages are made from the prompt"),
        ({"n": 5}, "n is set by SortNet: one answer"),
        ({"temperature": "warm"}, "a temperature of 'warm' is no number from 0"),
        ({"stop": "x" * 2000}, "1,000 at most"),
        ({"stop": float("nan")}, "it is no JSON"),
        ("warm", "'warm' is no dict of parameters"),
    ],
)
def test_what_a_request_cannot_have_is_refused_in_one_line(request_, why):
    with pytest.raises(SortNetError, match=r"^request: ") as raised:
        sortnet.LanguageModel("judge", "http://localhost:1", request=request_)
    assert why in str(raised.value) and "abcdef" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{{ nothing }}", "'nothing' is undefined"),
        ("{% for x in %}", "prompt p.txt"),
        ("{{ left.__class__.__mro__ }}", "unsafe"),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "recursion"),
        ("{% for a in range(10 ** 6) %}{% endfor %}", "Range too big"),
    ],
)
def test_a_template_that_cannot_be_is_one_line(text, said):
    Path("p.txt").write_text(text)
    assert said in fault("label", "t", *judge_file(prompt="p.txt"), "--dry-run")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://example.com", "needs https"),
        ("http://0x08080808", "needs https"),
        ("http://[::ffff:8.8.8.8]", "needs https"),
        ("http://gpu.local.example.com", "needs https"),
        ("ftp://localhost", "no http or https URL"),
        ("http://user:pw@localhost", "give no password"),
        ("nonsense", "no http or https URL"),
        *((f"http://{host}:8000", "") for host in ("localhost", "[::1]", "10.0.0.7", "gpu.local")),
    ],
)
def test_texts_and_keys_go_to_the_own_network_or_by_https(url, said):
    connect = sortnet.LanguageModel("m", url).connect
    if not said:
        connect()
        return
    with pytest.raises(SortNetError, match=said):
        connect()


def test_a_sound_is_refused():
    side = {"id": "a", "text": None, "image": None, "audio": "a.wav", "shown": {}}
    with pytest.raises(SortNetError, match="item 'a' is a sound"):
        Prompt().messages({"question": "?", "instructions": "", "left": side, "right": side})
