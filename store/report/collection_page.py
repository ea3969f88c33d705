"""Render a collection as one self-contained HTML page: its ranking, and how reliable it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from markupsafe import Markup

from sortnet.core import Progress
from sortnet.judges.budget import amount
from sortnet.messages import count
from sortnet.preference.annotator_agreement import ENOUGH_SHARED
from sortnet.preference.goal import Goal
from store import Collection
from store.report.annotator_figures import TITLES, Figure, Interval, figures_of
from store.report.collection_facts import facts_of_criteria
from store.report.html_page import PageFile, refuse_page_file, render_template, write_page
from store.report.instructions import instructions_html
from store.service.item_ranking import TOP, page_cell

_MOST_RANKING_ROWS = 100_000  # rows in the page; more rows would be tens of megabytes
_RANKING_ROWS_AS_HTML = 100  # rows that need no script; the script draws all others
_MOST_ANSWERS = 12  # answers that are shown about a pair
# {how an annotator's probabilities count: what the page says about it}
_USE_OF_PROBABILITIES = {
    "measurement": "measurements",
    "words": "words: they say nothing of the errors",
    "share": "shares of votes",
    "ignored": "words: they are ignored",
}
_WITH_SMALL_PRINT = Markup("{} <small>{}</small>")
_JUDGE_COLUMNS = (
    "judge", "kind", "answers", "skipped", *TITLES, "calls", "tokens", "cost", "verdict",
)  # fmt: skip


def write_collection_page(
    collection: Collection,
    file: PageFile,
    *,
    goal: Goal | None = None,
    top: int | None = None,
    progress: Progress = lambda text: None,
) -> None:
    """Write the page of a collection, which needs no network, to a file in one step.

    Args:
        collection: the items and their judgements.
        file: a path, replaced if it exists, or an open text file.
        goal: the goal at which asking stops. If None, the collection's own goal.
        top: the number of items of each group that are shown. If None, all items are shown.
        progress: gets the name of each step.

    Raises:
        SortNetError: if the file cannot be written, or the collection has fewer than two items.

    Cost: for each criterion a fit to all judgements, and about a second to draw.
    """
    refuse_page_file(file)
    all_facts = facts_of_criteria(collection, goal=goal, top=top, progress=progress)
    write_page(file, render(all_facts, collection.name))


def render(all_facts: Sequence[dict[str, Any]], name: str) -> str:
    """Render the page of a collection as HTML.

    Args:
        all_facts: the facts of the collection, or of each of its criteria, see `facts_of_criteria`.
        name: the name of the collection.
    """
    return render_template(
        "collection.html",
        script="ranking.js",
        title=f"SortNet: {name}",
        all_facts=[_with_texts(facts) for facts in all_facts],
        sections=_sections(all_facts),
        most_answers=_MOST_ANSWERS,
        judge_columns=_JUDGE_COLUMNS,
    )


def _sections(all_facts: Sequence[dict[str, Any]]) -> list[tuple[str, str, bool]]:
    """List the entries of the table of contents: anchor, title, and whether the section exists.

    If the collection has criteria, there is an entry for each criterion.
    """
    first_facts = all_facts[0]
    if first_facts["criterion"]:
        return [
            (f"summary-{number}", facts["criterion"], True)
            for number, facts in enumerate(all_facts, 1)
        ]
    return [
        ("summary-1", "Question", True),
        ("reliability-1", "How reliable it is", True),
        ("pictures-1", "Pictures", bool(first_facts["pictures"])),
        ("judges-1", "Judges", True),
        ("top-1", "Ranking", True),
        ("doubt-1", "Pairs most in doubt", bool(first_facts["in_doubt"])),
    ]


def _with_texts(facts: dict[str, Any]) -> dict[str, Any]:
    """Add what the template shows to the facts of a criterion: texts, and tables as rows of cells.

    Args:
        facts: the facts of the criterion, as `facts_of_criteria` collects them.
    """
    judges = facts["judges"]
    sizes = facts["sizes"]
    ranking = facts["rows"]
    return {
        **facts,
        "summary": [*_summary(facts)],
        "reliability": [*_reliability(facts)],
        "instructions_html": instructions_html(facts["instructions"]),
        "judge_rows": [_judge_row(judge) for judge in judges],
        "calibration": [_calibration_line(judge) for judge in judges if judge["calibration"]],
        "size_rows": [_size_row(size) for size in sizes],
        "has_sets": any(size["items"] > 2 for size in sizes),
        "ranking_title": _ranking_title(facts),
        "cells": [_ranking_row(item, facts) for item in ranking[:_MOST_RANKING_ROWS]],
        "n_ranked": len(ranking),
        "rows_told": _MOST_RANKING_ROWS,
        "rows_written": _RANKING_ROWS_AS_HTML,
    }


def _ranking_title(facts: dict[str, Any]) -> str:
    """Write the heading of the ranking table, which tells whether all items are shown."""
    if len(facts["rows"]) == facts["items"]:
        return f"Ranking: all {facts['items']:,} items"
    if facts["groups"]:
        return f"Ranking: the top {facts['top']} of each group"
    return f"Ranking: the top {facts['top']}"


def _summary(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the title and the content of each box below the question."""
    n_items = f"{facts['items']:,}"
    if facts["groups"]:
        n_items += f" in {count(facts['groups'], 'group')}"
    yield "Items", n_items
    yield "Answers", f"{facts['answers']:,} by {count(len(facts['judges']), 'judge')}"
    if facts["calls"]:
        tokens = facts["tokens_in"] + facts["tokens_out"]
        yield "Calls of models", f"{facts['calls']:,}, {tokens:,} tokens"
    if facts["cost"] is not None:
        yield "Cost", amount(facts["cost"])
    remaining = facts["remaining"]
    yield "Goal", "reached" if remaining["stop"] else "not reached yet"
    if remaining["holdout_n"] >= ENOUGH_SHARED:
        yield "Held-out accuracy", f"{remaining['holdout_right']:.0%} of {remaining['holdout_n']}"


