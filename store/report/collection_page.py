"""Make the report of a collection: its ranking, and how reliable the ranking is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd
from markupsafe import Markup

from sortnet.files import Record
from sortnet.judges.budget import amount
from sortnet.messages import count
from sortnet.preference.annotator_agreement import ENOUGH_SHARED
from store.plots.figures import calibration_curves, ranking_intervals
from store.report.columns import TITLES, annotator_row, meanings, table_cells
from store.report.growth import growth_of, growth_picture
from store.report.html_page import (
    Block,
    Picture,
    Section,
    Table,
    instructions_html,
    listed,
    picture,
    render_page,
)
from store.service.collection_items import TOP, page_cell

_MOST_RANKING_ROWS = 100_000  # rows in the page; more rows would be tens of megabytes
_MOST_ANSWERS = 12  # answers that are shown about a pair
# {how an annotator's probabilities count: what the page says about it}
_USE_OF_PROBABILITIES = {
    "measurement": "measurements",
    "words": "words: they say nothing of the errors",
    "share": "shares of votes",
    "ignored": "words: they are ignored",
}
# {how far the session is: the state of the goal in a tile}
_GOAL_STATES = {
    "asking": "not reached yet",
    "short": "needs more annotators",
    "near-ties": "out of reach: near-ties",
    "unchecked": "seems reached, being checked",
    "contradicted": "seems reached, but contradicted",
    "reached": "reached",
    "all-top": "reached",
}
_JUDGE_COLUMNS = (
    "annotator", "state", "answers", "skipped", *TITLES, "calls", "tokens", "cost", "verdict",
)  # fmt: skip


def render(all_facts: Sequence[Record], name: str) -> str:
    """Render the page of a collection as HTML.

    Args:
        all_facts: the facts of the collection, or of each of its criteria, see `facts_of_criteria`.
        name: the name of the collection.

    Cost: about a second to draw.
    """
    sections = [section for facts in all_facts for section in _sections(facts)]
    return render_page(f"The ranking of {name}", sections)


def _sections(facts: Record) -> list[Section]:
    """Make the sections about a criterion; of several, the contents list only the first section."""
    criterion = facts["criterion"]
    instructions = instructions_html(facts["instructions"])
    pictures = [
        _intervals_picture(facts["intervals"]),
        growth_picture(growth_of(facts["service"]), facts["goal"]),
        _calibration_picture(facts["judges"]),
    ]
    known_pictures = [of_facts for of_facts in pictures if of_facts is not None]
    blocks_of_title: dict[str, list[Block]] = {
        criterion or "The question": [
            ("lead", facts["question"]),
            ("html", Markup('<div dir="auto">{}</div>').format(instructions)),
            ("tiles", [*_tiles(facts)]),
        ],
        "How reliable it is": [("lines", [*_reliability(facts)]), ("pictures", known_pictures)],
        "Who judged": _judges(facts),
        _ranking_title(facts): [("table", _ranking_table(facts))],
        "Pairs most in doubt": _pairs_in_doubt(facts),
    }
    return [
        Section(title, blocks, is_listed=not criterion or title == criterion)
        for title, blocks in blocks_of_title.items()
    ]


def _tiles(facts: Record) -> Iterator[tuple[str, str]]:
    """Yield the title and the content of each box below the question."""
    n_items = f"{facts['items']:,}"
    if facts["groups"]:
        n_items += f" in {count(facts['groups'], 'group')}"
    yield "Items", n_items
    yield "Answers", f"{facts['answers']:,} by {count(len(facts['judges']), 'judge')}"
    if facts["cost"] is not None:
        yield "Cost", amount(facts["cost"])
    yield "Goal", _GOAL_STATES[facts["remaining"]["standing"]]


def _intervals_picture(rows: Sequence[Record]) -> Picture | None:
    """Draw the intervals of the ranks of some items; None if there are no answers about them."""
    if not any(row["judgements"] for row in rows):
        return None
    frame = pd.DataFrame(rows)
    width = frame["high"] - frame["low"] + 1
    of_group = "" if rows[0]["group"] is None else f" in the group {rows[0]['group']}"
    alt = (
        f"Intervals of the ranks{of_group}: the 90 % interval of a rank has a median of "
        f"{width.median():.0f} of {len(frame)} ranks; see the ranking."
    )
    caption = (
        f"The narrower an interval{of_group}, the surer the rank; items whose intervals overlap "
        "may change places."
    )
    return picture(ranking_intervals(frame), alt, caption)


def _calibration_picture(judges: Sequence[Record]) -> Picture | None:
    """Draw how often judges are right who are as sure as that; None if nothing is known."""
    points = [
        {"judge": judge["name"], "stated": stated, "right": share_right}
        for judge in judges
        if judge["calibration"]
        for stated, share_right, _ in judge["calibration"]["curve"]
    ]
    if not points:
        return None
    n_judges = len({point["judge"] for point in points})
    alt = f"Stated probabilities. Lines of {count(n_judges, 'judge')}; see below the table."
    caption = "On the dotted line a judge is right as often as stated; below it, too sure."
    return picture(calibration_curves(pd.DataFrame(points)), alt, caption)


def _judges(facts: Record) -> list[Block]:
    """Make the table about the judges, and a line about the probabilities of each judge."""
    if not facts["judges"]:
        return [("text", "Nobody has answered yet.")]
    rows = [
        {**annotator_row(judge), "tokens": judge["tokens_in"] + judge["tokens_out"]}
        for judge in facts["judges"]
    ]
    names = [name for name in _JUDGE_COLUMNS if any(row[name] for row in rows)]
    blocks: list[Block] = [
        ("table", Table("Who answered, how well, and at what cost", *table_cells(rows, names))),
        ("lines", meanings(names)),
    ]
    stated = [_calibration_line(judge) for judge in facts["judges"] if judge["calibration"]]
    if stated:
        explanation = (
            "Stated probabilities beside gold pairs, and elsewhere beside the answers of others. "
            "Judges differ on close pairs: even a judge who is never wrong agrees with others less "
            "often than stated."
        )
        blocks += [("text", explanation), ("lines", stated)]
    return blocks


def _calibration_line(judge: Record) -> str:
    """Write how sure a judge is, beside how often the known answers or others agree."""
    measured = judge["calibration"]
    use = _USE_OF_PROBABILITIES[judge["probabilities"]]
    return (
        f"{judge['name']}, whose probabilities count as {use}: "
        f"{measured['said']:.2f} sure on average, right in {measured['right']:.2f} of "
        f"{count(measured['answers'], 'answer')}; Brier score {measured['brier']:.3f}."
    )


def _ranking_title(facts: Record) -> str:
    """Write the heading of the ranking table, which tells whether all items are shown."""
    if len(facts["rows"]) == facts["items"]:
        return f"Ranking: all {facts['items']:,} items"
    of_each_group = " of each group" if facts["groups"] else ""
    return f"Ranking: the top {facts['top']}{of_each_group}"


def _ranking_table(facts: Record) -> Table:
    """Make the table of the ranking, with a column of the groups if there are groups."""
    rows = facts["rows"]
    caption = (
        "With the 90 % interval of the rank, and the probability of being among the top "
        f"{facts['top']}. A press on a heading sorts by that column."
    )
    if len(rows) > _MOST_RANKING_ROWS:
        caption += (
            f" The first {_MOST_RANKING_ROWS:,} of {len(rows):,} items; all: sortnet ranking "
            f"{facts['collection']}."
        )
    heads = ["rank", "item", "score", "90 %", f"among the top {facts['top']}", "answers"]
    cells = [
        [
            str(row["rank"]),
            [row["id"], row["text"] or ""],
            page_cell("score", row["score"]),
            f"{row['low']}-{row['high']}",
            page_cell(TOP, row[TOP]),
            str(row["judgements"]),
        ]
        for row in rows[:_MOST_RANKING_ROWS]
    ]
    if not facts["groups"]:
        return Table(caption, heads, cells, text=(1,), is_sortable=True)
    of_groups = [[str(row["group"]), *of_row] for row, of_row in zip(rows, cells, strict=False)]
    return Table(caption, ["group", *heads], of_groups, text=(0, 2), is_sortable=True)


def _pairs_in_doubt(facts: Record) -> list[Block]:
    """Make the table of the pairs whose answers differ, or whose order is least certain."""
    rows = [
        [
            [pair["first"]["id"], pair["first"]["text"]],
            [pair["second"]["id"], pair["second"]["text"]],
            f"{pair['p']:.0%}",
            listed([*_answers_about(pair)]),
        ]
        for pair in facts["in_doubt"]
    ]
    if not rows:
        return []
    caption = (
        "Judged pairs: first the pairs whose answers differ, then the pairs whose order is least "
        "certain."
    )
    heads = ["before", "after", "sure", "answers"]
    return [("table", Table(caption, heads, rows, text=(0, 1, 3)))]


def _answers_about(pair: Record) -> Iterator[str]:
    """Yield a text for each answer about a pair, up to a number, with its reason."""
    for answer in pair["answers"][:_MOST_ANSWERS]:
        text = f"{answer['annotator']}: {answer['prefers'] or 'a tie'}"
        if answer["p_first"] is not None:
            text += f" ({answer['p_first']:.0%} for {pair['first']['id']})"
        if answer["reason"]:
            text += f": {answer['reason']}"
        yield text
    n_more = len(pair["answers"]) - _MOST_ANSWERS
    if n_more > 0:
        yield f"and {n_more} more"


def _reliability(facts: Record) -> Iterator[str]:
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
    yield f"Held-out accuracy: {remaining['checked']}."
    agreement = facts["agreement"]
    alpha = agreement["krippendorff_alpha"]
    pairs = count(agreement["shared_pairs"], "pair")
    if alpha is not None and agreement["shared_pairs"] >= ENOUGH_SHARED:
        yield (
            f"Krippendorff's alpha of {alpha:.2f} over {pairs} that two judges or more answered: "
            "1 is perfect agreement, 0 is chance."
        )
    elif agreement["shared_pairs"]:
        yield f"Only {pairs} answered by two judges or more: too few to measure their agreement."
    if agreement["consistency"] is not None and agreement["repeats"] >= ENOUGH_SHARED:
        yield (
            f"{agreement['consistency']:.0%} of {count(agreement['repeats'], 'answer')} to a pair "
            "that the same judge had answered before were the same."
        )
    yield (
        "Intervals are of the model that was fitted: they cover the noise of answers, reliability "
        "and side bias, not what all judges get wrong alike."
    )


def _sentence(text: str) -> str:
    """Make a sentence of a text, with a capital letter and a full stop."""
    return f"{text[:1].upper()}{text[1:]}."
