"""Draw the images of a query in the orders of several comparators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from sortnet.types import F32, I32, I64

COLUMNS = 18  # images per line
_INK, _FAINT, _WRONG = "#222222", "#767676", "#c44e00"  # distinguishable for colour-blind readers
_TINT = np.array([1.0, 0.91, 0.83])  # paper of an image in a wrong place
_LINE, _HEAD = 1.5, 0.95  # heights of a line of images and of a caption, in images
_INCHES = 0.56  # an image with its margin


@dataclass(frozen=True, eq=False)
class Panel:
    """An order of the images, (n,), best first, with its caption."""

    caption: str
    remark: str
    order: I64


def draw(path: Path, images: F32, numbers: I32, panels: Sequence[Panel], *, title: str) -> None:
    """Write a PNG with one panel per order of the images.

    Args:
        path: the file.
        images: (n, height, width), from 0 (paper) to 1 (ink).
        numbers: (n,) what is written on each.
        panels: the orders, from top to bottom.
        title: above all panels.

    An image in a wrong place, where another number belongs, has a tinted paper and its number
    coloured and underlined.
    """
    columns = min(COLUMNS, len(numbers))
    lines = -(-len(numbers) // columns)
    panel_height = _HEAD + lines * _LINE
    width, height = columns + 0.6, 1.0 + len(panels) * panel_height + 0.85
    figure = Figure(figsize=(width * _INCHES, height * _INCHES), dpi=150, facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(-0.3, columns + 0.3), ylim=(height, 0))
    axes.axis("off")
    axes.text(0.06, 0.62, title, fontsize=14, fontweight="bold", color=_INK, va="center")
    for k, panel in enumerate(panels):
        _draw_panel(axes, 1.0 + k * panel_height, images, numbers, panel, columns)
    _draw_key(axes, height - 0.45, columns)
    figure.savefig(path, format="png", metadata={"Software": None})


def _draw_panel(
    axes: Axes, top: float, images: F32, numbers: I32, panel: Panel, columns: int
) -> None:
    axes.text(0.06, top + 0.55, panel.caption, fontsize=11.5, color=_INK, va="center")
    axes.text(
        columns - 0.06, top + 0.55, panel.remark, fontsize=11.5, color=_INK, va="center", ha="right"
    )
    wrong = misplaced(numbers, panel.order)
    for place, image in enumerate(panel.order):
        x, y = place % columns, top + _HEAD + place // columns * _LINE
        _draw_image(axes, x, y, images[image], str(numbers[image]), bool(wrong[place]))


def _draw_image(axes: Axes, x: float, y: float, ink: F32, number: str, wrong: bool) -> None:
    paper = _TINT if wrong else np.ones(3)
    rgb = paper * (1 - ink[..., None])
    axes.imshow(
        rgb, extent=(x + 0.06, x + 0.94, y + 0.88, y), interpolation="bicubic", aspect="auto"
    )
    colour = _WRONG if wrong else _FAINT
    _frame(axes, x + 0.06, y, colour if wrong else "#d0d0d0")
    weight = "bold" if wrong else "normal"
    axes.text(
        x + 0.5, y + 1.1, number, fontsize=8.5, color=colour, weight=weight, ha="center",
        va="center",
    )  # fmt: skip
    if wrong:
        axes.plot([x + 0.38, x + 0.62], [y + 1.27, y + 1.27], color=_WRONG, linewidth=1)


def _frame(axes: Axes, x: float, y: float, colour: str, *, size: float = 0.88) -> None:
    axes.add_patch(Rectangle((x, y), size, size, fill=False, edgecolor=colour, linewidth=0.8))


def _draw_key(axes: Axes, y: float, columns: int) -> None:
    axes.imshow(_TINT[None, None], extent=(0.06, 0.46, y + 0.2, y - 0.2), aspect="auto")
    _frame(axes, 0.06, y - 0.2, _WRONG, size=0.4)
    style: dict[str, Any] = {"fontsize": 9.5, "color": _FAINT, "va": "center"}
    axes.text(0.62, y, "another number belongs in this place", **style)
    text = "highest number first; below each image, the number written"
    axes.text(columns - 0.06, y, text, ha="right", **style)


def misplaced(numbers: I32, order: I64) -> NDArray[np.bool_]:
    """(n,) whether another number belongs at each place of an order.

    >>> misplaced(np.array([1, 3, 3]), np.array([1, 0, 2])).tolist()
    [False, True, True]
    """
    wrong: Any = numbers[order] != np.sort(numbers)[::-1]
    return np.asarray(wrong, dtype=np.bool_)
