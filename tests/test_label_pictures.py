"""A pair of images on a terminal: a neutral line stands for each."""

from __future__ import annotations

from pathlib import Path

from collection_helpers import made_items
from PIL import Image
from terminal_helpers import Terminal

from store import open_store

COLOURS = {"best.png": (250, 10, 10), "worst.png": (10, 10, 250)}


def test_a_neutral_line_stands_for_an_image(tmp_path: Path, monkeypatch):
    """The names of these two give the answer away."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SORTNET_STORE", "s.db")
    for name, colour in COLOURS.items():
        Image.new("RGB", (60, 40), colour).save(name)
    items = made_items(
        2, d=0, texts=(None, None), ids=("one", "two"), images=tuple(COLOURS), root=tmp_path
    )
    with open_store("s.db") as store:
        store.add_items("pictures", items)
    with Terminal("label", "pictures", "--as", "ana", rows=30) as terminal:
        terminal.until("image 1 (sortnet", "image 2 (sortnet")
        terminal.press("r")
        terminal.until("any key: continue")
        terminal.press("x")
        terminal.press("q")
        assert terminal.ended() == 0
    assert b"best" not in terminal.raw and b"worst" not in terminal.raw
