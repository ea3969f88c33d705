"""The judges that a training asks about its documents, as an argument of `train` and `resume`."""

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
from sortnet.judges import Function
from sortnet.judges.any_judge import MachineJudge, connect_judges
from sortnet.messages import note
from sortnet.preference.study import LONGEST, QUESTION
from store.asking.run_judge import RunJudge
from store.runs.judge_record import (
    is_stored_whole,
    other_argument,
    record_of,
    recorded_judge,
)
from store.runs.resuming import find_data, resume_call, resume_command
from store.service.run_answers import AskedDocuments
from store.training.documents import asked_documents, refuse_without_content
from store.training.job import TrainingJob
from store.training.run_folder import JUDGED_BY, Folder
from store.training.training_run import TrainingRun

LEAST = 2  # the fewest answers of a judge: the training and the validation part need one each


@dataclass(frozen=True, kw_only=True)
class AskedJudge:
    """The judges that a training asks about its documents, and the question.

    Attributes:
        judges: {name under which answers are stored: judge}. If empty, a new run has no judge, and
            a resumed run asks the stored judges.
        question: the question about each pair. If None, a resumed run asks its stored question, and
            a new run `Which is better?`.
        names: {argument: its name in messages}, where the two differ.

    Raises:
        SortNetError: on a question that is no text, or too long.
    """

    judges: Mapping[str, MachineJudge] = field(default_factory=dict)
    question: str | None = None
    names: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise a SortNetError if the question is no text or too long."""
        name = self._name("question")
        if not isinstance(self.question, str | None):
            raise SortNetError(f"{name}: {shown(self.question)} is no text")
        if len(self.question or "") > LONGEST["question"]:
            raise SortNetError(f"{name}: at most {LONGEST['question']} characters")

    def _name(self, argument: str) -> str:
        """Return the name of an argument in messages: its option on the command line, if known."""
        return self.names.get(argument, argument)

    def check_resumed(self, record: Mapping[str, Any], folder: Folder) -> None:
        """Check that a run can be resumed with the passed arguments.

        Args:
            record: the record of the resumed run.
            folder: the folder of the run.

        Raises:
            SortNetError: if the run was begun without a judge and an argument of judges is passed,
                or if it asks a function that is not passed again.
        """
        judged_by = record.get("judged_by")
        if judged_by is None and (self.judges or self.question is not None):
            name = self._name("judge" if self.judges else "question")
            raise SortNetError(f"the run was begun without a judge: leave out {name}")
        is_function = judged_by == JUDGED_BY["function"]
        if is_function and not self.judges and not folder.is_finished:
            # A function is not stored, and the rest of the run must ask it.
            raise _must_be_passed_again("a function", folder.path)

    def check_budget(self, config: Config) -> None:
        """Raise a SortNetError if the number of answers is not limited, or its limit is too low."""
        name = self._name("judgements")
        if config.judgements is None:
            raise SortNetError(f"a judge needs {name} N, how many answers it may give")
        if config.judgements < LEAST:
            raise SortNetError(f"{name}: a judge has to give {LEAST} answers at least")

    def documents(self, job: TrainingJob, progress: Progress) -> AskedDocuments:
        """Read the documents of both parts in the form that judges see; nothing without a judge.

        Raises:
            SortNetError: if a judge would see no content of the documents.
        """
        if not job.is_asked:
            return AskedDocuments()
        progress("reading what is shown of the documents")
        queries: dict[Split, Queries] = {"train": job.train, "vali": job.vali}
        paths = {split: find_data(job.data[split]) for split in queries}
        has_function = any(isinstance(judge, Function) for judge in self.judges.values())
        documents = asked_documents(queries, paths, as_rows=has_function)
        for judge in self.judges.values():
            refuse_without_content(documents.shown["train"], judge, self.names)
        return documents

    def records(self) -> dict[str, Any] | None:
        """Make {name: record} of the judges for a new run; None without a judge."""
        return _records_of(self.judges, self.question or QUESTION) if self.judges else None

    def again(self, folder: Path) -> str | None:
        """Return the Python call that resumes a run whose judges must be passed again.

        Return None if the judges are stored, so that the command line can resume the run.
        """
        if all(map(is_stored_whole, (self.records() or {}).values())):
            return None
        return resume_call(str(folder))

    @contextmanager
    def asking(
        self,
        training: TrainingRun,
        progress: Progress,
        *,
        is_own_store: bool,
        notify: Callable[[str], None] = note,
    ) -> Iterator[TrainingRun]:
        """Connect the judges of a run within a `with` block, and yield the run with its judges.

        A run without a judge is yielded as it is.

        Args:
            training: the run.
            progress: called with a line about each step.
            is_own_store: whether the user chose the store. Another store may be another user's: a
                command that only this store names is not run, and a server that only this store
                names gets no key.
            notify: called with messages about failures.

        Raises:
            SortNetError: if the judges are others than before, or must be passed again.
        """
        job = training.job
        if not job.is_asked:
            yield training
            return
        judges, question = self._judges_and_question(training, is_own_store=is_own_store)
        assert job.config.judgements is not None
        run_judge = RunJudge(
            connect_judges(judges, job.documents.value_of_id),
            training.run,
            job.documents,
            question=question,
            judgements=job.config.judgements,
            again=training.again or resume_command(str(training.folder)),
            closed=training.finished,
            progress=progress,
            notify=notify,
        )
        with run_judge.connected():
            yield replace(training, judge=run_judge)

    def _judges_and_question(
        self, training: TrainingRun, *, is_own_store: bool
    ) -> tuple[Mapping[str, MachineJudge], str]:
        """Return the judges and the question of a run: those passed, or those stored.

        A finished run asks nothing, so that nothing is checked if nothing is passed.

        Raises:
            SortNetError: if the answers of two judges would be mixed, or a judge must be passed.
        """
        stored = training.run.judge
        assert stored is not None
        question = self.question or next(iter(stored.values()))["question"]
        if not self.judges:
            for record in () if training.finished else stored.values():
                self._check_stored(record, training.folder, is_own_store=is_own_store)
            judges = {name: recorded_judge(record) for name, record in stored.items()}
        elif len(self.judges) == len(stored) == 1:
            judges = dict(
                zip(stored, self.judges.values(), strict=True)
            )  # a program may have moved
        elif self.judges.keys() == stored.keys():
            judges = {name: self.judges[name] for name in stored}  # the order decides who is asked
        else:
            names = " and ".join(stored)
            raise SortNetError(f"cannot resume the run, it was started with other judges: {names}")
        if not self.judges and self.question is None:
            return judges, question
        records = _records_of(judges, question)
        for name, record in records.items():
            argument = other_argument(record, stored[name])
            if argument is not None:
                # "another judge" is a phrase, in which `judge` is not the name of an argument.
                change = "judge" if argument == "judge" else self._name(argument)
                raise SortNetError(
                    f"cannot resume the run, it was started with another {change}: answers of two "
                    "judges would be mixed"
                )
        if not training.finished:
            training.run.set_judge(records)
        return judges, question

    def _check_stored(
        self, record: Mapping[str, Any], folder: Folder, *, is_own_store: bool
    ) -> None:
        """Raise a SortNetError if a judge that was read from the store must not be asked.

        Args:
            record: the record of the judge in the store.
            folder: the folder of the run, which names the store.
            is_own_store: whether the user chose the store. Another store may be another user's, and
                name a harmful program or a server that collects keys.
        """
        # A function is not stored. `check_resumed` has refused a judge that is a function, but the
        # key of a model may come from a function, too.
        if not is_stored_whole(record):
            raise _must_be_passed_again("a judge whose key comes from a function", folder.path)
        if not is_own_store:
            raise SortNetError(
                f"{folder} names a store that is not yours by default: give "
                f"{self._name('judge')} again, or {self._name('store')}"
            )


def _records_of(judges: Mapping[str, MachineJudge], question: str) -> dict[str, Any]:
    """Make {name: record} of judges that are asked a question."""
    return {name: record_of(judge, question) for name, judge in judges.items()}


def _must_be_passed_again(judge: str, folder: Path) -> SortNetError:
    """Make the error for resuming a run without its judge, which is not stored.

    Args:
        judge: a description of the judge in words.
        folder: the folder of the run.
    """
    call = resume_call(str(folder))
    return SortNetError(f"the run asks {judge}, which is not stored: pass it again, {call}")


NOBODY = AskedJudge()
