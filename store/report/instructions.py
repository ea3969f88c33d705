"""Render instructions as safe HTML, or as text if no Markdown parser is installed."""

from __future__ import annotations

from markupsafe import Markup

_AS_TEXT = Markup('<p class="given">{}</p>')
_AS_HTML = Markup('<div class="formatted">{}</div>')


def instructions_html(text: str) -> Markup:
    """Render instructions in Markdown as HTML, by the same rules as the page of `sortnet serve`.

    Without the extra `serve`, which installs the Markdown parser, the text is shown unchanged.
    """
    if not text:
        return Markup()
    try:
        from store.report.markdown import rendered
    except ImportError:
        return _AS_TEXT.format(text)
    # `rendered` has escaped all HTML of the text, so the result is safe.
    return _AS_HTML.format(Markup(rendered(text)))
