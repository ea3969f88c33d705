"""Programs, functions and language models that are asked about more than two items."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest
from cli_helpers import done, fault
from collection_helpers import made_items
from language_model_server import Model, serving
from result_helpers import value_of

import sortnet
from sortnet.errors import SortNetError
from sortnet.preference import Judgement
from store import open_store

N = 12
TEXTS = [f"text number {k}" for k in range(N)]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    """An empty working folder; the store is s.db in it, with a study of fours."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SORTNET_STORE", "s.db")
    monkeypatch.delenv("SORTNET_KEY", raising=False)
    rows = ["id,text", *(f"t{k},{text}" for k, text in enumerate(TEXTS))]
    Path("t.csv").write_text("\n".join(rows) + "\n")
    done("items", "add", "c", "t.csv")
    done("ask", "c", "--set-size", 4)
    return tmp_path


def score(text: str) -> int:
    return int(text.split()[-1])


def model(**named) -> Model:
    return Model(score, **named)


def judgements(store: str = "s.db", name: str = "c") -> list[Judgement]:
    with open_store(store) as opened:
        return list(opened.collection(name).judgements())


def assert_right(answers: list[Judgement], *, worst: bool = True) -> None:
    """The best and worst are those of the highest and the lowest number."""
    for one in answers:
        if len(one.items) == 2:
            assert one.word == ("left" if one.left > one.right else "right")
            continue
        assert (one.word, one.best) == ("best", max(one.items))
        assert one.worst == (min(one.items) if worst else None)


def label(url: str, *args: object) -> dict:
    common = ("label", "c", "--model", "judge", "--server", url, "--json")
    (row,) = value_of(done(*common, *args), "labelled")
    return row


def test_the_size_is_set_shown_and_refused():
    with open_store("s.db") as store:
        store.add_items("few", made_items(3))
    (asked,) = value_of(done("ask", "few", "--json"))
    assert (asked["set_size"], asked["worst"]) == (2, False)
    assert "a question" not in done("ask", "few")
    assert "items         3 a question: the best and the worst" in done(
        "ask", "few", "--set-size", "3"
    )
    assert "items         3 a question: the best\n" in done("ask", "few", "--no-worst")
    assert "a question about 4 items, but there are only 3" in fault("ask", "few", "--set-size", 4)
    assert "a question" not in done("ask", "few", "--set-size", "2")
    for size in (1, 7):
        assert "set-size" in fault("ask", "few", "--set-size", size)


# Language models.


def test_a_model_is_asked_about_four_and_its_answers_are_sets():
    asked = model()
    with serving(asked) as url:
        facts = label(url, "--number", 15)
    assert facts["answered"] == 15 == len(asked.prompts)
    answers = judgements()
    assert_right(answers)
    sets = [one for one in answers if len(one.items) > 2]
    assert len(sets) > 8 and 4 in {len(one.items) for one in sets} <= {3, 4}
    for one in sets:
        assert one.p is None and one.comment is None
    with_four = [prompt for prompt in asked.prompts if "<C>" in prompt]
    assert all('"Worst: "' in prompt for prompt in with_four)


def test_a_prompt_of_ones_own_without_items_is_refused_and_one_with_items_is_asked():
    columns = "{% for name, value in left.shown.items() %}{{ name }}{% endfor %}"
    Path("two.jinja").write_text(columns + "{{ left.text }} or {{ right.text }}?")
    asked = model()
    with serving(asked) as url:
        options = ("--model", "judge", "--prompt", "two.jinja")
        for more in (
            ("--number", 3, "--server", url),
            ("--write-batch", "b.jsonl"),
            ("--dry-run", "--server", url),
        ):
            message = fault("label", "c", *options, *more)
            assert "answers about two items, not about 4: list {{ items }} in prompt" in message
            assert len(message.strip().splitlines()) == 1
        assert not asked.prompts and not judgements()
        Path("any.jinja").write_text(
            "{% for item in items %}<{{ item.place }}>\n{{ item.text }}\n</{{ item.place }}>\n"
            "{% endfor %}{% if worst %}Worst: and {% endif %}Best: of {{ items | length }}?"
        )
        label(url, "--number", 8, "--prompt", "any.jinja")
    assert_right(judgements())
    assert {prompt[-5:] for prompt in asked.prompts} <= {"of 4?", "of 3?", "of 2?"}
    assert any(len(one.items) > 2 for one in judgements())


# Programs.

PROGRAM = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    print(json.dumps(answer(asked)), flush=True)
"""
BY_SCORE = """
def score(item):
    return int(item["text"].split()[-1])
def answer(q):
    with open("asked.jsonl", "a") as file:
        file.write(json.dumps(q) + "\\n")
    if "left" in q:
        return {"answer": "left" if score(q["left"]) > score(q["right"]) else "right"}
    order = sorted(q["items"], key=score)
    return {"id": q["id"], "best": order[-1]["place"], "worst": order[0]["place"], "comment": "so"}
"""


def program(code: str = BY_SCORE) -> str:
    Path("judge.py").write_text(f"import json\n{code}{PROGRAM}")
    return f"{shlex.quote(sys.executable)} -S -E judge.py"


def test_a_program_reads_items_with_places_and_names_two():
    (facts,) = value_of(
        done("label", "c", "--as", "tool", "--judge", program(), "--number", 12, "--json"),
        "labelled",
    )
    assert facts["answered"] == 12
    assert_right(judgements())
    asked = [json.loads(line) for line in Path("asked.jsonl").read_text().splitlines()]
    of_sets = [line for line in asked if "items" in line]
    assert len(of_sets) == sum(len(one.items) > 2 for one in judgements()) > 6
    assert of_sets == asked  # all questions of a study have one size
    for line in of_sets:
        assert "".join(item["place"] for item in line["items"]) in ("ABC", "ABCD")
        assert line["worst"] is True
        assert {"place", "id", "text"} <= {*line["items"][0]}
    assert all(one.comment == "so" for one in judgements() if len(one.items) > 2)


# Functions.


@pytest.mark.parametrize("set_size", [2, 4])
def test_the_number_of_a_place_means_the_same_about_two_items(set_size):
    def judge(*items: str) -> int:
        return max(range(len(items)), key=lambda place: score(items[place]))

    found = sortnet.sort(
        TEXTS, judge=judge, set_size=set_size, max_calls=16, store="f.db", name="f", progress=False
    )
    assert found.answered == 16
    assert_right(judgements("f.db", "f"), worst=False)


@pytest.mark.parametrize(
    ("judge", "size", "why"),
    [
        (lambda left, right: "left", 4, "answers about two items, not about 4: set the size to 2"),
        (lambda a, b, c, d: 0, 4, "that two items cannot be passed to"),
        (lambda *items: 0, 9, "set_size: 9 is no whole number from 2 to 6"),
        (lambda *items: 0, True, "set_size: True is no whole number"),
        (lambda *items: 0, 6, "a question about 6 items, but there are only 5"),
    ],
)
def test_what_sort_cannot_ask_a_function_is_refused_in_one_line(judge, size, why):
    with pytest.raises(SortNetError, match=why) as refused:
        sortnet.sort(TEXTS[:5], judge=judge, set_size=size, store="f.db")
    assert "\n" not in str(refused.value) and not Path("f.db").exists()
