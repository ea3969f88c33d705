"""Tables as people have them: far dates, files of spreadsheets, R and pandas, any frames."""

import datetime as dt
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sortnet import load_ranker, read_fold, read_queries
from sortnet.config import Config
from sortnet.core import NamedColumns, Queries
from sortnet.data.read_tables import from_frame
from sortnet.errors import DataError
from sortnet.items.given_items import items_from
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
