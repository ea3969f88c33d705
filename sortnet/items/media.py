"""Image and sound files of items: check that they are in their folder, and open images safely."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from sortnet.errors import DataError
from sortnet.files import one_line

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_PIXELS = 100_000_000  # of an image: 400 MB in memory

_ORIENTATION = 0x0112  # the EXIF tag that tells how the camera was held
_SIDEWAYS = (5, 6, 7, 8)  # values of the tag for a camera that was held on its side


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
        if not path.is_relative_to(root):
            raise DataError(f"{place}: {name!r} lies outside the folder {root}")
        if not path.is_file():
            raise DataError(f"{place}: there is no file {name!r} in the folder {root}")
    except DataError:  # a kind of ValueError
        raise
    except (OSError, ValueError, RuntimeError) as error:
        raise DataError(f"{place}: {name[:60]!r} is no file name: {one_line(error)}") from None
    if path.suffix.lower() not in suffixes:
        raise DataError(f"{place}: {name!r} is none of {' '.join(suffixes)}")
    return path.relative_to(root).as_posix()


def load_image(path: Path, place: str, *, side: int) -> tuple[Image, tuple[int, int]]:
    """Decode an image and turn it upright; also return the original width and height.

    Args:
        path: file of the image.
        place: file and line that name the image, with which messages begin.
        side: smallest width and height that the caller needs, in pixels; some formats are decoded
            much faster at a reduced size.

    Raises:
        DataError: if the file is no image, or the image is broken or too large.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the warning about too many pixels is an error below
        try:
            with Image.open(path) as image:
                width, height = image.size
                if width * height > MAX_PIXELS:
                    size = f"{width} x {height} pixels"
                    raise DataError(f"{place}: has {size}; the limit is {MAX_PIXELS:,} pixels")
                image.draft("RGB", (side, side))
                image.load()
                upright = ImageOps.exif_transpose(image)
                is_sideways = image.getexif().get(_ORIENTATION, 1) in _SIDEWAYS
                size_of_upright = (height, width) if is_sideways else (width, height)
                return upright, size_of_upright
        except DataError:  # a kind of ValueError
            raise
        except UnidentifiedImageError:
            raise DataError(f"{place}: is no image, or of a kind that is not known") from None
        except Image.DecompressionBombError:
            raise DataError(f"{place}: has more than {MAX_PIXELS:,} pixels") from None
        # Pillow's decoders raise errors of all these types on damaged files.
        except (OSError, ValueError, SyntaxError, EOFError, IndexError, TypeError) as error:
            raise DataError(f"{place}: the image is broken: {one_line(error)}") from None
