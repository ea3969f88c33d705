"""Sort items by asking a judge: a language model, a program, a function, or several of these.

    items -> a collection in the store -> questions that a session chooses -> the judge's answers
          -> the ranking, with intervals -> a ranker for further items

`sort` is `sortnet items add`, `sortnet ask`, `sortnet label` and `sortnet ranking` in one call. Its
collection can be opened by these commands, by the pages of `sortnet serve` and by `sort` in turn.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy import URL

from sortnet.core import Progress
from sortnet.errors import DataError, SortNetError, StoreError
from sortnet.files import shown
from sortnet.items import Items
from sortnet.items.given_items import GivenItems, items_from
from sortnet.judges import LanguageModel
from sortnet.judges.any_judge import MachineJudge, OneJudge, described
from sortnet.judges.connection import JudgeConnection
from sortnet.judges.estimate import CallEstimate, estimate_calls
from sortnet.judges.limits import check_whole_number
from sortnet.judges.prompts import Prompt
from sortnet.messages import count
from sortnet.preference.base import MOST_ITEMS
from sortnet.preference.goal import WRONG, Goal
from sortnet.preference.study import QUESTION, Decision
from store.collections.collection import Collection
from store.progress import ProgressOption, shown_progress
from store.service.added_items import add_items
from store.service.judge_as_annotator import (
    EndReason,
    Judging,
    LabellingEnd,
    check_takes_sets,
    example_pairs,
)
from store.service.labelling import LabellingService
from store.service.questions import check_set_size
from store.service.sorted_items import SortedItems, ranking_frame
from store.store import Store, open_store

_LONGEST_NAME = 60  # characters of a command that is an annotator's name
_ROUND = 20  # answers of one of several judges before the next one is asked
_EXAMPLES = 50  # prompts of which an estimate takes the mean length


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
    """Sort items by asking a judge which of two is better, or which of some is best and worst.

    Each answer is stored before the next question is chosen. After an interrupt or an error the
    same call goes on where it ended, and asks nothing twice; called again at the end it asks
    nothing.

    Args:
        items: texts, paths, rows of numbers or dicts in a list; a data frame; a file or folder.
        judge: a `LanguageModel`, a `Program`, or a function of two items as they were passed,
            which returns `left`, `right`, `tie`, `skip`, or the probability that the left one is
            better, see `Function` about more than two; or several judges by name, which answer in
            turn.

        The questions:

        question: what is asked; None: `Which is better?`.
        instructions: how to judge, in Markdown.
        set_size: number of items of a question, 2 to 6; None: as it was, in a new collection 2. Of
            more than two the best and the worst are asked for.
        seed: seed of the choice of questions.

        The end:

        top: number of the best items that are wanted; None: the order of all.
        wrong: share of the pairs, or of the top items, that may still be expected wrong.
        max_calls: calls of each judge in this collection, those of earlier calls of `sort` counted;
            None: until the goal is reached.

        The answers:

        store: file or URL of the store; None: one that is forgotten when the process ends.
        name: name of the collection; None: a hash of the items and the question. More items may be
            passed under one name, but none left out.
        progress: a function that gets texts; False: nothing is shown; None: a line in a terminal
            or notebook.

        The columns of a table:

        text, id, group: columns of the items' texts, ids and groups; only items of one group are
            compared.
        ignore: columns that are no features.

    Raises:
        SortNetError: on items, a judge or a store that cannot be used; if the judge fails three
            times in a row, saying how many answers are kept.
        Exception: of a function that raises three times in a row, as it is, with a note of how
            many answers are kept.

    Cost: the judge's, and about 10 ms a question for a thousand items.

    >>> found = sort(["a", "ccc", "bb"], judge=lambda left, right: len(left) / len(left + right))
    >>> found.frame["item"].tolist()
    ['ccc', 'bb', 'a']
    """
    check_whole_number("max_calls", max_calls)
    _check_texts(question=question, instructions=instructions)
    judges = judges_by_name(judge)
    given = items_from(items, text=text, id=id, group=group, ignore=ignore)
    goal = _goal(given, top, wrong)
    _check_set_size(given, set_size)
    value_of_id = given.value_of_id()
    connections = {
        annotator: one.connect(f"judge {annotator}", value_of_id)
        for annotator, one in judges.items()
    }
    if set_size is not None and set_size > 2:
        for connection in connections.values():
            check_takes_sets(connection, set_size)
    with shown_progress(progress) as show, _opened(store) as opened:
        collection = _collection(opened, name, given, question, instructions, seed, show)
        _decide_set_size(collection, set_size)
        with closing(LabellingService(collection, goal=goal, record=True)) as service:
            show("fitting the answers so far")
            service.settle()
            before = service.session.n_votes
            end = _ask_all(service, connections, max_calls, show)
            return SortedItems(
                frame=ranking_frame(service.ranking, given, service.items.ids),
                name=collection.name,
                store=opened.database.url,
                reason=EndReason.GOAL if end is None else end.reason,
                status=service.remaining.why,
                answered=service.session.n_votes - before,
                answered_in_all=service.session.n_votes,
                spent={name: one.spent_facts() for name, one in connections.items()},
                seed=seed,
                goal=goal,
            )


@dataclass(frozen=True)
class SortEstimate:
    """What a call of `sort` would take; nothing was asked, sent or stored.

    Attributes:
        questions: expected number of questions to the goal, or to `max_calls`.
        calls: of each language model by name, with tokens and cost.
        prompt: what a language model would be sent about one pair; None without one.
    """

    questions: int
    calls: Mapping[str, CallEstimate]
    prompt: str | None

    def __str__(self) -> str:
        of_models = [f"{name}: {estimate}" for name, estimate in self.calls.items()]
        return "; ".join([f"about {count(self.questions, 'question')}", *of_models])


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
    text: str | None = None,
    id: str | None = None,
    group: str | None = None,
    ignore: Sequence[str] = (),
    seed: int = 0,
) -> SortEstimate:
    """Estimate what `sort` with the same arguments takes, from no answers at all.

    Raises:
        SortNetError: as `sort`.

    Cost: a simulated session.

    >>> print(estimate(["a", "bb", "ccc"], judge=lambda left, right: "left"))
    about 3 questions
    """
    check_whole_number("max_calls", max_calls)
    _check_texts(question=question, instructions=instructions)
    judges = judges_by_name(judge)
    given = items_from(items, text=text, id=id, group=group, ignore=ignore)
    goal = _goal(given, top, wrong)
    _check_set_size(given, set_size)
    if set_size is not None and set_size > 2:
        for name, one in judges.items():
            if not isinstance(one, LanguageModel):  # whose prompts are made below
                check_takes_sets(one.connect(f"judge {name}"), set_size)
    with tempfile.TemporaryDirectory() as folder, open_store(Path(folder, "estimate.db")) as opened:
        collection = _collection(
            opened, None, given, question, instructions, seed, lambda text: None
        )
        _decide_set_size(collection, set_size)
        with closing(LabellingService(collection, goal=goal)) as service:
            service.settle()
            n_questions = service.remaining.questions
            examples = example_pairs(service, _EXAMPLES)
    n_pairs = len(given.items) * (len(given.items) - 1) // 2
    questions = n_pairs if n_questions is None else min(n_questions, n_pairs)
    if max_calls is not None:
        questions = min(questions, max_calls * len(judges))
    models = {name: one for name, one in judges.items() if isinstance(one, LanguageModel)}
    share = -(-questions // len(judges))
    return SortEstimate(
        questions,
        {name: estimate_calls(model, share, examples) for name, model in models.items()},
        next((Prompt(model.prompt).of(examples[0]) for model in models.values()), None),
    )


def judges_by_name(
    judge: OneJudge | Mapping[str, OneJudge],
) -> dict[str, MachineJudge]:
    """The judges by the names under which their answers are stored.

    Raises:
        SortNetError: on something that is no judge, or no judge at all.

    >>> list(judges_by_name({"length": lambda left, right: "left"}))
    ['length']
    """
    if isinstance(judge, Mapping):
        if not judge:
            raise SortNetError("judge: there is none")
        return {str(name): described(one) for name, one in judge.items()}
    one = described(judge)
    return {_annotator(one): one}


def _annotator(judge: MachineJudge) -> str:
    """The name of a judge: its model and variant, its command, or its function's name."""
    name = judge.annotator
    if isinstance(judge, LanguageModel) and judge.variant:
        name = f"{name} {judge.variant}"
    if len(name) <= _LONGEST_NAME:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{name[: _LONGEST_NAME - 9].strip()} {digest}"


