"""Decisions about a study, and its present state: who is excluded, what is retired, gold pairs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, TypeAlias

from sortnet.errors import StudyError
from sortnet.preference.base import (
    MOST_ITEMS,
    P_IN_WORDS,
    PROBABILITIES,
    Pair,
    Probabilities,
)
from sortnet.preference.goal import WRONG, Goal

Subject: TypeAlias = str | int | Pair | None
# Each kind, its opposite, the field of a study that it fills, what it must be about; a pause may
# also name an annotator.
_TURNED_ON: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "exclude": ("include", "excluded", ("annotator",)),
    "pause": ("resume", "paused", ()),
    "revoke": ("renew", "revoked", ("annotator",)),
    "retire": ("restore", "retired", ("item",)),
    "gold": ("no-gold", "gold", ("item", "other")),
    "model": ("person", "models", ("annotator",)),
}
UNDONE_BY = {kind: undoing for kind, (undoing, _, _) in _TURNED_ON.items()}
UNDOES = {undoing: kind for kind, undoing in UNDONE_BY.items()}
_FIELDS = {kind: field for kind, (_, field, _) in _TURNED_ON.items()}
LINKS = {"revoke", "renew"}  # decisions about links to pages
ABOUT_ONE = {"question", "gold", "no-gold"}  # whose answer depends on the criterion
_LARGEST = 2**31 - 1
_LATEST = 2.0**33  # seconds since 1970: the year 2242
_MOST = {"quota": _LARGEST, "overlap": _LARGEST, "gold-rate": 1.0, "goal": 0.5, "top": _LARGEST}
_MOST |= {"deadline": _LATEST, "set-size": MOST_ITEMS, "worst": 1}
_LEAST = {"overlap": 1, "set-size": 2}  # of other amounts 0
_WHOLE = ("overlap", "top", "set-size")
ABOUT_P = {f"p-{name}": name for name in PROBABILITIES}  # decisions on what a `p` is
LONGEST = {"question": 500, "instructions": 50_000}  # characters of a decision's reason
AMOUNTS, WORDS = tuple(_MOST), tuple(LONGEST)
KINDS = (*UNDONE_BY, *UNDOES, *AMOUNTS, *WORDS, *ABOUT_P)
_CALLED = {"gold": "a gold pair", "models": "a model"}
_SUBJECTS = ("annotator", "item", "other", "amount")
GOLD_RATE = 0.05
QUESTION = "Which is better?"


def _needs(kind: str) -> tuple[str, ...]:
    if kind in AMOUNTS:
        return ("annotator", "amount") if kind == "quota" else ("amount",)
    if kind in ABOUT_P:
        return ("annotator",)
    return () if kind in WORDS else _TURNED_ON[UNDOES.get(kind, kind)][2]


@dataclass(frozen=True)
class Decision:
    """What an administrator decided; never changed, only undone by the opposite decision.

    Attributes:
        kind: `exclude` or `include` an annotator's judgements; `pause` or `resume` an annotator, or
            all of them; `revoke` or `renew` a link; `retire` or `restore` an item; `gold` or
            `no-gold`; an annotator is a `model` or, as everybody is before, a `person`; `quota` of
            an annotator, `overlap`, `gold-rate`, `goal`, `top`, `deadline`, `set-size`, `worst`;
            the `question` that is asked, and the `instructions`; the probabilities of an annotator
            are measurements, `p-measurement`, shares of votes, `p-share`, or ignored, `p-ignored`.
        annotator: their name.
        item: the item; of a gold pair the better one.
        other: the worse item of a gold pair.
        amount: answers of a quota, 0 for no quota; people of an overlap; share of gold questions;
            share that may be wrong once the goal is reached, 0 for the default; number of top items
            wanted, 0 for the whole order; seconds since 1970 of the deadline, 0 for none; items of
            a question; 1 if the worst of more than two is asked for, too, else 0.
        reason: in words, if given; the text of a question or of instructions, empty for none.
        number: its place in the order of the collection's decisions, from 1; 0 if not stored yet.
        at: time in seconds since 1970, if known.

    Raises:
        StudyError: on an unknown kind, or if it lacks what it must be about.
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
        given = tuple(name for name in _SUBJECTS if getattr(self, name) is not None)
        needs = _needs(kind)
        if given != needs and not (kind in {"pause", "resume"} and given == ("annotator",)):
            needed = ", ".join(needs) or "an annotator or nothing"
            raise StudyError(f"the decision {kind!r} is about {needed}, and nothing else")
        if self.item is not None and self.item == self.other:
            raise StudyError(f"item {self.item} cannot be compared with itself")
        least = _LEAST.get(kind, 0)
        if self.amount is not None and not least <= self.amount <= _MOST[kind]:
            raise StudyError(f"{kind} {self.amount:g} is not from {least} to {_MOST[kind]:g}")
        if kind == "set-size" and self.amount != int(self.amount or 0):
            raise StudyError(f"set-size {self.amount:g} is no whole number")
        n = len(self.reason or "")
        if kind in WORDS and n > LONGEST[kind]:
            raise StudyError(f"{kind} of {n:,} characters: at most {LONGEST[kind]:,} are shown")

    @property
    def subject(self) -> Subject:
        """What it is about: an annotator, an item, a pair (the lower number first), or all."""
        if self.item is None or self.other is None:
            return self.annotator if self.item is None else self.item
        return min(self.item, self.other), max(self.item, self.other)


