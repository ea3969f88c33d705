"""Each kind of judge through `label`, `sort` and `train`, with a kill in between."""

from __future__ import annotations

import base64
import io
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from language_model_server import Model, serving
from PIL import Image
from starlette.responses import JSONResponse

from store import open_store

N, QUERIES = 60, 12
ANSWERS = 40  # of all judges together
KILLED_AT = 12  # questions after which the first process is killed
WORKERS = 2

PROGRAM = """
import json, sys
for line in sys.stdin:
    question = json.loads(line)
    left, right = question["left"], question["right"]
    with open("asked.txt", "a") as file:
        file.write(f"{left['text']}, {right['text']}\\n")
    print(json.dumps({"answer": "left" if left["text"] > right["text"] else "right"}), flush=True)
"""
SORT = """
import sortnet
{judge}
sortnet.sort("docs.csv", judge=judge, text="text", id="id", ignore=["query", "grey"],
             store="s.db", name="t", max_calls={calls}, wrong=1e-6, progress=False)
"""
TRAIN = """
import sys
from sortnet.core import NamedColumns
from store.training import RunOptions, resume, train
{judge}
options = RunOptions(columns=NamedColumns(query="query", id="id"), store="s.db")
if len(sys.argv) > 1:
    resume("model", judge=judge, options=RunOptions(store="s.db"))
else:
    train("docs.csv", "model", judge=judge, options=options, judgements={answers}, seed=2)
"""
FUNCTION = """
def judge(left, right):
    texts = [item if isinstance(item, str) else item["text"] for item in (left, right)]
    with open("asked.txt", "a") as file:
        file.write(" ".join(texts) + "\\n")
    return "left" if texts[0] > texts[1] else "right"
"""


class Thinking(Model):
    """A model that names the wrong item in its thoughts, and then the right one."""

    def __init__(self) -> None:
        super().__init__(
            score=_number,
            logprobs=False,
            said=lambda letter: f"<think>Is it {'AB'[letter == 'A']}? So: B. No.</think>\n{letter}",
        )


class Seeing(Model):
    """A model that sees pictures, of which the lighter one is better, and reads no text."""

    def __init__(self) -> None:
        super().__init__(score=_number)

    def reply(self, body: dict, headers: object) -> JSONResponse:
        parts = body["messages"][0]["content"]
        texts = [part["text"] for part in parts if part["type"] == "text"]
        shades = [_shade(part["image_url"]["url"]) for part in parts if part["type"] != "text"]
        assert len(shades) == 2
        with self.lock:
            self.prompts.append(" ".join(map(str, shades)))
        letter = "A" if shades[0] > shades[1] else "B"
        assert texts
        return JSONResponse({"choices": [{"message": {"content": letter}}]})


def _shade(url: str) -> int:
    """Return the grey value of a picture in a data URL."""
    content = base64.b64decode(url.partition(",")[2])
    return int(Image.open(io.BytesIO(content)).convert("L").getpixel((0, 0)))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table of documents whose text, grey value and picture all tell how good they are."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SORTNET_STORE", "s.db")
    monkeypatch.delenv("SORTNET_KEY", raising=False)
    Path("pictures").mkdir()
    lines = ["id,query,text,picture,grey"]
    for k in range(N):
        Image.new("L", (20, 20), 4 * k + 8).save(f"pictures/{k:02d}.png")
        lines.append(f"d{k:02d},q{k % QUERIES},item {k + 10},pictures/{k:02d}.png,{k * 7 % N}")
    Path("docs.csv").write_text("\n".join(lines) + "\n")
    Path("program.py").write_text(PROGRAM)
    return tmp_path


@contextmanager
def judge_of(kind: str) -> Iterator[tuple[list[str], str, Callable[[], list[str]]]]:
    """Yield a judge's options, the Python that makes `judge`, and what lists its questions."""
    command = f"{sys.executable} -S -E program.py"
    from_program = f"judge = sortnet.Program({command!r}, workers={WORKERS})"

    def written() -> list[str]:
        asked = Path("asked.txt")
        return asked.read_text().splitlines() if asked.exists() else []

    if kind == "program":
        yield ["--judge", command, "--workers", str(WORKERS)], from_program, written
        return
    if kind == "function":
        yield [], FUNCTION, written
        return
    model = Seeing() if kind == "vision" else Thinking()
    with serving(model) as url:
        Path("judge.toml").write_text(
            f'model = "judge"\nserver = "{url}"\nworkers = {WORKERS}\nrequest = {{ seed = 1 }}\n'
        )
        options = ["--judge", "judge.toml"]
        python = 'judge = sortnet.LanguageModel.from_file("judge.toml")'

        def prompts() -> list[str]:
            return model.prompts[:]

        if kind == "two":
            options += ["--judge", command]
            python = (
                'judge = {"model": sortnet.LanguageModel.from_file("judge.toml"), '
                f'"program": sortnet.Program({command!r})}}'
            )
            yield options, python, lambda: prompts() + written()
            return
        yield options, python, prompts


def commands(use: str, options: list[str], python: str) -> tuple[list[str], list[str]]:
    """Return the command that asks, and the command that goes on after a kill."""
    run = [sys.executable, "-m", "cli"]
    if use == "label":
        label = [*run, "label", "t", *options, "--until", "0.000001", "--number"]
        return [*label, str(ANSWERS)], [*label, str(ANSWERS - KILLED_AT)]
    python = python if python.startswith("\n") else f"import sortnet\n{python}"
    n_judges = 2 if "{" in python else 1
    script = SORT if use == "sort" else TRAIN
    text = script.format(judge=python, calls=ANSWERS // n_judges, answers=ANSWERS)
    Path("script.py").write_text(text)
    again = [sys.executable, "script.py"]
    return again, ([*again, "resume"] if use == "train" else again)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "use"),
    [
        ("thinking", "label"),
        ("vision", "train"),
        ("program", "sort"),
        ("function", "train"),
        ("function", "sort"),
        ("two", "label"),
        ("two", "train"),
    ],
)
def test_a_judge_answers_in_each_use_and_a_kill_asks_nothing_twice(kind, use):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    if use == "label":
        add = [sys.executable, "-m", "cli", "items", "add", "t", "docs.csv", "--id", "id"]
        subprocess.run([*add, "--ignore", "query"], env=environment, check=True)
    with judge_of(kind) as (options, python, asked):
        first, again = commands(use, options, python)
        with Path("stderr.txt").open("wb") as stderr:
            process = subprocess.Popen(first, env=environment, stderr=stderr)
        while len(asked()) < KILLED_AT:
            assert process.poll() is None, Path("stderr.txt").read_text()
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        ended = subprocess.run(again, env=environment, capture_output=True, text=True)
        assert ended.returncode == 0, ended.stderr
        questions = asked()
    with open_store("s.db") as store:
        (collection,) = [store.collection(name) for name in store.collections_frame()["name"]]
        judgements = list(collection.judgements())
        texts = collection.items().texts
    about = Counter(frozenset(map(int, judgement.pair)) for judgement in judgements)
    best = [max(judgement.items, key=lambda item: _number(texts[item])) for judgement in judgements]
    assert [judgement.best for judgement in judgements] == best
    assert len(judgements) == pytest.approx(ANSWERS, abs=2 * WORKERS)
    assert len(questions) <= len(judgements) + 2 * WORKERS
    if use == "train":
        assert max(about.values()) == 1
    n_judges = len({judgement.annotator for judgement in judgements})
    assert n_judges == (2 if kind == "two" else 1)


def _number(text: str) -> float:
    """Return the number in a text of an item."""
    return float("".join(filter(str.isdigit, text)))
