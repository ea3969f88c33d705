"""Fits in a process of their own: the same fits, and no process that is left behind."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import psutil
import pytest

from sortnet.errors import SortNetError
from sortnet.preference import Judgement
from sortnet.preference.fit_process import FitProcess
from sortnet.preference.session import Session

SECONDS = 600  # to wait for what must happen, however slow the machine is


@pytest.fixture(scope="module")
def process():
    made = FitProcess()
    yield made
    made.close()


def test_a_session_learns_there_what_it_learns_here(process):
    rng = np.random.default_rng(0)
    features = rng.normal(size=(170, 2))
    sessions = [Session(features, seed=3), Session(features, seed=3, call=process)]
    for k in range(60):
        low, high = sorted(rng.choice(170, 2, replace=False).tolist())
        better = "left" if features[low, 0] > features[high, 0] else "right"
        for session in sessions:
            session.tell(Judgement("ana", low, high, better))
            if k in (30, 59):
                session.refit()
    here, there = (session.ranking() for session in sessions)
    for name, values in vars(here).items():
        np.testing.assert_array_equal(getattr(there, name), values)
    asked = [session.ask("ana", 3) for session in sessions]
    assert asked[0] == asked[1]


def test_it_is_another_process_always_the_same_and_an_error_is_the_callers(process):
    there = process(os.getpid)
    assert there != os.getpid()
    with pytest.raises(ValueError, match=r"math domain|nonnegative"):
        process(math.sqrt, -1)
    assert process(os.getpid) == there


def test_one_that_was_killed_says_so_and_the_next_call_starts_another(process):
    there = process(os.getpid)
    killer = threading.Timer(0.1, psutil.Process(there).kill)
    killer.start()
    with pytest.raises(SortNetError, match="the process of the fits was killed"):
        process(time.sleep, SECONDS)
    assert process(os.getpid) != there


def test_it_ends_in_the_middle_of_a_call_when_it_is_closed():
    made = FitProcess()
    there = psutil.Process(made(os.getpid))
    faults = []

    def call():
        try:
            made(time.sleep, SECONDS)
        except SortNetError as fault:
            faults.append(fault)

    calling = threading.Thread(target=call)
    calling.start()
    made.close()
    there.wait(SECONDS)
    calling.join(SECONDS)
    assert len(faults) == 1


OWNER = """
import os, time
from sortnet.preference.fit_process import FitProcess
process = FitProcess()
if __name__ == "__main__":
    print(process(os.getpid), flush=True)
    time.sleep(600)
"""


HEARS = """
import os, signal, sys
from sortnet.preference.fit_process import FitProcess
if __name__ == "__main__":
    def interrupted(*_):
        process.close()
        sys.exit(0)
    signal.signal(signal.SIGINT, interrupted)
    process = FitProcess()
    os.write(1, b"%d " % process(os.getpid))
    signal.pause()
"""


@pytest.mark.skipif(os.name != "posix", reason="groups of processes are POSIX's")
def test_ctrl_c_is_left_to_the_process_that_it_works_for():
    with subprocess.Popen(
        [sys.executable, "-c", HEARS], start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as owner:  # fmt: skip
        assert owner.stdout is not None
        there = psutil.Process(int(owner.stdout.read1()))
        os.killpg(owner.pid, signal.SIGINT)
        assert owner.communicate()[1] == b"" and owner.returncode == 0
    there.wait(SECONDS)


def test_it_ends_with_the_process_that_it_works_for():
    with subprocess.Popen(
        [sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        there = psutil.Process(int(owner.stdout.readline()))
        owner.kill()
    there.wait(SECONDS)
