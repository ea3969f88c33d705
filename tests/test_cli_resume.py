"""A run that is killed or interrupted ends the same as one that was not, once resumed."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pandas as pd
import pytest
from cli_helpers import copy_run, done, fault, invoke, letor, make_fold, nothing_changed, weights_of
from click.testing import Result
from forked_processes import ForkedScript
from pandas.testing import assert_frame_equal

import sortnet.rankers.sortnet
from sortnet.errors import SortNetError
from store import Run, Store, open_store
from store.runs.resuming import find_data
from store.training import training_run

SETTINGS = [
    *("--set", "committee=2", "--set", "trees=2", "--set", "depth=3", "--set", "max_stale=5"),
    *("--set", "threads=1", "--set", "batch_size=64", "--epochs", "4", "--pairs", "wrong"),
    *("--max-iter", "4"),
]


# So that a run is still in its first training when its signal comes, however late that is.
ENDLESS = ("--epochs", "1000000", "--max-iter", "1000000")  # of an epoch an iteration


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


def resumed(name: str) -> None:
    """Resume a run by its folder alone, if anything is recorded there yet."""
    alone = ("train", "--resume", "--out", name)
    done(*(alone if Path(name, "run.json").exists() else train(name, "--resume")))


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


@pytest.fixture
def unkilled(whole, monkeypatch, tmp_path):
    """The outcome of the run that nothing killed."""
    monkeypatch.chdir(whole)
    end = outcome("whole")
    monkeypatch.chdir(tmp_path)
    assert len(end[1]) >= 4, "too few iterations to be killed in"
    assert end[2]["times"].max() > 1
    return end


def killed_at(owner, name: str, call: int, command: list[str], *, after: bool) -> None:
    """Run a command that dies at the n-th call of a function, before or after its work."""
    whole, calls = getattr(owner, name), []

    def mortal(*args, **options):
        calls.append(name)
        if len(calls) == call and not after:
            raise Killed
        result = whole(*args, **options)
        if len(calls) == call:
            raise Killed
        return result

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
        patch.setattr(owner, name, mortal)
        invoke(*command)


RUN_FOLDER = training_run.Folder
PLACES = {
    "before the folder knows of the run": (RUN_FOLDER, "write_run", 1, False),
    "before the store has the run": (Store, "start_run", 1, False),
    "after the store has the run": (Store, "start_run", 1, True),
    "before the end is stored": (Run, "finish", 2, False),
    "before the first iteration is stored": (Run, "record", 1, False),
    "before the model's weights": (sortnet.rankers.sortnet.Model, "save", 2, False),
    "after an iteration is stored": (Run, "record", 3, True),
    "after the first state": (training_run, "save_state", 1, True),
    "after the last state": (training_run, "save_state", 5, True),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_run_that_ends_anywhere_goes_on_to_the_same_end(place, unkilled):
    owner, name, call, after = PLACES[place]
    killed_at(owner, name, call, train("killed"), after=after)
    resumed("killed")
    assert_same_end("killed", unkilled)
    with open_store("killed.db") as store:
        assert len(store.runs_frame()) == 1


def test_settings_that_do_not_go_together_leave_the_run_that_was_to_be_overwritten(whole, tmp_path):
    copy_run(whole, tmp_path, "whole")
    with nothing_changed(Path("whole")):
        result = invoke(*train("whole", "--overwrite", "--set", "patience=2"))
    assert result.exit_code == 2
    assert "chooses among the epochs of a training" in result.stderr


def test_resuming_where_nothing_began_says_in_one_line_how_to_begin():
    assert fault("train", "--resume", "--out", "empty") == (
        "sortnet: no run in empty to resume: begin one with sortnet train DATA --out empty\n"
    )


def test_a_run_is_resumed_from_another_folder_which_has_other_data_of_that_name(
    unkilled, tmp_path, monkeypatch
):
    killed_at(training_run, "save_state", 1, train("killed"), after=True)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    make_fold(Path("fold"), n_docs=5)
    done("train", "--resume", "--out", "../killed")
    pairs = done("pairs", "last", "--store", "../killed.db").splitlines()
    assert pairs[0].endswith("winner_id,loser_id") and pairs[1].split(",")[-1].startswith("d")
    monkeypatch.chdir(tmp_path)
    assert_same_end("killed", unkilled)


def test_where_the_data_are_gone_the_command_that_names_their_new_place_is_said():
    Path("all.txt").write_text(letor(30, 0))
    files = {"m": ["fold/train.txt", "fold/vali.txt"], "f": ["all.txt"]}
    for out, typed in files.items():
        done("train", *typed, "--out", out, "--store", f"{out}.db", *SETTINGS, "--max-iter", "1")
    for path in ("fold", "all.txt"):
        Path(path).rename(f"moved {path}")
    for out, places in (("m", "NEW_TRAIN NEW_VALI"), ("f", "NEW_PATH")):
        message = fault("train", "--resume", "--out", out)
        assert "no such file or folder" in message
        assert message.endswith(f"name them: sortnet train {places} --resume --out {out}\n")
        done("train", *(f"moved {path}" for path in files[out]), "--resume", "--out", out)


def test_data_that_were_moved_with_the_run_are_found_from_where_they_are_now(tmp_path, monkeypatch):
    typed = {"path": "fold/train.txt", "folder": str(tmp_path / "gone")}
    assert find_data(typed) == "fold/train.txt"
    monkeypatch.chdir(tmp_path / "fold")
    pattern = {"path": "fold/*.txt", "folder": str(tmp_path)}
    assert find_data(pattern) == str(tmp_path / "fold/*.txt")


KILLS = 6

# A process that has everything loaded forks one that trains, kills it, forks the next. The trainer
# sends a byte for every step that it tells of (a sort or an epoch), and around every file that it
# puts on the disk or in its place, so that it is killed at random moments of its work and its
# saves, however busy the machine is. Once its folder knows of the run, it is resumed by its folder
# alone, from another working folder.
KILLER = """
import contextlib, gc, json, os, random, signal, sys, time
from pathlib import Path
args, kills = json.loads(sys.argv[1]), int(sys.argv[2])
import cli.main, store.training.training_run as training_run, sortnet.data, sortnet.rankers.sortnet
import pandas, store, torch._dynamo
# A run that sorts once, and so loads the compiled kernels, whose pool of threads lives in a fork
# with this layer; one that trained would start threads of torch that do not.
with contextlib.suppress(SystemExit):
    once = ["--max-iter", "1"]
    cli.main.main([word.replace("NAME", "warm") for word in args] + once)
