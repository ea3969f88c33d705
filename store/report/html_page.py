"""Make self-contained HTML pages of sections, and write them in one step.

All pages are rendered by one template and one style sheet: the reports of runs and collections, and
comparisons of rankers. A section is a list of blocks, see `Section`.
"""

from __future__ import annotations

import base64
import hashlib
import io
import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token
    from matplotlib.figure import Figure

_AS_TEXT = Markup('<p class="given">{}</p>')
_AS_HTML = Markup('<div class="formatted">{}</div>')
# Headings of a text become lower headings, below the headings of the page.
LEVELS = {"h1": "h3", "h2": "h4", "h3": "h5", "h4": "h6", "h5": "h6"}
_N_CACHED = 256  # number of rendered texts that are cached
PageFile: TypeAlias = str | Path | IO[str]
Block: TypeAlias = tuple[str, Any]  # the name of a macro in page.html, and its argument


@dataclass(frozen=True)
class Table:
    """A table of a page. A cell is text, which the template escapes, or `Markup`.

    Attributes:
        caption: the caption.
        heads: the titles of the columns.
        rows: the cells of each row.
        text: the numbers of the columns with words, which are aligned to the left.
        is_sortable: whether a press on a title sorts the rows. The cells are then texts, or lists
            of an id and a text.
    """

    caption: str
    heads: Sequence[str]
    rows: Sequence[Sequence[Any]]
    text: Collection[int] = (0,)
    is_sortable: bool = False


@dataclass(frozen=True)
class Picture:
    """A figure of a page, as SVG in a data address.

    Attributes:
        source: the address.
        alt: the text for people who do not see the figure.
        caption: the text below the figure; may be empty.
    """

    source: str
    alt: str
    caption: str = ""


@dataclass(frozen=True)
class Section:
    """A section of a page.

    Attributes:
        title: the heading.
        blocks: each the name of a macro of page.html with its argument: `text` and `lead` (a text),
            `lines` (texts), `tiles` (pairs of a name and a value), `table` (a `Table`), `pictures`
            (a list of `Picture`), `code` (a command), `listing` (lines of aligned columns) and
            `html` (a `Markup`).
        is_folded: whether the section is closed until it is pressed.
        is_listed: whether the table of contents has the section.
    """

    title: str
    blocks: Sequence[Block]
    is_folded: bool = False
    is_listed: bool = True


def picture(figure: Figure, alt: str, caption: str = "") -> Picture:
    """Draw a figure as SVG without a background.

    Args:
        figure: the figure.
        alt: the text for people who do not see the figure.
        caption: the text below the figure.
    """
    file = io.BytesIO()
    with warnings.catch_warnings():
        # The warning repeats the character, which a terminal must not get if it is a control.
        warnings.filterwarnings("ignore", "(?s)Glyph .* missing from font", UserWarning)
        figure.savefig(file, format="svg", metadata={"Date": None}, transparent=True)
    source = "data:image/svg+xml;base64," + base64.b64encode(file.getvalue()).decode()
    return Picture(source, alt, caption)


def listed(texts: Sequence[Any]) -> Markup:
    """Make a list of texts for a cell; the texts are escaped unless they are `Markup`.

    >>> listed(["a < b"])
    Markup('<ul><li dir="auto">a &lt; b</li></ul>')
    """
    items = Markup("").join(Markup('<li dir="auto">{}</li>').format(text) for text in texts)
    return Markup("<ul>{}</ul>").format(items)


def render_page(
    title: str, sections: Sequence[Section], *, about: str = "", alert: str = ""
) -> str:
    """Render a page that contains its style, its script and the present time.

    The page's Content-Security-Policy allows this style, this script, and images inside the page,
    and nothing else. There is a script only if a table is sortable.

    Args:
        title: the title.
        sections: the sections; sections without blocks are left out.
        about: a text below the title.
        alert: a text about an unfinished run, below the title; may be empty.
    """
    style = _read_asset("report.css")
    blocks = [value for section in sections for _, value in section.blocks]
    is_sortable = any(isinstance(value, Table) and value.is_sortable for value in blocks)
    script = _read_asset("ranking.js") if is_sortable else ""
    policy = f"default-src 'none'; img-src data:; style-src '{_policy_hash(style)}'; "
    if script:
        policy += f"script-src '{_policy_hash(script)}'; "
    policy += "base-uri 'none'; form-action 'none'"
    written = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    page: str = _template().render(
        title=title,
        sections=[section for section in sections if section.blocks],
        about=about,
        alert=alert,
        written=written,
        style=style,
        script=script,
        policy=policy,
    )
    return page


@cache
def _template() -> Any:
    """Return the template of all pages, which escapes HTML and refuses undefined variables."""
    environment = Environment(
        loader=PackageLoader("store.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html")


def _read_asset(name: str) -> str:
    """Read a file in the folder of templates."""
    return (files("store.report") / "templates" / name).read_text(encoding="utf-8")


def _policy_hash(text: str) -> str:
    """Compute the hash that allows a style or a script in a Content-Security-Policy."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def instructions_html(text: str) -> Markup:
    """Render instructions in Markdown as HTML, by the same rules as the page of `sortnet serve`.

    Without the extra `serve`, which installs the Markdown parser, the text is shown unchanged.
    """
    if not text:
        return Markup()
    try:
        # `rendered` has escaped all HTML of the text, so the result is safe.
        return _AS_HTML.format(Markup(rendered(text)))
    except ImportError:
        return _AS_TEXT.format(text)


@lru_cache(_N_CACHED)
def rendered(text: str) -> str:
    r"""Render a text as HTML: escape its HTML, keep only web links, and leave out images.

    >>> rendered("**Be** fair. <script>x</script>")
    '<p><strong>Be</strong> fair. &lt;script&gt;x&lt;/script&gt;</p>\n'
    """
    parser = _parser()
    tokens = parser.parse(text)
    for block in tokens:
        for token in (block, *(block.children or ())):
            token.tag = LEVELS.get(token.tag, token.tag)
            token.info = ""  # the language of a code block would become a CSS class
            token.attrs = _attributes_to_keep(token)
    return str(parser.renderer.render(tokens, parser.options, {}))


@cache
def _parser() -> MarkdownIt:
    """Make a parser of CommonMark with tables and strikethrough that escapes HTML."""
    from markdown_it import MarkdownIt

    options = {"html": False, "xhtmlOut": False}
    parser = MarkdownIt("commonmark", options).enable(["table", "strikethrough"])
    parser.disable("image")
    parser.validateLink = _is_web  # type: ignore[method-assign]
    return parser


def _is_web(url: str) -> bool:
    """Tell whether an address is a web address, and not for example `javascript:`."""
    return url.lower().startswith(("http://", "https://"))


def _attributes_to_keep(token: Token) -> dict[str, str | int | float]:
    """Return the attributes that an element keeps: a link's address, or a list's first number."""
    href = str(token.attrs.get("href", ""))
    if _is_web(href):
        return {"href": href, "target": "_blank", "rel": "noopener noreferrer nofollow"}
    return {name: value for name, value in token.attrs.items() if name == "start"}
