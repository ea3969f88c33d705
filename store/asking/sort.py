"""Sort items by asking a judge: a language model, a program, a function, or several of these.

    items -> a collection in the store -> questions that a session chooses -> the judge's answers
          -> the ranking, with intervals -> a ranker for further items

`sort` does in one call what `sortnet items add`, `sortnet ask`, `sortnet label` and `sortnet
ranking` do. These commands, the pages of `sortnet serve` and another call of `sort` can open the
collection that `sort` makes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from weakref import finalize

from sortnet.core import Progress
from sortnet.errors import DataError, SortNetError
from sortnet.files import Record, shown
from sortnet.items.given_items import GivenItems, items_from
from sortnet.judges import LanguageModel
from sortnet.judges.any_judge import MachineJudge, OneJudge, connect_judges, judges_by_name
from sortnet.judges.asked_question import AskedQuestion
from sortnet.judges.connection import JudgeConnection
from sortnet.judges.judge_fields import check_whole_number
from sortnet.judges.trial import CallEstimate, dry_run
from sortnet.messages import count
from sortnet.preference.base import MOST_ITEMS
from sortnet.preference.stopping import WRONG, Goal
from sortnet.tables.roles import columns_sentence
from store.asking.machine import AnswerSummary, EndReason, Machine, check_takes_sets
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
    turn_to_sort,
)
from store.asking.sorted_items import SortedItems, sorted_frame
from store.database.engine import StoreAddress
from store.progress import ProgressOption, shown_progress
from store.service.costs import sum_up_costs
from store.service.existing_store import collections_of
from store.service.labelling import LabellingService
from store.service.questions import check_set_size, largest_group
from store.service.sentences import why
from store.store import open_store


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
    store: StoreAddress = None,
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
    given_items = items_from(items, text=text, id=id, group=group, ignore=ignore)
    wanted = {"question": question, "instructions": instructions, "set_size": set_size}
    goal = _checked_goal(given_items, top, wrong, wanted, max_calls)
    judges = judges_by_name(judge)
    connections = _connect(judges, given_items, set_size)
    name = name or name_by_content(given_items, judges, wanted)
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
            collection = collection_to_sort(opened, name, given_items, wanted, seed, show)
            with closing(LabellingService(collection, goal=goal)) as service:
                n_before, machines = _ask(service, connections, max_calls, is_temporary, show)
                n_answers = service.session.n_votes
                columns = ""
                if given_items.roles is not None:
                    columns = columns_sentence(given_items.roles, service.items.feature_names)
                result = SortedItems(
                    frame=sorted_frame(service.ranking, service.items, given_items),
                    name=name,
                    store=opened.database.url,
                    reason=EndReason.GOAL if service.remaining.stop else machines[-1].reason,
                    status=why(service.remaining),
                    answered=n_answers - n_before,
                    answered_in_all=n_answers,
                    by=_summaries(service, machines),
                    cost_in_all=sum_up_costs(service.judgements())["cost"],
                    seed=seed,
                    goal=goal,
                    columns=columns,
                )
            show(result.summary)
        finalize(result, temporary.pop_all().close)  # the result reads the store for its ranker
        return result


def _ask(
    service: LabellingService,
    connections: Mapping[str, JudgeConnection],
    max_calls: int | None,
    is_temporary: bool,
    progress: Progress,
) -> tuple[int, list[Machine]]:
    """Ask the judges until the goal is reached or no judge can be asked.

    Args:
        service: the service of the collection to sort.
        connections: {annotator: the judge that answers under this name}.
        max_calls: most calls of each judge in the collection, earlier calls included; None: no
            limit.
        is_temporary: whether the store is removed if the call ends with an error.
        progress: called with the progress in words.

    Returns:
        The number of answers before, and the machines that have asked.
    """
    questions = ServiceQuestions(service)
    machines = [
        Machine(questions, annotator, connection, on_progress=progress)
        for annotator, connection in connections.items()
    ]
    try:
        progress("fitting the answers so far")
        service.settle()
        n_answers_before = service.session.n_votes
        if max_calls is not None:
            for annotator, connection in connections.items():
                connection.budget.lower_limit(max_calls - calls_so_far(service, annotator))
        ask_in_turn(machines, service, None)
    except KeyboardInterrupt as error:
        error.add_note(f"interrupted: {answers_kept(service, is_temporary)}")
        raise
    for machine in machines:
        # If the judge failed at every question, nothing is left to ask. This is a failure, too.
        is_nothing_left = machine.reason is EndReason.NOTHING_LEFT
        has_only_failed = is_nothing_left and machine.failed and not machine.answered
        if machine.fault or has_only_failed:
            next_step = answers_kept(service, is_temporary)
            raise machine.failure(machine.fault or machine.last_fault, next_step)
    return n_answers_before, machines


def answers_kept(service: LabellingService, is_temporary: bool) -> str:
    """Tell how many answers are kept after an error or an interrupt, and what to do next."""
    n_answers = count(service.session.n_votes, "answer")
    if is_temporary:
        return f'{n_answers} are lost: store="FILE" keeps them'
    return f"{n_answers} are kept: the same call goes on"


def _summaries(service: LabellingService, machines: Sequence[Machine]) -> dict[str, AnswerSummary]:
    """Sum up the answers of each annotator in the collection who has answered, or was asked."""
    names = [annotator.name for annotator in service.collection.annotators()]
    in_all = {name: service.session.answered(name) for name in names}
    summaries = {name: AnswerSummary(0, number) for name, number in in_all.items() if number}
    for machine in machines:
        summaries[machine.annotator] = machine.summary(in_all.get(machine.annotator, 0))
    return summaries


def _connect(
    judges: Mapping[str, MachineJudge], given_items: GivenItems, set_size: int | None
) -> dict[str, JudgeConnection]:
    """Connect to the judges, and return {annotator: connection}.

    Raises:
        SortNetError: if a judge cannot be asked questions about `set_size` items.
    """
    connections = connect_judges(judges, given_items.value_of_id())
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
    store: StoreAddress = None,
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
    given_items = items_from(items, text=text, id=id, group=group, ignore=ignore)
    wanted = {"question": question, "instructions": instructions, "set_size": set_size}
    goal = _checked_goal(given_items, top, wrong, wanted, max_calls)
    judges = judges_by_name(judge)
    # A language model needs no key for an estimate. The estimate refuses its prompt if it must.
    local_judges = {
        annotator: local_judge
        for annotator, local_judge in judges.items()
        if not isinstance(local_judge, LanguageModel)
    }
    _connect(local_judges, given_items, set_size)
    name = name or name_by_content(given_items, judges, wanted)
    with shown_progress(progress) as show, ExitStack() as stack:
        n_new_items = 0
        if store is not None and name in collections_of(store):
            collection = stack.enter_context(open_store(store, write=False)).collection(name)
            n_new_items = len(new_items(collection, given_items.items))
        else:
            folder = stack.enter_context(TemporaryDirectory(prefix="sortnet-"))
            temporary_store = stack.enter_context(open_store(Path(folder, "estimate.db")))
            collection = collection_to_sort(temporary_store, name, given_items, wanted, seed, show)
        show("estimating the questions")
        service = stack.enter_context(closing(LabellingService(collection, goal=goal)))
        service.settle()
        n_questions = _n_questions(service, n_new_items, judges, max_calls)
        return _estimate_models(judges, n_questions, example_questions(service))


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


def _checked_goal(
    given_items: GivenItems,
    top: int | None,
    wrong: float,
    wanted: Record,
    max_calls: int | None,
) -> Goal:
    """Make the goal of the session from the arguments `top` and `wrong` of `sort`.

    Args:
        wanted: the `question`, `instructions` and `set_size` of the judge, which are checked, too.
        max_calls: most calls of each judge, which are checked, too.

    Raises:
        SortNetError: on a value that is no text, an impossible number, or if all items would be top
            items.
    """
    for name in ("question", "instructions"):
        if not isinstance(wanted[name], str | None):
            raise SortNetError(f"{name}: {shown(wanted[name])} is no text")
    set_size = wanted["set_size"]
    check_whole_number("max_calls", max_calls)
    check_whole_number("set_size", set_size, least=2, most=MOST_ITEMS)
    if set_size is not None:
        check_set_size(given_items.items, set_size)
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
