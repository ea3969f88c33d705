"""The same rows in every kind of file and frame: the same features and the same model."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from cli_helpers import FAST, done

import sortnet
from sortnet.core import NamedColumns
from sortnet.data import read_queries
from sortnet.data.read_tables import from_frame
from sortnet.errors import DataError
from sortnet.estimator import SortNetRanker

N_QUERIES, N = 40, 10
WORDS = ["fjord", "kids", "stove", "wood", "red", "blue", "lamp", "desk", "chair", "oak"]
NUMBERS = ["price", "stock"]


def made_frame() -> pd.DataFrame:
    """Numbers, missing values, a category, dates, truth values and texts, with grades."""
    rng = np.random.default_rng(3)
    n = N_QUERIES * N
    titles = [" ".join(rng.choice(WORDS, 6)) for _ in range(n)]
    days = pd.to_timedelta(rng.integers(0, 900, n), "D")
    frame = pd.DataFrame(
        {
            "qid": np.repeat([f"q{k:02d}" for k in range(N_QUERIES)], N),
            "docid": [f"{k:05d}" for k in range(n)],
            "label": 0,
            "price": np.where(rng.random(n) < 0.1, np.nan, rng.normal(50, 10, n).round(2)),
            "stock": rng.integers(0, 90, n),
            "brand": rng.choice(["east", "west", "north"], n),
            "born": pd.Timestamp("2020-01-01") + days,
            "new": rng.random(n) < 0.5,
            "title": titles,
        }
    )
    frame["label"] = (frame.stock > 45).astype(int) + frame.title.str.contains("fjord")
    return frame


class Stream:
    """Some library's frame, of which only the stream of Arrow is known."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


FRAMES: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda frame: frame,
    "pandas of Arrow": lambda frame: frame.convert_dtypes(dtype_backend="pyarrow"),
    "polars": pl.from_pandas,
    "lazy polars": lambda frame: pl.from_pandas(frame).lazy(),
    "Arrow": pa.Table.from_pandas,
    "batch of Arrow": pa.RecordBatch.from_pandas,
    "stream of Arrow": lambda frame: Stream(pa.Table.from_pandas(frame)),
    "dicts": lambda frame: frame.to_dict("records"),
    "tuple of dicts": lambda frame: tuple(frame.to_dict("records")),
    "records": lambda frame: frame.to_records(index=False),
    "objects": lambda frame: frame.astype(
        {name: object for name in NUMBERS if name in frame}
    ).set_axis(np.zeros(len(frame))),
}
FILES: dict[str, Callable[[pd.DataFrame, str], object]] = {
    "marked.csv": lambda frame, path: frame.to_csv(
        path, index=False, encoding="utf-8-sig", na_rep="#N/A", lineterminator="\r\n"
    ),
    "ROWS.CSV": lambda frame, path: frame.to_csv(path, index=False, sep=";", na_rep="n/a"),
    "rows.csv": lambda frame, path: frame.to_csv(path, index=False),
    "rows.csv.gz": lambda frame, path: frame.to_csv(path, index=False),
    "rows.tsv": lambda frame, path: frame.to_csv(path, index=False, sep="\t"),
    "rows.parquet": lambda frame, path: frame.to_parquet(path),
    "rows.jsonl": lambda frame, path: frame.to_json(
        path, orient="records", lines=True, date_format="iso"
    ),
    "rows.json": lambda frame, path: frame.to_json(path, orient="records", date_format="iso"),
}


