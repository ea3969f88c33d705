"""sortnet train: a folder of files becomes a model, a run in the store, and what it says."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from cli_helpers import FAST, done, fault, invoke, letor, make_fold, weights_of
from result_helpers import notes_of, value_of

from sortnet.config import Config, LoopTraining
from sortnet.data import fingerprint, read_queries
from sortnet.metrics import evaluate
from sortnet.rankers.sortnet import Model, fit
from store import open_store
from store.training.train_or_resume import differences

MQ2008 = Path(__file__).resolve().parents[2] / "shared/data/mq2008/Fold1"


@pytest.fixture(autouse=True)
def _at_home(tmp_path, monkeypatch):
    """Every test has a working folder and a user's data folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("SORTNET_STORE", raising=False)
    make_fold(tmp_path / "fold")


@pytest.fixture
def said(own_trained) -> str:
    """What a training said; its model is `m` in the working folder, its store `s.db`."""
    return Path("said.txt").read_text()


def iterations_of_the_last_run(url="s.db"):
    with open_store(url) as store:
        return store.run("last").iterations_frame()


def test_the_model_is_the_one_that_the_library_learns(said):
    training = LoopTraining(epochs=9, batch_size=64, weight_decay=0.01)
    typed = {"hidden": (4,), "committee": 1, "max_iter": 3, "scaling": "query", "max_stale": 5}
    config = Config(**typed, start="warm", training=training)
    train, vali = read_queries("fold/train.txt"), read_queries("fold/vali.txt")
    expected, ours = fit(train, vali, config), Model.load("m")
    test = read_queries("fold/test.txt")
    assert (ours.sort(test).order == expected.sort(test).order).all()
    assert ours.info["iteration"] == expected.info["iteration"]


def test_an_iteration_is_a_line_that_says_what_the_store_keeps(said):
    frame = iterations_of_the_last_run()
    start = next(k for k, line in enumerate(said.splitlines()) if line.startswith("iter ")) + 1
    lines = said.splitlines()[start : start + len(frame)]
    for line, row in zip(lines, frame.to_dict("records"), strict=True):
        counts = [row["iteration"], row["comparisons_train"] + row["comparisons_vali"]]
        wrong = [row[f"miscompared_{p}"] / row[f"comparisons_{p}"] for p in ("train", "vali")]
        figures = list(map(str, counts))
        for part, share, pairs in zip(("train", "vali"), wrong, ("tp", "vp"), strict=True):
            figures += [f"{share:.1%}", str(row[pairs]), f"{row[f'{part}_ndcg@10']:.4f}"]
        assert line.split()[:8] == figures
        assert line.endswith("*") == row["best"]
        assert len(line) <= 80


def test_the_end_says_which_iteration_was_kept_and_why(said):
    lines = said.splitlines()
    marked = [int(line.split()[0]) for line in lines if line.endswith(" *")]
    rows = iterations_of_the_last_run()
    last = rows["iteration"].max()
    best = f"best is iteration {marked[-1]} of 0 to {last} (the last *)"
    assert best in lines
    figure = f"{rows['quality'].max():.4f}"
    kept = f"the comparator: ndcg@10 {figure}; best on the validation queries of iterations 0 to"
    assert f"kept   {kept} {last}" in lines
    assert marked[-1] == Model.load("m").info["iteration"]


def line_on_steps(*options: object) -> str:
    """The line on how a training is divided that a run with these options prints."""
    output = done(
        "train", "fold", "--out", "divided", "--overwrite", "--store", "s.db", *FAST, *options
    )
    return next((line for line in output.splitlines() if "one training" in line), "")


def recorded_steps() -> int:
    """The steps of the run in the folder `divided`, of its record."""
    return int(json.loads(Path("divided/run.json").read_text())["budget"]["steps"])


