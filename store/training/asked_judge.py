"""The judge that a training asks about its documents, as `train` and `resume` take it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sortnet.config import Config
from sortnet.core import Progress, Queries, Split
from sortnet.errors import SortNetError
from sortnet.files import shown
from sortnet.judges import Function, LanguageModel, Program
from sortnet.judges.any_judge import MachineJudge
from sortnet.judges.program import refuse_missing_program
from sortnet.messages import note
from sortnet.preference.study import LONGEST, QUESTION
from store.runs.judge_record import (
    is_stored_whole,
    kind_of,
    other_argument,
    record_of,
    recorded_judge,
)
from store.runs.remembered_data import find_data
from store.runs.unfinished import resume_call, resume_command
from store.service.run_judge import RunJudge
from store.training.documents import (
    AskedDocuments,
    documents_for_function,
    documents_of,
    refuse_without_content,
)
from store.training.job import TrainingJob
from store.training.run_folder import DONE, JUDGED_BY, Folder
from store.training.training_run import TrainingRun

LEAST = 2  # answers: one is about the validation part


@dataclass(frozen=True, kw_only=True)
class AskedJudge:
    """Whom a training asks about its documents, and what.

    Attributes:
        judge: who is asked; None: nobody, or whoever a resumed run asked before.
        question: what is asked; None: as before, in a new run `Which is better?`.
        changes: {name: value} of the record of a resumed run's judge, see `judge_record`, in place
            of `judge`, which a new run takes; None: `judge` is taken whole.
        names: {argument: how messages call it}, where that is not its name.

    Raises:
        SortNetError: on a question that is no text, or too long.
    """

    judge: MachineJudge | None = None
    question: str | None = None
    changes: Mapping[str, Any] | None = None
    names: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        question, name = self.question, self._name("question")
        if question is None:
            return
        if not isinstance(question, str):
            raise SortNetError(f"{name}: {shown(question)} is no text")
        if len(question) > LONGEST["question"]:
            raise SortNetError(f"{name}: at most {LONGEST['question']} characters")

    def _name(self, argument: str) -> str:
        return self.names.get(argument, argument)

    def is_asked(self, record: Mapping[str, Any] | None, folder: Path) -> bool:
        """Whether a judge is asked in the run of a folder.

        Args:
            record: of the run, if it is resumed.

        Raises:
            SortNetError: if the resumed run was begun without a judge or with one of another kind,
                or asked a function and none is passed.
        """
        if record is None:
            return self.judge is not None
        judged_by = record.get("judged_by")
        passed = self._passed()
        if judged_by is None and passed:
            raise SortNetError(f"the run was begun without a judge: leave out {min(passed)}")
        whole = self.record() if self.changes is None else None
        if whole is not None and JUDGED_BY[kind_of(whole)] != judged_by:
            raise _other("judge")
        is_of_function = judged_by == JUDGED_BY["function"] and record.get("phase") != DONE
        if is_of_function and whole is None:
            raise _not_stored("a function", folder)
        return judged_by is not None

    def _passed(self) -> list[str]:
        """The arguments that were passed, as messages call them."""
        passed = [*self.changes] if self.changes is not None else []
        if self.judge is not None and self.changes is None:
            passed.append("judge")
        if self.question is not None:
            passed.append("question")
        return [self._name(argument) for argument in passed]

    def check_budget(self, config: Config) -> None:
        """Refuse settings that let a judge give any number of answers, or too few."""
        name = self._name("judgements")
        if config.judgements is None:
            raise SortNetError(f"a judge needs {name} N, how many answers it may give")
        if config.judgements < LEAST:
            raise SortNetError(f"{name}: a judge has to give {LEAST} answers at least")

    def check(self) -> None:
        """Refuse a program that is not there, and a key or a server that cannot be used."""
        if isinstance(self.judge, Program):
            refuse_missing_program(self.judge.command)
        if self.judge is not None:
            self.judge.connect()

    def documents(self, job: TrainingJob, progress: Progress) -> AskedDocuments:
        """The documents of both parts as the judge is shown them; none where nobody is asked.

        Raises:
            SortNetError: if the judge would be told nothing of them.
        """
        if not job.is_asked:
            return AskedDocuments()
        progress("reading what is shown of the documents")
        parts: dict[Split, Queries] = {"train": job.train, "vali": job.vali}
        paths = {split: find_data(job.data[split]) for split in parts}
        if isinstance(self.judge, Function):
            return documents_for_function(parts, paths)
        items = {
            split: documents_of(part, paths[split], job.train) for split, part in parts.items()
        }
        if self.judge is not None:
            refuse_without_content(items["train"], self.judge, self.names)
        return AskedDocuments(items)

    def record(self) -> dict[str, Any] | None:
        """The judge as a new run keeps it; None without a judge."""
        return None if self.judge is None else record_of(self.judge, self.question or QUESTION)

    def again(self, folder: Path) -> str | None:
        """The call that resumes a run whose judge is passed again; None: the command resumes it."""
        record = self.record()
        return None if record is None or is_stored_whole(record) else resume_call(str(folder))

    @contextmanager
    def asking(
        self,
        training: TrainingRun,
        documents: AskedDocuments,
        progress: Progress,
        *,
        is_own_store: bool,
        notify: Callable[[str], None] = note,
    ) -> Iterator[TrainingRun]:
        """The run with its judge, which is ended at the end; the run itself where it has none.

        Args:
            is_own_store: whether the user chose the store. Another one may be somebody else's: no
                command is run, and no key sent to a server, that only such a store tells of.
            notify: called with messages about failures.

        Raises:
            SortNetError: if the judge is another one than before, or is to be passed again.
        """
        job = training.job
        if not job.is_asked:
            yield training
            return
        judge, question = self._judge_and_question(training, is_own_store=is_own_store)
        refuse_without_content(documents.items["train"], judge, self.names)
        assert job.config.judgements is not None
        connection = judge.connect(self._name_of(judge), documents.value_of_id)
        run_judge = RunJudge(
            connection, training.run, documents.items,
            question=question, seed=training.config.seed,
            judgements=job.config.judgements,
            again=training.again or resume_command(str(training.folder)),
            closed=training.finished, progress=progress, notify=notify,
        )  # fmt: skip
        with run_judge.opened():
            yield replace(training, judge=run_judge)

    def _name_of(self, judge: MachineJudge) -> str:
        """What messages call a judge; empty: its own name."""
        argument = {Program: "judge", LanguageModel: "model", Function: ""}[type(judge)]
        return self.names.get(argument, "")

    def _judge_and_question(
        self, training: TrainingRun, *, is_own_store: bool
    ) -> tuple[MachineJudge, str]:
        """The judge of the run and its question: as stored, but for what was passed now."""
        stored = training.run.judge
        if stored is None:
            if self.judge is None:
                raise SortNetError(
                    f"the store does not say who judges the run: pass {self._name('judge')}"
                )
            return self.judge, self.question or QUESTION
        judge, question = self._resumed(stored)
        if training.finished and not self._passed():
            return judge, question  # nobody is asked
        record = record_of(judge, question)
        if (argument := other_argument(record, stored)) is not None:
            raise _other("judge" if argument == "judge" else self._name(argument))
        if not training.finished:
            self._check_passed_again(judge, stored, training.folder, is_own_store)
            if self._passed():
                training.run.set_judge(record)
        return judge, question

    def _check_passed_again(
        self,
        judge: MachineJudge,
        stored: Mapping[str, Any],
        folder: Folder,
        is_own_store: bool,
    ) -> None:
        """Refuse to ask a judge that is not stored whole, or that only another's store tells of."""
        if self.judge is not None and self.changes is None:
            return
        if not is_stored_whole(stored):
            raise _not_stored("a judge whose key comes from a function", folder.path)
        told_by_store = "judge" if isinstance(judge, Program) else "server"
        if not (is_own_store or told_by_store in (self.changes or ())):
            raise SortNetError(
                f"{folder} names a store that is not yours by default: give "
                f"{self.names.get(told_by_store, 'judge')} again, or {self._name('store')}"
            )

    def _resumed(self, stored: Mapping[str, Any]) -> tuple[MachineJudge, str]:
        """The judge and the question of a resumed run, with what was passed now."""
        question = self.question or stored["question"]
        judge = recorded_judge(stored)
        if self.changes is None:
            return self.judge or judge, question
        names_of_judge = record_of(judge, question).keys()
        for argument in self.changes:
            if argument not in names_of_judge:
                raise SortNetError(
                    "cannot resume the run, it was started with another judge, which has no "
                    f"{self._name(argument)}"
                )
        return recorded_judge({**stored, **self.changes}), question


def _other(name: str) -> SortNetError:
    return SortNetError(
        f"cannot resume the run, it was started with another {name}: answers of two judges would "
        "be mixed"
    )


def _not_stored(what: str, folder: Path) -> SortNetError:
    call = resume_call(str(folder))
    return SortNetError(f"the run asks {what}, which is not stored: pass it again, {call}")


NOBODY = AskedJudge()
