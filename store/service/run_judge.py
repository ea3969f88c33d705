"""A machine judge of a training run; each answer is stored as it comes."""

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
from sortnet.errors import DataError, SortNetError
from sortnet.items import Items
from sortnet.judges.asked_question import AskedQuestion, asked_question
from sortnet.judges.connection import JudgeConnection, Worker
from sortnet.judges.verdicts import Verdict
from sortnet.judges.worker_pool import WorkerPool
from sortnet.learning.pairs_to_ask import SortedPart, answers_about_vali, selected
from sortnet.messages import count, note
from sortnet.preference import Question
from store.runs.judge_answers import JudgeAnswer, judged_pairs, target_of, targets_of
from store.runs.run import Run
from store.service.patience import StorePatience

PairOfSplit: TypeAlias = tuple[Split, int, int]  # the documents' numbers, the lower one first

STRATEGY = "loop"  # strategy of the questions: the learning loop chose the pairs
ATTEMPTS = 2  # how often a judge that fails is asked about a pair
_PARTS: Mapping[Split, str] = {"train": "training", "vali": "validation"}


def vali_pairs(vali: Queries, comparator: TrainableComparator, judgements: int, seed: int) -> I64:
    """The pairs of the validation part to ask about, given a budget of answers.

    Each query has about equally many of the pairs. The rest of the budget is left to the training
    part.

    Args:
        judgements: the budget.
        seed: decides which pairs are drawn.
    """
    n_pairs = answers_about_vali(judgements)
    part = SortedPart(vali, comparator, n_pairs, np.random.default_rng([seed, len(SPLITS)]))
    return selected("even", part)[0]


