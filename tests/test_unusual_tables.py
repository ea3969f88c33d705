"""Tables as people have them: far dates, files of spreadsheets, R and pandas, any frames."""

import datetime as dt
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sortnet
from sortnet import load_ranker, read_fold, read_queries
from sortnet.config import Config
from sortnet.core import NamedColumns, Queries
from sortnet.data.parts import read_divided
from sortnet.data.read_tables import from_frame
from sortnet.errors import DataError, SortNetError
from sortnet.items.given_items import items_from
from sortnet.items.read_items import read_items, read_with_roles
from sortnet.rankers.fit_ranker import fit_ranker

PLAIN = "query,price,color,grade\n" + "".join(
    f"s{k // 4},0.{k},{('red', 'blue')[k % 2]},{k % 3}\n" for k in range(8)
)


def table(path: Path, content: str | bytes, **names: str) -> Queries:
    """Write a table and read it as queries."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_queries(path, columns=NamedColumns(query="query", **names))


def with_row_names(header: str, template: str) -> str:
    """Put the numbers of rows before the lines of the plain table."""
    first, *rows = PLAIN.splitlines()
    lines = [header + first, *(template.format(k) + row for k, row in enumerate(rows, start=1))]
    return "\n".join(lines) + "\n"


def dates_of_sessions(last: str = "9999-12-31") -> pd.DataFrame:
    """Make ten queries whose later documents are better, with a sentinel in each."""
    start = pd.Timestamp("2026-11-01 10:00:00")
    rows = []
    for query in range(10):
        for k in range(6):
            shown_at = start + pd.Timedelta(hours=query, seconds=(5 * k) % 6)
            rows.append((query, shown_at.isoformat(), (5 * k) % 6))
        rows.append((query, last, 0))
    return pd.DataFrame(rows, columns=["qid", "shown_at", "label"])


@pytest.mark.parametrize("text", ["12026-01-01", "-0044-03-15"])
def test_a_text_that_is_no_date_is_named_with_its_line(tmp_path: Path, text: str) -> None:
    content = f"query,until,label\na,2026-01-01,1\na,{text},0\na,2026-01-02,0\n"
    with pytest.raises(DataError, match=f"line 3: column 'until': '{text}' is not a date"):
        table(tmp_path / "t.csv", content)


def test_seconds_within_a_query_decide_beside_a_far_sentinel(tmp_path: Path) -> None:
    queries = from_frame(dates_of_sessions())
    ranker = fit_ranker(queries, queries, Config(max_iter=2))
    ranker.save(tmp_path / "model")
    loaded = load_ranker(tmp_path / "model")
    frame = dates_of_sessions("0001-01-01").drop(columns="label")
    path = tmp_path / "new.csv"
    frame.to_csv(path, index=False)
    new = read_queries(path, labelled=False, like=loaded)
    np.testing.assert_array_equal(new.origins, queries.origins)
    best_first = loaded.order(new).reshape(10, 7)
    grades = dates_of_sessions()["label"].to_numpy()[new.rows]
    # The best of the last query has the latest date, which lies near the sentinel of the training.
    assert (grades[best_first[:9, 0]] == 5).all()
    # Data that were read without the model are counted from the model's origins, too.
    by_themselves = read_queries(path, labelled=False)
    np.testing.assert_array_equal(loaded.order(by_themselves), loaded.order(new))


@pytest.mark.parametrize(
    "as_cells",
    [
        lambda days: [day.date() for day in days],
        lambda days: pd.Series(list(days), dtype=object),
        lambda days: np.array(days, "M8[s]"),
        lambda days: np.array(days, "M8[us]"),
        lambda days: pd.array([day.date() for day in days], dtype=pd.ArrowDtype(pa.date32())),
        lambda days: pd.array(list(days), dtype=pd.ArrowDtype(pa.timestamp("us"))),
        lambda days: [day.isoformat() for day in days],
        lambda days: [f"{(day - dt.timedelta(hours=2)).isoformat()}-02:00" for day in days],
    ],
)
def test_dates_of_every_type_have_the_same_days(as_cells: Callable[..., object]) -> None:
    days = [dt.datetime(year, 3, 1) for year in (1, 1500, 2026, 9999)]
    queries = from_frame(pd.DataFrame({"qid": 1, "until": as_cells(days), "label": [0, 1, 2, 3]}))
    expected = [(day - dt.datetime(1970, 1, 1)).days for day in days]
    assert queries.exact_features()[:, 0].tolist() == expected
    assert queries.dates == ("until",)


def test_an_item_keeps_its_seconds() -> None:
    frame = pd.DataFrame(
        {"id": ["a", "b"], "shown_at": ["2026-11-01 10:00:00", "2026-11-01 10:00:01"]}
    )
    items = items_from(frame).items
    seconds = np.diff(items.features[:, 0]) * 86_400
    np.testing.assert_allclose(seconds, 1, rtol=1e-5)


@pytest.mark.parametrize(
    ("content", "note"),
    [
        (with_row_names(",", "{},"), "the first column, which has no name"),
        (with_row_names("Unnamed: 0,", "{},"), "the first column, which has no name"),
        (with_row_names("", '"{}",'), "the first column, which has no name"),
        (PLAIN.replace("\n", ",\n"), "columns without a name and values left out: 5"),
        (PLAIN.replace("\n", ",,\n"), "columns without a name and values left out: 5, 6"),
        (PLAIN.replace("\n", ",\n").replace("grade,", "grade"), "name and values left out: 5"),
        (PLAIN.replace("\n", "\r\n\r\n"), ""),
        (PLAIN.replace(",", "|"), ""),
        (PLAIN.replace(",", ";").rstrip("\n"), ""),
        ("sep=;\n" + PLAIN.replace(",", ";"), ""),
        ("sep=|\r\n" + PLAIN.replace(",", "|").replace("\n", "\r\n"), ""),
        (PLAIN.encode("utf-16"), ""),
        ("\ufeff".encode("utf-16-be") + PLAIN.encode("utf-16-be"), ""),
        (PLAIN.encode("utf-16-be"), ""),
        (PLAIN.encode("utf-16-le"), ""),
        (PLAIN.replace(",", ", ").replace("blue", '"blue"'), ""),
        (PLAIN.encode("utf-8-sig").replace(b"query", b'"query"'), ""),
    ],
)  # fmt: skip
def test_files_of_other_programs_are_read_as_plain_files(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: str | bytes, note: str
) -> None:
    plain = table(tmp_path / "plain.csv", PLAIN)
    found = table(tmp_path / "found.csv", content)
    np.testing.assert_array_equal(found.features, plain.features)
    assert found.feature_names == plain.feature_names
    assert found.qids.tolist() == plain.qids.tolist()
    assert note in caplog.text
    assert bool(note) == bool(caplog.text)


def test_features_are_counted_from_0_in_all_parts_of_a_fold(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lines = "".join(f"{k % 2} qid:{k // 2} 1:{k}.5 2:{k}\n" for k in range(8))
    (tmp_path / "train.txt").write_text(lines)  # a sparse file without feature 0
    (tmp_path / "vali.txt").write_text(lines.replace("1:", "0:7 1:"))
    fold = read_fold(tmp_path)
    assert fold.train.feature_names == ("0", "1", "2")
    assert fold.train.features[1].tolist() == [0, 1.5, 1]
    assert fold.vali.features[1].tolist() == [7, 1.5, 1]
    assert "features are counted from 0" in caplog.text
    new = read_queries(tmp_path / "train.txt", like=fold.train, n_features=3)
    np.testing.assert_array_equal(new.features, fold.train.features)


def test_first_words_of_comments_are_ids_where_they_are_unique(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "t.txt"
    path.write_text(
        "1 qid:a 1:1 # 7555 rambo\n0 qid:a 1:2 # 12 rocky\n"
        "1 qid:b 1:1 # 7555 rambo\n0 qid:b 1:2 # 7555 again\n"
    )
    queries = read_queries(path)
    assert queries.docids is not None
    assert queries.docids.tolist() == ["7555", "12", "", ""]
    assert "the first words of the comments are the ids" in caplog.text
    path.write_text("1 qid:a 1:1 # good\n0 qid:a 1:2 # good\n")
    assert read_queries(path).docids is None


@pytest.mark.parametrize("comment", ["docid = {} inc = 1", "id={}", "rank 1 doc_id: {}", "id: {}"])
def test_ids_are_found_in_comments(tmp_path: Path, comment: str) -> None:
    path = tmp_path / "t.txt"
    lines = [f"1 qid:a 1:{k} # {comment.format(f'GX-{k}')} qid: 7" for k in range(2)]
    path.write_text("\n".join(lines) + "\n")
    docids = read_queries(path).docids
    assert docids is not None
    assert docids.tolist() == ["GX-0", "GX-1"]


def test_levels_of_any_type_become_words() -> None:
    size = [0.5, 1.5, 2.5] * 4
    frame = pd.DataFrame(
        {
            "qid": 1,
            "cut": pd.cut(size, [0, 1, 2, 3]),
            "pair": pd.Categorical([(1, k % 3) for k in range(12)]),
            "mixed": pd.Categorical([[1, "a", 2.5][k % 3] for k in range(12)]),
            "label": [k % 3 for k in range(12)],
        }
    )
    names = from_frame(frame).feature_names
    assert names == (
        *("cut=(0, 1]", "cut=(1, 2]", "cut=(2, 3]"),
        *("pair=(1, 0)", "pair=(1, 1)", "pair=(1, 2)"),
        *("mixed=1", "mixed=2.5", "mixed=a"),
    )


@pytest.mark.parametrize(
    "cells",
    [
        *([cell] * 2 for cell in (np.arange(3), [1, 2], {1: 2}, {1, 2}, (1, 2))),
        pl.Series([{"a": 1}] * 2, dtype=pl.Struct({"a": pl.Int64})),
        pl.Series([[1, 2]] * 2, dtype=pl.Array(pl.Int64, 2)),
    ],
)
def test_a_cell_that_holds_several_values_names_its_column(cells: object) -> None:
    make = pl.DataFrame if isinstance(cells, pl.Series) else pd.DataFrame
    with pytest.raises(DataError, match="column 'many' holds a nested value"):
        from_frame(make({"qid": [1, 1], "label": [0, 1], "x": [1.0, 2.0], "many": cells}))


def test_a_broken_test_part_is_found_when_a_fold_is_read(tmp_path: Path) -> None:
    for part in ("train", "vali"):
        (tmp_path / f"{part}.txt").write_text("1 qid:1 1:2\n0 qid:1 1:3\n")
    (tmp_path / "test.txt").write_text("1 qid:1 1:2\nx qid:1 1:3\n")
    with pytest.raises(DataError, match=r"test\.txt, line 2: the grade 'x' is not a number"):
        read_fold(tmp_path)


@pytest.mark.parametrize(
    ("cells", "days"),
    [
        (["2026-W47", "2026-W48-2"], [20_773, 20_781]),
        (["2026/11/23", "2026-11-24 06:00:00 UTC"], [20_780, 20_781.25]),
        (["10:30:00", "6:00"], [0.4375, 0.25]),
        (["1 days 02:24:00", "-1 days +12:00:00", "1 day, 12:00:00"], [1.1, -0.5, 1.5]),
        ([dt.time(12), None, dt.time(6)], [0.5, np.nan, 0.25]),
        (["3", "?", "-", "\\N", ".", "(null)", "N.A.", "--", "4"], [3, *[np.nan] * 7, 4]),
    ],
)
def test_times_and_missing_values_are_read_as_other_programs_write_them(
    cells: list[object], days: list[float]
) -> None:
    frame = pd.DataFrame({"qid": 1, "x": cells, "label": range(len(cells))})
    queries = from_frame(frame)
    assert queries.feature_names == ("x",)
    np.testing.assert_allclose(queries.exact_features()[:, 0], days, rtol=1e-7)


@pytest.mark.parametrize(
    "cell", ["1{} %", "$1,00{}.50", "{} kg", "{}.11.2026", "11/1{}/26", "1{}-Nov-2026", "1{}:00 PM"]
)
def test_numbers_and_dates_that_are_not_read_are_noted(
    caplog: pytest.LogCaptureFixture, cell: str
) -> None:
    cells = [cell.format(k) for k in range(1, 5)]
    frame = pd.DataFrame({"qid": 1, "x": cells, "z": range(4), "label": range(4)})
    assert from_frame(frame, source="t").feature_names == ("z",)
    assert caplog.messages == [
        f"t, row 0: column 'x': '{cells[0]}' is read as text, not as a number or a date; "
        "write 1234.5, 2026-11-23, and nothing for a missing value"
    ]


@pytest.mark.parametrize("text", ["p{}", "10-{}-abcde-fghij", "a wish {}"])
def test_names_with_digits_are_no_numbers(caplog: pytest.LogCaptureFixture, text: str) -> None:
    cells = [text.format(k) for k in range(4)]
    from_frame(pd.DataFrame({"qid": 1, "x": cells, "z": range(4), "label": range(4)}))
    assert caplog.messages == []


ROW = '{"qid": 1, "label": 0, "x": 2}'


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.txt", "first thing\nsecond\n", "line 1: .* is read as LETOR text, .* a list of texts"),
        ("t.dat", "qid,label,x\n1,0,2\n", "line 1: .* is read as LETOR text, .* name a table .csv"),
        ("t.txt", "1 1:0.5\n", "line 1: no qid:... after the grade: .* is read as LETOR text"),
        ("t.csv", "PK\3\4\24\0", "t.csv: is a ZIP archive, as spreadsheets are"),
        ("t.csv", "PAR1\25\4", "t.csv: is a Parquet file: give it a name that ends in .parquet"),
        (
            "t.csv",
            "My shop\nqid,label,x\n",
            "line 2: .* the header has 1, 'My shop' .*needs quotes",
        ),
        ("t.csv", 'qid,t\n1,"a \\"b\\" c"\n', "line 2: .* within a quoted field is written twice"),
        (
            "t.csv",
            "query_id,label,x\n1,0,2\n",
            "no column 'qid' .*: --query query_id .in Python query.",
        ),
        ("t.csv", "a,label,x\n1,0,2\n", "no column 'qid' .*: --query NAME .in Python query."),
        (
            "t.csv",
            "qid,Star rating,x\n1,0,2\n",
            "no column 'label' .*: --grade 'Star rating' .in Python grade.",
        ),
        ("t.csv", "qid,label,x\n1,0,2\n1,1,?x\n", "line 3: column 'x': .* nothing for a missing"),
        ("t.json", '{"qid": [1, 1], "label": [0, 1]}\n', "is one object .* rows are objects"),
        ("t.json", '{\n"qid": 1}\n', "line 1: is no JSON .* rows are objects"),
        ("t.csv", "qid,label,relevance\n1,0,2\n", "there is no feature column with a value in qid"),
        ("t.jsonl", '{"qid": 1, "label": [0], "x": 2}\n', "holds a nested value: \\[0\\]$"),
    ],
)
def test_a_message_tells_what_to_do(tmp_path: Path, name: str, content: str, message: str) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(DataError, match=message):
        read_queries(path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.jsonl", f"[{ROW}]"),
        ("t.tsv", "qid,label,x\n1,0,2\n"),
        ("t.tsv", "qid;label;x\n1;0;2\n"),
    ],
)
def test_a_name_of_a_near_format_is_no_fault(tmp_path: Path, name: str, content: str) -> None:
    path = tmp_path / name
    path.write_text(content)
    assert read_queries(path).features.tolist() == [[2.0]]


def test_a_column_that_may_have_the_ids_is_named(caplog: pytest.LogCaptureFixture) -> None:
    frame = pd.DataFrame({"qid": 1, "Doc No": [7, 8], "n_docs": [1, 2], "label": [0, 1]})
    assert from_frame(frame, source="t").docids is None
    message = "t: documents are named by their rows: --id 'Doc No' names them by it"
    assert caplog.messages == [message]
    assert from_frame(frame, id="Doc No").docids is not None
    assert caplog.messages == [message]


@pytest.mark.parametrize("name", ["apple", "7", "text"])
def test_a_first_line_that_may_be_an_item_is_noted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"{name}\nfive\nsix\n")
    assert len(read_items(path)) == 2
    note = f"{path}, line 1: the first line names the columns: {name}"
    assert caplog.messages == [note][: name != "text"]


def test_folders_name_the_folder_or_the_file_to_give(tmp_path: Path) -> None:
    for number in (2, 1):
        (tmp_path / f"Fold{number}").mkdir()
        (tmp_path / f"Fold{number}" / "train.txt").write_text("1 qid:1 1:2\n")
    with pytest.raises(DataError, match=r"there is no train\.txt .*/Fold1 has one$"):
        read_fold(tmp_path)
    with pytest.raises(DataError, match=r"no vali\.txt .*: to divide a file, name the file"):
        read_fold(tmp_path / "Fold1")
    with pytest.raises(DataError, match="is a device, not a folder: data are read more than once"):
        read_fold("/dev/null")


@pytest.mark.parametrize("data", [pd.DataFrame(), [{"qid": 1}], None, 7, np.zeros(3)])
def test_only_paths_are_trained_on_by_name(tmp_path: Path, data: object) -> None:
    with pytest.raises(DataError, match="is no path of data: SortNetRanker"):
        sortnet.train(data, str(tmp_path / "m"))  # type: ignore[arg-type]
    with pytest.raises(SortNetError, match="nothing: no such file"):
        sortnet.train(tmp_path / "nothing", str(tmp_path / "m"))


def test_a_frame_without_rows_is_not_learned_from() -> None:
    with pytest.raises(DataError, match="there are no rows"):
        sortnet.SortNetRanker().fit(pd.DataFrame({"x": []}), [])


def test_values_that_were_not_in_the_training_data_are_noted(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    train = table(tmp_path / "train.csv", PLAIN)
    content = PLAIN.replace("red", "Red").replace("s0,0.1,blue", "s0,0.1,n/a")
    path = tmp_path / "new.csv"
    path.write_text(content)
    read_queries(path, like=train)
    read_queries(tmp_path / "train.csv", like=train)
    message = "column 'color': 'Red' was not in the training data; rows with such values: 4"
    assert caplog.messages == [f"{path}, line 2: {message}"]


def test_values_of_another_part_of_the_same_file_are_not_noted(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """A prompt is the same in its query, so other parts have other prompts."""
    path = tmp_path / "t.csv"
    lines = [f"q{k // 4},{k % 3},{k},colour {k // 4}" for k in range(80)]
    path.write_text("\n".join(["qid,label,x,color", *lines]) + "\n")
    read_divided(path)
    assert caplog.messages == []


@pytest.mark.parametrize(
    "frame",
    [
        pa.chunked_array([[1, 2]]),
        pd.Series([1, 2]),
        np.zeros(2, [("qid", int), ("label", int), ("x", float, (2,))]),
    ],
)
def test_what_has_no_columns_is_no_frame(frame: object) -> None:
    with pytest.raises(DataError, match=r"is no data frame|1-dimensional"):
        from_frame(frame)


def test_a_feature_of_a_collection_is_a_number_in_each_file_of_it(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("id,size\na,5\nb,6\n")
    first = read_items(path)
    path.write_text("id,size\nc,n/a\n")
    items, roles = read_with_roles(path, like=first, least=1)
    assert (roles.features, np.isnan(items.features).all()) == (("size",), True)
    path.write_text("id,size\nd,large\n")
    with pytest.raises(DataError, match="line 2: column 'size': 'large' is not a number"):
        read_with_roles(path, like=first, least=1)


def test_a_judge_gets_times_as_written_and_the_features_of_letor_text(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("id,start,size\na,10:00,5\nb,9:30,?\n")
    assert items_from(path).values == [
        {"id": "a", "start": "10:00", "size": 5.0},
        {"id": "b", "start": "9:30", "size": None},
    ]
    path = tmp_path / "t.txt"
    path.write_text("1 qid:1 1:0.5\n0 qid:1 1:2\n")
    assert [value.tolist() for value in items_from(path).values] == [[0.5], [2.0]]


def test_a_masked_number_of_an_item_is_missing() -> None:
    items = items_from(np.ma.array([[1.0, 2.0], [3.0, 4.0]], mask=[[0, 1], [0, 0]])).items
    np.testing.assert_array_equal(items.features, [[1, np.nan], [3, 4]])