@pytest.fixture(scope="module", params=[*FRAMES, *FILES])
def rows(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The queries of a kind of frame or file."""
    frame = made_frame()
    if request.param in FRAMES:
        return from_frame(FRAMES[request.param](frame))
    path = tmp_path_factory.mktemp("rows") / request.param
    FILES[request.param](frame, str(path))
    return read_queries(path)


def test_every_kind_gives_the_same_bytes_of_features(rows: Any) -> None:
    expected = from_frame(made_frame())
    assert {"price", "stock", "born", "new"} < {*expected.feature_names}
    assert {"brand=east", "text: fjord"} < {*expected.feature_names}
    assert rows.feature_names == expected.feature_names
    assert rows.features.dtype == expected.features.dtype
    assert rows.features.tobytes() == expected.features.tobytes()
    assert rows.qids.tolist() == expected.qids.tolist()
    assert rows.docids.tolist() == expected.docids.tolist()
    assert rows.grades.tolist() == expected.grades.tolist()


def fitted(X: Any, **parameters: Any) -> SortNetRanker:
    return SortNetRanker(max_iter=1, epochs=2, random_state=0, **parameters).fit(X)


def weights(ranker: SortNetRanker, folder: Path) -> str:
    """A digest of the weights that `save` writes."""
    ranker.save(folder / "model")
    (file,) = (folder / "model").glob("*.safetensors")
    return hashlib.sha256(file.read_bytes()).hexdigest()


@pytest.mark.parametrize("kind", FRAMES)
def test_every_kind_of_frame_gives_the_same_model(kind: str, tmp_path: Path) -> None:
    frame = made_frame()
    names = {"query": "qid", "grade": "label", "id": "docid"}
    expected = fitted(frame, **names)
    make = FRAMES[kind]
    without_grades = frame.drop(columns="label")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a lazy frame warns when it is asked for its columns
        ranker = fitted(make(frame), **names)
        scores = ranker.predict(make(without_grades))
        judged = SortNetRanker(max_iter=1, epochs=1, query="qid", id="docid", random_state=0)
        judged.fit_pairs(make(without_grades), [(k, k + 1) for k in range(0, len(frame), 2)])
        margin = ranker.compare(0, 3, context=make(without_grades))
        quality = ranker.score(make(frame))
    assert weights(ranker, tmp_path) == weights(expected, tmp_path)
    np.testing.assert_array_equal(scores, expected.predict(without_grades))
    assert margin == expected.compare(0, 3, context=without_grades)
    assert quality == expected.score(frame)


def test_a_list_of_dicts_may_lack_values_and_is_refused_in_one_line() -> None:
    rows = [{"qid": k // 3, "label": k % 3, "size": float(k)} for k in range(9)]
    del rows[4]["size"]
    assert np.isnan(from_frame(rows).features[4, 0])
    with pytest.raises(DataError, match="half of a surrogate pair") as refused:
        from_frame([*rows, {**rows[0], "note": "\ud800"}])
    assert len(str(refused.value).splitlines()) == 1


NO_ROWS = [None, "rows.csv", iter([[1.0]]), [{"size": 1.0}, 3]]
NO_TABLES = [*NO_ROWS, {"size": [1.0]}]
NO_FRAMES = [*NO_ROWS, 5, [], [1], np.zeros((2, 2)), pd.Series([1.0])]


@pytest.mark.parametrize(
    ("read", "rows"),
    [
        *((lambda rows: SortNetRanker().fit(rows, [1]), rows) for rows in NO_TABLES),
        *((from_frame, rows) for rows in NO_FRAMES),
    ],
)
def test_what_is_no_table_or_no_frame_is_refused(read: Any, rows: Any) -> None:
    with pytest.raises(DataError, match=r"is no table|is no data frame") as refused:
        read(rows)
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize("name", ["a.xlsx", "a.csv.zip", "a.csv.bz2", "A.FEATHER", "a.db"])
def test_a_file_of_another_format_is_named(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"PK\x03\x04 0 qid:1 1:2")
    with pytest.raises(DataError, match="nor LETOR text: save it as CSV"):
        read_queries(tmp_path / name)


def test_a_function_gets_the_rows_of_a_frame_as_they_are() -> None:
    frame = pd.DataFrame(
        {
            "text": ["a", "b"],
            "size": [2, 10],
            "new": [True, False],
            "phone": ["0170123", "9"],
            "day": pd.to_datetime(["2020-01-01", "2021-01-01"]),
            "long": [2**53 + 1, 2**53 + 2],
        }
    )
    shown: list[dict[str, Any]] = []

    def by_size(left: dict[str, Any], right: dict[str, Any]) -> str:
        shown.extend([left, right])
        return "left" if left["size"] > right["size"] else "right"

    for items in (frame, pl.from_pandas(frame)):
        found = sortnet.sort(items, judge=by_size, progress=False)
        assert [item["size"] for item in found.items] == [10, 2]
    for row in shown:
        assert row in frame.to_dict("records")


def rated(**columns: Any) -> pd.DataFrame:
    numbers = np.arange(80)
    frame = {"qid": numbers // 4, "label": numbers % 3, "num": numbers * 7 % 11}
    return pd.DataFrame({**frame, **columns})


@pytest.mark.parametrize("name", [" lead ", "lead"])
def test_a_name_with_blanks_is_that_of_the_column_in_files(name: str, tmp_path: Path) -> None:
    frame = rated(**{name: np.arange(80.0) % 5})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    frame.to_parquet(tmp_path / "rows.parquet")
    frame.to_json(tmp_path / "rows.jsonl", orient="records", lines=True)
    frame.to_json(tmp_path / "rows.json", orient="records")
    for file in ("rows.csv", "rows.parquet", "rows.jsonl", "rows.json"):
        queries = read_queries(tmp_path / file)
        assert queries.feature_names == ("num", "lead")
        assert queries.features[:, 1].tolist() == frame[name].tolist()


def test_a_nested_column_may_be_ignored(tmp_path: Path) -> None:
    frame = rated(tags=[["a"]] * 80)
    frame.to_parquet(tmp_path / "rows.parquet")
    frame.to_json(tmp_path / "rows.jsonl", orient="records", lines=True)
    for file in ("rows.parquet", "rows.jsonl"):
        named = NamedColumns(ignore=("tags",))
        train = read_queries(tmp_path / file, columns=named)
        assert train.feature_names == ("num",) and train.roles.ignored == ("tags",)
        assert read_queries(tmp_path / file, like=train).features.tobytes() == (
            train.features.tobytes()
        )


def test_a_value_that_is_there_or_not_is_a_category(tmp_path: Path) -> None:
    is_marked = np.arange(80) % 3 == 2
    frame = rated(flag=[("x" if marked else None) for marked in is_marked])
    frame.to_csv(tmp_path / "rows.csv", index=False)
    for queries in (from_frame(frame), read_queries(tmp_path / "rows.csv")):
        assert queries.feature_names == ("num", "flag=x")
        assert (queries.features[:, 1] == is_marked).all()
    constant = from_frame(rated(flag=["x"] * 80))
    assert constant.feature_names == ("num",)


def test_dates_that_are_none_are_named_as_dates(tmp_path: Path) -> None:
    days = [f"2020-02-{k % 28 + 1:02d}" for k in range(80)]
    days[40] = "0000-00-00"  # MySQL writes it for a missing date
    path = tmp_path / "rows.csv"
    rated(day=days).to_csv(path, index=False)
    queries = read_queries(path)
    assert queries.dates == ("day",) and np.isnan(queries.features[40, 1])
    days[41] = "2020-02-30"
    rated(day=days).to_csv(path, index=False)
    with pytest.raises(DataError, match="'2020-02-30' is not a date, such as 2026-11-23"):
        read_queries(path)


def test_rows_of_separators_only_are_left_out_with_a_note(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("qid,label,x\n1,0,1\n1,1,2\n,,\n,,\n")
    queries = read_queries(path)
    assert queries.n_docs == 2
    assert [record.getMessage() for record in caplog.records] == [
        f"{path}, line 4: a row without values; such rows were left out"
    ]
    path.write_text('x\n1\n""\n3\n')  # a table of one column has missing values
    assert read_queries(path, labelled=False, columns=NamedColumns(query="none")).n_docs == 3


def test_a_folder_of_train_takes_the_columns_that_train_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    frame = rated(empty=np.nan, constant="the same words")
    frame.to_csv("rows.csv", index=False)
    done("train", "rows.csv", "--out", "model", "--store", "s.db", *FAST)
    ranker = SortNetRanker.load("model")
    scores = ranker.predict(frame)
    np.testing.assert_array_equal(scores, ranker.predict(frame[["qid", "num"]]))


def test_a_function_gets_numbers_of_a_file_as_numbers(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("text,n,code\na,9,a7\nb,10,x\n")

    def by_n(left: dict[str, Any], right: dict[str, Any]) -> str:
        return "left" if left["n"] > right["n"] else "right"

    found = sortnet.sort(tmp_path / "s.csv", judge=by_n, progress=False)
    best, worst = found.items
    assert best == {"text": "b", "n": 10, "code": "x"}
    assert worst == {"text": "a", "n": 9, "code": "a7"}


def test_an_empty_column_is_no_feature_in_any_kind() -> None:
    frame = rated(empty=np.nan)
    for make in FRAMES.values():
        assert from_frame(make(frame)).feature_names == ("num",)
    assert from_frame(pl.DataFrame({**rated(), "empty": None})).feature_names == ("num",)


def test_documents_may_have_one_name_whatever_the_features_are(tmp_path: Path) -> None:
    frame = made_frame().assign(docid="a")
    train = from_frame(frame)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    assert read_queries(tmp_path / "rows.csv", like=train).docids.tolist() == ["a"] * len(frame)
    blank = frame.assign(title="")
    blank.to_csv(tmp_path / "blank.csv", index=False)
    assert read_queries(tmp_path / "blank.csv", like=train).n_docs == len(frame)


def test_whole_numbers_of_128_bits_are_numbers() -> None:
    frame = pl.DataFrame({"qid": [1, 1], "label": [0, 1], "x": [1, 2]})
    assert from_frame(frame.with_columns(pl.col("x").cast(pl.Int128))).features.tolist() == [
        [1],
        [2],
    ]
