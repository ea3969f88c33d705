"""What a collection's report says: question, judges, what they cost, ranking, doubts."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import asdict
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np

from sortnet.core import I64, Progress
from sortnet.files import plain
from sortnet.items import Items
from sortnet.items.base import words_of
from sortnet.judges.prices import LONGEST_CURRENCY
from sortnet.messages import count, cut
from sortnet.preference.annotator_agreement import agreement
from sortnet.preference.calibration import calibration
from sortnet.preference.cycles import CycleTest, cycle_test
from sortnet.preference.goal import Goal
from sortnet.preference.judgement_table import Judgements
from sortnet.preference.pairs_in_doubt import Doubt, in_doubt
from store import Collection
from store.report.labelling_pictures import pictures_of
from store.report.question_sizes import facts_of_sizes
from store.service.labelling import LabellingService

TOP = 10
DOUBTS = 20
_FOR_THE_PAGE = ("rows", "pictures")  # what programs are not told
SURELY_MORE = 0.05  # p below which cycles are more than noise
_TEXT = 200  # characters of an item's text
_COUNTED = ("calls", "tokens_in", "tokens_out")


def facts_for_programs(
    collection: Collection, *, top: int | None = None, progress: Progress = lambda text: None
) -> dict[str, Any] | list[dict[str, Any]]:
    """The facts of the page of a collection for JSON, with the top items only and no pictures.

    A list with the facts of each criterion, if the collection has criteria.
    """
    parts = [
        {name: part[name] for name in part if name not in _FOR_THE_PAGE}
        for part in facts_of_criteria(collection, top=top, pictures=False, progress=progress)
    ]
    return parts if parts[0]["criterion"] else parts[0]


def facts_of_criteria(
    collection: Collection,
    *,
    goal: Goal | None = None,
    top: int | None = None,
    pictures: bool = True,
    progress: Progress = lambda text: None,
) -> list[dict[str, Any]]:
    """The facts of each criterion of a collection, see `facts_of`; of one without, its own."""
    parts = []
    for criterion in collection.asked():
        progress(f"fitting the answers of {criterion.name}")
        parts.append(facts_of(criterion, goal=goal, top=top, pictures=pictures))
    return parts


def facts_of(
    collection: Collection,
    *,
    goal: Goal | None = None,
    top: int | None = None,
    pictures: bool = True,
) -> dict[str, Any]:
    """All that the report of a collection with one question says, as plain values.

    Args:
        collection: the items and their judgements.
        goal: when the asking is to stop; None: the collection's own goal.
        top: the number of items of each group that are shown; None: all on the page, for programs
            those of the goal, else 10.
        pictures: whether they are drawn.

    Cost: a fit to all judgements, and 400 simulations of the answers about 50,000 triples.
    """
    service = LabellingService(collection, goal=goal)
    service.settle()
    session, items, study = service.session, service.items, service.study
    events, everything = session.judgements(), service.judgements()
    judges = _judges(service, everything)
    remaining = {k: v for k, v in plain(asdict(service.remaining)).items() if k != "groups"}
    most, top = top, top or session.goal.top or TOP
    rows = _ranking(service, top)
    cycles = cycle_test(session.posterior, events, models=study.models, seed=session.seed)
    doubts = in_doubt(session.posterior, events, DOUBTS)
    return {
        "collection": collection.name,
        "criterion": collection.criterion,
        "question": study.question,
        "instructions": study.instructions,
        "items": len(items) - len(study.retired),
        "groups": None if items.groups is None else len(set(items.groups)),
        "answers": session.n_votes,
        "judges": judges,
        **{name: sum(judge[name] for judge in judges) for name in _COUNTED},
        **_cost_facts(_sums(judge["costs"] for judge in judges)),
        "sizes": facts_of_sizes(everything, study, partial(_spent, everything)),
        "remaining": remaining,
        "agreement": plain(asdict(agreement(events))),
        "cycles": plain(asdict(cycles)) | {"share": cycles.share, "said": cycles_in_words(cycles)},
        "top": top,
        "ranking": _at_most(rows, top),
        "rows": _at_most(rows, most),
        "pictures": pictures_of(service, judges) if pictures else [],
        "in_doubt": [_doubt(each, items) for each in doubts],
    }


def cycles_in_words(test: CycleTest) -> str:
    """The test of cycles in words.

    >>> cycles_in_words(CycleTest(0, 0))
    'No three items have all their pairs judged, so nothing can be said of cycles.'
    """
    if test.p is None or test.share is None:
        return "No three items have all their pairs judged, so nothing can be said of cycles."
    seen = (
        f"{test.cyclic:,} of {count(test.triples, 'triple')} of items are cyclic ({test.share:.1%})"
        f", where noise alone would give {test.expected:.1%} (90 % of the simulations: "
        f"{test.low:.1%} to {test.high:.1%}; p = {test.p:.3f})"
    )
    if test.p < SURELY_MORE:
        return (
            f"{seen}: more than noise explains. No one order fits these answers; what is better "
            "seems to depend on what it is compared with."
        )
    return f"{seen}: no sign that the answers contradict an order in any way but by noise."


def _judges(service: LabellingService, everything: Judgements) -> list[dict[str, Any]]:
    """A report of each annotator who said something, with what the answers cost."""
    found = []
    names = [
        who.name for who in service.collection.annotators() if who.name in everything.annotators
    ]
    spent = {name: _spent(everything, np.flatnonzero(everything.by(name))) for name in names}
    gold = service.study.gold_pairs()
    for report in service.reports(names):
        kind = "model" if report.model else "person"
        ranges = calibration(everything, report.name, gold) if report.probabilities else []
        found.append(
            plain(asdict(report))
            | {"kind": kind}
            | spent[report.name]
            | {"calibration": [plain(asdict(each)) for each in ranges]}
        )
    return found


def _spent(everything: Judgements, rows: I64) -> dict[str, Any]:
    """What these answers took."""
    texts = everything.texts["meta"]
    metas = [_parsed(texts[row]) if row in texts else {} for row in rows.tolist()]
    by_model = [meta for meta in metas if "model" in meta]
    calls, tokens_in, tokens_out = map(sum, zip((0, 0, 0), *map(_calls, by_model), strict=True))
    costs: dict[str, float] = {}
    for cost, meta in zip(everything.cost[rows].tolist(), metas, strict=True):
        if not math.isnan(cost):
            currency = str(meta.get("currency", ""))[:LONGEST_CURRENCY]
            costs[currency] = costs.get(currency, 0.0) + cost
    return {
        "calls": calls,
        "tokens_in": tokens_in,
        "tokens_out": tokens_out,
        **_cost_facts(costs),
    }


def _cost_facts(costs: dict[str, float]) -> dict[str, Any]:
    """Costs by currency, and the cost and its currency where there is only one.

    The key of an unknown currency is empty.
    """
    if len(costs) != 1:
        return {"cost": None, "currency": None, "costs": costs}
    ((currency, cost),) = costs.items()
    return {"cost": cost, "currency": currency or None, "costs": costs}


def _calls(meta: dict[str, Any]) -> tuple[int, int, int]:
    """Calls and tokens that the meta of a model's answer has; older ones are of one call."""
    tokens = meta.get("tokens")
    pair = tokens if isinstance(tokens, list) and len(tokens) == 2 else [0, 0]
    calls, before, after = (
        value if isinstance(value, int) and value >= 0 else 0
        for value in (meta.get("calls", 1), *pair)
    )
    return calls, before, after


