"""Ask a machine judge about the pairs of a training run, and store each answer at once."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from sortnet.comparators import TrainableComparator
from sortnet.core import F32, I32, I64, SPLITS, Progress, Queries, Split
from sortnet.core.pairs import unpacked
from sortnet.errors import DataError, SortNetError, UnansweredError
from sortnet.judges.asked_question import AskedQuestion, asked_question
from sortnet.judges.budget import amount
from sortnet.judges.connection import JudgeConnection, Worker
from sortnet.judges.faults import Reason
from sortnet.judges.unanswered import skipped_text
from sortnet.judges.verdicts import Verdict
from sortnet.judges.worker_pool import WorkerPool
from sortnet.learning.pairs_to_ask import SortedPart, answers_about_vali, select_pairs
from sortnet.messages import count, cut, note, printable
from sortnet.preference import Question
from sortnet.preference.base import Pair
from store.asking.patience import StorePatience
from store.collections.collection_rows import LONGEST_NAME
from store.runs.run import Run
from store.service.run_answers import STRATEGY, AskedDocuments, RunAnswers

_ADDED_TOGETHER = 100  # further questions whose documents become items in one transaction
ATTEMPTS = 2  # times that a judge is asked about a pair if it fails
_PART_NAMES: Mapping[Split, str] = {"train": "training", "vali": "validation"}


def vali_pairs(vali: Queries, comparator: TrainableComparator, judgements: int, seed: int) -> I64:
    """Draw the pairs of the validation part that a judge is asked about.

    Each query gets about the same number of pairs. The rest of the budget is left to the training
    part.

    Args:
        vali: the validation part.
        comparator: sorts the documents.
        judgements: the budget of answers about both parts.
        seed: decides which pairs are drawn.

    Returns:
        (m,) the pairs, each packed into one whole number; `unpacked` returns the documents.
    """
    n_pairs = answers_about_vali(judgements)
    # Other random draws of a judge have the index of a part in their seed. `len(SPLITS)` is no such
    # index, so these draws are independent of the others.
    rng = np.random.default_rng([seed, len(SPLITS)])
    part = SortedPart(vali, comparator, n_pairs, rng)
    selected_keys, _ = select_pairs("even", part)
    return selected_keys


@dataclass(kw_only=True)
class _Pool(WorkerPool[Question]):
    """Asks workers about pairs of documents, and stores the answers in the run's collection.

    The items of a question are document numbers of the part that is asked about now.

    Attributes:
        answers: the answers of the run.
        documents: the documents of both parts.
        annotator: name under which the answers are stored.
        question: the question about each pair.
        judgements: most pairs that the run may have answers about.
        n_stored: number of pairs with a stored answer.
        split: the part that is asked about now.
        waiting: questions that no worker has been asked yet.
        is_last_attempt: whether a question that gets no answer now is not asked again.
    """

    answers: RunAnswers
    documents: AskedDocuments
    annotator: str
    question: str
    judgements: int
    n_stored: int
    split: Split = "train"
    waiting: list[Question] = field(default_factory=list)
    is_last_attempt: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        database = self.answers.collection.database
        self.patience = StorePatience(database, self.judge.patience, self.judge.name, self.notify)

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the documents of the part, as items."""
        return self.documents.items[self.split].ids

    def _stop_waiting(self) -> None:
        """At an interrupt, wait for the store's server no longer."""
        self.patience.stop()

    def _next(self, most: int) -> list[Question]:
        """Take up to `most` of the waiting questions, whose documents become items."""
        if self.is_over or most <= 0:
            return []
        questions = self.waiting[:most]
        self.waiting = self.waiting[most:]
        if self._new_documents(questions):
            # The next questions need items soon, too: fewer transactions add them together.
            documents = self._new_documents([*questions, *self.waiting[:_ADDED_TOGETHER]])
            items = self.documents.items[self.split].take(documents)
            self.patience.retry_while_away(partial(self.answers.add_items, items))
        return questions

    def _new_documents(self, questions: Sequence[Question]) -> list[int]:
        """List the documents of questions that are no items of the collection yet."""
        documents = sorted({document for question in questions for document in question.items})
        known_ids = self.answers.number_of_id
        return [document for document in documents if self.ids[document] not in known_ids]

    def _key(self, question: Question) -> Hashable:
        """Identify a question by its pair of documents."""
        return self.split, *question.pair

    def _items(self, question: Question) -> set[str]:
        """Return the ids of a question's documents as items."""
        return {self.ids[document] for document in question.items}

    def _asked_question(self, question: Question, *, turned: bool) -> AskedQuestion:
        """Write a question as a worker reads it; `turned` exchanges the two documents."""
        if turned:
            question = question.turned
        return asked_question(
            self.documents.shown[self.split],
            question.left,
            question.right,
            id=f"{self.split}-{question.left}-{question.right}",
            question=self.question,
            instructions=None,
        )

    def _items_answered_before(self) -> set[str]:
        """Return the ids of the documents whose order with others the judge has told."""
        targets = self.answers.targets(self.split)
        decided = [pair for pair, target in targets.items() if not math.isnan(target)]
        return {self.ids[document] for pair in decided for document in pair}

    def _is_asked_again(self, verdict: Verdict) -> bool:
        """Whether a program or a function may do better the next time."""
        return verdict.why is Reason.ERROR and not self.is_last_attempt

    def _keep_answer(self, question: Question, verdicts: Sequence[Verdict]) -> None:
        """Store the verdict on a pair; a second verdict is about the documents in reverse order."""
        numbers = [self.answers.number_of_id[self.ids[document]] for document in question.items]
        about_items = replace(question, items=tuple(numbers))
        in_orders = (about_items, about_items.turned)
        judgements = [
            verdict.judgement(in_order, self.annotator)
            for verdict, in_order in zip(verdicts, in_orders, strict=False)  # one verdict or two
        ]
        # If the reply to a commit is lost, the answers are appended again. The ids keep them from
        # being stored twice.
        judgement_ids = [secrets.token_hex(8) for _ in judgements]
        append = partial(self.answers.append, judgements, judgement_ids)
        self.patience.retry_while_away(append)
        self.answered += 1
        self.n_stored += 1

    def _progress(self) -> tuple[str, str]:
        """Return the number of answers and the number of questions left, in words."""
        n_left = len(self.waiting) + len(self._open)
        n_left_text = f"{n_left:,} left in this round" if n_left else ""
        return f"asked {self.n_stored:,} of {self.judgements:,}", n_left_text


