"""How long the fuzz targets run: quick in the tests, as long as one likes by `make fuzz`."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator


def rounds(default: int) -> Iterator[int]:
    """Seeds from 0: `default` of them, or for as long as SORTNET_FUZZ_MINUTES says."""
    minutes = float(os.environ.get("SORTNET_FUZZ_MINUTES") or 0)
    if not minutes:
        yield from range(default)
        return
    end = time.monotonic() + 60 * minutes
    yield from itertools.takewhile(lambda seed: time.monotonic() < end, itertools.count())
