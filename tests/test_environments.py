"""Environments without a home, without a cache, with wrong variables, with several threads."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from threadpoolctl import ThreadpoolController

from sortnet.compiled import compiled
from sortnet.threads import (
    limit_threads,
    one_blas_thread,
    one_numpy_thread,
    one_thread_an_operation,
)

COMMAND = [sys.executable, "-m", "cli"]


def stranger(*command, cwd, **variables):
    """Run a command as a user without a passwd entry, who may read all files and write few."""
    if os.geteuid() or shutil.which("setpriv") is None:
        pytest.skip("only root can run a command as another user, with setpriv")
    rights = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    identity = ["--reuid", "12345", "--regid", "12345", "--clear-groups"]
    environment = {name: text for name, text in os.environ.items() if not name.startswith("XDG_")}
    environment.pop("HOME", None)
    return subprocess.run(
        ["setpriv", *identity, *rights, *command],
        cwd=cwd,
        env=environment | variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("command", ["items add x items.txt", "runs", "ranking x", "ask x"])
def test_a_user_without_a_home_is_told_what_to_set(tmp_path, command):
    (tmp_path / "items.txt").write_text("text\napple\npear\n")
    done = stranger(*COMMAND, *command.split(), cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "set HOME or XDG_DATA_HOME" in done.stderr and "--store" in done.stderr


def test_doctor_lists_the_missing_home_as_a_fault(tmp_path):
    done = stranger(*COMMAND, "doctor", cwd=tmp_path)
    assert "- no home folder" in done.stdout
    assert "Traceback" not in done.stderr


KERNEL = """
import sys
sys.path.insert(0, sys.argv[1])
from kernel import double
print(double(21))
"""


@pytest.mark.parametrize("home", [{}, {"HOME": "/nonexistent"}, {"XDG_CACHE_HOME": "relative"}])
def test_a_kernel_is_compiled_where_no_cache_can_be_written(tmp_path, home):
    folder = tmp_path / "installed"
    folder.mkdir()
    (folder / "kernel.py").write_text(
        "from sortnet.compiled import compiled\n@compiled()\ndef double(x):\n    return 2 * x\n"
    )
    work = tmp_path / "work"
    work.mkdir()
    work.chmod(0o777)
    done = stranger(
        sys.executable, "-c", KERNEL, str(folder), cwd=work, PYTHONPATH=str(Path.cwd()), **home
    )
    assert (done.stdout, done.returncode) == ("42\n", 0), done.stderr
    assert not list(work.iterdir())  # numba would make a folder `~`


def double(x):
    return 2 * x


@pytest.mark.parametrize("fault", ["full", "damaged"])
def test_a_cache_that_fails_stops_no_kernel(tmp_path, monkeypatch, fault):
    kernel = compiled()(double)
    if fault == "full":

        def refuse(*_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(kernel._cache._cache_file, "save", refuse)
    else:
        monkeypatch.setattr(kernel._cache._cache_file, "_index_path", str(tmp_path / "index"))
        (tmp_path / "index").write_bytes(b"")
    assert kernel(21) == 42


@pytest.mark.parametrize("variable", ["NUMBA_NUM_THREADS=0", "NUMBA_NUM_THREADS=many"])
def test_a_wrong_variable_of_numba_is_one_line(variable):
    name, value = variable.split("=")
    done = subprocess.run(
        [*COMMAND, "doctor"], env=os.environ | {name: value}, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"sortnet: {variable}: set ")
    assert done.stderr.count("\n") == 1


def blas_threads():
    np.ones((2, 2)) @ np.ones((2, 2))
    found = ThreadpoolController().select(user_api="blas").lib_controllers
    return [one.get_num_threads() for one in found]


@pytest.fixture
def two_threads():
    """Give torch and the libraries of products two threads for a test."""
    torch_threads = torch.get_num_threads()
    with ThreadpoolController().limit(limits=2, user_api="blas"):
        torch.set_num_threads(2)
        yield
        torch.set_num_threads(torch_threads)


CONTEXTS = {
    "n_jobs": lambda: limit_threads(1),
    "products": one_blas_thread,
    "numpy": one_numpy_thread,
    "operations": one_thread_an_operation,
}


@pytest.mark.parametrize("first", CONTEXTS)
@pytest.mark.parametrize("second", CONTEXTS)
def test_overlapping_limits_leave_the_threads_as_before(two_threads, first, second):
    """The first thread enters first and leaves first; the second leaves last, by an error."""
    is_inside, may_leave = threading.Event(), threading.Event()
    left_with = []

    def enter_second():
        try:
            with CONTEXTS[second]():
                is_inside.set()
                may_leave.wait()
                raise ValueError
        except ValueError:
            left_with.append(torch.get_num_threads())

    before = blas_threads()
    thread = threading.Thread(target=enter_second)
    with CONTEXTS[first]():
        thread.start()
        is_inside.wait()
    may_leave.set()
    thread.join()
    assert blas_threads() == before
    assert torch.get_num_threads() == 2
    if second in ("n_jobs", "operations"):
        assert left_with == [2]


def run(command: str, *, cwd: Path, **variables: str | bytes) -> subprocess.CompletedProcess[str]:
    """Run a line of the shell; `sortnet` stands for the command of this checkout."""
    line = command.replace("sortnet", f"{shlex.quote(sys.executable)} -m cli")
    environment = os.environ | {"PYTHONPATH": str(Path.cwd())} | variables
    return subprocess.run(
        ["bash", "-c", line], cwd=cwd, env=environment, capture_output=True, text=True
    )


@pytest.mark.parametrize("command", ["doctor", "items list", "train fold"])
def test_a_current_folder_that_was_removed_is_one_line(tmp_path, command):
    done = run(f"mkdir gone; cd gone; rmdir ../gone; sortnet {command}", cwd=tmp_path)
    told = f"sortnet: {tmp_path}/gone: the current folder was removed: change to another one\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", told)


@pytest.mark.parametrize("megabytes", [60, 100, 150, 300])
def test_a_limit_of_memory_is_one_line(tmp_path, megabytes):
    """Libraries are too large for the limit, and the largest one is torch."""
    done = run(f"ulimit -v {megabytes * 1024}; sortnet doctor", cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert done.stderr.startswith("sortnet: out of memory: ")