def _check_texts(**texts: object) -> None:
    for name, text in texts.items():
        if text is not None and not isinstance(text, str):
            raise SortNetError(f"{name}: {shown(text)} is no text")


def _goal(given: GivenItems, top: int | None, wrong: float) -> Goal:
    """The goal of the session.

    Raises:
        SortNetError: on a number that cannot be, or a top that has room for all items.
    """
    check_whole_number("top", top)
    if not isinstance(wrong, int | float) or not 0 < wrong < 1:
        raise SortNetError(f"wrong: {shown(wrong)} is no share between 0 and 1")
    groups = given.items.groups
    names = ("",) * len(given.items) if groups is None else groups
    largest = max(Counter(names).values())
    if top is not None and top >= largest:
        where = "" if groups is None else " in the largest group"
        raise DataError(f"top: {top} of {count(largest, 'item')}{where}: all of them are the top")
    return Goal(wrong, top or 0)


def _check_set_size(given: GivenItems, set_size: int | None) -> None:
    """Refuse a number of items of a question that cannot be."""
    check_whole_number("set_size", set_size, least=2, most=MOST_ITEMS)
    if set_size is not None:
        check_set_size(given.items, set_size)


def _decide_set_size(collection: Collection, set_size: int | None) -> None:
    """Let questions be about so many items from now on; None: as they are."""
    if set_size not in (None, collection.study().set_size):
        collection.decide(Decision("set-size", amount=set_size))


