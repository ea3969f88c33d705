"""Render Markdown from untrusted authors as HTML of a few harmless elements."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING

from markupsafe import Markup

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_AS_TEXT = Markup('<p class="given">{}</p>')
_AS_HTML = Markup('<div class="formatted">{}</div>')

# Headings of a text become lower headings, below the headings of the page.
LEVELS = {"h1": "h3", "h2": "h4", "h3": "h5", "h4": "h6", "h5": "h6"}
_N_CACHED = 256  # number of rendered texts that are cached


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
