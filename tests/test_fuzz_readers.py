"""Damaged files: each reader gives data or an error of ours in one line, whatever stands there."""

from __future__ import annotations

import io
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_helpers import letor
from collection_helpers import made_items
from file_helpers import assert_same
from fuzz_helpers import damaged, foreign, rounds, with_ends

from sortnet.core import Queries
from sortnet.data import read_queries
from sortnet.errors import DataError, SortNetError
from sortnet.items import Columns, Items, read_items
from sortnet.items.base import read_pairs
from store import open_store
from store.collections.judgement_files import FIELDS, import_judgements
from store.collections.judgement_lines import read_lines

TESTS = Path(__file__).resolve().parent
LETOR = (
    letor(3, 0, n_docs=3).encode(),
    b"2 qid:a 1:0.5 7:NULL 3:1e-7 #docid = d7\r\n\n# note\n0 qid:b 1:nan 2:-0.0\n1 qid:a 2:inf\n",
    b"1 qid:\xc3\xa4 3:1.7976931348623157e308 1:+.5 # docid = \xc3\xa9 inc = 1\n",
)
LETOR_PARTS = (
    *(b"qid:", b"qid: ", b"1:", b":", b"#", b"# docid = ", b"\n", b"\r", b" ", b"nan", b"NULL"),
    *(b"0" * 5000 + b"1:1 " + b"0" * 5000 + b"1:2", b"9" * 5000, b"100000:1", b"100001:1", b"0:1"),
    *(b"1e999", b"-1e-999", b"1e99999999999999999999", b"0x1", b"1_0", b"\xef\xbb\xbf", b"\xff"),
    *(b"2147483648 qid:1 1:1", b"docid = " + b"d" * 1100, b"1:" + b"1" * 400, b"\xd9\xa3"),
)
CSV = (
    b"qid,label,x,y,docid\n1,0,1.5,2,a\n1,2,,NULL,b\n2,1,-3e4,0,\n",
    b'qid,label,"x, y",z\r\n"a",0,"1",2\r\n"b\nc",1,3,"4"\r\n',
    b"\xef\xbb\xbfqid,label,x\n7.0,1.0,0.1\n\n7,0,inf\n",
)
ITEMS = (
    b'id,text,sugar\na,"some words, quoted",1\nb,"two\nlines",2.5\nc,,\n',
    b"name;price\none;1\ntwo;2\n",
)
CSV_PARTS = (
    *(b",", b'"', b'""', b"\n", b"\r", b"\t", b";", b"qid", b"label", b"docid", b"nan", b"inf"),
    *(b"9" * 5000, b"1e999", b"0x10", b"1_000", b"\xff", b"\0", b"\xe2\x80\xa8", b"1j", b"True"),
    *(b"2020-01-01", b"-1", b"0.5", b"2147483648", b"\xef\xbb\xbf", b"'", b"x" * 1100, b"[1]"),
)
JSONL = (
    b'{"id": "a", "text": "some words of a text", "sugar": 1}\n{"id": "b", "sugar": null}\n',
    b'{"name": "\\u00e4", "n": 1e5, "ok": true}\n\n{"name": "b", "n": -2, "ok": false}\n',
)
JSON_PARTS = (
    *(b"{", b"}", b"[", b"]", b'"', b",", b":", b"null", b"true", b"NaN", b"-Infinity", b"1e999"),
    *(b"9" * 5000, b'"\\ud800"', b"\\u0000", b'{"a":' * 2000, b"[" * 3000, b'"id":', b'"text":'),
    *(b"\xff", b"\xe2\x80\xa8", b"[1]", b'{"b":2}', b"-0", b"\n", b'"x":1,"x":2', b"0.1e", b"\0"),
)
FULL = dict.fromkeys(FIELDS) | {
    **{"id": "a1", "number": 1, "annotator": "ana", "left": "a", "right": "b", "answer": "left"},
    **{"milliseconds": 900, "strategy": "informative", "probability": 0.5, "model": 3, "at": 1.5e9},
}
UNDO = FULL | {"id": "a2", "number": 2, "answer": "undo", "undoes": 1}
SHORT = {"winner": "a", "loser": "b", "annotator": "bob"}
JUDGEMENTS = (
    "".join(json.dumps(line) + "\n" for line in (FULL, UNDO)).encode(),
    "".join(json.dumps(line) + "\n" for line in (SHORT, SHORT | {"winner": "c"})).encode(),
)
JUDGEMENT_TABLES = (
    b"left,right,answer,annotator,milliseconds\na,b,left,ana,900.0\nb,c,tie,ana,\n",
    b"winner,loser,annotator\na,b,ana\nc,b,bob\n",
    ",".join(FIELDS).encode() + b"\na1,1,ana,a,b,left,900,informative,0.5,3,,1.5\n",
)
JUDGEMENT_PARTS = (
    *(b'"left"', b'"right"', b'"answer"', b'"winner": "a",', b'"loser": "b",', b'"answer": "tie",'),
    *(b'"undo"', b'"undoes": 1,', b'"number": 1,', b"left", b"undo", b"a,b,tie,ana", b"1e400"),
    *JSON_PARTS,
)


