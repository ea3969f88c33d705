"""sortnet annotators agreement: alpha and own consistency, each with its number."""

from __future__ import annotations

import pytest
from cli_helpers import done, fault, invoke
from collection_helpers import made_items
from result_helpers import value_of

from sortnet.preference import Judgement
from sortnet.preference.study import Decision
from store import open_store


@pytest.fixture(autouse=True)
def store(here):
    with open_store("s.db") as store:
        yield store


def test_alpha_and_consistency_are_those_computed_by_hand(store) -> None:
    plain = store.add_items("plain", made_items(3))
    plain.append([
        Judgement.of("ana", (0, 1), "left"), Judgement.of("ben", (1, 0), "right"),
        Judgement.of("ana", (1, 2), "left"), Judgement.of("ben", (1, 2), "right"),
        Judgement.of("ana", (1, 0), "right"), Judgement.of("ana", (2, 1), "left"),
        Judgement.of("ana", (2, 0), "left"), Judgement.of("ana", (2, 0), "left"),  # as at first
        Judgement.of("ben", (0, 2), "skip"), Judgement.of("eve", (0, 1), "right"),
        *[Judgement.of("ana", (1, 2), "left")] * 2,  # as at first: now 1 is over 2, by 3 to 2
    ])  # fmt: skip
    plain.decide(Decision("exclude", "eve"))
    # Both ways round: 1 1, 0 0, 1 0 and 0 1, so alpha = 1 - (8 - 1) * 4 / (64 - 16 - 16).
    assert value_of(done("annotators", "agreement", "plain", "--json")) == {
        "collection": "plain",
        "krippendorff_alpha": 0.125,
        "shared_pairs": 2,
        "consistency": 0.8,
        "repeats": 5,
        "groups": [],
    }
    result = invoke("annotators", "agreement", "plain")
    assert result.stdout.splitlines()[1].split() == ["plain", "0.12", "2", "0.80", "5"]
    assert "1 is perfect, 0 is chance" in result.stderr


def test_each_group_has_its_own_figures_the_least_alpha_first(store) -> None:
    grouped = store.add_items("grouped", made_items(4, groups=("y\x1b[2J",) * 2 + ("x",) * 2))
    for who, word in (("ana", "left"), ("ben", "left"), ("cy", "right")):
        grouped.append([Judgement.of(who, (0, 1), "left"), Judgement.of(who, (2, 3), word)])
    groups = value_of(done("annotators", "agreement", "grouped", "--json"))["groups"]
    assert [(g["group"], g["krippendorff_alpha"], g["shared_pairs"]) for g in groups] == [
        ("x", pytest.approx(1 - 5 * 4 / 18), 1), ("y\x1b[2J", 1.0, 1)
    ]  # fmt: skip
    *_, of_x, of_y = done("annotators", "agreement", "grouped").splitlines()
    assert of_x.split() == ["x", "-0.11", "1", "-", "0"] and "\x1b" not in of_y


def test_nothing_to_compare_is_one_line(store) -> None:
    store.add_items("new", made_items(3))
    result = invoke("annotators", "agreement", "new")
    assert (result.stdout, result.exit_code, result.stderr.count("\n")) == ("", 0, 1)
    assert "new: nothing to compare yet, no pair has two annotators" in result.stderr
    assert "no collection 'typo'" in fault("annotators", "agreement", "typo")
