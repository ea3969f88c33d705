"""Convert figures to SVG for HTML pages."""

from __future__ import annotations

import base64
import io
import warnings
from typing import TypeAlias

from matplotlib.figure import Figure

# A picture for the template of a page: its title, alternative text, caption and source.
Picture: TypeAlias = dict[str, str]


def picture(title: str, about: str, alt: str, figure: Figure) -> Picture:
    """Draw a figure as SVG; return the values with which the template of a page shows it.

    Args:
        title: the title of the figure.
        about: the caption.
        alt: the alternative text.
        figure: the figure.
    """
    file = io.BytesIO()
    with warnings.catch_warnings():
        # The warning repeats the character, which a terminal must not get if it is a control.
        warnings.filterwarnings("ignore", "(?s)Glyph .* missing from font", UserWarning)
        figure.savefig(file, format="svg", metadata={"Date": None})
    source = "data:image/svg+xml;base64," + base64.b64encode(file.getvalue()).decode()
    return {"title": title, "alt": alt, "about": about, "source": source}
