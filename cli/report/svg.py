"""Figures as SVG inside a page."""

from __future__ import annotations

import base64
import io
import threading
from collections.abc import Callable

from matplotlib.figure import Figure

_DRAWING = threading.Lock()  # matplotlib draws one figure at a time


def picture(title: str, about: str, alt: str, draw: Callable[[], Figure]) -> dict[str, str]:
    """A figure for the page's template; its source is a data URL of SVG.

    Raises:
        DataError: if there is nothing to draw.
    """
    with _DRAWING:
        file = io.BytesIO()
        draw().savefig(file, format="svg", metadata={"Date": None})
    source = "data:image/svg+xml;base64," + base64.b64encode(file.getvalue()).decode()
    return {"title": title, "alt": alt, "about": about, "source": source}
