from __future__ import annotations

import gzip
import re
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from file_helpers import assert_same, refusal, written
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.datasets import load_svmlight_file

from sortnet import read_letor, write_letor
from sortnet.core import Queries
from sortnet.errors import DataError, SortNetError
from sortnet.tables import letor
from sortnet.tables.letor import MAX_FEATURES

SHARED_FOLDER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def fault(folder: Path, text: str | bytes, **options: int) -> str:
    return refusal(written(folder, text), **options)


# ---------------------------------------------------------------------------------- what is read


@pytest.mark.parametrize(
    ("text", "features"),
    [
        # in any order; what is left out is 0
        ("0 qid:1 4:5 2:2\n1 qid:1\n1 qid:1 5:7\n", [[0, 2, 0, 5, 0], [0] * 5, [0, 0, 0, 0, 7]]),
        # the comment begins at the hash, even without a blank
        ("1 qid:1 1:2#docid = a\n0 qid:2# 1:9\n", [[2], [0]]),
        # a last line without a newline
        ("1 qid:1 1:1 2:2\n0 qid:1 1:1 2:35", [[1, 2], [1, 35]]),
        ("1 qid:1 1:1\n# the end", [[1]]),
        # the largest float64 means no value
        ("1 qid:1 1:1.7976931348623157E308 2:1.79769313486232e+308\n", [[np.nan, np.nan]]),
    ],
)
def test_what_lines_may_be_like(tmp_path, text, features):
    q = read_letor(written(tmp_path, text))
    np.testing.assert_array_equal(q.features, np.array(features, np.float32))
    assert q.docids is None or q.docids.tolist() == ["a", ""]


def test_tabs_spaces_crlf_and_a_byte_order_mark_are_white_space(tmp_path):
    plain = read_letor(written(tmp_path, "1 qid:a 1:2 2:3 #docid = x\n0 qid:b 1:4 2:5\n"))
    odd = "\ufeff \t1\tqid:a   1:2\t\t2:3 \t#docid\t=\tx\r\n\r\n  \t\r\n0 qid:b 1:4 2:5\t\r\n"
    assert_same(read_letor(written(tmp_path, odd)), plain)


NO_END = "the last line has no line end: if the file was cut, data are missing"


@pytest.mark.parametrize("block", [3, 1 << 20])
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("1 qid:1 1:0.5\n0 qid:1 1:0.2", 2),
        ("1 qid:1 1:0.5\r\n\r\n0 qid:1 1:0.25 #docid = GX0", 3),
        ("1 qid:1 1:0.5\r0 qid:1 1:0.25", 2),
        ("1 qid:1 1:0.5", 1),
        ("1 qid:1 1:0.5\n0 qid:1 1:0.2\n", None),
        ("1 qid:1 1:0.5\r0 qid:1 1:0.2\r", None),
        ("1 qid:1 1:0.5\n# the end", None),
        ("1 qid:1 1:0.5\n  ", None),
    ],
)
def test_a_last_data_line_without_an_end_is_noted_in_the_log_and_is_no_warning(
    tmp_path, monkeypatch, caplog, block, text, line
):
    monkeypatch.setattr(letor, "BLOCK_BYTES", block)
    path = written(tmp_path, text)
    assert read_letor(path).n_docs >= 1
    notes = [record.getMessage() for record in caplog.records if record.name == "sortnet"]
    assert notes == ([] if line is None else [f"{path}, line {line}: {NO_END}"])


def test_gzip_is_known_by_name_and_by_content(tmp_path):
    text = b"1 qid:1 1:1 #docid = a\n0 qid:2 1:3\n"
    plain = read_letor(written(tmp_path, text))
    assert_same(read_letor(written(tmp_path, gzip.compress(text), "data.txt.gz")), plain)
    assert_same(read_letor(written(tmp_path, gzip.compress(text), "renamed.txt")), plain)


# ----------------------------------------------------------------------------- what it is read as


