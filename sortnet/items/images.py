"""Open images safely and clean them; compute features from pixels: colours, lightness, edges."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sortnet.core import F32, Progress
from sortnet.errors import DataError
from sortnet.files import one_line

if TYPE_CHECKING:
    from PIL.Image import Image

_SIDE = 96  # pixels: images are resized to squares with sides of this length
_GRID = 3  # cells in a row and in a column of the grid
_HUES = 6  # bins of the histogram of hues
_DIRECTIONS = 8  # bins of the histogram of the directions of edges
_DARK = 0.25  # lightness below which a pixel is dark
_LIGHT = 0.9  # lightness above which a pixel is light
_LEAST_SHARPNESS = 1e-4  # added to the sharpness, which is 0 for an even image, before its log
_LIGHTNESSES = 32  # bins of the histogram of lightness
_PLACES = tuple(
    f"{row} {column}"
    for row in ("top", "middle", "bottom")
    for column in ("left", "centre", "right")
)
IMAGE_FEATURES = (
    *("log pixels", "log width by height", "lightness", "contrast", "colourfulness"),
    *("spread of colours", "sharpness", "entropy of lightness", "dark share", "light share"),
    *(f"lightness {place}" for place in _PLACES),
    *(f"green-red {place}" for place in _PLACES),
    *(f"blue-yellow {place}" for place in _PLACES),
    *(f"hue {360 * k // _HUES}°" for k in range(_HUES)),
    *(f"edges at {180 * k // _DIRECTIONS}°" for k in range(_DIRECTIONS)),
    *(f"edges {place}" for place in _PLACES),
)

# `_CONES` converts linear sRGB to the responses of the eye's cones, and `_LAB` converts their cube
# roots to OKLab (B. Ottosson 2020, A perceptual color space for image processing).
_CONES = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
_LAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)
MAX_PIXELS = 100_000_000  # most pixels of an image, which take 400 MB of memory

_LOSSY_FORMATS = ("JPEG", "MPO", "WEBP")  # formats of photos, which are written as JPEG
_QUALITY = 95  # quality of JPEG, at which no difference is visible


def image_features(
    images: Sequence[str | None],
    root: Path,
    *,
    source: str = "images",
    progress: Progress = lambda text: None,
) -> F32:
    """Compute features of image files in OKLab, a perceptually uniform colour space.

    The features are the size and shape; mean, spread and extremes of lightness and colour; means on
    a grid of 3 x 3; a histogram of hues by chroma; a histogram of the directions of edges by their
    strength; and the strength of edges on the grid.

    Args:
        images: (n,) image files relative to `root`; None for an image that is missing.
        root: folder of the images.
        source: file that the images came from, for messages.
        progress: called with a text about each image.

    Returns:
        (n, 60) features in the order of `IMAGE_FEATURES`; NaN for an image that is missing.

    Raises:
        DataError: on an image that is broken, cut or larger than 100 million pixels.

    Cost: 5 ms per image, and its decoding, about 10 ms per megapixel.
    """
    features = np.full((len(images), len(IMAGE_FEATURES)), np.nan, np.float32)
    for k, name in enumerate(images):
        if name is not None:
            progress(f"image {k + 1} of {len(images)}")
            # Some formats are decoded at a reduced size, which is much faster. Twice the size that
            # is needed keeps the sharpness of the resized image.
            image, (width, height) = load_image(root / name, f"{source}: {name}", side=2 * _SIDE)
            features[k] = _features_of_image(image, width, height)
    return features


def oklab(rgb: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Convert sRGB bytes (..., 3) to OKLab (..., 3): lightness, green-red and blue-yellow.

    Lightness is in [0, 1]. Green-red and blue-yellow are 0 for grey, and below or above 0 for
    colours.

    >>> white = np.full(3, 255, np.uint8)
    >>> oklab(white).round(3).tolist()
    [1.0, 0.0, 0.0]
    """
    srgb = rgb / 255.0
    # The inverse of the transfer function of sRGB (IEC 61966-2-1) gives linear light.
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    lab: NDArray[np.float64] = np.cbrt(linear @ _CONES.T) @ _LAB.T
    return lab + 0.0  # -0.0 becomes 0.0


