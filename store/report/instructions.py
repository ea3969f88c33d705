"""Instructions of a collection as safe HTML, or as text where Markdown cannot be read."""

from __future__ import annotations

from markupsafe import Markup

_AS_TEXT = Markup('<p class="given">{}</p>')
_AS_HTML = Markup('<div class="formatted">{}</div>')


def instructions_html(text: str) -> Markup:
    """The instructions for a page, empty if there are none.

    Markdown is rendered by the same rules as on the page of `sortnet serve`; without its extra,
    which has the parser, the text is shown as it is.
    """
    if not text:
        return Markup()
    try:
        from store.report.markdown import rendered
    except ImportError:
        return _AS_TEXT.format(text)
    # What looks like HTML in the text is text in what is rendered.
    return _AS_HTML.format(Markup(rendered(text)))
