from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli_helpers import invoke
from file_helpers import assert_same

from sortnet import read_letor
from sortnet.data import fingerprint, read_queries
from sortnet.errors import DataError


def frame(n: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(n, 2)).astype(np.float32)
    head = {"qid": np.arange(n) // 7, "label": rng.integers(3, size=n)}
    head["docid"] = [f"d{k}" for k in range(n)]
    return pd.DataFrame({**head, "a": values[:, 0], "b": values[:, 1]})


def write(path: Path, rows: pd.DataFrame) -> None:
    """By the ending of the name: a table, else LETOR text."""
    if path.suffix == ".parquet":
        rows.to_parquet(path)
    elif ".csv" in path.name or ".tsv" in path.name:
        rows.to_csv(path, index=False, sep="\t" if ".tsv" in path.name else ",")
    else:
        lines = (
            f"{row.label} qid:{row.qid} 1:{row.a!r} 2:{row.b!r} # docid = {row.docid}\n"
            for row in rows.itertuples()
        )
        text = "".join(lines).encode()
        path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)


@pytest.fixture(params=["", ".txt", ".txt.gz", ".csv", ".csv.gz", ".tsv", ".parquet"])
def parts(request, tmp_path) -> tuple[Path, Path]:
    """A file, and a folder of its parts, two of which share a query."""
    folder, whole = tmp_path / "parts", frame()
    folder.mkdir()
    write(tmp_path / f"whole{request.param}", whole)
    for k, rows in enumerate((slice(0, 10), slice(10, 40), slice(40, 60))):
        write(folder / f"part-{k}{request.param}", whole.iloc[rows])
    (folder / "part-3").touch()
    (folder / "_SUCCESS").touch()
    (folder / ".part-0.crc").write_bytes(b"\0")
    return tmp_path / f"whole{request.param}", folder


def test_several_files_are_one_data_set(parts):
    whole, folder = parts
    expected = read_queries(whole)
    for name in (folder, f"{folder}/part-*", f"{folder}/part-[0-2]*"):
        found = read_queries(name)
        assert_same(found, expected)
        assert found.source == str(name)


def test_lines_and_rows_are_named_with_their_file(tmp_path):
    rows = frame()
    for ending in (".csv", ".txt"):
        write(tmp_path / f"0{ending}", rows.iloc[:30])
        write(tmp_path / f"1{ending}", rows.iloc[30:])
        text = (tmp_path / f"1{ending}").read_text().splitlines()
        text[5] = text[5].replace("d3", "d3,7,7,7" if ending == ".csv" else "d3\n1 qid:1 1:x")
        (tmp_path / f"1{ending}").write_text("\n".join(text) + "\n")
        with pytest.raises(DataError, match=rf"1\{ending}, line [67]: "):
            read_queries(f"{tmp_path}/*{ending}")
    bad = rows.astype({"a": object})
    write(tmp_path / "0.parquet", rows)
    bad.loc[4, "a"] = "no number"
    bad["a"] = bad["a"].astype(str)
    write(tmp_path / "1.parquet", bad)
    with pytest.raises(DataError, match=r"1\.parquet, row 5: column 'a': 'no number'"):
        read_queries(f"{tmp_path}/*.parquet")


def test_files_of_other_features_are_refused_by_name(tmp_path):
    (tmp_path / "0.txt").write_text("1 qid:1 1:1 2:2\n0 qid:1 1:2 2:1\n")
    (tmp_path / "1.txt").write_text("1 qid:1 1:1 2:2 3:3\n")
    with pytest.raises(DataError, match=r"0\.txt: every line has 2 features, but 3 are expected"):
        read_queries(f"{tmp_path}/*.txt")
    (tmp_path / "2.txt").write_text("1 qid:1 2:2 4:3\n")  # of a sparse file that is legal
    assert read_letor(f"{tmp_path}/*.txt").n_features == 4
    for ending in (".csv", ".parquet"):
        write(tmp_path / f"0{ending}", frame())
        write(tmp_path / f"1{ending}", frame().rename(columns={"b": "c"}))
        pattern = rf"1\{ending}: its columns are .*a, c; those of .*0\{ending} .*a, b"
        with pytest.raises(DataError, match=pattern):
            read_queries(f"{tmp_path}/*{ending}")


def test_what_is_no_data_set_is_refused(tmp_path):
    with pytest.raises(DataError, match="is a folder without data files"):
        read_queries(tmp_path)
    with pytest.raises(DataError, match="no file has such a name"):
        read_queries(tmp_path / "*.txt")
    for name in ("a.txt", "b.csv"):
        write(tmp_path / name, frame())
    with pytest.raises(DataError, match=r"a\.txt and b\.csv are not of one kind"):
        read_queries(tmp_path)
    (tmp_path / "b.csv").rename(tmp_path / "vali.txt")
    with pytest.raises(DataError, match=r"is a folder with vali\.txt in it"):
        read_queries(tmp_path)
    (tmp_path / "0").mkdir()
    with pytest.raises(DataError, match="is a folder with 0 in it"):
        fingerprint(tmp_path)


NO_END = "the last line has no line end: if the file was cut, data are missing"
CSV = "qid,label,x,docid\n1,0,0.125,a\n1,2,0.25,b\n2,1,0.5,cc\n"


def notes_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The notes in the log of the library since the last call."""
    notes = [record.getMessage() for record in caplog.records if record.name == "sortnet"]
    caplog.clear()
    return notes


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_a_csv_file_without_a_last_line_end_is_noted_if_its_last_row_is_the_shortest(
    tmp_path, caplog, end, name
):
    path = tmp_path / name
    shortest = len("1,2,0.25,b")
    for cut in range(1, 5):
        text = CSV[:-cut].replace("\n", end).encode()
        path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
        if CSV[:-cut].count(",") < 12:
            with pytest.raises(DataError, match="line 4: 3 fields where the header has 4"):
                read_queries(path)
            continue
        assert read_queries(path).n_docs == 3
        length = len("2,1,0.5,cc") + 1 - cut
        expected = [f"{path}, line 4: {NO_END}"] if length < shortest else []
        assert notes_of(caplog) == expected


def test_a_command_prints_a_note_once_as_a_line_on_stderr(tmp_path):
    path = tmp_path / "items.jsonl"
    path.write_text('{"id": "a", "x": 1}\n{"id": "b", "x": 2}')
    result = invoke("items", "add", "some", path, "--store", tmp_path / "s.db")
    assert result.exit_code == 0 and NO_END not in result.stdout
    assert result.stderr.splitlines().count(f"{path}, line 2: {NO_END}") == 1
    assert result.stderr.count(NO_END) == 1


DECIMALS = "qid;label;count;x;y\n1;0;3;0,5;n/a\n1;1;4;1,5;-1.234,5\n2;0;5;2;1,5\n"


def test_decimal_commas_are_refused_with_their_line_in_labelled_data(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(DECIMALS)
    fault = "is not a number: numbers have a decimal point, not a comma"
    with pytest.raises(DataError) as raised:
        read_queries(path)
    assert str(raised.value) == f"{path}, line 2: column 'x': '0,5' {fault}"
    no_x = DECIMALS.replace("0,5", "0.5").replace("4;1,5", "4;1.5")
    path.write_text(no_x)
    with pytest.raises(DataError) as raised:
        read_queries(path)
    assert str(raised.value) == f"{path}, line 3: column 'y': '-1.234,5' {fault}"
    path.write_text(no_x.replace("-1.234,5", "-1234.5").replace("1,5", "1.5"))
    assert read_queries(path).feature_names == ("count", "x", "y")
