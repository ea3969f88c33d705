"""Images that judges get: upright, not too large, without metadata, in the type that is said."""

from __future__ import annotations

import base64
import io
import os

import numpy as np
import pytest
from PIL import Image, ImageCms, PngImagePlugin

from sortnet.errors import DataError
from sortnet.items.images import clean_image
from sortnet.judges.prompts import Prompt

SECRET = "taken at home"
UPRIGHT = 6  # EXIF: to be turned by 90 degrees clockwise


def halves(width: int = 64, height: int = 32) -> Image.Image:
    """A picture whose left half is red and whose right half is blue."""
    picture = Image.new("RGB", (width, height), "red")
    picture.paste("blue", (width // 2, 0, width, height))
    return picture


def exif_of(orientation: int = 1) -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = orientation
    exif[0x010E] = SECRET
    exif.get_ifd(0x8825).update({1: "N", 2: (48.0, 8.0, 0.0), 29: SECRET})  # GPS
    return exif


def png_texts() -> PngImagePlugin.PngInfo:
    texts = PngImagePlugin.PngInfo()
    texts.add_text("Comment", SECRET)
    texts.add_itxt("XML:com.adobe.xmp", f"<x>{SECRET}</x>")
    return texts


def profile() -> bytes:
    return ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


def transparent(mode: str) -> Image.Image:
    picture = halves().convert("RGBA")
    picture.putpixel((0, 31), (0, 0, 0, 0))
    return picture.quantize(16) if mode == "P" else picture.convert(mode)


XMP = f"<x>{SECRET}</x>".encode()
GREY = Image.fromarray(np.tile(np.array([60000, 300], np.uint16).repeat(32), (32, 1)))
FILES = {
    "photo.jpg": (halves(), {"exif": exif_of(), "comment": SECRET, "xmp": XMP, "quality": 95}),
    "cmyk.jpg": (halves().convert("CMYK"), {"exif": exif_of(), "quality": 95}),
    "texts.png": (halves(), {"pnginfo": png_texts(), "exif": exif_of(), "icc_profile": profile()}),
    "clear.png": (transparent("RGBA"), {"pnginfo": png_texts()}),
    "palette.png": (transparent("P"), {"pnginfo": png_texts()}),
    "photo.webp": (halves(), {"exif": exif_of(), "xmp": XMP, "quality": 95}),
    "moves.webp": (halves(), {"save_all": True, "append_images": [Image.new("RGB", (64, 32))]}),
    "moves.gif": (halves(), {"save_all": True, "append_images": [Image.new("RGB", (64, 32))],
                             "comment": SECRET.encode()}),
    "scan.tiff": (halves(), {"exif": exif_of(), "description": SECRET}),
    "sixteen.png": (GREY, {"pnginfo": png_texts()}),
}  # fmt: skip


def cleaned(path, side: int = 1024) -> tuple[Image.Image, bytes]:
    """Clean an image; return the decoded result, which must be what its media type says."""
    data, media_type = clean_image(path, "item 'a'", side=side)
    picture = Image.open(io.BytesIO(data))
    assert Image.MIME[picture.format] == media_type
    return picture, data


@pytest.mark.parametrize("name", FILES)
def test_an_image_is_clean_and_in_the_type_that_is_said_whatever_its_format(tmp_path, name):
    picture, options = FILES[name]
    picture.save(tmp_path / name, **options)
    clean, data = cleaned(tmp_path / name)
    assert (clean.mode, clean.size, getattr(clean, "n_frames", 1)) == ("RGB", (64, 32), 1)
    assert not clean.getexif() and SECRET.encode() not in data
    assert {*clean.info} <= {"jfif", "jfif_version", "jfif_unit", "jfif_density"}
    left, right = (np.array(clean.getpixel((x, 16)), int) for x in (16, 48))
    if name == "sixteen.png":
        assert left.min() > 225 and right.max() < 10
    else:
        assert left[0] > 190 > 120 > left[2] and right[2] > 190 > 120 > right[0]
    if name in ("clear.png", "palette.png"):
        assert clean.getpixel((0, 31)) == (255, 255, 255)


@pytest.mark.parametrize("name", ["a.jpg", "a.png", "a.webp", "a.tif"])
def test_an_image_is_turned_upright_and_made_smaller(tmp_path, name):
    sideways = halves(3000, 1500).transpose(Image.Transpose.ROTATE_90)
    sideways.save(tmp_path / name, exif=exif_of(UPRIGHT))
    clean, _ = cleaned(tmp_path / name)
    assert clean.size == (1024, 512)
    assert clean.getpixel((100, 250))[0] > 200 and clean.getpixel((900, 250))[2] > 200


def test_the_colours_of_another_profile_are_converted_before_it_is_left_out(tmp_path):
    lab = ImageCms.ImageCmsProfile(ImageCms.createProfile("LAB")).tobytes()
    halves().save(tmp_path / "odd.png", icc_profile=lab)  # no profile of an RGB image
    halves().save(tmp_path / "broken.png", icc_profile=b"no profile")
    for name in ("odd.png", "broken.png"):
        np.testing.assert_array_equal(np.asarray(cleaned(tmp_path / name)[0]), halves())


def broken_files(folder) -> dict[str, str]:
    """Write files that cannot be shown; return {name: a part of the message}."""
    halves().save(folder / "cut.jpg")
    (folder / "cut.jpg").write_bytes((folder / "cut.jpg").read_bytes()[:300])
    (folder / "text.png").write_text("no image")
    (folder / "empty.png").write_bytes(b"")
    os.mkfifo(folder / "pipe.png")
    (folder / "folder.png").mkdir()
    Image.new("1", (20_000, 20_000)).save(folder / "bomb.png")
    return {
        "cut.jpg": "broken", "text.png": "no image", "empty.png": "no image",
        "pipe.png": "no such file", "folder.png": "no such file", "gone.png": "no such file",
        "bomb.png": "100,000,000 pixels",
    }  # fmt: skip


def question_about(path) -> dict:
    side = {"id": "a\nb", "text": None, "image": str(path), "shown": {}}
    return {
        "id": "q", "question": "Which?", "instructions": "",
        "left": side, "right": {**side, "image": None},
    }  # fmt: skip


def test_an_image_that_cannot_be_opened_is_one_line_with_its_item(tmp_path):
    for name, fault in broken_files(tmp_path).items():
        with pytest.raises(DataError) as raised:
            Prompt().messages(question_about(tmp_path / name))
        message = str(raised.value)
        assert message.startswith(r"item 'a\nb': ") and fault in message and "\n" not in message


def test_a_model_gets_clean_images_only(tmp_path):
    sideways = halves(3000, 1500).transpose(Image.Transpose.ROTATE_90)
    sideways.save(tmp_path / "a.png", format="JPEG", exif=exif_of(UPRIGHT))
    [message] = Prompt().messages(question_about(tmp_path / "a.png"))
    [address] = [p["image_url"]["url"] for p in message["content"] if p["type"] == "image_url"]
    head, _, data = address.partition(",")
    picture = Image.open(io.BytesIO(base64.b64decode(data)))
    assert head == "data:image/jpeg;base64"
    assert (picture.format, picture.size) == ("JPEG", (1024, 512)) and not picture.getexif()
