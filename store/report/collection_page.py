"""The reliability of a collection's ranking as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from markupsafe import Markup

from sortnet.core import Progress
from sortnet.judges.prices import amount
from sortnet.messages import count
from sortnet.preference.annotator_agreement import ENOUGH_SHARED
from sortnet.preference.goal import Goal
from store import Collection
from store.report.annotator_figures import TITLES, Figure, Interval, figures_of
from store.report.collection_facts import facts_of_criteria
from store.report.html_page import PageFile, refuse_page_file, render_template, write_page
from store.report.instructions import instructions_html
from store.service.item_ranking import TOP, page_cell

_ROWS = 100_000  # of the ranking; more would be tens of megabytes
_WRITTEN = 100  # of them that are there without the script
_ANSWERS = 12  # about a pair
_P_COUNTS = {
    "measurement": "measurements",
    "words": "words: they say nothing of the errors",
    "share": "shares of votes",
    "ignored": "words: they are ignored",
}
_SMALL = Markup("{} <small>{}</small>")
_JUDGE_COLUMNS = (
    *("judge", "kind", "answers", "skipped", *TITLES, "calls", "tokens", "cost", "verdict"),
)


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
        goal: when the asking is to stop; None: the collection's own goal.
        top: the number of items of each group that are shown; None: all.
        progress: gets the name of each step.

    Raises:
        SortNetError: if the file cannot be written, or the collection has fewer than two items.

    Cost: for each criterion a fit to all judgements, and about a second to draw.
    """
    refuse_page_file(file)
    parts = facts_of_criteria(collection, goal=goal, top=top, progress=progress)
    write_page(file, render(parts, collection.name))


def render(parts: Sequence[dict[str, Any]], name: str) -> str:
    """The page of a collection.

    Args:
        parts: of `facts_of`: one, or one for each criterion.
        name: of the collection.
    """
    sections = [
        *(("summary-1", "Question", True), ("reliability-1", "How reliable it is", True)),
        ("pictures-1", "Pictures", parts[0]["pictures"]),
        *(("judges-1", "Judges", True), ("top-1", "Ranking", True)),
        ("doubt-1", "Pairs most in doubt", parts[0]["in_doubt"]),
    ]
    if parts[0]["criterion"]:
        sections = [(f"summary-{k}", part["criterion"], True) for k, part in enumerate(parts, 1)]
    return render_template(
        "collection.html",
        script="ranking.js",
        title=f"SortNet: {name}",
        parts=[_shown(part) for part in parts],
        sections=sections,
        most_answers=_ANSWERS,
        judge_columns=_JUDGE_COLUMNS,
    )


def _shown(part: dict[str, Any]) -> dict[str, Any]:
    """The facts of a criterion, with the texts that the template shows."""
    shown_part = dict(part)
    shown_part["summary"] = [*_summary(part)]
    shown_part["reliability"] = [*_reliability(part)]
    shown_part["judge_rows"] = [_judge(judge) for judge in part["judges"]]
    shown_part["calibration_rows"] = [
        _calibration(judge, each) for judge in part["judges"] for each in judge["calibration"]
    ]
    shown_part["size_rows"] = [_size(size) for size in part["sizes"]]
    shown_part["has_sets"] = any(size["items"] > 2 for size in part["sizes"])
    shown_part["instructions_html"] = instructions_html(part["instructions"])
    shown_part["ranking_title"] = _ranking_title(part)
    shown_part["cells"] = [_cells(row, part) for row in part["rows"][:_ROWS]]
    shown_part["rows_written"] = _WRITTEN
    shown_part["rows_told"] = _ROWS
    shown_part["n_ranked"] = len(part["rows"])
    return shown_part


def _ranking_title(part: dict[str, Any]) -> str:
    """Heading of the table of the ranking: all items, or the top."""
    if len(part["rows"]) == part["items"]:
        return f"Ranking: all {part['items']:,} items"
    of_each = " of each group" if part["groups"] else ""
    return f"Ranking: the top {part['top']}{of_each}"


