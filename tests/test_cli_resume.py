"""A run that is killed or interrupted ends the same as one that was not, once resumed."""

from __future__ import annotations

import json
import os
import pty
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
from cli_made import copy_run, done, invoke, make_fold, weights_of
from click.testing import Result
from pandas.testing import assert_frame_equal

import cli.training.training_run
import sortnet.rankers.sortnet
from cli.training.training_run import Origin
from store import Run, open_store

SETTINGS = (
    *("--hidden", "4", "--committee", "2", "--epochs", "2", "--dropout", "0.1"),
    *("--max-iter", "5", "--max-stale", "5", "--threads", "1", "--weight-decay", "0.01"),
)


class Killed(BaseException):
    """Stands for the end of the process: nothing of ours handles it."""


@pytest.fixture(autouse=True)
def _at_home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SORTNET_STORE", raising=False)
    make_fold(tmp_path / "fold")


def train(name: str, *more: str) -> list[str]:
    return ["train", "fold", "--out", name, "--store", f"{name}.db", *SETTINGS, *more]


def outcome(name: str) -> tuple[dict[str, bytes], pd.DataFrame, pd.DataFrame]:
    """The weights, and what the store says of the iterations and the pairs."""
    files = (weights_of(name), Path(name, "state.safetensors"))
    weights = {file.name: file.read_bytes() for file in files}
    with open_store(f"{name}.db") as store:
        run = store.run(json.loads(Path(name, "run.json").read_text())["run"])
        assert run.status == "done"
        iterations, pairs = run.iterations_frame(), run.pairs_frame()
    timing = ["created", "seconds_sort", "seconds_train"]
    return weights, iterations.drop(columns=timing), pairs


def assert_same_end(name: str, expected) -> None:
    weights, iterations, pairs = outcome(name)
    assert weights == expected[0]
    assert_frame_equal(iterations, expected[1], check_exact=True)
    assert_frame_equal(pairs, expected[2], check_exact=True)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A folder with the run `whole`, which nothing killed, and its store; no test changes it."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        make_fold(Path("fold"))
        done(*train("whole"))
    return folder


@pytest.fixture(scope="module")
def unkilled(whole):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(whole)
        end = outcome("whole")
    assert len(end[1]) >= 4, "too few iterations to be killed in"
    assert end[2]["times"].max() > 1
    return end


def killed_at(monkeypatch, owner, name: str, call: int, *, after: bool) -> None:
    """Let the n-th call of a function be the process's last, before or after its work."""
    whole, calls = getattr(owner, name), []

    def mortal(*args, **options):
        calls.append(name)
        if len(calls) == call and not after:
            raise Killed
        result = whole(*args, **options)
        if len(calls) == call:
            raise Killed
        return result

    monkeypatch.setattr(owner, name, mortal)