gc.freeze()

def reported(pipe, work):
    def report(*args, **named):
        os.write(pipe, b"!")
        done = work(*args, **named) if work else None
        os.write(pipe, b"!")
        return done
    return report

def reporting(work, report):
    return lambda *args, **named: work(*args, **{**named, "progress": report})

def train(name, steps):
    reports, pipe = os.pipe()
    child = os.fork()
    if child == 0:
        report = reported(pipe, None)
        training_run.fit = reporting(training_run.fit, report)
        os.fsync, os.replace = reported(pipe, os.fsync), reported(pipe, os.replace)
        sys.stdout = sys.stderr = open(os.devnull, "w")
        words = [word.replace("NAME", name) for word in args]
        if Path(name, "run.json").exists():
            words = ["train", "--resume", "--out", os.path.abspath(name)]
            os.makedirs("elsewhere", exist_ok=True)
            os.chdir("elsewhere")
        try:
            cli.main.main(words)
        except SystemExit as end:  # what else it would do is to take apart all that is loaded
            os._exit(end.code or 0)
    os.close(pipe)
    seen = 0
    while seen < steps and os.read(reports, 1):  # nothing comes when the trainer has ended
        seen += 1
    if seen == steps:
        time.sleep(random.choice([0, 0, random.uniform(0, 0.01)]))
        os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.close(reports)
    return status, seen

random.seed(1)
status, steps = train("counted", 10**9)
assert status == 0, status
in_the_middle = models = killed = 0
while killed < kills:
    name = f"killed{models}"
    models += 1
    waits = [random.randrange(most) for most in (2 * steps, steps // 2, steps // 2, steps // 2)]
    for wait in (*waits, 10**9):
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
    layer = {"NUMBA_THREADING_LAYER": "workqueue"}
    ran = subprocess.run(
        command, env=os.environ | layer, capture_output=True, text=True, timeout=3000
    )
    assert ran.returncode == 0, ran.stderr
    models, kills, in_the_middle = map(int, ran.stdout.splitlines()[-1].split())
    assert kills >= KILLS
    assert in_the_middle > 0
    for k in range(models):
        assert_same_end(f"killed{k}", unkilled)
        assert not list(Path(f"killed{k}").glob(".*")), "a stray temporary file"


def until_it_trains(process: ForkedScript) -> None:
    """Wait for the first iteration, after which a million follow."""
    while True:
        assert process.poll() is None, "it ended before it was to"
        with suppress(SortNetError), open_store("m.db", write=False) as store:
            if store.run("last").iteration_rows():
                return
        time.sleep(0.05)


@pytest.mark.slow
def test_ctrl_c_ends_the_process_with_one_line():
    code = "from cli.main import main; main()"
    with ForkedScript(code, *train("m", *ENDLESS)) as process:
        until_it_trains(process)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate()
    assert process.returncode == 2 and "Traceback" not in stderr
    assert stderr.splitlines()[-1].endswith("; resume with: sortnet train --resume --out m")


def signalled(monkeypatch: pytest.MonkeyPatch, number: int) -> Result:
    """The end of a run that gets a signal, twice, as a terminal that goes may send it."""
    with monkeypatch.context() as patch:
        record, finish = Run.record, Run.finish

        def hit(run, iteration, added):
            record(run, iteration, added)
            if iteration["iteration"] == 2:
                os.kill(os.getpid(), number)

        def hit_again(run, status, kept=None):
            if status == "interrupted" and number != signal.SIGINT:
                os.kill(os.getpid(), number)
            finish(run, status, kept)

        patch.setattr(Run, "record", hit)
        patch.setattr(Run, "finish", hit_again)
        return invoke(*train("stopped"))


@pytest.mark.usefixtures("hangups")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_ctrl_c_and_signals_end_a_run_that_says_how_to_go_on(unkilled, monkeypatch, number):
    before = signal.getsignal(number)
    result = signalled(monkeypatch, number)
    assert result.exit_code == 2
    message, command = result.stderr.splitlines()[-1].split("; resume with: ")
    assert message == "sortnet: interrupted"
    assert signal.getsignal(number) is before
    assert "interrupted" in done("runs", "--store", "stopped.db")
    done(*shlex.split(command)[1:])
    assert_same_end("stopped", unkilled)