def test_a_run_says_into_how_many_iterations_it_divides_its_training():
    loop = ("--pairs", "compared", "--epochs", 3)
    line = line_on_steps(*loop, "--max-iter", 2)
    assert line == f"one training of {recorded_steps()} steps, in 2 iterations"
    assert line_on_steps(*loop, "--max-iter", 5) == (
        f"one training of {recorded_steps()} steps, in 3 iterations, not 5: "
        "an iteration has at least one epoch"
    )
    frame = iterations_of_the_last_run()
    assert frame["iteration"].tolist() == [0, 1, 2, 3]
    assert line_on_steps(*loop, "--max-iter", 1) == ""
    assert line_on_steps(*loop, "--max-iter", 2, "--set", "start=fresh") == ""


def test_the_figures_at_the_end_are_the_model_s_on_both_parts(said):
    model = Model.load("m")
    for part in ("train", "vali"):
        queries = read_queries(f"fold/{part}.txt")
        order = model.sort(queries).order
        figures = evaluate(queries, order, ["ndcg@10", "map", "p@10", "mrr"])
        line = next(x for x in said.splitlines() if x.startswith(f"{part} "))
        assert line.split()[1:] == [f"{v:.4f}" for v in figures.values()]


def test_figures_come_with_their_conventions(said):
    vali = read_queries("fold/vali.txt")
    empty = sum(
        not vali.grades[a:b].any() for a, b in zip(vali.offsets, vali.offsets[1:], strict=False)
    )
    (line,) = (x for x in said.splitlines() if "counted zero: train " in x)
    assert line.endswith(f", vali {empty} of 8")


def test_the_next_command_that_is_shown_works(said):
    command = said.splitlines()[-1].removeprefix("next: ").split()
    assert command[0] == "sortnet" and command[-1] == "fold/test.txt"
    assert done(*command[1:]).startswith("metric")


def test_the_run_records_how_it_came_about(said, trained):
    with open_store("s.db") as store:
        run = store.run("last")
    assert run.status == "done"
    assert run.command == "sortnet train fold --out m --store s.db " + " ".join(FAST)
    assert run.config["hidden"] == [4] and run.config["training"]["epochs"] == 9
    assert run.out == str(trained / "m")
    assert set(run.versions) >= {"sortnet", "python", "torch", "numpy"}
    for part in ("train", "vali"):
        assert run.data[part]["fingerprint"] == fingerprint(f"fold/{part}.txt")
        assert run.data[part]["n_queries"] == len(read_queries(f"fold/{part}.txt"))
    assert Model.load("m").info["run"] == run.id


def test_json_is_one_document_and_the_table_goes_to_stderr():
    result = invoke("train", "fold", "--json", "--store", "s.db", *FAST)
    summary = value_of(result.stdout, "training")
    frame = iterations_of_the_last_run()
    assert [row["new_train"] for row in summary["iterations"]] == frame["new_train"].tolist()
    assert [row["vali_map"] for row in summary["iterations"]] == frame["vali_map"].tolist()
    assert summary["best_iteration"] == np.flatnonzero(frame["best"])[-1]
    assert summary["quality"]["ndcg@10"] == frame["vali_ndcg@10"].max()
    best = frame["vali_ndcg@10"].idxmax()
    assert summary["measures"]["vali"]["map"] == frame["vali_map"][best]
    assert any("counted zero: train" in note for note in notes_of(result.stdout))
    assert summary["iterations"][-1]["train_loss"] is None, "no NaN, which is no JSON"
    assert summary["out"] == "model"
    lines = result.stderr.splitlines()
    header = next(k for k, line in enumerate(lines) if line.startswith("iter "))
    assert len(lines[header + 1 :]) == len(frame)


def test_store_and_cache_are_in_the_user_s_folders_the_cache_only_when_asked_for(
    tmp_path, monkeypatch
):
    done("train", "fold", "--out", "m1", *FAST)
    assert (tmp_path / "data/sortnet/sortnet.db").exists()
    assert not (tmp_path / "cache").exists()
    monkeypatch.setenv("SORTNET_STORE", "other.db")
    done("train", "fold", "--out", "m2", "--set", "cache=yes", *FAST)
    assert Path("other.db").exists() and list((tmp_path / "cache/sortnet").iterdir())
    done("train", "fold", "--out", "m3", "--set", "cache=yes", *FAST)
    weights = [weights_of(m).read_bytes() for m in ("m1", "m2", "m3")]
    assert weights[0] == weights[1] == weights[2]


