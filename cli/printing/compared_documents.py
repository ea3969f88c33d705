"""Result of `sortnet explain`: two documents compared, and the features that decide."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cli.printing.results import Column, Result, Table
from sortnet.messages import count, printable

if TYPE_CHECKING:
    from sortnet.explanation.attribution import ColumnValue, Explanation
    from sortnet.explanation.compared_documents import ComparedDocuments, RankedDocument

MOST_PARTS = 5  # parts of a column, such as words, that the text shows


def comparison_result(comparison: ComparedDocuments, top: int) -> Result:
    """Make the result: which document goes first, the votes, and the features that decide.

    Args:
        comparison: the comparison of two documents.
        top: number of features that the text shows; JSON has all features.
    """
    text: list[str | Table] = [*_order_lines(comparison), *_vote_lines(comparison)]
    if comparison.explanation is None:
        text.append(f"which features decide is not known: {comparison.reason}")
    else:
        text.append("")
        text.append(f"A is {_name_of(comparison.a)}, B is {_name_of(comparison.b)}")
        text.append(_features_table(comparison.explanation, top))
        text.append("values add up to the margin, from that of two documents at the query's mean")
    return Result("explanation", _value(comparison), text=text)


def _value(comparison: ComparedDocuments) -> dict[str, Any]:
    """Convert the comparison to JSON values; without an explanation there are no features."""
    value: dict[str, Any] = {
        "qid": comparison.qid,
        "first": comparison.first,
        "margin": comparison.margin,
        "a": asdict(comparison.a),
        "b": asdict(comparison.b),
        "n_docs": comparison.n_docs,
        "members": comparison.votes,
    }
    explanation = comparison.explanation
    if explanation is None:
        return value
    features = []
    for effect in explanation.by_column():
        row = _feature_facts(effect)
        if effect.parts:
            row["parts"] = [_feature_facts(part) for part in effect.parts]
        features.append(row)
    value["baseline_margin"] = explanation.baseline
    value["error"] = explanation.error
    value["features"] = features
    return value


def _feature_facts(effect: ColumnValue) -> dict[str, Any]:
    """Convert the effect of a column to JSON values."""
    return {
        "feature": effect.column.name,
        "number": effect.column.features[0] + 1,
        "value": effect.value,
        "a": effect.a,
        "b": effect.b,
    }


def part_name(part: str, column: str) -> str:
    """Write the name of a word or another part of a column, indented below the column.

    >>> part_name("title: fjord", "title")
    '  fjord'
    """
    return f"  {printable(part.removeprefix(f'{column}: '))}"


def _order_lines(comparison: ComparedDocuments) -> list[str]:
    """Write two lines: which document goes first, and the ranks of both documents."""
    first, last = comparison.a, comparison.b
    if comparison.first == "b":
        first, last = comparison.b, comparison.a
    if comparison.first is None:
        order = f"{_name_of(first)} and {_name_of(last)} are the same to the model (margin 0)"
    else:
        margin = f"margin {abs(comparison.margin):.4g}"
        order = f"{_name_of(first)} goes before {_name_of(last)}, {margin}"
    ranks = f"{first.rank} and {last.rank} of {comparison.n_docs}"
    return [order, f"ranked {ranks} in query {comparison.qid}"]


def _vote_lines(comparison: ComparedDocuments) -> list[str]:
    """Tell how many of a ranker's members put the same document first; empty for a single one."""
    sign = 1 if comparison.first == "a" else -1
    margins = [sign * vote["margin"] for vote in comparison.votes]
    if len(margins) == 1 or comparison.first is None:
        return []
    n_agreeing = sum(margin > 0 for margin in margins)
    margin_range = f"from {min(margins):.4g} to {max(margins):.4g}"
    return [f"so say {n_agreeing} of {count(len(margins), 'member')}, by margins {margin_range}"]


def _features_table(explanation: Explanation, top: int) -> Table:
    """Make a table of the features with the largest effects, whose values sum to the margin.

    Args:
        explanation: the effects of all features.
        top: number of columns that have a row, with rows for their largest parts; one more row
            sums the other columns.
    """
    effects = explanation.by_column()
    largest = effects[:top]
    smaller = effects[top:]
    rows = list[tuple[str, str, str, float]]()
    for effect in largest:
        name = effect.column.name
        cells = ("", "") if effect.parts else (_cell(effect.a), _cell(effect.b))
        rows.append((printable(name), *cells, effect.value))
        for part in effect.parts[:MOST_PARTS]:
            row_of_part = (part_name(part.column.name, name), _cell(part.a), _cell(part.b))
            rows.append((*row_of_part, part.value))
    values = [value for *_, value in rows]
    if smaller:
        sum_of_smaller = sum(effect.value for effect in smaller)
        rows.append((f"the {len(smaller)} others", "", "", sum_of_smaller))
    if explanation.baseline:
        rows.append(("two at the query's mean", "", "", explanation.baseline))
    rows.append(("margin of A over B", "", "", explanation.margin))
    return Table(_FEATURES, rows, bars=values, bar_titles=("+ for A, - for B", "+ A, - B"))


def _cell(value: float | str | None) -> str:
    """Write the value of a feature in a document."""
    if value is None:
        return "missing"
    if isinstance(value, str):
        return printable(value)
    return f"{value:.4g}"


def _name_of(document: RankedDocument) -> str:
    """Name a document by its id, or by its row if it has no id."""
    return f"row {document.row}" if document.docid is None else document.docid


# A row is the name of a feature, its values in both documents, and its share of the margin.
_FEATURES = [
    Column("feature", lambda row: str(row[0]), cut="end"),
    Column("in A", lambda row: str(row[1]), cut="end"),
    Column("in B", lambda row: str(row[2]), cut="end"),
    Column("value", lambda row: f"{row[3]:+.4g}"),
]
