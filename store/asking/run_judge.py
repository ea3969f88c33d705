"""Ask machine judges about the pairs of a training run, and store each answer at once."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial

import numpy as np

from sortnet.comparators import TrainableComparator
from sortnet.core import F32, I64, SPLITS, Ints, Progress, Queries, Split
from sortnet.core.pairs import unpacked
from sortnet.errors import DataError, SortNetError
from sortnet.files import Record
from sortnet.judges.asked_question import AskedQuestion, asked_question
from sortnet.judges.connection import JudgeConnection
from sortnet.judges.verdicts import Verdict
from sortnet.learning.pairs_to_ask import SortedPart, answers_about_vali, select_pairs
from sortnet.messages import count, cut, note, printable
from sortnet.preference import Question
from sortnet.preference.base import Pair
from store.asking.machine import AnswerSummary, Machine, cost_text, judgements_of
from store.collections.collection_rows import LONGEST_NAME
from store.collections.leases import Lease
from store.runs.run import Run
from store.service.run_answers import STRATEGY, AskedDocuments, RunAnswers

_PART_NAMES: Mapping[Split, str] = {"train": "training", "vali": "validation"}


def vali_pairs(vali: Queries, comparator: TrainableComparator, judgements: int, seed: int) -> I64:
    """Draw the pairs of the validation part that a judge is asked about.

    They are random pairs of all queries. The rest of the budget is left to the training part.

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
    selected_keys, _ = select_pairs("random", part)
    return selected_keys