def test_a_folder_that_has_a_model_is_not_taken(said):
    before = Path("m/model.json").read_bytes()
    message = fault("train", "fold", "--out", "m", *FAST)
    assert all(word in message for word in ("m has a model", "--resume", "--overwrite", "--out"))
    assert Path("m/model.json").read_bytes() == before
    assert "one of them" in fault("train", "fold", "--resume", "--overwrite")


def test_overwrite_begins_anew_in_the_same_folder(said):
    first = json.loads(Path("m/run.json").read_text())["run"]
    before = {p.name: p.read_bytes() for p in Path("m").iterdir()}
    fault("train", "nowhere", "--out", "m", "--overwrite", *FAST)
    assert {p.name: p.read_bytes() for p in Path("m").iterdir()} == before
    done("train", "fold", "--out", "m", "--store", "s.db", "--overwrite", *FAST, "--seed", "5")
    assert json.loads(Path("m/run.json").read_text())["run"] != first
    assert Model.load("m").config.seed == 5
    assert len(iterations_of_the_last_run())


def test_resuming_a_run_that_has_finished_says_so_and_changes_nothing(said):
    before, frame = weights_of("m").read_bytes(), iterations_of_the_last_run()
    result = invoke("train", "fold", "--out", "m", "--store", "s.db", "--resume", *FAST)
    assert result.exit_code == 0
    assert "finished already" in result.stderr
    assert weights_of("m").read_bytes() == before
    assert iterations_of_the_last_run().equals(frame)


def test_what_a_resumed_run_is_not_told_it_remembers(said):
    summary = value_of(done("train", "--resume", "--out", "m", "--json"))
    assert summary["config"]["hidden"] == [4]
    assert summary["run"] == json.loads(Path("m/run.json").read_text())["run"]


def test_where_there_is_no_run_to_resume_one_begins_and_a_folder_is_its_two_files(said):
    files = ("fold/train.txt", "fold/vali.txt")
    result = invoke("train", *files, "--out", "m2", "--store", "s.db", "--resume", *FAST)
    assert result.exit_code == 0
    assert "no run in m2" in result.stderr
    weights = [weights_of(m).read_bytes() for m in ("m", "m2")]
    assert weights[0] == weights[1]


def test_a_resumed_run_keeps_its_settings(said):
    message = fault("train", "--out", "m", "--resume", "--set", "hidden=4,4", "--seed", 3)
    assert "hidden (4, 4), not (4,)" in message and "seed 3, not 0" in message


@pytest.mark.parametrize("change", [("--max-iter", 9), ("--epochs", 99)])
def test_more_training_of_a_divided_budget_is_refused_with_what_to_do(said, change):
    message = fault("train", "--resume", "--out", "m", *change)
    assert message.startswith("sortnet: cannot resume the run in m, it was started otherwise: ")
    assert message.rstrip().endswith("; train on: sortnet train DATA --from m --out NEW")


def test_a_resumed_run_keeps_its_data(said):
    Path("fold/vali.txt").write_text(letor(8, 99))
    message = fault("train", "fold", "--out", "m", "--store", "s.db", "--resume", *FAST)
    assert "vali data fold/vali.txt" in message


def test_a_resumed_run_finds_its_data_under_another_name(said):
    shutil.move("fold", "moved")
    assert invoke("train", "moved", "--out", "m", "--resume").exit_code == 0
    assert "fold/train.txt" in fault("train", "--out", "m", "--resume")


def test_a_resumed_run_keeps_its_store(said):
    assert "s.db, not in " in fault("train", "--out", "m", "--store", "t.db", "--resume")
    assert not Path("t.db").exists()


def test_a_run_whose_store_has_gone_is_not_resumed(said):
    run = json.loads(Path("m/run.json").read_text())["run"]
    Path("s.db").unlink()
    assert run in fault("train", "--out", "m", "--resume")