def _summary(part: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The boxes below the question."""
    groups = part["groups"]
    yield "Items", f"{part['items']:,}" + (f" in {count(groups, 'group')}" if groups else "")
    yield "Answers", f"{part['answers']:,} by {count(len(part['judges']), 'judge')}"
    if part["calls"]:
        tokens = part["tokens_in"] + part["tokens_out"]
        yield "Calls of models", f"{part['calls']:,}, {tokens:,} tokens"
    if part["costs"]:
        yield "Cost", _amounts(part["costs"])
    done = "reached" if part["remaining"]["stop"] else "not reached yet"
    yield "Goal", done
    checked = part["remaining"]
    if checked["holdout_n"] >= ENOUGH_SHARED:
        yield "Held-out accuracy", f"{checked['holdout_right']:.0%} of {checked['holdout_n']}"


def _cells(row: dict[str, Any], part: dict[str, Any]) -> list[str | list[str]]:
    """A row of the ranking, cell by cell; that of the item has its id and its text."""
    group: list[str | list[str]] = [str(row["group"])] if part["groups"] else []
    return [
        *group,
        str(row["rank"]),
        [row["id"], row["text"] or ""],
        page_cell("score", row["score"]),
        f"{row['low']}-{row['high']}",
        page_cell(TOP, row[TOP]),
        str(row["judgements"]),
    ]


def _amounts(costs: dict[str, float]) -> str:
    """Costs with their currencies; empty without a cost."""
    return ", ".join(amount(cost, currency) for currency, cost in costs.items())


def _size(size: dict[str, Any]) -> list[str]:
    """A row of the table of questions about so many items."""
    tokens = (size["tokens_in"] + size["tokens_out"]) / max(size["comparisons"], 1)
    cost = size["cost_a_comparison"]
    return [
        str(size["items"]),
        *(f"{size[name]:,}" for name in ("answers", "comparisons")),
        "-" if size["seconds"] is None else f"{size['seconds']:.1f}",
        f"{size['calls']:,}" if size["calls"] else "-",
        f"{tokens:,.0f}" if size["calls"] else "-",
        "-" if cost is None else f"{cost:.2g}",
        "-" if size["accuracy"] is None else f"{size['accuracy']:.0%} of {size['checked']:,}",
    ]


def _judge(judge: dict[str, Any]) -> list[str]:
    """A row of the table of judges."""
    state = "" if judge["state"] == "active" else f" ({judge['state']})"
    calls, tokens = judge["calls"], judge["tokens_in"] + judge["tokens_out"]
    return [
        f"{judge['name']}{state}",
        judge["kind"],
        *(f"{judge[name]:,}" for name in ("answers", "skipped")),
        *map(_figure, figures_of(judge)),
        *(f"{n:,}" if calls else "-" for n in (calls, tokens)),
        _amounts(judge["costs"]) or "-",
        judge["verdict"] or "-",
    ]


def _calibration(judge: dict[str, Any], each: dict[str, Any]) -> list[str]:
    """A row of the table of calibration."""
    return [
        judge["name"],
        _P_COUNTS[judge["probabilities"]],
        f"{each['low']:g} to {each['high']:g}",
        f"{each['answers']:,}",
        f"{each['said']:.2f}",
        *(_share_of(each[name], each[f"n_{name}"]) for name in ("others", "gold")),
    ]


def _share_of(share: float | None, number: int) -> str:
    return "-" if share is None else _SMALL.format(f"{share:.2f}", f"of {number:,}")


def _figure(figure: Figure) -> str:
    if isinstance(figure, Interval):
        return _SMALL.format(figure.value, f"[{figure.low}, {figure.high}]")
    if figure is None:
        return "-"
    return _SMALL.format(f"{figure.observed:.2f}", f"/ {figure.expected:.2f}")


def _reliability(part: dict[str, Any]) -> Iterator[str]:
    """What speaks for the ranking and against it, a sentence each."""
    checked = part["remaining"]
    yield _sentence(checked["why"])
    # Far from the goal the line above has the first of them, the share that may be wrong.
    details = checked["details"] if checked["reached"] else checked["details"][1:]
    for sentence in filter(None, (*details, checked["apart"])):
        yield _sentence(sentence)
    if checked["holdout_n"]:
        what = (
            "answers, each predicted from all others"
            if checked["left_out"]
            else "answers about random pairs, which chose no question and were predicted unseen"
        )
        yield (
            f"Held-out accuracy: {checked['holdout_right']:.0%} of {checked['holdout_n']} {what}; "
            f"{checked['holdout_expected']:.0%} were to be expected if the probabilities are right."
        )
    else:
        yield "No held-out answers yet could check the model."
    yield part["cycles"]["said"]
    agreed = part["agreement"]
    alpha, shared = agreed["krippendorff_alpha"], agreed["shared_pairs"]
    if alpha is not None and shared >= ENOUGH_SHARED:
        pairs = count(shared, "pair")
        yield (
            f"Krippendorff's alpha of {alpha:.2f} over {pairs} that two judges or more answered: "
            "1 is perfect agreement, 0 is chance."
        )
    elif shared:
        yield (
            f"Only {count(shared, 'pair')} answered by two judges or more: too few to measure "
            f"their agreement, which takes {ENOUGH_SHARED}."
        )
    if agreed["consistency"] is not None and agreed["repeats"] >= ENOUGH_SHARED:
        yield (
            f"{agreed['consistency']:.0%} of {count(agreed['repeats'], 'answer')} to a pair that "
            "the same judge had answered before were the same."
        )
    yield (
        "Intervals are of the model that was fitted: they cover the noise of answers, reliability "
        "and side bias, not what all judges get wrong alike."
    )


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
