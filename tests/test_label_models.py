"""Several language models in one call of `sortnet label`, each an annotator of its own."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import nullcontext, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from cli_helpers import done, fault, invoke
from language_model_server import Model, serving
from result_helpers import value_of
from starlette.responses import JSONResponse

from store import open_store
from store.asking.machine import EndReason
from store.asking.service_questions import ask_in_turn

N = 10


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SORTNET_STORE", "s.db")
    monkeypatch.delenv("SORTNET_KEY", raising=False)
    rows = ["id,text", *(f"t{k},text number {k}" for k in range(N))]
    Path("t.csv").write_text("\n".join(rows) + "\n")
    done("items", "add", "t", "t.csv")
    return tmp_path


class Several(Model):
    """A server of several models, of which some fail; `asked` are their names in order."""

    def __init__(self, *names: str, fails: tuple[str, ...] = (), **facts) -> None:
        super().__init__(lambda text: float(text.split()[-1]), **facts)
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


def judgements() -> list:
    with open_store("s.db") as store:
        assert store.collection("t").leases() == []
        return list(store.collection("t").judgements())


def test_models_answer_in_turn_each_under_its_own_name():
    model = Several("a", "b", "c")
    with serving(model) as url:
        rows = value_of(done(*command(url, "a", "b", "c"), "--number", 30, "--json"), "labelled")
    assert [(row["annotator"], row["answered"], row["calls"]) for row in rows] == [
        ("a", 10, 10), ("b", 10, 10), ("c", 10, 10),
    ]  # fmt: skip
    assert model.asked == ["a"] * 10 + ["b"] * 10 + ["c"] * 10
    by = Counter(judgement.annotator for judgement in judgements())
    assert by == {"a": 10, "b": 10, "c": 10}
    assert all(json.loads(j.meta)["model"] == j.annotator for j in judgements())
    marked = value_of(done("annotators", "list", "t", "--json"))
    assert [(row["name"], row["model"]) for row in marked] == [(name, True) for name in "abc"]


def test_a_model_that_fails_leaves_nobody_and_the_others_go_on():
    with serving(Several("a", "c", fails=("b",))) as url:
        result = invoke(*command(url, "a", "b", "c"), "--number", 12, "--json")
    assert result.exit_code == 2
    rows = {row["annotator"]: row for row in value_of(result.stdout)}
    assert rows["a"]["answered"] + rows["c"]["answered"] == 12 and rows["b"]["answered"] == 0
    assert rows["b"]["end"] == "fault" and "no such model" in rows["b"]["fault"]
    assert "sortnet: --model: no such model or address (404)" in result.stderr
    assert {judgement.annotator for judgement in judgements()} == {"a", "c"}
    names = [row["name"] for row in value_of(done("annotators", "list", "t", "--json"))]
    assert names == ["a", "c"]


def test_the_goal_ends_all_and_a_budget_one():
    with open_store("s.db") as store:
        store.collection("t").setting("holdout", 0.9)  # so that a few answers measure the order
    with serving(Several("a", "b")) as url:
        rows = value_of(done(*command(url, "a", "b"), "--max-calls", 3, "--json"))
        assert [(row["calls"], row["end"]) for row in rows] == [(3, "budget"), (3, "budget")]
        text = done(*command(url, "a", "b"), "--until", 0.4)
        rows = value_of(done(*command(url, "a", "b"), "--until", 0.4, "--json"))
    assert "the goal is reached" in text or "wrong" in text
    assert rows[-1]["enough"] is True and rows[-1]["end"] == "goal"
    assert "--number" not in text


def test_a_model_that_was_not_asked_does_not_say_that_nothing_is_left():
    with serving(Several("a", "b")) as url:
        rows = value_of(done(*command(url, "a", "b"), "--number", 1, "--json"))
    assert [(row["answered"], row["end"]) for row in rows] == [(1, "number"), (0, "number")]
    assert all("all pairs" not in row["why"] for row in rows)


def test_each_model_may_have_its_own_server_and_key(monkeypatch):
    monkeypatch.setenv("KEY_A", "key-of-a-server")
    monkeypatch.setenv("KEY_B", "key-of-b-server")
    first, second = Several("a", key="key-of-a-server"), Several("b", key="key-of-b-server")
    with serving(first) as one, serving(second) as other:
        done(
            *("label", "t", "--model", "a", "--server", one, "--key", "KEY_A"),
            *("--model", "b", "--server", other, "--key", "KEY_B", "--number", 4),
        )
    assert (first.asked, second.asked) == (["a", "a"], ["b", "b"])


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (
            ("--model", "a", "--model", "a", "--server", "http://localhost:1"),
            "names, which must differ",
        ),
        (("--model", "a", "--model", "b", "--as", "x"), "--as is for one judge"),
        (
            ("--model", "a", "--server", "http://x", "--server", "http://y"),
            "give one --server for all judges, or one for each",
        ),
        (
            (*("--model", "a", "--model", "b", "--model", "c"), "--key", "K", "--key", "L"),
            "give one --key for all judges, or one for each",
        ),
        (("--model", "a", "--model", "b", "--write-batch", "f"), "needs one language model"),
        (("--judge", "cat", "--judge", "cat"), "names, which must differ"),
        (("--judge", "cat", "--judge", "tac", "--both-orders"), "--both-orders is for a language"),
        (("--model", "a", "--model", "b"), "--model needs --server URL"),
    ],
)
def test_options_that_do_not_go_together_are_named(options, why):
    assert why in fault("label", "t", *options)
    assert judgements() == []


class Scripted:
    """A machine that takes part in turns as a script says; `asked` are the turns of all."""

    def __init__(self, service, name: str, ends: list, asked: list[tuple[str, int | None]]) -> None:
        self.service, self.name, self.ends, self.asked = service, name, ends, asked
        self.answered = 0

    def opened(self):
        return nullcontext()

    def ask(self, number):
        self.asked.append((self.name, number))
        n_answered, self.reason = self.ends.pop(0)
        self.answered += number if n_answered is None else n_answered
        self.service.remaining.stop = self.reason is EndReason.GOAL
        if self.reason is EndReason.INTERRUPTED:
            raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("ends", "number", "turns"),
    [
        ([(None, EndReason.NUMBER)] * 4, 70, [("a", 20), ("b", 20), ("a", 15), ("b", 15)]),
        (
            [(None, EndReason.NUMBER), (7, EndReason.NOTHING_LEFT), (3, EndReason.GOAL)],
            None,
            [("a", 20), ("b", 20), ("a", None)],  # alone, it needs no turns
        ),
        ([(5, EndReason.INTERRUPTED)], None, [("a", 20)]),
        ([(5, EndReason.FAULT), (None, EndReason.NUMBER)], 7, [("a", 4), ("b", 2)]),
    ],
)
def test_rounds_end_with_the_goal_an_interrupt_and_the_number(ends, number, turns):
    asked: list[tuple[str, int | None]] = []
    ends = [*ends, *[(0, EndReason.NOTHING_LEFT)] * 2]
    service = SimpleNamespace(remaining=SimpleNamespace(stop=False), settle=lambda: None)
    machines = [Scripted(service, name, ends, asked) for name in "ab"]
    with suppress(KeyboardInterrupt):
        ask_in_turn(machines, service, number)
    assert asked == turns
