"""sortnet ranking: everything in order, as a table, CSV and JSON."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pandas as pd
import pytest
from cli_helpers import done, fault, invoke
from collection_helpers import made_items
from result_helpers import notes_of, value_of

from sortnet.preference import Judgement
from store import open_store
from store.service.labelling import LabellingService

COLUMNS = ["rank", "id", "score", "low", "high", "judgements"]
EVIL = "\x1b[2Jevil\u202e"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    """An empty working folder; the store is s.db in it: six items, 5 best and 0 worst."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SORTNET_STORE", "s.db")
    texts = ("a long story " * 99, "two\nlines\t here", EVIL, None, "four", "five")
    with open_store("s.db") as store:
        collection = store.add_items("c", made_items(6, d=0, texts=texts))
        pairs = [(k + 1, k) for k in range(5)] * 8
        answers = [Judgement.of(who, (a, b), "left") for who in ("ana", "bo") for a, b in pairs]
        collection.append([*answers, Judgement.of("ana", (1, 0), "right", strategy="random")])
        collection.undo("ana", 1)
        store.add_items("new", made_items(3))
    return tmp_path


def expected() -> pd.DataFrame:
    """What the session itself says, item by item."""
    with open_store("s.db") as store:
        ranking = LabellingService(store.collection("c")).session.ranking()
    facts = [
        (int(ranking.rank[k]), f"i{k}", float(ranking.score[k]), int(ranking.low[k]),
         int(ranking.high[k]), int(ranking.judgements[k]))
        for k in range(6)
    ]  # fmt: skip
    return pd.DataFrame(sorted(facts), columns=COLUMNS)