def test_a_made_file_is_read_as_scikit_learn_reads_it_whatever_the_blocks(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(3000):
        columns = np.sort(rng.choice(40, rng.integers(0, 12), replace=False)) + 1
        values = rng.normal(size=len(columns)) * 10.0 ** rng.integers(-20, 20, len(columns))
        pairs = " ".join(f"{c}:{v!r}" for c, v in zip(columns, values.tolist(), strict=True))
        lines.append(f"{rng.integers(5)} qid:{rng.integers(60)} {pairs}\n")
    path = written(tmp_path, "".join(lines))
    X, y, qid = load_svmlight_file(str(path), query_id=True, zero_based=False)
    whole = read_letor(path)
    np.testing.assert_array_equal(whole.features, X.toarray().astype(np.float32)[whole.rows])
    np.testing.assert_array_equal(whole.grades, y[whole.rows])
    np.testing.assert_array_equal(whole.qids[whole.query_of_docs()], qid[whole.rows].astype(str))
    for size in (16, 1000, 20_000):
        monkeypatch.setattr(letor, "BLOCK_BYTES", size)
        assert_same(read_letor(path), whole)


def tie_between_float32s(bits: int, nudge: int, digits: int) -> str:
    """A decimal next to the middle of two neighbouring float32, where rounding twice shows."""
    low = struct.unpack("f", struct.pack("I", bits))[0]
    high = struct.unpack("f", struct.pack("I", bits + 1))[0]
    middle = (low + high) / 2
    for _ in range(abs(nudge)):
        middle = float(np.nextafter(middle, np.inf if nudge > 0 else -np.inf))
    return f"{middle:.{digits}e}"


NUMBERS = st.one_of(
    st.floats(-3e38, 3e38).map(repr),
    st.floats(-(2.0**127), 2.0**127, width=32).map(str),
    st.floats(-1e6, 1e6).map("{:.6f}".format),
    st.from_regex(
        r"[+-]?([0-9]{1,25}(\.[0-9]{0,25})?|\.[0-9]{1,45})([eE][+-]?[0-4]?[0-9])?", fullmatch=True
    ).filter(lambda token: not token.endswith(".")),
    st.builds(
        tie_between_float32s,
        st.integers(0x00000001, 0x7F000000),
        st.integers(-2, 2),
        st.integers(14, 30),
    ),
)


@settings(SHARED_FOLDER, max_examples=60)
@given(st.lists(NUMBERS, min_size=1, max_size=30))
def test_every_value_is_the_float32_of_pythons_float(tmp_path, tokens):
    with np.errstate(over="ignore"):
        expected = np.array([np.float32(float(token)) for token in tokens])
    finite = np.isfinite(expected)
    if not finite.all():
        tokens = [token for token, good in zip(tokens, finite, strict=True) if good] or ["0"]
        expected = np.array([np.float32(float(token)) for token in tokens])
    pairs = " ".join(f"{k}:{token}" for k, token in enumerate(tokens, start=1))
    q = read_letor(written(tmp_path, f"0 qid:1 {pairs}\n"))
    assert q.features[0].view(np.uint32).tolist() == expected.view(np.uint32).tolist()


# ------------------------------------------------------------------------------- what is refused

GOOD = "1 qid:1 1:1 2:2\n"


@pytest.mark.parametrize(
    ("line", "offending"),
    [
        ("0 qid:1 1:abc 2:2", "feature 1: 'abc' is not a number"),
        ("0 qid:1 1:1:2 2:2", "feature 1: '1:2' is not a number"),
        ("0 qid:1 1:1e 2:2", "feature 1: '1e' is not a number"),
        ("0 qid:1 1:4. 2:2", "feature 1: '4.' is not a number"),
        ("0 qid:1 1:-12345678901234567890. 2:2", "'-12345678901234567890.' is not a number"),
        ("1. qid:1 1:1 2:2", "the grade '1.' is not a number"),
        ("0 qid:1 1:NULLS 2:2", "feature 1: 'NULLS' is not a number"),
        ("0 qid:1 1: 2:2", "feature 1 has no value"),
        ("0 qid:1 1:1 2:inf", "feature 2: 'inf' is infinite in float32"),
        ("0 qid:1 1:1 2:3.4028236e38", "feature 2: '3.4028236e38' is infinite in float32"),
        ("0 qid:1 1:1 1:2", "a feature is given twice: '1:2'"),
        (f"0 qid:1 {'0' * 5000}1:1 {'0' * 5000}1:2", "a feature is given twice: '000"),
        ("0 qid:1 2:1 1:2 2:2", "a feature is given twice: '2:2'"),
        ("0 qid:1 -1:1", "'-1:1' is not index:value"),
        ("0 qid:1 :1", "':1' is not index:value"),
        ("0 qid:1 1:1 qid:1", "'qid:1' is not index:value"),
        (f"0 qid:1 {MAX_FEATURES + 1}:1", f"the largest a file may have, {MAX_FEATURES}"),
        ("0 qid:1 99999999999999999999999999:1", "'99999999999999999999999999:1'"),
        ("0 1:1 2:2", "no qid:... after the grade: '0 1:1'"),
        ("0", "no qid:... after the grade: '0"),
        ("qid:1 1:1", "the grade 'qid:1' is not a number"),
        ("nan qid:1 1:1", "the grade 'nan' is not a number"),
        ("-1 qid:1 1:1", "grade '-1' is not a whole number from 0; MAP"),
        ("0.5 qid:1 1:1", "grade '0.5' is not a whole number from 0; MAP"),
        ("1e999 qid:1 1:1", "grade '1e999' is not a whole number"),
        (f"0 qid:{'q' * 2000} 1:1", "a name of 2000 bytes is too long"),
        (f"0 qid:1 1:1 #docid = {'d' * 2000}", "a name of 2000 bytes is too long"),
        ("0 qid:1 1:1 2:\0", "zero byte"),
    ],
)
def test_a_bad_line_is_refused_with_its_number_and_text(tmp_path, monkeypatch, line, offending):
    assert fault(tmp_path, f"# x\n\n{GOOD}{line}\n{GOOD}").startswith(", line 4: ")
    assert offending in fault(tmp_path, f"# x\n\n{GOOD}{line}\n{GOOD}")
    monkeypatch.setattr(letor, "BLOCK_BYTES", 32)
    message = fault(tmp_path, 100 * f"{GOOD}# x\r\n" + f"{line}\n{GOOD}")
    assert message.startswith(", line 201: ") and offending in message


def test_names_that_are_not_utf8_are_refused(tmp_path):
    assert fault(tmp_path, b"1 qid:a 1:1\n1 qid:\xff 1:1\n").startswith(
        ", line 2: the name b'\\xff'"
    )
    message = fault(tmp_path, b"1 qid:a 1:1 #docid = b\n1 qid:a 1:1 #docid = \xfe\n")
    assert message.startswith(", line 2: the name b'\\xfe' is not UTF-8")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        *((text, "no documents") for text in ("", "\n\n", "# only a comment\n", "#", " ")),
        ("1 qid:1\n0 qid:1\n", "no line has a feature"),
    ],
)
def test_a_file_without_documents_or_features_is_refused(tmp_path, text, what):
    assert what in fault(tmp_path, text)


