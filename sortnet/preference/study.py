"""Decisions of administrators about a study, and the state of the study after them.

For example, an annotator is excluded, or a pair gets a known answer.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeAlias

from sortnet.errors import JudgementError, StudyError
from sortnet.preference.base import (
    MOST_ITEMS,
    P_IN_WORDS,
    PROBABILITIES,
    Judgement,
    Pair,
    Probabilities,
    unordered_pair,
)
from sortnet.preference.goal import WRONG, Goal

Subject: TypeAlias = str | int | Pair | None


class _Switch(NamedTuple):
    """A kind of decision that can be undone by a decision of the opposite kind.

    Attributes:
        opposite: the opposite kind.
        field: the field of `Study` that maps each subject to the decision in force.
        needs: the fields of a decision that name its subject.
    """

    opposite: str
    field: str
    needs: tuple[str, ...]


_SWITCHES = {
    "exclude": _Switch("include", "excluded", ("annotator",)),
    "pause": _Switch("resume", "paused", ()),  # a decision may also name an annotator
    "revoke": _Switch("renew", "revoked", ("annotator",)),
    "retire": _Switch("restore", "retired", ("item",)),
    "gold": _Switch("no-gold", "gold", ("item", "other")),
    "model": _Switch("person", "models", ("annotator",)),
}
UNDONE_BY = {kind: switch.opposite for kind, switch in _SWITCHES.items()}
UNDOES = {opposite: kind for kind, opposite in UNDONE_BY.items()}
LINKS = {"revoke", "renew"}  # decisions about links to pages
ABOUT_ONE = {"question", "gold", "no-gold"}  # kinds that each criterion has for itself
_LARGEST = 2**31 - 1  # the largest 32-bit integer
_LATEST = 2.0**33  # seconds since 1970: the year 2242
_LARGEST_AMOUNT = {
    "quota": _LARGEST,
    "overlap": _LARGEST,
    "gold-rate": 1.0,
    "goal": 0.5,
    "top": _LARGEST,
    "deadline": _LATEST,
    "set-size": MOST_ITEMS,
    "worst": 1,
}
_SMALLEST_AMOUNT = {"overlap": 1, "set-size": 2}  # the smallest amount of all other kinds is 0
_WHOLE = ("overlap", "top", "set-size")  # kinds whose amount is a whole number
# Kinds of decisions that tell what an annotator's probabilities are: {kind: `Probabilities`}.
ABOUT_P = {f"p-{name}": name for name in PROBABILITIES}
LONGEST = {"question": 500, "instructions": 50_000}  # most characters of the text, by kind
AMOUNTS = tuple(_LARGEST_AMOUNT)  # kinds that set a number
WORDS = tuple(LONGEST)  # kinds that set a text
KINDS = (*UNDONE_BY, *UNDOES, *AMOUNTS, *WORDS, *ABOUT_P)
_STATE_IN_WORDS = {"gold": "a gold pair", "models": "a model"}
_SUBJECT_FIELDS = ("annotator", "item", "other", "amount")
# The fields of `Study` that decide what a session asks and how it ranks.
_FIELDS_OF_SESSION = (
    "excluded",
    "retired",
    "gold",
    "models",
    "overlap",
    "gold_rate",
    "goal",
    "top",
    "probabilities",
    "set_size",
)
GOLD_RATE = 0.05
QUESTION = "Which is better?"


def _needs(kind: str) -> tuple[str, ...]:
    """Return the names of the fields that a decision of this kind must have."""
    if kind == "quota":
        return "annotator", "amount"
    if kind in AMOUNTS:
        return ("amount",)
    if kind in ABOUT_P:
        return ("annotator",)
    if kind in WORDS:
        return ()
    return _switch(kind).needs


def _switch(kind: str) -> _Switch:
    """Find the switch that decisions of this kind turn on or off."""
    return _SWITCHES[UNDOES.get(kind, kind)]


@dataclass(frozen=True)
class Decision:
    """A decision of an administrator; never changed, only undone by the opposite decision.

    Attributes:
        kind: the name of the kind:
            - `exclude` or `include` an annotator's judgements;
            - `pause` or `resume` one annotator, or all annotators;
            - `revoke` or `renew` an annotator's link;
            - `retire` or `restore` an item;
            - `gold` or `no-gold`: a pair has a known answer, or not any more;
            - `model` or `person`: what an annotator is; at first every annotator is a person;
            - `p-measurement`, `p-share` or `p-ignored`: what an annotator's probabilities are, see
              `Probabilities`;
            - `quota`, `overlap`, `gold-rate`, `goal`, `top`, `deadline`, `set-size` or `worst`: set
              this value of the study to `amount`;
            - `question` or `instructions`: set this text of the study to `reason`.
        annotator: name of the annotator, if the decision is about an annotator.
        item: number of the item; the better item of a gold pair.
        other: the worse item of a gold pair.
        amount: the new value, see `Study`. 0 means no quota, no deadline, the default goal or the
            whole order; `worst` is 1 or 0.
        reason: the reason in words, if given. For `question` and `instructions` it is the new
            text, or empty.
        number: place in the order of the collection's decisions, from 1; 0 if not stored yet.
        at: time of the decision in seconds since 1970, if known.

    Raises:
        StudyError: on an unknown kind, a missing or needless field, or an amount out of range.
    """

    kind: str
    annotator: str | None = None
    item: int | None = None
    other: int | None = None
    amount: float | None = None
    reason: str | None = None
    number: int = 0
    at: float | None = None

    def __post_init__(self) -> None:
        kind = self.kind
        if kind not in KINDS:
            raise StudyError(f"unknown decision {kind[:60]!r}; known are {', '.join(KINDS)}")
        self._check_fields()
        if self.item is not None and self.item == self.other:
            raise StudyError(f"item {self.item} cannot be compared with itself")
        if self.amount is not None:
            _check_amount(kind, self.amount)
        n_characters = len(self.reason or "")
        if kind in WORDS and n_characters > LONGEST[kind]:
            text = f"{kind} of {n_characters:,} characters"
            raise StudyError(f"{text}: at most {LONGEST[kind]:,} are shown")

    def _check_fields(self) -> None:
        """Raise StudyError unless exactly the fields are set that this kind of decision needs."""
        set_fields = tuple(name for name in _SUBJECT_FIELDS if getattr(self, name) is not None)
        needs = _needs(self.kind)
        # Without an annotator, `pause` and `resume` are about all annotators.
        is_pause_of_one = self.kind in {"pause", "resume"} and set_fields == ("annotator",)
        if set_fields != needs and not is_pause_of_one:
            needed = ", ".join(needs) or "an annotator or nothing"
            raise StudyError(f"the decision {self.kind!r} is about {needed}, and nothing else")

    @property
    def subject(self) -> Subject:
        """The annotator, item or pair of items that the decision is about.

        A pair has the lower item number first. A decision about all annotators has the subject
        None.
        """
        if self.item is None:
            return self.annotator
        if self.other is None:
            return self.item
        return unordered_pair(self.item, self.other)


def _check_amount(kind: str, amount: float) -> None:
    """Raise StudyError if an amount is out of range for this kind of decision."""
    smallest = _SMALLEST_AMOUNT.get(kind, 0)
    largest = _LARGEST_AMOUNT[kind]
    if not smallest <= amount <= largest:
        raise StudyError(f"{kind} {amount:g} is not from {smallest} to {largest:g}")
    if kind == "set-size" and amount != int(amount):
        raise StudyError(f"set-size {amount:g} is no whole number")


@dataclass(frozen=True)
class Study:
    """The present state of a study, which follows from its decisions in their order.

    Attributes:
        excluded: annotators whose judgements do not count, and who are asked nothing.
        paused: annotators who are asked nothing for now; the key None stands for all annotators.
        revoked: annotators whose link opens nothing.
        retired: items that are neither asked about nor ranked.
        gold: pairs with a known answer.
        models: annotators that are language models or other programs, and share errors.
        probabilities: what each annotator's probabilities are. An annotator who is missing here
            gives shares of votes.
        quotas: number of answers after which an annotator is done.
        overlap: number of people who should answer a pair before new pairs are asked.
        gold_rate: share of gold questions, if there are gold pairs.
        goal: largest share that may be wrong, see `Goal.wrong`; 0 for the default.
        top: number of top items that the goal is about; 0 for the whole order.
        deadline: time, in seconds since 1970, after which nothing is asked; 0 for no deadline.
        set_size: number of items of a question.
        worst: whether a question about more than two items also asks for the worst item.
        question: the question that annotators are asked, in plain text.
        instructions: the text that annotators read first, in Markdown.

    The first six attributes map each subject to the decision in force, which holds the reason.

    >>> study_of([Decision("exclude", "eve"), Decision("retire", item=3)]).state("eve")
    'excluded'
    """

    excluded: Mapping[Any, Decision] = field(default_factory=dict)
    paused: Mapping[Any, Decision] = field(default_factory=dict)
    revoked: Mapping[Any, Decision] = field(default_factory=dict)
    retired: Mapping[Any, Decision] = field(default_factory=dict)
    gold: Mapping[Any, Decision] = field(default_factory=dict)
    models: Mapping[Any, Decision] = field(default_factory=dict)
    probabilities: Mapping[str, Probabilities] = field(default_factory=dict)
    quotas: Mapping[Any, int] = field(default_factory=dict)
    overlap: int = 1
    gold_rate: float = GOLD_RATE
    goal: float = 0
    top: int = 0
    deadline: float = 0
    set_size: int = 2
    worst: bool = True
    question: str = QUESTION
    instructions: str = ""

    def gold_pairs(self) -> list[Pair]:
        """List the gold pairs as (better item, worse item)."""
        pairs = []
        for decision in self.gold.values():
            if decision.item is not None and decision.other is not None:
                pairs.append((decision.item, decision.other))
        return pairs

    def check_answer(self, judgement: Judgement) -> None:
        """Raise a JudgementError if a person names no worst item where it is asked for, too.

        A program or a function may name the best item alone, as its documentation says.
        """
        is_person = judgement.annotator not in self.models
        if is_person and self.worst and judgement.best is not None and judgement.worst is None:
            raise JudgementError(
                "the answer names the best item and not the worst, which is asked for, too"
            )

    def state(self, annotator: str) -> str:
        """Return the state of an annotator: `excluded`, `paused`, `revoked` or `active`.

        If several of them apply, the first in this order is returned.
        """
        if annotator in self.excluded:
            return "excluded"
        if annotator in self.paused or None in self.paused:
            return "paused"
        if annotator in self.revoked:
            return "revoked"
        return "active"

    def reason_of_exclusion(self, annotator: str) -> str | None:
        """Return why an annotator is excluded; None without a reason."""
        decision = self.excluded.get(annotator)
        return None if decision is None else decision.reason

    def left(self, annotator: str, answered: int) -> int | None:
        """Count the answers that are left of an annotator's quota; None without a quota."""
        quota = self.quotas.get(annotator)
        return None if quota is None else max(quota - answered, 0)

    def why_closed(self, annotator: str, answered: int, now: float = 0) -> str:
        """Say why an annotator is asked nothing; an empty text if the annotator is asked.

        Args:
            annotator: name of the annotator.
            answered: number of answers that the annotator has given.
            now: the time in seconds since 1970, which is compared with the deadline.
        """
        for_now = "no questions for now"
        no_more = "no more questions"
        if annotator in self.excluded:
            return f"{no_more}: {annotator} is excluded, until the administrator undoes that"
        if annotator in self.paused:
            return f"{for_now}: {annotator} is paused, until the administrator resumes"
        if None in self.paused:
            return f"{for_now}: the collection is paused, until the administrator resumes"
        if 0 < self.deadline <= now:
            return f"{no_more}: the deadline was {said_time(self.deadline)}"
        if self.left(annotator, answered) == 0:
            quota = self.quotas[annotator]
            return f"{no_more}: {annotator} has given all {quota} answers asked for"
        return ""

    def asks_alike(self, other: Study) -> bool:
        """Whether a session asks the same questions and ranks the same under another study."""
        return all(getattr(self, name) == getattr(other, name) for name in _FIELDS_OF_SESSION)

    def wanted(self) -> Goal:
        """Return the goal of the session; the default goal if the study sets none."""
        return Goal(self.goal or WRONG, self.top)