def test_the_table_has_rank_score_interval_and_text(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    result = invoke("ranking", "c")
    header, *lines = result.stdout.splitlines()
    assert header == "rank  id  score  90 %  judged"
    for line, row in zip(lines, expected().itertuples(), strict=True):
        cells = [str(row.rank), row.id, f"{row.score:.2f}", f"{row.low}-{row.high}"]
        assert line.split()[:5] == [*cells, str(row.judgements)]
    assert [line.split()[1] for line in lines] == ["i5", "i4", "i3", "i2", "i1", "i0"]
    assert lines[4].endswith("  two lines here")
    assert lines[5].endswith("...") and len(lines[5]) == 80
    assert lines[2].split()[5:] == []


def test_texts_and_ids_cannot_send_control_sequences(folder):
    with open_store("s.db") as store:
        store.add_items("evil", made_items(2, ids=(f"{EVIL} {'x' * 50}", "b"), texts=(EVIL, "b")))
    result = invoke("ranking", "evil")
    assert "\ufffd[2Jevil\ufffd" in result.stdout
    assert not set(result.stdout + result.stderr) & {"\x1b", "\u202e"}


def test_how_far_it_is_is_said_beside_it():
    message = invoke("ranking", "c").stderr
    assert message.startswith("6 items, 80 answers by 2 people; ") and message.count("\n") == 1
    assert message.endswith("the goal seems to be reached: 20 answers left to check the model\n")
    assert len(message.split()) <= 25
    lines = invoke("ranking", "c", "--verbose").stderr.splitlines()
    assert lines[0] == message.strip()
    assert "of the pairs are expected to be in the wrong order" in lines[1]
    assert lines[2].startswith("the model predicts ")
    assert "of 1 hold-out answer correctly" in lines[-1]


def test_far_from_the_goal_one_line_says_what_is_left_and_more_is_behind_an_option():
    with open_store("s.db") as store:
        new = store.collection("new")
        new.append([Judgement.of("ana", (0, 1), "left")])
        lines = invoke("ranking", "new", "--verbose").stderr.splitlines()
        assert lines[-1] == "no hold-out answers yet to check the model"
        new.append([Judgement.of("ana", (0, 2), "left", strategy="random")])
    (line,) = invoke("ranking", "new").stderr.splitlines()
    assert line.startswith("3 items, 2 answers by 1 person; ") and "1 question left" in line
    assert len(line.split()) <= 32


def test_csv_can_be_read_again_and_json_is_one_document():
    frame = pd.read_csv(StringIO(done("ranking", "c", "--format", "csv")), dtype={"id": str})
    pd.testing.assert_frame_equal(frame, expected())
    rows = value_of(done("ranking", "c", "--format", "json"), "ranking")
    assert rows == value_of(done("ranking", "c", "--json"))
    assert rows == expected().to_dict("records")


def test_the_best_alone_can_be_had():
    assert len(done("ranking", "c", "--top", "2").splitlines()) == 3
    assert [row["id"] for row in value_of(done("ranking", "c", "--json", "--top", "1"))] == ["i5"]
    assert len(value_of(done("ranking", "c", "--json", "--top", "99"))) == 6


@pytest.mark.parametrize("form", ["table", "csv", "json"])
def test_a_file_holds_what_stdout_would_and_a_narrow_line_no_text(form, monkeypatch):
    result = invoke("ranking", "c", "--format", form, "--output", "out")
    assert result.stdout == "" and result.stderr.endswith("out: 6 items of c\n")
    assert Path("out").read_text() == done("ranking", "c", "--format", form)
    if form == "table":
        monkeypatch.setenv("COLUMNS", "40")
        assert max(map(len, done("ranking", "c").splitlines())) <= 40


def test_what_nobody_judged_is_ranked_and_said_so():
    result = invoke("ranking", "new")
    assert len(result.stdout.splitlines()) == 4
    assert result.stderr == "no judgements yet: sortnet label new\n"


def test_what_cannot_be_is_one_line():
    assert "no collection 'd'" in fault("ranking", "d")
    assert "--top" in fault("ranking", "c", "--top", "0")
    assert "s.db" in fault("ranking", "c", "--output", "s.db/out")


@pytest.fixture
def grouped(folder) -> None:
    """Two groups of three items; of each the second is best."""
    with open_store("s.db") as store:
        groups, texts = ("q1", "q2") * 3, tuple(f"text {k}" for k in range(6))
        items = made_items(6, d=0, groups=groups, texts=texts)
        collection = store.add_items("g", items)
        pairs = [(2, 0), (3, 1), (0, 4), (1, 5)] * 8
        collection.append([Judgement.of("ana", (a, b), "left") for a, b in pairs])


def test_ranks_are_of_each_group(grouped):
    frame = pd.read_csv(StringIO(done("ranking", "g", "--format", "csv")))
    assert list(frame.columns) == ["group", *COLUMNS]
    assert frame["group"].tolist() == ["q1"] * 3 + ["q2"] * 3
    assert frame["rank"].tolist() == [1, 2, 3] * 2
    assert frame["id"].tolist() == ["i2", "i0", "i4", "i3", "i1", "i5"]
    assert frame["high"].max() <= 3
    lines = done("ranking", "g", "--top", "1").splitlines()
    assert [line.split()[:3] for line in lines] == [
        ["group", "rank", "id"], ["q1", "1", "i2"], ["q2", "1", "i3"]
    ]  # fmt: skip


def test_one_group_can_be_had_alone(grouped):
    result = invoke("ranking", "g", "--group", "q2", "--json")
    assert [row["group"] for row in value_of(result.stdout)] == ["q2"] * 3
    assert any(note.startswith("q2: 3 items, 16 answers; ") for note in notes_of(result.stdout))
    assert "q2: 3 items, 16 answers; " in invoke("ranking", "g", "--group", "q2").stderr
    assert "no group 'q3'; groups: q1, q2" in fault("ranking", "g", "--group", "q3")
    assert "no group 'q3': its items have no groups" in fault("ranking", "c", "--group", "q3")


def test_a_ranking_of_parts_that_were_never_compared_says_so(folder):
    with open_store("s.db") as store:
        collection = store.add_items("parts", made_items(4, d=0))
        collection.append(
            [Judgement.of("ana", (0, 1), "left"), Judgement.of("ana", (2, 3), "left")] * 8
        )
    said = invoke("ranking", "parts").stderr
    assert "4 items fall into 2 sets without any answer between the sets, so their order" in said
    assert "sets" not in invoke("ranking", "c").stderr
