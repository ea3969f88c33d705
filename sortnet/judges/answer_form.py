"""The form in which a language model is asked to answer, its reply, and the verdict in a reply."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sortnet.judges.asked_question import PLACES, AskedQuestion
from sortnet.judges.faults import Reason, decoded
from sortnet.judges.parse_choice import SAME, UNREADABLE, Reading, read_choice
from sortnet.judges.verdicts import (
    CHOICES_OF_TWO,
    Fault,
    Verdict,
    stored_meta,
    stored_text,
    unanswered,
)
from sortnet.preference.base import Word

_TOKENS_OF_A_LETTER = 2  # approximate length of an answer about two items
_TOKENS_OF_A_LINE = 5  # approximate length of a line, such as "Best: A"
CHARACTERS = 4  # approximate number of characters in a token
_MOST_TOKENS = 10**9  # tokens of a call; a larger number is a mistake of the server


@dataclass(frozen=True)
class AnswerForm:
    """Form of a language model's answer: a letter for two items, one or two lines for more.

    Attributes:
        n_items: number of items in question.
        worst: whether the model also names the worst of more than two items.

    >>> AnswerForm(4, worst=True).again(as_json=False)
    'Answer with nothing but "Best: A" and "Worst: D", or "Best: same".'
    """

    n_items: int = 2
    worst: bool = False

    @classmethod
    def of(cls, question: AskedQuestion) -> AnswerForm:
        """Return the form in which a question is to be answered."""
        n_items = len(question["items"]) if "items" in question else 2
        return cls(n_items, bool(question.get("worst")))

    @property
    def is_of_set(self) -> bool:
        """Whether the question is about more than two items."""
        return self.n_items > 2

    @property
    def tokens(self) -> int:
        """Approximate number of tokens in an answer."""
        if not self.is_of_set:
            return _TOKENS_OF_A_LETTER
        n_lines = 2 if self.worst else 1
        return _TOKENS_OF_A_LINE * n_lines

    @property
    def response_format(self) -> dict[str, Any]:
        """The request parameter `response_format`, which makes the model answer JSON."""
        letters = [*PLACES[: self.n_items]]
        choices = {"answer": ["A", "B", "C"]}
        if self.is_of_set:
            choices = {"best": [*letters, SAME]} | ({"worst": letters} if self.worst else {})
        schema = {
            "type": "object",
            "properties": {name: {"type": "string", "enum": choices[name]} for name in choices},
            "required": [*choices],
            "additionalProperties": False,
        }
        answer = {"name": "answer", "strict": True, "schema": schema}
        return {"type": "json_schema", "json_schema": answer}

    def again(self, *, as_json: bool) -> str:
        """Return the message that asks a model again, after an answer that could not be read."""
        last = PLACES[self.n_items - 1]
        if not self.is_of_set:
            example = '{"answer": "A"}' if as_json else "A, B or C"
        elif as_json:
            example = f'{{"best": "A", "worst": "{last}"}}' if self.worst else '{"best": "A"}'
        else:
            example = f'"Best: A" and "Worst: {last}"' if self.worst else '"Best: A"'
            example = f'{example}, or "Best: {SAME}"'
        return f"Answer with nothing but {'JSON such as ' if as_json else ''}{example}."

    def read(self, choice: Mapping[str, Any]) -> Reading:
        """Read an element of `choices` in the answer of a server."""
        return read_choice(choice, self.n_items, worst=self.worst)

    def verdict(
        self, reading: Reading, meta: Mapping[str, Any], hidden: Callable[[str], str], **facts: Any
    ) -> Verdict:
        """Make the verdict of a model's answer, which is a skip if the answer has no choice.

        Args:
            reading: what the answer says. Its text is stored as a comment if it has more than the
                choice.
            meta: the facts to store with the verdict.
            hidden: function that hides secrets in a text.
            facts: further fields of the verdict.
        """
        text = hidden(reading.text)
        if reading.best is None:
            is_unclear = text.strip() and reading.why_not == UNREADABLE
            reason = "" if is_unclear else hidden(reading.why_not)
            return unanswered(Reason.UNREADABLE, f"{reason}\n{text}", meta=meta, **facts)
        comment = None if reading.is_bare else stored_text(text)
        facts |= {"meta": stored_meta(meta), "comment": comment}
        if not self.is_of_set:
            # Equal probabilities say a tie: the written letter is then the first of two equal ones.
            answer: Word = "tie" if reading.p == 0.5 else CHOICES_OF_TWO[reading.best]
            return Verdict(answer, reading.p, **facts)
        if reading.best == SAME:
            return Verdict("same", **facts)
        places = [PLACES.index(letter) for letter in (reading.best, reading.worst) if letter]
        return replace(Verdict.by_place(self.n_items, *places), **facts)


@dataclass(frozen=True)
class Reply:
    """The reply of a language model.

    Attributes:
        choice: first element of `choices`, which `AnswerForm.read` reads.
        tokens_in: number of tokens in the prompt; 0 if the server does not count them.
        tokens_out: number of tokens in the reply; 0 if the server does not count them.
    """

    choice: Mapping[str, Any]
    tokens_in: int = 0
    tokens_out: int = 0


def parse_reply(raw: bytes) -> Reply:
    """Parse the body of a server's answer.

    Raises:
        Fault: if the body is no answer. The message of the fault has the whole body, which may
            contain secrets.
    """
    try:
        answer = json.loads(raw)
        choice = answer["choices"][0]
        if not isinstance(choice.get("message"), dict) and not isinstance(choice["text"], str):
            raise TypeError
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        what = decoded(raw).strip() or "an empty body"
        raise Fault(f"not an answer of /v1/chat/completions: {what}") from None
    return Reply(
        choice,
        _number_of_tokens(answer, "prompt_tokens"),
        _number_of_tokens(answer, "completion_tokens"),
    )


def _number_of_tokens(answer: Mapping[str, Any], name: str) -> int:
    """Return the number of tokens that a server counted; 0 if it counted none."""
    try:
        return min(max(int(answer["usage"][name]), 0), _MOST_TOKENS)
    except (LookupError, TypeError, ValueError, OverflowError):
        return 0


def count_tokens(reply: Reply, text: str, messages: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
    """Return the tokens of the prompt and of the reply, estimated if the server counts none."""
    n_characters = 0
    for message in messages:
        content = message["content"]  # a text, or a list of texts and images
        texts = [content]
        if not isinstance(content, str):
            texts = [part.get("text", "") for part in content]
        n_characters += sum(map(len, texts))
    return (
        reply.tokens_in or n_characters // CHARACTERS,
        reply.tokens_out or len(text) // CHARACTERS + 1,
    )