@contextmanager
def _opened(store: str | Path | URL | None) -> Iterator[Store]:
    with open_store(_process_store() if store is None else store) as opened:
        yield opened


@cache
def _process_store() -> Path:
    """File of the store of this process, which is removed at its end."""
    folder = tempfile.mkdtemp(prefix="sortnet-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder, "sort.db")


def _collection(
    store: Store,
    name: str | None,
    given: GivenItems,
    question: str | None,
    instructions: str | None,
    seed: int,
    progress: Progress,
) -> Collection:
    """The collection of the items, made or added to.

    Raises:
        StoreError: if it has items that were not passed, or another question and answers to it.
    """
    items = given.items
    if name is None:
        name = f"sort {_digest(given, question, instructions)}"
    known = set(store.collections_frame()["name"])
    old_ids: tuple[str, ...] = ()
    if name in known:
        collection = store.collection(name)
        old_items = collection.items()
        old_ids = old_items.ids
        passed = {*items.ids}
        missing = [id for id in old_ids if id not in passed]
        if missing:
            raise StoreError(
                f"collection {name!r} has {count(len(missing), 'item')} that {_were(len(missing))} "
                f"not passed, such as {shown(missing[0])}: pass all items, or another name"
            )
        _check_unchanged(name, old_items, items)
    known_ids = {*old_ids}
    new_rows = [k for k, id in enumerate(items.ids) if id not in known_ids]
    if new_rows:
        progress("adding the items")
        columns = None
        if given.roles is not None:
            columns = {
                role: value for role, value in vars(given.roles).items() if role not in _NOT_STORED
            }
        has_numbers = bool(given.items.feature_names)
        collection = add_items(
            store, name, items.take(new_rows), has_numbers=has_numbers, columns=columns,
            seed=seed, progress=progress,
        )  # fmt: skip
    texts = {"question": question, "instructions": instructions}
    study = collection.study()
    changed = {kind: text for kind, text in texts.items() if text and text != getattr(study, kind)}
    if changed and collection.n_judgements:
        kind, text = next(iter(changed.items()))
        raise StoreError(
            f"collection {name!r} has answers to the {kind} {shown(getattr(study, kind))}: "
            f"{shown(text)} needs another name"
        )
    collection.decide(*(Decision(kind, reason=text) for kind, text in changed.items()))
    return collection


_NOT_STORED = ("notes", "ignored")


def _check_unchanged(name: str, old: Items, new: Items) -> None:
    """Refuse an item whose text is another one than when judges answered about it."""
    text_of_id = dict(zip(old.ids, old.texts, strict=True))
    for id, text in zip(new.ids, new.texts, strict=True):
        if id in text_of_id and text != text_of_id[id]:
            raise StoreError(
                f"collection {name!r} has another text of item {shown(id)}, to which its answers "
                "belong: give the item another id, or pass another name"
            )


def _were(n: int) -> str:
    return "was" if n == 1 else "were"


def _digest(given: GivenItems, question: str | None, instructions: str | None) -> str:
    """A hash of the items and their groups, whatever their order, and of what is asked."""
    items = given.items
    groups = items.groups or (None,) * len(items)
    contents = sorted(
        repr((id, text, group, _file_hash(items, image), _file_hash(items, audio), row.tolist()))
        for id, text, group, image, audio, row in zip(
            items.ids, items.texts, groups, items.images, items.audio, items.features, strict=True
        )
    )
    about = json.dumps([contents, question or QUESTION, instructions or ""])
    return hashlib.sha256(about.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _file_hash(items: Items, file: str | None) -> str | None:
    """A hash of what an image or sound file holds."""
    if file is None:
        return None
    path = Path(items.root or "", file)
    try:
        with path.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"items: {path}: {error.strerror}") from None


def _ask_all(
    service: LabellingService,
    connections: Mapping[str, JudgeConnection],
    max_calls: int | None,
    progress: Progress,
) -> LabellingEnd | None:
    """Ask the judges in turn until the goal is reached or none of them can be asked.

    Returns how the last one ended; None if nobody had to be asked.

    Raises:
        SortNetError: if a judge fails.
        KeyboardInterrupt: at an interrupt, after what is answered is stored.
    """
    left = {
        annotator: None if max_calls is None else max_calls - calls_of(service, annotator)
        for annotator in connections
    }
    for annotator, connection in connections.items():
        _limit_calls(connection, left[annotator])
    end: LabellingEnd | None = None
    waiting = [annotator for annotator, n_left in left.items() if n_left is None or n_left > 0]
    if not waiting and not service.remaining.stop:
        return LabellingEnd(EndReason.BUDGET, service.remaining.why, 0, 0, 0)
    while waiting and not service.remaining.stop:
        for annotator in [*waiting]:
            connection = connections[annotator]
            n_left = left[annotator]
            n_round = None if len(connections) == 1 else _ROUND
            number = min((n for n in (n_left, n_round) if n is not None), default=None)
            end = _ask(service, annotator, connection, number, progress)
            if n_left is not None:
                left[annotator] = n_left = _calls_left(connection, n_left, end)
            is_spent = n_left is not None and n_left <= 0
            if is_spent:
                end = replace(end, reason=EndReason.BUDGET)
            if is_spent or end.reason in (EndReason.BUDGET, EndReason.NOTHING_LEFT):
                waiting.remove(annotator)
            if service.remaining.stop:
                break
    return end


def _calls_left(connection: JudgeConnection, n_left: int, end: LabellingEnd) -> int:
    """Calls of a judge that are left after a round; of one with a budget those of the budget."""
    budget = connection.budget
    if budget is not None and budget.limits.max_calls is not None:
        return budget.limits.max_calls - budget.calls
    return n_left - end.answered


def _limit_calls(connection: JudgeConnection, n_left: int | None) -> None:
    """Let the judge's budget, if it has one, allow no more calls than are left.

    A judge without a call left is not asked, so that its budget does not matter.
    """
    budget = connection.budget
    if budget is None or n_left is None or n_left <= 0:
        return
    most = budget.limits.max_calls
    n_allowed = n_left if most is None else min(most, n_left)
    budget.limits = replace(budget.limits, max_calls=n_allowed)


def calls_of(service: LabellingService, annotator: str) -> int:
    """Calls of a judge that the answers in the collection took."""
    judgements = service.judgements()
    if annotator not in judgements.annotators:
        return 0
    calls = 0
    for row in judgements.by(annotator).nonzero()[0].tolist():
        meta = judgements.texts["meta"].get(row)
        facts = json.loads(meta) if meta else {}
        calls += facts.get("calls", 1) if isinstance(facts, dict) else 1
    return calls


def _ask(
    service: LabellingService,
    annotator: str,
    connection: JudgeConnection,
    number: int | None,
    progress: Progress,
) -> LabellingEnd:
    """Let one judge answer; an annotator who has said nothing is left behind by no fault."""
    collection = service.collection
    is_new = annotator not in {one.name for one in collection.annotators()}
    collection.annotator(annotator)
    judging = Judging(
        judge=connection,
        service=service,
        annotator=annotator,
        number=number,
        on_progress=lambda text: progress(connection.progress(text)),
    )
    try:
        judging.run()
    finally:
        if is_new:
            collection.forget(annotator)
    end = judging.end()
    if end.reason == EndReason.INTERRUPTED:
        raise KeyboardInterrupt
    has_only_failed = end.reason == EndReason.NOTHING_LEFT and end.failed and not end.answered
    if end.reason == EndReason.FAULT or has_only_failed:
        kept = f"{count(service.session.answered(annotator), 'answer')} are kept"
        again = f"{kept}: the same call goes on"
        if judging.cause is not None:
            judging.cause.add_note(f"{connection.name}: {again}")
            raise judging.cause
        raise SortNetError(f"{connection.name}: {end.fault or judging.last_fault}; {again}")
    return end