def _parsed(text: str) -> dict[str, Any]:
    """The meta of an answer, which may be any JSON, or an import's."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _ranking(service: LabellingService, top: int) -> list[dict[str, Any]]:
    """All items, best first, group by group, with the probability of being of the top."""
    ranked, items = service.session.ranking(fresh=False, top=top), service.items
    groups = items.groups
    columns = ("rank", "score", "low", "high", "among_top", "judgements")
    return [
        {"group": None if groups is None else groups[k], **_item(items, k)}
        | {name: plain(getattr(ranked, name)[k]) for name in columns}
        for k in ranked.order.tolist()
    ]


def _at_most(rows: list[dict[str, Any]], top: int | None) -> list[dict[str, Any]]:
    """The first rows of each group; None: all."""
    if top is None:
        return rows
    in_groups = groupby(rows, key=lambda row: row["group"])
    return [row for _, members in in_groups for row in [*members][:top]]


def _doubt(doubt: Doubt, items: Items) -> dict[str, Any]:
    first, second = doubt.pair
    return {
        "first": _item(items, first),
        "second": _item(items, second),
        "p": doubt.p,
        "disputed": doubt.disputed,
        "answers": [
            {
                "annotator": one.annotator,
                "prefers": next(
                    (items.ids[k] for k, other in one.comparisons() if {k, other} == {*doubt.pair}),
                    None,
                ),
                "p_first": None if one.p is None else one.p if one.left == first else 1 - one.p,
                "reason": one.comment,
            }
            for one in doubt.answers
        ],
    }


def _item(items: Items, k: int) -> dict[str, Any]:
    return {"id": items.ids[k], "text": cut(words_of(items, k), _TEXT) or None}


def _sums(costs_of_judges: Iterable[dict[str, float]]) -> dict[str, float]:
    """The sum of the costs in each currency."""
    sums: dict[str, float] = {}
    for costs in costs_of_judges:
        for currency, cost in costs.items():
            sums[currency] = sums.get(currency, 0.0) + cost
    return sums