def said_time(seconds: float) -> str:
    """Write a time, in seconds since 1970, as a date and a time of day.

    >>> said_time(0)
    '1970-01-01 00:00 UTC'
    """
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"


def study_of(decisions: Iterable[Decision], before: Study | None = None) -> Study:
    """Compute the state of a study after decisions.

    Args:
        decisions: the decisions, oldest first.
        before: the state that the decisions change. If None, it is the state without any decision.
    """
    study = Study() if before is None else before
    values: dict[str, Any] = {}  # the values of the fields of `Study`, by name
    for name, value in vars(study).items():
        values[name] = dict(value) if isinstance(value, Mapping) else value
    for decision in decisions:
        _apply(decision, values)
    # The amount 0 means no quota.
    values["quotas"] = {name: quota for name, quota in values["quotas"].items() if quota}
    return replace(study, **values)


def _apply(decision: Decision, values: dict[str, Any]) -> None:
    """Change the fields of a study as a decision says.

    Args:
        decision: the decision.
        values: the values of the fields of `Study`, by name. They are changed in place.
    """
    kind = decision.kind
    if kind in UNDONE_BY:  # such as `pause`
        values[_switch(kind).field][decision.subject] = decision
    elif kind in UNDOES:  # such as `resume`
        values[_switch(kind).field].pop(decision.subject, None)
    elif kind in ABOUT_P:
        values["probabilities"][decision.annotator] = ABOUT_P[kind]
    elif kind == "quota":
        values["quotas"][decision.annotator] = int(decision.amount or 0)
    else:  # the kind is the name of a field
        values[kind.replace("-", "_")] = _value_set_by(decision)