class RunJudge:
    """Answers questions about the documents of a run, from stored answers or by asking a machine.

    Args:
        judge: the machine that is asked.
        annotator: name under which its answers are stored.
        run: the run, whose collection has the answers.
        documents: the documents of both parts.
        question: the question about each pair.
        judgements: most pairs that the run may have answers about.
        again: the command or the call that resumes the run, for messages.
        closed: whether nothing is asked any more, because the run has ended.
        progress: called with the progress in words.
        notify: called with messages about failures.
    """

    def __init__(
        self,
        judge: JudgeConnection,
        annotator: str,
        run: Run,
        documents: AskedDocuments,
        *,
        question: str,
        judgements: int,
        again: str,
        closed: bool,
        progress: Progress,
        notify: Callable[[str], None] = note,
    ) -> None:
        """Read the answers that the run has stored, and prepare to ask about further pairs.

        The arguments are described at the class.
        """
        self.judge = judge
        self._seed = run.seed
        self._again = again
        self._closed = closed
        self._workers: list[Worker] = []
        self._connections = ExitStack()
        self._answers = RunAnswers(run, create=True)
        self._pool = _Pool(
            judge=judge,
            answers=self._answers,
            documents=documents,
            annotator=cut(printable(" ".join(annotator.split())), LONGEST_NAME),
            question=question,
            judgements=judgements,
            n_stored=sum(self._answers.counts().values()),
            notify=notify,
            on_progress=progress,
        )
        self._n_failed = 0  # pairs at which the judge failed twice
        self._is_end_noted = False  # whether a message has told that nothing more is asked

    @contextmanager
    def opened(self) -> Iterator[RunJudge]:
        """Keep connections and programs open until the end of the `with` block.

        Raises:
            SortNetError: if the block fails because no answer of the judge prefers a document; the
                message names the judge.
        """
        try:
            with self._connections:
                yield self
        except DataError:
            undecided = self._undecided()
            if undecided is None:
                raise
            raise SortNetError(f"{self.judge.name}: {undecided}") from None
        finally:
            for worker in self._workers:
                worker.end()

    def parts(self, train: Queries, vali: Queries, vali_keys: I64) -> tuple[Queries, Queries]:
        """Return the training part with this judge, and the validation part with its answers.

        Args:
            train: the training part.
            vali: the validation part.
            vali_keys: the pairs of the validation part that the judge is asked about, packed as
                `vali_pairs` returns them.

        Raises:
            SortNetError: if the judge fails; the message has the command that resumes the run.
        """
        if len(vali_keys):
            self._target("vali", vali, *unpacked(vali_keys))
        judge = partial(self._target, "train")
        return replace(train, judge=judge, judged=None), self.judged("vali", vali)

    def judged(self, split: Split, part: Queries) -> Queries:
        """Copy a part with the stored answers about its documents, and without a judge."""
        return replace(part, judge=None, judged=self._answers.pairs(split))

    def _undecided(self) -> str | None:
        """Return why nothing can be learned if a part has only ties and skips; else None."""
        for split, part in _PART_NAMES.items():
            targets = list(self._answers.targets(split).values())  # NaN: a skip; 0.5: a tie
            n_skipped = sum(map(math.isnan, targets))
            n_ties = targets.count(0.5)
            if targets and n_skipped + n_ties == len(targets):
                answers = f"{count(n_ties, 'tie')} and {count(n_skipped, 'skip')}"
                return f"answered with {answers} about {part} pairs, so there is nothing to learn"
        return None

    def facts(self) -> dict[str, Any]:
        """Return the numbers of answers and failures and the cost, for JSON.

        `cost_in_all` is the cost of all stored answers, of earlier processes too; None: not known.
        """
        return {
            "answers": self._answers.counts(),
            "collection": self._answers.collection.name,
            "skipped": dict(self._pool.skipped),
            "failed": self._n_failed,
            **self.judge.spent_facts(),
            "cost_in_all": self._answers.cost(),
        }

    def text(self) -> str:
        """Return the numbers of answers and failures and the cost, in words."""
        counts = self._answers.counts()
        phrases = [f"{counts['train']:,} training pairs and {counts['vali']:,} validation pairs"]
        if self._pool.skipped:
            phrases.append(skipped_text(self._pool.skipped))
        if self._n_failed:
            phrases.append(f"{self._n_failed:,} failed")
        spent = self.judge.spent_text()
        if spent:
            phrases.append(spent)
        cost = self._answers.cost()
        if cost is not None:
            phrases.append(f"all answers cost {amount(cost)}")
        return ", ".join(phrases)

    def _target(self, split: Split, queries: Queries, i: I64 | I32, j: I64 | I32) -> F32:
        """Return the probability that document i[k] is better than document j[k], for m pairs.

        Pairs without an answer are asked about first, unless the run has ended.

        Args:
            split: name of the part.
            queries: the part, which every judge gets; this judge needs only the numbers.
            i, j: (m,) numbers of documents.

        Returns:
            (m,) the probabilities; NaN for a pair without an answer.
        """
        lower, higher = np.minimum(i, j).tolist(), np.maximum(i, j).tolist()
        pairs = list(zip(lower, higher, strict=True))
        targets = self._answers.targets(split)
        unanswered = [pair for pair in pairs if pair not in targets]
        if unanswered and not self._closed:
            self._ask(split, unanswered)
            targets = self._answers.targets(split)
        # Targets are about the document with the lower number.
        p_lower = np.array([targets.get(pair, math.nan) for pair in pairs], np.float32)
        return np.where(np.asarray(i) < np.asarray(j), p_lower, 1 - p_lower).astype(np.float32)

    def _ask(self, split: Split, pairs: Sequence[Pair]) -> None:
        """Ask about pairs, up to twice about each pair, and store the answers.

        Raises:
            SortNetError: if the judge fails; the message has the command that resumes the run.
        """
        pool = self._pool
        if not self._workers:
            question = printable(" ".join(pool.question.split()))  # people see it in one line
            begin = partial(self._answers.begin, pool.annotator, question)
            pool.patience.retry_while_away(begin)
            self._connections.enter_context(self.judge.open_connections())
            self._workers = list(self.judge.make_workers())
        pool.split = split
        unanswered = pairs
        # The second round asks only the questions at which the judge failed in the first round.
        for attempt in range(1, ATTEMPTS + 1):
            pool.is_last_attempt = attempt == ATTEMPTS
            pool.waiting = [self._question(split, pair) for pair in unanswered]
            if pool.waiting and not pool.is_over:
                pool.ask_all(self._workers)
            targets = self._answers.targets(split)
            unanswered = [pair for pair in pairs if pair not in targets]
        self._end_round(len(unanswered), n_pairs=len(pairs))

    def _end_round(self, n_unanswered: int, *, n_pairs: int) -> None:
        """Count the failures of a round of questions, and raise an error if the judge has failed.

        If the judge's budget is spent instead, the unanswered pairs are no failures, and a message
        tells once that nothing more is asked.

        Args:
            n_unanswered: number of pairs that the round left unanswered.
            n_pairs: number of pairs that the round was about.

        Raises:
            SortNetError: if the judge has failed.
            Exception: the exception that a function raised as a judge.
        """
        pool = self._pool
        why_no_more = self.judge.why_no_more()  # why the budget is spent; empty if it is not
        fault = pool.fault
        if not why_no_more:
            self._n_failed += n_unanswered
            if not fault and n_unanswered == n_pairs:
                fault = f"failed at all {count(n_unanswered, 'pair')}; {pool.last_fault}"
        stored = f"{pool.n_stored:,} of {pool.judgements:,} answers are kept"
        if fault:
            raise self._failure(fault, stored)
        if why_no_more and not self._is_end_noted:
            self._is_end_noted = True
            pool.notify(f"{why_no_more}: {stored}, and are learned from")

    def _failure(self, fault: str, stored: str) -> BaseException:
        """Make the error that reports a fault of the judge, and tells how to resume the run.

        If the judge is a function that raised an exception, this exception gets the report as a
        note.

        Args:
            stored: tells how many answers are stored.
        """
        name = self._pool.judge.name
        next_step = f"{stored}: go on with {self._again}"
        cause = self._pool.cause
        if cause is not None:
            cause.add_note(f"{name}: {next_step}")
            return cause
        error = UnansweredError if self._pool.is_unanswered else SortNetError
        return error(f"{name}: {fault}; {next_step}")

    def _question(self, split: Split, pair: Pair) -> Question:
        """Make the question about a pair; the seed decides which document is shown left."""
        rng = np.random.default_rng([self._seed, SPLITS.index(split), *pair])
        question = Question(pair, STRATEGY, 1.0)
        return question if rng.random() < 0.5 else question.turned
