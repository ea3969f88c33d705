"""Ask a machine judge about the pairs of a training run, and store each answer at once."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from sortnet.comparators import TrainableComparator
from sortnet.core import F32, I32, I64, SPLITS, Progress, Queries, Split
from sortnet.core.pairs import unpacked
from sortnet.errors import DataError, SortNetError, UnansweredError
from sortnet.items import Items
from sortnet.judges.asked_question import AskedQuestion, asked_question
from sortnet.judges.connection import JudgeConnection, Worker
from sortnet.judges.faults import Reason
from sortnet.judges.unanswered import skipped_text
from sortnet.judges.verdicts import Verdict
from sortnet.judges.worker_pool import WorkerPool
from sortnet.learning.pairs_to_ask import SortedPart, answers_about_vali, select_pairs
from sortnet.messages import count, note
from sortnet.preference import Question
from store.runs.judge_answers import JudgeAnswer, judged_pairs, target_of, targets_of
from store.runs.run import Run
from store.service.patience import StorePatience

# The part, and the numbers of two documents of the part, the lower number first.
PairOfSplit: TypeAlias = tuple[Split, int, int]

STRATEGY = "loop"  # strategy of the questions whose pairs the learning loop chose
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
    """Asks workers about pairs of documents, and stores the answers in the run.

    Attributes:
        run: the run that stores the answers.
        documents: {part: its documents in the order of their numbers}.
        question: the question about each pair.
        judgements: most answers that the run may store.
        n_stored: number of pairs with a stored answer.
        split: the part that is asked about now.
        waiting: questions that no worker has been asked yet; their items are document numbers.
        targets: {pair: probability that its first document is better} for the answered pairs.
        is_last_attempt: whether a question that gets no answer now is not asked again.
    """

    run: Run
    documents: Mapping[Split, Items]
    question: str
    judgements: int
    n_stored: int = 0
    split: Split = "train"
    waiting: list[Question] = field(default_factory=list)
    targets: dict[PairOfSplit, float] = field(default_factory=dict)
    is_last_attempt: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._patience = StorePatience(
            self.run.database, self.judge.patience, self.judge.name, self.notify
        )

    def _stop_waiting(self) -> None:
        """At an interrupt, wait for the store's server no longer."""
        self._patience.stop()

    def _next(self, most: int) -> list[Question]:
        """Take up to `most` of the waiting questions."""
        if self.is_over or most <= 0:
            return []
        questions = self.waiting[:most]
        self.waiting = self.waiting[most:]
        return questions

    def queue_unanswered(self, split: Split, questions: Sequence[Question]) -> None:
        """Queue each question without an answer; `split` is the part of the data."""
        self.split = split
        self.waiting = [
            question for question in questions if self.pair_of(question) not in self.targets
        ]

    def pair_of(self, question: Question) -> PairOfSplit:
        """Return the pair of documents that a question is about."""
        return self.split, *question.pair

    def _key(self, question: Question) -> Hashable:
        """Identify a question by its pair of documents."""
        return self.pair_of(question)

    def _items(self, question: Question) -> set[str]:
        """Return the ids of a question's documents."""
        ids = self.documents[self.split].ids
        return {ids[question.left], ids[question.right]}

    def _asked_question(self, question: Question, *, turned: bool) -> AskedQuestion:
        """Write a question as a worker reads it; `turned` exchanges the two documents."""
        if turned:
            question = question.turned
        return asked_question(
            self.documents[self.split],
            question.left,
            question.right,
            id=f"{self.split}-{question.left}-{question.right}",
            question=self.question,
            instructions=None,
        )

    def _items_answered_before(self) -> set[str]:
        """Return the ids of the documents whose order with others the judge has told."""
        ids = self.documents[self.split].ids
        decided = [pair for pair, target in self.targets.items() if not math.isnan(target)]
        return {ids[doc] for split, *docs in decided if split == self.split for doc in docs}

    def _is_asked_again(self, verdict: Verdict) -> bool:
        """Whether a program or a function may do better the next time."""
        return verdict.why is Reason.ERROR and not self.is_last_attempt

    def _keep_answer(self, question: Question, verdicts: Sequence[Verdict]) -> None:
        """Store the verdict on a pair; a second verdict is about the documents in reverse order."""
        orders = [(question.left, question.right), (question.right, question.left)]
        answers = [
            JudgeAnswer(left, right, verdict.answer, **verdict.facts(), at=time.time())
            for (left, right), verdict in zip(orders, verdicts, strict=False)  # one verdict or two
        ]
        self._patience.retry_while_away(partial(self.run.add_answers, self.split, answers))
        self.targets[self.pair_of(question)] = target_of(answers)
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
        run: the run that stores the answers.
        documents: {part: its documents in the order of their numbers}.
        question: the question about each pair.
        seed: decides which document of a pair is shown left.
        judgements: most answers that the run may store.
        again: the command or the call that resumes the run, for messages.
        closed: whether nothing is asked any more, because the run has ended.
        progress: called with the progress in words.
        notify: called with messages about failures.
    """

    def __init__(
        self,
        judge: JudgeConnection,
        run: Run,
        documents: Mapping[Split, Items],
        *,
        question: str,
        seed: int,
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
        self._seed = seed
        self._again = again
        self._closed = closed
        self._notify = notify
        self._workers: list[Worker] = []
        self._connections = ExitStack()
        targets: dict[PairOfSplit, float] = {
            (split, low, high): target
            for split in SPLITS
            for (low, high), target in targets_of(run.answers(split)).items()
        }
        self._pool = _Pool(
            judge=judge,
            run=run,
            documents=documents,
            question=question,
            judgements=judgements,
            n_stored=len(targets),
            targets=targets,
            notify=notify,
            on_progress=lambda text: progress(judge.progress(text)),
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
            self._answers("vali", vali, *unpacked(vali_keys))
        judge = partial(self._answers, "train")
        return replace(train, judge=judge, judged=None), self.judged("vali", vali)

    def judged(self, split: Split, part: Queries) -> Queries:
        """Copy a part with the stored answers about its documents, and without a judge."""
        return replace(part, judge=None, judged=judged_pairs(self._targets_of(split)))

    def _targets_of(self, split: Split) -> dict[tuple[int, int], float]:
        """Return {pair: probability that its first document is better} for a part's answers.

        The document with the lower number is first. The probability is NaN after a skip.
        """
        return {
            (low, high): target
            for (split_of_pair, low, high), target in self._pool.targets.items()
            if split_of_pair == split
        }

    def _undecided(self) -> str | None:
        """Return why nothing can be learned if a part has only ties and skips; else None."""
        for split, part in _PART_NAMES.items():
            targets = list(self._targets_of(split).values())  # NaN: a skip; 0.5: a tie
            n_skipped = sum(map(math.isnan, targets))
            n_ties = targets.count(0.5)
            if targets and n_skipped + n_ties == len(targets):
                answers = f"{count(n_ties, 'tie')} and {count(n_skipped, 'skip')}"
                return f"answered with {answers} about {part} pairs, so there is nothing to learn"
        return None

    def facts(self) -> dict[str, Any]:
        """Return the numbers of answers and failures and the cost, for JSON."""
        counts = {split: len(self._targets_of(split)) for split in SPLITS}
        return {
            "answers": counts,
            "skipped": dict(self._pool.skipped),
            "failed": self._n_failed,
            **self.judge.spent_facts(),
        }

    def text(self) -> str:
        """Return the numbers of answers and failures and the cost, in words."""
        n_train = len(self._targets_of("train"))
        n_vali = len(self._targets_of("vali"))
        phrases = [f"{n_train:,} training pairs and {n_vali:,} validation pairs"]
        if self._pool.skipped:
            phrases.append(skipped_text(self._pool.skipped))
        if self._n_failed:
            phrases.append(f"{self._n_failed:,} failed")
        spent = self.judge.spent_text()
        if spent:
            phrases.append(spent)
        return ", ".join(phrases)

    def _answers(self, split: Split, queries: Queries, i: I64 | I32, j: I64 | I32) -> F32:
        """Return the probability that document i[k] is better than document j[k], for m pairs.

        Pairs without an answer are asked about first, unless the run has ended.

        Args:
            split: name of the part.
            queries: the part, which every judge gets; this judge needs only the numbers.
            i, j: (m,) numbers of documents.

        Returns:
            (m,) the probabilities; NaN for a pair without an answer.
        """
        lower = np.minimum(i, j).tolist()
        higher = np.maximum(i, j).tolist()
        pairs = [(split, low, high) for low, high in zip(lower, higher, strict=True)]
        targets = self._pool.targets
        unanswered = [pair for pair in pairs if pair not in targets]
        if unanswered and not self._closed:
            self._ask(split, unanswered)
        # Stored probabilities are about the document with the lower number.
        p_lower = np.array([targets.get(pair, math.nan) for pair in pairs], np.float32)
        return np.where(np.asarray(i) < np.asarray(j), p_lower, 1 - p_lower).astype(np.float32)

    def _ask(self, split: Split, pairs: Sequence[PairOfSplit]) -> None:
        """Ask about pairs, up to twice about each pair, and store the answers.

        Raises:
            SortNetError: if the judge fails; the message has the command that resumes the run.
        """
        if not self._workers:
            self._connections.enter_context(self.judge.open_connections())
            self._workers = list(self.judge.make_workers())
        pool = self._pool
        questions = [self._question(split, low, high) for split, low, high in pairs]
        # The second round asks only the questions at which the judge failed in the first round.
        for attempt in range(1, ATTEMPTS + 1):
            pool.is_last_attempt = attempt == ATTEMPTS
            pool.queue_unanswered(split, questions)
            if pool.waiting and not pool.is_over:
                pool.ask_all(self._workers)
        n_unanswered = sum(pair not in pool.targets for pair in pairs)
        self._end_round(n_unanswered, n_pairs=len(pairs))

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
            self._notify(f"{why_no_more}: {stored}, and are learned from")

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

    def _question(self, split: Split, low: int, high: int) -> Question:
        """Make the question about a pair; the seed decides which document is shown left."""
        rng = np.random.default_rng([self._seed, SPLITS.index(split), low, high])
        question = Question((low, high), STRATEGY, 1.0)
        return question if rng.random() < 0.5 else question.turned
