"""What a user adds to requests of language models: parameters and a schema."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_helpers import done, fault, invoke, judge_file
from language_model_server import Model, serving
from result_helpers import value_of
from starlette.responses import JSONResponse

import sortnet
from sortnet.errors import SortNetError
from sortnet.judges.request import check_request
from store import open_store

N = 8


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SORTNET_STORE", "s.db")
    monkeypatch.delenv("SORTNET_KEY", raising=False)
    rows = ["id,text", *(f"t{k},text number {k}" for k in range(N))]
    Path("t.csv").write_text("\n".join(rows) + "\n")
    done("items", "add", "t", "t.csv")
    return tmp_path


class Recording(Model):
    """A model that keeps the bodies of its requests, and refuses some parameters."""

    def __init__(self, *, refuses: tuple[str, ...] = (), **facts) -> None:
        super().__init__(lambda text: float(text.split()[-1]), **facts)
        self.bodies: list[dict] = []
        self.refuses = refuses

    def reply(self, body, headers):
        self.bodies.append(body)
        for name in self.refuses:
            if name in body:
                message = f"Unsupported parameter: '{name}' is not supported with this model"
                return JSONResponse({"error": {"message": message}}, 400)
        return super().reply(body, headers)


def label(url: str, *args: object, name: str = "t") -> dict:
    (row,) = value_of(
        done("label", name, "--model", "judge", "--server", url, "--json", *args), "labelled"
    )
    return row


def judgements(name: str = "t") -> list:
    with open_store("s.db") as store:
        return list(store.collection(name).judgements())


def set_shares(name: str, **shares: float) -> None:
    """Set the shares of questions of a new collection that check the judge."""
    with open_store("s.db") as store:
        for setting, share in shares.items():
            assert store.collection(name).setting(setting, share) == share


def metas(name: str = "t") -> list[dict]:
    return [json.loads(judgement.meta) for judgement in judgements(name)]


def test_parameters_are_sent_with_every_request_and_kept_with_every_answer():
    model = Recording()
    request = {"temperature": 0.7, "seed": 3, "reasoning_effort": "low", "extra": {"a": [1, "b"]}}
    with serving(model) as url:
        label(url, "--number", 3, *judge_file(request=request))
    assert len(model.bodies) == 3
    for body in model.bodies:
        assert {name: body[name] for name in request} == request
    assert [meta["request"] for meta in metas()] == [request] * 3


def test_a_limit_of_tokens_of_the_user_takes_the_place_of_ours():
    model = Recording()
    with serving(model) as url:
        label(url, "--number", 1)
        label(url, "--number", 1, *judge_file(request={"max_completion_tokens": 4000}))
    first, second = model.bodies
    assert first["max_tokens"] == 256
    assert second["max_completion_tokens"] == 4000 and "max_tokens" not in second


def test_a_parameter_of_the_user_is_never_left_out_silently():
    with serving(Recording(refuses=("temperature",))) as url:
        assert label(url, "--number", 1)["answered"] == 1  # that of SortNet is left out
        result = invoke(
            *("label", "t", "--model", "judge", "--server", url, "--number", 1),
            *judge_file(request={"temperature": 0.5}),
        )
    assert result.exit_code == 2
    assert "the server does not take temperature of the request" in result.stderr


@pytest.mark.parametrize(
    ("parameters", "why"),
    [
        ({"api_key": "x"}, "'api_key' looks like a secret"),
        ({"X-Api-Key": "x"}, "'X-Api-Key' looks like a secret"),
        ({"auth_token": "x"}, "'auth_token' looks like a secret"),
        ({"extra_headers": {"Authorization": "x"}}, "'Authorization' looks like a secret"),
        ({"user": "sk-abcdef123456"}, "a text in it looks like a secret"),
        ({"a": {"b": ["Bearer abcdefgh"]}}, "a text in it looks like a secret"),
        ({"model": "x"}, "model is set by SortNet: the name of the model"),
        ({"messages": []}, "messages is set by SortNet: the messages are made from the prompt"),
        ({"logprobs": True}, "logprobs is set by SortNet"),
        ({"response_format": {}}, "response_format is set by SortNet: an answer by JSON schema"),
        ({"n": 5}, "n is set by SortNet: one answer"),
        ({"stream": True}, "stream is set by SortNet: an answer is read as a whole"),
        ({"temperature": "warm"}, "a temperature of 'warm' is no number from 0"),
        ({"temperature": -1}, "a temperature of -1 is no number from 0"),
        ({"stop": "x" * 2000}, "1,000 at most"),
        ("warm", "request: 'warm' is no dict of parameters"),
    ],
)
def test_what_a_request_cannot_have_is_refused_in_one_line(parameters, why):
    said = fault("label", "t", *judge_file(request=parameters))
    assert "judge judge.toml: request: " in said and why in said
    assert "abcdef" not in said
    assert judgements() == []


def test_a_request_in_python_is_checked_at_once_and_is_a_copy():
    request = {"temperature": 0.5, "stop": ["x"]}
    judge = sortnet.LanguageModel("judge", "http://localhost:1", request=request)
    request["stop"].append("sk-abcdef123456")
    assert judge.request == {"temperature": 0.5, "stop": ["x"]} and hash(judge) is not None
    for bad in ({"api_key": "x"}, {"stop": float("nan")}, {"stop": object()}, ["a"], "a=b", None):
        with pytest.raises(SortNetError, match=r"^request: "):
            sortnet.LanguageModel("judge", "http://localhost:1", request=bad)
    assert check_request({"max_tokens": 9, "prompt_cache_key": "x", "stop_token_ids": [1]})


def test_the_key_of_the_server_is_refused_in_a_request_whatever_it_looks_like(monkeypatch):
    monkeypatch.setenv("SORTNET_KEY", "a very plain word")
    said = fault("label", "t", *judge_file(request={"user": "a very plain word"}))
    assert "it has the server's key" in said and "plain" not in said


def test_a_request_makes_another_judge_but_seeds_and_limits_do_not():
    def variant(**facts) -> str:
        return sortnet.LanguageModel("judge", "http://localhost:1", **facts).variant

    same = [{}, {"seed": 1}, {"user": "a", "max_tokens": 9}]
    assert {variant(request=request) for request in same} == {""}
    other = [{"temperature": 0.5}, {"temperature": 0.6}, {"reasoning_effort": "low"}]
    variants = {variant(request=request) for request in other} | {variant(structured=True)}
    assert len(variants) == 4 and "" not in variants
    model = Recording()
    with serving(model) as url:
        names = []
        for request in ({}, {"seed": 5}, {"temperature": 0.5}):
            judge = sortnet.LanguageModel("judge", url, request=request)
            found = sortnet.sort(
                ["text 1", "text 2", "text 3", "text 4"],
                judge=judge, max_calls=3, store="sorted.db", progress=False,
            )  # fmt: skip
            names.append((*found.by, found.answered))
    assert names[0] == ("judge", 3) and names[1] == ("judge", 0)
    assert names[2][0].startswith("judge ") and names[2][1] == 3


def test_label_says_where_answers_to_two_requests_come_together():
    with serving(Recording()) as url:
        common = ("label", "t", "--model", "judge", "--server", url, "--number", 1)
        assert "--as NAME" not in invoke(*common).stderr
        assert "--as NAME" not in invoke(*common, *judge_file(request={"seed": 5})).stderr
        warm = invoke(*common, *judge_file(request={"temperature": 0.5})).stderr
        assert "earlier answers are to another request: --as NAME keeps them apart" in warm


def test_an_answer_by_schema_is_asked_for_and_read():
    model = Recording(said=lambda letter: json.dumps({"answer": letter}), logprobs=False)
    with serving(model) as url:
        label(url, *judge_file(structured=True), "--number", 4)
    for body in model.bodies:
        schema = body["response_format"]["json_schema"]["schema"]
        assert body["response_format"]["type"] == "json_schema"
        assert schema["properties"]["answer"]["enum"] == ["A", "B", "C"]
    for judgement, meta in zip(judgements(), metas(), strict=True):
        assert judgement.word == ("left" if judgement.left > judgement.right else "right")
        assert judgement.comment is None and meta["structured"] is True


def test_without_schemas_a_letter_is_asked_for_and_one_line_says_so():
    model = Recording(refuses=("response_format",))
    with serving(model) as url:
        result = invoke(
            *("label", "t", "--model", "judge", "--server", url, "--number", 4),
            *judge_file(structured=True),
        )
    assert result.exit_code == 0, result.stderr
    assert result.stderr.count("takes no JSON schema: a letter is asked for") == 1
    assert ["response_format" in body for body in model.bodies] == [True] + [False] * 4
    assert not any("structured" in meta for meta in metas())
    assert all(judgement.word in ("left", "right") for judgement in judgements())


def test_json_without_an_answer_is_asked_for_again_as_json_and_then_skipped():
    model = Recording(said=lambda letter: '{"winner": 1}', logprobs=False)
    with serving(model) as url:
        facts = label(url, *judge_file(structured=True), "--number", 1)
    assert facts["calls"] == 2
    assert model.bodies[1]["messages"][-1]["content"].startswith("Answer with JSON only")
    assert [j.word for j in judgements()] == ["skip"]


def test_prices_in_a_file_give_costs(folder):
    prices = judge_file(price_in=1000, price_out=2000)
    with serving(Recording()) as url:
        assert label(url, "--number", 1)["cost"] is None
        facts = label(url, "--number", 2, *prices)
        cost = (1000 * facts["tokens_in"] + 2000 * facts["tokens_out"]) / 1e6
        assert facts["cost"] == facts["cost_in_all"] == pytest.approx(cost)
        assert sum(j.cost for j in judgements()[1:]) == pytest.approx(cost)
        facts = label(url, "--max-cost", 0.0001, *prices)
        assert "the limit of the cost, 0.0001, is reached" in facts["why"]
        said = done("label", "t", "--model", "judge", "--server", url, "--number", 1, *prices)
        assert " spent\n" in said and "all answers cost " in said
    report = value_of(done("report", "t", "--json"))
    assert report["cost"] == report["judges"][0]["cost"] > 0
    done("report", "t", "--output", "r.html")
    assert f"{report['cost']:.4g}" in Path("r.html").read_text()


def test_a_key_is_in_no_file_and_no_words_whatever_the_server_says(monkeypatch):
    key = "s3cret-of-a-server"
    monkeypatch.setenv("SORTNET_KEY", key)
    model = Recording(key=key, logprobs=False, said=lambda letter: f"Answer: {letter}, by {key}")
    with serving(model) as url:
        options = judge_file(structured=True, request={"seed": 1})
        printed = invoke("label", "t", "--model", "judge", "--server", url, "--number", 4, *options)
    assert printed.exit_code == 0
    assert all("***" in judgement.comment for judgement in judgements())
    assert key not in printed.output + printed.stderr
    judge = sortnet.LanguageModel("judge", "http://localhost:1", key=lambda: key)
    assert key not in repr(judge)
    files = [path for path in Path().rglob("*") if path.is_file()]
    assert files and not any(key.encode() in file.read_bytes() for file in files)
