"""Draw the images of a query, sorted by each of several comparators."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from sortnet.core import F32, I32, I64

COLUMNS = 18  # images per line
_FAINT, _WRONG = "#767676", "#c44e00"  # colours that colour-blind readers can tell apart
_TINT = np.array([1.0, 0.91, 0.83])  # colour of the paper of an image in a wrong place
# The unit of the next three sizes is the width of an image.
_LINE = 1.5  # height of a line of images with the numbers below
_STRIP = 0.6  # height of a line of small images
_MARGINS = 3.5, 2.4  # widths to the left and right of small images, for their caption and remark
_INCHES = 0.56  # width of an image with its margin, in inches


class Panel(NamedTuple):
    """An order of images, with the two texts that are drawn beside it.

    Attributes:
        caption: the text on the left.
        remark: the text on the right.
        order: (n,) numbers of the images, best first.
    """

    caption: str
    remark: str
    order: I64


def draw(
    path: Path,
    images: F32,
    numbers: I32,
    panels: Sequence[Panel],
    *,
    title: str,
    strips: Sequence[Panel] = (),
) -> None:
    """Write a PNG file with one panel for each order of the images.

    An image whose place belongs to another number is drawn on tinted paper, and the number below
    the image is coloured and bold.

    Args:
        path: the file to write.
        images: (n, height, width), from 0 (paper) to 1 (ink).
        numbers: (n,) the number written on each image.
        panels: orders of the images, drawn below each other.
        title: the text above all panels.
        strips: more orders, each a line of small images above the last panel.
    """
    columns = min(COLUMNS, len(numbers))
    n_lines = -(-len(numbers) // columns)  # rounded up
    # The subplots from top to bottom: all panels but one, the strips together, the last panel.
    n_panels_above = len(panels) - 1
    height_of_panel = n_lines * _LINE
    height_of_strips = [len(strips) * _STRIP] if strips else []
    heights = [*[height_of_panel] * n_panels_above, *height_of_strips, height_of_panel]
    figure, subplots = _figure_of_subplots(columns, heights, len(panels), title)
    if strips:
        _draw_strips(subplots[n_panels_above], images, numbers, strips, columns)
    subplots_of_panels = [*subplots[:n_panels_above], subplots[-1]]
    for axes, panel in zip(subplots_of_panels, panels, strict=True):
        axes.set_title(panel.caption, loc="left")
        axes.set_title(panel.remark, loc="right")
        _draw_panel(axes, images, numbers, panel.order, columns)
    key = "highest number first; tinted, the number below in bold: another belongs in this place"
    figure.supxlabel(key, fontsize=9.5, color=_FAINT)
    figure.savefig(path, format="png", metadata={"Software": None})


def _figure_of_subplots(
    columns: int, heights: Sequence[float], n_panels: int, title: str
) -> tuple[Figure, list[Axes]]:
    """Make a figure with a title and one subplot below the other, without lines of axes.

    Widths and heights are measured in widths of an image.

    Args:
        columns: the number of images beside each other, which is the width of a subplot.
        heights: the height of each subplot, from top to bottom.
        n_panels: the number of subplots that will have a caption above them.
        title: the text above all subplots.
    """
    width = columns + 0.4
    height = 2 + sum(heights) + 0.9 * n_panels  # with the title, the key and the captions
    figure = Figure(figsize=(_INCHES * width, _INCHES * height), dpi=150, facecolor="white")
    figure.set_layout_engine("constrained", w_pad=0.1, h_pad=0.1, hspace=0)
    FigureCanvasAgg(figure)  # attaches itself to the figure
    figure.suptitle(title, fontsize=14, fontweight="bold")
    subplots = list(figure.subplots(len(heights), squeeze=False, height_ratios=heights)[:, 0])
    for axes, height_of_subplot in zip(subplots, heights, strict=True):
        axes.set(xlim=(0, columns), ylim=(height_of_subplot, 0))  # y counts downwards
        axes.axis("off")
    return figure, subplots


def _draw_panel(axes: Axes, images: F32, numbers: I32, order: I64, columns: int) -> None:
    """Draw the images in an order, line by line, each with its number below."""
    is_misplaced = misplaced(numbers, order)
    for position, (image, is_wrong) in enumerate(zip(order, is_misplaced, strict=True)):
        # The upper left corner of a cell for the image and its number; each cell is 1 wide.
        x = position % columns
        y = position // columns * _LINE
        extent = (x + 0.06, x + 0.94, y + 0.88, y)  # left, right, bottom, top
        axes.imshow(
            _on_paper(images[image], is_wrong), extent=extent, interpolation="bicubic",
            aspect="equal",
        )  # fmt: skip
        text = axes.text(x + 0.5, y + 1.1, str(numbers[image]), ha="center", va="center")
        if is_wrong:
            text.set(color=_WRONG, weight="bold")
        else:
            text.set(color=_FAINT, weight="normal")


def _on_paper(image: F32, is_wrong: bool) -> NDArray[np.float64]:
    """Convert an image to colours (height, width, 3), on tinted paper if its place is wrong.

    The values of the image are from 0 (paper) to 1 (ink).
    """
    paper = _TINT if is_wrong else np.ones(3)
    colours: NDArray[np.float64] = paper * (1 - image[..., None])
    return colours


def _draw_strips(
    axes: Axes, images: F32, numbers: I32, strips: Sequence[Panel], columns: int
) -> None:
    """Draw each order as a line of small images between its caption and its remark.

    Args:
        axes: the subplot of all strips; x and y are in widths of a large image.
        images: (n, height, width), from 0 (paper) to 1 (ink).
        numbers: (n,) the number written on each image.
        strips: the orders with their captions and remarks.
        columns: the width of the subplot.
    """
    left_margin, right_margin = _MARGINS
    widest = (columns - left_margin - right_margin) / len(numbers)
    side = min(widest, 0.9 * _STRIP)  # length of the sides of a small image
    right = left_margin + side * len(numbers)
    for row, strip in enumerate(strips):
        top = row * _STRIP
        middle = top + side / 2
        axes.text(0, middle, strip.caption, va="center", fontsize=9.5)
        axes.text(columns, middle, strip.remark, va="center", ha="right", fontsize=9.5)
        axes.imshow(
            _joined_images(images, numbers, strip.order),
            extent=(left_margin, right, top + side, top),
            interpolation="bicubic",
            aspect="auto",
        )


def _joined_images(images: F32, numbers: I32, order: I64) -> NDArray[np.float64]:
    """Join the images in an order to one picture of colours, (height, total width, 3).

    Drawing one picture is much faster: drawing each image would take longer than the training.
    """
    blocks = []
    for image, is_wrong in zip(order, misplaced(numbers, order), strict=True):
        block = _on_paper(images[image], bool(is_wrong))
        # A white column at the right of each image divides it from the next image.
        blocks.append(np.pad(block, ((0, 0), (0, 1), (0, 0)), constant_values=1))
    return np.concatenate(blocks, axis=1)


def misplaced(numbers: I32, order: I64) -> NDArray[np.bool_]:
    """Find the positions at which an order of images has a wrong number.

    In the right order, the numbers written on the images descend. Images with equal numbers may be
    exchanged.

    Args:
        numbers: (n,) the number written on each image.
        order: (n,) indices of the images, best first.

    Returns an array (n,), which is true at the wrong positions.

    >>> misplaced(np.array([1, 3, 3]), np.array([1, 0, 2])).tolist()
    [False, True, True]
    """
    descending = np.sort(numbers)[::-1]
    return np.not_equal(numbers[order], descending)
