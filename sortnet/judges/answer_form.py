"""The form in which a language model is asked to answer, and how such an answer is read."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sortnet.judges.asked_question import PLACES, AskedQuestion
from sortnet.judges.model_answers import RESPONSE_FORMAT, Reply, verdict_of_reply
from sortnet.judges.set_choices import SAME, SetChoice, choice_in, is_bare_choice, letter_shares
from sortnet.judges.verdicts import Verdict, stored_text

AGAIN = "Answer with one letter only: A, B or C."
AGAIN_AS_JSON = 'Answer with JSON only: {"answer": "A"}, {"answer": "B"} or {"answer": "C"}.'
_TOKENS_OF_A_LETTER = 2  # approximate length of an answer about two items
_TOKENS_OF_A_LINE = 5  # approximate length of a line, such as "Best: A"


@dataclass(frozen=True)
class AnswerForm:
    """Form of a language model's answer: a letter for two items, one or two lines for more.

    Attributes:
        n_items: number of items in question.
        worst: whether the model also names the worst of more than two items.

    >>> AnswerForm(4, worst=True).again(as_json=False)
    'Answer with two lines only, such as "Best: A" and "Worst: D", or with "Best: same".'
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
        if not self.is_of_set:
            return RESPONSE_FORMAT
        letters = [*PLACES[: self.n_items]]
        choices: dict[str, Any] = {"best": {"type": "string", "enum": [*letters, SAME]}}
        if self.worst:
            choices["worst"] = {"type": "string", "enum": letters}
        parameter: dict[str, Any] = copy.deepcopy(RESPONSE_FORMAT)
        parameter["json_schema"]["schema"] |= {"properties": choices, "required": [*choices]}
        return parameter

    def again(self, *, as_json: bool) -> str:
        """Return the message that asks a model again, after an answer that could not be read."""
        if not self.is_of_set:
            return AGAIN_AS_JSON if as_json else AGAIN
        last = PLACES[self.n_items - 1]
        if as_json:
            worst = f', "worst": "{last}"' if self.worst else ""
            return f'Answer with JSON only, such as {{"best": "A"{worst}}}.'
        lines = 'one line only, such as "Best: A"'
        if self.worst:
            lines = f'two lines only, such as "Best: A" and "Worst: {last}"'
        return f'Answer with {lines}, or with "Best: {SAME}".'

    def facts(self, reply: Reply) -> dict[str, Any]:
        """Return {"letters": probabilities of the letters}, to store with the answer.

        The dict is empty for two items, or if the server gives no log-probabilities.
        """
        choice = self._choice(reply) if self.is_of_set else None
        if choice is None:
            return {}
        shares = letter_shares(choice, reply.logprobs, self.n_items)
        return {"letters": shares} if shares else {}

    def verdict(self, reply: Reply, text: str, facts: Mapping[str, Any]) -> Verdict | None:
        """Read the verdict from a model's reply; None if the reply cannot be read.

        Args:
            reply: the reply.
            text: text of the reply without secrets, which is stored as a comment if it has more
                than the answer.
            facts: further fields of the verdict.
        """
        if not self.is_of_set:
            return verdict_of_reply(reply, text, facts)
        choice = self._choice(reply)
        if choice is None:
            return None
        is_only_choice = is_bare_choice(text) and not choice.ranks_all
        comment = None if is_only_choice else stored_text(text)
        if choice.best is None:
            return Verdict("same", comment=comment, **facts)
        best = PLACES.index(choice.best)
        worst = None if choice.worst is None else PLACES.index(choice.worst)
        return Verdict("best", best=best, worst=worst, comment=comment, **facts)

    def _choice(self, reply: Reply) -> SetChoice | None:
        """Find the choice in the text of a reply; None if there is no clear choice."""
        return choice_in(reply.text, self.n_items, worst=self.worst)