@dataclass(frozen=True)
class Study:
    """The present state of a study, which follows from its decisions in their order.

    Attributes:
        excluded: annotators whose judgements do not count, and who are asked nothing.
        paused: annotators who are asked nothing for now; None stands for all.
        revoked: annotators whose link opens nothing.
        retired: items that are neither asked about nor ranked.
        gold: pairs with a known answer.
        models: annotators that are language models or other programs, and share errors.
        probabilities: what the probabilities are that an annotator gives; shares of who is not in
            it.
        quotas: number of answers after which an annotator is done.
        overlap: number of people who should answer a pair before new pairs are asked.
        gold_rate: share of gold questions, if there are gold pairs.
        goal, top: as in `Goal`; 0: the default.
        deadline: seconds since 1970 after which nothing is asked; 0: none.
        set_size: number of items of a question.
        worst: whether the worst of more than two items is asked for, too.
        question, instructions: what annotators are asked, in plain text; read first, in Markdown.

    The first six map to the decision, which holds the reason.

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
        """The better item and the other one of each gold pair."""
        made = ((each.item, each.other) for each in self.gold.values())
        return [(i, j) for i, j in made if i is not None and j is not None]

    def state(self, annotator: str) -> str:
        """`excluded`, `paused`, `revoked` or `active`; the first that holds."""
        if annotator in self.excluded:
            return "excluded"
        if annotator in self.paused or None in self.paused:
            return "paused"
        return "revoked" if annotator in self.revoked else "active"

    def left(self, annotator: str, answered: int) -> int | None:
        """How many answers of their quota an annotator has left; None without a quota."""
        quota = self.quotas.get(annotator)
        return None if quota is None else max(quota - answered, 0)

    def why_closed(self, annotator: str, answered: int, now: float = 0) -> str:
        """Why an annotator is asked nothing, in words; empty if they are."""
        for_now, no_more = "no questions for now", "no more questions"
        if annotator in self.excluded:
            return f"{no_more}: {annotator} is excluded, until the administrator undoes that"
        if annotator in self.paused:
            return f"{for_now}: {annotator} is paused, until the administrator resumes"
        if None in self.paused:
            return f"{for_now}: the collection is paused, until the administrator resumes"
        if 0 < self.deadline <= now:
            return f"{no_more}: the deadline was {said_time(self.deadline)}"
        if self.left(annotator, answered) == 0:
            asked = f"{self.quotas[annotator]} answers asked for"
            return f"{no_more}: {annotator} has given all {asked}"
        return ""

    def asks_alike(self, other: Study) -> bool:
        """Whether a session asks and ranks the same under both."""
        of_session = "excluded", "retired", "gold", "models", "overlap", "gold_rate", "goal", "top"
        of_answers = (*of_session, "probabilities", "set_size")
        return all(getattr(self, name) == getattr(other, name) for name in of_answers)

    def wanted(self) -> Goal:
        """The goal."""
        return Goal(self.goal or WRONG, self.top)


def said_time(seconds: float) -> str:
    """
    >>> said_time(0)
    '1970-01-01 00:00 UTC'
    """
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"


def study_of(decisions: Iterable[Decision], before: Study | None = None) -> Study:
    """The state after these decisions, in their order; `before`: the state they change."""
    study = before or Study()
    on: dict[str, Any] = {name: dict(getattr(study, name)) for name in _FIELDS.values()}
    quotas, more = dict(study.quotas), dict[str, Any]()
    probabilities = dict(study.probabilities)
    for decision in decisions:
        kind, amount = decision.kind, decision.amount or 0
        if kind in UNDONE_BY:
            on[_FIELDS[kind]][decision.subject] = decision
        elif kind in UNDOES:
            on[_FIELDS[UNDOES[kind]]].pop(decision.subject, None)
        elif kind in WORDS:
            more[kind] = decision.reason or getattr(Study, kind)
        elif kind in ABOUT_P and decision.annotator is not None:
            probabilities[decision.annotator] = ABOUT_P[kind]
        elif kind == "quota":
            quotas[decision.annotator] = int(amount)
        elif kind == "worst":
            more[kind] = bool(amount)
        else:
            more[kind.replace("-", "_")] = int(amount) if kind in _WHOLE else amount
    more["probabilities"] = probabilities
    return replace(study, **on, **more, quotas={who: n for who, n in quotas.items() if n})


def questions_at(decisions: Iterable[Decision], times: Iterable[float | None]) -> list[str]:
    """The question that was asked at each time, in seconds since 1970; unknown: the present one.

    >>> questions_at([Decision("question", reason="Which is clearer?", at=9)], [3, 9, None])
    ['Which is better?', 'Which is clearer?', 'Which is clearer?']
    """
    words = [QUESTION]
    since: list[float] = []
    for decision in decisions:
        if decision.kind == "question":
            words.append(decision.reason or QUESTION)
            since.append(decision.at or 0)
    return [words[-1 if at is None else bisect_right(since, at)] for at in times]


def check_decision(study: Study, decision: Decision, called: str) -> None:
    """Refuse a decision that changes nothing; `called` is its subject, such as `annotator 'eve'`.

    A link may be renewed at any time: the old one is then nobody's.

    Raises:
        StudyError: with the reason.
    """
    kind = decision.kind
    words = decision.reason or ""
    if kind in WORDS and "\0" in words:
        raise StudyError(f"{kind} with a NUL character, which is no text: {words[:60]!r}")
    if kind == "question" and len(words.splitlines()) > 1:
        raise StudyError(f"question of several lines: {words[:60]!r}; put them in the instructions")
    present = study.probabilities.get(decision.annotator or "")
    if kind in ABOUT_P and present == ABOUT_P[kind]:
        raise StudyError(f"the p of {called} is {P_IN_WORDS[present]} already")
    if kind in AMOUNTS or kind in WORDS or kind in ABOUT_P:
        return
    field = _FIELDS[UNDOES.get(kind, kind)]
    on, state = getattr(study, field), _CALLED.get(field, field)
    if kind in UNDONE_BY and decision.subject in on:
        raise StudyError(f"{called} is {state} already")
    if kind in UNDOES and kind != "renew" and decision.subject not in on:
        raise StudyError(f"{called} is not {state}")
