"""Judgements out to files and in again, and every fault with its line."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from collection_helpers import ON_SQLITE, Clock, answer_lease, made_items, question

from sortnet.errors import DataError
from sortnet.preference import Judgement
from store import Collection, Store
from store.collections.judgement_files import (
    FIELDS,
    export_judgements,
    import_judgements,
)

ODD_IDS = ("plain", "a,b", 'say "x"', "line\nbreak", "tab\there", "ünï ☃", "\u2028", " pad ")


def collection_of(store: Store, name: str, ids: tuple[str, ...] = ODD_IDS) -> Collection:
    store.add_items(name, made_items(len(ids), ids=ids))
    return store.collection(name, clock=Clock(1234.000001))


def answers(collection: Collection) -> Collection:
    """Judge a collection: answers under lease about pairs and sets, undos, odd texts."""
    for k in range(7):
        who = ("ana", "bo, jr.")[k % 2]
        (lease,) = collection.lease(who, [question(k, (k + 1) % 7, probability=1 / (k + 3))], 60)
        number = answer_lease(collection, lease, who, "tie" if k == 3 else "left", 100 * k).number
        if k in (2, 5):
            collection.undo(who, number)
    odd = 'Too "long",\nand =odd, \u202eünï'
    collection.append([
        Judgement.of("cy", (0, 7), "cant-say", comment=odd, flagged=True),
        Judgement.of("cy", (7, 1), "skip", at=0.1, comment="0"),
        Judgement.of("ana", (7, 1, 3, 0), "best", milliseconds=900, best=3, worst=7, cost=0.25),
        Judgement.of("ana", (1, 2, 3), "best", best=1),
        Judgement.of("bo", (4, 5, 0, 1, 2, 3), "same", comment="alike"),
    ])  # fmt: skip
    collection.undo("ana", 12)
    return collection


def exported(collection: Collection, form: str = "jsonl") -> str:
    file = io.StringIO(newline="")
    export_judgements(collection, file, form)  # type: ignore[arg-type]
    return file.getvalue()


def votes(collection: Collection) -> list[tuple[object, ...]]:
    frame = collection.judgements_frame()
    frame["best"] = frame["best"].astype(object).where(frame["best"].notna(), None)
    return list(frame[["annotator", "items", "answer", "best"]].itertuples(index=False, name=None))


@pytest.mark.parametrize("form", ["jsonl", "csv"])
@pytest.mark.parametrize("ids", [ODD_IDS, ("=a", "+b", "'=c", "-d", "@e", '["f"]', "[", "null")])
def test_export_import_export_is_the_same_byte_for_byte(
    store: Store, tmp_path: Path, form: str, ids: tuple[str, ...]
) -> None:
    first, second = answers(collection_of(store, "first", ids)), collection_of(store, "second", ids)
    one, other = tmp_path / f"one.{form}", tmp_path / f"other.{form}"
    one.write_text(exported(first, form), newline="")
    assert import_judgements(first, one) == (0, 15)
    assert import_judgements(second, one) == (15, 0)
    other.write_text(exported(second, form), newline="")
    assert other.read_bytes() == one.read_bytes()
    assert second.judgements() == first.judgements()


@ON_SQLITE
def test_the_lines_say_what_the_judgements_say(store: Store) -> None:
    collection = answers(collection_of(store, "args"))
    objects = [json.loads(line) for line in exported(collection).split("\n")[:-1]]
    ids = collection.judgement_ids()
    for judgement, id, facts in zip(collection.judgements(), ids, objects, strict=True):
        expected = dict(vars(judgement), id=id, excluded=False)
        expected["items"] = [ODD_IDS[item] for item in judgement.items]
        for choice in ("best", "worst"):
            item = expected[choice]
            expected[choice] = None if item is None else ODD_IDS[item]
        assert facts == expected and [*facts] == [*FIELDS, "excluded"]


def test_an_undo_that_is_new_finds_its_judgement_that_is_known(
    store: Store, tmp_path: Path
) -> None:
    first, second = collection_of(store, "first"), collection_of(store, "second")
    second.append([Judgement.of("dee", (0, 1), "right")] * 3)
    first.append([Judgement.of("ana", (1, 2), "left"), Judgement.of("ana", (2, 3), "left")])
    (tmp_path / "f.jsonl").write_text(exported(first))
    import_judgements(second, tmp_path / "f.jsonl")
    first.undo("ana", 1)
    first.append([Judgement.of("ana", (4, 5), "tie")])
    first.undo("ana", 4)
    (tmp_path / "f.jsonl").write_text(exported(first))
    assert import_judgements(second, tmp_path / "f.jsonl") == (3, 2)
    assert [(j.number, j.undoes) for j in second.judgements()][5:] == [(6, 4), (7, None), (8, 7)]


def write(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


OTHERS = [
    ("v.csv", "annotator,left,right,answer\nana,a,b,left\nbo,b,3,tie\n"),
    ("v.csv", "\ufeffleft,note,right,answer,annotator\r\na,,b,left,ana\r\nb,x,3,tie,bo"),
    ("v.tsv", "annotator\tleft\tright\tanswer\nana\ta\tb\tleft\n\nbo\tb\t3\ttie\n"),
    (
        "v.jsonl",
        '{"annotator": "ana", "left": "a", "right": "b", "answer": "left"}\n\n'
        '{"left": "b", "right": 3, "answer": "tie", "annotator": "bo", "why": []}',
    ),
    (
        "v.json",
        '{"a": "a", "b": "b", "vote": "A1", "annotator": "ana"}\n'
        '{"a": "b", "b": "3", "vote": "EQUAL", "annotator": "bo"}',
    ),
    ("v.csv", "Arg1,Arg2,Annotator,winner\na,b,ana,a\nb,3,bo,0\n"),
    ("v.csv", "Annotator, LEFT, Right, Answer\nana, a, b, left\n bo ,b , 3, Tie\n"),
    ("v.csv", "ANNOTATOR,Item1,Item2,Best,Answer\nana,a,b,a,\nbo,b,3,,tie\n"),
    ("v.csv", "Annotator,Winner,Loser,left,right,answer\nana,,,a,b,left\nbo,,,b,3,tie\n"),
    (
        "v.csv",
        "winner,loser,label,annotator,left,right,answer\n,,x,ana,a,b,left\n,,y,bo,b,3,tie",
    ),
]


@ON_SQLITE
def test_little_is_needed_of_other_programs_files(store: Store, tmp_path: Path) -> None:
    for number, (name, text) in enumerate(OTHERS):
        collection = collection_of(store, f"args {number}", ("a", "b", "3"))
        path = write(tmp_path, name, text)
        assert import_judgements(collection, path) == (2, 0)
        assert votes(collection) == [
            ("ana", ["a", "b"], "best", "a"),
            ("bo", ["b", "3"], "same", None),
        ]
        (first, _) = collection.judgements()
        assert (first.strategy, first.probability, first.milliseconds, first.at) == (
            "given", 1.0, None, None,
        )  # fmt: skip
        assert import_judgements(collection, path) == (0, 2)


@ON_SQLITE
def test_a_winner_is_put_on_either_side_and_wins(store: Store, tmp_path: Path) -> None:
    collection = collection_of(store, "args", tuple(f"i{k}" for k in range(40)))
    lines = "".join(f"i{k},i{k + 1}\n" for k in range(39))
    path = write(tmp_path, "v.csv", f"Winner,LOSER\n{lines}")
    assert import_judgements(collection, path, annotator="crowd") == (39, 0)
    judgements = [*collection.judgements()]
    assert [judgement.best for judgement in judgements] == list(range(39))
    n_left = [judgement.word for judgement in judgements].count("left")
    assert 8 <= n_left <= 31, "less likely than one in 5,000 by coin tosses"


@ON_SQLITE
def test_equal_lines_count_as_often_as_one_file_has_them(store: Store, tmp_path: Path) -> None:
    collection = collection_of(store, "args", ("a", "b"))
    head = "left,right,answer\n"
    two = write(tmp_path, "two.csv", head + "a,b,left\n" * 2)
    three = write(tmp_path, "three.csv", head + "a,b,left\n" * 3 + "a,b,right\n")
    for who in ("ana", "ben"):  # who has answered for themselves
        assert import_judgements(collection, two, annotator=who) == (2, 0)
        assert import_judgements(collection, three, annotator=who) == (2, 2)


HEAD = "annotator,left,right,answer"
GOOD = '{"annotator": "ana", "left": "a", "right": "b", "answer": "left"'


FAULTS = [
    ("f.csv", f"{HEAD}\nana,a,b,left\nana,a,zz,left\n", 3, "the collection has no item 'zz'"),
    ("f.csv", f"{HEAD}\nana,a,b,better\n", 2, "unknown answer 'better'; known are left, "),
    ("f.csv", f"{HEAD}\nana,a,a,left\n", 2, "item 'a' cannot be compared with itself"),
    ("f.csv", "left,right\na,b\n", 2, "needs left, right and answer, or winner and loser"),
    ("f.csv", "left,right,answer\na,b,left\n", 2, "no annotator: add the column"),
    ("f.csv", f"{HEAD}\n \x07,a,b,left\n", 2, "annotator '\\x07': a name has 1 to 200"),
    ("f.csv", f"{HEAD},milliseconds\nana,a,b,left,-5\n", 2, "milliseconds '-5' is not a whole"),

    ("f.csv", f"{HEAD},at\nana,a,b,left,yesterday\n", 2, "at 'yesterday' is not a number"),
    ("f.csv", f'{HEAD}\nana,"a\n\n",b,left\n', 2, "no item 'a\\n\\n'"),
    ("f.jsonl", f'{GOOD}}}\n{GOOD}, "ri', 2, "half a line, the file was cut"),
    ("f.jsonl", f'{GOOD}, "winner": "a", "loser": "b"}}\n', 1, "has both answer and winner, loser"),
    ("f.jsonl", f'{GOOD}, "probability": NaN}}\n', 1, "probability nan is not a number"),


    ("f.jsonl", f'{GOOD}, "number": 1e400}}\n', 1, "number inf is not a whole number"),
    ("f.jsonl", f'{GOOD}, "strategy": ["x"]}}\n', 1, "strategy ['x'] is not a text"),
    ("f.jsonl", f'{GOOD}, "id": "a\\u0000"}}\n', 1, "id 'a\\x00' is not a text"),
    ("f.jsonl", f'{GOOD}, "id": "a b"}}\n', 1, "id 'a b' is not a text of at most 64 letters"),
    ("f.jsonl", f'{GOOD}, "id": "x"}}\n' * 2, 2, "id 'x' is already in "),
    ("f.jsonl", f'{GOOD}, "number": 4}}\n' * 2, 2, "number 4 is already in "),
    ("f.jsonl", f'{GOOD}, "undoes": 4}}\n', 1, "`undoes` must be set if and only if"),
    ("f.jsonl", GOOD.replace('"left"', '"undo"').replace('"undo":', '"left":') + "}\n",
     1, "`undoes` must be set if and only if"),
]  # fmt: skip


def numbered(number: int, who: str = "ana", undoes: int | None = None) -> str:
    answer = "left" if undoes is None else "undo"
    return (
        json.dumps(
            {"number": number, "annotator": who, "left": "a", "right": "b", "answer": answer,
             "undoes": undoes}
        )
        + "\n"
    )  # fmt: skip


WRONG_UNDOS = [
    (
        numbered(1) + numbered(2, undoes=3) + numbered(3),
        "line 2: an undo of judgement 3, which",
    ),
    (
        numbered(1) + numbered(2, undoes=2),
        "line 2: an undo of judgement 2, which no earlier line",
    ),
    (numbered(1) + numbered(2, "bo", undoes=1), "is not 'bo''s to undo"),
    (
        numbered(1) + numbered(2, undoes=1) + numbered(3, undoes=2),
        "line 3: judgement 2 is an undo",
    ),
    (
        numbered(1) + numbered(2, undoes=1) + numbered(3, undoes=1),
        "judgement 1 is undone al",
    ),
]


@ON_SQLITE
def test_what_was_undone_here_since_cannot_be_undone_by_a_file(
    store: Store, tmp_path: Path
) -> None:
    collection = collection_of(store, "args", ("a", "b"))
    import_judgements(collection, write(tmp_path, "f.jsonl", numbered(1)))
    collection.undo("ana", 1)
    path = write(tmp_path, "g.jsonl", numbered(1) + numbered(2, undoes=1))
    with pytest.raises(DataError, match=r"g\.jsonl: judgement 1 is undone already"):
        import_judgements(collection, path)
    assert len(collection.judgements()) == 2


@ON_SQLITE
@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_a_file_cut_anywhere_is_refused_or_is_the_lines_before_the_cut(
    store: Store, tmp_path: Path, form: str
) -> None:
    whole = exported(answers(collection_of(store, "whole")), form).encode()
    collection = collection_of(store, "cut")
    first = whole.index(b"\n") + 1  # the header of a CSV
    for end in range(first, first + 600, 17):
        path = write(tmp_path, f"cut.{form}", whole[:end])
        try:
            import_judgements(collection, path)
        except DataError as error:
            assert str(error).startswith(str(path))
        else:
            assert b"\n" in (whole[end - 1 : end], whole[end : end + 1])
    known = collection.judgements()
    assert known == store.collection("whole").judgements()[: len(known)]


@ON_SQLITE
def test_chosen_is_what_most_people_chose_of_what_was_not_undone(store: Store) -> None:
    items = made_items(4, groups=("x",) * 4, contexts=("X?",) * 4)
    collection = store.add_items("args", items)
    said = [
        Judgement.of("ana", (1, 0), "left"), Judgement.of("bo", (0, 1), "right"),
        Judgement.of("cy", (0, 1), "left"), Judgement.of("cy", (0, 1), "left"),  # one vote
        Judgement.of("ana", (2, 3), "left"), Judgement.of("bo", (2, 3), "right"),  # 1 to 1
        Judgement.of("ana", (0, 2), "tie"), Judgement.of("bo", (0, 2), "right"),
        Judgement.of("ana", (1, 3), "skip"), Judgement.of("bo", (1, 3), "left"),
    ]  # fmt: skip
    collection.append(said)
    collection.undo("bo", len(said))
    records = map(json.loads, exported(collection, "chosen").splitlines())
    assert [(record["chosen_id"], record["rejected_id"]) for record in records] == [
        ("i1", "i0"), ("i2", "i0"),
    ]  # fmt: skip


@ON_SQLITE
def test_groups_and_contexts_are_exported_and_pairs_across_them_refused(
    store: Store, tmp_path: Path
) -> None:
    items = made_items(4, groups=("x", "x", "y", "y"), contexts=("X?", "X?", None, None))
    collection = store.add_items("one", items)
    collection.append([Judgement.of("ana", (0, 1), "left"), Judgement.of("ana", (3, 2), "left")])
    lines = [json.loads(line) for line in exported(collection).splitlines()]
    assert [(line["group"], line["context"]) for line in lines] == [("x", "X?"), ("y", None)]
    prompts = [json.loads(line)["prompt"] for line in exported(collection, "chosen").splitlines()]
    assert prompts == ["X?", "y"]
    path = tmp_path / "across.csv"
    path.write_text("left,right,answer\ni0,i1,left\ni1,i2,left\n")
    with pytest.raises(DataError, match=r"across\.csv, line 3: item 'i1' is of group 'x', but"):
        import_judgements(collection, path, annotator="ana")
    assert len(collection.judgements()) == 2


def test_pairs_and_sets_of_0_4_are_read(store: Store, tmp_path: Path) -> None:
    collection = collection_of(store, "args", ("a", "b", "c"))
    text = (
        "id,number,annotator,left,right,answer,items,best,worst\n"
        'x1,1,ana,a,b,right,,,\nx2,2,ana,,,best,"[""a"", ""b"", ""c""]",c,a\n'
    )
    assert import_judgements(collection, write(tmp_path, "f.csv", text)) == (2, 0)
    assert votes(collection) == [
        ("ana", ["a", "b"], "best", "b"),
        ("ana", ["a", "b", "c"], "best", "c"),
    ]


SET_FAULTS = {
    '"items": ["i0", "i1", "i0"], "best": "i0"': "item 'i0' cannot be compared with itself",
    '"items": ["i0", "i1", "i2"], "best": "i0", "worst": "i0"': "cannot be the best and the worst",
    '"items": ["i0", "i1", "i2"], "best": "i3"': "best 'i3' is none of the items in question",
    '"items": ["i0", "i1", "i2"], "best": "i0", "worst": "i3"': "worst 'i3' is none of the items",
    '"items": ["i0", "i1", "z"], "best": "i0"': "the collection has no item 'z'",
    '"items": ["i0"], "best": "i0"': "is no list of 2 to 6 ids",
    '"items": ["i0", "i1", "i2", "i3", "i4", "i5", "i6"], "best": "i0"': "is no list of 2 to 6 ids",
    '"items": ["i0", "i1", "i2"], "answer": "left"': "'left' is no answer about 3 items",
    '"items": ["i0", "i1", "i2"], "answer": "best"': "`best` must be set",
    '"items": ["i0", "i1", "i2"], "answer": "same", "worst": "i0"': "is the worst, but none is",
    '"items": ["i0", "i1", "i2"], "answer": "good"': "unknown answer 'good'",
    '"items": ["i0", "i1", "i2"], "best": "i0", "p": 0.7': "a p is for two items, and there are 3",
    '"items": ["i0", "i1", "i2"]': "needs left, right and answer, or winner and loser, or items",
}


@ON_SQLITE
def test_items_without_text_cannot_be_chosen(store: Store) -> None:
    bare = store.add_items("bare", made_items(2, texts=(None, "x")))
    bare.append([Judgement.of("ana", (0, 1), "left")])
    with pytest.raises(DataError, match="item 'i0' has no text"):
        exported(bare, "chosen")


@ON_SQLITE
def test_an_error_names_its_line_and_nothing_is_imported(store: Store, tmp_path: Path) -> None:
    collection = collection_of(store, "args", ("a", "b", *(f"i{k}" for k in range(8))))
    undos = [("f.jsonl", text, "", fault) for text, fault in WRONG_UNDOS]
    sets = [
        ("f.jsonl", f'{{"annotator": "ana", {facts}}}', 1, fault)
        for facts, fault in SET_FAULTS.items()
    ]
    for name, text, line, fault in (*FAULTS, *undos, *sets):
        path = write(tmp_path, name, text)
        with pytest.raises(DataError) as caught:
            import_judgements(collection, path)
        message = str(caught.value)
        assert message.startswith(f"{path}, line {line}") and fault in message
        assert "\n" not in message and len(message) < 400 + len(str(path))
    assert collection.judgements() == [] and collection.annotators() == []
