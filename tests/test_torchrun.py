"""`torchrun -m sortnet train`: the model of one process, one line of an error, kills."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli_helpers import letor
from forked_processes import Forked
from safetensors.numpy import load_file
from torch.distributed import TCPStore

from cli.signals import signals_as_ctrl_c, signals_restored
from sortnet.core.shard import AnotherProcessEnded
from sortnet.learning.torchrun import Processes, ignore_signals
from store import open_store

pytestmark = pytest.mark.slow
SETTINGS = (
    *("--quality", "ndcg@10", "--epochs", "3", "--set", "hidden=6"),
    *("--max-iter", "4", "--pairs", "random", "--set", "committee=2"),
)
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "sortnet")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for seed, (name, n) in enumerate({"train": 40, "vali": 12, "other": 40}.items()):
        (folder / f"{name}.txt").write_text(letor(n, seed, n_docs=8, n_features=3))
    return folder


@pytest.fixture(scope="module")
def alone(data):
    """The weights that one process learns."""
    codes, errors = without_torchrun(data, 1, train_words(data, "alone"))
    assert codes == [0], errors
    return weights(data / "alone")


def train_words(data: Path, out: str, *more: str, store: str = "s.db") -> list[str]:
    files = [str(data / f"{part}.txt") for part in ("train", "vali")]
    folders = ["--out", str(data / out), "--store", str(data / store)]
    return ["train", *files, *folders, *SETTINGS, *more]


def environment(data: Path) -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "XDG_CACHE_HOME": str(data / "cache")}


def weights(folder: Path) -> dict[str, np.ndarray]:
    (file,) = folder.glob("weights-*.safetensors")
    return load_file(file)


def assert_rounded(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    """The weights are the same but for the rounding of sums, which each step carries on."""
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-4, err_msg=name)


def faults(errors: str) -> list[str]:
    return re.findall(r"^sortnet: (.*)$", errors, re.M)


def test_two_processes_make_the_model_of_one_and_store_its_pairs(data, alone):
    command = [*TORCHRUN, *train_words(data, "two")]
    ran = subprocess.run(command, env=environment(data), capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("best is iteration") == 1  # one of them reports
    assert_rounded(weights(data / "two"), alone)
    store = open_store(data / "s.db", write=False)
    runs = store.runs_frame()
    one, two = (store.run(name) for name in runs["id"])
    assert set(runs["status"]) == {"done"}
    assert one.pairs_frame().equals(two.pairs_frame())
    columns = ["iteration", "new_train", "new_vali", "tp", "vp", "quality", "train_loss"]
    frames = (run.iterations_frame()[columns] for run in (one, two))
    pd.testing.assert_frame_equal(*frames, check_exact=False, rtol=1e-4)


def test_killed_processes_end_the_others_and_the_run_resumes_with_other_numbers(data, alone):
    words = train_words(data, "killed", "--resume", store="k.db")
    state = data / "killed" / "state.safetensors"
    for size, victim in ((3, 1), (2, 0)):
        before = state.stat().st_ino if state.exists() else None
        with together(data, size, words) as (processes, said):
            # When there is a state to resume from, then when there is another.
            while processes[victim].poll() is None:
                if state.exists() and state.stat().st_ino != before:
                    break
                time.sleep(0.01)
            processes[victim].send_signal(signal.SIGKILL)
            codes, errors = [process.wait(600) for process in processes], said()
        assert codes == [-9 if rank == victim else 2 for rank in range(size)], errors
        reasons = [line for line in faults(errors) if "another process ended" in line]
        assert len(reasons) == size - 1 and "Traceback" not in errors, errors
    codes, errors = without_torchrun(data, 2, words)
    assert codes == [0, 0], errors
    assert_rounded(weights(data / "killed"), alone)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_does_not_take_the_place_of_the_reason_that_another_process_ended(number):
    def end() -> None:
        with signals_as_ctrl_c():
            processes = Processes.__new__(Processes)
            processes._on_loss = ignore_signals
            try:
                with processes._noticing_ends():
                    raise RuntimeError("[file.cc:1] Connection closed by peer")
            finally:
                signal.raise_signal(number)  # while the store is closed

    before = signal.getsignal(number)
    with signals_restored():
        with pytest.raises(AnotherProcessEnded, match="another process ended: Connection closed"):
            end()
        signal.raise_signal(number)  # before the reason is printed
    assert signal.getsignal(number) is before


@pytest.fixture
def bad(data) -> list[str]:
    """The words of a training that is to end with a fault."""
    rows = (data / "vali.txt").read_text().splitlines(keepends=True)
    (data / "few.txt").write_text("".join(rows[:16]))
    for rank, name in enumerate(("train", "train", "other")):
        shutil.copy(data / f"{name}.txt", data / f"{rank}.txt")
    return ["--store", str(data / "f.db"), "--out", str(data / "bad"), "--overwrite", *SETTINGS]


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["train.txt", "few.txt"], "3 processes for 2 queries"),
        (["RANK.txt", "vali.txt"], "train data other than process"),
    ],
)
def test_what_processes_cannot_share_is_one_line_of_one_of_them(data, bad, words, fault):
    paths = [word if word.startswith("--") else str(data / word) for word in words]
    codes, errors = without_torchrun(data, 3, ["train", *bad, *paths])
    assert 0 not in codes
    (line,) = faults(errors)
    assert fault in line


def without_torchrun(data: Path, size: int, words: list[str]) -> tuple[list[int], str]:
    """The exit codes of processes that are set up as torchrun does, and what all of them said."""
    with together(data, size, words) as (processes, said):
        codes = [process.wait() for process in processes]
        return codes, said()


@contextmanager
def together(
    data: Path, size: int, words: list[str]
) -> Iterator[tuple[list[Forked], Callable[[], str]]]:
    """Processes that have imported all beforehand, most of the time of so short a training.

    They meet when the first, which is begun last, is there.
    """
    meet = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    with tempfile.TemporaryFile("w+") as errors, ExitStack() as stack:
        processes = []
        for rank in reversed(range(size)):
            process = one_of(size, rank, meet, data, words, errors.fileno())
            processes.insert(0, stack.enter_context(process))

        def said() -> str:  # where the processes write on is left as it is
            return os.pread(errors.fileno(), 1 << 20, 0).decode()

        yield processes, said


def one_of(
    size: int, rank: int, meet: TCPStore, data: Path, words: list[str], errors: int
) -> Forked:
    group = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(meet.port), "WORLD_SIZE": str(size)}
    group |= {"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "0"}
    group |= {"RANK": str(rank)}
    with Path(os.devnull).open("r+") as nothing:
        streams = [nothing.fileno(), nothing.fileno(), errors]
        words = [word.replace("RANK", str(rank)) for word in words]
        return Forked(words, streams, environment(data) | group)
