"""Pipes, devices and files too large: refused before they are read, in one line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from cli_helpers import fault, weights_of

from sortnet.data import fingerprint, read_queries
from sortnet.errors import DataError, ModelError
from sortnet.items import read_items
from sortnet.rankers.load_ranker import load_ranker

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")


@pytest.fixture
def home(own_trained, tmp_path, monkeypatch) -> Path:
    """A working folder with the fold `fold`, the model `m` and its store `s.db`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SORTNET_STORE", "s.db")
    return tmp_path


def replaced(path: Path, kind: str) -> None:
    """Put a pipe without a writer, or a link to a device that never ends, in a file's place."""
    path.unlink()
    if kind == "a pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")


@pytest.mark.parametrize(("name", "kind"), [("model.json", "a pipe"), ("weights", "a device")])
def test_a_model_folder_with_a_pipe_or_a_device_is_refused(home, name, kind):
    path = weights_of(home / "m") if name == "weights" else home / "m" / name
    replaced(path, kind)
    with pytest.raises(ModelError) as raised:
        load_ranker(home / "m")
    assert str(raised.value) == f"{path}: is {kind}, not a file"


@pytest.mark.parametrize(
    ("name", "kind"), [("run.json", "a pipe"), ("state.safetensors", "a device")]
)
def test_a_run_that_is_a_pipe_or_a_device_is_not_resumed(home, name, kind):
    run = json.loads((home / "m" / "run.json").read_text())
    assert run["format"] == "sortnet-run"
    if not (home / "m" / name).exists():
        (home / "m" / name).touch()
    replaced(home / "m" / name, kind)
    assert f"{name}: is {kind}, not a file" in fault("train", "--resume", "--out", "m")


@pytest.mark.parametrize(
    ("name", "kind"),
    [("t.txt", "a pipe"), ("t.csv", "a device"), ("t.jsonl", "a pipe"), ("t.parquet", "a pipe")],
)
def test_data_from_a_pipe_or_a_device_are_refused(tmp_path, name, kind):
    if name == "t.parquet":
        pytest.importorskip("pyarrow")
    path = tmp_path / name
    path.touch()
    replaced(path, kind)
    calls = (
        lambda: read_queries(path),
        lambda: fingerprint(path),
        lambda: read_items(path),
    )
    for read in calls:
        with pytest.raises(DataError) as raised:
            read()
        assert str(raised.value) == f"{path}: is {kind}, not a file"


def test_a_pipe_among_the_files_of_a_data_set_is_not_left_out_as_an_empty_one_is(tmp_path):
    (tmp_path / "part-0").write_text("1 qid:1 1:1\n")
    (tmp_path / "part-1").touch()
    assert read_queries(tmp_path).n_docs == 1
    os.mkfifo(tmp_path / "part-2")
    with pytest.raises(DataError, match="part-2: is a pipe, not a file"):
        read_queries(tmp_path)


def test_a_model_json_of_more_than_100_mb_is_refused_before_it_is_read(home):
    path = home / "m" / "model.json"
    os.truncate(path, 100_000_001)
    message = fault("rank", "m", "fold/test.txt")
    assert message.endswith("model.json: has 100,000,001 bytes; the limit is 100,000,000\n")
