"""`sortnet ask`, and what other commands make of a collection with criteria."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cli_helpers import done, fault
from result_helpers import value_of

HELPFUL, HONEST = "replies:helpful", "replies:honest"
RULES = "# Rules\n\nRead *both*."


@pytest.fixture
def home(here) -> None:
    """A folder with a collection `replies` of five texts."""

    rows = "\n".join(f"t{k},{'word ' * (k + 1)}" for k in range(5))
    Path("texts.csv").write_text(f"id,text\n{rows}\n")
    Path("rules.md").write_text(RULES + "\n")
    done("items", "add", "replies", "texts.csv")


@pytest.fixture
def two(home) -> None:
    """The same with two criteria."""
    done("ask", "replies", "--criterion", "helpful", "--question", "Which is more helpful?")
    done("ask", "replies", "--criterion", "honest", "--question", "Which is more honest?")


def asked(name: str = "replies") -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in value_of(done("ask", name, "--json"))}


def test_what_is_asked_can_be_changed_and_taken_back(home) -> None:
    before = asked()["replies"]
    assert before["question"] == "Which is better?" and not before["instructions"]
    words = ("--question", "Which is shorter?", "--instructions", "rules.md", "--goal", 0.2)
    done("ask", "replies", *words, "--deadline", "2030-01-01T00:00+00:00")
    now = asked()["replies"]
    assert (now["question"], now["instructions"], now["goal"]) == ("Which is shorter?", RULES, 0.2)
    assert now["deadline"] == "2030-01-01T00:00:00+00:00"
    done("ask", "replies", "--question", "", "--instructions", "none", "--deadline", "none")
    assert asked()["replies"] == before | {"goal": 0.2}


def test_criteria_have_questions_of_their_own_and_common_instructions(two) -> None:
    done("ask", "replies", "--instructions", "rules.md")
    done("ask", HONEST, "--goal", 0.3)
    found = asked()
    assert [each["question"] for each in found.values()] == [
        "Which is more helpful?",
        "Which is more honest?",
    ]
    assert {each["instructions"] for each in found.values()} == {RULES}
    assert (found[HELPFUL]["goal"], found[HONEST]["goal"]) == (None, 0.3)
    assert list(asked(HONEST)) == [HONEST]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("ask", "replies", "--question", "x"), "has criteria: give one of"),
        (("ask", HELPFUL, "--question", "x" * 10_000), "question of 10,000 characters: at most"),
        (("ask", HELPFUL, "--question", "a\nb"), "question of several lines: 'a\\nb'; put them in"),
        (("ask", HELPFUL, "--instructions", "nul.md"), "instructions with a NUL character"),
        (("ask", HELPFUL, "--instructions", "latin.md"), "latin.md: is not UTF-8 text (byte 4)"),
        (("ask", HELPFUL, "--instructions", "gone.md"), "gone.md: No such file"),
        (("ask", HELPFUL, "--deadline", "soon"), "is not a time such as"),
        (("train", "replies", "--out", "m"), "give one of"),
    ],
)
def test_bad_input(two, words: tuple[str, ...], said: str) -> None:
    Path("latin.md").write_bytes(b"caf \xe9")
    Path("nul.md").write_bytes(b"a\0b")
    assert said in fault(*words)
