"""How long commands take, and how many questions a ranking takes: figures of the how-to page.

Every command runs in a process of its own, with one thread; its CPU seconds are those of the
system and of imports, too. Nothing is compared with a peer. Data are made from seed 0.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtr

from sortnet.lab.simulated_annotators import NOISE, features_truth, ids_truth
from sortnet.preference.session import Session

SEED = 0
ROWS = (1_000, 10_000, 100_000)  # of training, validation and test part together
QUERY = 20  # rows of a query
NUMBERS = 10  # columns
COLOURS = ("red", "green", "blue", "black")
TEXTS, WORDS, VOCABULARY = 1_000, 60, 2_000
ANSWERS = 200
ITEMS = (20, 50, 100, 200)
SEEDS = 5
EXPLAINED = (0.0, 0.5, 0.8)  # share of the scores' variance that features explain
MOST_QUESTIONS = 5_000

JUDGE = """
import json, sys
for line in sys.stdin:
    pair = json.loads(line)
    longer = len(pair["left"]["text"]) > len(pair["right"]["text"])
    print(json.dumps({"answer": "left" if longer else "right"}), flush=True)
"""


def run(quick: bool) -> list[dict[str, Any]]:
    """A row for each command and size, then one for each number of items."""
    with tempfile.TemporaryDirectory() as folder:
        commands = [*of_tables(Path(folder), quick), *of_items(Path(folder), quick)]
    return [*commands, *questions_needed(quick)]


def of_tables(folder: Path, quick: bool) -> Iterator[dict[str, Any]]:
    """Rows of the commands that read labelled tables."""
    write_parts(folder / "tiny", 300)
    seconds(folder, "train", "tiny", "--out", "tiny-model")  # compiles what is not compiled yet
    for n in (300,) if quick else ROWS:
        write_parts(folder / "data", n)
        data = f"{n:,} rows, {NUMBERS} numbers and a category, queries of {QUERY}"
        yield row("train FOLDER", data, seconds(folder, "train", "data", "--overwrite"))
        test = f"its {n // 5:,} test rows"
        yield row("evaluate", test, seconds(folder, "evaluate", "model", "data/test.csv"))
        args = ["rank", "model", "data/test.csv", "--output", "ranked.csv"]
        yield row("rank", test, seconds(folder, *args))
        args = ["importance", "model", "data/test.csv"]
        yield row("importance", test, seconds(folder, *args))
        args = ["explain", "model", "data/test.csv", "row:0", "row:1"]
        yield row("explain", f"two of {test}", seconds(folder, *args))


def of_items(folder: Path, quick: bool) -> Iterator[dict[str, Any]]:
    """Rows of the commands that work with a collection."""
    texts, answers = (30, 20) if quick else (TEXTS, ANSWERS)
    write_texts(folder / "texts.csv", texts)
    (folder / "judge.py").write_text(JUDGE)
    data = f"{texts:,} texts of {WORDS} words"
    yield row("items add", data, seconds(folder, "items", "add", "texts", "texts.csv"))
    judge = f"{sys.executable} judge.py"
    args = ["label", "texts", "--judge", judge, "--as", "program", "--number", str(answers)]
    yield row("label --judge", f"{answers} answers of a program", seconds(folder, *args))
    data = f"{texts:,} texts, {answers} answers"
    yield row("ranking", data, seconds(folder, "ranking", "texts"))
    args = ["train", "texts", "--out", "of-texts"]
    yield row("train COLLECTION", data, seconds(folder, *args))


def row(command: str, data: str, cpu: float) -> dict[str, Any]:
    return {"what": f"sortnet {command}: {data}, CPU seconds", "ours": cpu,
            "note": f"seed {SEED}, one thread", "command": command, "data": data}  # fmt: skip


def seconds(folder: Path, *arguments: str) -> float:
    """CPU seconds of a command and its children; it must succeed."""
    environment = {**os.environ, "SORTNET_STORE": str(folder / "sortnet.db")}
    environment |= dict.fromkeys(("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "sortnet", *arguments]
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def write_parts(folder: Path, n: int) -> None:
    """Three parts of a made table: grades are fifths of a smooth function of five columns."""
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(SEED)
    X = rng.random((n, NUMBERS))
    colour = rng.integers(4, size=n)
    worth = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2
    worth += 10 * X[:, 3] + 5 * X[:, 4] + colour + rng.normal(0, 1, n)
    grade = np.searchsorted(np.quantile(worth, [0.2, 0.4, 0.6, 0.8]), worth)
    names = ",".join(f"x{k}" for k in range(NUMBERS))
    queries = np.arange(n) // QUERY
    share = (queries % 5)[:, None] >= np.array([3, 4])  # three fifths, one and one
    part_of_row = share.sum(axis=1)
    for part, name in enumerate(("train", "vali", "test")):
        lines = [f"qid,label,colour,{names}"]
        for k in np.flatnonzero(part_of_row == part):
            numbers = ",".join(f"{x:.4f}" for x in X[k])
            cells = [f"q{queries[k]}", str(grade[k]), COLOURS[colour[k]], numbers]
            lines.append(",".join(cells))
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")


def write_texts(path: Path, n: int) -> None:
    """Texts of random words, whose lengths differ."""
    rng = np.random.default_rng(SEED)
    words = [
        "".join(rng.choice(list("abcdefghij"), rng.integers(3, 10))) for _ in range(VOCABULARY)
    ]
    lines = ["id,text"]
    for k in range(n):
        length = rng.integers(WORDS // 2, 3 * WORDS // 2)
        lines.append(f"text-{k},{' '.join(rng.choice(words, length))}")
    path.write_text("\n".join(lines) + "\n")


def questions_needed(quick: bool) -> Iterator[dict[str, Any]]:
    """Questions until at most a tenth of the pairs is expected in the wrong order."""
    for n in (8,) if quick else ITEMS:
        for explained in EXPLAINED:
            numbers = [until_the_goal(n, explained, seed) for seed in range(2 if quick else SEEDS)]
            low, median, high = np.quantile(numbers, [0, 0.5, 1])
            yield {
                "what": f"questions until the goal, {n} items, features explain {explained:.0%}",
                "ours": median,
                "note": f"median of seeds 0 to {len(numbers) - 1}; {low:.0f} to {high:.0f}",
                "items": n, "explained": explained, "low": low, "high": high,
            }  # fmt: skip


def until_the_goal(n: int, explained: float, seed: int) -> int:
    """Questions to four annotators until a session says that it is done.

    Scores are drawn from U(0, 5), or are a linear function of five features and a rest of normal
    variables. Annotators are right on three of four pairs whose scores differ by 1.
    """
    rng = np.random.default_rng([seed, n])
    truth = features_truth(n, 5, 1 - explained, rng) if explained else ids_truth(n, rng)
    session = Session(truth.features, n, seed=seed)
    while session.events < MOST_QUESTIONS:
        annotator = f"person-{session.events % 4}"
        (question,) = session.ask(annotator)
        gap = truth.scores[question.left] - truth.scores[question.right]
        answer = "left" if rng.random() < ndtr(gap / NOISE) else "right"
        session.tell(question.answered(annotator, answer))
        if session.events % 5 == 0 and session.remaining().stop:
            break
    return session.events
