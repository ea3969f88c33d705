"""Decisions of administrators about a study: of all rows about the same subject, the last counts.

For example, an annotator is excluded, or a pair gets a known answer.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeAlias

from sortnet.errors import JudgementError, StudyError
from sortnet.preference.base import (
    MOST_ITEMS,
    P_IN_WORDS,
    Judgement,
    Pair,
    Probabilities,
    unordered_pair,
)
from sortnet.preference.stopping import WRONG, Goal

Subject: TypeAlias = str | int | Pair | None
# The last decision on each field of `Study` and each subject.
LastDecisions: TypeAlias = dict[tuple[str, Subject], "Decision"]

_MOST = 2**31 - 1  # the largest 32-bit integer
LATEST = 2.0**33  # seconds since 1970: the year 2242


class Kind(NamedTuple):
    """Effect of decisions of one kind.

    Attributes:
        field: the field of `Study` that they set.
        about: the fields of a decision that are set, in words.
        value: the value that they set: whether it is so, or the meaning of probabilities. If None,
            the value is the amount or the text of the decision.
        type: the type of an amount.
        least, most: the range of an amount.
    """

    field: str
    about: str
    value: bool | Probabilities | None = None
    type: type[int] | type[float] | type[bool] = float
    least: float = 0
    most: float = _MOST


KINDS = {
    "exclude": Kind("excluded", "annotator", True),
    "include": Kind("excluded", "annotator", False),
    "pause": Kind("paused", "annotator or nothing", True),
    "resume": Kind("paused", "annotator or nothing", False),
    "revoke": Kind("revoked", "annotator", True),
    "renew": Kind("revoked", "annotator", False),
    "retire": Kind("retired", "item", True),
    "restore": Kind("retired", "item", False),
    "gold": Kind("gold", "item, other", True),
    "no-gold": Kind("gold", "item, other", False),
    "model": Kind("models", "annotator", True),
    "person": Kind("models", "annotator", False),
    "p-measurement": Kind("probabilities", "annotator", "measurement"),
    "p-share": Kind("probabilities", "annotator", "share"),
    "p-ignored": Kind("probabilities", "annotator", "ignored"),
    "quota": Kind("quotas", "annotator, amount", type=int),
    "overlap": Kind("overlap", "amount", type=int, least=1),
    "gold-rate": Kind("gold_rate", "amount", most=1),
    "goal": Kind("goal", "amount", most=0.5),
    "top": Kind("top", "amount", type=int),
    "deadline": Kind("deadline", "amount", most=LATEST),
    "set-size": Kind("set_size", "amount", type=int, least=2, most=MOST_ITEMS),
    "worst": Kind("worst", "amount", type=bool, most=1),
    "question": Kind("question", "nothing"),
    "instructions": Kind("instructions", "nothing"),
}
LINKS = {"revoke", "renew"}  # decisions about links to pages
ABOUT_ONE = {"question", "gold", "no-gold"}  # kinds that each criterion has for itself
LONGEST = {"question": 500, "instructions": 50_000}  # {kind with a text: its most characters}
_STATE_IN_WORDS = {"gold": "a gold pair", "models": "a model"}
_FIELDS_OF_DECISION = ("annotator", "item", "other", "amount")
# The fields of `Study` that map each subject to the decision in force.
_SWITCHED = ("excluded", "paused", "revoked", "retired", "gold", "models")
# The fields of `Study` that decide what a session asks and how it ranks.
_FIELDS_OF_SESSION = (
    *("excluded", "retired", "gold", "models", "probabilities"),
    *("overlap", "gold_rate", "goal", "top", "set_size"),
)
GOLD_RATE = 0.05
QUESTION = "Which is better?"


@dataclass(frozen=True)
class Decision:
    """A decision of an administrator; never changed: the last one on its subject counts.

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
        if self.kind not in KINDS:
            raise StudyError(f"unknown decision {self.kind[:60]!r}; known are {', '.join(KINDS)}")
        about_items = KINDS[self.kind].about
        names = [name for name in _FIELDS_OF_DECISION if getattr(self, name) is not None]
        if (", ".join(names) or "nothing") not in about_items.split(" or "):
            raise StudyError(f"the decision {self.kind!r} is about {about_items}, and nothing else")
        if self.item is not None and self.item == self.other:
            raise StudyError(f"item {self.item} cannot be compared with itself")
        if self.amount is not None:
            self._check_amount(self.amount)
        n_characters = len(self.reason or "")
        longest = LONGEST.get(self.kind, n_characters)
        if n_characters > longest:
            raise StudyError(
                f"{self.kind} of {n_characters:,} characters: at most {longest:,} are shown"
            )

    def _check_amount(self, amount: float) -> None:
        """Raise StudyError if the amount is out of range for this kind of decision."""
        kind = KINDS[self.kind]
        if not kind.least <= amount <= kind.most:
            raise StudyError(f"{self.kind} {amount:g} is not from {kind.least} to {kind.most:g}")
        if kind.type is int and amount != int(amount):
            raise StudyError(f"{self.kind} {amount:g} is no whole number")

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

    @property
    def key(self) -> tuple[str, Subject]:
        """The field of `Study` that the decision sets, and the subject."""
        return KINDS[self.kind].field, self.subject

    @property
    def value(self) -> Any:
        """The value that the decision sets: a switch, a meaning of p, a number or a text."""
        kind = KINDS[self.kind]
        if kind.value is not None:
            return kind.value
        if self.kind in LONGEST:  # `reason` has the new text; without it, the default is set
            return self.reason or getattr(Study, kind.field)
        return kind.type(self.amount or 0)  # a decision without an amount sets 0