def _features_of_image(image: Image, width: int, height: int) -> NDArray[np.float64]:
    """Compute the features of an image, (60,) in the order of `IMAGE_FEATURES`.

    Args:
        image: the image, which may have been reduced when it was decoded.
        width, height: size of the original image in pixels.
    """
    lab = oklab(np.asarray(flat(image, (_SIDE, _SIDE))))  # (_SIDE, _SIDE, 3)
    light = lab[..., 0]
    green_red = lab[..., 1]
    blue_yellow = lab[..., 2]
    chroma = np.hypot(green_red, blue_yellow)
    hue = np.arctan2(blue_yellow, green_red)
    slope_down, slope_right = np.gradient(light)
    strength_of_edges = np.hypot(slope_down, slope_right)
    direction_of_edges = np.arctan2(slope_down, slope_right)
    spread_of_colours = np.sqrt(green_red.var() + blue_yellow.var())
    laplacian = np.diff(light, 2, axis=0)[:, 1:-1] + np.diff(light, 2, axis=1)[1:-1]
    log_sharpness = np.log(np.abs(laplacian).mean() + _LEAST_SHARPNESS)
    dark_share = (light < _DARK).mean()
    light_share = (light > _LIGHT).mean()
    return np.concatenate(
        [
            [np.log(width * height), np.log(width / height)],
            [light.mean(), light.std(), chroma.mean()],
            [spread_of_colours, log_sharpness, _entropy(light), dark_share, light_share],
            _means_on_grid(light),
            _means_on_grid(green_red),
            _means_on_grid(blue_yellow),
            _histogram(hue, chroma, 2 * np.pi, _HUES),
            # Opposite directions belong to the same edge, so the period is half a turn.
            _histogram(direction_of_edges, strength_of_edges, np.pi, _DIRECTIONS),
            _means_on_grid(strength_of_edges),
        ]
    )