def test_two_runs_cannot_be_in_one_folder():
    Path("m").mkdir()
    handle = os.open("m", os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        assert "another sortnet train is running" in fault("train", "fold", "--out", "m", *FAST)
    finally:
        os.close(handle)
    done("train", "fold", "--out", "m", *FAST)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (None, "m has a model but no run.json"),
        ({"format": "npm"}, "m/run.json"),
        ({"format_version": 99}, "format version 99"),
        ({"asked": {"hidden": [100_000, 10_000]}}, "settings were changed after it was"),
        ({"config": {"hidden": [100_000, 10_000]}}, "settings were changed after it was"),
        ({"settings_sha256": None}, "no 'settings_sha256'"),
    ],
)
def test_a_run_json_that_is_not_as_it_was_written_is_refused_and_nothing_built(
    said, monkeypatch, changes, why
):
    about = json.loads(Path("m/run.json").read_text())
    Path("m/run.json").unlink()
    if changes is not None:
        for name, value in changes.items():
            about[name] = about[name] | value if isinstance(value, dict) else value
        known = {name: value for name, value in about.items() if value is not None}
        Path("m/run.json").write_text(json.dumps(known))
    monkeypatch.setattr("store.training.job.make_comparator", None)
    assert why in invoke("train", "--out", "m", "--resume").stderr


def test_differences_name_what_differs_and_nothing_else():
    a, b = Config(), Config(quality="mrr", training=LoopTraining(epochs=99))
    assert differences(b, a) == ["quality mrr, not None", f"epochs 99, not {LoopTraining.epochs}"]
    assert differences(a, a) == []


def stars(text: str) -> str:
    """Grades 1 to 3 in place of 0 to 2."""
    return re.sub(r"^\d", lambda grade: str(int(grade[0]) + 1), text, flags=re.MULTILINE)


def test_the_first_line_says_what_chooses_and_by_how_many_queries(said):
    vali = read_queries("fold/vali.txt")
    several = [len(set(grades)) > 1 for grades in np.split(vali.grades, vali.offsets[1:-1])]
    assert said.splitlines()[0] == (
        f"ndcg@10 chooses the iteration: {sum(several)} of 8 validation queries can choose"
    )
    Path("fold/train.txt").write_text(re.sub("^2", "1", letor(20, 0), flags=re.MULTILINE))
    Path("fold/vali.txt").write_text(re.sub("^2", "1", letor(8, 1), flags=re.MULTILINE))
    said = done("train", "fold", "--out", "m2", *FAST).splitlines()[0]
    assert said.startswith("map chooses the iteration: ")
    assert Model.load("m2").config.quality == "map"


@pytest.mark.parametrize("quality", ["map", "p@3", "mrr"])
def test_a_measure_that_cannot_choose_is_refused_with_what_can(quality):
    for part in ("train", "vali"):
        path = Path(f"fold/{part}.txt")
        path.write_text(stars(path.read_text()))
    message = fault("train", "fold", "--quality", quality, *FAST)
    assert message.startswith(f"sortnet: fold/vali.txt: {quality} scores every ranking alike")
    assert "quality=ndcg@10" in message
    level = re.search(r"relevant_from=(\d)", message)[1]
    said = done("train", "fold", "--quality", quality, "--set", f"relevant_from={level}", *FAST)
    assert not said.startswith(f"{quality} chooses the iteration: 0 of 8")


def test_figures_on_a_validation_part_that_is_the_training_part_are_called_so():
    said = done("train", "fold/train.txt", "fold/train.txt", *FAST).splitlines()
    assert said[1] == "VALI is the data of TRAIN: all figures are training figures"


@pytest.mark.slow
@pytest.mark.skipif(not MQ2008.exists(), reason="the MQ2008 data is not here")
def test_real_queries_are_learned_far_better_than_chance():
    summary = value_of(done("train", MQ2008, "--json", *FAST, "--set", "batch_size=256"))
    chance, learned = summary["iterations"][0]["vali_map"], summary["measures"]["vali"]["map"]
    assert learned > chance + 0.1
