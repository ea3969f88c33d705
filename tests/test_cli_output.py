"""What commands say, in a terminal and where there is none."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import suppress

import pytest

from cli.console import write_output
from sortnet.errors import SortNetError

TALK = """
import time
from cli.console import progress, put, say
put("before")
with progress() as tell:
    tell("working")
    time.sleep(0.3)
    put("first result", bold=True)
    time.sleep(0.3)
    say("a message")
    put("x" * 79)
    time.sleep(0.3)
put("after")
"""
in_terminal = pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a terminal")
RESULTS = ["before", "first result", "x" * 79, "after"]


def talk(*, stdout=None, **env: str) -> str:
    """What a terminal of 80 columns gets; stdout may go elsewhere."""
    ours, theirs = os.openpty()
    environment = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")}
    environment |= {"TERM": "xterm-256color", "COLUMNS": "80"} | env
    out = theirs if stdout is None else stdout
    command, none = [sys.executable, "-c", TALK], subprocess.DEVNULL
    with subprocess.Popen(command, stdin=none, stdout=out, stderr=theirs, env=environment):
        os.close(theirs)
        got = b""
        with suppress(OSError):  # how Linux says that the other end is closed
            while piece := os.read(ours, 4096):
                got += piece
    os.close(ours)
    return got.decode()


def seen(raw: str) -> list[str]:
    """The lines that stay on the screen of a terminal that can go up and clear a line."""
    screen, row, column = [""], 0, 0
    for text, control in re.findall(r"([^\x1b\r\n]+)|(\r|\n|\x1b\[[0-9;?]*[A-Za-z])", raw):
        if text:
            screen[row] = (
                screen[row][:column].ljust(column) + text + screen[row][column + len(text) :]
            )
            column += len(text)
        elif control == "\r":
            column = 0
        elif control == "\n":
            row += 1
            screen += [""] * (row + 1 - len(screen))
        elif control.endswith("A"):
            row -= int(control[2:-1] or 1)
        elif control == "\x1b[2K":
            screen[row] = ""
    return [line.rstrip() for line in screen if line.strip()]


@in_terminal
def test_in_a_terminal_results_stand_on_lines_of_their_own_above_the_moving_one():
    raw = talk()
    assert "working" in raw
    assert seen(raw) == ["before", "first result", "a message", "x" * 79, "after"]
    assert raw.rindex("\x1b[?25h") > raw.rindex("\x1b[?25l"), "the cursor is shown again"
    colour = re.compile(r"\x1b\[(?:3[0-7]|9[0-7]|38;[0-9;]*)m")
    assert colour.search(raw) and not colour.search(talk(NO_COLOR="1"))


def test_without_a_terminal_everything_is_plain_lines():
    ran = subprocess.run([sys.executable, "-c", TALK], capture_output=True, text=True)
    assert ran.stdout.splitlines() == RESULTS
    assert ran.stderr == "a message\n"


@in_terminal
@pytest.mark.parametrize("kind", ["file", "pipe"])
def test_results_that_go_elsewhere_are_bare_and_only_a_pipe_ends_the_progress(tmp_path, kind):
    path = tmp_path / "out"
    ours, theirs = os.pipe()
    with os.fdopen(theirs, "w") as pipe, path.open("w") as file:
        raw = talk(stdout=pipe if kind == "pipe" else file)
    with os.fdopen(ours) as piped:
        text = piped.read() if kind == "pipe" else path.read_text()
    assert text.splitlines() == RESULTS
    assert "a message" in raw and "first result" not in raw
    assert ("working" in raw) == (kind == "file")


def test_a_file_appears_whole_or_not_at_all_in_utf_8_and_through_a_link(tmp_path):
    def broken(file):
        file.write("half")
        raise SortNetError("no more")

    with pytest.raises(SortNetError, match="no more"):
        write_output(str(tmp_path / "new"), broken)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "link").symlink_to("real")
    write_output(str(tmp_path / "link"), lambda file: file.write("größer ≻\n"))
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == "größer ≻\n".encode()
