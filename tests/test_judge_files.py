"""A judge in a file: its keys, what is refused, options beside it, and the check by doctor."""

from __future__ import annotations

import shlex
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from cli_helpers import done, fault, invoke, judge_file
from language_model_server import Model, serving
from result_helpers import notes_of, value_of

import sortnet
from sortnet.errors import SortNetError
from sortnet.judges.any_judge import judge_from_file

MODEL = """
model = "qwen3"
server = "https://models.example.org"
key = "MY_KEY"
prompt = "prompts/p.jinja"
request = {temperature = 0.7, stop = ["x"]}
structured = true
both_orders = true
logprobs = false
image_size = 512
price_in = 0.15
price_out = 1
patience = 9
timeout = 2.5
max_calls = 100
max_cost = 5
workers = 8
"""
PROGRAM = """
import json, sys
for line in sys.stdin:
    q = json.loads(line)
    side = "left" if q["left"]["text"] > q["right"]["text"] else "right"
    print(json.dumps({"answer": side, "p": 0.1, "meta": [1]}), flush=True)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SORTNET_STORE", "s.db")
    monkeypatch.delenv("SORTNET_KEY", raising=False)
    return tmp_path


def program(code: str = PROGRAM) -> str:
    Path("judge.py").write_text(code)
    return f"{shlex.quote(sys.executable)} -S -E judge.py"


def number(text: str) -> float:
    return float(text.split()[-1])


def test_a_file_has_all_of_a_language_model():
    Path("judges").mkdir()
    Path("judges/qwen.toml").write_text(MODEL)
    judge = sortnet.LanguageModel.from_file("judges/qwen.toml")
    assert judge == judge_from_file("judges/qwen.toml") == sortnet.LanguageModel(
        "qwen3", "https://models.example.org", key="MY_KEY", prompt="judges/prompts/p.jinja",
        request={"temperature": 0.7, "stop": ["x"]}, structured=True, both_orders=True,
        logprobs=False, image_size=512, price_in=0.15, price_out=1, patience=9, timeout=2.5,
        max_calls=100, max_cost=5, workers=8,
    )  # fmt: skip
    defaults = sortnet.LanguageModel("", "")
    for field in fields(judge):
        assert getattr(judge, field.name) != getattr(defaults, field.name), field.name


def test_the_text_null_leaves_a_parameter_of_the_request_out(folder):
    Path("j.toml").write_text(
        'model = "judge"\nserver = "http://localhost"\nrequest = {temperature = "null", seed = 1}\n'
    )
    model = sortnet.LanguageModel.from_file("j.toml")
    assert model.request == {"temperature": None, "seed": 1}


def test_a_file_with_a_command_is_a_program():
    judge_file(command="python judge.py", timeout=3, workers=2, batch=4, patience=5)
    expected = sortnet.Program("python judge.py", timeout=3, workers=2, batch=4, patience=5)
    assert judge_from_file("judge.toml") == sortnet.Program.from_file("judge.toml") == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "No such file"),
        ("model =", "is no TOML"),
        ("model = 'm'", "server is missing"),
        ("server = 'http://localhost'", "model is missing"),
        ("commmand = 'cat'", "unknown key 'commmand'; known are model, server, key,"),
        ("command = 'cat'\nmodel = 'm'", "unknown key 'model'; known are command, timeout,"),
        ("command = 3", "command: 3 is no text"),
        ('command = "\'"', "No closing quotation"),
        ("command = 'cat'\nbatch = 0", "batch: 0 is no whole number from 1"),
        ("model = 3", "model: 3 is no text"),
        ("key = 3", "key: give the name of an environment variable"),
        ("key = 'sk-abcdef123456'", "key: give the name of an environment variable"),
        ("request = 'warm'", "request: 'warm' is no dict"),
        ("request = {api_key = 'abcdef'}", "'api_key' looks like a secret"),
        ("structured = 1", "structured: 1 is neither true nor false"),
        ("image_size = 1", "image_size: 1 is no whole number from 16"),
        ("price_in = -1", "price_in: -1 is no number from 0"),
        ("patience = 'long'", "patience: 'long' is no number from 0"),
        ("timeout = 0", "timeout: 0 is no number above 0"),
        ("max_calls = 1.5", "max_calls: 1.5 is no whole number from 1"),
        ("max_cost = 1", "max_cost needs price_in or price_out"),
        ("workers = 65", "workers: 65 is no whole number from 1 to 64"),
    ],
)
def test_a_file_that_cannot_be_is_refused_in_one_line(text, why):
    if text is not None:
        is_whole = "server" in text or "command" in text or text.startswith("model = '")
        if not is_whole:
            needed = {"model": "'m'", "server": "'http://localhost'"}
            rest = [f"{key} = {value}\n" for key, value in needed.items() if key not in text]
            text = "".join(rest) + text
        Path("j.toml").write_text(text)
    done("items", "add", "t", items())
    said = fault("label", "t", "--judge", "j.toml")
    assert "judge j.toml: " in said and why in said and "abcdef" not in said
    with pytest.raises(SortNetError, match=r"^judge j\.toml: "):
        judge_from_file("j.toml")


def test_a_folder_and_a_pipe_are_no_files(folder):
    Path("j.toml").mkdir()
    with pytest.raises(SortNetError, match="is a folder, not a file"):
        judge_from_file("j.toml")


def items() -> str:
    rows = [f"t{k},text number {k}\n" for k in range(8)]
    Path("t.csv").write_text("".join(["id,text\n", *rows]))
    return "t.csv"


def test_options_replace_the_values_of_the_file_and_a_prompt_is_beside_it():
    done("items", "add", "t", items())
    model = Model(number)
    with serving(model) as url:
        Path("judges").mkdir()
        Path("judges/p.jinja").write_text(
            "<A>\n{{ left.text }}\n</A> or <B>\n{{ right.text }}\n</B>"
        )
        file = judge_file("judges/j.toml", model="other", prompt="p.jinja", max_calls=9)
        options = ("--model", "judge", "--server", url, "--max-calls", 3, "--json")
        [row] = value_of(done("label", "t", *file, *options), "labelled")
    assert (row["annotator"], row["calls"]) == ("judge", 3)
    assert all(" or <B>" in prompt for prompt in model.prompts)


def test_doctor_asks_a_model_one_question():
    model = Model(float)
    with serving(model) as url:
        command = ("doctor", *judge_file(server=url, price_in=1, price_out=2, workers=4))
        found = value_of(done(*command, "--json"), "judge")
        text = done(*command)
        by_options = value_of(done("doctor", "--model", "judge", "--server", url, "--json"))
    assert len(model.prompts) == 3 and by_options["cost"] is None
    assert (found["judge"], found["to"], found["answer"]) == ("judge", url, "right")
    assert found["p"] < 0.1 and found["calls"] == 1 and not found["structured"]
    assert found["cost"] == pytest.approx((found["tokens_in"] + 2 * found["tokens_out"]) / 1e6)
    assert text.startswith(f"judge at {url} answered in ") and "JSON schema  no" in text
    assert not Path("s.db").exists()


def test_doctor_asks_a_program():
    found = value_of(done("doctor", "--judge", program(), "--json"), "judge")
    assert (found["answer"], found["p"], found["calls"]) == ("right", 0.1, 0)
    assert found["to"] == program()
    wrong = program(PROGRAM.replace(" > ", " < "))
    notes = notes_of(done("doctor", "--judge", wrong, "--json"))
    assert notes == ["the answer to an easy question is left, not right"]


def test_doctor_says_in_one_line_why_a_judge_cannot_be_asked():
    for judge, words in (
        (judge_file("m.toml", server="http://127.0.0.1:9"), "refused"),
        (judge_file("c.toml", command="./no-such"), "cannot start './no-such'"),
        (
            judge_file("p.toml", command=program("input(); print(1, flush=True)")),
            "not a line of JSON",
        ),
        (judge_file("s.toml", server="http://example.com"), "needs https"),
    ):
        result = invoke("doctor", *judge, "--json")
        assert result.exit_code == 1, result.output
        assert words in value_of(result.stdout, "judge")["fault"]
    assert "--model needs --server" in fault("doctor", "--model", "m")
    assert "judge none.toml: No such file" in fault("doctor", "--judge", "none.toml")
    with serving(Model(float, logprobs=False, said=lambda letter: "who knows")) as url:
        result = invoke("doctor", *judge_file(server=url))
    assert result.exit_code == 1 and "who knows" in result.stdout
