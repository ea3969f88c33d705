"""No command writes over what it reads, over a store, or into a model's folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from cli_helpers import done, fault, nothing_changed, weights_of
from docs_helpers import walk

from sortnet.errors import SortNetError
from sortnet.files import refuse_output

WRITERS = {  # {what it is: how it is called but for the file it writes}
    "rank": ("rank", "m", "fold/test.txt", "--output"),
    "evaluate": ("evaluate", "m", "fold/test.txt", "--per-query"),
    "importance": ("importance", "m", "fold/test.txt", "--output"),
    "pairs": ("pairs", "last", "--store", "s.db", "--output"),
    "pairs parquet": ("pairs", "last", "--store", "s.db", "--format", "parquet", "--output"),
    "report": ("report", "last", "--store", "s.db", "--output"),
    "ranking": ("ranking", "sweets", "--store", "s.db", "--output"),
    "judgements": ("judgements", "export", "sweets", "--store", "s.db", "--output"),
    "settings": ("settings", "--output"),
    "simulate": ("experiment", "simulate", "--items", "5", "--seeds", "1", "--plot"),
}


@pytest.fixture(scope="module")
def made(copy_of_trained):
    """A folder with data, a model, a store with a run and a collection."""
    home = copy_of_trained
    (home / "sweets.csv").write_text("id,text\na,one\nb,two\nc,three\n")
    done("items", "add", "sweets", home / "sweets.csv", "--store", home / "s.db")
    return home


@pytest.fixture(autouse=True)
def _at_home(made, monkeypatch):
    monkeypatch.chdir(made)
    monkeypatch.delenv("SORTNET_STORE", raising=False)


@pytest.mark.parametrize("writer", WRITERS)
def test_what_would_be_lost_is_refused_in_one_line_before_any_work(made, writer):
    Path("folder").mkdir(exist_ok=True)
    places = {
        "s.db": "a database",
        "s.db-wal": "a database",
        "m/model.json": "the",
        "m/new.txt": "that of a model",
        "": "does not name a file",
        "no/such/new.txt": "there is no folder 'no/such'",
        "folder": "a folder",
    }
    with nothing_changed(made):
        for place, words in places.items():
            if writer == "simulate":
                place = place and str(Path(place).with_suffix(".png")) if "new" in place else place
            message = fault(*WRITERS[writer], place)
            assert f"cannot write {place!r}" in message and words in message


@pytest.mark.parametrize("writer", ["rank", "evaluate", "importance"])
def test_the_data_that_is_read_is_kept(made, writer):
    for name in ("link.txt", "hard.txt", "hard.json"):
        Path(name).unlink(missing_ok=True)
    Path("link.txt").symlink_to("fold/test.txt")
    os.link("fold/test.txt", "hard.txt")
    os.link(weights_of("m"), "hard.json")
    with nothing_changed(made):
        for name in ("fold/test.txt", "fold/../fold/test.txt", "link.txt", "hard.txt"):
            assert "'fold/test.txt' is read" in fault(*WRITERS[writer], name)
        assert "'m' is read" in fault(*WRITERS[writer], "hard.json")
        with pytest.raises(SortNetError, match=r"'fold/te\*' is read, and would be lost"):
            refuse_output("fold/test.txt", "fold/te*")


def test_the_data_of_a_model_a_run_or_a_collection_is_kept(made):
    Path("new.txt").write_bytes(Path("fold/test.txt").read_bytes())
    with nothing_changed(made):
        for command in ("rank", "importance"):
            *_, option = WRITERS[command]
            typed = (command, "m", "new.txt", option, "fold/train.txt")
            assert "'m' was trained on it" in fault(*typed)
        assert "fold/vali.txt' is read" in fault(*WRITERS["pairs"], "fold/vali.txt")
        for command in ("ranking", "judgements"):
            assert "sweets.csv' is read" in fault(*WRITERS[command], "sweets.csv")


def test_a_report_keeps_the_data_of_its_run_and_what_it_is_given(made):
    (made / "copy.txt").write_bytes((made / "fold/vali.txt").read_bytes())
    with nothing_changed(made):
        assert "fold/train.txt' is read" in fault(*WRITERS["report"], "fold/train.txt")
        message = fault(*WRITERS["report"], "copy.txt", "--data", "copy.txt")
        assert "'copy.txt' is read" in message


def test_a_simulation_keeps_its_votes(made):
    Path("votes.svg").write_text("a,b,answer\n")
    votes = ("--protocol", "votes", "--votes", "votes.svg")
    args = ("experiment", "simulate", *votes, "--plot", "votes.svg")
    with nothing_changed(made):
        assert "'votes.svg' is read" in fault(*args)


def test_what_is_no_input_is_replaced_also_beside_somebody_elses_model_json(made, tmp_path):
    Path("old.txt").write_text("old")
    done("rank", "m", "fold/test.txt", "--output", "old.txt")
    assert Path("old.txt").read_text().startswith("q0 Q0 ")
    done("rank", "m", "fold/test.txt", "--output", os.devnull)
    (tmp_path / "model.json").write_text('{"format": "layers-model"}')
    refuse_output(str(tmp_path / "new"))
    (tmp_path / "model.json").write_text('{\n  "format": "sortnet-model"')
    with pytest.raises(SortNetError, match="that of a model"):
        refuse_output(str(tmp_path / "new"))


@pytest.mark.parametrize("command", [("train", "fold"), ("demo",)])
def test_a_folder_for_a_model_is_looked_at_before_anything_is_read(made, command):
    Path("file").write_text("mine")
    places = {"": "does not name a folder", "no/such": "there is no folder 'no'"}
    places["file"] = "that is a file"
    with nothing_changed(made):
        for place, words in places.items():
            assert words in fault(*command, "--out", place, "--store", "new.db")
    assert not Path("no").exists()


def test_every_option_that_names_a_file_to_write_is_tried_here():
    for name, command in walk():
        words = tuple(name.split()[1:])
        options = {option for param in command.params for option in param.opts}
        for option in options & {"--output", "--per-query", "--plot"}:
            tried = [args[-1] for args in WRITERS.values() if args[: len(words)] == words]
            assert option in tried, name
