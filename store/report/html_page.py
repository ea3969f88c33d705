"""A self-contained HTML page: rendered from a template, written in one step."""

from __future__ import annotations

import base64
import hashlib
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import IO, Any, TypeAlias

from jinja2 import Environment, PackageLoader, StrictUndefined

from sortnet.files import refuse_output, write_file

PageFile: TypeAlias = str | Path | IO[str]


def render_template(template: str, *, script: str | None = None, **values: Any) -> str:
    """A page of a template, with its style inside and the time it was written.

    Its Content-Security-Policy allows only that style, images inside, and the script of that file
    if one is named.
    """
    style = _part("report.css")
    code = None if script is None else _part(script)
    policy = f"default-src 'none'; img-src data:; style-src '{_hash(style)}'; "
    if code is not None:
        policy += f"script-src '{_hash(code)}'; "
    policy += "base-uri 'none'; form-action 'none'"
    page = Environment(
        loader=PackageLoader("store.report"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    ).get_template(template)  # fmt: skip
    written = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return page.render(style=style, script=code, policy=policy, written=written, **values)


def write_page(file: PageFile, page: str) -> None:
    """Write a page to a file, which appears whole or not at all, or to an open text file.

    Raises:
        SortNetError: if something would be lost, the disk is full, or the folder cannot be written.
    """
    if isinstance(file, str | Path):
        write_file(str(file), lambda path: path.write_text(page, encoding="utf-8", newline=""))
    else:
        file.write(page)


def refuse_page_file(file: PageFile, *inputs: str) -> None:
    """Refuse a file that could not be written, or would replace an input, before the page is made.

    Raises:
        SortNetError: as `write_page`.
    """
    if isinstance(file, str | Path):
        refuse_output(str(file), *inputs)


def _part(name: str) -> str:
    """The text of a file beside the templates."""
    return (files("store.report") / "templates" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Name of a style or a script inside the page, as a policy has it."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