def _ranking_row(row: dict[str, Any], facts: dict[str, Any]) -> list[str | list[str]]:
    """Make the cells of an item's row in the ranking table.

    A cell is a text, except the cell of the item, which is a list of the item's id and text. If the
    collection has groups, the first cell is the group.
    """
    cells: list[str | list[str]] = [
        str(row["rank"]),
        [row["id"], row["text"] or ""],
        page_cell("score", row["score"]),
        f"{row['low']}-{row['high']}",
        page_cell(TOP, row[TOP]),
        str(row["judgements"]),
    ]
    return [str(row["group"]), *cells] if facts["groups"] else cells


def _size_row(size: dict[str, Any]) -> list[str]:
    """Make the cells of a row about all questions with the same number of items."""
    n_tokens = size["tokens_in"] + size["tokens_out"]
    tokens_per_comparison = n_tokens / max(size["comparisons"], 1)
    cost = size["cost_a_comparison"]
    return [
        str(size["items"]),
        f"{size['answers']:,}",
        f"{size['comparisons']:,}",
        "-" if size["seconds"] is None else f"{size['seconds']:.1f}",
        f"{size['calls']:,}" if size["calls"] else "-",
        f"{tokens_per_comparison:,.0f}" if size["calls"] else "-",
        "-" if cost is None else amount(cost),
        "-" if size["accuracy"] is None else f"{size['accuracy']:.0%} of {size['checked']:,}",
    ]


