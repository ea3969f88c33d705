"""What the first worker of a pool gets that is to die, with little to load before it does."""

from __future__ import annotations

import os
import signal
from pathlib import Path


class Dies:
    """Works a cell out, but the first process that is asked to is killed."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __call__(self, cell: str, cache: str | None) -> tuple[bytes | None, str]:
        from sortnet.experiments.executor import _remote

        if not self.marker.exists():
            self.marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return _remote(cell, cache)
