"""A language model as annotator: asked over HTTP, its probabilities, its costs, its faults."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from cli_helpers import done, fault, invoke, judge_file
from forked_processes import Forked, ForkedScript
from language_model_server import Model, serving
from PIL import Image
from result_helpers import value_of
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse

from sortnet import LanguageModel
from sortnet.errors import SortNetError
from sortnet.judges.budget import Budget
from sortnet.judges.model_answers import parse_reply
from sortnet.judges.prompts import Prompt
from sortnet.judges.verdicts import Fault
from store import open_store

KEY = "s3cret-of-a-server"
N = 8


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SORTNET_STORE", "s.db")
    monkeypatch.setenv("SORTNET_KEY", KEY)
    rows = ["id,text", *(f"t{k},text number {k}" for k in range(N))]
    Path("t.csv").write_text("\n".join(rows) + "\n")
    done("items", "add", "t", "t.csv")
    return tmp_path


def made(key: str = KEY, **facts) -> Model:
    return Model(lambda text: float(text.split()[-1]), key=key, **facts)


def label(url: str, *args: object) -> dict:
    said = ("label", "t", "--model", "judge", "--server", url, "--json", *args)
    (row,) = value_of(done(*said), "labelled")
    return row


def refused(url: str, *args: object, name: str = "judge") -> str:
    result = invoke("label", "t", "--model", name, "--server", url, *args)
    assert result.exit_code == 2 and KEY not in result.output + result.stderr, result.output
    return result.stderr.strip().splitlines()[-1]


def judgements() -> list:
    with open_store("s.db") as store:
        assert store.collection("t").leases() == []
        return list(store.collection("t").judgements())


@pytest.mark.parametrize("workers", [1, 4])
def test_a_model_ranks_texts_and_its_probabilities_are_kept(workers):
    with serving(made()) as url:
        facts = label(url, "--workers", workers, "--until", "0.02")
    assert facts["calls"] == facts["answered"] == len(judgements()) > 10
    for j in judgements():
        assert j.p == pytest.approx(1 / (1 + np.exp(j.right - j.left)), abs=1e-5)
        assert j.word == ("left" if j.p > 0.5 else "right") and j.annotator == "judge"
    ids = [row["id"] for row in value_of(done("ranking", "t", "--json"))]
    assert ids == [f"t{k}" for k in reversed(range(N))]


def test_a_server_without_log_probabilities_is_taken_at_its_word():
    model = made(logprobs=False, said=lambda letter: f"Answer: {letter}. It has the larger number.")
    with serving(model) as url:
        label(url, "--number", 5)
    assert {j.p for j in judgements()} == {None}
    assert all("larger number" in j.comment for j in judgements())


def test_both_orders_are_asked_and_kept():
    model = made(side=0.4)
    with serving(model) as url:
        facts = label(url, "--both-orders", "--number", 6)
    assert (facts["answered"], facts["calls"]) == (6, 12)
    assert set(model.pairs.values()) == {1}
    assert {(b, a) for a, b in model.pairs} == {*model.pairs}
    said = judgements()
    for one, other in zip(said[::2], said[1::2], strict=True):
        assert (one.left, one.right) == (other.right, other.left) and other.at is not None


def test_what_is_neither_is_asked_once_more_and_then_skipped_with_its_text():
    with serving(made(logprobs=False, said=lambda letter: "I <b>cannot</b> say")) as url:
        facts = label(url, "--number", 2)
    assert (facts["calls"], facts["answered"], facts["failed"]) == (4, 0, 0)
    assert [(j.word, j.comment) for j in judgements()] == [("skip", "I <b>cannot</b> say")] * 2


def test_a_busy_server_is_waited_for_and_nothing_is_asked_twice(monkeypatch):
    monkeypatch.setattr("sortnet.judges.model_worker._SHORTEST_WAIT", 0.01)
    model = made(faults=[429, 500, 429, 503])
    with serving(model) as url:
        facts = label(url, "--number", 4)
    assert (facts["answered"], facts["failed"], facts["calls"]) == (4, 0, 8)
    with serving(made(faults=[500] * 15)) as url:
        assert "still 500 after" in refused(url, *judge_file(patience=0.1))
    slow_down = [lambda _: JSONResponse({}, 429, {"Retry-After": "3600"})] * 3
    with serving(made(faults=slow_down)) as url:
        assert "a wait of 3600 more is beyond the patience" in refused(url)


def test_faults_count_and_three_in_a_row_end_it_with_one_line():
    with serving(made(faults=[lambda _: Response(b"{")] * 3)) as url:
        said = refused(url)
        assert "failed 3 times in a row" in said and "not an answer of" in said
    with serving(made(faults=[lambda _: Response(b"x" * (3 << 20))] * 3)) as url:
        assert "more than 1,048,576 bytes" in refused(url)
    with serving(made(faults=[lambda _: Response(b"{")])) as url:
        facts = label(url, "--number", 2)
    assert (facts["answered"], facts["failed"]) == (2, 1)


@pytest.mark.parametrize("status", [400, 422])
def test_a_model_that_takes_no_such_parameter_is_asked_without(status):
    model = made()
    real = model.reply

    def reply(body, headers):
        for name in ("temperature", "max_tokens", "top_logprobs"):
            if name in body:
                error = {"message": f"Unsupported parameter: '{name}' is not supported"}
                return JSONResponse({"error": error}, status)
        return real(body, headers)

    model.reply = reply  # type: ignore[method-assign]
    with serving(model) as url:
        facts = label(url, "--number", 4)
    assert (facts["answered"], facts["failed"]) == (4, 0)
    assert facts["calls"] == 4 + 2 + 2  # temperature, max_tokens; ten and five log-probabilities
    assert not any(j.word == "skip" for j in judgements())


def test_a_server_that_refuses_log_probabilities_is_asked_without():
    no = [lambda body: JSONResponse({"error": {"message": "logprobs are not supported"}}, 400)]
    with serving(made(faults=no)) as url:
        assert label(url, "--number", 3)["calls"] == 4


def test_a_prompt_that_is_too_long_is_no_parameter_that_is_refused():
    words = "'max_tokens' is too large: 256. This model's maximum context length is 99 tokens"
    model = made(faults=[lambda _: JSONResponse({"error": {"message": words}}, 400)])
    with serving(model) as url:
        result = invoke("label", "t", "--model", "judge", "--server", url, "--number", 2)
    assert result.exit_code == 0 and "is left out: 'max_tokens' is too large" in result.stderr


def test_an_answer_that_trickles_in_is_given_up_in_time():
    def trickling(body):
        async def slowly():
            for _ in range(50):
                yield b" "
                await asyncio.sleep(0.1)

        return StreamingResponse(slowly())

    with serving(made(faults=[trickling])) as url:
        result = invoke("label", "t", *judge_file(server=url, timeout=0.5), "--number", 1)
    assert result.exit_code == 0 and "no answer after 0.5 seconds" in result.stderr


def test_an_answer_that_is_encoded_twice_is_told_and_its_pair_given_back():
    def twice(body):
        packed = gzip.compress(gzip.compress(b"{}" * 1000))
        return Response(packed, headers={"Content-Encoding": "gzip, gzip"})

    with serving(made(faults=[twice] * 3)) as url:
        assert "an answer that is encoded as gzip, gzip" in refused(url)
    assert judgements() == []


def test_a_key_in_an_answer_that_is_no_chat_is_not_printed():
    def echo(body):
        return JSONResponse({"headers": {"authorization": f"Bearer {KEY}"}})

    with serving(made(faults=[echo] * 3)) as url:
        assert '"Bearer ***"' in refused(url)


def test_tokens_are_counted_where_the_server_does_not_say():
    model = made()
    real = model.answer
    model.answer = lambda *args, **known: {**real(*args, **known), "usage": None}  # type: ignore[method-assign]
    with serving(model) as url:
        facts = label(url, "--number", 3)
    assert facts["tokens_in"] > 100


@pytest.mark.parametrize("workers", [1, 4])
def test_a_budget_in_the_middle_of_a_pair_loses_nothing_and_is_no_failure(workers):
    model = made()
    with serving(model) as url:
        facts = label(url, "--both-orders", "--max-calls", 3, "--workers", workers)
    assert (facts["calls"], facts["failed"]) == (3, 0) and "calls is reached" in facts["why"]
    assert len(judgements()) == len(model.prompts) == 3


def test_a_fault_at_the_second_order_keeps_the_first():
    model = made(faults=[None, lambda _: Response(b"{")])
    with serving(model) as url:
        facts = label(url, "--both-orders", "--number", 1)
    assert (facts["answered"], facts["failed"], len(judgements())) == (1, 0, 1)


def test_calls_of_an_answer_are_kept_with_it():
    texts = iter(["I cannot say", "B"])
    with serving(made(logprobs=False, said=lambda letter: next(texts))) as url:
        label(url, "--number", 1, *judge_file(price_in=1))
    [one] = judgements()
    meta = json.loads(one.meta)
    assert (one.word, meta["model"], meta["calls"]) == ("right", "judge", 2)
    assert one.cost == pytest.approx(meta["tokens"][0] / 1e6) and meta["tokens"][1] == 2
    assert "p" not in done("judgements", "list", "t").splitlines()[0].split()
    with serving(made(said=lambda letter: f"{letter}. It has the larger \x1b number")) as url:
        label(url, "--number", 1)
    head, _, last = done("judgements", "list", "t").splitlines()
    assert head.split()[-3:] == ["p", "cost", "comment"]
    assert "It has the larger" in last and "\x1b" not in last


def test_another_prompt_under_the_same_name_is_told():
    Path("p.txt").write_text("<A>\n{{ left.text }}\n</A>\n<B>\n{{ right.text }}\n</B>")
    with serving(made()) as url:
        label(url, "--number", 1)
        common = ("label", "t", "--model", "judge", "--server", url, "--number", 1)
        assert "another model or prompt" not in invoke(*common).stderr
        said = invoke(*common, "--prompt", "p.txt").stderr
        assert "judge: earlier answers are of another" in said


def test_what_every_call_would_meet_ends_it_at_once(monkeypatch):
    model = made(faults=[lambda _: RedirectResponse("http://elsewhere.example/v1")])
    with serving(model) as url:
        assert "redirects to http://elsewhere.example/v1" in refused(url)
        assert len(model.prompts) == 1
        assert "no such model or address (404): the model x does not" in refused(url, name="x")
        monkeypatch.setenv("SORTNET_KEY", "another")
        said = refused(url)
        assert "takes no such key (401): wrong key ***" in said and "another" not in said
        monkeypatch.delenv("SORTNET_KEY")
        assert "the server asks for a key (401), which SORTNET_KEY may have" in refused(url)
    assert "Connection refused" in refused("http://127.0.0.1:9")
    result = invoke("label", "t", "--model", "m", "--server", "http://127.0.0.1:9", "--workers", 8)
    lines = result.stderr.splitlines()  # of eight workers, not 24 lines
    assert len(lines) == 4 and "failed 24 times in a row" in lines[3]
    assert judgements() == []


def test_a_fault_ends_all_criteria():
    done("ask", "t", "--criterion", "short")
    done("ask", "t", "--criterion", "kind")
    with serving(made()) as url:
        refused(url, name="unknown")
        model = made(key="another")
    with serving(model) as url:
        refused(url)
    assert model.prompts == []
    with serving(made(faults=[lambda _: RedirectResponse("http://elsewhere.example")])) as url:
        said = invoke("label", "t", "--model", "judge", "--server", url)
    assert said.exit_code == 2 and said.stdout.count("0 answered") == 1


def test_an_item_that_is_too_long_is_named_and_left_out():
    def too_long(body):
        return JSONResponse({"error": {"message": "maximum context length is 9 tokens"}}, 400)

    Path("long.csv").write_text("id,text\nt3,a very long text number 3\n")
    done("items", "add", "t", "long.csv", "--update")
    model = made()
    real = model.reply
    model.reply = lambda body, headers: (  # type: ignore[method-assign]
        too_long(body) if "very" in body["messages"][0]["content"] else real(body, headers)
    )
    with serving(model) as url:
        result = invoke("label", "t", "--model", "judge", "--server", url, "--json")
    assert result.exit_code == 0
    assert result.stderr.count("item 't3' is left out: maximum context length") == 1
    assert all(j.word == "skip" for j in judgements() if 3 in j.pair)
    assert any(j.word != "skip" for j in judgements())


def test_a_budget_ends_it_cleanly():
    with serving(made()) as url:
        facts = label(url, "--max-calls", 3)
        assert facts["answered"] == 3 and "the limit of 3 calls is reached" in facts["why"]
        facts = label(url, "--max-cost", 0.0001, *judge_file(price_in=1, price_out=2))
        assert "limit of the cost, 0.0001, is reached" in facts["why"] and facts["cost"] >= 0.0001
        assert all(j.cost > 0 for j in judgements()[-facts["answered"] :])
    assert "--max-cost needs prices: give --judge FILE.toml" in fault(
        "label", "t", "--model", "judge", "--server", url, "--max-cost", 1
    )


def test_nothing_is_sent_in_a_dry_run():
    model = made()
    with serving(model) as url:
        common = ("label", "t", *judge_file(server=url, price_in=1), "--dry-run")
        (run,) = value_of(done(*common, "--number", 70, "--both-orders", "--json"), "dry_run")
        text = done(*common)
    assert model.prompts == [] and judgements() == []
    with open_store("s.db") as store:
        assert list(store.collection("t").annotators()) == []
    assert (run["judge"], run["to"]) == ("judge", url)
    assert "<A>\ntext number 0\n</A>" in run["question"] and run["question"] in text
    assert [run[name]["pairs"] for name in ("once", "hundred", "planned")] == [N // 2, 100, 70]
    planned = run["planned"]
    assert planned["calls"] == 140
    assert planned["tokens_in"] == 140 * (len(run["question"]) // 4)
    assert planned["cost"] == pytest.approx(planned["tokens_in"] / 1e6)
    *_, once, further, empty, last = text.splitlines()
    assert once.startswith(f"every item once: about {N // 2} calls, ") and "a cost of" in once
    assert further.startswith("each further 100 questions: about 100 calls, ")
    assert (empty, last) == ("", "nothing was sent")


def test_a_dry_run_shows_the_line_of_a_program_and_needs_a_judge():
    programs = ("--judge", "./no-such-program", *judge_file(command="cat", batch=8))
    first, second = value_of(done("label", "t", *programs, "--dry-run", "--json"), "dry_run")
    assert first["to"] == "./no-such-program" and second["hundred"]["calls"] == 13
    assert json.loads(first["question"])["left"]["text"] == "text number 0"
    assert [question["id"] for question in json.loads(second["question"])]
    assert "--dry-run is for --judge and --model" in fault("label", "t", "--dry-run")
    assert "leave out --write-batch" in fault("label", "t", "--dry-run", "--write-batch", "b")


@pytest.mark.slow
def test_kill_9_and_again_asks_no_pair_twice_and_loses_no_answer():
    model = made(seconds=0.02)
    rng = np.random.default_rng(0)
    with serving(model) as url:
        command = ["label", "t", "--model", "judge", "--server", url, "--until", "0.01"]
        for _ in range(3):
            before = len(model.prompts)
            with Path(os.devnull).open("r+") as null:
                run = Forked(command, [null.fileno()] * 3, dict(os.environ))
            while len(model.prompts) <= before and run.poll() is None:
                time.sleep(0.005)
            time.sleep(0.2 * rng.random())
            run.send_signal(signal.SIGKILL)
            run.wait()
            with open_store("s.db") as store:
                stored = len(store.collection("t").judgements())
            assert len(model.prompts) - stored <= 3  # those under way at each kill


def test_an_interrupt_keeps_the_answers_under_way():
    model = made(seconds=1.0)
    with serving(model) as url:
        typed = ["label", "t", "--model", "judge", "--server", url, "--workers", 4]
        run = ForkedScript("from cli.main import main; main()", *typed)
        while len(model.prompts) < 4 and run.poll() is None:
            time.sleep(0.005)
        run.send_signal(signal.SIGINT)
        said, _ = run.communicate()
    assert "4 answered" in said
    assert len(judgements()) == len(model.prompts) == 4


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{{ nothing }}", "'nothing' is undefined"),
        ("{% for x in %}", "prompt p.txt"),
        ("{{ left.__class__.__mro__ }}", "unsafe"),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "recursion"),
        ("{{ 9 ** (9 ** 9) }}", "no powers"),
        ("{{ 'x' * 100000000000 }}", "* is for numbers"),
        ("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "5 sec"),
    ],
)
def test_a_template_that_cannot_be_is_one_line(text, said, monkeypatch):
    monkeypatch.setattr("sortnet.judges.prompts._SECONDS", 1)
    Path("p.txt").write_text(text)
    said = "more than 1 sec" if said == "5 sec" else said
    assert said in fault("label", "t", *judge_file(prompt="p.txt"), "--dry-run")


def test_a_template_may_say_it_in_other_words():
    Path("p.txt").write_text("{{ left.text }}|{{ right.id }}|{{ question }}")
    command = ("label", "t", *judge_file(), "--prompt", "p.txt", "--dry-run", "--json")
    assert value_of(done(*command))[0]["question"] == "text number 0|t1|Which is better?"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://example.com", "needs https"),
        ("http://8.8.8.8:80", "needs https"),
        ("http://0x08080808", "needs https"),
        ("http://134744072", "needs https"),
        ("http://[::ffff:8.8.8.8]", "needs https"),
        ("http://gpu.local.example.com", "needs https"),
        ("ftp://localhost", "no http or https URL"),
        ("http://user:pw@localhost", "give no password"),
        ("nonsense", "no http or https URL"),
    ],
)
def test_a_url_that_cannot_be_is_refused(url, said):
    assert said in fault("label", "t", "--model", "m", "--server", url)


@pytest.mark.parametrize(
    "host",
    ["localhost", "127.0.0.9", "[::1]", "10.0.0.7", "192.168.1.2", "gpu", "gpu.local", "[fd00::1]"],
)
def test_a_server_of_the_own_network_needs_no_https(host):
    LanguageModel("m", f"http://{host}:8000").connect()


def test_options_that_do_not_go_together_are_refused():
    assert "--model needs --server" in fault("label", "t", "--model", "m")
    assert "--max-calls is for --judge and --model" in fault("label", "t", "--max-calls", 3)
    assert "--model is for a language" in fault("label", "t", "--model", "m", "--judge", "x")
    said = fault("label", "t", "--model", "m", "--server", "http://localhost", "--key", "NO_SUCH")
    assert "the variable NO_SUCH, which is to have the key, is not set" in said


def test_images_go_with_the_prompt(tmp_path):
    Image.new("RGB", (2, 2)).save("a.png")
    side = {"id": "a", "text": None, "image": str(Path("a.png").resolve()), "shown": {}}
    pair = {"question": "Which?", "instructions": "", "left": side}
    pair["right"] = {**side, "image": None}
    [message] = Prompt().messages(pair)
    kinds = [part["type"] for part in message["content"]]
    assert kinds == ["text", "text", "image_url"]
    assert message["content"][2]["image_url"]["url"].startswith("data:image/png;base64,iVBORw0KGgo")
    with pytest.raises(SortNetError, match="item 'a' is a sound"):
        Prompt().messages({**pair, "right": {**side, "image": None, "audio": "a.wav"}})
    with pytest.raises(SortNetError, match=r"item 'a': .*b\.png: there is no such file"):
        Prompt().messages({**pair, "left": {**side, "image": str(tmp_path / "b.png")}})


def test_an_answer_is_read_or_a_fault():
    good = {"choices": [{"message": {"content": "A"}}]}
    assert parse_reply(json.dumps(good).encode()).choice == good["choices"][0]
    for raw in (b"", b"[]", b"{}", b'{"choices":[{}]}', b"\xff", b'{"choices":{"0":1}}',
                b'{"choices": [{"message": 3}]}'):  # fmt: skip
        with pytest.raises(Fault):
            parse_reply(raw)


def test_spending_is_counted_told_and_ends():
    spent = Budget(max_calls=2, price_in=2.0)
    spent.call()
    spent.add(500_000, 7)
    assert spent.cost == spent.cost_of(500_000, 7) == 1.0
    spent.call()
    with pytest.raises(Fault, match="limit of 2 calls is reached"):
        spent.call()
    assert spent.text() == "2 calls, 500,007 tokens, 1 spent"
