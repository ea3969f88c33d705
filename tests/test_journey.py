"""A whole study: items are judged by page, terminal, program and model, then ranked and trained."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from asked_texts import program
from cli_helpers import done, invoke
from language_model_server import Model, serving
from scipy.stats import spearmanr
from web_helpers import served

from store import open_store

pytestmark = pytest.mark.slow

N = 16
# Answers rightly, but kills the process that asks at its ninth question.
KILLS = """
import json, os, signal, sys
for n, line in enumerate(sys.stdin, 1):
    if n == 9 and not os.path.exists("killed"):
        open("killed", "w").close()
        os.kill(os.getppid(), signal.SIGKILL)
    q = json.loads(line)
    better = "left" if q["left"]["features"]["size"] > q["right"]["features"]["size"] else "right"
    print(json.dumps({"answer": better}), flush=True)
"""
WRONG = KILLS.replace("n == 9", "False").replace(" > ", " < ")


@pytest.fixture
def sizes(tmp_path, monkeypatch):
    """The sizes of things, which decide which is better; their names say nothing."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SORTNET_STORE", "s.db")
    sizes = np.random.default_rng(0).permutation(N)
    names = [f"thing {k}" for k in range(N)]
    frame = pd.DataFrame({"id": range(N), "text": names, "size": sizes, "noise": sizes % 3})
    frame.to_csv("things.csv", index=False)
    done("items", "add", "things", "things.csv")
    return sizes


def test_a_study_of_all_kinds_of_judges_loses_nothing_on_its_way_to_a_ranker(sizes):
    by_terminal()
    by_a_killed_program()
    by_page(sizes)
    by_model(sizes)
    wrong = program(WRONG, "wrong.py")
    done("label", "things", "--as", "eve", "--judge", wrong, "--number", "20")
    done("annotators", "exclude", "things", "eve", "--reason", "the worse item every time")
    n_live = {name: n_by(name) for name in ("ana", "robot", "ben", "judge", "eve")}
    assert n_live == {"ana": 3, "robot": 15, "ben": 11, "judge": 12, "eve": 20}
    assert n_stored() == 3 + 15 + 11 + 12 + 20 + 2 * 2  # two answers were undone

    done("ranking", "things", "-o", "ranking.csv")
    assert agreement("ranking.csv", sizes) > 0.9
    done("train", "things", "--out", "ranker")
    done("rank", "ranker", "things.csv", "-o", "ranked.csv")
    assert agreement("ranked.csv", sizes) > 0.9


def by_terminal() -> None:
    """Ana answers three questions, and takes one answer back."""
    lines = "left\nright\nundo\nright\nleft\nquit\n"
    assert invoke("label", "things", "--as", "ana", lines=lines).exit_code == 0


def by_a_killed_program() -> None:
    command = [sys.executable, "-m", "cli", "label", "things", "--as", "robot"]
    command += ["--judge", program(KILLS), "--number", "15"]
    environment = dict(os.environ, PYTHONPATH=str(Path(__file__).parents[1]))
    killed = subprocess.run(command, env=environment, capture_output=True)
    assert killed.returncode == -signal.SIGKILL
    n_acknowledged = n_by("robot")
    assert n_acknowledged == 8
    done(*command[3:-1], 15 - n_acknowledged)


def by_page(sizes) -> None:
    """Ben answers twelve questions rightly, and takes the last answer back."""
    with open_store("s.db") as store, served(store.collection("things")) as site:
        link = site.link("ben")
        state = site.client.post(f"{link}/next").json()
        for _ in range(12):
            pair = state["pairs"][0]
            left, right = (sizes[int(pair[side]["text"].split()[1])] for side in ("left", "right"))
            body = {"lease": pair["lease"], "answer": "left" if left > right else "right"}
            state = site.client.post(f"{link}/answer", body).json()
        undone = site.client.post(f"{link}/undo", {"last": state["last"]}).json()
        assert undone["undone"] and undone["answered"] == 11


def by_model(sizes) -> None:
    model = Model(score=lambda text: float(sizes[int(text.split()[1])]))
    with serving(model) as url:
        done("label", "things", "--model", "judge", "--server", url, "--number", 12)


def n_stored() -> int:
    """The number of judgements, with undos."""
    with open_store("s.db") as store:
        return store.collection("things").n_judgements


def n_by(annotator: str) -> int:
    """The number of an annotator's answers that are not undone."""
    with open_store("s.db") as store:
        frame = store.collection("things").judgements_frame()
    is_live = (frame["answer"] != "undo") & ~frame["undone"]
    return int((is_live & (frame["annotator"] == annotator)).sum())


def agreement(file: str, sizes) -> float:
    """Spearman's correlation of the places in a ranking's file with the sizes."""
    ranking = pd.read_csv(file)
    column = "id" if "id" in ranking else "docid"
    return float(-spearmanr(ranking["rank"], sizes[ranking[column].astype(int)])[0])
