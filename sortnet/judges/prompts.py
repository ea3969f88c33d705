"""The prompt that asks a language model which of two items is better."""

from __future__ import annotations

import base64
import hashlib
import mimetypes
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jinja2 import StrictUndefined, TemplateError
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from sortnet.errors import SortNetError
from sortnet.judges.asked_pairs import Pair
from sortnet.messages import cut, printable

PROMPT = """\
{{ question }}
{% if criterion %}Criterion: {{ criterion }}
{% endif %}{% if instructions %}
{{ instructions }}
{% endif %}{% if group %}
Both belong to: {{ context or group }}
{% endif %}{% for name, item in (("A", left), ("B", right)) %}
<{{ name }}>
{% for column, value in item.shown.items() %}{{ column }}: {{ value }}
{% endfor %}{{ item.text or (item.id if not item.image else "(the image below)") }}
</{{ name }}>
{% endfor %}
Answer with one letter: A if the first is better, B if the second is, C if they are equally good.
"""
AGAIN = "Answer with one letter only: A, B or C."
AGAIN_AS_JSON = 'Answer with JSON only: {"answer": "A"}, {"answer": "B"} or {"answer": "C"}.'
_SECONDS = 5  # for a prompt: a template may have a loop without end
_LARGEST_IMAGE = 20 << 20  # bytes


class _Sandbox(ImmutableSandboxedEnvironment):
    """One without powers and repeated texts, which a deadline cannot interrupt."""

    intercepted_binops = frozenset({"*", "**"})

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if operator == "**":
            raise SecurityError("no powers in a prompt")
        if not all(isinstance(value, int | float) for value in (left, right)):
            raise SecurityError("* is for numbers in a prompt")
        return super().call_binop(context, operator, left, right)


class Prompt:
    """A template of prompts, in Jinja's sandbox: that of a file, or the one of SortNet.

    Raises:
        SortNetError: if the file cannot be read, or is no template.
    """

    def __init__(self, file: str | None = None) -> None:
        self.name = "prompt" if file is None else f"prompt {file}"
        try:
            text = PROMPT if file is None else Path(file).read_text("utf-8")
        except (OSError, UnicodeError) as error:
            why = getattr(error, "strerror", None) or "is no UTF-8 text"
            raise SortNetError(f"{self.name}: {why}") from None
        sandbox = _Sandbox(undefined=StrictUndefined, trim_blocks=False, keep_trailing_newline=True)
        try:
            self._template = sandbox.from_string(text)
        except TemplateError as error:
            raise SortNetError(f"{self.name}: {_brief(error)}") from None
        self.hash = hashlib.sha256(text.encode()).hexdigest()[:8]  # tells it from others

    def of(self, pair: Pair) -> str:
        """The prompt of a pair.

        Raises:
            SortNetError: on a name that a pair does not have, or if it takes more than 5 seconds.
        """
        known: dict[str, Any] = {"criterion": None, "group": None, "context": None, **pair}
        try:
            with _within(_SECONDS):
                return self._template.render(known).strip()
        except TimeoutError:
            raise SortNetError(f"{self.name}: takes more than {_SECONDS} seconds") from None
        except (TemplateError, SecurityError, TypeError, ValueError, ArithmeticError, OverflowError,
                AttributeError, LookupError, MemoryError, RecursionError) as error:  # fmt: skip
            raise SortNetError(f"{self.name}: {_brief(error)}") from None

    def messages(self, pair: Pair) -> list[dict[str, Any]]:
        """The messages of a request, with the images of the pair's items."""
        text, parts = self.of(pair), list[dict[str, Any]]()
        for name, side in (("A", "left"), ("B", "right")):
            if pair[side].get("audio") and not pair[side]["text"]:
                raise SortNetError(
                    f"item {pair[side]['id']!r} is a sound: a language model reads texts and images"
                )
            if image := pair[side]["image"]:
                parts += [{"type": "text", "text": f"Image of {name}:"}, _image(Path(image))]
        content = [{"type": "text", "text": text}, *parts] if parts else text
        return [{"role": "user", "content": content}]


def _image(path: Path) -> dict[str, Any]:
    kind = mimetypes.guess_type(path.name)[0] or "image/png"
    try:
        if path.stat().st_size > _LARGEST_IMAGE:
            raise SortNetError(f"{path}: an image of more than {_LARGEST_IMAGE >> 20} MB")
        data = base64.b64encode(path.read_bytes()).decode()
    except OSError as error:
        raise SortNetError(f"{path}: {error.strerror}") from None
    return {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{data}"}}


@contextmanager
def _within(seconds: int) -> Iterator[None]:
    """Raise TimeoutError after some seconds, in the main thread: signals reach no other one."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def late(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _brief(error: Exception) -> str:
    return cut(printable(str(error)) or type(error).__name__, 200)
