"""What a training by a language model would take: a prompt to look at, calls and cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sortnet.core import I32, I64
from sortnet.errors import SortNetError
from sortnet.items import Items
from sortnet.judges import LanguageModel
from sortnet.judges.asked_pairs import Pair, pair_of_items
from sortnet.judges.estimate import CallEstimate, estimate_calls
from sortnet.judges.prompts import Prompt
from sortnet.learning.pairs_to_ask import all_pairs
from sortnet.preference.study import QUESTION
from store.training.job import TrainingJob
from store.training.run_folder import Folder
from store.training.train_or_resume import RunOptions, prepare, with_judge

_SAMPLE = 50  # prompts of which an estimate takes the mean length


@dataclass(frozen=True)
class TrainingEstimate:
    """What asking a language model would take.

    Attributes:
        prompt: what the model would be sent about a pair of training documents.
        calls: calls, tokens and cost; None where the number of answers is not limited.
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
    """Estimate what `train` with the same arguments takes; nothing is sent or written.

    Raises:
        SortNetError: on another judge than a language model, and as `train`.

    Cost: the data are read.
    """
    if not isinstance(judge, LanguageModel):
        raise SortNetError("an estimate is of the calls of a language model: pass one as judge")
    options = with_judge(options or RunOptions(), judge, question)
    paths = [data] if isinstance(data, str) else list(data)
    prepared = prepare(Folder("model"), paths, None, options, settings, is_asked_now=False)
    job, documents = prepared.job, prepared.documents.items["train"]
    asked = options.judge.question or QUESTION
    (first,) = _pairs_of(documents, *_first_pair(job), asked)
    calls = None
    if (n_answers := job.config.judgements) is not None:
        calls = estimate_calls(judge, n_answers, _pairs_of(documents, *_some_pairs(job), asked))
    return TrainingEstimate(Prompt(judge.prompt).of(first), calls)


def _first_pair(job: TrainingJob) -> tuple[I64 | I32, I64 | I32]:
    """A pair of the first query, or of all where that has one document."""
    i, j = all_pairs(job.train.offsets[:2])
    if not len(i):
        i, j = all_pairs(job.train.offsets)
    return i[:1], j[:1]


def _some_pairs(job: TrainingJob) -> tuple[I64 | I32, I64 | I32]:
    """Pairs at random, by whose prompts the others are estimated."""
    i, j = all_pairs(job.train.offsets)
    numbers = np.random.default_rng(0).permutation(len(i))[:_SAMPLE]
    return i[numbers], j[numbers]


def _pairs_of(documents: Items, i: I64 | I32, j: I64 | I32, question: str) -> list[Pair]:
    return [
        pair_of_items(documents, left, right, id="example", question=question, instructions=None)
        for left, right in zip(i.tolist(), j.tolist(), strict=True)
    ]
