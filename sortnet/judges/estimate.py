"""Estimate what asking a language model takes, without asking it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sortnet.judges.answer_form import AnswerForm
from sortnet.judges.asked_pairs import Pair
from sortnet.judges.language_model import LanguageModel
from sortnet.judges.model_answers import CHARACTERS
from sortnet.judges.prices import amount
from sortnet.judges.prompts import Prompt
from sortnet.messages import count


@dataclass(frozen=True)
class CallEstimate:
    """Expected calls, tokens and cost.

    Attributes:
        pairs: questions to ask; of two items, or of more.
        calls: of the server.
        tokens_in, tokens_out: of prompts and of answers.
        cost: None without prices.
        currency: of the cost, if it is known.
        fewest_calls, most_calls: range of the calls; None if a number of answers was given.
    """

    pairs: int
    calls: int
    tokens_in: int
    tokens_out: int
    cost: float | None
    currency: str | None = None
    fewest_calls: int | None = None
    most_calls: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The numbers by name."""
        return asdict(self)

    def __str__(self) -> str:
        tokens = f"{self.tokens_in + self.tokens_out:,} tokens"
        cost = "" if self.cost is None else f", a cost of about {amount(self.cost, self.currency)}"
        between = ""
        if self.fewest_calls is not None and self.most_calls is not None:
            between = f" ({self.fewest_calls:,} to {self.most_calls:,})"
        return f"about {count(self.calls, 'call')}{between}, {tokens}{cost}"


def estimate_calls(
    model: LanguageModel,
    n_pairs: int,
    examples: Sequence[Pair],
    range_of_pairs: tuple[int, int] | None = None,
) -> CallEstimate:
    """Estimate what a number of questions takes, by the mean length of the prompts of some.

    `range_of_pairs` is the range of that number, if it is a guess.
    """
    calls = _calls(model, n_pairs)
    fewest, most = (None, None)
    if range_of_pairs is not None:
        fewest, most = (_calls(model, number) for number in range_of_pairs)
    prompt = Prompt(model.prompt)
    length = sum(len(prompt.of(pair)) // CHARACTERS for pair in examples) / len(examples)
    tokens_in = int(calls * max(1.0, length))
    tokens_out = int(calls * sum(AnswerForm.of(pair).tokens for pair in examples) / len(examples))
    price = model.price_of_tokens()
    cost = price.of(tokens_in, tokens_out)
    return CallEstimate(n_pairs, calls, tokens_in, tokens_out, cost, price.currency, fewest, most)


def _calls(model: LanguageModel, n_pairs: int) -> int:
    """Calls for a number of pairs, at most the limit."""
    calls = n_pairs * (2 if model.both_orders else 1)
    most = model.limits.max_calls
    return calls if most is None else min(calls, most)
