"""Bad input: one clear line that names the thing, exit code 2, and nothing left behind."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from unittest.mock import Mock

import pytest
from cli_helpers import FAST, done, fault, invoke, nothing_changed, weights_of
from forked_processes import Forked

from sortnet.errors import SortNetError
from store import open_store


@pytest.fixture
def home(own_trained, tmp_path, monkeypatch) -> Path:
    """A working folder with the fold `fold`, the model `m` and its store `s.db`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("SORTNET_STORE", raising=False)
    return tmp_path


def test_a_device_that_is_not_here_is_refused(home, monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with nothing_changed(home):
        command = ("train", "fold", "--out", "new", "--set", "device=cuda")
        assert "no GPU" in fault(*command, "--comparator", "cmpnn")
        assert "soft trees are learned on the CPU: leave device out" in fault(*command)


def test_a_damaged_model_is_named_and_not_used(home):
    path = weights_of(Path("m"))
    path.write_bytes(path.read_bytes()[:-1])
    with nothing_changed(home):
        for args in (
            ("rank", "m", "fold/test.txt", "--output", "new"),
            ("evaluate", "m", "fold/test.txt", "--per-query", "new"),
        ):
            assert str(path) in fault(*args)


def test_a_database_that_cannot_be_reached_is_named(home):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # taken, and nobody listens
        url = f"postgresql://me:s3cret@127.0.0.1:{closed.getsockname()[1]}/runs?connect_timeout=5"
        with nothing_changed(home):
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


def test_a_run_whose_loss_is_no_number_fails_with_advice(home):
    args = ("--set", "lr=1e30", "--set", "optimizer=sgd", "--scaling", "none")
    result = invoke("train", "fold", "--out", "new", "--store", "s.db", *FAST, *args)
    assert result.exit_code == 2 and "lr" in result.stderr
    with open_store("s.db") as store:
        assert store.run("last").status == "failed"


def test_ctrl_c_before_anything_is_learned_is_one_line_and_leaves_nothing(home, monkeypatch):
    interrupted = Mock(side_effect=KeyboardInterrupt)
    for place in ("sortnet.data.read.read_queries", "sortnet.learning.judges.can_be_learned"):
        with monkeypatch.context() as patch, nothing_changed(home):
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


# {arguments of a command: words of its message}; the files are made by the test
REFUSED = {
    "train bad.txt fold/vali.txt --out new": "bad.txt 3 'abc'",
    "train fold/train.txt bad.txt --out new": "bad.txt 3 'abc'",
    "rank m bad.txt --output new": "bad.txt 3 'abc'",
    "rank m wide.txt": "wide.txt 1 5 4",
    "rank fold fold/test.txt": "fold/model.json: no model there",
    "explain nowhere fold/test.txt 0 1": "nowhere/model.json: no model there (sortnet runs lists",
    "train nowhere --out new": "nowhere: no such file or folder",
    "train no.txt fold/vali.txt --out new": "no.txt: no such file",
    "rank m no.txt": "no.txt: no such file",
    "train empty --out new": "train.txt",
    "train fold/train.txt wide.txt --out new": "wide.txt 4",
    "train a.csv b.csv --out new": "b.csv",
    "train fold/train.txt flat.txt --set empty=error --out new": "no relevant document",
    "evaluate m fold/test.txt --metric bleu": "'bleu' ndcg",
    "train fold --quality ndcg@0 --out new": "'ndcg@0'",
    "train fold --out new --epochs 0": "epochs must be got 0",
    "train fold --out new --set dropout=1.5": "dropout must be got 1.5",
}


def test_bad_input_is_named_in_one_line_and_leaves_nothing(home):
    Path("empty").mkdir()
    pair = "1 qid:7 1:0.5 2:0.25\n0 qid:7 1:0.5 2:0.75\n"
    Path("bad.txt").write_text(f"{pair}1 qid:7 1:0.5 2:abc\n")
    Path("wide.txt").write_text("1 qid:7 1:0.5 5:0.25\n0 qid:7 1:0.5\n")
    Path("flat.txt").write_text(f"0 qid:6 1:0.5\n0 qid:6 4:0.5\n{pair}")
    Path("a.csv").write_text("qid,label,x,y\n1,0,1,2\n1,1,2,1\n")
    Path("b.csv").write_text("qid,label,x,z\n1,0,1,2\n1,1,2,1\n")
    for args, words in REFUSED.items():
        with nothing_changed(home):
            message = fault(*args.split())
        assert all(word in message for word in words.split()), message