def _value_set_by(decision: Decision) -> str | float | bool:
    """Return the new value of the field of `Study` that a decision of this kind sets."""
    kind = decision.kind
    if kind in WORDS:  # the reason is the new text; without a text, the default is set
        default_text: str = getattr(Study, kind)
        return decision.reason or default_text
    amount = decision.amount or 0
    if kind == "worst":
        return bool(amount)
    return int(amount) if kind in _WHOLE else amount


def questions_at(decisions: Iterable[Decision], times: Iterable[float | None]) -> list[str]:
    """Return the text of the question that was asked at each time.

    Args:
        decisions: the decisions of the study, oldest first.
        times: times in seconds since 1970. None stands for the present.

    >>> questions_at([Decision("question", reason="Which is clearer?", at=9)], [3, 9, None])
    ['Which is better?', 'Which is clearer?', 'Which is clearer?']
    """
    questions = [QUESTION]
    change_times: list[float] = []
    for decision in decisions:
        if decision.kind == "question":
            questions.append(decision.reason or QUESTION)
            change_times.append(decision.at or 0)

    def question_at(time: float | None) -> str:
        n_changes = len(change_times) if time is None else bisect_right(change_times, time)
        return questions[n_changes]

    return [question_at(time) for time in times]


def check_decision(study: Study, decision: Decision, called: str) -> None:
    """Raise StudyError if a decision would change nothing, or its text cannot be shown.

    A link may be renewed at any time: the old link then opens nothing.

    Args:
        study: the state of the study before the decision.
        decision: the decision.
        called: what the error calls the subject of the decision, such as `annotator 'eve'`.

    Raises:
        StudyError: with the reason.
    """
    kind = decision.kind
    text = decision.reason or ""
    if kind in WORDS and "\0" in text:
        raise StudyError(f"{kind} with a NUL character, which is no text: {text[:60]!r}")
    if kind == "question" and len(text.splitlines()) > 1:
        raise StudyError(f"question of several lines: {text[:60]!r}; put them in the instructions")
    probabilities = study.probabilities.get(decision.annotator or "")
    if kind in ABOUT_P and probabilities == ABOUT_P[kind]:
        raise StudyError(f"the p of {called} is {P_IN_WORDS[probabilities]} already")
    if kind in UNDONE_BY or kind in UNDOES:
        _check_switch(study, decision, called)


def _check_switch(study: Study, decision: Decision, called: str) -> None:
    """Raise StudyError if a switch is already in the state that the decision sets.

    A switch has two kinds of decisions, one of which undoes the other, such as `pause` and
    `resume`.

    Args:
        study, decision, called: as in `check_decision`; the decision turns a switch on or off.
    """
    kind = decision.kind
    field_name = _switch(kind).field
    is_on = decision.subject in getattr(study, field_name)
    state_in_words = _STATE_IN_WORDS.get(field_name, field_name)
    if kind in UNDONE_BY and is_on:
        raise StudyError(f"{called} is {state_in_words} already")
    may_be_repeated = kind == "renew"  # each renewal makes another link
    if kind in UNDOES and not may_be_repeated and not is_on:
        raise StudyError(f"{called} is not {state_in_words}")
