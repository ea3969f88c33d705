"""Bad input: one clear line that names the thing, exit code 2, and nothing left behind."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import Mock

import pytest
from cli_helpers import FAST, done, fault, invoke, weights_of
from forked_processes import Forked

from sortnet.errors import SortNetError
from store import open_store

GOOD = "1 qid:7 1:0.5 2:0.25 # docid = a\n0 qid:7 1:0.5 2:0.75 # docid = b\n"


@pytest.fixture
def home(own_trained, tmp_path, monkeypatch) -> Path:
    """A working folder with the fold `fold`, the model `m` and its store `s.db`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("SORTNET_STORE", raising=False)
    return tmp_path


@contextmanager
def nothing_left(folder: Path):
    """No file comes, goes or changes."""

    def seen():
        return {p: p.read_bytes() if p.is_file() else None for p in sorted(folder.rglob("*"))}

    before = seen()
    yield
    assert seen() == before


def line_of(path: str, number: int, text: str):
    """A message that names the file, the line and the offending text."""
    return re.compile(rf"{re.escape(path)}.*\b{number}\b.*{re.escape(text)}")


def test_a_bad_line_is_named_with_its_file_and_its_number(home):
    Path("bad.txt").write_text(GOOD + "1 qid:7 1:0.5 2:abc\n")
    expected = line_of("bad.txt", 3, "'abc'")
    with nothing_left(home):
        for args in (
            ("train", "bad.txt", "fold/vali.txt", "--out", "new", *FAST),
            ("train", "fold/train.txt", "bad.txt", "--out", "new", *FAST),
            ("rank", "m", "bad.txt", "--output", "new"),
        ):
            message = fault(*args)
            assert expected.search(message), message


def test_a_feature_beyond_the_model_s_and_a_folder_without_a_model_are_named(home):
    Path("bad.txt").write_text("1 qid:7 1:0.5 5:0.25\n0 qid:7 1:0.5\n")
    message = fault("rank", "m", "bad.txt")
    assert line_of("bad.txt", 1, "5").search(message) and "4" in message
    for command, *more in (("evaluate",), ("rank",), ("importance",), ("explain", "0", "1")):
        message = fault(command, "nowhere", "fold/test.txt", *more)
        assert "nowhere/model.json: no model there" in message
        assert message.endswith(": sortnet runs lists the model of each run\n")
    assert "fold/model.json: no model there" in fault("rank", "fold", "fold/test.txt")


def test_a_file_or_a_folder_that_is_not_there_is_named(home):
    with nothing_left(home):
        assert "nowhere: no such file or folder" in fault("train", "nowhere", "--out", "new")
        assert "no.txt: no such file" in fault("train", "no.txt", "fold/vali.txt", "--out", "new")
        assert "no.txt: no such file" in fault("rank", "m", "no.txt")
        (home / "fold/vali.txt").rename(home / "fold/other.txt")
        assert "vali.txt" in fault("train", "fold", "--out", "new")
        (home / "fold/other.txt").rename(home / "fold/vali.txt")


def test_parts_of_different_features_are_refused(home):
    text = Path("fold/vali.txt").read_text()
    Path("five.txt").write_text(re.sub(r" #", " 5:1 #", text))
    with nothing_left(home):
        message = fault("train", "fold/train.txt", "five.txt", "--out", "new", *FAST)
        assert "five.txt" in message and "4" in message
        message = fault("train", "five.txt", "fold/vali.txt", "--out", "new", *FAST)
        assert "vali.txt" in message and "5" in message


def test_tables_that_name_their_features_differently_are_refused(home):
    Path("a.csv").write_text("qid,label,x,y\n1,0,1,2\n1,1,2,1\n")
    Path("b.csv").write_text("qid,label,x,z\n1,0,1,2\n1,1,2,1\n")
    with nothing_left(home):
        assert "b.csv" in fault("train", "a.csv", "b.csv", "--out", "new", *FAST)
    done("train", "a.csv", "a.csv", "--out", "ab", *FAST)
    message = fault("rank", "ab", "b.csv")
    assert "b.csv: there is no column 'y' in qid, label, x, z" in message


def test_queries_that_the_empty_rule_refuses_are_refused_before_anything_is_learned(home):
    text = re.sub(r"^\d (qid:q0)", r"0 \1", Path("fold/vali.txt").read_text(), flags=re.M)
    Path("v.txt").write_text(text)
    with nothing_left(home):
        message = fault(
            "train", "fold/train.txt", "v.txt", "--set", "empty=error", "--out", "new", *FAST
        )
    assert "of 8 queries have no relevant document" in message


@pytest.mark.parametrize("name", ["bleu", "ndcg@0"])
def test_an_unknown_metric_is_named_with_those_that_are_known(home, name):
    with nothing_left(home):
        for args in (
            ("evaluate", "m", "fold/test.txt", "--metric", name),
            ("train", "fold", "--quality", name, "--out", "new"),
        ):
            assert f"'{name}'" in fault(*args)
    assert "ndcg" in fault("evaluate", "m", "fold/test.txt", "--metric", "bleu")


@pytest.mark.parametrize("words", ["--epochs 0", "--set dropout=1.5", "--set lr_decay=2"])
def test_a_setting_that_cannot_be_is_named_with_its_value(home, words):
    with nothing_left(home):
        message = fault("train", "fold", "--out", "new", *words.split())
    name, value = words.removeprefix("--set ").lstrip("-").replace("=", " ").split()
    assert message.startswith(f"sortnet: {name} must be ") and f"got {value}" in message


