"""sortnet judgements: listed, exported, imported."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from cli_helpers import done, fault, invoke
from collection_helpers import answer_lease, made_items, question
from result_helpers import value_of

from sortnet.preference import Judgement
from store import open_store


@pytest.fixture(autouse=True)
def folder(here) -> None:
    """An empty working folder; the store is s.db in it, with two collections, one judged."""

    with open_store("s.db") as store:
        store.add_items("copy", made_items(5))
        args = store.add_items("args", made_items(5))
        (lease,) = args.lease("ana", [question(3, 1)], 60)
        answer_lease(args, lease, "ana", "left", 1250)
        args.append([Judgement.of("bo", (0, 2), "tie")])
        args.undo("ana", 1)


def test_judgements_are_listed_with_what_became_of_them():
    result = invoke("judgements", "list", "args")
    _, first, second, third = result.stdout.splitlines()
    assert first.split()[:8] == ["1", "ana", "i3,", "i1", "best", "i3", "(undone)", "1.2"]
    assert second.split() == ["2", "bo", "i0,", "i2", "same", "-", "-"]
    assert third.split()[:7] == ["3", "ana", "i3,", "i1", "undo", "of", "1"]
    assert result.stderr == "1 answer of 1 annotator\n"
    result = invoke("judgements", "list", "args", "--limit", "1")
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["judgement", "3"]
    assert "2 older ones not shown" in result.stderr
    first, *_ = value_of(done("judgements", "list", "args", "--json"))
    assert first["undone"] and first["milliseconds"] == 1250 and first["at"].endswith("+00:00")


def test_nothing_said_yet_is_said():
    result = invoke("judgements", "list", "copy")
    assert (result.stdout, result.exit_code) == ("", 0)
    assert "sortnet label copy" in result.stderr
    assert value_of(done("judgements", "list", "copy", "--json")) == []


def test_an_export_without_answers_is_said_and_preferences_without_answers_are_refused():
    result = invoke("judgements", "export", "copy", "--format", "csv", "-o", "none.csv")
    assert result.stderr == "none.csv: 0 judgements of copy yet: sortnet label copy\n"
    assert done("judgements", "import", "copy", "none.csv") == "copy: 0 judgements added\n"
    message = fault("judgements", "export", "copy", "--format", "chosen", "-o", "none.jsonl")
    assert "copy: nobody has answered yet, so there is no chosen item" in message
    assert not Path("none.jsonl").exists()
    message = fault("judgements", "export", "args", "--format", "chosen")  # a tie and an undo
    assert "args: no pair has a majority of answers yet" in message
    assert done("judgements", "export", "args", "-o", "out.jsonl") == ""
    assert done("judgements", "import", "copy", "out.jsonl") == "copy: 3 judgements added\n"
    summary = value_of(done("judgements", "import", "copy", "out.jsonl", "--json"))
    assert summary == {"collection": "copy", "added": 0, "known": 3}


def test_formulas_stay_formulas_if_asked_and_are_read_as_they_were():
    with open_store("s.db") as store:
        odd, _ = (store.add_items(name, made_items(2, ids=("=1", "'=1"))) for name in ("odd", "b"))
        odd.append([Judgement.of("-2", (0, 1), "left", comment="'-1")])
    raw = done("judgements", "export", "odd", "--format", "csv", "--raw")
    (row,) = csv.DictReader(io.StringIO(raw))
    facts = [row[name] for name in ("item1", "item2", "annotator", "comment")]
    assert facts == ["=1", "'=1", "-2", "'-1"]
    Path("raw.csv").write_text(raw)
    done("judgements", "import", "b", "raw.csv")
    assert done("judgements", "export", "b") == done("judgements", "export", "odd")
    assert "--raw is for --format csv, not jsonl" in fault("judgements", "export", "odd", "--raw")


def test_a_file_of_another_name_is_read_as_it_is_said():
    Path("votes").write_text("left,right,answer\ni0,i1,left\n")
    assert "say which format" in fault("judgements", "import", "copy", "votes")
    assert "no annotator: add the column" in fault(
        "judgements", "import", "copy", "votes", "--format", "csv"
    )
    done("judgements", "import", "copy", "votes", "--format", "csv", "--as", "ana")
    (row,) = csv.DictReader(io.StringIO(done("judgements", "export", "copy", "--format", "csv")))
    assert (row["annotator"], row["item1"], row["answer"], row["best"]) == (
        "ana",
        "i0",
        "best",
        "i0",
    )


def test_files_of_other_tools_are_imported_and_their_faults_are_one_line():
    battle = {"model_a": "i0", "model_b": "i1", "winner": "model_b", "judge": "eve"}
    Path("b.json").write_text(json.dumps([battle]))
    assert done("judgements", "import", "copy", "b.json") == "copy: 1 judgements added\n"
    Path("b.json").write_text(json.dumps([{**battle, "model_a": "vicuna"}]))
    assert "has the id or text 'vicuna'" in fault("judgements", "import", "copy", "b.json")
    value = {"type": "pairwise", "from_name": "pw", "value": {"selected": "right"}}
    task = {"data": {"one": "text 0", "two": "text 1"}, "annotations": [{"result": [value]}]}
    Path("t.json").write_text(json.dumps([task]))
    named = ("judgements", "import", "copy", "t.json", "--as", "ana")
    assert "--fields LEFT RIGHT" in fault(*named)
    assert "1 judgements added" in done(*named, "--fields", "two", "one")
    assert value_of(done("judgements", "list", "copy", "--json"))[-1]["items"] == ["i1", "i0"]
