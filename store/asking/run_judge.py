"""Ask machine judges about the pairs of a training run, and store each answer at once."""

from __future__ import annotations

import math
import secrets
from collections import Counter
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
        count_stored: returns the number of pairs with a stored answer of any judge.
        split: the part that is asked about now.
        waiting: questions that no worker has been asked yet.
        workers: the workers of the judge; empty before its first question.
        is_last_attempt: whether a question that gets no answer now is not asked again.
        is_end_noted: whether it was found that the judge is asked no more.
    """

    answers: RunAnswers
    documents: AskedDocuments
    annotator: str
    question: str
    judgements: int
    count_stored: Callable[[], int]
    split: Split = "train"
    waiting: list[Question] = field(default_factory=list)
    workers: Sequence[Worker] = ()
    is_last_attempt: bool = False
    is_end_noted: bool = False

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
        targets = self.answers.targets(self.split, self.annotator)
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

    def _progress(self) -> tuple[str, str]:
        """Return the number of answers and the number of questions left, in words."""
        n_left = len(self.waiting) + len(self._open)
        n_left_text = f"{n_left:,} left in this round" if n_left else ""
        return f"asked {self.count_stored():,} of {self.judgements:,}", n_left_text


class RunJudge:
    """Answers questions about the documents of a run, from stored answers or by asking machines.

    Each pair is asked of one judge: the pairs of a round are dealt to the judges one after the
    other. A pair that gets no answer is asked of another judge, if there is one. A judge that fails
    or has spent its budget is asked no more, and the others go on.

    Args:
        judges: {name under which answers are stored: the machine that is asked}.
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
        judges: Mapping[str, JudgeConnection],
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
        self._seed = run.seed
        self._again = again
        self._closed = closed
        self._judgements = judgements
        self._notify = notify
        self._connections = ExitStack()
        self._answers = RunAnswers(run, create=True)
        self._n_stored_before = sum(self._answers.counts().values())
        self._pools = [
            _Pool(
                judge=judge,
                answers=self._answers,
                documents=documents,
                annotator=cut(printable(" ".join(annotator.split())), LONGEST_NAME),
                question=question,
                judgements=judgements,
                count_stored=self._count_stored,
                notify=notify,
                on_progress=progress,
            )
            for annotator, judge in judges.items()
        ]
        self._n_failed = 0  # pairs at which the judges failed twice
        self._is_end_noted = False  # whether a message has told that nothing more is asked

    @contextmanager
    def opened(self) -> Iterator[RunJudge]:
        """Keep connections and programs open until the end of the `with` block.

        Raises:
            SortNetError: if the block fails because no answer of the judges prefers a document;
                the message names the judges.
        """
        try:
            with self._connections:
                yield self
        except DataError:
            undecided = self._undecided()
            if undecided is None:
                raise
            names = " and ".join(pool.judge.name for pool in self._pools)
            raise SortNetError(f"{names}: {undecided}") from None
        finally:
            for pool in self._pools:
                for worker in pool.workers:
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
        Of several judges, `judges` has the number of answers and the cost of each by its name.
        """
        return {
            "answers": self._answers.counts(),
            "collection": self._answers.collection.name,
            "skipped": dict(self._skipped()),
            "failed": self._n_failed,
            **self._spent_facts(),
            "cost_in_all": self._answers.cost(),
        }

    def _spent_facts(self) -> dict[str, Any]:
        """Return the calls and cost of the only judge, or those of each judge by its name."""
        if len(self._pools) == 1:
            return self._pools[0].judge.spent_facts()
        judges = {
            pool.annotator: {"answers": self._count_answers(pool), **pool.judge.spent_facts()}
            for pool in self._pools
        }
        return {"judges": judges}

    def _count_answers(self, pool: _Pool) -> int:
        """Count the pairs that a judge has answered about, in earlier processes too."""
        return sum(len(self._answers.targets(split, pool.annotator)) for split in SPLITS)

    def _skipped(self) -> Counter[str]:
        """Count the skips of all judges by their reasons."""
        return sum((pool.skipped for pool in self._pools), Counter())

    def _count_stored(self) -> int:
        """Count the pairs with a stored answer of any judge."""
        return self._n_stored_before + sum(pool.answered for pool in self._pools)

    def text(self) -> str:
        """Return the numbers of answers and failures and the cost, in words."""
        counts = self._answers.counts()
        phrases = [f"{counts['train']:,} training pairs and {counts['vali']:,} validation pairs"]
        skipped = self._skipped()
        if skipped:
            phrases.append(skipped_text(skipped))
        if self._n_failed:
            phrases.append(f"{self._n_failed:,} failed")
        for pool in self._pools:
            spent = pool.judge.spent_text()
            if len(self._pools) > 1:
                texts = [f"{self._count_answers(pool):,} by {pool.annotator}", spent]
                spent = " with ".join(filter(None, texts))
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
            queries: the part, which every judge gets; these judges need only the numbers.
            i, j: (m,) numbers of documents.

        Returns:
            (m,) the probabilities; NaN for a pair without an answer.
        """
        lower, higher = np.minimum(i, j).tolist(), np.maximum(i, j).tolist()
        pairs = list(zip(lower, higher, strict=True))
        targets = self._answers.targets(split)
        unanswered = [pair for pair in pairs if pair not in targets]
        if unanswered and not self._closed:
            # A resumed round deals its pairs as before, whichever of them were answered meanwhile.
            n_earlier = len(targets.keys() - set(pairs))
            turns = {pair: turn for turn, pair in enumerate(pairs, n_earlier)}
            self._ask(split, unanswered, turns)
            targets = self._answers.targets(split)
        # Targets are about the document with the lower number.
        p_lower = np.array([targets.get(pair, math.nan) for pair in pairs], np.float32)
        return np.where(np.asarray(i) < np.asarray(j), p_lower, 1 - p_lower).astype(np.float32)

    def _ask(self, split: Split, pairs: Sequence[Pair], turns: Mapping[Pair, int]) -> None:
        """Ask about pairs, up to twice about each pair, and store the answers.

        The pairs of a judge that is lost in the last attempt are asked of the others.

        Args:
            split: the part of the documents.
            pairs: the pairs.
            turns: {pair: a number that decides which judge is asked}.

        Raises:
            SortNetError: if the judges fail; the message has the command that resumes the run.
        """
        unanswered = pairs
        pool_of_pair: dict[Pair, _Pool] = {}
        attempt = 0
        is_judge_lost = False
        while (
            unanswered and (pools := self._pools_to_ask()) and (attempt < ATTEMPTS or is_judge_lost)
        ):
            attempt += 1
            for pool in pools:
                pool.split = split
                pool.is_last_attempt = attempt >= ATTEMPTS
                pool.waiting = []
            for pair in unanswered:
                # A pair that a judge has left unanswered is asked of another one.
                others = [pool for pool in pools if pool is not pool_of_pair.get(pair)] or pools
                pool_of_pair[pair] = others[turns[pair] % len(others)]
                pool_of_pair[pair].waiting.append(self._question(split, pair))
            for pool in pools:
                if pool.waiting:
                    self._begin(pool)
                    pool.ask_all(pool.workers)
            targets = self._answers.targets(split)
            unanswered = [pair for pair in pairs if pair not in targets]
            is_judge_lost = len(self._pools_to_ask()) < len(pools)
        self._end_round(len(unanswered), n_pairs=len(pairs))

    def _pools_to_ask(self) -> list[_Pool]:
        """List the pools whose judges have neither failed nor spent their budgets."""
        return [pool for pool in self._pools if not pool.is_over]

    def _begin(self, pool: _Pool) -> None:
        """Before a judge's first question, add its annotator, and start its workers."""
        if pool.workers:
            return
        question = printable(" ".join(pool.question.split()))  # people see it in one line
        pool.patience.retry_while_away(partial(self._answers.begin, pool.annotator, question))
        self._connections.enter_context(pool.judge.open_connections())
        pool.workers = pool.judge.make_workers()

    def _end_round(self, n_unanswered: int, *, n_pairs: int) -> None:
        """Count the failures of a round of questions, and raise an error if all judges have failed.

        If no judge can be asked any more, but a budget is spent, the unanswered pairs are no
        failures, and a message tells once that nothing more is asked.

        Args:
            n_unanswered: number of pairs that the round left unanswered.
            n_pairs: number of pairs that the round was about.

        Raises:
            SortNetError: if the judges have failed.
            Exception: the exception that a function raised as a judge.
        """
        stored = f"{self._count_stored():,} of {self._judgements:,} answers are kept"
        is_one = len(self._pools) == 1
        lost = [pool for pool in self._pools if pool.is_over and not pool.is_end_noted]
        for pool in lost:
            pool.is_end_noted = True
            if not is_one:
                why = pool.fault or pool.judge.why_no_more()
                self._notify(f"{pool.judge.name}: {why}; it is asked no more")
        pools = self._pools_to_ask()
        if pools:
            self._n_failed += n_unanswered
            if n_unanswered == n_pairs:
                pool = next((pool for pool in pools if pool.last_fault), pools[0])
                fault = f"failed at all {count(n_pairs, 'pair')}; {pool.last_fault}"
                raise self._failure(pool, fault, stored)
        elif all(pool.fault for pool in self._pools):
            pool = (lost or self._pools)[-1]
            raise self._failure(pool, pool.fault, stored)
        elif not self._is_end_noted:
            self._is_end_noted = True
            why = self._pools[0].judge.why_no_more() if is_one else "no judge can be asked any more"
            self._notify(f"{why}: {stored}, and are learned from")

    def _failure(self, pool: _Pool, fault: str, stored: str) -> BaseException:
        """Make the error that reports a fault of a judge, and tells how to resume the run.

        If the judge is a function that raised an exception, this exception gets the report as a
        note.

        Args:
            pool: the pool of the judge.
            fault: the fault in words.
            stored: tells how many answers are stored.
        """
        name = pool.judge.name
        next_step = f"{stored}: go on with {self._again}"
        if pool.cause is not None:
            pool.cause.add_note(f"{name}: {next_step}")
            return pool.cause
        error = UnansweredError if pool.is_unanswered else SortNetError
        return error(f"{name}: {fault}; {next_step}")

    def _question(self, split: Split, pair: Pair) -> Question:
        """Make the question about a pair; the seed decides which document is shown left."""
        rng = np.random.default_rng([self._seed, SPLITS.index(split), *pair])
        question = Question(pair, STRATEGY, 1.0)
        return question if rng.random() < 0.5 else question.turned
