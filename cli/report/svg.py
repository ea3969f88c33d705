"""Figures as SVG inside a page."""

from __future__ import annotations

import base64
import io
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DRAWING = threading.Lock()  # matplotlib draws one figure at a time


@dataclass(frozen=True)
class Picture:
    """A figure of the page; `source` is a data URL."""

    title: str
    alt: str
    about: str
    source: str


def picture(title: str, about: str, alt: str, draw: Callable[[], Figure]) -> Picture:
    """A figure as SVG inside the page.

    Raises:
        DataError: if there is nothing to draw.
    """
    with _DRAWING:
        file = io.BytesIO()
        draw().savefig(file, format="svg", metadata={"Date": None})
    source = "data:image/svg+xml;base64," + base64.b64encode(file.getvalue()).decode()
    return Picture(title, alt, about, source)
