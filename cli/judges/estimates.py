"""Print prompts for a language model and estimates of its calls, without calling the model."""

from __future__ import annotations

from collections.abc import Sequence

from cli.printing.results import Result, print_result
from sortnet.judges.asked_question import AskedQuestion
from sortnet.judges.estimate import CallEstimate, estimate_calls
from sortnet.judges.language_model import LanguageModel
from sortnet.judges.prompts import Prompt

SAMPLE = 50  # number of prompts that are measured for an estimate of the tokens


def show_prompt(prompt: Prompt, pair: AskedQuestion, *, as_json: bool) -> None:
    """Print the prompt that asks about a pair."""
    print_prompt(prompt.of(pair), as_json=as_json)


def print_prompt(text: str, *, as_json: bool) -> None:
    """Print the text of a prompt."""
    print_result(Result("prompt", text, text=[text]), as_json=as_json)


def show_estimate(
    model: LanguageModel,
    n_pairs: int,
    examples: Sequence[AskedQuestion],
    range_of_pairs: tuple[int, int] | None = None,
    *,
    as_json: bool,
) -> None:
    """Print the estimated calls, tokens and cost of asking about some pairs.

    Args:
        model: language model to ask.
        n_pairs: number of pairs.
        examples: pairs with prompts of typical length.
        range_of_pairs: likely range of the number of pairs, if the number is a guess.
        as_json: whether the estimate is printed as JSON.
    """
    print_estimate(estimate_calls(model, n_pairs, examples, range_of_pairs), as_json=as_json)


def show_first_estimate(
    model: LanguageModel, n_questions: int, examples: Sequence[AskedQuestion], *, as_json: bool
) -> None:
    """Print what asking about every item once takes, and what each further 100 questions take.

    Before any answer nothing tells how many questions the goal takes.

    Args:
        model: language model to ask.
        n_questions: number of questions that ask about every item once.
        examples: questions with prompts of typical length.
        as_json: whether the estimate of every item once is printed as JSON.
    """
    once = estimate_calls(model, n_questions, examples)
    further = estimate_calls(model, 100, examples)
    text = [
        f"every item once: {once}",
        f"each further 100 questions: {further}; nothing was sent",
    ]
    print_result(Result("estimate", once.to_json(), text=text), as_json=as_json)


def print_estimate(estimate: CallEstimate, *, as_json: bool) -> None:
    """Print the expected calls, tokens and cost."""
    text = [f"{estimate}; nothing was sent"]
    print_result(Result("estimate", estimate.to_json(), text=text), as_json=as_json)
