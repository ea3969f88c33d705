"""The judges that a training asks about its documents, as an argument of `train` and `resume`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from sortnet.messages import note, printable
from sortnet.preference.study import LONGEST, QUESTION
from store.asking.run_judge import RunJudge
from store.runs.judge_record import (
    is_stored_whole,
    other_argument,
    record_of,
    recorded_judge,
    records_by_name,
)
from store.runs.remembered_data import find_data
from store.runs.unfinished import resume_call, resume_command
from store.service.run_answers import AskedDocuments
from store.training.documents import asked_documents, refuse_without_content
from store.training.job import TrainingJob
from store.training.run_folder import JUDGED_BY, Folder
from store.training.training_run import TrainingRun

LEAST = 2  # the fewest answers of a judge: the training and the validation part need one each
# The argument by which messages name a judge of each class. Messages name a function by its own
# name.
_ARGUMENT_OF_JUDGE = {Program: "judge", LanguageModel: "model", Function: ""}


@dataclass(frozen=True, kw_only=True)
class AskedJudge:
    """The judges that a training asks about its documents, and the question.

    Attributes:
        judges: {name under which answers are stored: judge}. If empty, a new run has no judge, and
            a resumed run asks the stored judges.
        question: the question about each pair. If None, a resumed run asks its stored question, and
            a new run `Which is better?`.
        changes: {name: new value} in the record of each judge of a resumed run, see
            `judge_record`; changes that name no judge are for all. The stored judges are changed,
            and `judges` are not used. If None, `judges` replace the stored judges.
        names: {argument: its name in messages}, where the two differ.

    Raises:
        SortNetError: on a question that is no text, or too long.
    """

    judges: Mapping[str, MachineJudge] = field(default_factory=dict)
    question: str | None = None
    changes: Sequence[Mapping[str, Any]] | None = None
    names: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise a SortNetError if the question is no text or too long."""
        if self.question is None:
            return
        name = self._name("question")
        if not isinstance(self.question, str):
            raise SortNetError(f"{name}: {shown(self.question)} is no text")
        if len(self.question) > LONGEST["question"]:
            raise SortNetError(f"{name}: at most {LONGEST['question']} characters")

    @property
    def is_judge_passed(self) -> bool:
        """Whether `judges` replace the judges of a resumed run."""
        return bool(self.judges) and self.changes is None

    def _name(self, argument: str) -> str:
        """Return the name of an argument in messages: its option on the command line, if known."""
        return self.names.get(argument, argument)

    def judges_run(self, record: Mapping[str, Any] | None) -> bool:
        """Whether a run asks a judge about its documents, instead of reading grades.

        Args:
            record: the record of a resumed run; None for a new run.
        """
        if record is None:
            return bool(self.judges)
        return record.get("judged_by") is not None

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
        passed_names = self._passed_names()
        if judged_by is None and passed_names:
            raise SortNetError(f"the run was begun without a judge: leave out {min(passed_names)}")
        is_function = judged_by == JUDGED_BY["function"]
        if is_function and not self.judges and not folder.is_finished:
            # A function is not stored, and the rest of the run must ask it.
            raise _must_be_passed_again("a function", folder.path)

    def _changed_arguments(self) -> list[str]:
        """List the arguments of judges that are changed."""
        return [argument for changes in self.changes or () for argument in changes]

    def _passed_names(self) -> list[str]:
        """List the arguments that were passed, as messages name them."""
        arguments = self._changed_arguments()
        if self.is_judge_passed:
            arguments.append("judge")
        if self.question is not None:
            arguments.append("question")
        return [self._name(argument) for argument in arguments]

    def check_budget(self, config: Config) -> None:
        """Raise a SortNetError if the number of answers is not limited, or its limit is too low."""
        name = self._name("judgements")
        if config.judgements is None:
            raise SortNetError(f"a judge needs {name} N, how many answers it may give")
        if config.judgements < LEAST:
            raise SortNetError(f"{name}: a judge has to give {LEAST} answers at least")

    def check_connection(self) -> None:
        """Raise an error if a judge's program does not exist, or its key or server is invalid."""
        for judge in self.judges.values():
            if isinstance(judge, Program):
                refuse_missing_program(judge.command)
            judge.connect()  # raises an error on an invalid key or server

    def documents(self, job: TrainingJob, progress: Progress) -> AskedDocuments:
        """Read the documents of both parts as judges are shown them, or nothing without a judge.

        Raises:
            SortNetError: if a judge would see no content of the documents.
        """
        if not job.is_asked:
            return AskedDocuments()
        progress("reading what is shown of the documents")
        parts: dict[Split, Queries] = {"train": job.train, "vali": job.vali}
        paths = {split: find_data(job.data[split]) for split in parts}
        has_function = any(isinstance(judge, Function) for judge in self.judges.values())
        documents = asked_documents(parts, paths, as_rows=has_function)
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
        documents: AskedDocuments,
        progress: Progress,
        *,
        is_own_store: bool,
        notify: Callable[[str], None] = note,
    ) -> Iterator[TrainingRun]:
        """Connect the judges of a run within a `with` block, and yield the run with its judges.

        A run without a judge is yielded as it is.

        Args:
            training: the run.
            documents: the documents as the judges are shown them.
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
        connections = {}
        for name, judge in judges.items():
            name_in_messages = self.names.get(_ARGUMENT_OF_JUDGE[type(judge)], "")
            if len(judges) > 1:
                name_in_messages = f"{name_in_messages or 'judge'} {printable(name)}"
            connections[name] = judge.connect(name_in_messages, documents.value_of_id)
        run_judge = RunJudge(
            connections,
            training.run,
            documents,
            question=question,
            judgements=job.config.judgements,
            again=training.again or resume_command(str(training.folder)),
            closed=training.finished,
            progress=progress,
            notify=notify,
        )
        with run_judge.opened():
            yield replace(training, judge=run_judge)

    def _judges_and_question(
        self, training: TrainingRun, *, is_own_store: bool
    ) -> tuple[Mapping[str, MachineJudge], str]:
        """Return the stored judges and question of a run, after the changes that the caller passed.

        If the store has no judge of the run, return the judges that the caller passed.
        """
        stored = training.run.judge
        if stored is None:
            if not self.judges:
                raise SortNetError(
                    f"the store does not say who judges the run: pass {self._name('judge')}"
                )
            return self.judges, self.question or QUESTION
        stored_records = records_by_name(stored)
        question = self.question or next(iter(stored_records.values()))["question"]
        changes_by_name = self._changes_by_name(stored_records)
        judges = self._resumed_judges(stored_records, changes_by_name)
        is_changed = bool(self._passed_names())
        if training.finished and not is_changed:
            return judges, question  # a finished run asks nothing, so that nothing is checked
        records = _records_of(judges, question)
        for name, record in records.items():
            argument = other_argument(record, stored_records[name])
            if argument is not None:
                # "another judge" is a phrase, in which `judge` is not the name of an argument.
                raise _other_than_before("judge" if argument == "judge" else self._name(argument))
            if not training.finished and not self.is_judge_passed:
                self._check_stored_judge(
                    judges[name],
                    stored_records[name],
                    training.folder,
                    changes_by_name[name],
                    is_own_store=is_own_store,
                )
        if is_changed and not training.finished:
            training.run.set_judge(records)
        return judges, question

    def _check_stored_judge(
        self,
        judge: MachineJudge,
        record: Mapping[str, Any],
        folder: Folder,
        changes: Mapping[str, Any],
        *,
        is_own_store: bool,
    ) -> None:
        """Raise a SortNetError if a judge that was read from the store must not be asked.

        Args:
            judge: the judge to ask, read from the store and changed by `changes`.
            record: the record of the judge in the store.
            folder: the folder of the run, which names the store.
            changes: the changes of the record.
            is_own_store: whether the user chose the store. Another store may be another user's, and
                name a harmful program or a server that collects keys.
        """
        # A function is not stored. `check_resumed` has refused a judge that is a function, but the
        # key of a model may come from a function, too.
        if not is_stored_whole(record):
            raise _must_be_passed_again("a judge whose key comes from a function", folder.path)
        argument = "judge" if isinstance(judge, Program) else "server"
        if not is_own_store and argument not in changes:
            raise SortNetError(
                f"{folder} names a store that is not yours by default: give "
                f"{self.names.get(argument, 'judge')} again, or {self._name('store')}"
            )

    def _changes_by_name(
        self, stored: Mapping[str, Mapping[str, Any]]
    ) -> Mapping[str, Mapping[str, Any]]:
        """Return {name of a judge: the changes of its record} for the judges of a resumed run.

        Args:
            stored: {name: record} of the stored judges.

        Raises:
            SortNetError: on a change of an argument that the stored judges do not have, or of other
                judges.
        """
        for argument in self._changed_arguments():
            if not any(argument in record for record in stored.values()):
                raise SortNetError(
                    "cannot resume the run, it was started with another judge, which has no "
                    f"{self._name(argument)}"
                )
        changes = self.changes or [{}]
        if len(changes) == len(stored) == 1:
            return dict(zip(stored, changes, strict=True))
        if changes[0].keys().isdisjoint(("judge", "model")):
            # The changes are for all judges, but some of them may not have all arguments.
            return {
                name: {
                    argument: value for argument, value in changes[0].items() if argument in record
                }
                for name, record in stored.items()
            }
        by_name = {of_judge.get("judge", of_judge.get("model")): of_judge for of_judge in changes}
        if by_name.keys() != stored.keys():
            raise _others_than_before(stored)
        return {name: by_name[name] for name in stored}

    def _resumed_judges(
        self,
        stored: Mapping[str, Mapping[str, Any]],
        changes_by_name: Mapping[str, Mapping[str, Any]],
    ) -> Mapping[str, MachineJudge]:
        """Return {name: judge} of a resumed run, in place of the stored judges or as changed.

        Args:
            stored: {name: record} of the stored judges.
            changes_by_name: {name: the changes of the judge's record}.

        Raises:
            SortNetError: if judges with other names are passed.
        """
        if not self.is_judge_passed:
            return {
                name: recorded_judge({**record, **changes_by_name[name]})
                for name, record in stored.items()
            }
        if len(self.judges) == len(stored) == 1:
            return dict(zip(stored, self.judges.values(), strict=True))  # a program may have moved
        if self.judges.keys() != stored.keys():
            raise _others_than_before(stored)
        return {name: self.judges[name] for name in stored}  # the order decides who is asked


def _records_of(judges: Mapping[str, MachineJudge], question: str) -> dict[str, Any]:
    """Make {name: record} of judges that are asked a question."""
    return {name: record_of(judge, question) for name, judge in judges.items()}


def _others_than_before(names: Iterable[str]) -> SortNetError:
    """Make the error for resuming a run with other judges than those with these names."""
    return SortNetError(
        f"cannot resume the run, it was started with other judges: {' and '.join(names)}"
    )


def _other_than_before(name: str) -> SortNetError:
    """Make the error for resuming a run with another judge, or another argument of its judge.

    Args:
        name: the name of the judge or the argument in the message.
    """
    return SortNetError(
        f"cannot resume the run, it was started with another {name}: answers of two judges would "
        "be mixed"
    )


def _must_be_passed_again(judge: str, folder: Path) -> SortNetError:
    """Make the error for resuming a run without its judge, which is not stored.

    Args:
        judge: a description of the judge in words.
        folder: the folder of the run.
    """
    call = resume_call(str(folder))
    return SortNetError(f"the run asks {judge}, which is not stored: pass it again, {call}")


NOBODY = AskedJudge()
