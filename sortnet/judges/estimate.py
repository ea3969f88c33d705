"""Estimate the calls, tokens and cost of asking a language model, without asking it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sortnet.judges.answer_form import AnswerForm
from sortnet.judges.asked_question import AskedQuestion
from sortnet.judges.language_model import LanguageModel
from sortnet.judges.model_answers import CHARACTERS
from sortnet.judges.prices import amount
from sortnet.judges.prompts import Prompt
from sortnet.messages import count


@dataclass(frozen=True)
class CallEstimate:
    """Expected calls, tokens and cost of asking a language model.

    Attributes:
        pairs: number of questions, about two items or more.
        calls: number of calls of the server.
        tokens_in: number of tokens in the prompts.
        tokens_out: number of tokens in the answers.
        cost: cost of the tokens; None if no price is known.
        currency: currency of the cost; None if it is not known.
        fewest_calls, most_calls: likely range of the number of calls; None if the number of
            questions is not a guess.
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
        """Return the fields by name, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        tokens = f"{self.tokens_in + self.tokens_out:,} tokens"
        cost = "" if self.cost is None else f", a cost of about {amount(self.cost, self.currency)}"
        likely_range = ""
        if self.fewest_calls is not None and self.most_calls is not None:
            likely_range = f" ({self.fewest_calls:,} to {self.most_calls:,})"
        return f"about {count(self.calls, 'call')}{likely_range}, {tokens}{cost}"


def estimate_calls(
    model: LanguageModel,
    n_pairs: int,
    examples: Sequence[AskedQuestion],
    range_of_pairs: tuple[int, int] | None = None,
) -> CallEstimate:
    """Estimate the calls, tokens and cost of `n_pairs` questions.

    Args:
        model: language model to ask.
        n_pairs: number of questions.
        examples: questions with prompts of typical length.
        range_of_pairs: likely range of the number of questions, if the number is a guess.
    """
    calls = _number_of_calls(model, n_pairs)
    fewest_calls = most_calls = None
    if range_of_pairs is not None:
        fewest, most = range_of_pairs
        fewest_calls = _number_of_calls(model, fewest)
        most_calls = _number_of_calls(model, most)
    prompt = Prompt(model.prompt)
    tokens_of_prompts = sum(len(prompt.of(example)) // CHARACTERS for example in examples)
    tokens_of_answers = sum(AnswerForm.of(example).tokens for example in examples)
    mean_tokens_of_prompt = max(1.0, tokens_of_prompts / len(examples))
    tokens_in = int(calls * mean_tokens_of_prompt)
    tokens_out = int(calls * tokens_of_answers / len(examples))
    price = model.price_of_tokens()
    return CallEstimate(
        pairs=n_pairs,
        calls=calls,
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        cost=price.of(tokens_in, tokens_out),
        currency=price.currency,
        fewest_calls=fewest_calls,
        most_calls=most_calls,
    )


def _number_of_calls(model: LanguageModel, n_pairs: int) -> int:
    """Count the calls that `n_pairs` questions need, up to the limit of the model."""
    calls_per_pair = 2 if model.both_orders else 1
    calls = n_pairs * calls_per_pair
    limit = model.limits.max_calls
    return calls if limit is None else min(calls, limit)