def _judge_row(judge: dict[str, Any]) -> list[str]:
    """Make the cells of a judge's row in the table of judges."""
    state = "" if judge["state"] == "active" else f" ({judge['state']})"
    tokens = judge["tokens_in"] + judge["tokens_out"]
    return [
        f"{judge['name']}{state}",
        judge["kind"],
        f"{judge['answers']:,}",
        f"{judge['skipped']:,}",
        *map(_figure_cell, figures_of(judge)),
        f"{judge['calls']:,}" if judge["calls"] else "-",
        f"{tokens:,}" if judge["calls"] else "-",
        "-" if judge["cost"] is None else amount(judge["cost"]),
        judge["verdict"] or "-",
    ]


def _calibration_line(judge: dict[str, Any]) -> str:
    """Write how sure a judge is, beside how often the known answers or others agree."""
    found = judge["calibration"]
    use = _USE_OF_PROBABILITIES[judge["probabilities"]]
    return (
        f"{judge['name']}, whose probabilities count as {use}: "
        f"{found['said']:.2f} sure on average, right in {found['right']:.2f} of "
        f"{count(found['answers'], 'answer')}; Brier score {found['brier']:.3f}."
    )


def _figure_cell(figure: Figure) -> str:
    """Format a figure with its interval or its expected share; "-" if the figure is unknown."""
    if isinstance(figure, Interval):
        return _WITH_SMALL_PRINT.format(figure.value, f"[{figure.low}, {figure.high}]")
    if figure is None:
        return "-"
    return _WITH_SMALL_PRINT.format(f"{figure.observed:.2f}", f"/ {figure.expected:.2f}")


def _reliability(facts: dict[str, Any]) -> Iterator[str]:
    """Yield sentences about the reliability of the ranking."""
    remaining = facts["remaining"]
    yield _sentence(remaining["why"])
    details = remaining["details"]
    if not remaining["reached"]:
        # The sentence above already says the first detail, the share of wrong pairs.
        details = details[1:]
    for sentence in (*details, remaining["apart"]):
        if sentence:
            yield _sentence(sentence)
    yield _holdout_sentence(remaining)
    yield from _agreement_sentences(facts["agreement"])
    yield (
        "Intervals are of the model that was fitted: they cover the noise of answers, reliability "
        "and side bias, not what all judges get wrong alike."
    )


def _holdout_sentence(remaining: dict[str, Any]) -> str:
    """Write a sentence that compares the held-out accuracy with the accuracy that was expected."""
    n_answers = remaining["holdout_n"]
    if not n_answers:
        return "No held-out answers yet could check the model."
    if remaining["left_out"]:
        answers = "answers, each predicted from all others"
    else:
        answers = "answers about random pairs, which chose no question and were predicted unseen"
    return (
        f"Held-out accuracy: {remaining['holdout_right']:.0%} of {n_answers} {answers}; "
        f"{remaining['holdout_expected']:.0%} were to be expected if the probabilities are right."
    )


def _agreement_sentences(agreement: dict[str, Any]) -> Iterator[str]:
    """Yield sentences on how well judges agree with each other, and with their earlier answers."""
    alpha = agreement["krippendorff_alpha"]
    n_shared = agreement["shared_pairs"]
    if alpha is not None and n_shared >= ENOUGH_SHARED:
        pairs = count(n_shared, "pair")
        yield (
            f"Krippendorff's alpha of {alpha:.2f} over {pairs} that two judges or more answered: "
            "1 is perfect agreement, 0 is chance."
        )
    elif n_shared:
        yield (
            f"Only {count(n_shared, 'pair')} answered by two judges or more: too few to measure "
            f"their agreement, which takes {ENOUGH_SHARED}."
        )
    if agreement["consistency"] is not None and agreement["repeats"] >= ENOUGH_SHARED:
        yield (
            f"{agreement['consistency']:.0%} of {count(agreement['repeats'], 'answer')} to a pair "
            "that the same judge had answered before were the same."
        )


def _sentence(text: str) -> str:
    """Make a sentence of a text, with a capital letter and a full stop."""
    return f"{text[:1].upper()}{text[1:]}."