def test_a_device_that_is_not_here_is_refused(home, monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with nothing_left(home):
        command = ("train", "fold", "--out", "new", "--set", "device=cuda")
        assert "no GPU" in fault(*command, "--comparator", "cmpnn")
        assert "soft trees are learned on the CPU: leave device out" in fault(*command)


def test_a_damaged_model_is_named_and_not_used(home):
    path = weights_of(Path("m"))
    path.write_bytes(path.read_bytes()[:-1])
    with nothing_left(home):
        for args in (
            ("rank", "m", "fold/test.txt", "--output", "new"),
            ("evaluate", "m", "fold/test.txt", "--per-query", "new"),
        ):
            assert str(path) in fault(*args)


def test_a_database_that_cannot_be_reached_is_named(home):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # taken, and nobody listens
        url = f"postgresql://me:s3cret@127.0.0.1:{closed.getsockname()[1]}/runs?connect_timeout=5"
        with nothing_left(home):
            for args in (("train", "fold", "--out", "new", *FAST), ("runs",)):
                message = fault(*args, "--store", url)
                assert "127.0.0.1" in message and "s3cret" not in message


def test_a_folder_that_cannot_be_made_is_named(home):
    Path("file").write_text("")
    message = fault("train", "fold", "--out", "file/m", "--store", "s.db", *FAST)
    assert "file/m" in message
    assert "file" in fault("train", "fold", "--out", "file", "--store", "s.db", *FAST)
    with open_store("s.db") as store:
        assert len(store.runs_frame()) == 1, "a run without a folder is not begun"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_one_line(home):
    for args in (
        ("rank", "m", "fold/test.txt"),
        ("rank", "m", "fold/test.txt", "--format", "csv"),
        ("pairs", "last", "--store", "s.db"),
        ("pairs", "last", "--store", "s.db", "--format", "jsonl"),
        ("pairs", "last", "--store", "s.db", "--format", "parquet"),
    ):
        message = fault(*args, "--output", "/dev/full")
        assert "/dev/full" in message and "No space left" in message
    message = fault("evaluate", "m", "fold/test.txt", "--per-query", "/dev/full")
    assert "No space left" in message
    assert Path("/dev/full").is_char_device(), "a device is not replaced"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_behind_stdout_is_one_line(home):
    for args in (["rank", "m", "fold/test.txt"], ["--help"]):
        with Path("/dev/full").open("r+") as full, Path("errors").open("w") as errors:
            streams = [full.fileno(), full.fileno(), errors.fileno()]
            assert Forked(args, streams, dict(os.environ)).wait() == 2
        message = Path("errors").read_text()
        assert message.count("\n") == 1 and "No space left" in message


def test_a_disk_that_fills_up_while_training_is_one_line_and_can_be_resumed(home, monkeypatch):
    made = ("train", "fold", "--out", "new", "--store", "s.db", *FAST)
    with monkeypatch.context() as patch:
        full = OSError(28, "No space left on device")
        patch.setattr("sortnet.files.os.fsync", Mock(side_effect=full))
        result = invoke(*made)
    assert result.exit_code == 2
    assert "cannot write new/" in result.stderr and "No space left" in result.stderr
    assert result.stderr.count("\n") == 1
    assert not list(home.rglob(".*.safetensors.*")), "no part of a file is left"
    done(*made, "--resume")
    weights = [weights_of(m).read_bytes() for m in ("m", "new")]
    assert weights[0] == weights[1]


@pytest.mark.slow
@pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0 or not shutil.which("mount"),
    reason="makes a small file system",
)
def test_a_disk_that_is_really_full_leaves_no_part_of_a_file(home):
    small = home / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", small])
    if mounted.returncode != 0:
        pytest.skip("may not mount")
    try:
        wide = ("--set", "hidden=3000", "--epochs", "1", "--max-iter", "1", "--set", "committee=1")
        result = invoke("train", "fold", "--out", small / "m", "--store", "s.db", *wide)
        assert result.exit_code == 2 and "No space left" in result.stderr
        assert sorted(p.name for p in (small / "m").iterdir()) == ["run.json"]
        (small / "fill").write_bytes(bytes(58 * 1024))
        message = fault("rank", "m", "fold/test.txt", "--output", small / "run", "--tag", "x" * 999)
        assert "No space left" in message
        assert sorted(p.name for p in small.iterdir()) == ["fill", "m"]
    finally:
        subprocess.run(["umount", small], check=True)


def test_a_run_whose_loss_is_no_number_fails_with_advice(home):
    args = ("--set", "lr=1e30", "--set", "optimizer=sgd", "--scaling", "none")
    result = invoke("train", "fold", "--out", "new", "--store", "s.db", *FAST, *args)
    assert result.exit_code == 2 and "lr" in result.stderr
    with open_store("s.db") as store:
        assert store.run("last").status == "failed"


def test_ctrl_c_before_anything_is_learned_is_one_line_and_leaves_nothing(home, monkeypatch):
    interrupted = Mock(side_effect=KeyboardInterrupt)
    for place in ("sortnet.data.read.read_queries", "sortnet.learning.judges.can_be_learned"):
        with monkeypatch.context() as patch, nothing_left(home):
            patch.setattr(place, interrupted)
            result = invoke("train", "fold", "--out", "new", *FAST)
        assert result.exit_code == 2
        assert result.stderr.strip() == "sortnet: interrupted"


def test_a_message_is_put_on_one_line_and_a_fault_of_the_program_is_not_hidden(home, monkeypatch):
    broken = Mock(side_effect=[SortNetError("first\n  second"), ZeroDivisionError])
    monkeypatch.setattr("sortnet.rankers.load_ranker.load_ranker", broken)
    assert fault("rank", "m", "fold/test.txt") == "sortnet: first second\n"
    with pytest.raises(ZeroDivisionError):
        invoke("rank", "m", "fold/test.txt")
