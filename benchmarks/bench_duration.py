"""How long commands take, and how many questions a ranking takes: figures of the how-to pages.

Every command runs in a process of its own, with one thread; its CPU seconds are those of the
system and of imports, too. Nothing is compared with a peer. Data are made from seed 0.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from made_tables import friedman, parts
from measuring import Row, row, spread
from scipy.special import ndtr

from sortnet.lab.simulated_annotators import NOISE, features_truth, ids_truth
from sortnet.preference.session import Session

SEED = 0
ROWS = (1_000, 10_000, 100_000)  # of training, validation and test part together
QUERY = 20  # rows of a query
TEXTS, WORDS, ANSWERS = 1_000, 60, 200
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


def run(quick: bool) -> list[Row]:
    """A row for each command and size, then one for each number of items."""
    with TemporaryDirectory() as folder:
        commands = [*of_tables(Path(folder), quick), *of_items(Path(folder), quick)]
    return [*commands, *questions_needed(quick)]


def of_tables(folder: Path, quick: bool) -> Iterator[Row]:
    """Rows of the commands that read labelled tables."""
    write_parts(folder / "tiny", 300)
    seconds(folder, "train", "tiny", "--out", "tiny-model")  # compiles what is not compiled yet
    for n in (300,) if quick else ROWS:
        write_parts(folder / "data", n)
        test = f"its {n // 5:,} test rows"
        data = f"{n:,} rows, 10 numbers and a category, queries of {QUERY}"
        for command, what, arguments in (
            ("train FOLDER", data, ("train", "data", "--overwrite")),
            ("evaluate", test, ("evaluate", "model", "data/test.csv")),
            ("rank", test, ("rank", "model", "data/test.csv", "--output", "ranked.csv")),
            ("importance", test, ("importance", "model", "data/test.csv")),
            ("explain", f"two of {test}", ("explain", "model", "data/test.csv", "row:0", "row:1")),
        ):
            yield row_of(command, what, seconds(folder, *arguments))


def of_items(folder: Path, quick: bool) -> Iterator[Row]:
    """Rows of the commands that work with a collection."""
    texts, answers = (30, 20) if quick else (TEXTS, ANSWERS)
    write_texts(folder / "texts.csv", texts)
    (folder / "judge.py").write_text(JUDGE)
    judge = ("--judge", f"{sys.executable} judge.py", "--as", "program", "--number", str(answers))
    data = f"{texts:,} texts, {answers} answers"
    for command, what, arguments in (
        ("items add", f"{texts:,} texts of {WORDS} words", ("items", "add", "texts", "texts.csv")),
        ("label --judge", f"{answers} answers of a program", ("label", "texts", *judge)),
        ("ranking", data, ("ranking", "texts")),
        ("train COLLECTION", data, ("train", "texts", "--out", "of-texts")),
    ):
        yield row_of(command, what, seconds(folder, *arguments))


def row_of(command: str, data: str, cpu: float) -> Row:
    what = f"sortnet {command}: {data}, CPU seconds"
    return row(what, cpu, note=f"seed {SEED}, one thread", command=command, data=data)


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
    """Three parts of a made table with a category, see `made_tables.friedman`."""
    folder.mkdir(exist_ok=True)
    fold = parts(friedman(SEED, queries=n // QUERY, size=QUERY, noise=5))
    rng = np.random.default_rng(SEED)
    for name, part in (("train", fold.train), ("vali", fold.vali), ("test", fold.test)):
        assert part is not None
        frame = pd.DataFrame(part.features.round(4)).add_prefix("x")
        frame.insert(0, "qid", part.query_of_docs())
        frame.insert(1, "label", part.grades)
        frame.insert(2, "colour", rng.choice(["red", "green", "blue", "black"], len(frame)))
        frame.to_csv(folder / f"{name}.csv", index=False)


def write_texts(path: Path, n: int) -> None:
    """Texts of random words, whose lengths differ."""
    rng = np.random.default_rng(SEED)
    words = ["".join(rng.choice([*"abcdefghij"], rng.integers(3, 10))) for _ in range(2_000)]
    lines = ["id,text"]
    for k in range(n):
        length = rng.integers(WORDS // 2, 3 * WORDS // 2)
        lines.append(f"text-{k},{' '.join(rng.choice(words, length))}")
    path.write_text("\n".join(lines) + "\n")


def questions_needed(quick: bool) -> Iterator[Row]:
    """Questions until at most a tenth of the pairs is expected in the wrong order."""
    seeds = range(2 if quick else SEEDS)
    for n in (8,) if quick else ITEMS:
        for explained in EXPLAINED:
            numbers = spread(until_the_goal, [(n, explained, seed) for seed in seeds])
            low, median, high = np.quantile(numbers, [0, 0.5, 1])
            yield row(
                f"questions until the goal, {n} items, features explain {explained:.0%}",
                median,
                note=f"median of seeds 0 to {len(numbers) - 1}; {low:.0f} to {high:.0f}",
                **{"items": n, "explained": explained, "low": low, "high": high},
            )


def until_the_goal(n: int, explained: float, seed: int) -> int:
    """Questions to four annotators until a session says that it is done, or has none.

    Scores are drawn from U(0, 5), or are a linear function of five features and a rest of normal
    variables. Annotators are right on three of four pairs whose scores differ by 1.
    """
    rng = np.random.default_rng([seed, n])
    features, scores = None, ids_truth(n, rng)
    if explained:
        features, scores = features_truth(n, 5, 1 - explained, rng)
    session = Session(features, n, seed=seed)
    while session.events < MOST_QUESTIONS:
        annotator = f"person-{session.events % 4}"
        questions = session.ask(annotator)
        if not questions:  # everybody has answered everything
            break
        question = questions[0]
        gap = scores[question.left] - scores[question.right]
        answer = "left" if rng.random() < ndtr(gap / NOISE) else "right"
        session.tell(question.answered(annotator, answer))
        if session.events % 5 == 0 and session.remaining().stop:
            break
    return session.events
