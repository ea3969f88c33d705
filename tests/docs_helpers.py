"""Helpers for tests of the documentation: find examples in pages and help texts, run them.

`python tests/docs_helpers.py` writes the output of the tutorial's commands into the tutorial.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
from cli_helpers import FAST, done, letor, make_fold
from old_version import ARCHIVE

from cli.main import main

ROOT = Path(__file__).resolve().parent.parent
TUTORIAL = ROOT / "docs/tutorial.md"
DATABASE = "postgresql://me@db/sortnet"
DOCIDS = ("GX000-00-0000000", "GX004-93-7097963")
# What is added to an example so that it ends soon; what it shows stays the same.
SHORTER = {
    "train": FAST,
    "demo": ("--max-iter", "1"),
}
# In place of the line's own numbers.
FEW = {
    "experiment simulate": ("--seeds", "1", "--items", "6"),
    "experiment holdout": ("--splits", "2", "--trials", "1"),
}
PATIENCE = 600  # seconds; examples take a few
_FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page.

    Attributes:
        kind: what stands behind the fence.
        line: of its first line in the page, from 1.
    """

    kind: str
    text: str
    line: int

    @property
    def typed(self) -> list[tuple[str, str]]:
        """Return the commands of a console block, each with the output below it."""
        parts = re.split(r"^\$ (.+)\n", self.text, flags=re.MULTILINE)[1:]
        return list(zip(parts[::2], parts[1::2], strict=True))


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page in their order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(found[1], found[2], text.count("\n", 0, found.start(2)) + 1)
        for found in _FENCED.finditer(text)
    ]


def walk(command: click.Command = main, name: str = "sortnet") -> Iterator[tuple[str, Any]]:
    """Yield every command that is no group, with its name as typed."""
    if not isinstance(command, click.Group):
        yield name, command
        return
    for child, found in command.commands.items():
        yield from walk(found, f"{name} {child}")


def examples(command: click.Command) -> list[str]:
    """Return the lines below `Examples:` in a command's help, as they are typed."""
    text = (command.help or "").partition("Examples:")[2].replace("\b", "")
    return [line.strip() for line in text.strip().splitlines()]


def sortnet_of(typed: str) -> tuple[list[str], int | None]:
    """Return the arguments of `sortnet` in a shell line, and the number of lines of `| head`.

    >>> sortnet_of("sortnet pairs last | head -4")
    (['pairs', 'last'], 4)
    >>> sortnet_of('eval "$(sortnet completion bash)"')
    (['completion', 'bash'], None)
    """
    called = re.search(r"\bsortnet\b[^|>)]*", typed)
    assert called is not None, f"no sortnet in {typed!r}"
    head = re.search(r"\| head(?: -n? ?(\d+))?", typed)
    lines = None if head is None else int(head[1] or 10)
    return shlex.split(called[0].rstrip('"'))[1:], lines


def run(typed: str, *, short: bool = True, database: str | None = None) -> str:
    """Run a line as it stands in a page or in a help text, and return its stdout."""
    args, lines = sortnet_of(typed)
    args = [_known(arg, database) for arg in args]
    if short and not {"--resume", "--ranker"} & set(args):  # whose settings are their own
        args[1:1] = SHORTER.get(args[0], ()) if args else ()  # the line's own options win
        args += FEW.get(" ".join(args[:2]), ()) if args else ()
        args += ("--number", "12") if args[:1] == ["label"] and "--judge" in args else ()
    with _ending(typed):
        said = done(*args)
    return said if lines is None else "".join(said.splitlines(keepends=True)[:lines])


def run_python(block: Block, page: Path, names: dict[str, Any]) -> None:
    """Run a Python block of our own pages; a fault shows the page's line."""
    code = compile("\n" * (block.line - 1) + block.text, str(page), "exec")
    exec(code, names)


def shown(said: str, folder: Path) -> str:
    """Write output as a page shows it, with ~ for the home folder."""
    return said.replace(str(folder), "~")


def shape(text: str) -> list[str]:
    """Reduce output to what is the same on all machines: no numbers, ids or repeated lines."""
    text = re.sub(r"\b[0-9a-f]{12}\b", "ID", text)
    text = re.sub(r"-?\d[\d.:-]*(e-?\d+)?", "0", text)
    lines = [re.sub(r"\s+", " ", line).removesuffix("*").strip() for line in text.splitlines()]
    kept = [line for line in lines if line]
    return [line for k, line in enumerate(kept) if k == 0 or line != kept[k - 1]]


