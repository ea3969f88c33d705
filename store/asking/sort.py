"""Sort items by asking a judge: a language model, a program, a function, or several of these.

    items -> a collection in the store -> questions that a session chooses -> the judge's answers
          -> the ranking, with intervals -> a ranker for further items

`sort` does in one call what `sortnet items add`, `sortnet ask`, `sortnet label` and `sortnet
ranking` do. These commands, the pages of `sortnet serve` and another call of `sort` can open the
collection that `sort` makes.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from weakref import finalize

import numpy as np
from sqlalchemy import URL

from sortnet.core import Progress
from sortnet.errors import DataError, SortNetError
from sortnet.files import shown
from sortnet.items.given_items import GivenItems, items_from
from sortnet.judges import LanguageModel
from sortnet.judges.any_judge import MachineJudge, OneJudge, described, named_judges
from sortnet.judges.asked_question import AskedQuestion
from sortnet.judges.connection import JudgeConnection
from sortnet.judges.estimate import N_EXAMPLES, CallEstimate, dry_run
from sortnet.judges.limits import check_whole_number
from sortnet.messages import count
from sortnet.preference.base import MOST_ITEMS
from sortnet.preference.goal import WRONG, Goal
from sortnet.tables.column_groups import columns_sentence
from store.asking.answer_summary import AnswerSummary
from store.asking.machine import EndReason, Machine, check_takes_sets
from store.asking.service_questions import (
    ServiceQuestions,
    ask_in_turn,
    calls_so_far,
    example_questions,
)
from store.asking.sort_collection import (
    collection_to_sort,
    name_by_content,
    new_items,
    stored_collection,
)
from store.asking.sort_turns import turn_to_sort
from store.asking.sorted_items import SortedItems, ranking_frame
from store.progress import ProgressOption, shown_progress
from store.service.costs import sum_up_costs
from store.service.labelling import LabellingService
from store.service.questions import check_set_size, largest_group
from store.service.sentences import why
from store.store import open_store

_LONGEST_NAME = 60  # most characters of an annotator's name; a command may be longer


def sort(
    items: Any,
    *,
    judge: OneJudge | Mapping[str, OneJudge],
    question: str | None = None,
    instructions: str | None = None,
    top: int | None = None,
    wrong: float = WRONG,
    set_size: int | None = None,
    max_calls: int | None = None,
    store: str | Path | URL | None = None,
    name: str | None = None,
    text: str | None = None,
    id: str | None = None,
    group: str | None = None,
    ignore: Sequence[str] = (),
    seed: int = 0,
    progress: ProgressOption = None,
) -> SortedItems:
    """Sort items by asking a judge which of two items is better, or which of several is best.

    With a store, each answer is stored before the next question is chosen. After an interrupt or an
    error, the same call continues where it ended, and asks no question twice. If the goal is
    reached, the same call asks nothing. Without a store, nothing is remembered after the call. If
    another call is sorting the same collection, this call waits until the other call ends.

    Args:
        items: a list of texts, paths, rows of numbers or dicts; a data frame; a file or folder.
        judge: a `LanguageModel`, a `Program`, or a function of two items as they were passed. The
            function returns `left`, `right`, `tie`, `skip`, None, or a float, the probability that
            the left item is better; `Function` describes functions of `*items`. A dict
            {name: judge} has several judges, which answer in turn.

        The questions:

        question: text of the question; None: `Which is better?`.
        instructions: how to judge, in Markdown.
        set_size: number of items of a question, 2 to 6; None: the collection's number, which is 2
            for a new collection. Questions about more than two items ask for the best and the worst
            item.
        seed: seed of the choice of questions.

        The end:

        top: number of the best items that are wanted; None: the order of all items is wanted.
        wrong: share of the pairs, or of the top items, that may still be expected wrong.
        max_calls: most calls of each judge in this collection, with the calls of earlier `sort`s;
            None: no limit.

        The answers:

        store: file or URL of the store; None: a temporary store, removed with the result.
        name: name of the collection; None: a hash of the items, the question, the judges and
            `set_size`, so that a corrected function begins anew. A later call with the same name
            must pass all items of the collection, and may pass more. Its ranking rests on all
            answers in the collection, and the summary tells whose they are.
        progress: a function that gets texts; False: nothing is shown; None or True: a line is shown
            in a terminal or notebook, elsewhere lines are logged.

        The columns of a table:

        text, id, group: names of the columns with the items' texts, ids and groups. Only items of
            the same group are compared.
        ignore: names of the columns that are no features.

    Raises:
        SortNetError: if the items, a judge or the store cannot be used, or if a judge fails too
            often; then the message tells how many answers are kept.
        Exception: if a function raises at nine of ten questions, its last exception, with a note
            that tells how many answers are kept.

    Cost: the cost of the judge, and about 10 ms for each question about a thousand items.

    >>> result = sort(["a", "ccc", "bb"], judge=lambda left, right: len(left) / len(left + right))
    >>> result.frame["item"].tolist()
    ['ccc', 'bb', 'a']
    """
    check_whole_number("max_calls", max_calls)
    _check_texts(question=question, instructions=instructions)
    judges = judges_by_name(judge)
    given_items = items_from(items, text=text, id=id, group=group, ignore=ignore)
    goal = _goal(given_items, top, wrong)
    _check_set_size(given_items, set_size)
    connections = _connect(judges, given_items, set_size)
    if name is None:
        name = name_by_content(given_items, question, instructions, judges, set_size)
    with ExitStack() as temporary:
        is_temporary = store is None
        if store is None:
            folder = TemporaryDirectory(prefix="sortnet-", ignore_cleanup_errors=True)
            store = Path(temporary.enter_context(folder), "sort.db")
        with (
            shown_progress(progress) as show,
            open_store(store) as opened,
            turn_to_sort(opened.database, name, show),
        ):
            show(f"sorting {count(len(given_items.items), 'item')}")
            wanted = {"question": question, "instructions": instructions, "set_size": set_size}
            collection = collection_to_sort(opened, name, given_items, wanted, seed, show)
            with closing(LabellingService(collection, goal=goal)) as service:
                result = _ask_and_rank(
                    service,
                    connections,
                    given_items,
                    max_calls=max_calls,
                    seed=seed,
                    goal=goal,
                    progress=show,
                    is_temporary=is_temporary,
                )
            show(result.summary)
        finalize(result, temporary.pop_all().close)  # the result reads the store for its ranker
        return result


def _ask_and_rank(
    service: LabellingService,
    connections: Mapping[str, JudgeConnection],
    given_items: GivenItems,
    *,
    max_calls: int | None,
    seed: int,
    goal: Goal,
    progress: Progress,
    is_temporary: bool,
) -> SortedItems:
    """Ask the judges until the goal is reached or no judge can be asked, and rank the items.

    Args:
        service: the service of the collection to sort.
        connections: {annotator: the judge that answers under this name}.
        given_items: the items that were passed to `sort`.
        max_calls: most calls of each judge in the collection, earlier calls included; None: no
            limit.
        seed, goal: facts about the call, which the result keeps.
        progress: called with the progress in words.
        is_temporary: whether the store is removed if the call ends with an error.
    """
    try:
        progress("fitting the answers so far")
        service.settle()
        n_answers_before = service.session.n_votes
        questions = ServiceQuestions(service)
        machines = [
            Machine(questions, annotator, connection, on_progress=progress)
            for annotator, connection in connections.items()
        ]
        if max_calls is not None:
            for annotator, connection in connections.items():
                connection.budget.lower_limit(max_calls - calls_so_far(service, annotator))
        ask_in_turn(machines, service, None)
    except KeyboardInterrupt as error:
        n_kept = service.session.n_votes
        error.add_note(f"interrupted: {answers_kept(n_kept, is_temporary=is_temporary)}")
        raise
    for machine in machines:
        _raise_failure(service, machine, is_temporary=is_temporary)
    n_answers = service.session.n_votes
    judgements = service.judgements()
    return SortedItems(
        frame=ranking_frame(service.ranking, given_items, service.items.ids),
        name=service.collection.name,
        store=service.collection.database.url,
        reason=EndReason.GOAL if service.remaining.stop else machines[-1].reason,
        status=why(service.remaining),
        answered=n_answers - n_answers_before,
        answered_in_all=n_answers,
        by=_summaries(service, machines),
        cost_in_all=sum_up_costs(judgements, np.arange(len(judgements)))["cost"],
        seed=seed,
        goal=goal,
        columns=_columns_sentence(service, given_items),
    )


def _columns_sentence(service: LabellingService, given_items: GivenItems) -> str:
    """Tell what was made of the columns of the items; empty if they have none."""
    if given_items.roles is None:
        return ""
    return columns_sentence(given_items.roles, service.items.feature_names)


def _raise_failure(service: LabellingService, machine: Machine, *, is_temporary: bool) -> None:
    """Raise the error that reports a failed judge, and tells how many of its answers are kept."""
    # If the judge failed at every question, nothing is left to ask. This is a failure, too.
    has_only_failed = (
        machine.reason is EndReason.NOTHING_LEFT and machine.failed and not machine.answered
    )
    if machine.fault or has_only_failed:
        n_answers = service.session.answered(machine.annotator)
        next_step = answers_kept(n_answers, is_temporary=is_temporary)
        raise machine.failure(machine.fault or machine.last_fault, next_step)


def answers_kept(n_answers: int, *, is_temporary: bool) -> str:
    """Tell how many answers are kept after an error or an interrupt, and what to do next.

    >>> answers_kept(3, is_temporary=False)
    '3 answers are kept: the same call goes on'
    >>> answers_kept(3, is_temporary=True)
    '0 answers are kept, 3 are lost: store="FILE" keeps them'
    """
    if not is_temporary:
        are = "is" if n_answers == 1 else "are"
        return f"{count(n_answers, 'answer')} {are} kept: the same call goes on"
    lost = f", {n_answers} {'is' if n_answers == 1 else 'are'} lost" if n_answers else ""
    return f'0 answers are kept{lost}: store="FILE" keeps them'


def _summaries(service: LabellingService, machines: Sequence[Machine]) -> dict[str, AnswerSummary]:
    """Sum up the answers of each annotator in the collection who has answered, or was asked."""
    summaries = {}
    for annotator in service.collection.annotators():
        n_in_all = service.session.answered(annotator.name)
        if n_in_all:
            summaries[annotator.name] = AnswerSummary(0, n_in_all)
    for machine in machines:
        n_in_all = service.session.answered(machine.annotator)
        summaries[machine.annotator] = machine.summary(n_in_all)
    return summaries


def _connect(
    judges: Mapping[str, MachineJudge], given_items: GivenItems, set_size: int | None
) -> dict[str, JudgeConnection]:
    """Connect to the judges, and return {annotator: connection}.

    Raises:
        SortNetError: if a judge cannot be asked questions about `set_size` items.
    """
    value_of_id = given_items.value_of_id()
    connections = {
        annotator: judge.connect(f"judge {annotator}", value_of_id)
        for annotator, judge in judges.items()
    }
    for connection in connections.values():
        check_takes_sets(connection, set_size or 2)
    return connections


@dataclass(frozen=True)
class SortEstimate:
    """The questions, calls and cost that `sort` would take; making the estimate asks nothing.

    Attributes:
        questions: expected number of questions until the goal or `max_calls` is reached; before
            any answer, the number of questions that ask about every item once.
        calls: {name of a language model: its estimated calls, with tokens and cost}.
        prompt: an example of a prompt to the first language model; None without a language model.
    """

    questions: int
    calls: Mapping[str, CallEstimate]
    prompt: str | None

    def __str__(self) -> str:
        phrases = [f"about {count(self.questions, 'question')}"]
        phrases += [f"{name}: {calls}" for name, calls in self.calls.items()]
        return "; ".join(phrases)


def estimate(
    items: Any,
    *,
    judge: OneJudge | Mapping[str, OneJudge],
    question: str | None = None,
    instructions: str | None = None,
    top: int | None = None,
    wrong: float = WRONG,
    set_size: int | None = None,
    max_calls: int | None = None,
    store: str | Path | URL | None = None,
    name: str | None = None,
    text: str | None = None,
    id: str | None = None,
    group: str | None = None,
    ignore: Sequence[str] = (),
    seed: int = 0,
    progress: ProgressOption = None,
) -> SortEstimate:
    """Estimate the questions, calls and cost of `sort` with the same arguments.

    `sort` describes the arguments. No judge is asked, and the store is only read: the answers in
    its collection are questions that `sort` need not ask, and each new item is in one question.

    Raises:
        SortNetError: if the items or a judge cannot be used.

    Before any answer these are the questions that ask about every item once.

    Cost: a fit to the answers in the store.

    >>> print(estimate(["a", "bb", "ccc"], judge=lambda left, right: "left"))
    about 2 questions
    """
    check_whole_number("max_calls", max_calls)
    _check_texts(question=question, instructions=instructions)
    judges = judges_by_name(judge)
    given_items = items_from(items, text=text, id=id, group=group, ignore=ignore)
    goal = _goal(given_items, top, wrong)
    _check_set_size(given_items, set_size)
    # A language model needs no key for an estimate. The estimate refuses its prompt if it must.
    others = {name: one for name, one in judges.items() if not isinstance(one, LanguageModel)}
    _connect(others, given_items, set_size)
    if name is None:
        name = name_by_content(given_items, question, instructions, judges, set_size)
    with shown_progress(progress) as show, ExitStack() as opened:
        collection = None if store is None else opened.enter_context(stored_collection(store, name))
        n_new_items = 0
        if collection is not None:
            n_new_items = len(new_items(collection, given_items.items))
        else:
            folder = opened.enter_context(TemporaryDirectory(prefix="sortnet-"))
            temporary = opened.enter_context(open_store(Path(folder, "estimate.db")))
            wanted = {"question": question, "instructions": instructions, "set_size": set_size}
            collection = collection_to_sort(temporary, name, given_items, wanted, seed, show)
        show("estimating the questions")
        service = opened.enter_context(closing(LabellingService(collection, goal=goal)))
        service.settle()
        n_questions = _n_questions(service, n_new_items, judges, max_calls)
        return _estimate_models(judges, n_questions, example_questions(service, N_EXAMPLES))


def _n_questions(
    service: LabellingService, n_new_items: int, annotators: Iterable[str], max_calls: int | None
) -> int:
    """Estimate how many questions are left until the goal or the limit of calls is reached.

    Args:
        n_new_items: number of items that the collection lacks, each of which is asked about once.
        annotators: names of the judges.
        max_calls: most calls of each judge, earlier calls included; None: no limit.
    """
    n_items = len(service.items) + n_new_items
    limits = [n_items * (n_items - 1) // 2]  # no pair is asked about twice
    if service.questions_expected is not None:
        n_about_new_items = math.ceil(n_new_items / service.session.set_size)
        limits.append(service.questions_expected + n_about_new_items)
    if max_calls is not None:
        calls_left = [max_calls - calls_so_far(service, annotator) for annotator in annotators]
        limits.append(sum(max(0, n_calls) for n_calls in calls_left))
    return min(limits)


def _estimate_models(
    judges: Mapping[str, MachineJudge], n_questions: int, examples: Sequence[AskedQuestion]
) -> SortEstimate:
    """Estimate the calls of the language models among the judges, which share the questions.

    Raises:
        SortNetError: if the prompt of a model cannot be used.
    """
    n_of_judge = math.ceil(n_questions / len(judges))
    runs = {
        annotator: dry_run(judge, examples, n_of_judge)
        for annotator, judge in judges.items()
        if isinstance(judge, LanguageModel)
    }
    calls = {annotator: run.once for annotator, run in runs.items()}
    prompts = [run.question for run in runs.values()]
    return SortEstimate(n_questions, calls, prompt=prompts[0] if prompts else None)


def judges_by_name(judge: OneJudge | Mapping[str, OneJudge]) -> dict[str, MachineJudge]:
    """Return {name under which answers are stored: judge} for one judge or several named judges.

    Raises:
        SortNetError: if there is no judge, or a value is not a judge.

    >>> list(judges_by_name({"length": lambda left, right: "left"}))
    ['length']
    """
    if isinstance(judge, Mapping):
        return named_judges(judge)
    machine_judge = described(judge)
    return {_annotator_name(machine_judge): machine_judge}


def _annotator_name(judge: MachineJudge) -> str:
    """Name a judge by its model and variant, its command, or its function.

    A name that is too long for an annotator is shortened, and ends with a hash of the whole name.
    """
    name = judge.annotator
    if isinstance(judge, LanguageModel) and judge.variant:
        name = f"{name} {judge.variant}"
    if len(name) <= _LONGEST_NAME:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    beginning = name[: _LONGEST_NAME - 1 - len(digest)]  # a space follows
    return f"{beginning.strip()} {digest}"


def _check_texts(**texts: object) -> None:
    """Raise SortNetError if a value is neither a text nor None; the message names the argument."""
    for name, text in texts.items():
        if text is not None and not isinstance(text, str):
            raise SortNetError(f"{name}: {shown(text)} is no text")


def _goal(given_items: GivenItems, top: int | None, wrong: float) -> Goal:
    """Make the goal of the session from the arguments `top` and `wrong` of `sort`.

    Raises:
        SortNetError: if a number is impossible, or all items would be top items.
    """
    check_whole_number("top", top)
    if not isinstance(wrong, int | float) or not 0 < wrong < 1:
        raise SortNetError(f"wrong: {shown(wrong)} is no share between 0 and 1")
    if top is None:
        return Goal(wrong)
    n_items, in_group = largest_group(given_items.items)
    if top >= n_items:
        raise DataError(
            f"top: {top} of {count(n_items, 'item')}{in_group}: all of them are the top"
        )
    return Goal(wrong, top)


def _check_set_size(given_items: GivenItems, set_size: int | None) -> None:
    """Raise SortNetError if no question can be about `set_size` items; None is allowed."""
    check_whole_number("set_size", set_size, least=2, most=MOST_ITEMS)
    if set_size is not None:
        check_set_size(given_items.items, set_size)