@dataclass(frozen=True)
class Study:
    """The present state of a study: the last decision on each subject.

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
        decisions = self.gold.values()
        # A decision about gold has both items.
        return [(decision.item or 0, decision.other or 0) for decision in decisions]

    def check_answer(self, judgement: Judgement) -> None:
        """Raise a JudgementError if a person names no worst item where it is asked for, too.

        A program or a function may name the best item alone, as its documentation says.
        """
        is_person = judgement.annotator not in self.models
        if is_person and self.worst and judgement.lacks_worst:
            raise JudgementError(
                "the answer names the best item and not the worst, which is asked for, too"
            )

    def state(self, annotator: str) -> str:
        """Return the state of an annotator: `excluded`, `paused`, `revoked` or `active`.

        If several of them apply, the first in this order is returned.
        """
        states = {
            "excluded": annotator in self.excluded,
            "paused": annotator in self.paused or None in self.paused,
            "revoked": annotator in self.revoked,
        }
        return next((state for state, applies in states.items() if applies), "active")

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


def last_decisions(decisions: Iterable[Decision]) -> LastDecisions:
    """Keep the last decision on each field of `Study` and each subject.

    Args:
        decisions: the decisions, oldest first.
    """
    return {decision.key: decision for decision in decisions}


def study_of(decisions: Iterable[Decision]) -> Study:
    """Return the state of a study after decisions.

    Args:
        decisions: the decisions, oldest first.
    """
    values: dict[str, Any] = {"probabilities": {}, "quotas": {}, **{name: {} for name in _SWITCHED}}
    for (name, subject), decision in last_decisions(decisions).items():
        if name not in values or not isinstance(values[name], dict):
            values[name] = decision.value
        elif decision.value:  # not if it is switched off; a quota of 0 is none
            values[name][subject] = decision if name in _SWITCHED else decision.value
    return Study(**values)


def questions_at(decisions: Iterable[Decision], times: Iterable[float | None]) -> list[str]:
    """Return the text of the question that was asked at each time.

    Args:
        decisions: the decisions of the study, oldest first.
        times: times in seconds since 1970. None stands for the present.

    >>> questions_at([Decision("question", reason="Which is clearer?", at=9)], [3, 9, None])
    ['Which is better?', 'Which is clearer?', 'Which is clearer?']
    """
    changes = [decision for decision in decisions if decision.kind == "question"]
    questions = [QUESTION, *(decision.reason or QUESTION for decision in changes)]
    change_times = [decision.at or 0 for decision in changes]
    return [questions[-1 if time is None else bisect_right(change_times, time)] for time in times]


def check_decision(last: LastDecisions, decision: Decision, called: str) -> None:
    """Raise StudyError if a decision would change nothing, or its text cannot be shown.

    A link may be renewed at any time: the old link then opens nothing.

    Args:
        last: the last decisions before.
        decision: the decision.
        called: what the error calls the subject of the decision, such as `annotator 'eve'`.

    Raises:
        StudyError: with the reason.
    """
    kind = decision.kind
    text = decision.reason or ""
    if kind in LONGEST and "\0" in text:
        raise StudyError(f"{kind} with a NUL character, which is no text: {text[:60]!r}")
    if kind == "question" and len(text.splitlines()) > 1:
        raise StudyError(f"question of several lines: {text[:60]!r}; put them in the instructions")
    earlier = last.get(decision.key)
    value: Any = KINDS[kind].value
    value_before: Any = False if earlier is None else earlier.value
    if value is None or value != value_before or kind == "renew":
        return
    name, _ = decision.key
    if name == "probabilities":
        raise StudyError(f"the p of {called} is {P_IN_WORDS[value]} already")
    state = _STATE_IN_WORDS.get(name, name)
    if value:
        raise StudyError(f"{called} is {state} already")
    raise StudyError(f"{called} is not {state}")
