"""Callbacks that log: what trackers read back is what the loop said."""

from __future__ import annotations

import math

import pytest
from cli_helpers import FAST, done, fault, invoke, make_fold
from optional_extras import needs

from sortnet.learning.iterations import Iteration, State
from sortnet.learning.trackers import tracker
from store import open_store

# Of the trackers' own code, which is not ours to mend.
THEIRS = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
MEASURES = {"train": {"map": 0.5, "ndcg@10": 0.25}, "vali": {"map": 0.375, "ndcg@10": math.nan}}


COUNTS = ("comparisons_train", "comparisons_vali", "miscompared_train", "miscompared_vali",
          "new_train", "new_vali", "tp", "vp", "iteration")  # fmt: skip
NAMES = sorted(
    (*COUNTS, "best", "quality", "epochs", "kept_epoch", "train_loss", "seconds_sort",
     "seconds_train", "map/train", "map/vali", "ndcg_at_10/train")
)  # fmt: skip


def iteration(i: int, **other: object) -> Iteration:
    counts = dict(zip(Iteration.__dataclass_fields__, range(i, i + 9), strict=False))
    rest = {
        "quality": 0.375, "best": True, "measures": MEASURES, "epochs": 3.0, "kept_epoch": 2.0,
        "train_loss": 0.125, "vali_loss": math.nan, "seconds_sort": 1.5, "seconds_train": 2.5,
    }  # fmt: skip
    return Iteration(**{**counts, **rest, "iteration": i, **other})


def state(i: int, *, finished: bool = False) -> State:
    return State(i + 1, None, finished=finished)  # type: ignore[arg-type]


def scalars(folder) -> dict[str, list[tuple[int, float]]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    read = EventAccumulator(str(folder))
    read.Reload()
    return {
        name: [(event.step, event.value) for event in read.Scalars(name)]
        for name in read.Tags()["scalars"]
    }


class TestTensorBoard:
    pytestmark = THEIRS

    @pytest.fixture(autouse=True)
    def _installed(self):
        needs("tensorboard")

    def test_reads_back_every_figure_and_a_resumed_run_takes_back_what_is_done_again(
        self, tmp_path
    ):
        for first, last, tp in ((0, 3, 1.0), (2, 4, 2.0)):
            log = tracker(f"tensorboard:{tmp_path}", "", {})
            for i in range(first, last):
                log(iteration(i, tp=tp), state(i, finished=i == last - 1))
        found = scalars(tmp_path)
        assert sorted(found) == NAMES, "NaN is left out"
        assert found["ndcg_at_10/train"][0] == (0, 0.25) and found["comparisons_vali"][0] == (0, 2)
        assert found["tp"] == [(0, 1.0), (1, 1.0), (2, 2.0), (3, 2.0)]

    def test_train_logs_what_it_keeps_in_the_store(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        make_fold(tmp_path / "fold")
        where = ("--out", "m", "--store", "s.db", "--log", "tensorboard:events")
        done("train", "fold", *where, *FAST)
        with open_store("s.db") as store:
            kept = store.run("last").iterations_frame()
        found = scalars(tmp_path / "events")
        for tag, column in (("map/vali", "vali_map"), ("tp", "tp")):
            steps, values = zip(*found[tag], strict=True)
            assert list(steps) == kept["iteration"].tolist()
            assert list(values) == pytest.approx(kept[column].tolist())


class TestMLflow:
    pytestmark = THEIRS

    @pytest.fixture(autouse=True)
    def _installed(self):
        needs("mlflow")

    @pytest.fixture
    def client(self, tmp_path, monkeypatch):
        from mlflow.tracking import MlflowClient

        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
        return MlflowClient(tracking_uri=f"sqlite:///{tmp_path}/flow.db")

    def runs(self, client):
        number = client.get_experiment_by_name("sortnet").experiment_id
        return client.search_runs([number])

    def test_a_resumed_run_goes_on_in_the_run_of_its_name(self, client, tmp_path):
        for i in range(2):
            log = tracker(f"mlflow:sqlite:///{tmp_path}/flow.db", "abc", {"seed": 3})
            log(iteration(i, tp=10 + i), state(i, finished=i == 1))
        (run,) = self.runs(client)
        assert run.info.run_name == "abc" and run.info.status == "FINISHED"
        assert run.data.params == {"seed": "3"}
        history = client.get_metric_history(run.info.run_id, "tp")
        assert sorted((m.step, m.value) for m in history) == [(0, 10.0), (1, 11.0)]
        assert set(run.data.metrics) == set(NAMES)

    def test_a_training_goes_on_without_its_server_and_never_shows_the_password(
        self, tmp_path, monkeypatch
    ):
        monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
        make_fold(tmp_path / "fold")
        log = ("--log", "mlflow:http://me:s3cret@127.0.0.1:9")
        where = ("--out", tmp_path / "m", "--store", tmp_path / "s.db")
        result = invoke("train", tmp_path / "fold", *where, *log, *FAST)
        assert result.exit_code == 0 and "s3cret" not in result.output
        lines = [line for line in result.stderr.splitlines() if " is not in mlflow:" in line]
        assert lines[0].startswith("iteration 0 is not in mlflow:http://me@")
        assert len(lines) >= 2, "a line an iteration"

    def test_a_place_that_mlflow_cannot_use_is_one_line(self, tmp_path):
        with pytest.warns(UserWarning, match=r"iteration 0 is not in mlflow:nonsense"):
            tracker("mlflow:nonsense://x", "abc", {})(iteration(0), state(0))


@pytest.mark.parametrize("value", ["tensorboard", "tensorboard:", "wandb", ""])
def test_a_misspelt_log_is_one_line_that_says_what_there_is(value):
    message = fault("train", "fold", "--log", value)
    assert repr(value) in message and "tensorboard:DIR" in message


def test_a_log_that_is_not_installed_is_refused_before_anything_is_read(monkeypatch):
    monkeypatch.setattr("sortnet.learning.trackers.find_spec", lambda name: None)
    assert "pip install 'sortnet[mlflow]'" in fault("train", "no-such-folder", "--log", "mlflow")