@dataclass(kw_only=True)
class _Pool(WorkerPool[Question]):
    """Puts questions about the documents of a part to workers, and stores the answers in the run.

    Attributes:
        split: the part that is asked about.
        waiting: questions that no worker has been asked yet; their items are document numbers.
        judgements: the number of answers that may be given in all.
        n_stored: the number of pairs with a stored answer.
        targets: the probability that the first document is better, for each answered pair.
    """

    run: Run
    documents: Mapping[Split, Items]
    question: str
    judgements: int
    n_stored: int = 0
    split: Split = "train"
    waiting: list[Question] = field(default_factory=list)
    targets: dict[PairOfSplit, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._patience = StorePatience(
            self.run.database, self.judge.patience, self.judge.name, self.notify
        )

    def _stop_waiting(self) -> None:
        self._patience.stop()

    def _next(self, most: int) -> list[Question]:
        if self.is_over or most <= 0:
            return []
        questions = self.waiting[:most]
        self.waiting = self.waiting[most:]
        return questions

    def pair_of(self, question: Question) -> PairOfSplit:
        """The pair of documents that a question is about."""
        return self.split, *question.pair

    def _key(self, question: Question) -> Hashable:
        return self.pair_of(question)

    def _items(self, question: Question) -> set[str]:
        ids = self.documents[self.split].ids
        return {ids[question.left], ids[question.right]}

    def _asked_question(self, question: Question, *, turned: bool) -> AskedQuestion:
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

    def _is_fresh(self, question: Question) -> bool:
        return self.split == "vali"

    def _keep_answer(self, question: Question, verdicts: Sequence[Verdict]) -> None:
        # There is one verdict, or a second verdict if the judge is asked in both orders.
        orders = (question, question.turned)
        answers = [
            JudgeAnswer(order.left, order.right, verdict.answer, **verdict.facts(), at=time.time())
            for order, verdict in zip(orders, verdicts, strict=False)
        ]
        self._patience.do(partial(self.run.add_answers, self.split, answers))
        self.targets[self.pair_of(question)] = target_of(answers)
        self.answered += 1
        self.n_stored += 1

    def _progress(self) -> tuple[str, str]:
        n_left = len(self.waiting) + len(self._open)
        n_left_text = f"{n_left:,} left in this round" if n_left else ""
        return f"asked {self.n_stored:,} of {self.judgements:,}", n_left_text


class RunJudge:
    """A judge of the documents of a run: gives stored answers, and asks for and stores new ones.

    Args:
        judge: the machine that is asked.
        run: the run that stores the answers.
        documents: the documents of each part, in the order of their numbers.
        question: the question about each pair.
        seed: decides which document of a pair is shown left.
        judgements: the number of answers that may be given in all.
        again: the command or the call that resumes the run.
        closed: whether nothing is asked any more, because the run has ended.
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
        self._is_end_noted = False  # whether a message has said that no more is asked

    @contextmanager
    def opened(self) -> Iterator[RunJudge]:
        """Keep connections and programs until the end of the block.

        Raises:
            SortNetError: naming the judge, if the block fails because its answers prefer no
                document.
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
        """The training part with this judge, and the validation part with its answers.

        Args:
            vali_keys: the pairs of the validation part to ask about.

        Raises:
            SortNetError: if the judge fails; the message has the command that resumes the run.
        """
        if len(vali_keys):
            self._answers("vali", vali, *unpacked(vali_keys))
        judge = partial(self._answers, "train")
        return replace(train, judge=judge, judged=None), self.judged("vali", vali)

    def judged(self, split: Split, part: Queries) -> Queries:
        """A part with the stored answers about it, and no judge."""
        return replace(part, judge=None, judged=judged_pairs(self._targets_of(split)))

    def _targets_of(self, split: Split) -> dict[tuple[int, int], float]:
        """{pair: probability that its first document is better} of the answered pairs of a part."""
        return {
            (low, high): target
            for (split_of_pair, low, high), target in self._pool.targets.items()
            if split_of_pair == split
        }

    def _undecided(self) -> str | None:
        """The fault if all answers about a part are ties or skips, in words; else None."""
        for split, part in _PARTS.items():
            targets = list(self._targets_of(split).values())
            n_skipped = sum(map(math.isnan, targets))
            n_ties = targets.count(0.5)
            if targets and n_skipped + n_ties == len(targets):
                answers = f"{count(n_ties, 'tie')} and {count(n_skipped, 'skip')}"
                return f"answered with {answers} about {part} pairs, so there is nothing to learn"
        return None

    def facts(self) -> dict[str, Any]:
        """The numbers of answers and failures and the cost, as JSON."""
        counts = {split: len(self._targets_of(split)) for split in SPLITS}
        return {"answers": counts, "failed": self._n_failed, **self.judge.spent_facts()}

    def text(self) -> str:
        """The numbers of answers and failures and the cost, in words."""
        n_train = len(self._targets_of("train"))
        n_vali = len(self._targets_of("vali"))
        phrases = [f"{n_train:,} training pairs and {n_vali:,} validation pairs"]
        if self._n_failed:
            phrases.append(f"{self._n_failed:,} failed")
        spent = self.judge.spent_text()
        if spent:
            phrases.append(spent)
        return ", ".join(phrases)

    def _answers(self, split: Split, queries: Queries, i: I64 | I32, j: I64 | I32) -> F32:
        """(m,) the probability that document i[k] is better than j[k]; NaN without an answer."""
        lower = np.minimum(i, j).tolist()
        higher = np.maximum(i, j).tolist()
        pairs = [(split, low, high) for low, high in zip(lower, higher, strict=True)]
        targets = self._pool.targets
        unanswered = [pair for pair in pairs if pair not in targets]
        if unanswered and not self._closed:
            self._ask(split, unanswered)
        p_lower = np.array([targets.get(pair, math.nan) for pair in pairs], np.float32)
        return np.where(np.asarray(i) < np.asarray(j), p_lower, 1 - p_lower).astype(np.float32)

    def _ask(self, split: Split, pairs: Sequence[PairOfSplit]) -> None:
        """Ask about pairs, and store the answers.

        Raises:
            SortNetError: if the judge fails; the message has the command that resumes the run.
        """
        if not self._workers:
            self._connections.enter_context(self.judge.open_connections())
            self._workers = list(self.judge.make_workers())
        pool = self._pool
        pool.split = split
        questions = [self._question(*pair) for pair in pairs]
        for _ in range(ATTEMPTS):
            pool.waiting = [
                question for question in questions if pool.pair_of(question) not in pool.targets
            ]
            if pool.waiting and not pool.is_over:
                self.judge.restart_clock()
                pool.ask_all(self._workers)
        n_unanswered = sum(pair not in pool.targets for pair in pairs)
        why_no_more = self.judge.why_no_more()
        fault = pool.fault
        if not why_no_more:
            self._n_failed += n_unanswered
            if n_unanswered == len(pairs) and not fault:
                fault = f"failed at all {count(n_unanswered, 'pair')}; {pool.last_fault}"
        stored = f"{pool.n_stored:,} of {pool.judgements:,} answers are kept"
        if fault and pool.cause is not None:
            pool.cause.add_note(f"{pool.judge.name}: {stored}: go on with {self._again}")
            raise pool.cause
        if fault:
            raise SortNetError(f"{pool.judge.name}: {fault}; {stored}: go on with {self._again}")
        if why_no_more and not self._is_end_noted:
            self._is_end_noted = True
            self._notify(f"{why_no_more}: {stored}, and are learned from")

    def _question(self, split: Split, low: int, high: int) -> Question:
        """The question about a pair; the seed decides which document is left."""
        rng = np.random.default_rng([self._seed, SPLITS.index(split), low, high])
        question = Question(low, high, STRATEGY, 1.0)
        return question if rng.random() < 0.5 else question.turned
