"""`sortnet demo --examples`: the files that the how-tos use, and the judges among them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from cli_helpers import done, fault, invoke
from docs_helpers import at_home, type_line
from result_helpers import value_of

from cli.examples.lay_out import EXAMPLES, lay_out_examples


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the examples, which is the working directory."""
    lay_out_examples(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_each_purpose_is_told_with_its_files_which_are_all_there(tmp_path: Path) -> None:
    folder = tmp_path / "examples"
    found = value_of(done("demo", "--examples", folder, "--json"), "examples")
    assert {str(path) for path in folder.rglob("*") if path.is_file()} == set(found["files"])
    told = [name for example in EXAMPLES for name in example.files.split(", ")]
    assert {name.rstrip("/") for name in told} == {path.name for path in folder.iterdir()}
    said = done("demo", "--examples", folder)
    assert all(example.command in said for example in EXAMPLES)


def test_a_missing_file_is_laid_out_again_and_another_file_is_never_replaced(folder: Path) -> None:
    (folder / "gold.csv").unlink()
    done("demo", "--examples", ".")
    (folder / "gold.csv").unlink()
    (folder / "votes.csv").write_text("mine\n")
    assert "votes.csv is there and is not the example" in fault("demo", "--examples", ".")
    assert (folder / "votes.csv").read_text() == "mine\n"
    assert not (folder / "gold.csv").exists()


def test_the_program_prefers_the_longer_text_of_two_and_of_more(folder: Path) -> None:
    pair = {"left": {"text": "long"}, "right": {"text": "no"}}
    items = [{"place": place, "text": "x" * n} for place, n in {"A": 2, "B": 5, "C": 1}.items()]
    asked = "".join(json.dumps(question) + "\n" for question in (pair, {"items": items}))
    program = [sys.executable, "judge.py"]
    said = subprocess.run(program, input=asked, capture_output=True, text=True, check=True)
    answers = [json.loads(line) for line in said.stdout.splitlines()]
    assert answers == [{"answer": "left"}, {"best": "B", "worst": "C"}]


def test_the_votes_tell_who_answers_at_random(folder: Path) -> None:
    store = ("--store", folder / "s.db")
    done("items", "add", "essays", "essays.csv", *store)
    done("judgements", "import", "essays", "votes.csv", *store)
    listed = value_of(done("annotators", "list", "essays", "--json", *store), "annotators")
    verdicts = {annotator["name"]: annotator["verdict"] for annotator in listed}
    assert verdicts["eve"] == "answers at random"
    assert verdicts["ana"] == verdicts["ben"] == ""


def test_orders_of_the_shop_give_the_grade_away(folder: Path, quick_training) -> None:
    columns = ("--query", "search", "--grade", "stars", "--id", "product")
    said = invoke("train", "shop.csv", *columns, "--epochs", "1", "--store", folder / "s.db")
    assert said.exit_code == 0
    assert "warning: orders is nearly the grade" in said.stdout + said.stderr


@pytest.mark.slow
def test_the_first_command_of_each_example_can_be_typed(tmp_path: Path, quick_training) -> None:
    lay_out_examples(str(tmp_path))
    with at_home(tmp_path):
        for example in EXAMPLES:
            if example.command != "python model_server.py":  # it serves until Ctrl-C
                type_line(example.command)


def test_what_cannot_be_laid_out_is_one_line(tmp_path: Path) -> None:
    said = fault("demo", "--examples", tmp_path / "examples", "--max-iter", "3")
    assert "--examples trains nothing: leave --max-iter out" in said
    (tmp_path / "file").write_text("")
    assert "not a folder" in fault("demo", "--examples", tmp_path / "file")
    (tmp_path / "bikes").write_text("")
    assert "cannot make" in fault("demo", "--examples", tmp_path)
