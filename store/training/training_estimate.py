"""Estimate the calls and cost of a training that asks a language model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from sortnet.errors import SortNetError
from sortnet.judges import LanguageModel
from sortnet.judges.asked_question import asked_question
from sortnet.judges.estimate import CallEstimate, estimate_calls
from sortnet.judges.prompts import Prompt
from sortnet.learning.pairs_to_ask import all_pairs
from sortnet.preference.study import QUESTION
from store.training.job import TrainingJob
from store.training.run_folder import Folder
from store.training.train_or_resume import RunOptions, prepare, with_judge

_SAMPLE = 50  # number of prompts whose mean length is used in an estimate


@dataclass(frozen=True)
class TrainingEstimate:
    """The calls that a training would send to a language model.

    Attributes:
        prompt: an example of a prompt, about a pair of training documents.
        calls: calls, tokens and cost; None if the number of answers is not limited.
    """

    prompt: str
    calls: CallEstimate | None


def estimate(
    data: str | Sequence[str],
    *,
    judge: LanguageModel,
    question: str | None = None,
    options: RunOptions | None = None,
    **settings: Any,
) -> TrainingEstimate:
    """Estimate the calls and cost of `train` with the same arguments; send and write nothing.

    Raises:
        SortNetError: if the judge is no language model, and for the errors of `train`.

    Cost: the data are read.
    """
    if not isinstance(judge, LanguageModel):
        raise SortNetError("an estimate is of the calls of a language model: pass one as judge")
    options = with_judge(options or RunOptions(), judge, question)
    paths = [data] if isinstance(data, str) else list(data)
    folder = Folder("model")  # any name will do: nothing is read from the folder or written to it
    prepared = prepare(folder, paths, None, options, settings, is_estimate=True)
    job = prepared.job
    question_about = partial(
        asked_question,
        prepared.documents.shown["train"],
        id="example",
        question=options.judge.question or QUESTION,
        instructions=None,
    )
    prompt = Prompt(judge.prompt).of(question_about(*_first_pair(job)))
    calls: CallEstimate | None = None
    if job.config.judgements is not None:
        examples = [question_about(left, right) for left, right in _random_pairs(job)]
        calls = estimate_calls(judge, job.config.judgements, examples)
    return TrainingEstimate(prompt, calls)


def _first_pair(job: TrainingJob) -> tuple[int, int]:
    """Return the first pair of training documents that are in one query."""
    i, j = all_pairs(job.train.offsets[:2])  # of the first query, which may have one document
    if not len(i):
        i, j = all_pairs(job.train.offsets)
    return int(i[0]), int(j[0])


def _random_pairs(job: TrainingJob) -> list[tuple[int, int]]:
    """Draw random pairs of training documents; their prompts show how long a prompt is."""
    i, j = all_pairs(job.train.offsets)
    chosen = np.random.default_rng(0).permutation(len(i))[:_SAMPLE]
    return list(zip(i[chosen].tolist(), j[chosen].tolist(), strict=True))
