"""Prompts that ask a language model which of two or more items is better or best."""

from __future__ import annotations

import base64
import hashlib
from functools import lru_cache
from pathlib import Path

from jinja2 import StrictUndefined, Template, TemplateError, meta
from jinja2.sandbox import ImmutableSandboxedEnvironment

from sortnet.errors import SortNetError
from sortnet.files import Record, shown
from sortnet.items.images import clean_image
from sortnet.judges.asked_question import AskedQuestion, asked_items
from sortnet.messages import cut, printable

PROMPT = """\
{{ question }}
{% if criterion %}Criterion: {{ criterion }}
{% endif %}{% if instructions %}
{{ instructions }}
{% endif %}{% if group %}
{{ "All" if items | length > 2 else "Both" }} belong to: {{ context or group }}
{% endif %}{% for item in items %}
<{{ item.place }}>
{% for column, value in item.shown.items() %}{{ column }}: {{ value }}
{% endfor %}{{ item.text or (item.id if not item.image else "(the image below)") }}
</{{ item.place }}>
{% endfor %}
{% if items | length == 2 -%}
Answer with one letter: A if the first is better, B if the second is, C if they are equally good.
{%- else -%}
Answer with {{ "two lines" if worst else "one line" }}, "Best: " and the letter of the best of them
{%- if worst %}, then "Worst: " and the letter of the worst
{%- endif %}. Answer "Best: same" if all are equally good.
{%- endif %}
"""
LARGEST_SIDE = 1024  # pixels: models make larger images smaller, and bill them
_DIGITS_OF_HASH = 8  # hexadecimal digits of a prompt's hash, which is stored with the answers


@lru_cache(maxsize=16)
def _compiled(text: str) -> Template:
    """Compile a template for the sandbox."""
    sandbox = ImmutableSandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)
    return sandbox.from_string(text)


class Prompt:
    """A template of prompts, rendered in Jinja's sandbox: SortNet's own, or a file.

    A template is for any number of items if it uses the name `items`; otherwise it is for two
    items.

    Args:
        file: path of the template; None: SortNet's own template.
        image_size: largest width and height in pixels of an image in a message.

    Raises:
        SortNetError: if the file cannot be read or is no template.
    """

    def __init__(self, file: str | None = None, image_size: int = LARGEST_SIDE) -> None:
        """Read and compile the template, and compute its hash."""
        self.name = "prompt" if file is None else f"prompt {file}"
        self.image_size = image_size
        try:
            text = PROMPT if file is None else Path(file).read_text("utf-8")
        except (OSError, UnicodeError) as error:
            why = getattr(error, "strerror", None) or "is no UTF-8 text"
            raise SortNetError(f"{self.name}: {why}") from None
        try:
            self._template = _compiled(text)
            syntax_tree = self._template.environment.parse(text)
            self._takes_sets = "items" in meta.find_undeclared_variables(syntax_tree)
        except TemplateError as error:
            raise SortNetError(f"{self.name}: {_brief(error)}") from None
        self.hash = hashlib.sha256(text.encode()).hexdigest()[:_DIGITS_OF_HASH]

    def why_not_about(self, n_items: int) -> str:
        """Explain why no prompt about `n_items` items can be made; empty if one can be made.

        >>> Prompt().why_not_about(4)
        ''
        """
        if n_items == 2 or self._takes_sets:
            return ""
        return (
            f"answers about two items, not about {n_items}: list {{{{ items }}}} in {self.name}, "
            "or set the size to 2"
        )

    def of(self, question: AskedQuestion) -> str:
        """Render the prompt that asks a question.

        Raises:
            SortNetError: if the template uses a name that a question does not have, or is for two
                items and the question is about more.
        """
        items = asked_items(question)
        why_not = self.why_not_about(len(items))
        if why_not:
            raise SortNetError(f"{self.name}: {why_not}")
        # A template may use only names that are in this dict, and a question may lack some.
        names = {**dict.fromkeys(("criterion", "group", "context", "worst")), **question}
        names["items"] = items
        try:
            return self._template.render(names).strip()
        except Exception as error:  # a template may raise any
            raise SortNetError(f"{self.name}: {_brief(error)}") from None

    def messages(self, question: AskedQuestion) -> list[Record]:
        """Make the messages of a request: the prompt, followed by the images of the items.

        Raises:
            SortNetError: if the prompt cannot be rendered, or an item is a sound without a text.
            DataError: if an image cannot be read; the message names the item.
        """
        prompt = self.of(question)
        image_parts: list[Record] = []
        for item in asked_items(question):
            is_only_sound = item.get("audio") and not item["text"]
            if is_only_sound:
                raise SortNetError(
                    f"item {item['id']!r} is a sound: a language model reads texts and images"
                )
            if item["image"]:
                path = Path(item["image"])
                name = f"item {shown(item['id'])}: {path}"
                image, media_type = clean_image(path, name, side=self.image_size)
                url = f"data:{media_type};base64,{base64.b64encode(image).decode()}"
                image_parts.append({"type": "text", "text": f"Image of {item['place']}:"})
                image_parts.append({"type": "image_url", "image_url": {"url": url}})
        if not image_parts:
            return [{"role": "user", "content": prompt}]
        return [{"role": "user", "content": [{"type": "text", "text": prompt}, *image_parts]}]


def _brief(error: Exception) -> str:
    """Return the text of an error on one line, or its type if it has no text."""
    return cut(printable(str(error)) or type(error).__name__, 200)
