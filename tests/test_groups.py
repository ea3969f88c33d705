"""Groups: read from files, pairs within them only, rankings of each, graphs in several parts."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sortnet.errors import DataError
from sortnet.items import Columns, Items, merge, read_items, read_with_roles
from sortnet.items.base import lone_groups, read_pairs
from sortnet.preference import Judgement
from sortnet.preference.session import STRATEGIES, Session
from store.service.sentences import details, sets_apart

TABLE = "id,topic,prompt,text\na,x,Why?,one\nb,x,Why?,two\nc,y,How?,three\nd,y,How?,four\n"
ANSWERS = ("left", "right", "tie", "skip", "cant-say")


def written(folder: Path, text: str, name: str = "items.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def grouped(path: Path) -> Items:
    return read_items(path, Columns(group="topic", context="prompt"))


@pytest.mark.parametrize(
    ("table", "named", "message"),
    [
        (TABLE, Columns(group="tpic"), "there is no column 'tpic' in id, topic"),
        (TABLE, Columns(context="prompt"), "--group names its column"),
        (
            TABLE.replace("b,x,Why?", "b,x,Who?"),
            Columns(group="topic", context="prompt"),
            "item 'b' has another context than others of its group 'x': 'Who?'",
        ),
        (TABLE.replace("b,x", "b, "), Columns(group="topic"), ", line 3: the group is missing"),
    ],
)
def test_what_is_no_group_is_refused_with_its_place(tmp_path, table, named, message):
    with pytest.raises(DataError) as error:
        read_items(written(tmp_path, table), named)
    assert message in str(error.value)


def test_items_of_one_group_cannot_have_two_contexts(tmp_path):
    items = grouped(written(tmp_path, TABLE))
    change = written(tmp_path, "id,topic,prompt,text\nb,x,Who?,two\ne,x,Who?,five\n", "more.csv")
    with pytest.raises(DataError, match=r"more\.csv: item 'b' has another context than others"):
        merge(items, grouped(change), update=True)
    with pytest.raises(DataError, match=r"then some items of the collection have a group"):
        merge(items, read_items(written(tmp_path, "id,text\ne,x\nf,y\n", "bare.csv")))
    all_of_it = merge(items, grouped(written(tmp_path, TABLE.replace("Why", "Who"))), update=True)
    assert all_of_it.contexts == ("Who?", "Who?", "How?", "How?")


def test_a_letor_file_is_a_collection_of_its_queries(tmp_path):
    lines = "2 qid:7 1:0.5 2:1 #docid = A\n0 qid:7 1:2 #docid = B\n1 qid:8 1:3 #docid = {}\n"
    items, roles = read_with_roles(written(tmp_path, lines.format("C"), "t.txt"))
    assert (items.ids, items.groups) == (("A", "B", "C"), ("7", "7", "8"))
    assert items.features.tolist() == [[0.5, 1], [2, 0], [3, 0]]
    assert (roles.group, roles.id, roles.ignored) == ("qid", "docid", ("grade",))
    items, roles = read_with_roles(written(tmp_path, lines.format("A"), "t.txt"))
    assert (items.ids, roles.id) == (("7:0", "7:1", "8:2"), "qid:row")
    with pytest.raises(DataError, match="is LETOR text, which has no columns to name"):
        read_items(tmp_path / "t.txt", Columns(group="qid"))


@pytest.mark.parametrize("name", ["p.csv", "p.tsv", "p.jsonl"])
def test_pairs_are_read_each_once(tmp_path, name):
    items = grouped(written(tmp_path, TABLE))
    text = {
        "p.csv": "left,right,by\nb,a,me\na,b,me\nc,d,me\n",
        "p.tsv": "one\ttwo\na\tb\nd\tc\n",
        "p.jsonl": '{"left": "a", "right": "b"}\n{"left": "c", "right": "d"}\n',
    }
    assert read_pairs(written(tmp_path, text[name], name), items).tolist() == [[0, 1], [2, 3]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("left,right\na,b\na,zz\n", ", line 3: there is no item 'zz'"),
        ("left,right\na,c\n", "item 'a' is of group 'x', but 'c' of 'y': pairs are within groups"),
        ("left,right\na,a\n", ", line 2: item 'a' is paired with itself"),
        ("one,two,three\na,b,c\n", "needs the columns left and right, or two only; has one, two"),
        ("left,right\n", ": there is no pair in it"),
    ],
)
def test_pairs_that_cannot_be_asked_are_refused_with_their_line(tmp_path, text, message):
    items = grouped(written(tmp_path, TABLE))
    with pytest.raises(DataError) as error:
        read_pairs(written(tmp_path, text, "p.csv"), items)
    assert message in str(error.value)


@settings(max_examples=25)
@given(st.data())
def test_no_question_leaves_its_group_or_the_pairs_that_are_allowed(data):
    n = data.draw(st.integers(4, 10))
    names = [*data.draw(st.lists(st.sampled_from("ab"), min_size=n - 2, max_size=n - 2)), "a", "a"]
    within = [p for p in combinations(range(n), 2) if names[p[0]] == names[p[1]]]
    some = st.lists(st.sampled_from(within), min_size=1, unique=True)
    among = data.draw(st.none() | some)
    allowed = {*(within if among is None else among)}
    strategy = data.draw(st.sampled_from(sorted(STRATEGIES)))
    session = Session(
        None, n, seed=3, strategy=strategy, groups=names, among=among, holdout=0.3, repeats=0.3
    )
    # Answers to other pairs, as an older store may hold them, are never asked again.
    session.tell(Judgement.of("ana", (0, n - 1), "skip"))
    session.undo("ana")
    leased = set()
    for _ in range(data.draw(st.integers(1, 30))):
        who = data.draw(st.sampled_from(("ana", "ben")))
        questions = session.ask(who, data.draw(st.integers(1, 3)), busy=leased)
        assert {q.pair for q in questions} <= allowed - leased
        if data.draw(st.booleans()):
            session.undo(who)
        elif questions:
            answer = data.draw(st.sampled_from(ANSWERS))
            session.tell(questions[0].answered(who, answer))
        leased = {q.pair for q in questions[1:2]} if data.draw(st.booleans()) else set()


def test_ranks_and_intervals_are_those_within_the_group():
    session = Session(None, 8, seed=0, groups="abababab", repeats=0)
    while questions := session.ask("ana"):
        q = questions[0]
        session.tell(q.answered("ana", "left" if q.left > q.right else "right"))
    ranking = session.ranking()
    assert ranking.order.tolist() == [6, 4, 2, 0, 7, 5, 3, 1]
    assert ranking.rank.tolist() == [4, 4, 3, 3, 2, 2, 1, 1]
    assert (ranking.low >= 1).all() and (ranking.high <= 4).all()
    assert (ranking.low <= ranking.rank).all() and (ranking.rank <= ranking.high).all()


def test_the_share_of_wrong_pairs_is_of_pairs_within_groups_and_of_each_group():
    session = Session(None, 9, seed=0, groups="aaaabbbbc")
    for _ in range(3):
        for i, j in combinations(range(4), 2):
            session.tell(Judgement.of("ana", (j, i), "left"))
    remaining = session.remaining()
    a, b, c = remaining.groups
    assert (a.items, a.answers, b.answers, c.items, c.wrong) == (4, 18, 0, 1, 0.0)
    assert a.wrong < 0.2 and b.wrong > 0.3  # the one is known, the other is not
    assert remaining.wrong == pytest.approx((a.wrong + b.wrong) / 2)
    assert "0 of 3 groups have reached the goal" in details(remaining)
    assert Session(None, 4).remaining().groups == ()


def test_parts_are_joined_by_as_many_answers_as_the_sentence_says():
    session = Session(None, 6, seed=0, holdout=0, repeats=0)
    for pair in ((0, 1), (2, 3), (4, 5)):
        session.tell(Judgement.of("ana", pair, "left"))
    for answers in ("2 answers", "1 answer"):
        assert f"keep answering, at least {answers} must link the sets" in sets_apart(
            session.remaining()
        )
        (asked,) = session.ask("ana")
        session.tell(asked.answered("ana", "left"))
    assert "sets" not in sets_apart(session.remaining())


def test_groups_are_no_parts_of_each_other():
    session = Session(None, 8, groups="aaaabbbb")
    for pair in ((0, 1), (4, 5), (6, 7)):
        session.tell(Judgement.of("ana", pair, "left"))
    assert "4 items of 1 group fall into 2 sets without any answer" in sets_apart(
        session.remaining()
    )
    session.tell(Judgement.of("ana", (4, 6), "left"))
    assert "sets" not in sets_apart(session.remaining())


def test_groups_of_one_item_each_are_refused(tmp_path):
    alone = read_items(written(tmp_path, TABLE), Columns(group="id", id="text"))
    with pytest.raises(DataError, match="each group has one item, such as 'a'"):
        lone_groups(alone)
