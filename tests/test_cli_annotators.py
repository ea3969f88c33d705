"""`sortnet annotators`, `items retire` and what the other commands say after a decision."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from cli_helpers import done, fault, invoke
from result_helpers import value_of

from cli.terminal.asking import TOO_LATE, Asking
from sortnet.preference.study import Decision
from store import open_store
from store.service.labelling import LabellingService

IDS = [f"t{k:02}" for k in range(16)]
JUDGE = """
import json, sys

for line in sys.stdin:
    pair = json.loads(line)
    longer = len(pair["left"]["text"]) > len(pair["right"]["text"])
    print(json.dumps({"answer": "left" if longer == LONGER else "right"}), flush=True)
"""


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    """A folder with a collection `texts`, of which no two are of the same length."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SORTNET_STORE", "store.db")
    monkeypatch.setenv("COLUMNS", "200")
    lines = [f"{name},{'word ' * (3 * k + 1)}" for k, name in enumerate(IDS)]
    Path("texts.csv").write_text("\n".join(["id,text", *lines]) + "\n")
    Path("gold.csv").write_text("winner,loser\nt15,t00\nt12,t03\n")
    for name, longer in (("good", True), ("bad", False)):
        Path(f"{name}.py").write_text(JUDGE.replace("LONGER", str(longer)))
    done("items", "add", "texts", "texts.csv")
    return tmp_path


def answer(who: str, judge: str, number: int) -> None:
    program = f"{sys.executable} {judge}.py"
    done("label", "texts", "--judge", program, "--as", who, "--number", number)


def vote(who: str, pairs: list[tuple[int, int]]) -> None:
    """Import answers (winner, loser)."""
    lines = [f"{IDS[winner]},{IDS[loser]}" for winner, loser in pairs]
    Path("votes.csv").write_text("\n".join(["winner,loser", *lines]) + "\n")
    done("judgements", "import", "texts", "votes.csv", "--as", who)


def report(who: str) -> dict[str, object]:
    reports = value_of(done("annotators", "texts", "--json"))
    return next(report for report in reports if report["name"] == who)


def ranked() -> list[str]:
    return [row["id"] for row in value_of(done("ranking", "texts", "--json"))]


def test_a_bad_annotator_is_named_excluded_and_included_again(home):
    near = [(k, k - d) for d in (1, 2, 3) for k in range(d, 16)]
    for who in ("ana", "ben"):
        vote(who, near)
    good = ranked()
    assert good[:3] == ["t15", "t14", "t13"]
    vote("eve", [(loser, winner) for winner, loser in near])
    with_eve = ranked()
    shown = invoke("annotators", "texts")
    assert "inverted" in shown.stdout.splitlines()[3]
    assert "sortnet annotators exclude texts eve --reason inverted" in shown.stderr
    assert [report(name)["verdict"] for name in ("ana", "ben", "eve")] == ["", "", "inverted"]
    done("annotators", "exclude", "texts", "eve", "--reason", "inverted")
    assert ranked() == good
    assert (report("eve")["state"], report("eve")["reason"]) == ("excluded", "inverted")
    assert "by 2 people" in invoke("ranking", "texts").stderr
    assert "(excluded)" in done("judgements", "list", "texts")
    assert "excluded already" in fault("annotators", "exclude", "texts", "eve")
    done("annotators", "exclude", "texts", "eve", "--undo")
    assert ranked() == with_eve


@pytest.mark.parametrize(
    ("kind", "why"), [("exclude", "no more questions: ana is excluded"), ("pause", "ana is paused")]
)
def test_somebody_at_the_terminal_is_told_with_the_next_answer(home, kind, why):
    with open_store() as store:
        service = LabellingService(store.collection("texts"))
        front = Deciding(service, kind)
        assert why in Asking(service, "ana").run(front, None)
        assert front.told == ["stored: left", TOO_LATE]
        assert len(service.judgements()) == 1


class Deciding:
    """Answers at a terminal; at the second question somebody decides."""

    def __init__(self, service, kind):
        self.service, self.kind, self.told = service, kind, []

    def ask(self, question, annotator, status_line):
        if self.told:
            self.service.collection.decide(Decision(self.kind, "ana"))
        return question.answered(annotator, "left", milliseconds=1)

    def notify(self, text):
        self.told.append(text)

    def confirm(self, text, *expected):
        return "undo"  # which is refused


def test_gold_pairs_are_mixed_in_and_scored(home):
    told = done("annotators", "gold", "texts", "gold.csv", "--rate", "1")
    assert told == "texts: 2 gold pairs; 100% of the questions, as far as there are some\n"
    for who, judge, score in (("ana", "good", 1.0), ("eve", "bad", 0.0)):
        answer(who, judge, 8)
        found = report(who)
        assert (found["gold_answers"], found["gold"]["value"]) == (2, score)
    again = invoke("annotators", "gold", "texts", "gold.csv")
    assert again.stderr == "2 pairs of gold.csv already known\n"
    done("annotators", "gold", "texts", "gold.csv", "--remove")
    assert report("ana")["gold"] is None


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ("winner,loser\nt01,t99\n", "gold.csv, line 2: the collection has no item 't99'"),
        ("left,right,answer\nt01,t02,tie\n", "line 2: the answer of a gold pair is left or right"),
        ("winner,loser\nt01,t02\nt02,t01\n", "line 3: an earlier line has the other answer"),
        ("a,b\n1,2\n", "line 2: needs left, right and answer, or winner and loser"),
        ("winner,loser\nt01,t14\n", "line 2: item 't01' is of group 'x', but 't14' of 'y'"),
    ],
)
def test_a_bad_file_of_gold_pairs_is_one_line_and_changes_nothing(home, lines, why):
    rows = [f"{name},words,{'x' if name < 't08' else 'y'}" for name in IDS]
    Path("grouped.csv").write_text("\n".join(["id,text,topic", *rows]) + "\n")
    Path("gold.csv").write_text(lines)
    add = "items", "add", "other", "grouped.csv", "--group", "topic", "--gold", "gold.csv"
    assert why in fault(*add)
    assert [row["name"] for row in value_of(done("items", "list", "--json"))] == ["texts"]
    if "group" not in why:
        assert why in fault("annotators", "gold", "texts", "gold.csv")


def test_a_retired_item_is_not_ranked_until_it_is_restored(home):
    answer("ana", "good", 6)
    before = ranked()
    assert done("items", "retire", "texts", "t07") == "t07: retired from texts\n"
    assert ranked() == [name for name in before if name != "t07"]
    assert "item 't07' is retired already" in fault("items", "retire", "texts", "t07")
    assert "item 't07' is retired: " in fault("label", "texts", "--as", "ana", "--place", "t07")
    done("items", "restore", "texts", "t07")
    assert ranked() == before


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ("annotators nothing", "no collection 'nothing'"),
        ("annotators exclude texts zoe", "has no annotator 'zoe'; known: none yet"),
        ("annotators exclude texts", "Missing argument 'ANNOTATOR'"),
        ("annotators gold texts --rate 2", "2.0 is not in the range"),
        ("annotators gold texts", "FILE of gold pairs or --rate"),
        ("annotators pause texts --undo", "the collection is not paused"),
        ("items retire texts t99", "no item 't99'"),
    ],
)
def test_what_cannot_be_decided_is_one_line(home, args, why):
    assert why in fault(*args.split())


def test_a_collection_named_as_an_action_is_listed_by_list(home):
    done("items", "add", "exclude", "texts.csv")
    assert "no annotators yet" in invoke("annotators", "list", "exclude").stderr
