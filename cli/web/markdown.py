"""Markdown as HTML of a few harmless elements, as texts and instructions come from anybody."""

from __future__ import annotations

from functools import cache, lru_cache
from html import escape
from html.parser import HTMLParser

from markdown_it import MarkdownIt

HEADINGS = ("h3", "h4", "h5", "h6")  # the page has higher ones of its own
LEVELS = {"h1": "h3", "h2": "h4", "h3": "h5", "h4": "h6", "h5": "h6"}
TABLE = ("table", "tbody", "td", "th", "thead", "tr")
WORDS = ("a", "blockquote", "br", "code", "em", "hr", "li", "ol", "p", "pre", "s", "strong", "ul")
ELEMENTS = frozenset((*HEADINGS, *TABLE, *WORDS))
VOID = frozenset({"br", "hr"})
KEPT = 256  # texts


@lru_cache(KEPT)
def rendered(text: str) -> str:
    r"""The text as HTML: no element but `ELEMENTS`, links to http and https, no images.

    >>> rendered("**Be** fair. <script>x</script>")
    '<p><strong>Be</strong> fair. &lt;script&gt;x&lt;/script&gt;</p>\n'
    """
    allowed = _Allowed()
    allowed.feed(_markdown().render(text))
    allowed.close()
    return "".join(allowed.parts)


@cache
def _markdown() -> MarkdownIt:
    """CommonMark with tables and strikethrough; HTML in it is text."""
    made = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    made.disable("image")
    made.validateLink = _is_web  # type: ignore[method-assign]
    return made


def _is_web(url: str) -> bool:
    return url.lower().startswith(("http://", "https://"))


class _Allowed(HTMLParser):
    """Writes HTML of allowed elements and escaped text, whatever the renderer wrote."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        tag = LEVELS.get(tag, tag)
        if tag in ELEMENTS:
            self.parts.append(f"<{tag}{_attributes(tag, dict(attrs))}>")

    def handle_endtag(self, tag: str) -> None:
        tag = LEVELS.get(tag, tag)
        if tag in ELEMENTS - VOID:
            self.parts.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        self.parts.append(escape(data))


def _attributes(tag: str, given: dict[str, str | None]) -> str:
    """The attributes that an element keeps: a link's address, the first number of a list."""
    href, start = given.get("href") or "", given.get("start") or ""
    if tag == "a" and _is_web(href):
        return f' href="{escape(href)}" target="_blank" rel="noopener noreferrer nofollow"'
    return f' start="{start}"' if tag == "ol" and start.isdecimal() else ""
