"""Helpers of fuzz tests: seeds, and damage to bytes and files."""

from __future__ import annotations

import copy
import os
import random
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

_EDGES = (0, 1, 0x0A, 0x22, 0x2C, 0x30, 0x39, 0x7F, 0x80, 0xFF)


def rounds(default: int) -> Iterator[int]:
    """Yield the seeds 0 .. default - 1, or new seeds for SORTNET_FUZZ_MINUTES.

    A seed makes the same input each time. SORTNET_FUZZ_SEED yields that seed alone,
    SORTNET_FUZZ_ROUNDS changes the number of seeds.
    """
    if seed := os.environ.get("SORTNET_FUZZ_SEED"):
        yield int(seed)
        return
    minutes = float(os.environ.get("SORTNET_FUZZ_MINUTES") or 0)
    if not minutes:
        yield from range(int(os.environ.get("SORTNET_FUZZ_ROUNDS") or default))
        return
    until, first = time.monotonic() + 60 * minutes, time.time_ns()
    while time.monotonic() < until:
        yield first
        first += 1


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Change, add, double or drop a few bytes, and sometimes cut the end."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        at = rng.randrange(len(out) + 1)
        end = min(len(out), at + rng.choice((1, 1, 2, 8, 64)))
        what = rng.randrange(6)
        if what == 0:
            out[at:end] = rng.randbytes(end - at)
        elif what == 1:
            out[at:end] = b""
        elif what == 2:
            out[at:at] = out[at:end] * rng.choice((1, 2, 50))
        elif what == 3:
            out[at:end] = bytes([rng.choice(_EDGES)]) * (end - at)
        elif what == 4 and at < len(out):
            out[at] ^= 1 << rng.randrange(8)
        else:
            out[at:at] = bytes([rng.choice(_EDGES)])
    return bytes(out[: rng.randrange(len(out) + 1)] if rng.random() < 0.1 else out)


def changed_json(value: Any, rng: random.Random, strange: Sequence[object]) -> Any:
    """Change some values of a JSON document: another one, none, one under another name."""
    value = copy.deepcopy(value)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        if not value:
            break
        *path, key = rng.choice(list(_places(value)))
        owner = value
        for step in path:
            owner = owner[step]
        kind = rng.randrange(6)
        if kind == 0:
            del owner[key]
        elif kind == 1 and isinstance(owner, dict):
            owner[rng.choice(("", "x", "n_features", "hidden", "lr"))] = owner.pop(key)
        elif kind == 2 and isinstance(owner[key], int | float):
            with suppress(OverflowError):  # half of a number beyond all floats
                owner[key] = owner[key] * rng.choice((-1, 0, 0.5, 2, 10**6, 10**12))
        else:
            owner[key] = copy.deepcopy(rng.choice(strange))
    return value


def _places(value: Any, path: tuple[object, ...] = ()) -> Iterator[tuple[object, ...]]:
    """Yield the path of every value in a JSON document but the document itself."""
    for key, below in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*path, key)
        if isinstance(below, dict | list):
            yield from _places(below, (*path, key))


def with_ends(data: bytes, end: bytes) -> bytes:
    """Replace the ends of lines that end in LF or CRLF."""
    return data.replace(b"\r\n", b"\n").replace(b"\n", end)


def foreign(data: bytes, rng: random.Random) -> bytes:
    """Write a text as another system would, or cut it within its last number or id."""
    kind = rng.randrange(4)
    if kind == 0:
        return with_ends(data, rng.choice((b"\r", b"\r\n")))
    if kind == 1:
        return re.sub(rb"(?<=\d)\.(?=\d)", b",", data)
    if kind == 2:
        data = re.sub(rb"(?<=\d)\.(?=\d)", b",", data.replace(b",", b";"))
    return data.rstrip(b"\r\n")[: -rng.randrange(1, 12)]


def replace_by_other_kind(path: Path, rng: random.Random) -> None:
    """Put a pipe, a device, a folder or a file without end in the place of a file."""
    kind = rng.randrange(5)
    if kind == 0:
        os.truncate(path, 1 << rng.randrange(30, 43))  # without blocks, so it takes no disk
        return
    path.unlink()
    if kind == 1:
        os.mkfifo(path)
    elif kind == 2:
        path.mkdir()
    else:
        path.symlink_to(rng.choice(("/dev/zero", "/dev/null", "/dev/random", "/dev/tty")))
