"""Image and sound files of items: check their folder; open images safely, and clean them."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sortnet.errors import DataError
from sortnet.files import one_line

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_PIXELS = 100_000_000  # of an image: 400 MB in memory

_LOSSY_FORMATS = ("JPEG", "MPO", "WEBP")  # formats of photos, which are written as JPEG
_QUALITY = 95  # of JPEG: no difference is visible


def inside(root: Path, name: str, place: str, suffixes: tuple[str, ...]) -> str:
    """Check that a file exists in a folder; return its path relative to the folder, with `/`.

    Links are resolved first, so that no link leads out of the folder.

    Args:
        root: the folder, with links resolved.
        name: path of the file, relative to `root` or absolute.
        place: file and line that name the file, with which messages begin.
        suffixes: allowed endings of the name, in lower case.

    Raises:
        DataError: if there is no such file, or the file is outside of `root`.
    """
    try:
        path = (root / name).resolve()
        is_file = path.is_file()
    except (OSError, ValueError, RuntimeError) as error:
        raise DataError(f"{place}: {name[:60]!r} is no file name: {one_line(error)}") from None
    if not path.is_relative_to(root):
        raise DataError(f"{place}: {name!r} lies outside the folder {root}")
    if not is_file:
        raise DataError(f"{place}: there is no file {name!r} in the folder {root}")
    if path.suffix.lower() not in suffixes:
        raise DataError(f"{place}: {name!r} is none of {' '.join(suffixes)}")
    return path.relative_to(root).as_posix()


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
        image = _eight_bits(image)
    # These images have a palette or transparency.
    if image.mode in ("P", "PA", "LA", "La", "RGBa") or "transparency" in image.info:
        image = image.convert("RGBA")
    if image.mode == "RGBA":
        image = image.resize(size, images.Resampling.BOX)  # first, so that less is composed
        white = images.new("RGBA", image.size, "white")
        image = images.alpha_composite(white, image)
    return image.convert("RGB").resize(size, images.Resampling.BOX)


def _eight_bits(image: Image) -> Image:
    """Scale a grey image to 8 bits a pixel.

    White is the largest value of 8 bits or of 16 bits, whichever all pixels fit in. If they fit in
    neither, white is the largest value in the image.
    """
    from PIL import Image as images

    pixels = np.nan_to_num(np.asarray(image, np.float64))
    largest = pixels.max()
    white = next((white for white in (255.0, 65535.0) if largest <= white), largest)
    return images.fromarray((pixels.clip(0, white) * (255 / white)).astype(np.uint8))
