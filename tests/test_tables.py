"""One table through every door: training data, a collection's items, the estimator."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortnet import from_frame
from sortnet.data import read_queries
from sortnet.estimator.arrays import Features
from sortnet.items import Columns, read_items
from sortnet.items.given_items import items_from
from sortnet.tables.read_rows import read_rows
from sortnet.tables.values import may_have_numbers, numbers_of

NAMES = ("size", "made", "new", "colour=blue", "colour=red")
WORDS = ["quiet", "bright", "heavy", "gentle"]


def goods(n: int = 72, seed: int = 0) -> pd.DataFrame:
    """The grade is the number of good words of the text, and the colour's."""
    rng = np.random.default_rng(seed)
    good, red = rng.integers(0, 3, n), rng.integers(0, 2, n)
    return pd.DataFrame(
        {
            "qid": np.repeat(np.arange(n // 12), 12),
            "label": good + red,
            "docid": [f"d{k}" for k in range(n)],
            "size": rng.normal(size=n).round(3),
            "made": pd.date_range("2026-01-01", periods=n, freq="36h").astype(str),
            "new": rng.integers(0, 2, n).astype(bool),
            "colour": np.array(["blue", "red"])[red],
            "text": [
                f"{'good ' * g}{' '.join(rng.permutation(WORDS))} {k}" for k, g in enumerate(good)
            ],
        }
    )


def test_one_table_gives_one_answer_at_every_door(tmp_path):
    frame = goods()
    plain = frame.drop(columns="text")
    expected = np.column_stack(
        [
            frame["size"],
            (pd.to_datetime(frame["made"]) - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1),
            frame["new"],
            frame["colour"] == "blue",
            frame["colour"] == "red",
        ]
    ).astype(np.float32)
    plain.to_csv(tmp_path / "t.csv", index=False)
    plain.to_parquet(tmp_path / "t.parquet")
    for path in tmp_path.iterdir():
        queries = read_queries(path)
        items = read_items(path, Columns("docid", group="qid"))
        for found in (queries, items):
            assert found.feature_names == NAMES, path
            np.testing.assert_array_equal(found.features, expected)
        assert queries.grades.tolist() == frame["label"].tolist()
    X = plain.drop(columns=["label", "docid", "qid"])
    features, values = Features.fit_apply(X, "X")
    assert features.names == NAMES
    for found in (values, features.apply(X, "X")):
        np.testing.assert_array_equal(found.astype(np.float32), expected)
    np.testing.assert_array_equal(from_frame(plain).features, expected)
    items = items_from(plain, id="docid", group="qid").items
    assert items.feature_names == NAMES
    np.testing.assert_array_equal(items.features, expected)


def test_what_is_named_like_a_grade_or_an_id_is_no_feature(tmp_path):
    text = "uid,grade,index,x\n" + "".join(f"{k},{k % 3},{k},{k / 2}\n" for k in range(9))
    (tmp_path / "t.csv").write_text(text)
    assert read_items(tmp_path / "t.csv").feature_names == ("x",)
    (tmp_path / "t.csv").write_text(text.replace("uid", "qid"))
    queries = read_queries(tmp_path / "t.csv")
    assert queries.feature_names == ("x",) and queries.grades[:3].tolist() == [0, 1, 2]


@pytest.mark.parametrize("at_once", [5, 1 << 21])
def test_a_column_that_turns_to_text_late_is_text_throughout(tmp_path, monkeypatch, at_once):
    monkeypatch.setattr("sortnet.tables.read_csv.CELLS_AT_ONCE", at_once)
    cells = ["1", "2.50", "", "3"] + ["a", "b"] * 3
    (tmp_path / "t.csv").write_text("x\n" + "".join(f'"{cell}"\n' for cell in cells))
    rows = read_rows(tmp_path / "t.csv", keep=lambda column: False)
    assert [text.replace("2.50", "2.5") for text in rows.texts("x")] == [
        *("1", "2.5", "", "3"), *["a", "b"] * 3,
    ]  # fmt: skip
    assert rows.place(9).endswith("line 11")


cell = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**60), 2**60),
    st.floats(),
    st.sampled_from(
        ["", "n/a", " 1.5 ", "x", "1_000", "true", "2026-01-01", "9" * 400, "-inf", 10**400]
    ),
)


@given(st.lists(cell, min_size=1, max_size=20))
def test_numbers_are_those_that_python_reads(cells):
    numbers, wrong = numbers_of(cells)
    for value, number, bad in zip(cells, numbers, wrong, strict=True):
        text = str(value).strip().lower()
        if value is None or text in ("", "n/a", "nan"):
            assert np.isnan(number) and not bad
        elif text in ("x", "1_000"):
            assert bad
        elif text == "2026-01-01":
            assert number == 20454
        else:
            expected = {"true": 1.0, "false": 0.0}.get(text)
            expected = float(text) if expected is None else expected
            assert number == pytest.approx(expected, rel=1e-15) and not bad


@given(st.lists(st.text("0123456789+-.eEinfINFatrueTR \t٣", max_size=6), min_size=1))
def test_whatever_is_a_number_may_be_one(cells):
    numbers, _ = numbers_of(cells)
    assert may_have_numbers(cells) or np.isnan(numbers).all()
