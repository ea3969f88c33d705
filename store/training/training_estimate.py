"""Estimate the calls and cost of a training that asks a language model or a program."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from sortnet.errors import SortNetError
from sortnet.judges import LanguageModel, Program
from sortnet.judges.asked_question import asked_question
from sortnet.judges.trial import N_EXAMPLES, DryRun, dry_run
from sortnet.learning.pairs_to_ask import all_pairs
from sortnet.preference.study import QUESTION
from store.training.run_folder import Folder
from store.training.train_or_resume import RunOptions, prepare, with_judge


def estimate(
    data: str | Sequence[str],
    *,
    judge: LanguageModel | Program,
    question: str | None = None,
    options: RunOptions | None = None,
    **settings: Any,
) -> DryRun:
    """Estimate the calls and cost of `train` with the same arguments; send and write nothing.

    Raises:
        SortNetError: if the judge is a function, and for the errors of `train`.

    Cost: the data are read.
    """
    options = with_judge(options or RunOptions(), judge, question)
    (run,) = estimate_judges(data, options, **settings)
    return run


def estimate_judges(
    data: str | Sequence[str], options: RunOptions, **settings: Any
) -> list[DryRun]:
    """Return what `estimate` does for each judge of the options, as if it were the only judge.

    Raises:
        SortNetError: as `estimate`.
    """
    judges = [
        judge
        for judge in options.judge.judges.values()
        if isinstance(judge, LanguageModel | Program)
    ]
    if len(judges) < max(1, len(options.judge.judges)):
        raise SortNetError("an estimate is of the calls of a language model or a program: pass one")
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
    # The first pair of training documents that are in one query, and random pairs.
    i, j = all_pairs(job.train.offsets)
    chosen = [0, *np.random.default_rng(0).permutation(len(i))[: N_EXAMPLES - 1]]
    examples = list(map(question_about, i[chosen].tolist(), j[chosen].tolist()))
    n_documents = int(job.train.offsets[-1] + job.vali.offsets[-1])
    n_once = math.ceil(n_documents / 2)
    return [dry_run(judge, examples, n_once, job.config.judgements) for judge in judges]
