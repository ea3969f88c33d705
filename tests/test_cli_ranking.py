"""sortnet ranking: everything in order, as a table, CSV and JSON."""

from __future__ import annotations

from io import StringIO

import pandas as pd
import pytest
from cli_helpers import done, fault, invoke
from collection_helpers import made_items
from result_helpers import value_of

from sortnet.preference import Judgement
from store import open_store
from store.service.labelling import LabellingService

COLUMNS = ["rank", "id", "score", "low", "high", "judgements"]
EVIL = "\x1b[2Jevil\u202e"


def answers(who: str, pairs: list[tuple[int, int]]) -> list[Judgement]:
    return [Judgement.of(who, pair, "left") for pair in pairs * 8]


@pytest.fixture(autouse=True)
def store(here, monkeypatch):
    """The store s.db in a working folder: six items, 5 best and 0 worst; and two groups of three
    items, of each of which the second is best.
    """

    monkeypatch.setenv("COLUMNS", "80")
    texts = ("a long story " * 99, "two\nlines\t here", EVIL, None, "four", "five")
    with open_store("s.db") as store:
        collection = store.add_items("c", made_items(6, d=0, texts=texts))
        pairs = [(k + 1, k) for k in range(5)]
        collection.append([*answers("ana", pairs), *answers("bo", pairs)])
        collection.append([Judgement.of("ana", (1, 0), "right", strategy="random")])
        collection.undo("ana", 1)
        grouped = store.add_items("g", made_items(6, d=0, groups=("q1", "q2") * 3))
        grouped.append(answers("ana", [(2, 0), (3, 1), (0, 4), (1, 5)]))
        yield store


def test_table_csv_and_json_have_rank_score_and_interval_of_the_session(store):
    ranking = LabellingService(store.collection("c")).session.ranking()
    columns = ranking.rank, ranking.score, ranking.low, ranking.high, ranking.judgements
    rows = zip(*(column.tolist() for column in columns), strict=True)
    facts = sorted((rank, f"i{k}", *others) for k, (rank, *others) in enumerate(rows))
    expected = pd.DataFrame(facts, columns=COLUMNS)
    assert value_of(done("ranking", "c", "--json")) == expected.to_dict("records")
    header, first, *others = done("ranking", "c").splitlines()
    best = facts[0]
    assert header == "rank  id  score  90 %  judged"
    cells = ["1", "i5", f"{best[2]:.2f}", f"{best[3]}-{best[4]}", str(best[5])]
    assert first.split()[:5] == cells
    assert [line.split()[1] for line in others] == ["i4", "i3", "i2", "i1", "i0"]
    assert "\ufffd[2Jevil\ufffd" in others[2]  # no control sequences
    assert others[4].endswith("...") and len(others[4]) == 80
    assert done("ranking", "c", "--top", "1").splitlines() == [header, first]


def test_one_line_beside_it_says_how_far_it_is_and_more_is_behind_an_option():
    message = invoke("ranking", "c").stderr
    assert message.startswith("6 items, 80 answers by 2 people; ")
    checks = "the goal seems to be reached, and 1 of 8 hold-out answers are there to check it"
    assert message.endswith(f"{checks}: 20 answers left\n")
    first, *others = invoke("ranking", "c", "--verbose").stderr.splitlines()
    assert first == message.strip()
    assert "of the pairs are expected to be in the wrong order" in others[0]
    assert "of 1 hold-out answer correctly" in others[-1]


def test_few_answers_none_and_parts_that_were_never_compared_are_told(store):
    new = store.add_items("new", made_items(4, d=0))
    result = invoke("ranking", "new")
    assert len(result.stdout.splitlines()) == 5
    assert result.stderr == "no judgements yet: sortnet label new\n"
    new.append([Judgement.of("ana", (0, 1), "left")])
    (line,) = invoke("ranking", "new").stderr.splitlines()
    assert line.startswith("4 items, 1 answer by 1 person; ") and "left" in line
    new.append(answers("ana", [(2, 3)]))
    told = invoke("ranking", "new").stderr
    assert "4 items fall into 2 sets without any answer between the sets, so their order" in told


def test_ranks_are_of_each_group():
    frame = pd.read_csv(StringIO(done("ranking", "g", "--format", "csv")))
    assert list(frame.columns) == ["group", *COLUMNS]
    assert frame["rank"].tolist() == [1, 2, 3] * 2
    assert frame["id"].tolist() == ["i2", "i0", "i4", "i3", "i1", "i5"]
    result = invoke("ranking", "g", "--group", "q2", "--top", "1")
    (line,) = result.stdout.splitlines()[1:]
    assert line.split()[:3] == ["q2", "1", "i3"]
    assert "q2: 3 items, 16 answers; " in result.stderr


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (("d",), "no collection 'd'"),
        (("c", "--top", "0"), "--top"),
        (("c", "--output", "s.db/out"), "s.db"),
        (("g", "--group", "q3"), "no group 'q3'; groups: q1, q2"),
        (("c", "--group", "q3"), "no group 'q3'; groups: none (items add --group)"),
    ],
)
def test_what_cannot_be_is_one_line(args, why):
    assert why in fault("ranking", *args)
