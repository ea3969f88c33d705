"""Helpers for tests of the documentation: find the commands of pages, and type them.

`python tests/docs_helpers.py` writes the output of the tutorial's commands into the tutorial.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from cli_helpers import done

from cli.main import main

ROOT = Path(__file__).resolve().parent.parent
TUTORIAL = ROOT / "docs/tutorial.md"
SERVER = "http://localhost:8000"  # of the examples' model; tests serve it at a free port
_FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page.

    Attributes:
        kind: what stands behind the fence. The commands of `console` and `python` are run, those of
            `sh` are not.
        line: number of its first line in the page, from 1.
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


def typed_on(page: Path) -> list[str]:
    """Return the commands of the console blocks of a page."""
    return [typed for block in blocks(page) if block.kind == "console" for typed, _ in block.typed]


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


def words_of(typed: str) -> list[str]:
    """Return the words of a shell line before a pipe.

    >>> words_of("sortnet show 'my run' | head -4")
    ['sortnet', 'show', 'my run']
    """
    words = shlex.split(typed)
    return words[: words.index("|")] if "|" in words else words


def type_line(typed: str) -> str:
    """Do what a shell does with a line of a page, and return its stdout.

    A page types `cd`, `python` and `sortnet`, which runs in this process.
    """
    program, *args = words_of(typed)
    if program == "cd":
        os.chdir(args[0])
        return ""
    if program == "python":
        command = [sys.executable, *args]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert program == "sortnet", f"a page types {program}"
    said = done(*args)
    head = re.search(r"\| head -(\d+)$", typed)
    return said if head is None else "".join(said.splitlines(keepends=True)[: int(head[1])])


def run_python(block: Block, page: Path, names: dict[str, Any]) -> None:
    """Run a Python block of our own pages; a fault shows the page's line."""
    code = compile("\n" * (block.line - 1) + block.text, str(page), "exec")
    exec(code, names)


def type_page(page: Path) -> Iterator[tuple[str, str, str]]:
    """Type the commands of a page, and run its Python, in the working directory.

    Yields each command with its stdout and with the output that the page shows. Where the page asks
    the examples' model, its server is started, at a free port in place of 8000.
    """
    names: dict[str, Any] = {}
    with ExitStack() as servers:
        url = None
        for block in blocks(page):
            if block.kind == "python":
                text = block.text if url is None else block.text.replace(SERVER, url)
                run_python(Block(block.kind, text, block.line), page, names)
            for typed, recorded in block.typed if block.kind == "console" else ():
                yield typed, type_line(typed), recorded
                if typed == "cd examples" and "python model_server.py" in page.read_text():
                    url = servers.enter_context(model_server())
                    description = Path("judge.toml")
                    description.write_text(description.read_text().replace(SERVER, url))


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


def _renew() -> None:
    """Write the output of the tutorial's commands below them."""
    text = TUTORIAL.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as made, at_home(Path(made).resolve()):
        home = Path.cwd()
        for typed, said, recorded in type_page(TUTORIAL):
            if recorded.strip():
                gap = "\n" if recorded.endswith("\n\n") else ""
                before, after = f"$ {typed}\n{recorded}", f"$ {typed}\n{shown(said, home)}{gap}"
                text = text.replace(before, after)
    TUTORIAL.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    _renew()
