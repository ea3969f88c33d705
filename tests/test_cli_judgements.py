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
def folder(tmp_path, monkeypatch) -> Path:
    """An empty working folder; the store is s.db in it, with two collections, one judged."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SORTNET_STORE", "s.db")
    with open_store("s.db") as store:
        store.add_items("copy", made_items(5))
        args = store.add_items("args", made_items(5))
        (lease,) = args.lease("ana", [question(3, 1)], 60)
        answer_lease(args, lease, "ana", "left", 1250)
        args.append([Judgement.of("bo", (0, 2), "tie")])
        args.undo("ana", 1)
    return tmp_path


def test_judgements_are_listed_with_what_became_of_them():
    result = invoke("judgements", "list", "args")
    header, first, second, third = result.stdout.splitlines()
    assert header.split()[:5] == ["judgement", "annotator", "items", "answer", "seconds"]
    assert first.split()[:8] == ["1", "ana", "i3,", "i1", "best", "i3", "(undone)", "1.2"]
    assert second.split() == ["2", "bo", "i0,", "i2", "same", "-", "-"]
    assert third.split()[:7] == ["3", "ana", "i3,", "i1", "undo", "of", "1"]
    assert result.stderr == "1 answer of 1 annotator\n"
    result = invoke("judgements", "list", "args", "--limit", "1")
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["judgement", "3"]
    assert "2 older ones not shown" in result.stderr
    rows = value_of(done("judgements", "list", "args", "--json"))
    assert [row["number"] for row in rows] == [1, 2, 3]
    assert [row["undone"] for row in rows] == [True, False, False]
    assert [row["undoes"] for row in rows] == [None, None, 1]
    assert rows[0]["milliseconds"] == 1250 and rows[0]["strategy"] == "informative"
    assert rows[0]["at"].endswith("+00:00") and rows[1]["at"] is None


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


def test_spreadsheets_get_no_formulas_unless_asked_and_the_file_is_read_as_it_was():
    ids = ("=1+1", "'=1+1", "@x", "\tx", "plain", "'quoted'", "\uff1dcmd|' /C calc'!A0")
    n = len(ids)
    with open_store("s.db") as store:
        odd = store.add_items("odd", made_items(n, ids=ids))
        for name in ("same", "again"):
            store.add_items(name, made_items(n, ids=ids))
        comments = ["=HYPERLINK(A1)", "\n=1", "'\n=1", "fine", "'fine", "+1", "'-1"]
        odd.append(
            [
                Judgement.of("-2", (k, (k + 1) % n), "left", comment=comment)
                for k, comment in enumerate(comments)
            ]
        )
    form = ("judgements", "export", "odd", "--format", "csv")
    done(*form, "-o", "safe.csv")
    done(*form, "--raw", "-o", "raw.csv")

    def rows(name: str) -> list[dict[str, str]]:
        return list(csv.DictReader(io.StringIO(Path(name).read_bytes().decode(), newline="")))

    safe = rows("safe.csv")
    assert all(cell[:1] not in (*"=+-@\t\r\n\uff1d",) for row in safe for cell in row.values())
    assert [row["item1"] for row in rows("raw.csv")] == list(ids)
    for name, file in (("same", "safe.csv"), ("again", "raw.csv")):
        done("judgements", "import", name, file)
        copy = done("judgements", "export", name)
        assert copy == done("judgements", "export", "odd")
    assert "--raw is for --format csv, not jsonl" in fault(*form[:3], "--raw")


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
    Path("b.json").write_text(json.dumps([battle, {**battle, "winner": "tie (bothbad)"}]))
    assert done("judgements", "import", "copy", "b.json") == "copy: 2 judgements added\n"
    assert "0 judgements added, 2 already" in done("judgements", "import", "copy", "b.json")
    Path("b.json").write_text(json.dumps([{**battle, "model_a": "vicuna"}]))
    assert "has the id or text 'vicuna'" in fault("judgements", "import", "copy", "b.json")
    value = {"type": "pairwise", "from_name": "pw", "value": {"selected": "right"}}
    task = {"data": {"one": "text 0", "two": "text 1"}, "annotations": [{"result": [value]}]}
    Path("t.json").write_text(json.dumps([task]))
    named = ("judgements", "import", "copy", "t.json", "--as", "ana")
    assert "--fields LEFT RIGHT" in fault(*named)
    assert "1 judgements added" in done(*named, "--fields", "two", "one")
    last = value_of(done("judgements", "list", "copy", "--json"))[-1]
    assert (last["items"], last["answer"], last["best"]) == (["i1", "i0"], "best", "i0")
