"""Images of a pair on a terminal: by kitty's protocol, as sixels, or a neutral line."""

from __future__ import annotations

import base64
import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from collections_made import made_items, question
from PIL import Image
from rich.console import Console
from terminal_made import Terminal

from cli.terminal import pictures
from cli.terminal.keys import Keys
from cli.terminal.pair_view import Box, draw_pair, pair_of
from cli.terminal.pictures import KITTY, SIXEL, Pictures, as_sixels, encoded, protocol_of
from store import open_store

COLOURS = {"best.png": (250, 10, 10), "worst.png": (10, 10, 250)}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    """A collection of two images, whose names give the answer away."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SORTNET_STORE", "s.db")
    for name, colour in COLOURS.items():
        Image.new("RGB", (60, 40), colour).save(name)
    items = made_items(2, d=0, texts=(None, None), images=tuple(COLOURS), root=tmp_path)
    with open_store("s.db") as store:
        store.add_items("pictures", items)
    return tmp_path


def label(**env: str) -> Terminal:
    return Terminal("label", "pictures", "--as", "ana", rows=30, **env)


def colours_of(raw: bytes) -> list[tuple[int, ...]]:
    """The colours of the images that kitty is sent, each of one colour."""
    found = []
    for chunks in re.findall(rb"\x1b_Ga=T,f=100,C=1,q=2,(.*?m=0;.*?)\x1b\\", raw, re.DOTALL):
        data = b"".join(re.findall(rb"m=[01];([A-Za-z0-9+/=]*)", chunks))
        image = Image.open(io.BytesIO(base64.b64decode(data)))
        assert image.size == (60, 40)
        found.append(image.getpixel((30, 20)))
    return found


def test_kitty_draws_both_images_and_no_file_name_is_shown():
    with label(TERM_PROGRAM="ghostty") as terminal:
        terminal.until("0 answered", "q quit")
        terminal.until_so(lambda: len(colours_of(terminal.raw)) == 2, "both images")
        assert sorted(colours_of(terminal.raw)) == sorted(COLOURS.values())
        terminal.press("f")
        terminal.until("flagged")
        terminal.press("h")
        terminal.until("any key: back")
        terminal.until_so(lambda: b"\x1b_Ga=d,d=A,q=2\x1b\\" in terminal.raw, "their removal")
        assert len(colours_of(terminal.raw)) == 2, "a flag alone sends nothing again"
        terminal.press("x")
        terminal.until_so(lambda: len(colours_of(terminal.raw)) == 4, "both images again")
        terminal.press("q")
        assert terminal.ended() == 0
    assert b"best" not in terminal.raw and b"worst" not in terminal.raw


def test_elsewhere_a_neutral_line_stands_for_an_image():
    with label(TERM_PROGRAM="", KITTY_WINDOW_ID="", TMUX="1") as terminal:
        terminal.until("image 1 of the pair", "image 2 of the pair")
        assert b"\x1b[c" in terminal.raw
        terminal.press("q")
        assert terminal.ended() == 0
    assert b"best" not in terminal.raw and b"\x1b_G" not in terminal.raw


@contextmanager
def keys_with(typed: bytes) -> Iterator[Keys]:
    theirs, ours = os.pipe()
    os.write(ours, typed)
    try:
        yield Keys(theirs)
    finally:
        os.close(theirs)
        os.close(ours)


@pytest.mark.parametrize(
    ("answer", "environ", "protocol"),
    [
        (b"x\x1b[?62;1;4;22c", {"TERM": "xterm"}, SIXEL),
        (b"\x1b[?4;1c", {"TERM": "xterm"}, ""),
        (b"\x1b[?64;44c", {}, ""),
        (b"", {"TERM": "xterm-kitty"}, KITTY),
        (b"", {"TERM_PROGRAM": "WezTerm"}, KITTY),
        (b"\x1b[?62;4c", {"KITTY_WINDOW_ID": "1", "TMUX": "/tmp/tmux"}, SIXEL),
    ],
)
def test_a_terminal_is_known_by_its_name_or_its_answer(answer, environ, protocol):
    console = Console(file=io.StringIO())
    with keys_with(answer) as keys:
        assert protocol_of(keys, console, environ) == protocol
    assert console.file.getvalue() == ("" if protocol == KITTY else "\x1b[c")


def test_a_terminal_that_answers_nothing_draws_nothing(monkeypatch):
    monkeypatch.setattr(pictures, "WAIT", 0.0)
    with keys_with(b"") as keys:
        assert protocol_of(keys, Console(file=io.StringIO()), {}) == ""


def drawn(sixels: str) -> np.ndarray:
    """The pixels (rows, columns, 3) of an image in sixels, in percent."""
    head = re.match(r'\x1bPq"1;1;(\d+);(\d+)', sixels)
    width, height = int(head[1]), int(head[2])
    pixels = np.full((height + 6, width, 3), -1)
    palette, x, top, colour = {}, 0, 0, 0
    body = sixels[head.end() : -2]
    for part in re.finditer(r"#(\d+);2;(\d+);(\d+);(\d+)|#(\d+)|!(\d+)(.)|(.)", body):
        if part[1]:
            palette[int(part[1])] = [int(value) for value in part.group(2, 3, 4)]
        elif part[5]:
            colour = int(part[5])
        elif part[0] in "$-":
            x, top = 0, top + 6 * (part[0] == "-")
        else:
            n, bits = int(part[6] or 1), ord(part[7] or part[8]) - 63
            for row in range(6):
                if bits >> row & 1:
                    pixels[top + row, x : x + n] = palette[colour]
            x += n
    assert sixels.endswith("\x1b\\") and (pixels[height:] == -1).all()
    return pixels[:height]


def test_sixels_are_the_pixels_of_the_image():
    rng = np.random.default_rng(0)
    pixels = rng.choice(np.array([0, 51, 255], np.uint8), (17, 23, 3))
    pixels[:, 5:15] = 51  # a run
    np.testing.assert_array_equal(drawn(as_sixels(Image.fromarray(pixels))), pixels * 100.0 // 255)


def test_an_image_is_shrunk_into_its_box_and_transparency_is_white(folder):
    Image.new("RGBA", (400, 100), (0, 0, 0, 0)).save("clear.png")
    pixels = drawn(encoded(folder / "clear.png", (80, 60), SIXEL))
    assert pixels.shape == (20, 80, 3) and (pixels == 100).all()


def test_a_broken_image_is_one_line_and_the_other_one_is_drawn(folder):
    console = Console(file=io.StringIO(), width=80, height=24)
    shown = Pictures(console, SIXEL)
    broken = folder / "secret.png"
    broken.write_bytes(b"GIF89a")
    shown.show([(broken, Box(2, 3, 30, 9)), (folder / "best.png", Box(42, 3, 30, 9))])
    text = console.file.getvalue()
    assert text.startswith("\x1b[4;3Hthis image cannot be read\x1b[4;43H\x1bPq")
    assert "secret" not in text


@pytest.mark.parametrize("width", [80, 60])
def test_the_text_is_below_the_image(folder, width):
    items = made_items(2, texts=("hello", None), images=tuple(COLOURS), root=folder)
    pair = pair_of(items, question(0, 1), "Which?", drawn=True)
    assert pair.images == (folder / "best.png", folder / "worst.png") and pair.right == []
    console = Console(file=io.StringIO(), width=width, height=40)
    what, cut, boxes = draw_pair(console, pair, 20)
    console.print(what)
    lines = console.file.getvalue().splitlines()
    assert not cut and len(lines) == 20
    (at,) = (y for y, line in enumerate(lines) if "hello" in line)
    assert at == boxes[0].y + boxes[0].rows
    for box in boxes:
        for line in lines[box.y : box.y + box.rows]:
            assert line[box.x : box.x + box.columns].strip() == ""
    assert boxes[1].rows > boxes[0].rows