PLACES = {
    "before the folder knows of the run": (cli.training.training_run.Folder, "write_run", 1, False),
    "before the first sort's pairs are kept": (Run, "add", 1, False),
    "between the training and the validation pairs": (Run, "add", 5, True),
    "after the pairs": (Run, "add", 6, True),
    "before the model's weights": (sortnet.rankers.sortnet.Model, "save", 2, False),
    "after the model": (sortnet.rankers.sortnet.Model, "save", 2, True),
    "after the iteration's row": (Run, "record", 3, True),
    "before the state": (cli.training.training_run, "save_state", 1, False),
    "after the state": (cli.training.training_run, "save_state", 3, True),
    "after the first state": (cli.training.training_run, "save_state", 1, True),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_run_that_ends_anywhere_goes_on_to_the_same_end(place, unkilled, monkeypatch):
    owner, name, call, after = PLACES[place]
    with monkeypatch.context() as patch:
        killed_at(patch, owner, name, call, after=after)
        with pytest.raises(Killed):
            invoke(*train("killed"))
    done(*train("killed", "--resume"))
    assert_same_end("killed", unkilled)


def test_a_run_that_is_killed_after_its_last_state_is_only_finished(unkilled, monkeypatch):
    with monkeypatch.context() as patch:
        killed_at(patch, cli.training.training_run, "save_state", len(unkilled[1]), after=True)
        with pytest.raises(Killed):
            invoke(*train("killed"))
    result = invoke(*train("killed", "--resume"))
    assert "finished already" in result.stderr
    assert_same_end("killed", unkilled)


def test_a_run_that_is_interrupted_says_how_to_go_on(unkilled, monkeypatch):
    with monkeypatch.context() as patch:
        record = Run.record

        def interrupted(run, iteration):
            record(run, iteration)
            if iteration["iteration"] == 2:
                raise KeyboardInterrupt

        patch.setattr(Run, "record", interrupted)
        result = invoke(*train("stopped"))
    assert result.exit_code == 2
    told, command = result.stderr.splitlines()[-1].split("; resume with: ")
    assert told == "sortnet: interrupted"
    with open_store("stopped.db") as store:
        assert store.run("last").status == "interrupted"
    done(*shlex.split(command)[1:])
    assert_same_end("stopped", unkilled)


def test_the_command_to_go_on_with_resumes_and_overwrites_nothing():
    typed = "sortnet train fold --out 'my --resume' --overwrite --lr 0.1"
    again = Origin(typed, "", False).again
    assert again == "sortnet train fold --out 'my --resume' --lr 0.1 --resume"
    assert Origin(again, "", False).again == again


KILLS = 20

# A process that has everything loaded forks one that trains, kills it, forks the next. The trainer
# sends a byte for every step that it tells of (a sort, an epoch), and around every file that it
# puts on the disk or in its place, so that it is killed at random moments of its work and its
# saves, however busy the machine is.
KILLER = """
import json, os, random, signal, sys, time
from pathlib import Path
args, kills = json.loads(sys.argv[1]), int(sys.argv[2])
import cli.main, cli.training.training_run as training_run, sortnet.data, sortnet.rankers.sortnet
import pandas, store, torch._dynamo
# Nothing that starts threads: those of numba's parallel kernels would not live in a fork.
sortnet.data.read_fold("fold")
store.open_store("warm.db").close()

def telling(told, work):
    def tell(*args, **named):
        os.write(told, b"!")
        done = work(*args, **named) if work else None
        os.write(told, b"!")
        return done
    return tell

def train(name, steps):
    heard, told = os.pipe()
    child = os.fork()
    if child == 0:
        fit, tell = training_run.fit, telling(told, None)
        training_run.fit = lambda *args, **named: fit(*args, **{**named, "progress": tell})
        os.fsync, os.replace = telling(told, os.fsync), telling(told, os.replace)
        sys.stdout = sys.stderr = open(os.devnull, "w")
        cli.main.main([word.replace("NAME", name) for word in args])
    os.close(told)
    heard_of = 0
    while heard_of < steps and os.read(heard, 1):  # nothing comes when the trainer has ended
        heard_of += 1
    if heard_of == steps:
        time.sleep(random.choice([0, 0, random.uniform(0, 0.01)]))
        os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.close(heard)
    return status, heard_of

random.seed(1)
status, steps = train("counted", 10**9)
assert status == 0, status
in_the_middle = models = killed = 0
while killed < kills:
    name = f"killed{models}"
    models += 1
    for wait in (random.randrange(steps), random.randrange(2 * steps), 10**9):
        status, _ = train(name, wait)
        killed += status == -signal.SIGKILL
        if status == 0:
            break
        in_the_middle += Path(name, "state.safetensors").exists()
    assert status == 0, status
print(models, killed, in_the_middle)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.slow
def test_kill_9_at_random_moments_of_train_resume_and_save_changes_nothing(unkilled):
    command = [sys.executable, "-c", KILLER, json.dumps(train("NAME", "--resume")), str(KILLS)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=3000)
    assert ran.returncode == 0, ran.stderr
    models, kills, in_the_middle = map(int, ran.stdout.split())
    assert kills >= KILLS
    assert in_the_middle > 0
    for k in range(models):
        assert_same_end(f"killed{k}", unkilled)
        assert not list(Path(f"killed{k}").glob(".*")), "a stray temporary file"


@pytest.mark.slow
def test_ctrl_c_in_a_terminal_ends_with_one_line_and_can_be_resumed():
    make_fold(Path("fold"), n_docs=40)
    code = "from cli.main import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", code, *train("m", "--epochs", "40", "--max-iter", "3")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        while not process.stdout.readline().startswith("   0"):
            assert process.poll() is None
        time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=600)
    assert process.returncode == 2
    assert "Traceback" not in stderr
    told, again = stderr.splitlines()[-1].split("; resume with: ")
    assert told == "sortnet: interrupted"
    assert again.startswith("sortnet train fold --out m ")
    with open_store("m.db") as store:
        assert store.run("last").status == "interrupted"
    rows = json.loads(done(*shlex.split(again)[1:], "--json"))["iterations"]
    assert [row["iteration"] for row in rows] == list(range(len(rows)))


def test_a_state_that_is_cut_is_refused(whole, tmp_path):
    copy_run(whole, tmp_path, "whole")
    state = Path("whole/state.safetensors").read_bytes()
    Path("whole/state.safetensors").write_bytes(state[:-10])
    result = invoke(*train("whole", "--resume"))
    assert result.exit_code == 2
    assert "whole/state.safetensors" in result.stderr


def test_a_run_whose_scaling_makes_other_columns_is_resumed(monkeypatch):
    asked = ("--scaling", "quantile+piecewise", "--max-iter", "2")
    done(*train("whole", *asked))
    with monkeypatch.context() as patch:
        killed_at(patch, cli.training.training_run, "save_state", 1, after=True)
        with pytest.raises(Killed):
            invoke(*train("killed", *asked))
    done(*train("killed", *asked, "--resume"))
    assert_same_end("killed", outcome("whole"))


def test_a_resumed_run_keeps_the_weight_decay_that_it_chose():
    open_settings = [word for word in train("m", "--max-iter", "2") if word not in ("0.01",)]
    open_settings.remove("--weight-decay")
    done(*open_settings)
    known = json.loads(Path("m/run.json").read_text())
    assert known["asked"]["training"]["weight_decay"] is None
    chosen = known["config"]["training"]["weight_decay"]
    assert chosen > 0
    with open_store("m.db") as store:
        assert store.run("last").config["training"]["weight_decay"] == chosen
    done(*open_settings, "--resume")
    assert json.loads(Path("m/run.json").read_text()) == known


def signalled(monkeypatch: pytest.MonkeyPatch, number: int) -> Result:
    """The end of a run that gets a signal, twice, as a terminal that goes may send it."""
    with monkeypatch.context() as patch:
        record, finish = Run.record, Run.finish

        def hit(run, iteration):
            record(run, iteration)
            if iteration["iteration"] == 2:
                os.kill(os.getpid(), number)

        def hit_again(run, status):
            if status == "interrupted":
                os.kill(os.getpid(), number)
            finish(run, status)

        patch.setattr(Run, "record", hit)
        patch.setattr(Run, "finish", hit_again)
        return invoke(*train("stopped"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signals_that_end_a_run_end_it_as_ctrl_c_does(unkilled, monkeypatch, number):
    result = signalled(monkeypatch, number)
    assert result.exit_code == 2
    told, command = result.stderr.splitlines()[-1].split("; resume with: ")
    assert told == "sortnet: interrupted"
    assert signal.getsignal(number) is signal.SIG_DFL
    assert "interrupted" in done("runs", "--store", "stopped.db")
    done(*shlex.split(command)[1:])
    assert_same_end("stopped", unkilled)


def test_a_run_under_nohup_goes_on_when_the_terminal_is_closed(unkilled, monkeypatch):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert signalled(monkeypatch, signal.SIGHUP).exit_code == 0
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
    assert_same_end("stopped", unkilled)


@pytest.mark.skipif(
    not os.environ.get("CI") and not shutil.which("setsid"), reason="needs setsid of util-linux"
)
@pytest.mark.slow
def test_a_run_whose_terminal_is_closed_is_interrupted():
    make_fold(Path("fold"), n_docs=40)
    code = "from cli.main import main; main()"
    ours, theirs = pty.openpty()
    command = ["setsid", "--ctty", sys.executable, "-c", code, *train("m", "--epochs", "40")]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        while b"   0 " not in shown:
            shown += os.read(ours, 4096)
        os.close(ours)
        process.wait(600)
    with open_store("m.db") as store:
        assert store.run("last").status == "interrupted"
