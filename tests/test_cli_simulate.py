"""`sortnet experiment simulate`: table, JSON and plot; files of votes, whatever words they use."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from cli_helpers import done, fault, invoke
from collection_helpers import made_items
from PIL import Image
from result_helpers import value_of

from cli.inputs.votes import read_votes
from sortnet.errors import DataError
from sortnet.lab.simulated_annotators import simulate, summary

ITEMS = "id,text,price\n" + "".join(
    f"i{k},{'good ' * k}argument number {k}.,{9 - k}\n" for k in range(8)
)


@pytest.fixture(autouse=True)
def folder(here) -> None:
    """An empty working folder with items, and three votes a pair that longer is better."""

    Path("items.csv").write_text(ITEMS)
    rows = [f"i{i}\ti{j}\tr{k}\ta2\n" for i, j in combinations(range(8), 2) for k in range(3)]
    Path("votes.tsv").write_text("arg1\targ2\trater\tvalue\n" + "".join(rows))


def test_the_table_shows_means_and_errors_of_what_was_simulated():
    shown = invoke(
        "experiment", "simulate", "--items", 6, "--seeds", 4, "--budget", 9, "--strategy", "random"
    )
    assert "spearman: Spearman, to the truth\n" in shown.stderr
    header, line = shown.stdout.splitlines()
    assert header.split() == ["strategy", "questions", "spearman", "rmse", "ms"]
    figures = summary(simulate(["random"], [9], n=6, seeds=4), ["rmse"], ["questions"]).iloc[0]
    assert f" {figures['rmse']:.3f} ± {figures['rmse_se']:.3f} " in line


def test_the_plot_is_a_picture_of_the_kind_its_name_says():
    typed = ("experiment", "simulate", "--items", 4, "--seeds", 2, "--strategy", "merge-sort")
    done(*typed, "--plot", "a.png")
    with Image.open("a.png") as image:
        assert image.format == "PNG" and image.width > 600
        assert np.asarray(image.convert("L")).std() > 5
    done(*typed, "--plot", "a.svg")
    assert "questions" in Path("a.svg").read_text()


def test_votes_of_a_file_are_asked_for_and_the_rest_is_foretold():
    typed = ("--protocol", "votes", "--votes", "votes.tsv", "--items-file", "items.csv")
    rows = value_of(done("experiment", "simulate", *typed, "--budget", 30, "--seeds", 3, "--json"))
    assert [row["strategy"] for row in rows] == ["default", "random"]
    for row in rows:
        assert row["questions"] == 30 and row["accuracy"] > 0.8


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (("--protocol", "votes"), "the protocol votes needs --votes FILE and --items-file FILE"),
        (("--strategy", "guess"), "unknown strategy 'guess'; known are default,"),
        (("--outside", "1"), "--outside"),
        (("--plot", "a.doc"), "plots are written as .png"),
    ],
)
def test_what_cannot_be_simulated_is_one_line(typed, words):
    assert words in fault("experiment", "simulate", "--seeds", "1", *typed)
    assert not Path("a.doc").exists()


UNDONE = '{{"number": {}, "left": "i0", "right": "i1", "answer": "{}", "undoes": {}}}\n'
VOTES = {
    "w.csv": (
        "Left,right,annotator,answer\ni0,i1,ana,left\ni0,i1,bob,i1\ni2,i1,bob,TIE\n"
        "i2,i1,cy,skip\ni3,i1,cy,2\n",
        [("i0", "i1", 1.0), ("i0", "i1", 0.0), ("i2", "i1", 0.5), ("i3", "i1", 0.0)],
    ),
    "an item called 1 is an item before it is the first one.csv": (
        "left,right,winner\n2,1,1\n",
        [("2", "1", 0.0)],
    ),
    "undone.jsonl": (
        UNDONE.format(1, "left", "null") + UNDONE.format(2, "tie", "null")
        + UNDONE.format(3, "undo", 1),
        [("i0", "i1", 0.5)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", VOTES)
def test_votes_are_read_in_the_words_of_many_files(name):
    text, expected = VOTES[name]
    Path(name).write_text(text)
    ids = ("i0", "i1", "i2", "i3", "1", "2")
    known, group = read_votes(Path(name), made_items(6, ids=ids))
    read = zip(known.left, known.right, known.target.tolist(), strict=True)
    assert [(ids[left], ids[right], target) for left, right, target in read] == expected
    assert group is None


def test_each_group_of_votes_can_be_a_collection_of_its_own():
    Path("g.csv").write_text(
        "Topic,left,right,answer\nx,i0,i1,left\ny,i2,i3,right\nz,i1,i0,skip\nx,i1,i0,tie\n"
    )
    assert read_votes(Path("g.csv"), made_items(4), "topic")[1].tolist() == [0, 1, 0]
    with pytest.raises(DataError, match="there is no column 'prompt'"):
        read_votes(Path("g.csv"), made_items(4), "prompt")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("left,right,answer\ni0,i1,left\ni0,i1,maybe\n", "line 3: unknown answer 'maybe'"),
        ("left,right,answer\ni0,i1,skip\n", "has no votes"),
        (
            "left,right,winner\ni0,i1,0\ni1,i0,1\ni0,i1,skip\n",
            "v.csv: the answers are 0 and 1 only, and 0 would be a tie: write left or right",
        ),
    ],
)
def test_a_fault_in_a_file_of_votes_is_named_with_its_line(text, words):
    Path("v.csv").write_text(text)
    with pytest.raises(DataError, match=words):
        read_votes(Path("v.csv"), made_items(2))