CUT = ": the file ends in the middle of this line"


@pytest.mark.parametrize(
    "tail",
    ["+", "0", "0 q", "0 qid:", "0 qid:2", "0 qid:2 1:", "0 qid:2 1:1 2:1e-", "0 qid:2 1:1 2:0."],
)
def test_a_file_cut_in_the_middle_of_a_line_is_refused(tmp_path, tail):
    message = fault(tmp_path, GOOD + GOOD + tail)
    assert message.startswith(", line 3: ") and message.endswith(CUT)


def test_features_beyond_or_short_of_what_is_expected_are_refused(tmp_path):
    beyond = fault(tmp_path, GOOD + "1 qid:1 1:1 2:2 3:3\n", n_features=2)
    assert beyond == ", line 2: a feature index is beyond the 2 features expected: '3:3'"
    short = fault(tmp_path, GOOD, n_features=3)
    assert short == ": every line has 2 features, but 3 are expected"


def test_a_gz_that_is_cut_damaged_or_none_is_refused(tmp_path):
    packed = gzip.compress("".join(f"1 qid:1 1:{k}\n" for k in range(500)).encode())
    damaged = bytearray(packed)
    damaged[len(damaged) // 2] ^= 0xFF
    for content in (GOOD, bytes(damaged), *(packed[:keep] for keep in (3, 12, 40, -8, -1))):
        assert "cut or damaged" in refusal(written(tmp_path, content, "data.txt.gz"))


# ------------------------------------------------------------------------------ what is written

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="#\0"), min_size=1, max_size=5)
NAMES = NAMES.filter(lambda name: not re.search(r"\s", name, re.ASCII))


@settings(SHARED_FOLDER, max_examples=40)
@given(st.data(), st.sampled_from(["x.txt", "x.txt.gz"]))
def test_what_is_written_is_read_back_to_the_last_bit(tmp_path, data, name):
    value = st.floats(width=32, allow_infinity=False)
    X = data.draw(arrays(np.float32, st.tuples(st.integers(1, 6), st.just(3)), elements=value))
    names = data.draw(st.lists(NAMES, min_size=len(X), max_size=len(X)))
    grades = data.draw(st.lists(st.integers(0, 2**31 - 1), min_size=len(X), max_size=len(X)))
    q = Queries.from_arrays(X, grades, qid=names, docids=names[::-1])
    write_letor(q, tmp_path / name)
    back = read_letor(tmp_path / name)
    assert_same(replace(back, rows=q.rows), q)
    assert np.nan_to_num(back.features).tobytes() == np.nan_to_num(q.features).tobytes()


def test_a_written_file_appears_whole_or_not_at_all(tmp_path, monkeypatch):
    q = Queries.from_arrays(np.ones((10, 3)), np.zeros(10))
    path = written(tmp_path, "what was there")
    monkeypatch.setattr("sortnet.tables.letor_writer._VALUES_AT_ONCE", 3)
    bad = q.with_features(np.vstack([np.ones((9, 3)), np.full((1, 3), np.inf)]).astype(np.float32))
    with pytest.raises(DataError, match="infinite"):
        write_letor(bad, path)
    assert path.read_text() == "what was there"
    assert [p.name for p in tmp_path.iterdir()] == ["data.txt"]
    write_letor(q, path)
    assert path.read_text() == "0 qid:0 1:1.0 2:1.0 3:1.0\n" * 10


def test_what_letor_text_cannot_hold_is_not_written(tmp_path):
    def refused(**names: list[str]) -> str:
        with pytest.raises(DataError) as raised:
            write_letor(Queries.from_arrays([[1.0]], [0], **names), tmp_path / "x.txt")
        assert not list(tmp_path.iterdir())
        return str(raised.value)

    for qid in ("a b", "a#b", "", "a\nb"):
        assert f"cannot hold the qid {qid!r}" in refused(qid=[qid])
    assert "cannot hold the document id 'a b'" in refused(docids=["a b"])
    with pytest.raises(SortNetError, match="cannot write"):
        write_letor(Queries.from_arrays([[1.0]], [0]), tmp_path / "no" / "x.txt")
