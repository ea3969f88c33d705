"""Draw the images of a query, sorted by each of several comparators."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from sortnet.core import F32, I32, I64

_TINT = np.array([1.0, 0.85, 0.72])  # colour of the paper of an image in a wrong place
_FAINT = "#767676"
_WIDTH = 11.0  # width of the figure in inches
_IMAGES_WIDTH = 7.2  # width of the images without the texts beside them, in inches
_GAP = 3  # pixels between two orders


def draw(path: Path, images: F32, numbers: I32, orders: Mapping[str, I64], *, title: str) -> None:
    """Write a PNG file with one line of images for each order.

    An image whose place belongs to another number is drawn on tinted paper.

    Args:
        path: the file to write.
        images: (n, height, width), from 0 (paper) to 1 (ink).
        numbers: (n,) the number written on each image.
        orders: {text: order}, drawn below each other. The text beside an order tells what sorted
            the images, and how well; an order has the (n,) numbers of the images, best first.
        title: the text above all orders.
    """
    lines = [_joined_images(images, numbers, order) for order in orders.values()]
    picture = np.concatenate(lines)
    line_height, width = lines[0].shape[:2]
    height = 1.2 + _IMAGES_WIDTH * len(picture) / width
    figure = Figure(figsize=(_WIDTH, height), dpi=140, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)  # attaches itself to the figure
    figure.suptitle(title, fontsize=13, fontweight="bold")
    figure.supxlabel(
        "highest number first; tinted: another number belongs in this place",
        fontsize=9.5,
        color=_FAINT,
    )
    axes = figure.subplots()
    axes.imshow(picture, interpolation="bicubic")
    middles = line_height * np.arange(len(orders)) + (images.shape[1] - 1) / 2
    axes.set_yticks(middles, list(orders))
    axes.set_xticks([])
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    figure.savefig(path, format="png", metadata={"Software": None})


def _joined_images(images: F32, numbers: I32, order: I64) -> NDArray[np.float64]:
    """Join the images in an order to one picture of colours, (height, total width, 3).

    In the right order, the numbers written on the images descend. Images with equal numbers may be
    exchanged. A white margin divides an image from the next image, and from the line below.
    """
    right_numbers = np.sort(numbers)[::-1]
    is_misplaced = numbers[order] != right_numbers
    paper = np.where(is_misplaced[:, None], _TINT, 1.0)
    colours = paper[:, None, None, :] * (1 - images[order][..., None])
    with_margins = np.pad(colours, ((0, 0), (0, _GAP), (0, 1), (0, 0)), constant_values=1)
    joined: NDArray[np.float64] = np.concatenate(with_margins, axis=1)
    return joined
