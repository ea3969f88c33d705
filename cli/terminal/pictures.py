"""Images on a terminal, by kitty's graphics protocol or as sixels."""

from __future__ import annotations

import base64
import io
import re
import struct
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from cli.terminal.keys import Keys
from cli.terminal.pair_view import Box
from sortnet.errors import DataError

if TYPE_CHECKING:
    from PIL.Image import Image

KITTY, SIXEL = "kitty", "sixel"
WAIT = 0.5  # seconds for a terminal's answer; most answer within a hundredth
_CELL = (10, 20)  # pixels, if the terminal does not say; those of the VT340, which had sixels
_CHUNK = 4096  # characters of base64
_COLOURS = 256
_KITTY_PROGRAMS = ("kitty", "ghostty", "wezterm")
_DEVICE = re.compile(r"\x1b\[\?([0-9;]*)c")  # the answer to "what are you?"
_REMOVE = "\x1b_Ga=d,d=A,q=2\x1b\\"


def protocol_of(keys: Keys, console: Console, environ: Mapping[str, str]) -> str:
    """How a terminal draws images: KITTY, SIXEL, or empty if it does not.

    kitty's protocol is known by the terminal's name; sixels are among the attributes that it
    answers to DA1, `ESC [ c`. Keys typed while it is asked are lost.
    """
    names = (environ.get("TERM", ""), environ.get("TERM_PROGRAM", "").lower())
    is_known = any(program in name for program in _KITTY_PROGRAMS for name in names)
    if not environ.get("TMUX") and (is_known or environ.get("KITTY_WINDOW_ID")):
        return KITTY
    console.file.write("\x1b[c")
    console.file.flush()
    until = time.monotonic() + WAIT
    while (part := keys.part(until - time.monotonic())) is not None:
        if found := _DEVICE.fullmatch(part):
            return SIXEL if "4" in found[1].split(";")[1:] else ""
    return ""


class Pictures:
    """The images on a terminal's screen.

    Args:
        protocol: KITTY, SIXEL, or empty: none are drawn.
        fd: of the terminal, which says how large a cell is.
    """

    def __init__(self, console: Console, protocol: str = "", fd: int = -1) -> None:
        self.protocol, self._console, self._fd = protocol, console, fd
        self._shown: list[tuple[Path, Box]] = []

    def show(self, placed: Sequence[tuple[Path, Box]]) -> None:
        """Draw these images and no others, over the text; one that is broken is a line."""
        placed, before = list(placed), self._shown
        if placed == before and (self.protocol == KITTY or not placed):
            return  # text does not erase kitty's images
        self._shown = placed
        write = self._console.file.write
        if self.protocol == KITTY and before:
            write(_REMOVE)
        wide, high = cell_size(self._fd)
        for path, box in placed:
            try:
                drawn = encoded(path, (box.columns * wide, box.rows * high), self.protocol)
            except DataError:
                drawn = "this image cannot be read"[: box.columns]
            write(f"\x1b[{box.y + 1};{box.x + 1}H{drawn}")
        self._console.file.flush()


def cell_size(fd: int) -> tuple[int, int]:
    """Width and height of a terminal's cell in pixels, if it says so."""
    import fcntl
    import termios

    try:
        size = fcntl.ioctl(fd, termios.TIOCGWINSZ, bytes(8))
    except (OSError, ValueError):
        return _CELL
    rows, columns, width, height = struct.unpack("HHHH", size)
    if min(rows, columns, width // max(columns, 1), height // max(rows, 1)) < 1:
        return _CELL
    return width // columns, height // rows


@lru_cache(maxsize=8)
def encoded(path: Path, most: tuple[int, int], protocol: str) -> str:
    """What draws an image at the cursor, at most that many pixels wide and high.

    Raises:
        DataError: if it is broken.

    Cost: for a photo of 12 million pixels in 600 x 500, 0.05 s for kitty and 0.5 s as sixels.
    """
    from sortnet.items.images import flat
    from sortnet.items.media import load_image

    image, (width, height) = load_image(path, path.name, side=max(most))
    scale = min(most[0] / width, most[1] / height, 1)
    small = flat(image, (max(int(width * scale), 1), max(int(height * scale), 1)))
    return as_kitty(small) if protocol == KITTY else as_sixels(small)


def as_kitty(image: Image) -> str:
    """PNG in chunks of base64; the terminal answers nothing, and its cursor stays."""
    file = io.BytesIO()
    image.save(file, "PNG", compress_level=1)
    data = base64.b64encode(file.getvalue()).decode()
    chunks = [data[at : at + _CHUNK] for at in range(0, len(data), _CHUNK)]
    keys = ["a=T,f=100,C=1,q=2,", *["q=2,"] * (len(chunks) - 1)]
    return "".join(
        f"\x1b_G{key}m={int(number < len(chunks))};{chunk}\x1b\\"
        for number, (key, chunk) in enumerate(zip(keys, chunks, strict=True), 1)
    )


def as_sixels(image: Image) -> str:
    """Bands of six rows of pixels, for each colour the columns that have it."""
    import numpy as np

    coded = image.quantize(_COLOURS)
    palette = np.array(coded.getpalette(), np.int64).reshape(-1, 3) * 100 // 255
    pixels = np.asarray(coded)
    head = f'\x1bPq"1;1;{image.width};{image.height}'
    parts = [f"#{k};2;{r};{g};{b}" for k, (r, g, b) in enumerate(palette.tolist())]
    for top in range(0, image.height, 6):
        codes = np.full((_COLOURS, image.width), 63, np.uint8)
        for bit, row in enumerate(pixels[top : top + 6]):
            codes[row, np.arange(image.width)] += 1 << bit
        used = np.flatnonzero((codes > 63).any(axis=1)).tolist()
        rows = (f"#{colour}{_shortened(codes[colour].tobytes().decode())}" for colour in used)
        parts.append("$".join(rows) + "-")
    return "".join((head, *parts, "\x1b\\"))


def _shortened(row: str) -> str:
    """Repeated characters as a count, without the empty columns at the end."""
    return re.sub(r"(.)\1{3,}", lambda run: f"!{len(run[0])}{run[1]}", row.rstrip("?"))