def _means_on_grid(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute (9,) mean values in the cells of a grid of 3 x 3 cells, row by row."""
    cell = _SIDE // _GRID  # pixels
    means: NDArray[np.float64] = values.reshape(_GRID, cell, _GRID, cell).mean(axis=(1, 3))
    return means.ravel()


def _histogram(
    angles: NDArray[np.float64], weights: NDArray[np.float64], period: float, bins: int
) -> NDArray[np.float64]:
    """Compute the sums of weights (bins,) in bins of angles, divided by the number of pixels.

    The centre of the first bin is at angle 0. Angles that differ by `period` are the same.

    Args:
        angles: angle of each pixel in radians.
        weights: weight of each pixel.
        period: period of the angles in radians.
        bins: number of bins.
    """
    bin_of_pixel = np.floor(angles / period * bins + 0.5).astype(np.int64) % bins
    return np.bincount(bin_of_pixel.ravel(), weights.ravel(), bins) / angles.size


def _entropy(light: NDArray[np.float64]) -> float:
    """Compute the entropy, in bits, of a histogram of the lightness."""
    counts, _ = np.histogram(light, _LIGHTNESSES, (0, 1.001))  # rounding may exceed 1
    shares = counts[counts > 0] / light.size
    return float(-(shares * np.log2(shares)).sum())


def load_image(path: Path, place: str, *, side: int) -> tuple[Image, tuple[int, int]]:
    """Decode an image and turn it upright; also return the original width and height.

    Of an animation or of several pages, the first is decoded.

    Args:
        path: file of the image.
        place: file and line that name the image, with which messages begin.
        side: smallest width and height that the caller needs, in pixels; some formats are decoded
            much faster at a reduced size.

    Raises:
        DataError: if the file is no image, or the image is broken or too large.
    """
    from PIL import Image, ImageOps

    if not path.is_file():  # opening a pipe would wait forever
        raise DataError(f"{place}: there is no such file")
    with _image_faults(place), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the warning about too many pixels is an error below
        with Image.open(path) as image:
            width, height = image.size
            if width * height > MAX_PIXELS:
                size = f"{width} x {height} pixels"
                raise DataError(f"{place}: has {size}; the limit is {MAX_PIXELS:,} pixels")
            image.draft("RGB", (side, side))
            image.load()
            upright = ImageOps.exif_transpose(image)
            upright.format = image.format
            is_sideways = (upright.width < upright.height) != (width < height)
            return upright, (height, width) if is_sideways else (width, height)


def clean_image(path: Path, place: str, *, side: int) -> tuple[bytes, str]:
    """Encode an image for a judge: upright, in sRGB, not too large, and without any metadata.

    Places, names of cameras and comments are no part of the result.

    Args:
        path: file of the image.
        place: file and line that name the image, with which messages begin.
        side: largest width and height in pixels; a larger image is made smaller.

    Returns:
        The encoded image, and its media type: `image/jpeg` if the file is in a format that loses
        details, too, otherwise `image/png`.

    Raises:
        DataError: if the file is no image, or the image is broken or too large.
    """
    image, _ = load_image(path, place, side=side)
    form = "JPEG" if image.format in _LOSSY_FORMATS else "PNG"
    with _image_faults(place):
        scale = min(1.0, side / max(image.size))
        width, height = (max(1, round(scale * length)) for length in image.size)
        picture = flat(_in_srgb(image), (width, height))
        picture.info.clear()  # Pillow would write comments and profiles that it finds there
        file = io.BytesIO()
        picture.save(file, form, quality=_QUALITY, subsampling=0)
    return file.getvalue(), f"image/{form.lower()}"


@contextmanager
def _image_faults(place: str) -> Iterator[None]:
    """Turn every error about an image into a DataError of one line that begins with `place`."""
    from PIL import Image, UnidentifiedImageError

    try:
        yield
    except DataError:
        raise
    except UnidentifiedImageError:
        raise DataError(f"{place}: is no image, or of a kind that is not known") from None
    except Image.DecompressionBombError:
        raise DataError(f"{place}: has more than {MAX_PIXELS:,} pixels") from None
    except Exception as error:  # Pillow's decoders raise a dozen exceptions on damaged files
        raise DataError(f"{place}: the image is broken: {one_line(error)}") from None


def _in_srgb(image: Image) -> Image:
    """Convert an image to sRGB by its colour profile, if it has one that can be used."""
    from PIL import ImageCms

    profile = image.info.get("icc_profile")
    if not profile or image.mode not in ("RGB", "RGBA", "CMYK", "L"):
        return image
    try:
        source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        srgb = ImageCms.createProfile("sRGB")
        mode = "RGBA" if image.mode == "RGBA" else "RGB"
        converted = ImageCms.profileToProfile(image, source, srgb, outputMode=mode)
    except (ImageCms.PyCMSError, OSError):  # the profile is damaged, or of another kind of image
        return image
    return image if converted is None else converted


def flat(image: Image, size: tuple[int, int]) -> Image:
    """Convert an image to 8-bit RGB of the given size; transparent pixels become white."""
    from PIL import Image as images

    if image.mode.startswith(("I", "F")):  # grey images of 16 or 32 bits a pixel
        # White is the largest value of 8 or of 16 bits, whichever all pixels fit in; if they fit in
        # neither, the largest pixel.
        pixels = np.nan_to_num(np.asarray(image, np.float64))
        largest = pixels.max()
        white = next((white for white in (255.0, 65535.0) if largest <= white), largest)
        image = images.fromarray((pixels.clip(0, white) * (255 / white)).astype(np.uint8))
    # These images have a palette or transparency.
    if image.mode in ("P", "PA", "LA", "La", "RGBa") or "transparency" in image.info:
        image = image.convert("RGBA")
    if image.mode == "RGBA":
        image = image.resize(size, images.Resampling.BOX)  # first, so that less is composed
        background = images.new("RGBA", image.size, "white")
        image = images.alpha_composite(background, image)
    return image.convert("RGB").resize(size, images.Resampling.BOX)
