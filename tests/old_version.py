"""The files that version 0.4.0 wrote, in `data/0.4.0.zip`, and what it said of them.

The script that made them ran in a checkout of 0.4.0. `git log -- tests/data/make_0_4.py` finds it.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

ARCHIVE = Path(__file__).parent / "data" / "0.4.0.zip"
with zipfile.ZipFile(ARCHIVE) as _archive:
    EXPECTED: dict[str, Any] = json.loads(_archive.read("0.4.0/expected.json"))


def unpacked(folder: Path) -> Path:
    """Unpack the files into a folder, and return the folder `0.4.0` in it."""
    with zipfile.ZipFile(ARCHIVE) as archive:
        archive.extractall(folder)
    return folder / "0.4.0"
