"""Collect the facts of a collection's report: question, judges, cost, ranking, pairs in doubt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from sortnet.core import Progress
from sortnet.files import Record, plain, rows_of
from sortnet.items import Items
from sortnet.items.base import words_of
from sortnet.messages import cut
from sortnet.preference.annotator_agreement import Dispute, agreement, most_disputed
from sortnet.preference.annotator_reports import calibration
from sortnet.preference.judgement_table import Judgements
from sortnet.preference.stopping import Goal
from store import Collection
from store.collections.leases import Annotator
from store.service.collection_items import ranking_frame
from store.service.costs import sum_up_costs
from store.service.labelling import LabellingService
from store.service.sentences import remaining_facts

TOP = 10  # number of top items if the goal of the session is not a top
N_DOUBTS = 20  # number of pairs in doubt that are listed
_FOR_THE_PAGE = ("rows", "intervals", "service", "goal")  # facts that programs do not get
_LONGEST_TEXT = 200  # characters of an item's text


def facts_for_programs(
    collection: Collection, *, top: int | None = None, progress: Progress = lambda text: None
) -> Record | list[Record]:
    """Collect the facts of a collection's page for JSON, which has only the top items.

    Args:
        collection: the items and their judgements.
        top: the number of top items, see `_facts_of`.
        progress: gets the name of each step.

    Returns:
        The facts; or, if the collection has criteria, a list with the facts of each criterion.
    """
    all_facts = [
        {name: facts[name] for name in facts if name not in _FOR_THE_PAGE}
        for facts in facts_of_criteria(collection, top=top, progress=progress)
    ]
    has_criteria = all_facts[0]["criterion"] is not None
    return all_facts if has_criteria else all_facts[0]


def facts_of_criteria(
    collection: Collection,
    *,
    goal: Goal | None = None,
    top: int | None = None,
    progress: Progress = lambda text: None,
) -> list[Record]:
    """Collect the facts of the report of each criterion of a collection.

    If the collection has no criteria, the list has one entry, the facts of the collection.
    """
    with collection.database.one_state():  # the facts of all criteria are of one time
        read = [
            (LabellingService(criterion, goal=goal), criterion.annotators())
            for criterion in collection.asked()
        ]
    all_facts = []
    for service, annotators in read:
        progress(f"fitting the answers of {service.collection.name}")
        all_facts.append(_facts_of(service, annotators, top))
    return all_facts


def _facts_of(
    service: LabellingService,
    annotators: Sequence[Annotator],
    top: int | None,
) -> Record:
    """Collect the facts of the report of a collection with one question, as plain values.

    Args:
        service: the items and their judgements.
        annotators: the annotators of the collection.
        top: the number of items of each group in the facts `ranking` and `rows`. If None, `ranking`
            has the number of top items in the goal, or 10; and `rows` has all items.

    Cost: a fit to all judgements.
    """
    collection = service.collection
    service.settle()
    session = service.session
    items = service.items
    study = service.study
    counted_judgements = session.judgements()  # without excluded annotators
    all_judgements = service.judgements()
    remaining = remaining_facts(service.remaining)
    _, disputes = most_disputed(counted_judgements, session.posterior, N_DOUBTS)
    return {
        "collection": collection.name,
        "criterion": collection.criterion,
        "question": study.question,
        "instructions": study.instructions,
        "items": len(items) - len(study.retired),
        "groups": None if items.groups is None else len(set(items.groups)),
        "answers": session.n_votes,
        "judges": _judge_reports(service, annotators, all_judgements),
        **sum_up_costs(all_judgements),
        "remaining": remaining,
        "agreement": plain(asdict(agreement(counted_judgements))),
        **_ranking_facts(service, top),
        "service": service,
        "goal": session.goal,
        "in_doubt": [_dispute_facts(dispute, items) for dispute in disputes],
    }


def _judge_reports(
    service: LabellingService, annotators: Sequence[Annotator], all_judgements: Judgements
) -> list[Record]:
    """Report on each annotator with judgements: reliability, calibration, and cost of answers."""
    all_names = [annotator.name for annotator in annotators]
    names = [name for name in all_names if name in all_judgements.annotators]
    gold = service.study.gold_pairs()
    judges = []
    for report in service.reports(names):
        of_judge = all_judgements.where(all_judgements.by(report.name))
        calibrated = None
        if report.probabilities:
            calibrated = calibration(all_judgements, report.name, gold)
        judges.append(
            {
                **plain(asdict(report)),
                "kind": "model" if report.model else "person",
                **sum_up_costs(of_judge),
                "calibration": None if calibrated is None else plain(asdict(calibrated)),
            }
        )
    return judges


def _ranking_facts(service: LabellingService, top: int | None) -> Record:
    """Return how many items are the top, the rows of these items, and the rows of the page.

    The rows are the best first, group by group. A row includes the probability that the item is
    among the top items of its group.
    `intervals` has all rows of the group whose item has the most answers.

    Args:
        service: the fitted collection.
        top: the number of items of each group. If None, the number in the goal, or else 10; then
            the page shows all items.
    """
    n_top = top or service.session.goal.top or TOP
    ranking = service.session.ranking(fresh=False, top=n_top)
    items = service.items
    frame = ranking_frame(ranking, items)
    rows: list[Record] = [
        {"group": None, **row, **_id_and_text(items, item)}
        for item, row in zip(frame.index, rows_of(frame), strict=True)
    ]
    most_judged = max(rows, key=lambda row: row["judgements"])
    return {
        "top": n_top,
        "ranking": [row for row in rows if row["rank"] <= n_top],
        "rows": rows if top is None else [row for row in rows if row["rank"] <= top],
        "intervals": [row for row in rows if row["group"] == most_judged["group"]],
    }


def _dispute_facts(dispute: Dispute, items: Items) -> Record:
    """Describe a pair in doubt: its items, the probability of their order, and the answers."""
    first, second = dispute.pair
    # `answer.p` is the probability that the left item is better; the page shows it for `first`.
    p_first = [
        answer.p if answer.p is None or answer.left == first else 1 - answer.p
        for answer, _ in dispute.answers
    ]
    # `dispute.answers` has each answer with its share for the first item: 1, or 0, or 0.5 (a tie).
    preferred = {1.0: items.ids[first], 0.0: items.ids[second]}  # a tie prefers no item
    return {
        "first": _id_and_text(items, first),
        "second": _id_and_text(items, second),
        "p": dispute.p,
        "disputed": dispute.contradiction > 0,
        "answers": [
            {
                "annotator": answer.annotator,
                "prefers": preferred.get(share_for_first),
                "p_first": p,
                "reason": answer.comment,
            }
            for (answer, share_for_first), p in zip(dispute.answers, p_first, strict=True)
        ],
    }


def _id_and_text(items: Items, number: int) -> Record:
    """Return an item's id and the beginning of its text, which is None if there is no text."""
    text = cut(words_of(items, number), _LONGEST_TEXT)
    return {"id": items.ids[number], "text": text or None}
