"""Progress of sortnet.sort: a terminal's line, a notebook's output, a function, nothing."""

from __future__ import annotations

import os
import pty
import sys
from contextlib import suppress
from types import SimpleNamespace

import pytest
from forked_processes import Forked

import sortnet


def sort(**named):
    return sortnet.sort(["a", "bb", "ccc"], judge=lambda a, b: "left", **named)


def test_a_function_gets_the_texts_and_false_shows_nothing(capsys):
    texts: list[str] = []
    sort(progress=texts.append, name="with a function")
    assert any("answered" in text for text in texts)
    sort(progress=False, name="silent")
    sort(name="no terminal")
    assert capsys.readouterr() == ("", "")


class Display:
    """A notebook's display of one output, which can be replaced."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def __call__(self, data, *, raw, display_id):
        assert raw and display_id
        self.shown.append(data["text/plain"])
        return SimpleNamespace(update=lambda data, raw: self.shown.append(data["text/plain"]))


@pytest.fixture
def display(monkeypatch) -> Display:
    """A shell with a kernel, as in a notebook."""
    display = Display()
    shell = SimpleNamespace(kernel=object())
    ipython = SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    return display


def test_a_notebook_shows_the_last_text_and_none_at_the_end(display, capsys):
    sort(name="in a notebook")
    assert any("answered" in text for text in display.shown)
    assert display.shown[0] == display.shown[-1] == ""
    assert capsys.readouterr() == ("", "")


CODE = """
import os, signal, sortnet
n = 0
def judge(left, right):
    global n
    n += 1
    if n == 4:
        os.kill(os.getpid(), signal.SIGINT)  # as Ctrl-C does
    return "left"
try:
    sortnet.sort(["a", "bb", "ccc", "dddd"], judge=judge)
except KeyboardInterrupt:
    print("interrupted after", n)
"""


def test_ctrl_c_in_a_terminal_leaves_a_clean_line():
    ours, theirs = pty.openpty()
    raw = b""
    with Forked(["-c", CODE], [theirs] * 3, {**os.environ, "TERM": "xterm"}) as process:
        os.close(theirs)
        with suppress(OSError):  # the end of the other side
            while part := os.read(ours, 4096):
                raw += part
        assert process.wait() == 0
    os.close(ours)
    assert b"3 answered" in raw
    assert raw.rpartition(b"\r\x1b[K")[2] == b"interrupted after 4\r\n"
    assert all(len(part) < 80 for part in raw.split(b"\r\x1b[K"))
