"""Render self-contained HTML pages from templates, and write them in one step."""

from __future__ import annotations

import base64
import hashlib
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import IO, Any, TypeAlias

from jinja2 import Environment, PackageLoader, StrictUndefined

from sortnet.files import refuse_output, write_file

PageFile: TypeAlias = str | Path | IO[str]


def render_template(template: str, *, script: str | None = None, **values: Any) -> str:
    """Render a template as a page that contains its style, its script and the present time.

    The page's Content-Security-Policy allows this style, this script, and images inside the page,
    and nothing else.

    Args:
        template: the file name of the template.
        script: the file name of the script. If None, the page has no script.
        values: the values that the template shows.
    """
    style = _read_asset("report.css")
    code = None if script is None else _read_asset(script)
    policy = f"default-src 'none'; img-src data:; style-src '{_policy_hash(style)}'; "
    if code is not None:
        policy += f"script-src '{_policy_hash(code)}'; "
    policy += "base-uri 'none'; form-action 'none'"
    written = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    page = _templates().get_template(template)
    return page.render(style=style, script=code, policy=policy, written=written, **values)


@cache
def _templates() -> Environment:
    """Return the templates of the pages, which escape HTML and refuse undefined variables."""
    return Environment(
        loader=PackageLoader("store.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def write_page(file: PageFile, page: str) -> None:
    """Write a page to an open text file, or to a path, completely or not at all.

    Raises:
        SortNetError: if something would be lost, the disk is full, or the folder cannot be written.
    """
    if isinstance(file, str | Path):
        write_file(str(file), lambda path: path.write_text(page, encoding="utf-8", newline=""))
    else:
        file.write(page)


def refuse_page_file(file: PageFile, *inputs: str) -> None:
    """Check before a page is made whether it may be written to a file.

    Args:
        file: the file of the page.
        inputs: files from which the page is made.

    Raises:
        SortNetError: if `write_page` would refuse the file, or the file is one of the inputs.
    """
    if isinstance(file, str | Path):
        refuse_output(str(file), *inputs)


def _read_asset(name: str) -> str:
    """Read a file in the folder of templates."""
    return (files("store.report") / "templates" / name).read_text(encoding="utf-8")


def _policy_hash(text: str) -> str:
    """Compute the hash that allows a style or a script in a Content-Security-Policy."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