def mixed(files: tuple[bytes, ...], parts: tuple[bytes, ...], rng: random.Random) -> bytes:
    """A good file with parts of others put in, lines moved, fields swapped and bytes damaged."""
    data = rng.choice(files)
    for _ in range(rng.choice((1, 1, 2, 3))):
        lines = data.split(b"\n")
        what, k = rng.randrange(5), rng.randrange(len(lines))
        if what == 0:
            at = rng.randrange(len(data) + 1)
            data = data[:at] + rng.choice(parts) + data[at + rng.choice((0, 0, 1, 5)) :]
        elif what == 1:
            lines.insert(k, rng.choice(rng.choice(files).split(b"\n")))
            data = b"\n".join(lines)
        elif what == 2:
            words = lines[k].split(rng.choice((b" ", b",", b":")))
            words[rng.randrange(len(words))] = rng.choice(parts)
            lines[k] = rng.choice((b" ", b",", b":")).join(words)
            data = b"\n".join(lines)
        else:
            data = damaged(data, rng)
    return foreign(data, rng) if rng.random() < 0.2 else data


def parquet_bytes(rng: random.Random) -> bytes:
    """A good Parquet file of columns of kinds that nobody expects."""
    import pandas as pd

    n = 4
    columns: tuple[Any, ...] = (
        [1.5, None, 2.0, 3.0], [1, 2, 3, 4], [b"1", b"\xff", None, b""], [[1], [], None, [2, 3]],
        [{"a": 1}] * n, ["x", "y", None, "z"], [True, False, None, True], list("1234"),
        pd.date_range("2020", periods=n), [np.inf, 1.0, 2.0, -np.inf], [10**18] * n,
        pd.Categorical(["a", "b", "a", None]), [None] * n,
    )  # fmt: skip
    usual = {"qid": [1, 1, 2, 2], "label": [0, 1, 2, 0], "docid": list("abcd"), "x": [1.0] * n}
    named = {name: rng.choice(columns) if rng.random() < 0.2 else v for name, v in usual.items()}
    named |= {f"c{k}": rng.choice(columns) for k in range(rng.randrange(3))}
    frame = pd.DataFrame(named, index=rng.choice((None, list("wxyz"))))
    out = io.BytesIO()
    frame.to_parquet(out, compression=rng.choice((None, "snappy", "zstd")))
    return out.getvalue()


def damaged_parquet(rng: random.Random) -> bytes:
    """Damage three of four files, half of them in the metadata at their end."""
    data = parquet_bytes(rng)
    cut = rng.choice((0, max(len(data) - 600, 0)))
    return data if rng.random() < 0.25 else data[:cut] + damaged(data[cut:], rng)


GROUPED = (
    b"id,topic,why,n\na,x,one,1\nb,x,one,2\n",
    b'id;topic;why\na;1;"p\nq"\nb;2;\nc;2;\n',
)
PAIRS = (b"left,right\na,b\nb,a\n", b"one;two\na;b\n")
JSON_PAIRS = (b'{"left": "a", "right": "b"}\n', b'{"x": "b", "y": "a"}\n{"x": "a", "y": "b"}\n')
# Files of other tools, as tests/test_other_tools.py explains them.
OF_TOOLS = (
    b'[{"model_a": "a", "model_b": "b", "winner": "tie (bothbad)", "tstamp": 1.5}]',
    b'[{"chosen": [{"role": "assistant", "content": "a"}], "rejected": "b", "prompt": "x"}]',
    b'[{"data": {"text1": "a", "text2": "b", "group": "x"}, "annotations": [{"result": '
    b'[{"type": "pairwise", "value": {"selected": "left"}}], "completed_by": {"id": 1}, '
    b'"lead_time": 1.5, "created_at": "2021-03-09T22:16:08Z", "was_cancelled": false}]}]',
    b'[{"fields": {"one": "a", "two": "b"}, "responses": {"q": [{"value": [{"value": "one", '
    b'"rank": 1}, {"value": "two", "rank": 2}], "user_id": "u"}, {"value": "two"}]}}]',
    b'[{"fields": {"one": "a", "two": "b"}, "responses": [{"values": {"q": {"value": "one"}}, '
    b'"user_id": "u", "status": "submitted"}]}]',
)
NONE = (None,) * 3
ABC = Items(tuple("abc"), NONE, NONE, NONE, np.empty((3, 0), np.float32), (), groups=tuple("xxy"))
Make = Callable[[random.Random], bytes]
Read = Callable[[Path], object]


def check_sound(q: Queries) -> None:
    assert q.n_docs == q.offsets[-1] == len(q.grades) == len(q.rows) > 0
    assert not np.isinf(q.features).any() and (q.grades >= 0).all()
    assert len(set(q.qids.tolist())) == len(q)


