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
    """Render the page of a template, with its style inside and the time it was written.

    The page's Content-Security-Policy allows only this style, images inside the page, and the
    script in the file `script`, if there is one.
    """
    style = _read_asset("report.css")
    code = None if script is None else _read_asset(script)
    policy = f"default-src 'none'; img-src data:; style-src '{_policy_hash(style)}'; "
    if code is not None:
        policy += f"script-src '{_policy_hash(code)}'; "
    policy += "base-uri 'none'; form-action 'none'"
    environment = Environment(
        loader=PackageLoader("store.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    written = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    page = environment.get_template(template)
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
        SortNetError: under the conditions of `write_page`.
    """
    if isinstance(file, str | Path):
        refuse_output(str(file), *inputs)


def _read_asset(name: str) -> str:
    """The text of a file beside the templates."""
    return (files("store.report") / "templates" / name).read_text(encoding="utf-8")


def _policy_hash(text: str) -> str:
    """The hash by which a policy names a style or a script inside the page."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
