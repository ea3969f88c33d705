"""Texts of a question as an annotator sees them in a terminal, without control characters."""

from __future__ import annotations

from typing import TypeAlias

from sortnet.items import Items
from sortnet.messages import printable
from sortnet.preference import Question

_MOST_FEATURES = 20  # number of features that are shown of an item without text or media


Part: TypeAlias = tuple[str, str]  # title and text


def parts_of_question(items: Items, question: Question, text: str) -> list[Part]:
    """Collect the texts of a question: the question, the context, and each item in its place.

    Two items have the titles left and right, more items have their numbers, from 1. The context is
    empty if the items' group has none.

    Args:
        items: all items.
        question: the question, which has the numbers of its items.
        text: text of the question, such as "Which is better?".
    """
    titles = ["left", "right"]
    if len(question.items) > 2:
        titles = [str(place) for place in range(1, len(question.items) + 1)]
    context = harmless(items.context(question.left) or "")
    parts = [("question", harmless(text)), ("context", context)]
    for place, (title, item) in enumerate(zip(titles, question.items, strict=True), 1):
        parts.append((title, item_text(items, item, place)))
    return parts


def item_text(items: Items, item: int, place: int) -> str:
    """Write what is shown of an item: its image or sound, its text and further columns.

    An item without these is shown by its name and its first features.
    Names of files are not shown, because they might give the answer away.

    Args:
        items: all items.
        item: number of the item among all items.
        place: number of the item in the question, from 1.
    """
    content = items.content(item)
    media = []
    if content.image is not None:
        media.append(f"image {place} (sortnet serve shows it)")
    if content.audio is not None:
        media.append(f"sound {place} (sortnet serve plays it)")
    columns = [harmless(f"{name}: {value}") for name, value in content.shown.items()]
    paragraphs = ["\n".join(media), harmless(content.text or ""), "\n".join(columns)]
    text = "\n\n".join(filter(None, paragraphs))
    return text or _feature_text(items, item)


def harmless(text: str) -> str:
    """Replace control characters of a text but line feeds.

    >>> harmless("a\\tb\\rc\\x1b[2J")
    'a   b\\nc\ufffd[2J'
    """
    return "\n".join(printable(line.expandtabs(4)) for line in text.splitlines())


def _feature_text(items: Items, item: int) -> str:
    """Write the name of an item and its first features."""
    lines = [printable(items.ids[item]), ""]
    n_shown = min(len(items.feature_names), _MOST_FEATURES)
    for name, value in zip(items.feature_names[:n_shown], items.features[item], strict=False):
        lines.append(f"{printable(name)}: {value:.6g}")
    if len(items.feature_names) > n_shown:
        lines.append(f"... {len(items.feature_names) - n_shown} more")
    return "\n".join(lines)