TARGETS: dict[str, tuple[int, str, Make, Read]] = {
    "letor": (
        175, ".txt", lambda rng: mixed(LETOR, LETOR_PARTS, rng),
        lambda path: check_sound(read_queries(path, n_features=(None, 4)[path.stat().st_size % 2])),
    ),
    "csv": (150, ".csv", lambda rng: mixed(CSV, CSV_PARTS, rng), read_queries),
    "parquet": (100, ".parquet", damaged_parquet, read_queries),
    "items of parquet": (50, ".parquet", damaged_parquet, read_items),
    "items of csv": (250, ".csv", lambda rng: mixed(ITEMS, CSV_PARTS, rng), read_items),
    "items of tsv": (125, ".tsv", lambda rng: mixed(ITEMS, CSV_PARTS, rng), read_items),
    "items of jsonl": (375, ".jsonl", lambda rng: mixed(JSONL, JSON_PARTS, rng), read_items),
    "items in groups": (
        125, ".csv", lambda rng: mixed(GROUPED, CSV_PARTS, rng),
        lambda path: read_items(path, Columns(group="topic", context="why")),
    ),
    "items of letor": (75, ".txt", lambda rng: mixed(LETOR, LETOR_PARTS, rng), read_items),
    "pairs of csv": (
        75, ".csv", lambda rng: mixed(PAIRS, CSV_PARTS, rng), lambda path: read_pairs(path, ABC)
    ),
    "pairs of jsonl": (
        75, ".jsonl", lambda rng: mixed(JSON_PAIRS, JSON_PARTS, rng),
        lambda path: read_pairs(path, ABC),
    ),
    "judgements of jsonl": (
        375, ".jsonl", lambda rng: mixed(JUDGEMENTS, JUDGEMENT_PARTS, rng),
        lambda path: read_lines(path, ABC, annotator="eve"),
    ),
    "judgements of other tools": (
        375, ".json", lambda rng: mixed(OF_TOOLS, JSON_PARTS, rng),
        lambda path: read_lines(path, ABC, annotator="eve"),
    ),
    "judgements of csv": (
        250, ".csv", lambda rng: mixed(JUDGEMENT_TABLES, JUDGEMENT_PARTS, rng),
        lambda path: read_lines(path, ABC),
    ),
}  # fmt: skip


def check(name: str, seeds: Iterator[int], folder: Path) -> None:
    """Read what every seed makes; the file that a reader stumbles over stays in the folder."""
    _, suffix, make, read = TARGETS[name]
    for seed in seeds:
        path = folder / f"{seed}{suffix}"
        path.write_bytes(make(random.Random(seed)))
        try:
            read(path)
        except SortNetError as error:
            message = str(error)
            assert "\n" not in message and message.startswith(str(path)), (seed, message)
        except Exception as error:
            raise AssertionError(f"SORTNET_FUZZ_SEED={seed}: {path}: {error!r}") from error
        path.unlink()


@pytest.mark.parametrize("name", TARGETS)
def test_a_damaged_file_gives_data_or_an_error_of_ours(name, tmp_path):
    if "parquet" in name:
        pytest.importorskip("pyarrow")
    check(name, rounds(TARGETS[name][0]), tmp_path)


def read_as(path: Path, data: bytes, read: Read) -> tuple[Any, str]:
    """Write bytes and read them: the data, or the message without the file's name."""
    path.write_bytes(data)
    try:
        return read(path), ""
    except SortNetError as error:
        return None, str(error).removeprefix(str(path))


@pytest.mark.parametrize("end", [b"\r", b"\r\n"])
def test_a_damaged_letor_file_is_the_same_with_every_kind_of_line_end(tmp_path, end):
    for seed in rounds(100):
        rng = random.Random(seed)
        data = mixed(LETOR, LETOR_PARTS, rng).replace(b"\r", b"\n")
        plain, message = read_as(tmp_path / "t.txt", data, read_queries)
        converted, other_message = read_as(tmp_path / "t.txt", with_ends(data, end), read_queries)
        assert message == other_message, seed
        if plain is not None:
            assert_same(plain, converted)


@pytest.mark.slow
def test_the_compiled_reader_stays_within_its_arrays(tmp_path):
    """Compiled with a check of every index, in a process of its own: it lasts for the process."""
    code = "import sys, test_fuzz_readers as t; t.check('letor', range(5000, 5200), t.Path())"
    checked = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path / "compiled")}
    paths = os.pathsep.join([str(TESTS), str(TESTS.parent)])
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=os.environ | checked | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ran.returncode == 0, ran.stderr


def test_a_judgement_whose_key_has_two_lines_is_refused_in_one(tmp_path):
    """Found by fuzzing."""
    path = tmp_path / "judgements.json"
    path.write_text(json.dumps([{"fields": {}, "resp\nses": []}]))
    with open_store(tmp_path / "s.db") as store:
        collection = store.add_items("some", made_items(2))
        with pytest.raises(DataError, match="record 1") as refused:
            import_judgements(collection, path)
    assert "\n" not in str(refused.value)
