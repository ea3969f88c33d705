"""A comparison of rankers: its figures, their differences, and its tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

from cli.lab.work import Results, cpu_seconds
from sortnet.errors import SortNetError

if TYPE_CHECKING:
    import pandas as pd

    from sortnet.lab.cells import Result
    from sortnet.lab.summaries import Spread


@dataclass(frozen=True, eq=False)
class Comparison:
    """Figures of a comparison of rankers, and tests of the differences between rankers.

    A part is a fold of the data, or another division of them into training and test queries.

    Attributes:
        results: results of the cells of the comparison. A cell is one ranker on one part.
        measures: names of the measures; the first measure decides the order of the rankers.
        convention: name of the convention of the figures, for instance how a query without a
            relevant document counts.
        data: path or name of the data, by which published figures are found.
        spread: the kind of spread beside a mean in the summary.
        convention_line: a line of text that describes the convention.
        figures: a frame with a row for each query, ranker and part of the data.
        summary: a frame with a row for each ranker, the best first, see `sortnet.lab.summaries`;
            its column `seconds` has the mean CPU seconds of the ranker's cells.
        published: figures of papers on the same data.
        by_query: tests of each two rankers over queries, see `sortnet.lab.significance`.
        by_part: tests of each two rankers over parts, see `sortnet.lab.significance`.
    """

    results: Results
    measures: list[str]
    convention: str
    data: str
    spread: Spread
    convention_line: str
    figures: pd.DataFrame
    summary: pd.DataFrame
    published: pd.DataFrame
    by_query: pd.DataFrame
    by_part: pd.DataFrame

    def rows(self) -> list[list[str]]:
        """Write the rows of the printed summary: figures with spread, the best with a star."""
        best_means = self.summary[self.measures].max()
        best_ranker = self.summary["ranker"][0]  # the summary is sorted by the first measure
        p_of_pair = self.by_query.set_index(["a", "b"])["p_holm"]
        rows = []
        for row in self.summary.to_dict("records"):
            name = str(row["ranker"])
            figures = []
            for measure in self.measures:
                mean = row[measure]
                spread = row[f"{measure}_{self.spread}"]
                figures.append(mean_text(mean, spread, best=mean == best_means[measure]))
            p = "" if name == best_ranker else f"{p_of_pair[best_ranker, name]:.3f}"
            rows.append([name, *figures, p, str(row["parts"]), f"{row['seconds']:.1f}"])
        return rows

    @property
    def head(self) -> list[str]:
        """Names of the columns of the printed summary."""
        return ["ranker", *self.measures, "p", "parts", "CPU s"]

    @property
    def notes(self) -> list[str]:
        """Lines of text that explain the columns of the printed summary."""
        best, *other_rankers = self.summary["ranker"]
        marks = (
            f"± standard {self.spread} over the parts; * the best; CPU s of a part, tuning included"
        )
        if not other_rankers:
            return [marks]
        p = (
            f"p: that {best} is no better in {self.measures[0]}: paired t-test over "
            "queries, Holm's correction for all pairs of rankers"
        )
        return [marks, p]


def compare(
    results: Results,
    measures: list[str],
    convention: str,
    data: str,
    cache: Path | None,
    spread: Spread = "error",
) -> Comparison:
    """Measure the results, summarise the figures, and test the differences between rankers.

    Args:
        results: the cells with their results. A cell is one ranker on one part of the data.
        measures: names of the measures; the first sorts the summary and is tested.
        convention: name of the convention of the figures, for instance how a query without a
            relevant document counts.
        data: path or name of the data.
        cache: cache folder for the data; None for no cache.
        spread: the kind of spread beside a mean.

    Raises:
        SortNetError: if no cell has a result.
    """
    from sortnet.lab.measured import figures_of
    from sortnet.lab.published import published_for
    from sortnet.lab.significance import paired_by_part, paired_by_query
    from sortnet.lab.tool_conventions import convention_line

    if not results.results:
        _, first_reason = results.failed[0]
        raise SortNetError(f"no ranker could be fitted: {first_reason}")
    figures = figures_of(results.results, measures, convention, cache=cache)
    n_queries = figures.attrs["n_queries"]
    n_without_relevant_document = figures.attrs["n_empty"]
    test_queries_per_training_query = figures.attrs["ratio"]
    summary = _summarise(figures, results, measures, spread)
    rankers = list(summary["ranker"])  # the best first
    first_measure = measures[0]
    return Comparison(
        results=results,
        measures=measures,
        convention=convention,
        data=data,
        spread=spread,
        convention_line=convention_line(
            convention, measures, n_without_relevant_document, n_queries
        ),
        figures=figures,
        summary=summary,
        published=published_for(data, measures),
        by_query=paired_by_query(figures, first_measure, rankers),
        by_part=paired_by_part(figures, first_measure, test_queries_per_training_query, rankers),
    )


def _summarise(
    figures: pd.DataFrame, results: Results, measures: list[str], spread: Spread
) -> pd.DataFrame:
    """Summarise the figures, a row for each ranker, with the mean CPU seconds of its cells."""
    from sortnet.lab.summaries import summary

    frame = summary(figures, measures, spread)
    frame["seconds"] = frame["ranker"].map(_mean_seconds(results))
    return frame


def published_rows(published: pd.DataFrame) -> tuple[list[str], list[list[str]]]:
    """Make a table of published figures, with a row for each ranker in a source.

    Returns:
        The names of the columns, and the rows.
    """
    measures = list(published["measure"].unique())
    origin_columns = ("protocol", "convention", "source")
    # {(ranker, protocol, convention, source): {measure: its mean as text}}
    means_of_source: dict[tuple[str, ...], dict[str, str]] = {}
    for row in published.to_dict("records"):
        source = tuple(row[name] or "not said" for name in ("ranker", *origin_columns))
        means = means_of_source.setdefault(source, {})
        means[row["measure"]] = mean_text(row["value"], row["error"])
    rows = []
    for (ranker, *origin), means in means_of_source.items():
        means_of_measures = [means.get(measure, "") for measure in measures]
        rows.append([ranker, *means_of_measures, *origin])
    return ["ranker", *measures, *origin_columns], rows


def settings_rows(results: Results, parts: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """Make a table of the settings that the search chose: a row per ranker, a column per part.

    Returns:
        The names of the columns, and the rows.
    """
    texts: dict[str, dict[str, str]] = {}  # {ranker: {part: its settings as text}}
    for cell, result in results.results:
        text_of_part = texts.setdefault(cell.ranker.name, {})
        text_of_part[cell.split.name] = _chosen_settings(result)
    rows = []
    for ranker, text_of_part in texts.items():
        rows.append([ranker, *(text_of_part.get(part, "failed") for part in parts)])
    return ["ranker", *parts], rows


def mean_text(value: float, error: float, best: bool = False) -> str:
    """Write a mean with its spread, or without if the spread is NaN; mark the best mean by a star.

    >>> mean_text(0.71239, 0.01, True), mean_text(0.5, float("nan")), mean_text(3000, 20)
    ('*0.712 ± 0.010', '0.500', '3000 ± 20')
    """
    digits = 0 if value >= 1000 else 3
    mark = "*" if best else ""
    plus_minus = "" if isnan(error) else f" ± {error:.{digits}f}"
    return f"{mark}{value:.{digits}f}{plus_minus}"


def _mean_seconds(results: Results) -> pd.Series[float]:
    """Return the mean CPU seconds of each ranker on a part of the data, by the ranker's name."""
    import pandas as pd

    seconds = [cpu_seconds(result) for _, result in results.results]
    names = [cell.ranker.name for cell, _ in results.results]
    return pd.Series(seconds, names).groupby(level=0).mean()


def _chosen_settings(result: Result) -> str:
    """Write the names and the chosen values of the settings that the search has tried."""
    trials = result.about["trials"]  # a trial has the settings tried and their `quality`
    searched_names = {name for trial in trials for name in trial} - {"quality"}
    settings = result.about["settings"]
    all_settings = {**settings, **settings.get("training", {})}
    chosen = [f"{name} {value}" for name, value in all_settings.items() if name in searched_names]
    return ", ".join(chosen) or "not searched"
