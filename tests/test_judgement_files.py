"""Judgements out to files and in again, and every fault with its line."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from collection_helpers import ON_SQLITE, Clock, answer_lease, made_items, question

from sortnet.errors import DataError, SortNetError
from sortnet.preference import Judgement
from sortnet.preference.study import Decision
from store import Collection, Store
from store.collections.judgement_cells import CELL_READERS
from store.collections.judgement_files import (
    FIELDS,
    Imported,
    export_judgements,
    import_judgements,
)
from store.collections.judgement_lines import read_lines

ODD_IDS = ("plain", "a,b", 'say "x"', "line\nbreak", "tab\there", "ünï ☃", "\u2028", " pad ")


def collection_of(store: Store, name: str, ids: tuple[str, ...] = ODD_IDS) -> Collection:
    store.add_items(name, made_items(len(ids), ids=ids))
    return store.collection(name, clock=Clock(1234.000001))


def judged(collection: Collection) -> Collection:
    """With answers under lease, undoes, and judgements that know little of themselves."""
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
    ])  # fmt: skip
    return collection


def exported(collection: Collection, form: str = "jsonl") -> str:
    file = io.StringIO(newline="")
    export_judgements(collection, file, form)  # type: ignore[arg-type]
    return file.getvalue()


def votes(collection: Collection) -> list[tuple[object, ...]]:
    frame = collection.judgements_frame()
    frame["best"] = frame["best"].astype(object).where(frame["best"].notna(), None)
    return list(frame[["annotator", "items", "answer", "best"]].itertuples(index=False, name=None))


def test_every_field_of_a_judgement_is_read_again() -> None:
    assert {*FIELDS} == {*CELL_READERS, "id", "annotator", "items", "answer", "best", "worst"}


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_export_import_export_is_the_same_byte_for_byte(
    store: Store, tmp_path: Path, form: str
) -> None:
    first, second = judged(collection_of(store, "first")), collection_of(store, "second")
    one, other = tmp_path / f"one.{form}", tmp_path / f"other.{form}"
    assert export_judgements(first, one, form) == 11  # type: ignore[arg-type]
    assert import_judgements(first, one) == Imported(0, 11)
    assert import_judgements(second, one) == Imported(11, 0)
    export_judgements(second, other, form)  # type: ignore[arg-type]
    assert other.read_bytes() == one.read_bytes()
    assert second.judgements() == first.judgements()
    assert exported(second, "csv") == exported(first, "csv")


@ON_SQLITE
def test_the_lines_say_what_the_judgements_say(store: Store) -> None:
    collection = judged(collection_of(store, "args"))
    objects = [json.loads(line) for line in exported(collection).split("\n")[:-1]]
    table = list(csv.DictReader(io.StringIO(exported(collection, "csv"), newline="")))
    for judgement, id, facts, row in zip(
        collection.judgements(), collection.judgement_ids(), objects, table, strict=True
    ):
        expected = dict(vars(judgement), id=id, excluded=False)
        expected["items"] = [ODD_IDS[item] for item in judgement.items]
        expected["best"] = None if judgement.best is None else ODD_IDS[judgement.best]
        assert facts == expected
        facts["item1"], facts["item2"] = facts.pop("items")
        assert row == {key: "" if facts[key] is None else str(facts[key]) for key in facts}


def test_a_collection_with_judgements_gets_the_others_behind_them_and_undoes_follow(
    store: Store, tmp_path: Path
) -> None:
    first, second = judged(collection_of(store, "first")), collection_of(store, "second")
    second.append([Judgement.of("dee", (0, 1), "right")] * 4)
    export_judgements(first, tmp_path / "f.jsonl")
    import_judgements(second, tmp_path / "f.jsonl")
    mine, theirs = first.judgements(), second.judgements()[4:]
    assert [j.number for j in theirs] == list(range(5, 16))
    assert [j.undoes and j.undoes - 4 for j in theirs] == [j.undoes for j in mine]
    assert votes(second)[4:] == votes(first)


def test_an_undo_that_is_new_finds_its_judgement_that_is_known(
    store: Store, tmp_path: Path
) -> None:
    first, second = collection_of(store, "first"), collection_of(store, "second")
    second.append([Judgement.of("dee", (0, 1), "right")] * 3)
    first.append([Judgement.of("ana", (1, 2), "left"), Judgement.of("ana", (2, 3), "left")])
    export_judgements(first, tmp_path / "f.jsonl")
    import_judgements(second, tmp_path / "f.jsonl")
    first.undo("ana", 1)
    first.append([Judgement.of("ana", (4, 5), "tie")])
    first.undo("ana", 4)
    export_judgements(first, tmp_path / "f.jsonl")
    assert import_judgements(second, tmp_path / "f.jsonl") == Imported(3, 2)
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
    ("v.csv", "Arg1,Arg2,annotator,winner\na,b,ana,a\nb,3,bo,0\n"),
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
        assert import_judgements(collection, path) == Imported(2, 0)
        assert votes(collection) == [
            ("ana", ["a", "b"], "best", "a"),
            ("bo", ["b", "3"], "same", None),
        ]
        (first, _) = collection.judgements()
        assert (first.strategy, first.probability, first.milliseconds, first.at) == (
            "given", 1.0, None, None,
        )  # fmt: skip
        assert import_judgements(collection, path) == Imported(0, 2)


@ON_SQLITE
def test_numbers_as_spreadsheets_write_them_are_read(store: Store, tmp_path: Path) -> None:
    collection = collection_of(store, "args", ("a", "b"))
    text = "annotator,left,right,answer,milliseconds,at\nana,a,b,left,900.0,1e3\n"
    import_judgements(collection, write(tmp_path, "v.csv", text))
    (judgement,) = collection.judgements()
    assert (judgement.milliseconds, judgement.at) == (900, 1000.0)


@ON_SQLITE
def test_a_winner_is_put_on_either_side_and_wins(store: Store, tmp_path: Path) -> None:
    ids = tuple(f"i{k}" for k in range(40))
    collection = collection_of(store, "args", ids)
    lines = "".join(f"i{k},i{k + 1}\n" for k in range(39))
    path = write(tmp_path, "v.csv", f"winner,loser\n{lines}")
    assert import_judgements(collection, path, annotator="crowd") == Imported(39, 0)
    answers = [j.word for j in collection.judgements()]
    assert 8 <= answers.count("left") <= 31, "less likely than one in 5,000 by coin tosses"
    for k, j in enumerate(collection.judgements()):
        assert (j.left if j.word == "left" else j.right) == k
        assert j.pair == (k, k + 1)


@ON_SQLITE
def test_equal_lines_of_two_annotators_count_for_both(store: Store, tmp_path: Path) -> None:
    collection = collection_of(store, "args", ("a", "b"))
    path = write(tmp_path, "a.csv", "left,right,answer\na,b,left\n")
    for who in ("ana", "ben"):
        assert import_judgements(collection, path, annotator=who) == Imported(1, 0)
        assert import_judgements(collection, path, annotator=who) == Imported(0, 1)
    assert [j.annotator for j in collection.judgements()] == ["ana", "ben"]


def test_equal_lines_count_as_often_as_one_file_has_them(store: Store, tmp_path: Path) -> None:
    collection = collection_of(store, "args", ("a", "b"))
    head = "annotator,left,right,answer\n"
    two = write(tmp_path, "two.csv", head + "ana,a,b,left\n" * 2)
    three = write(tmp_path, "three.csv", head + "ana,a,b,left\n" * 3 + "ana,a,b,right\n")
    assert import_judgements(collection, two) == Imported(2, 0)
    assert import_judgements(collection, three) == Imported(2, 2)


HEAD = "annotator,left,right,answer"
GOOD = '{"annotator": "ana", "left": "a", "right": "b", "answer": "left"'


FAULTS = [
    ("f.csv", f"{HEAD}\nana,a,b,left\nana,a,zz,left\n", 3, "the collection has no item 'zz'"),
    ("f.csv", f"{HEAD}\nana,a,b,better\n", 2, "unknown answer 'better'; known are left, "),
    ("f.csv", f"{HEAD}\nana,a,a,left\n", 2, "item 'a' cannot be compared with itself"),
    ("f.csv", "left,right\na,b\n", 2, "needs left, right and answer, or winner and loser"),
    ("f.csv", "left,right,answer\na,b,left\n", 2, "no annotator: add the column"),
    ("f.csv", f"{HEAD}\n a,a,b,left\n", 2, "annotator ' a': a name has 1 to 200"),
    ("f.csv", f"{HEAD},milliseconds\nana,a,b,left,-5\n", 2, "milliseconds '-5' is not a whole"),
    ("f.csv", f"{HEAD},milliseconds\nana,a,b,left,1.5\n", 2, "milliseconds '1.5' is not a"),
    ("f.csv", f"{HEAD},at\nana,a,b,left,yesterday\n", 2, "at 'yesterday' is not a number"),
    ("f.csv", f'{HEAD}\nana,"a\n\n",b,left\n', 2, "no item 'a\\n\\n'"),
    ("f.jsonl", f'{GOOD}}}\n{GOOD}, "ri', 2, "half a line, the file was cut"),
    ("f.jsonl", f'{GOOD}, "winner": "a", "loser": "b"}}\n', 1, "has both answer and winner, loser"),
    ("f.jsonl", f'{GOOD}, "probability": NaN}}\n', 1, "probability nan is not a number"),
    ("f.jsonl", f'{GOOD}, "probability": 1.01}}\n', 1, "probability 1.01 is not a number"),
    ("f.jsonl", f'{GOOD}, "model": true}}\n', 1, "model True is not a whole number"),
    ("f.jsonl", f'{GOOD}, "number": 1e400}}\n', 1, "number inf is not a whole number"),
    ("f.jsonl", f'{GOOD}, "strategy": ["x"]}}\n', 1, "strategy ['x'] is not a text"),
    ("f.jsonl", f'{GOOD}, "id": "a\\u0000"}}\n', 1, "id 'a\\x00' is not a text"),
    ("f.jsonl", f'{GOOD}, "id": "a b"}}\n', 1, "id 'a b' must have letters and digits"),
    ("f.jsonl", f'{GOOD}, "id": "x"}}\n' * 2, 2, "id 'x' is already in "),
    ("f.jsonl", f'{GOOD}, "number": 4}}\n' * 2, 2, "number 4 is already in "),
    ("f.jsonl", f'{GOOD}, "undoes": 4}}\n', 1, "`undoes` must be set if and only if"),
    ("f.jsonl", GOOD.replace('"left"', '"undo"').replace('"undo":', '"left":') + "}\n",
     1, "`undoes` must be set if and only if"),
]  # fmt: skip


@ON_SQLITE
def test_an_error_names_its_line_and_nothing_is_imported(store: Store, tmp_path: Path) -> None:
    collection = collection_of(store, "args", ("a", "b"))
    for name, text, line, fault in FAULTS:
        path = write(tmp_path, name, text)
        with pytest.raises(DataError) as caught:
            import_judgements(collection, path)
        message = str(caught.value)
        assert message.startswith(f"{path}, line {line}: ") and fault in message
        assert "\n" not in message and len(message) < 400 + len(str(path))
    assert collection.judgements() == [] and collection.annotators() == []


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
def test_an_invalid_undo_is_refused_with_its_line(store: Store, tmp_path: Path) -> None:
    collection = collection_of(store, "args", ("a", "b"))
    for text, fault in WRONG_UNDOS:
        with pytest.raises(DataError, match=fault):
            import_judgements(collection, write(tmp_path, "f.jsonl", text))
    assert collection.judgements() == []


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
    whole = exported(judged(collection_of(store, "whole")), form).encode()
    ends = {0, *(k + 1 for k, byte in enumerate(whole) if byte == ord("\n"))}
    collection = collection_of(store, "cut")
    start = whole.index(b"\n") + 1  # the header of a CSV
    for end in range(start, start + 400, 7):
        path = write(tmp_path, f"cut.{form}", whole[:end])
        try:
            import_judgements(collection, path)
        except DataError as error:
            assert str(error).startswith(str(path))
        else:
            assert end in ends or (form == "jsonl" and end + 1 in ends)
    known = collection.judgements()
    assert known == store.collection("whole").judgements()[: len(known)]


@ON_SQLITE
def test_a_file_of_unknown_kind_is_named(store: Store, tmp_path: Path) -> None:
    collection = collection_of(store, "args", ("a", "b"))
    with pytest.raises(DataError, match=r"f\.txt: is none of \.csv, \.tsv"):
        import_judgements(collection, write(tmp_path, "f.txt", ""))
    text = f"{HEAD}\nana,a,b,left\n"
    known = import_judgements(collection, write(tmp_path, "f.txt", text), form="csv")
    assert known == Imported(1, 0)


@ON_SQLITE
def test_chosen_is_what_most_people_chose_of_what_was_not_undone(store: Store) -> None:
    collection = collection_of(store, "args", ("a", "b", "c", "d"))
    said = [
        Judgement.of("ana", (1, 0), "left"), Judgement.of("bo", (0, 1), "right"),
        Judgement.of("cy", (0, 1), "left"),
        Judgement.of("ana", (2, 3), "left"), Judgement.of("bo", (2, 3), "right"),  # 1 to 1
        Judgement.of("ana", (0, 2), "tie"), Judgement.of("bo", (0, 2), "right"),
        Judgement.of("ana", (1, 3), "skip"), Judgement.of("bo", (1, 3), "left"),
    ]  # fmt: skip
    collection.append(said)
    collection.undo("bo", len(said))
    file = io.StringIO()
    assert export_judgements(collection, file, "chosen", prompt="Which?") == 2
    assert [json.loads(line) for line in file.getvalue().splitlines()] == [
        {"prompt": "Which?", "chosen": f"text {k}", "rejected": "text 0", "weight": 1}
        | {"chosen_id": id, "rejected_id": "a"}
        for k, id in ((1, "b"), (2, "c"))
    ]


@ON_SQLITE
def test_an_annotator_who_answers_a_pair_again_has_one_vote(store: Store) -> None:
    collection = collection_of(store, "args", ("a", "b", "c"))
    collection.append([
        Judgement.of("ana", (0, 1), "left"), Judgement.of("ana", (1, 0), "right"),
        Judgement.of("bo", (0, 1), "right"), Judgement.of("cy", (0, 1), "right"),
        Judgement.of("ana", (1, 2), "left"), Judgement.of("ana", (1, 2), "left"),
        Judgement.of("bo", (1, 2), "right"),  # 1 to 1
        Judgement.of("ana", (0, 2), "left"), Judgement.of("ana", (0, 2), "right"),
        Judgement.of("bo", (0, 2), "left"),  # ana is of both opinions
    ])  # fmt: skip
    chosen = [json.loads(line) for line in exported(collection, "chosen").splitlines()]
    assert [(line["chosen"], line["rejected"]) for line in chosen] == [
        ("text 1", "text 0"), ("text 0", "text 2"),
    ]  # fmt: skip


@ON_SQLITE
def test_items_without_text_cannot_be_chosen(store: Store, tmp_path: Path) -> None:
    bare = store.add_items("bare", made_items(2, texts=(None, "x")))
    bare.append([Judgement.of("ana", (0, 1), "left")])
    with pytest.raises(DataError, match="item 'i0' has no text"):
        export_judgements(bare, tmp_path / "c.jsonl", "chosen")
    assert list(tmp_path.glob("*.jsonl")) == []


@ON_SQLITE
def test_a_path_that_cannot_be_written_is_refused(store: Store, tmp_path: Path) -> None:
    collection = collection_of(store, "args")
    (tmp_path / "file").write_text("")
    with pytest.raises(SortNetError, match="cannot write"):
        export_judgements(collection, tmp_path / "file" / "f.jsonl")


@ON_SQLITE
def test_groups_and_contexts_are_exported_and_pairs_across_them_refused(
    store: Store, tmp_path: Path
) -> None:
    items = made_items(4, groups=("x", "x", "y", "y"), contexts=("X?", "X?", None, None))
    first, second = store.add_items("one", items), store.add_items("two", items)
    first.append([Judgement.of("ana", (0, 1), "left"), Judgement.of("ana", (3, 2), "left")])
    lines = [json.loads(line) for line in exported(first).splitlines()]
    assert [(line["group"], line["context"]) for line in lines] == [("x", "X?"), ("y", None)]
    table = list(csv.DictReader(io.StringIO(exported(first, "csv"), newline="")))
    assert [(row["group"], row["context"]) for row in table] == [("x", "X?"), ("y", "")]
    prompts = [json.loads(line)["prompt"] for line in exported(first, "chosen").splitlines()]
    assert prompts == ["X?", "y"]
    for form in ("jsonl", "csv"):
        path = tmp_path / f"of.{form}"
        export_judgements(first, path, form)  # type: ignore[arg-type]
        assert import_judgements(second, path) == Imported(*((2, 0) if form == "jsonl" else (0, 2)))
    path = tmp_path / "across.csv"
    path.write_text("left,right,answer\ni0,i1,left\ni1,i2,left\n")
    with pytest.raises(DataError, match=r"across\.csv, line 3: item 'i1' is of group 'x', but"):
        import_judgements(second, path, annotator="ana")
    assert len(second.judgements()) == 2


def test_a_line_without_an_id_gets_the_id_that_earlier_versions_gave(tmp_path: Path) -> None:
    """Another one would import a file twice."""
    path = tmp_path / "votes.csv"
    path.write_text("left,right,answer,strategy\n" + 2 * "ä,b,left,x y\n")
    lines = read_lines(path, made_items(2, ids=("ä", "b")), annotator="ana")
    assert [line.id for line in lines] == [
        "b97ecc29f545ee193a94b519",
        "d83db8c7864baf0e7812b787",
    ]


def judged_in_sets(collection: Collection) -> Collection:
    """With answers about pairs and sets, undos, and ids that spreadsheets would run."""
    judged(collection)
    collection.append([
        Judgement.of("ana", (7, 1, 3, 0), "best", milliseconds=900, best=3, worst=7, cost=0.25),
        Judgement.of("ana", (1, 2, 3), "best", best=1),
        Judgement.of("bo", (4, 5, 0, 1, 2, 3), "same", comment="alike"),
        Judgement.of("bo", (4, 5, 1), "skip"),
    ])  # fmt: skip
    collection.undo("ana", 12)
    return collection


@pytest.mark.parametrize("form", ["jsonl", "csv"])
@pytest.mark.parametrize("ids", [ODD_IDS, ("=a", "+b", "'=c", "-d", "@e", '["f"]', "[", "null")])
def test_export_import_export_is_the_same_with_sets(
    store: Store, tmp_path: Path, form: str, ids: tuple[str, ...]
) -> None:
    first = judged_in_sets(collection_of(store, "first", ids))
    second = collection_of(store, "second", ids)
    one, other = tmp_path / f"one.{form}", tmp_path / f"other.{form}"
    assert export_judgements(first, one, form) == 16  # type: ignore[arg-type]
    assert import_judgements(first, one) == Imported(0, 16)
    assert import_judgements(second, one) == Imported(16, 0)
    export_judgements(second, other, form)  # type: ignore[arg-type]
    assert other.read_bytes() == one.read_bytes()
    assert second.judgements() == first.judgements()
    assert (second.judgements().n_items > 2).sum() == 5  # the undo too


@ON_SQLITE
def test_a_line_has_the_same_shape_for_all_sizes(store: Store) -> None:
    collection = judged_in_sets(collection_of(store, "args"))
    objects = [json.loads(line) for line in exported(collection).split("\n")[:-1]]
    table = list(csv.DictReader(io.StringIO(exported(collection, "csv"), newline="")))
    assert [*objects[0]] == [*objects[11]] == [*FIELDS, "excluded"]
    in_places = [" pad ", "a,b", "line\nbreak", "plain"]
    chosen = objects[11]
    assert (chosen["items"], chosen["best"], chosen["worst"]) == (in_places, in_places[2], " pad ")
    assert (objects[0]["items"], objects[0]["best"]) == (["plain", "a,b"], "plain")
    assert (objects[15]["answer"], objects[15]["undoes"]) == ("undo", 12)
    assert [table[11][f"item{place}"] for place in (1, 2, 3, 4)] == in_places
    assert [table[0][f"item{place}"] for place in (1, 2, 3, 4)] == ["plain", "a,b", "", ""]
    frame = collection.judgements_frame()
    assert frame["items"][11] == in_places and frame["best"].tolist()[11:13] == [
        "line\nbreak",
        "a,b",
    ]
    assert frame["undone"].tolist()[11:] == [True, False, False, False, False]


def test_pairs_and_sets_of_0_4_are_read(store: Store, tmp_path: Path) -> None:
    collection = collection_of(store, "args", ("a", "b", "c"))
    text = (
        "id,number,annotator,left,right,answer,items,best,worst\n"
        'x1,1,ana,a,b,right,,,\nx2,2,ana,,,best,"[""a"", ""b"", ""c""]",c,a\n'
    )
    assert import_judgements(collection, write(tmp_path, "f.csv", text)) == Imported(2, 0)
    assert votes(collection) == [
        ("ana", ["a", "b"], "best", "b"),
        ("ana", ["a", "b", "c"], "best", "c"),
    ]


SET_FAULTS = {
    '"items": ["i0", "i1", "i0"], "best": "i0"': "item 'i0' cannot be compared with itself",
    '"items": ["i0", "i1", "i2"], "best": "i0", "worst": "i0"': "cannot be the best and the worst",
    '"items": ["i0", "i1", "i2"], "best": "i3"': "best 'i3' is none of the items in question",
    '"items": ["i0", "i1", "i2"], "best": "i0", "worst": "i3"': "worst 'i3' is none of the items",
    '"items": ["i0", "i1", "i2"], "best": "z"': "the collection has no item 'z'",
    '"items": ["i0", "i1", "z"], "best": "i0"': "the collection has no item 'z'",
    '"items": ["i0"], "best": "i0"': "is no list of 2 to 6 ids",
    '"items": ["i0", "i1", "i2", "i3", "i4", "i5", "i6"], "best": "i0"': "is no list of 2 to 6 ids",
    '"items": "i0", "best": "i0"': "is no list of 2 to 6 ids",
    '"items": ["i0", "i1", "i2"], "answer": "left"': "'left' is no answer about 3 items",
    '"items": ["i0", "i1", "i2"], "answer": "best"': "`best` must be set",
    '"items": ["i0", "i1", "i2"], "answer": "same", "worst": "i0"': "is the worst, but none is",
    '"items": ["i0", "i1", "i2"], "answer": "good"': "unknown answer 'good'",
    '"items": ["i0", "i1", "i2"], "best": "i0", "p": 0.7': "a p is for two items, and there are 3",
    '"left": "i0", "right": "i1", "answer": "best"': "`best` must be set",
    '"items": ["i0", "i1", "i2"]': "needs left, right and answer, or winner and loser, or items",
}


@ON_SQLITE
def test_a_fault_in_a_set_names_its_line_and_nothing_is_imported(
    store: Store, tmp_path: Path
) -> None:
    store.add_items("args", made_items(8))
    collection = store.collection("args")
    sound = '{"annotator": "ana", "items": ["i0", "i1", "i2"], "best": "i1"}\n'
    for fault, message in SET_FAULTS.items():
        path = write(tmp_path, "f.jsonl", sound + f'{{"annotator": "ana", {fault}}}\n')
        with pytest.raises(DataError) as error:
            import_judgements(collection, path)
        assert "line 2" in str(error.value) and message in str(error.value), fault
        assert len(str(error.value).splitlines()) == 1
    assert len(collection.judgements()) == 0


@ON_SQLITE
def test_a_file_of_another_program_needs_items_and_best_only(store: Store, tmp_path: Path) -> None:
    store.add_items("args", made_items(4))
    collection = store.collection("args")
    text = 'annotator,items,best,worst\nana,"[""i2"", ""i0"", ""i1""]",i0,\n'
    path = write(tmp_path, "f.csv", text)
    assert import_judgements(collection, path) == Imported(1, 0)
    assert import_judgements(collection, path) == Imported(0, 1)
    (answer,) = collection.judgements()
    assert (answer.items, answer.best, answer.worst) == ((2, 0, 1), 0, None)


@ON_SQLITE
def test_a_file_lacks_no_worst_item_that_the_collection_asks_for(
    store: Store, tmp_path: Path
) -> None:
    store.add_items("args", made_items(4))
    collection = store.collection("args")
    line = '{"id": "a", "annotator": "ana", "items": ["i0", "i1", "i2"], "best": "i0"}'
    path = write(tmp_path, "f.jsonl", line)
    import_judgements(collection, path)
    collection.decide(Decision("set-size", amount=4))
    assert import_judgements(collection, path) == Imported(0, 1)  # stored before it was asked for
    path = write(tmp_path, "f.jsonl", line + "\n" + line.replace('"a"', '"b"'))
    with pytest.raises(DataError, match=r"line 2: .* names the best item and not the worst"):
        import_judgements(collection, path)
    collection.decide(Decision("worst", amount=0))
    assert import_judgements(collection, path) == Imported(1, 1)


@ON_SQLITE
def test_items_of_a_set_must_be_of_one_group(store: Store, tmp_path: Path) -> None:
    store.add_items("args", made_items(4, groups=("x", "x", "x", "y")))
    path = write(
        tmp_path, "f.jsonl", '{"annotator": "a", "items": ["i0", "i1", "i3"], "best": "i0"}'
    )
    with pytest.raises(DataError, match="line 1"):
        import_judgements(store.collection("args"), path)


@ON_SQLITE
def test_chosen_texts_of_a_set_are_the_pairs_that_follow(store: Store) -> None:
    collection = collection_of(store, "args", ("i0", "i1", "i2", "i3"))
    collection.append([Judgement.of("ana", (3, 1, 0, 2), "best", best=0, worst=3)])
    records = [json.loads(line) for line in exported(collection, "chosen").splitlines()]
    pairs = [(record["chosen_id"], record["rejected_id"]) for record in records]
    assert sorted(pairs) == [("i0", "i1"), ("i0", "i2"), ("i0", "i3"), ("i1", "i3"), ("i2", "i3")]
    collection.append([Judgement.of("bo", (3, 0), "left")])
    pairs = [json.loads(line)["chosen_id"] for line in exported(collection, "chosen").splitlines()]
    assert len(pairs) == 4  # one of each on the pair of 0 and 3