@contextmanager
def at_home(folder: Path) -> Iterator[None]:
    """Work in a folder that is the user's home, with nothing set that could lead elsewhere."""
    ours = ("SORTNET_STORE", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "COLUMNS")
    before, cwd = dict(os.environ), Path.cwd()
    for name in ours:
        os.environ.pop(name, None)
    os.environ |= {"HOME": str(folder), "SHELL": "/bin/bash"}
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def model_server() -> Iterator[str]:
    """Start the example `model_server.py` of the working directory, and yield its URL."""
    command = [sys.executable, "model_server.py", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[0]
        finally:
            process.terminate()


def prepare(folder: Path) -> None:
    """Lay out in `folder`, the home, what examples name: data, models, a run in the store."""
    fold = make_fold(folder / "MQ2008/Fold1")
    for path in fold.iterdir():
        shutil.copy(path, folder)
    for part, first in (("vali", "10"), ("test", "20")):  # an experiment refuses shared queries
        path = fold / f"{part}.txt"
        path.write_text(path.read_text().replace("qid:", f"qid:{first}"))
    named = letor(8, 2).replace("d0-0", DOCIDS[0]).replace("d0-1", DOCIDS[1])
    (folder / "test.txt").write_text(named)
    (folder / "new.txt").write_text(named)
    for name in ("test.csv", "new.csv"):
        (folder / name).write_text(_as_csv(letor(8, 2)))
    _make_shop(folder)
    _make_collections(folder)
    _make_old_store(folder)
    run_python(blocks(TUTORIAL)[0], TUTORIAL, {})
    done("train", "bikes", "--out", "bikes-model", *FAST)
    done("train", "MQ2008/Fold1", "--out", "model", *FAST)


def _make_old_store(folder: Path) -> None:
    """The store that version 0.4 wrote, to be converted."""
    with zipfile.ZipFile(ARCHIVE) as archive:
        (folder / "old.db").write_bytes(archive.read("0.4.0/store.sqlite"))


def _make_shop(folder: Path) -> None:
    """Tables with column names of their own: searches of a shop, and sweets without any query."""
    generator = np.random.default_rng(0)
    rows = []
    for k in range(200):
        price, age = generator.normal(size=2).round(3)
        stars = int(np.clip(round(price - age + 1), 0, 4))
        rows.append(f"search {k // 5},p{k},{price},{age},{'red' if k % 3 else 'blue'},{stars}")
    header = "search,product,price,age,colour,stars"
    (folder / "all.csv").write_text("\n".join([header, *rows]) + "\n")
    new = [row.rpartition(",")[0] for row in rows[:10]]
    (folder / "new-products.csv").write_text("\n".join([header[: -len(",stars")], *new]) + "\n")
    sweets = [f"sweet {k},{k % 7},{k * 17 % 100},{k % 7 * 3.1 + 40.5}" for k in range(80)]
    header = "name,chocolate,price,points"
    (folder / "sweets.csv").write_text("\n".join([header, *sweets]) + "\n")
    new = [row.rpartition(",")[0] for row in sweets[:5]]
    (folder / "new-sweets.csv").write_text("\n".join(["name,chocolate,price", *new]) + "\n")


def _make_collections(folder: Path) -> None:
    """Things to be sorted, as tables and as images; one collection that annotators have judged."""
    from PIL import Image

    names = [f"essay-{k}" for k in (1, 2, 3, 5, 8, 13, 21, 34, 61)]
    said = [f"{name},{'A word or two. ' * (k + 1)}" for k, name in enumerate(names)]
    (folder / "essays.csv").write_text("\n".join(["id,text", *said]) + "\n")
    shutil.copy(folder / "essays.csv", folder / "letters.csv")
    letters = (folder / "letters.csv").read_text().replace("essay-61", "plea")
    (folder / "letters.csv").write_text(letters)
    drafts = [f"draft-{k},{'A word or two. ' * k}" for k in (4, 1, 50, 10)]
    (folder / "drafts.csv").write_text("\n".join(["id,text", *drafts]) + "\n")
    rows = [f"{name}\tSome words\t{k}\t{9 - k}\t{k % 3}" for k, name in enumerate(names)]
    (folder / "items.tsv").write_text("\n".join(["id\ttext\tup\tdown\tlines", *rows]) + "\n")
    _write_answers(folder / "answers.csv", "a", prompts=12)
    _write_answers(folder / "tomorrow.csv", "new-", prompts=2)
    (folder / "pairs.csv").write_text("left,right\na1,a13\na25,a13\na2,a14\n")
    (folder / "holiday").mkdir()
    for k in range(3):
        Image.new("RGB", (20, 20), (80 * k, 40, 90)).save(folder / "holiday" / f"{k}.png")
    (folder / "votes.csv").write_text("winner,loser\nessay-2,essay-1\nessay-3,essay-61\n")
    (folder / "judge.py").write_text(
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    print(json.dumps({'answer': 'left'}), flush=True)\n"
    )
    done("items", "add", "essays", "essays.csv")
    (folder / "rules.md").write_text("# Rules\n\nRead *both* before you answer.\n")
    done("items", "add", "replies", "answers.csv", "--group", "prompt_id")
    done("items", "add", "poems", "answers.csv", "--group", "prompt_id", "--context", "prompt")
    done("judgements", "import", "essays", "votes.csv", "--as", "ana")
    done("judgements", "export", "essays", "--output", "judgements.jsonl")
    shutil.copy(folder / "votes.csv", folder / "gold.csv")
    (folder / "models.csv").write_text("id\nkoala\nvicuna\n")
    done("items", "add", "models", "models.csv")
    battle = {"model_a": "koala", "model_b": "vicuna", "winner": "model_b", "judge": "user_1"}
    (folder / "battles.json").write_text(json.dumps([battle]))
    result = {"type": "pairwise", "from_name": "pw", "value": {"selected": "left"}}
    task = {"data": {"first": "essay-2", "second": "essay-1"}}
    task |= {"annotations": [{"result": [result], "completed_by": 3}]}
    (folder / "tasks.json").write_text(json.dumps([task]))
    done("judgements", "import", "essays", "votes.csv", "--as", "eve")
    _make_paused()


def _write_answers(path: Path, prefix: str, *, prompts: int) -> None:
    """Four answers to each prompt, as a table; no two are equally long."""
    rows = [
        f"{prefix}{k},prompt-{k % prompts},Sort {k % prompts} things.,{'So. ' * k}"
        for k in range(1, 4 * prompts + 1)
    ]
    path.write_text("\n".join(["id,prompt_id,prompt,text", *rows]) + "\n")


def _make_paused() -> None:
    """A collection where a decision of each kind can be undone."""
    done("items", "add", "paused", "essays.csv")
    for name in ("ana", "dan"):
        done("judgements", "import", "paused", "votes.csv", "--as", name)
        done("annotators", "pause", "paused", name)
    done("annotators", "pause", "paused")
    done("annotators", "exclude", "paused", "dan")
    done("items", "retire", "paused", "essay-2")


@contextmanager
def _ending(typed: str) -> Iterator[None]:
    """Fail if an example does not end."""

    def fail(*_: Any) -> None:
        raise AssertionError(f"{typed!r} did not end in {PATIENCE} seconds")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _as_csv(text: str) -> str:
    """LETOR text of four features as a table without ids."""
    rows = [re.sub(r"\w+:", "", line.partition("#")[0]).split() for line in text.splitlines()]
    return "\n".join(["label,qid,a,b,c,d", *map(",".join, rows)]) + "\n"


def _known(arg: str, database: str | None) -> str:
    """Replace an argument that only a reader knows: the id of a run, the URL of a database."""
    from store import open_store

    if arg == DATABASE:
        assert database is not None
        return database
    if re.fullmatch(r"[0-9a-f]{4}", arg) and re.search("[a-f]", arg):
        with open_store() as store:
            return store.run("last").id[:4]
    return arg


def _renew() -> None:
    """Write the output of the tutorial's commands below them."""
    with tempfile.TemporaryDirectory() as made, at_home(Path(made).resolve()):
        text = TUTORIAL.read_text(encoding="utf-8")
        for block in blocks(TUTORIAL):
            if block.kind == "python":
                run_python(block, TUTORIAL, {})
            elif block.kind == "console":
                said = [
                    f"$ {typed}\n{shown(run(typed, short=False), Path.cwd())}"
                    for typed, _ in block.typed
                ]
                text = text.replace(block.text, "\n".join(said))
        TUTORIAL.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    _renew()
