"""Items from tables and folders: what is taken as what, and what is refused in one line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sortnet.errors import DataError
from sortnet.items import Columns, Items, images, merge, read_items, read_with_roles
from sortnet.tables.values import levels as category_values


def written(folder: Path, text: str | bytes, name: str = "items.csv") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def refused(path: Path, **options: object) -> str:
    """The message a file is refused with, which must be one line that begins with the file."""
    with pytest.raises(DataError) as raised:
        read_items(path, **options)
    message = str(raised.value)
    assert message.startswith(str(path)) and "\n" not in message
    return message.removeprefix(str(path))


@pytest.mark.parametrize(
    ("header", "rows", "expected"),
    [
        ("topic,id,score,text", ["t,2,1,x", "t,1,2,y"], ("id", "text", ("score",), ("topic",))),
        ("Name,sugar", ["Twix,1", "Mars,2"], ("Name", None, ("sugar",), ())),
        ("sweet,kind,sugar", ["x,k,1", "y,k,2"], ("sweet", None, ("sugar",), ("kind",))),
        ("title,votes", ["Dark mode,1", "Dark mode,2"], (None, "title", ("votes",), ())),
        ("what,n", ["one of these,1", "one of these,2"], (None, "what", ("n",), ())),
        ("docId,uid,n", ["7,1_7,1", "7,2_7,2"], ("uid", None, ("n",), ("docId",))),
        ("a,b", ["1,x", "2,"], (None, None, ("a",), ("b",))),
        ("label,n", ["so good a text,1", "a text so bad,2"], (None, None, ("n",), ("label",))),
        (
            "request",
            ["Dark mode please now", "More of it and more"],
            ("request", "request", (), ()),
        ),
    ],
)
def test_columns_are_recognised_by_their_names_and_values(tmp_path, header, rows, expected):
    path = written(tmp_path, "\n".join([header, *rows]))
    items, taken = read_with_roles(path)
    assert (taken.id, taken.text, taken.features, taken.ignored) == expected
    if taken.id is None:
        assert items.ids == ("1", "2")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,text\n", ": has no item; sorting needs two at least"),
        ("id,text\na,x\n", ": has one item; sorting needs two at least"),
        ("id,text\na,x\n\nb,y\na,z\n", ", line 5: the id 'a' is there twice, see line 2"),
        ("id,text\na,x\n ,y\n", ", line 3: the id is missing"),
        ("id,text\na,x\nb,\0\n", ", line 3: the text of 'b' holds a NUL byte"),
        ("id,text\na,x\nb\x1b[2J,y\n", ", line 3: the id 'b\\x1b[2J' holds a control character"),
        ("id,text\na,x\n" + "b" * 201 + ",y\n", ", line 3: the id has 201 characters; the limit"),
        ("id\n1\n2\n", ": no column can be shown or learned from (--text names one)"),
    ],
)
def test_a_table_is_refused_with_its_line_and_value(tmp_path, text, message):
    assert refused(written(tmp_path, text)).startswith(message)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"id": "b", "text": {"de": "x"}}', "column 'text' holds a nested value: {'de': 'x'}"),
        ('{"id": ["b"], "text": "x"}', "column 'id' holds a nested value: ['b']"),
        ('{"id": "b", "text": "x", "n": Infinity}', "column 'n': inf is infinite in float32"),
        ('{"id": "b", "text": "x", "n": 1' + "0" * 400 + "}", "column 'n': 1000"),
        ('{"id": "b", "text": "\\ud800"}', "is not Unicode: half of a surrogate pair"),
        ('{"id": "b", "id": "c"}', "'id' occurs twice"),
        ('{"id": "b"', "is no JSON"),
        ("[1, 2]", "is no JSON object: [1, 2]"),
        ("[" * 100_000, "maximum recursion depth"),
        ('{"id": null, "text": "x"}', "the id is missing"),
    ],
)
def test_a_line_of_json_is_refused_with_its_number(tmp_path, line, message):
    first = '{"id": "a", "text": "x", "n": 1}\n\n'
    said = refused(written(tmp_path, first + line, "items.jsonl"))
    assert said.startswith(f", line 3: {message}")


def test_a_column_that_is_not_there_or_no_number_is_named(tmp_path):
    path = written(tmp_path, "id,text\na,x\nb,y\n")
    assert refused(path, ignore=["up"]) == ": there is no column 'up' in id, text"
    assert refused(path, features=["text"]).startswith(", line 2: column 'text': 'x' is not a num")
    assert refused(written(tmp_path, "x", "items.docx")).startswith(": is none of .csv, .tsv")


def picture(path: Path, size: tuple[int, int] = (8, 6)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(0).integers(0, 255, (size[1], size[0], 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return path


def test_images_and_sounds_are_relative_to_the_folder_of_the_table(tmp_path):
    picture(tmp_path / "p" / "a.png")
    b = picture(tmp_path / "B.JPG")
    written(tmp_path, b"RIFF", "s.wav")
    path = written(tmp_path, f"id,photo,sound\na,p/../p/a.png,s.wav\nb,{b},\nc,,\n")
    items, taken = read_with_roles(path)
    assert (taken.image, taken.audio) == ("photo", "sound")
    assert items.images == ("p/a.png", "B.JPG", None)
    assert items.audio == ("s.wav", None, None)
    assert items.root == tmp_path.resolve()


@pytest.mark.parametrize("name", ["../out.png", "/etc/passwd.png", "link.png", "linked/out.png"])
def test_an_image_outside_the_folder_is_refused(tmp_path, name):
    outside = picture(tmp_path / "out.png")
    folder = tmp_path / "in"
    picture(folder / "a.png")
    (folder / "link.png").symlink_to(outside)
    (folder / "linked").symlink_to(tmp_path)
    path = written(folder, f"id,image\na,a.png\nb,{name}\n")
    assert refused(path) == f", line 3: {name!r} lies outside the folder {folder}"


def test_a_missing_or_broken_image_is_refused_with_its_item(tmp_path):
    whole = picture(tmp_path / "a.jpg", (200, 200)).read_bytes()
    path = written(tmp_path, "id,image\nann,a.jpg\nbob,b.jpg\n")
    assert refused(path) == f", line 3: there is no file 'b.jpg' in the folder {tmp_path}"
    for data, fault in (
        (whole[: len(whole) // 2], "b.jpg: the image is broken: image file is truncated"),
        (b"GIF89a", "b.jpg: is no image, or of a kind that is not known"),
        (b"", "b.jpg: is no image, or of a kind that is not known"),
    ):
        written(tmp_path, data, "b.jpg")
        assert refused(path).startswith(f", item 'bob': {fault}")
    written(tmp_path, "id,image\nann,a.jpg\nbob,\0.jpg\n")
    assert "'\\x00.jpg' is no file name" in refused(path)


def test_an_image_of_too_many_pixels_is_refused_before_they_are_unpacked(tmp_path, monkeypatch):
    picture(tmp_path / "a.png", (10, 10))
    picture(tmp_path / "b.png", (10, 11))
    monkeypatch.setattr(images, "MAX_PIXELS", 100)
    said = refused(tmp_path)
    assert said == ", item 'b.png': b.png: has 10 x 11 pixels; the limit is 100 pixels"
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 50)  # Pillow's own; twice as many it refuses
    assert refused(tmp_path) == ", item 'b.png': b.png: has more than 100 pixels"


def test_a_folder_is_its_files_by_name(tmp_path):
    folder = tmp_path / "things"
    picture(folder / "sub" / "b.png")
    written(folder, "One.", "a.txt")
    written(folder, " \n", "empty.md")
    written(folder, b"OggS", "z.ogg")
    written(folder, b"%PDF", "notes.pdf")
    written(folder, b"x", ".hidden.txt")
    items, taken = read_with_roles(folder)
    assert items.ids == ("a.txt", "empty.md", "sub/b.png", "z.ogg")
    assert items.texts == ("One.", None, None, None)
    assert items.images == (None, None, "sub/b.png", None)
    assert items.audio == (None, None, None, "z.ogg")
    assert items.features.shape == (4, 0)
    assert taken == Columns("files", "files", "files", "files", ignored=("notes.pdf",))


def test_a_folder_is_refused_with_the_file_at_fault(tmp_path):
    folder = tmp_path / "things"
    folder.mkdir()
    assert refused(folder) == ": there is no text, image or sound file in this folder"
    written(folder, "x", "a.txt")
    assert refused(folder) == ": has one item; sorting needs two at least"
    assert refused(folder, ignore=["x"]) == ": is a folder, which has no columns to name"
    written(folder, b"one\n\xfe", "b.txt")
    assert refused(folder) == "/b.txt, line 2: byte 0xfe is not UTF-8: save it as UTF-8"
    written(folder, b"x" * 1_000_001, "b.txt")
    assert refused(folder) == "/b.txt: the text has 1,000,001 bytes; the limit is 1,000,000"
    (folder / "b.txt").unlink()
    (folder / "b.txt").symlink_to(written(tmp_path, "secret", "secret.txt"))
    assert refused(folder) == f": 'b.txt' lies outside the folder {folder}"


def items_of(ids: str, features: dict[str, list[float]], root: Path | None = None) -> Items:
    matrix = np.array(list(features.values()), np.float32).T.reshape(len(ids), len(features))
    none = (None,) * len(ids)
    return Items(tuple(ids), tuple(ids.upper()), none, none, matrix, tuple(features), root)


def test_items_that_are_there_are_replaced_and_others_go_to_the_end():
    old = items_of("ab", {"x": [1, 2], "y": [3, 4], "text: log words": [9, 9]})
    new = items_of("cb", {"y": [5, 6], "x": [7, 8]})
    with pytest.raises(DataError, match="items: an item 'b' is there already, with other content"):
        merge(old, new)
    both = merge(old, new, update=True)
    assert (both.ids, both.texts) == (("a", "b", "c"), ("A", "B", "C"))
    assert both.feature_names == ("x", "y")
    assert both.features.tolist() == [[1, 3], [8, 6], [7, 5]]


def test_items_of_other_features_or_of_another_folder_are_refused():
    old = items_of("ab", {"x": [1, 2]}, Path("/p"))
    with pytest.raises(DataError, match="there is no feature 'x'"):
        merge(old, items_of("cd", {}))
    with pytest.raises(DataError, match="the others have no feature 'y': ignore it"):
        merge(old, items_of("c", {"x": [1], "y": [2]}))
    with pytest.raises(DataError, match="its files lie in /q, the others' in /p"):
        merge(old, items_of("c", {"x": [1]}, Path("/q")))


def test_columns_are_shown_and_may_be_features_too(tmp_path):
    path = written(tmp_path, "id,text,price,maker\na,x,1.5,Ann\nb,y,,\nc,z,2,Bob\n")
    items, taken = read_with_roles(path, Columns(shown=("price", "maker")), ignore=["id"])
    assert items.shown == ({"price": "1.5", "maker": "Ann"}, None, {"price": "2", "maker": "Bob"})
    assert (taken.features, taken.shown, taken.ignored) == (("price",), ("price", "maker"), ("id",))
    assert read_items(path, Columns(shown=("price",)), ignore=["price"]).feature_names == ()
    assert read_items(path).shown is None
    assert (
        refused(path, named=Columns(shown=("cost",)))
        == ": there is no column 'cost' in id, text, price, maker"
    )
    path = written(tmp_path, 'id,text,note\na,x,"' + "y" * 1_000_001 + '"\nb,y,\n')
    said = ", line 2: the column 'note' of 'a' has 1,000,001 bytes; the limit is 1,000,000"
    assert refused(path, named=Columns(shown=("note",))) == said


CATEGORIES = "id,text,size,colour\n" + "".join(
    f"i{k},text {k},{k},{colour}\n" for k, colour in enumerate(["red", " blue", "n/a", "red"] * 3)
)


def test_each_value_of_a_categorical_column_is_a_feature(tmp_path):
    items, taken = read_with_roles(written(tmp_path, CATEGORIES))
    assert items.feature_names == ("size", "colour=blue", "colour=red")
    assert items.features[:4, 1:].tolist() == [[0, 1], [1, 0], [0, 0], [0, 1]]
    assert (taken.features, taken.categories, taken.ignored) == (
        *(("size",), items.feature_names[1:], ()),
    )
    path = written(tmp_path, "id,text,size,colour\nn,x,1,green\nm,y,2,red\n", "new.csv")
    new, taken = read_with_roles(path, like=items)
    assert new.feature_names == items.feature_names
    assert new.features.tolist() == [[1, 0, 0], [2, 0, 1]]
    assert merge(items, new).feature_names == items.feature_names
    plain = read_items(path, ignore=["colour"])
    assert read_with_roles(tmp_path / "items.csv", like=plain)[0].feature_names == ("size",)


@pytest.mark.parametrize(
    "values",
    [
        ["red"] * 9,  # one value
        ["red", "blue"] * 2,  # too few items of each
        ["1", "2"] * 9,  # numbers
        ["x" * 41, "y"] * 9,  # texts
        ["a\x00", "b"] * 9,
        [True, "b"] * 9,
    ],
)
def test_columns_that_are_not_categorical_are_no_features(values):
    assert category_values(values) == ()


def test_texts_groups_and_ignored_columns_are_never_categories(tmp_path):
    head = "id,text,topic,kind,qid,a=b,colour=red,colour\n"
    rows = ("p,t,v,A,x,1,red", "q,u,w,B,y,2,blue")
    path = written(tmp_path, head + "".join(f"i{k},{rows[k % 2]}\n" for k in range(18)))
    items, taken = read_with_roles(path, Columns(group="topic"), ignore=["kind"])
    assert (taken.text, taken.group, taken.categories) == ("text", "topic", ())
    assert items.feature_names == ("colour=red",), "the numbers of the column that is called so"


def test_a_column_that_looks_like_images_but_is_none_says_so(tmp_path):
    def notes(*values: str) -> tuple[str, ...]:
        lines = "".join(f"i{k},text {k},{value}\n" for k, value in enumerate(values))
        return read_with_roles(written(tmp_path, "id,text,photo\n" + lines))[1].notes

    picture(tmp_path / "a.png")
    what = "column 'photo' looks like images, but"
    place = f"{tmp_path / 'items.csv'}, line 4: "
    (said,) = notes("a.png", "", "n/a", "a.png")
    assert said.startswith(f"{place}{what} 'n/a' is none of .png .jpg") and "\n" not in said
    (said,) = notes("a.png", "a.png", "https://x.org/a.png")
    assert said.startswith(f"{place}{what} 'https://x.org/a.png' is a URL: no images are taken")
    assert notes("a.png ", "", "a.png") == notes("some", "words", "a.png") == notes("", "") == ()
    (said,) = notes("a.wav", "b.wav", "c.doc")
    assert "looks like sounds, but 'c.doc' is none of .wav" in said
