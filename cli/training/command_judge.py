"""The judge that the command line of `sortnet train` gives, and that a resumed run goes on with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import click
import numpy as np

from cli.judges.estimates import SAMPLE, show_estimate, show_prompt
from cli.judges.judge_options import (
    NAMES,
    connect,
    is_asked,
    judge_of,
    only_shows,
    refuse_together,
)
from cli.output import say
from sortnet.config import Config
from sortnet.core import Progress, Split
from sortnet.errors import SortNetError
from sortnet.items import Items
from sortnet.judges import LanguageModel
from sortnet.judges.asked_pairs import pair_of_items
from sortnet.judges.program import refuse_missing_program
from sortnet.judges.prompts import Prompt
from sortnet.learning.pairs_to_ask import all_pairs
from sortnet.preference.study import LONGEST, QUESTION
from store.runs.remembered_data import find_data
from store.runs.unfinished import resume
from store.service.run_judge import RunJudge
from store.training.documents import documents_of, refuse_without_content
from store.training.job import TrainingJob
from store.training.training_run import TrainingRun

_SHOWING = ("show_prompt", "estimate")
_ALIKE = ("model", "question", "both_orders", "prompt_hash")  # which a resumed run cannot change
LEAST = 2  # answers: one is about the validation part


@dataclass(frozen=True)
class CommandJudge:
    """The options of a judge, as they were given or are by default.

    Attributes:
        values: of `judge_options`, and the question.
        typed: names of those that were given.
    """

    values: Mapping[str, Any]
    typed: frozenset[str]

    @classmethod
    def of(cls, ctx: click.Context) -> CommandJudge:
        """The options of the command line.

        Raises:
            click.UsageError: if some do not go together.
        """
        default = click.core.ParameterSource.DEFAULT
        names = (*NAMES, "question")
        values = {name: ctx.params[name] for name in names}
        values["question"] = values["question"] or QUESTION
        typed = frozenset(name for name in names if ctx.get_parameter_source(name) != default)
        judge = cls(values, typed)
        is_resumed = ctx.params["resume"]
        if is_asked(values) or only_shows(values):
            refuse_together(values)
        elif typed and not is_resumed:
            option = min(typed).removeprefix("store_").replace("_", "-")
            instead = ""
            if option == "patience":
                instead = "; the setting of a training is --set patience=N"
            raise click.UsageError(f"--{option} is for --judge and --model{instead}")
        if ctx.params["ranker"] != "sortnet" and (is_asked(values) or only_shows(values)):
            raise click.UsageError("a sortnet alone asks a judge: leave out --ranker")
        if len(values["question"]) > LONGEST["question"]:
            raise click.BadParameter(f"--question: at most {LONGEST['question']} characters")
        return judge

    @property
    def only_shows(self) -> bool:
        return only_shows(self.values)

    def is_asked(self, record: Mapping[str, Any] | None) -> bool:
        """Whether a judge is asked in the run, `record` if it is resumed.

        Raises:
            SortNetError: if the run was begun without one.
        """
        if record is None:
            return is_asked(self.values) or self.only_shows
        by = record.get("judged_by")
        if by is None and self.typed:
            option = min(self.typed).removeprefix("store_").replace("_", "-")
            raise SortNetError(f"the run was begun without a judge: leave out --{option}")
        return by is not None

    def check_budget(self, config: Config) -> None:
        """Refuse a judge that may give any number of answers, or too few."""
        if self.only_shows:
            return
        if config.judgements is None:
            raise click.UsageError("a judge needs --judgements N, how many answers it may give")
        if config.judgements < LEAST:
            raise click.UsageError(f"--judgements: a judge has to give {LEAST} answers at least")

    def record(self) -> dict[str, Any] | None:
        """The options as a run keeps them; None without a judge."""
        if not is_asked(self.values):
            return None
        record = {name: value for name, value in self.values.items() if name not in _SHOWING}
        prompt = Prompt(record["prompt"]) if record["model"] else None
        return {**record, "prompt_hash": prompt and prompt.hash}

    def documents(self, job: TrainingJob, progress: Progress) -> dict[Split, Items]:
        """The documents of both parts as they are shown; nothing where nobody is asked.

        Raises:
            SortNetError: if the judge that was given would be told nothing of them, or cannot be.
        """
        if not job.is_asked:
            return {}
        if self.values["judge"] is not None:
            refuse_missing_program(self.values["judge"])
        progress("reading what is shown of the documents")
        parts: dict[Split, Any] = {"train": job.train, "vali": job.vali}
        documents = {
            split: documents_of(part, find_data(job.data[split]), job.train)
            for split, part in parts.items()
        }
        judge = judge_of(self.values)
        if isinstance(judge, LanguageModel):
            refuse_without_content(documents["train"], judge)
        if judge is not None and not self.only_shows:
            judge.connect()  # refuses a key or a server that cannot be used
        return documents

    def show(self, job: TrainingJob, documents: Items, *, as_json: bool) -> None:
        """Show the prompt of a pair of training documents, or what asking would take."""
        model = judge_of({**self.values, "model": self.values["model"] or "model", "judge": None})
        assert isinstance(model, LanguageModel)
        i, j = all_pairs(job.train.offsets[:2])
        if not len(i):
            i, j = all_pairs(job.train.offsets)
        if self.values["estimate"]:
            i, j = all_pairs(job.train.offsets)
            some = np.random.default_rng(0).permutation(len(i))[:SAMPLE]
            i, j = i[some], j[some]
        question = self.values["question"]
        pairs = [
            pair_of_items(documents, a, b, id="example", question=question, instructions=None)
            for a, b in zip(i[:SAMPLE].tolist(), j[:SAMPLE].tolist(), strict=True)
        ]
        if self.values["show_prompt"]:
            show_prompt(Prompt(model.prompt), pairs[0], as_json=as_json)
            return
        n_pairs = job.config.judgements
        if n_pairs is None:
            raise click.UsageError("--estimate needs --judgements N, how many answers there are")
        show_estimate(model, n_pairs, pairs, as_json=as_json)

    @contextmanager
    def asking(
        self,
        training: TrainingRun,
        documents: Mapping[Split, Items],
        progress: Progress,
        *,
        is_own_store: bool,
    ) -> Iterator[TrainingRun]:
        """The run with its judge, which is ended at the end; the run itself where it has none."""
        job = training.job
        if not job.is_asked:
            yield training
            return
        values = self._values_in(training, is_own_store=is_own_store)
        judge = judge_of(values)
        connection = connect(values)
        if judge is None or connection is None:
            raise SortNetError("the store does not say who judges the run: give --judge or --model")
        refuse_without_content(documents["train"], judge)
        assert job.config.judgements is not None
        run_judge = RunJudge(
            connection, training.run, documents,
            question=values["question"], seed=training.config.seed,
            judgements=job.config.judgements, again=resume(str(training.folder)),
            closed=training.finished, progress=progress, notify=say,
        )  # fmt: skip
        with run_judge.opened():
            yield replace(training, judge=run_judge)

    def _values_in(self, training: TrainingRun, *, is_own_store: bool) -> dict[str, Any]:
        """The options of the run: as they are stored, but for those that were given now.

        A store that a folder names may be somebody else's, so no command is run, and no key sent
        to a server, that only such a store tells of.
        """
        stored = training.run.judge or {}
        values = {**self.values, **stored}
        values |= {name: self.values[name] for name in self.typed}
        if self.typed:
            _refuse_other_judge(replace(self, values=values), stored)
            training.run.set_judge(replace(self, values=values).record() or {})
        told_by_store = "judge" if stored.get("judge") is not None else "server"
        if not (is_own_store or told_by_store in self.typed or training.finished):
            raise SortNetError(
                f"{training.folder} names a store that is not yours by default: give "
                f"--{told_by_store} again, or --store"
            )
        return values


def _refuse_other_judge(now: CommandJudge, stored: Mapping[str, Any]) -> None:
    """Refuse to mix the answers of two judges."""
    if now.values["judge"] is not None and now.values["model"]:
        raise SortNetError("the run was begun with another judge: --judge or --model as before")
    record = now.record() or {}
    for name in _ALIKE:
        if name in stored and record.get(name) != stored[name]:
            option = name.removesuffix("_hash").replace("_", "-")
            raise SortNetError(
                f"cannot resume the run, it was started with another --{option}: answers of two "
                "judges would be mixed"
            )
