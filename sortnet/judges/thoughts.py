"""Content of a server's answer, and the text after the thoughts of a model that thinks first."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_NAMES = (
    r"(?:ant|antml)?_?:?(?:think|thinking|thoughts?|thought_process|reason|reasoning|reflect|"
    r"reflection|analysis|scratchpad|inner_monologue|cot)"
)
# Each mark begins with a fixed character and has a limited length, so that the search is linear.
# What stands between two marks is not matched.
_MARK = re.compile(
    rf"""(?ix)
    (?P<end>
        <\s{{0,3}}/\s{{0,3}}(?:[\w-]{{1,20}}:)?{_NAMES}\s{{0,3}}>
      | <(?:[\w-]{{1,20}}:)?{_NAMES}\s{{0,3}}/>
      | <\|/\s{{0,3}}{_NAMES}\|>
      | <\|(?:end_of_|end_?){_NAMES}\|> | <\|{_NAMES}_end\|>
      | \[\s{{0,3}}/\s{{0,3}}{_NAMES}\s{{0,3}}\] | \[BEGIN\ FINAL\ RESPONSE\]
      | ◁\s{{0,3}}/\s{{0,3}}{_NAMES}\s{{0,3}}▷
      | <unused95> | <channel\|>
      | <\|channel\|>\s{{0,3}}final(?:[^<\n]|<\|constrain\|>){{0,80}}<\|message\|>
      | assistant\s?(?-i:final)(?=\W|(?-i:[A-Z])|\Z)
      | here\ is\ my\ response:
    )
  | (?P<open>
        <(?:[\w-]{{1,20}}:)?{_NAMES}(?:\s[^<>]{{0,200}})?>
      | <\|{_NAMES}\|>
      | <\|(?:begin_of_|start_?|begin_?){_NAMES}\|> | <\|{_NAMES}_(?:start|begin)\|>
      | \[\s{{0,3}}{_NAMES}\s{{0,3}}\]
      | ◁\s{{0,3}}{_NAMES}\s{{0,3}}▷
      | <unused94> | <\|channel>
      | <\|channel\|>\s{{0,3}}(?:analysis|commentary)
      | \A\s{{0,9}}(?-i:analysis)(?=(?-i:[A-Z]))
      | \A\s{{0,9}}here\ is\ my\ thought\ process:
    )
    """
)
# The end of an answer in the notation of harmony, or a mark that encloses an answer.
_TOKEN = re.compile(r"<\|[\w/]{1,40}\|>|\[END FINAL RESPONSE\]")


def content_of(choice: Mapping[str, Any]) -> str:
    """Return the text of a server's `choice`, without the thoughts in fields and parts of their own.

    The content is a text, or a list of parts whose texts are joined. The text of a completion
    without messages is its content, too.

    >>> content_of({"message": {"content": [{"type": "thinking", "thinking": "A?"}, "B"]}})
    'B'
    """
    message = choice.get("message")
    content = message.get("content") if isinstance(message, Mapping) else choice.get("text")
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    joined: list[str] = []
    for text in map(_text_of_part, content):
        # Two parts are separate texts, unless a space or a line break joins them already.
        is_separate = joined and not joined[-1][-1].isspace() and not text[:1].isspace()
        if text:
            joined.append(f"\n{text}" if is_separate else text)
    return "".join(joined)


def _text_of_part(part: Any) -> str:
    """Return the text of a part of the content; empty for a thought or for anything else."""
    if isinstance(part, Mapping):
        is_text = part.get("type") in (None, "text", "output_text") and not part.get("thought")
        part = part.get("text") if is_text else None
        if isinstance(part, Mapping):
            part = part.get("value")
    return part if isinstance(part, str) else ""


def answer_start(content: str) -> int | None:
    """Return the position after the last thought; None if a thought has no end.

    >>> answer_start("<think>A?</think>B"), answer_start("A? No.</think>B"), answer_start("B")
    (17, 14, 0)
    >>> answer_start("<think>The answer is A") is None
    True
    """
    start: int | None = 0
    for mark in _MARK.finditer(content):
        start = mark.end() if mark["end"] else None
    return start


def without_tokens(text: str) -> str:
    """Replace marks such as <|return|> by spaces, so that all positions stay.

    >>> without_tokens("B<|end|>")
    'B       '
    """
    return _TOKEN.sub(lambda mark: " " * len(mark[0]), text)
