"""What asking a language model would take: a prompt to look at, and an estimate of the cost."""

from __future__ import annotations

from collections.abc import Sequence

from cli.printing.results import Result, print_result
from sortnet.judges.asked_pairs import Pair
from sortnet.judges.estimate import CallEstimate, estimate_calls
from sortnet.judges.language_model import LanguageModel
from sortnet.judges.prompts import Prompt

SAMPLE = 50  # prompts of which an estimate takes the mean length


def show_prompt(prompt: Prompt, pair: Pair, *, as_json: bool) -> None:
    """Print the prompt of a pair."""
    print_prompt(prompt.of(pair), as_json=as_json)


def print_prompt(text: str, *, as_json: bool) -> None:
    """Print a prompt that was made."""
    print_result(Result("prompt", text, text=[text]), as_json=as_json)


def show_estimate(
    model: LanguageModel,
    n_pairs: int,
    examples: Sequence[Pair],
    range_of_pairs: tuple[int, int] | None = None,
    *,
    as_json: bool,
) -> None:
    """Print how many calls and tokens some pairs take, and what they cost.

    Args:
        examples: pairs by whose prompts the others are estimated.
        range_of_pairs: range of the number of pairs, if that is a guess.
    """
    print_estimate(estimate_calls(model, n_pairs, examples, range_of_pairs), as_json=as_json)


def print_estimate(estimate: CallEstimate, *, as_json: bool) -> None:
    """Print calls, tokens and cost that are expected."""
    text = [f"{estimate}; nothing was sent"]
    print_result(Result("estimate", estimate.to_json(), text=text), as_json=as_json)
