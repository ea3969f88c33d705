"""Draw the images of a query in the orders of several comparators."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from sortnet.types import F32, I32, I64

COLUMNS = 18  # images per line
_FAINT, _WRONG = "#767676", "#c44e00"  # distinguishable for colour-blind readers
_TINT = np.array([1.0, 0.91, 0.83])  # paper of an image in a wrong place
_LINE = 1.5  # height of a line of images with their numbers, in images
_INCHES = 0.56  # an image with its margin


class Panel(NamedTuple):
    """An order of the images, (n,), best first, with its caption."""

    caption: str
    remark: str
    order: I64


def draw(path: Path, images: F32, numbers: I32, panels: Sequence[Panel], *, title: str) -> None:
    """Write a PNG with one panel per order of the images.

    `images` are (n, height, width), from 0 (paper) to 1 (ink), `numbers` (n,) what is written on
    each. An image in a wrong place, where another number belongs, has a tinted paper and its
    number coloured and bold.
    """
    columns = min(COLUMNS, len(numbers))
    lines = -(-len(numbers) // columns)
    width, height = columns + 0.4, 2 + len(panels) * (0.9 + lines * _LINE)
    figure = Figure(figsize=(_INCHES * width, _INCHES * height), dpi=150, facecolor="white")
    figure.set_layout_engine("constrained", w_pad=0.1, h_pad=0.1)
    FigureCanvasAgg(figure)
    figure.suptitle(title, fontsize=14, fontweight="bold")
    for axes, panel in zip(figure.subplots(len(panels), squeeze=False)[:, 0], panels, strict=True):
        axes.set(xlim=(0, columns), ylim=(lines * _LINE, 0))
        axes.axis("off")
        axes.set_title(panel.caption, loc="left")
        axes.set_title(panel.remark, loc="right")
        _draw_panel(axes, images, numbers, panel.order, columns)
    key = "highest number first; tinted, the number below in bold: another belongs in this place"
    figure.supxlabel(key, fontsize=9.5, color=_FAINT)
    figure.savefig(path, format="png", metadata={"Software": None})


def _draw_panel(axes: Axes, images: F32, numbers: I32, order: I64, columns: int) -> None:
    for place, (image, wrong) in enumerate(zip(order, misplaced(numbers, order), strict=True)):
        x, y = place % columns, place // columns * _LINE
        paper = _TINT if wrong else np.ones(3)
        axes.imshow(
            paper * (1 - images[image][..., None]), extent=(x + 0.06, x + 0.94, y + 0.88, y),
            interpolation="bicubic", aspect="equal",
        )  # fmt: skip
        number = axes.text(x + 0.5, y + 1.1, str(numbers[image]), ha="center", va="center")
        number.set(color=_WRONG if wrong else _FAINT, weight="bold" if wrong else "normal")


def misplaced(numbers: I32, order: I64) -> NDArray[np.bool_]:
    """(n,) whether another number belongs at each place of an order.

    >>> misplaced(np.array([1, 3, 3]), np.array([1, 0, 2])).tolist()
    [False, True, True]
    """
    wrong: Any = numbers[order] != np.sort(numbers)[::-1]
    return np.asarray(wrong, dtype=np.bool_)