class RunJudge:
    """Answers questions about the documents of a run, from stored answers or by asking machines.

    It is the source of the questions to its machines, as `Questions`. The items of a question are
    document numbers of the part that is asked about now. Only the process of the run asks these
    questions, so that their leases are not stored.

    Each pair is asked of one judge: the pairs of a round are dealt to the judges one after the
    other. A pair that gets no answer is asked of the other judges, if there are any. A judge that
    fails or has spent its budget is asked no more, and the others go on.

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

    is_enough = False  # the training decides how many pairs are asked about

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
        self._documents = documents
        self._question = question
        self._seed = run.seed
        self._judgements = judgements
        self._again = again
        self._closed = closed
        self._notify = notify
        self._answers = RunAnswers(run, create=True)
        self._n_stored = sum(len(self._answers.targets(split)) for split in SPLITS)
        self._split: Split = "train"  # the part that is asked about now
        # {annotator: pairs that are dealt to the judge, and not asked about yet}
        self._dealt: dict[str, list[Pair]] = {}
        self._machines = [
            Machine(
                self,
                cut(printable(" ".join(annotator.split())), LONGEST_NAME),
                judge,
                notify,
                progress,
            )
            for annotator, judge in judges.items()
        ]
        self._lost: list[Machine] = []  # judges of which a message has told that they are lost

    @contextmanager
    def connected(self) -> Iterator[RunJudge]:
        """Keep connections and programs open until the end of the `with` block.

        Raises:
            SortNetError: if the block fails because no answer of the judges prefers a document;
                the message names the judges.
        """
        try:
            with ExitStack() as stack:
                for machine in self._machines:
                    stack.enter_context(machine.opened())
                yield self
        except DataError:
            reason = self._reason_without_choices()
            if reason is None:
                raise
            names = " and ".join(machine.judge.name for machine in self._machines)
            raise SortNetError(f"{names}: {reason}") from None

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the documents of the part, as items."""
        return self._documents.items[self._split].ids

    @contextmanager
    def opened(self, annotator: str) -> Iterator[None]:
        """Store the question and the annotator before the first answer."""
        question = printable(" ".join(self._question.split()))  # people see it in one line
        self._answers.begin(annotator, question)
        yield

    def begin_turn(self, n_workers: int) -> int:
        """Return how many questions may be open at once."""
        return 1 if n_workers == 1 else 2 * n_workers

    def answered_items(self, annotator: str) -> set[str]:
        """Return the ids of the documents whose order with others the judge has told."""
        return {
            self._documents.items[split].ids[document]
            for split in SPLITS
            for pair, target in self._answers.targets(split, annotator).items()
            if not math.isnan(target)
            for document in pair
        }

    def next(self, annotator: str, most: int, taken_ids: Collection[str]) -> list[Lease]:
        """Take up to `most` of the pairs that are dealt to a judge; their documents become items.

        No pair is taken twice, so that none of the leases is taken already.
        """
        del taken_ids
        dealt = self._dealt[annotator]
        pairs = dealt[:most]
        known_ids = self._answers.number_of_id
        if any(self.ids[document] not in known_ids for pair in pairs for document in pair):
            # One transaction adds the documents of all pairs that the judge is asked about soon.
            documents = sorted({document for pair in dealt for document in pair})
            self._answers.add_items(self._documents.items[self._split].take(documents))
        del dealt[:most]
        leases = []
        for pair in pairs:
            rng = np.random.default_rng([self._seed, SPLITS.index(self._split), *pair])
            question = Question(pair, STRATEGY, 1.0)
            if rng.random() >= 0.5:  # the seed decides which document is shown left
                question = question.turned
            leases.append(Lease(secrets.token_hex(8), question, annotator, math.inf))
        return leases

    def asked(self, lease: Lease, *, turned: bool) -> AskedQuestion:
        """Write a question as a worker reads it; `turned` exchanges the two documents."""
        question = lease.question.turned if turned else lease.question
        return asked_question(
            self._documents.shown[self._split],
            question.left,
            question.right,
            id=f"{self._split}-{question.left}-{question.right}",
            question=self._question,
            instructions=None,
        )

    def answer(self, lease: Lease, verdicts: Sequence[Verdict]) -> bool:
        """Store the verdicts on a pair; no lease can be lost."""
        numbers = [self._answers.number_of_id[self.ids[item]] for item in lease.question.items]
        about_items = replace(lease.question, items=tuple(numbers))
        judgements = judgements_of(replace(lease, question=about_items), verdicts)
        self._answers.append(judgements, [f"{lease.id}-{k}" for k in range(len(judgements))])
        self._n_stored += 1
        return True

    def attend(self, annotator: str) -> None:
        """Do nothing between two answers: the training fits its comparator after the round."""

    def left(self) -> str:
        """Describe how many of the wanted answers the run lacks."""
        return f"{self._judgements - self._n_stored:,} of {self._judgements:,} left"

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

    def _reason_without_choices(self) -> str | None:
        """Say why nothing can be learned: a part has only ties and skips. None if it has a choice.

        The text goes on after the names of the judges, such as `answered with 3 ties and 1 skip`.
        """
        for split, part in _PART_NAMES.items():
            targets = list(self._answers.targets(split).values())  # NaN: a skip; 0.5: a tie
            n_skipped = sum(map(math.isnan, targets))
            n_ties = targets.count(0.5)
            if targets and n_skipped + n_ties == len(targets):
                answers = f"{count(n_ties, 'tie')} and {count(n_skipped, 'skip')}"
                return f"answered with {answers} about {part} pairs, so there is nothing to learn"
        return None

    def facts(self) -> Record:
        """Return the numbers of answers and the cost, for JSON.

        `cost_in_all` is the cost of all stored answers, of earlier processes too; None: not known.
        """
        return {
            "answers": self._answers.counts(),
            "collection": self._answers.collection.name,
            "judges": {name: summary.facts for name, summary in self._summaries().items()},
            "cost_in_all": self._answers.cost(),
        }

    def text(self) -> str:
        """Return the numbers of answers and the cost, in words."""
        counts = self._answers.counts()
        n_pairs = f"{counts['train']:,} training pairs and {counts['vali']:,} validation pairs"
        by_judge = [f"{name}: {summary.text}" for name, summary in self._summaries().items()]
        return "; ".join(filter(None, [n_pairs, *by_judge, cost_text(self._answers.cost())]))

    def _summaries(self) -> dict[str, AnswerSummary]:
        """Sum up what each judge has answered."""
        summaries = {}
        for machine in self._machines:
            in_all = self._answers.n_answered_by(machine.annotator)
            summaries[machine.annotator] = machine.summary(in_all)
        return summaries

    def _target(self, split: Split, queries: Queries, i: Ints, j: Ints) -> F32:
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
        """Ask about pairs, each of one judge after the other until it is answered.

        Args:
            split: the part of the documents.
            pairs: the pairs.
            turns: {pair: a number that decides which judge is asked first}.

        Raises:
            SortNetError: if the judges fail; the message has the command that resumes the run.
        """
        self._split = split
        unanswered = pairs
        n_judges = len(self._machines)
        for step in range(n_judges):
            for place, machine in enumerate(self._machines):
                dealt = [pair for pair in unanswered if (turns[pair] + step) % n_judges == place]
                self._dealt[machine.annotator] = dealt
                machine.leaves_errors = step + 1 < n_judges
                if dealt and not machine.is_over:
                    machine.ask()
            targets = self._answers.targets(split)
            unanswered = [pair for pair in pairs if pair not in targets]
        self._end_round(len(unanswered), n_pairs=len(pairs))

    def _end_round(self, n_unanswered: int, *, n_pairs: int) -> None:
        """Count the failures of a round of questions, and tell which judges are lost.

        Args:
            n_unanswered: number of pairs that the round left unanswered.
            n_pairs: number of pairs that the round was about.

        Raises:
            SortNetError: if all judges have failed, or none has answered about a pair.
            Exception: the exception that a function raised as a judge.
        """
        kept = f"{self._n_stored:,} of {self._judgements:,} answers are kept"
        next_step = f"{kept}: go on with {self._again}"
        last = self._machines[-1]
        if all(machine.fault for machine in self._machines):
            raise last.failure(last.fault, next_step)
        for machine in self._machines:
            if machine.is_over and machine not in self._lost:
                self._lost.append(machine)
                why = machine.fault or machine.judge.budget.why()
                self._notify(f"{machine.judge.name}: {why}; it is asked no more")
        # If no judge can be asked any more, but a budget is spent, the answers are learned from.
        if n_unanswered == n_pairs and len(self._lost) < len(self._machines):
            machine = max(self._machines, key=lambda machine: bool(machine.last_fault))
            fault = f"failed at all {count(n_pairs, 'pair')}; {machine.last_fault}"
            raise machine.failure(fault, next_step)
