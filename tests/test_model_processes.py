"""A model folder that is read beside a writer, or whose writer is killed: the old model or the new.

Writers are processes that were given everything before, and fork; what they save is cut into steps
by a byte before and after each change of the disk, so that no test goes by the clock.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sortnet.comparators import make_comparator
from sortnet.config import Config
from sortnet.data.scaling import Scaler
from sortnet.rankers.model import Model

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="forks"),
]
CONFIG = Config(committee=2, hidden=(3,), scaling="query", start="warm")
SEEDS = (1, 2)


def model_of(seed: int) -> Model:
    return Model(
        CONFIG, Scaler({"query": np.empty((0, 4))}, np.ones((2, 4), bool)),
        make_comparator(CONFIG, 4)(seed), info={"seed": seed},
    )  # fmt: skip


def check(model: Model) -> int:
    """That a model is one of those saved, settings and weights alike; its seed."""
    seed = model.info["seed"]
    assert seed in SEEDS
    for ours, theirs in zip(model.comparator.members, model_of(seed).comparator.members,
                            strict=True):  # fmt: skip
        for name, tensor in ours.state_dict().items():
            assert tensor.equal(theirs.state_dict()[name])
    return seed


WRITER = """
import sys
from itertools import count
from test_model_processes import SEEDS, model_of
models = [model_of(seed) for seed in SEEDS]
models[0].save(sys.argv[1])
print("saved", flush=True)
for k in count(1):
    models[k % len(models)].save(sys.argv[1])
"""

KILLER = """
import os, random, signal, sys
from pathlib import Path
from test_model_processes import SEEDS, check, model_of
from sortnet.rankers.model import Model
folder, kills = Path(sys.argv[1]), int(sys.argv[2])
models = [model_of(seed) for seed in SEEDS]
models[0].save(folder)

def reported(pipe, work):
    def tell(*args, **named):
        os.write(pipe, b"!")
        done = work(*args, **named)
        os.write(pipe, b"!")
        return done
    return tell

random.seed(1)
stray = 0
for k in range(kills):
    reports, pipe = os.pipe()
    child = os.fork()
    if child == 0:
        for name in ("open", "fsync", "replace", "unlink", "mkdir"):
            setattr(os, name, reported(pipe, getattr(os, name)))
        while True:
            for model in models[::-1]:
                model.save(folder)
    os.close(pipe)
    for _ in range(random.randrange(60)):
        os.read(reports, 1)
    os.kill(child, signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    os.close(reports)
    check(Model.load(folder))
    stray += len(list(folder.iterdir())) > 2
models[0].save(folder)
print(stray, len(list(folder.iterdir())))
"""


def script(code: str, *args: object) -> list[str]:
    return [sys.executable, "-c", code, *map(str, args)]


@pytest.fixture
def here():
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}


def test_loads_beside_a_writer_all_succeed(tmp_path, here):
    least = int(os.environ.get("SORTNET_FUZZ_ROUNDS") or 40)
    folder = tmp_path / "m"
    with subprocess.Popen(script(WRITER, folder), env=here, stdout=subprocess.PIPE) as writer:
        try:
            assert writer.stdout.readline() == b"saved\n"
            loads, seen = 0, []
            while loads < least or len(set(seen)) < len(SEEDS):  # the writer has its turn too
                assert writer.poll() is None
                seen.append(check(Model.load(folder)))
                loads += 1
        finally:
            writer.kill()
    check(Model.load(folder))


def test_40_kills_in_a_save_leave_the_old_model_or_the_new(tmp_path, here):
    command = script(KILLER, tmp_path / "m", 40)
    ran = subprocess.run(command, env=here, capture_output=True, text=True, timeout=3000)
    assert ran.returncode == 0, ran.stderr
    stray, left = map(int, ran.stdout.split())
    assert stray > 0, "no kill was in a save"
    assert left == 2, "the next save removes what is left"
