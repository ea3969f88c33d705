"""Markdown as HTML of a few harmless elements, as texts and instructions come from anybody."""

from __future__ import annotations

from functools import cache, lru_cache

from markdown_it import MarkdownIt
from markdown_it.token import Token

LEVELS = {"h1": "h3", "h2": "h4", "h3": "h5", "h4": "h6", "h5": "h6"}  # the page has higher ones
KEPT = 256  # texts


@lru_cache(KEPT)
def rendered(text: str) -> str:
    r"""The text as HTML: what looks like HTML in it is text; links to http and https, no images.

    >>> rendered("**Be** fair. <script>x</script>")
    '<p><strong>Be</strong> fair. &lt;script&gt;x&lt;/script&gt;</p>\n'
    """
    markdown = _markdown()
    tokens = markdown.parse(text)
    for token in (each for block in tokens for each in (block, *(block.children or ()))):
        token.tag = LEVELS.get(token.tag, token.tag)
        token.info = ""  # a language would become a class
        token.attrs = _attributes(token)
    return str(markdown.renderer.render(tokens, markdown.options, {}))


@cache
def _markdown() -> MarkdownIt:
    """CommonMark with tables and strikethrough; HTML in it is text."""
    options = {"html": False, "xhtmlOut": False}
    made = MarkdownIt("commonmark", options).enable(["table", "strikethrough"])
    made.disable("image")
    made.validateLink = _is_web  # type: ignore[method-assign]
    return made


def _is_web(url: str) -> bool:
    return url.lower().startswith(("http://", "https://"))


def _attributes(token: Token) -> dict[str, str | int | float]:
    """The attributes that an element keeps: a link's address, the first number of a list."""
    href = str(token.attrs.get("href", ""))
    if _is_web(href):
        return {"href": href, "target": "_blank", "rel": "noopener noreferrer nofollow"}
    return {name: value for name, value in token.attrs.items() if name == "start"}
