"""A comparison of rankers: figures, differences between rankers, and rows of tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cli.lab.work import Results, cpu_seconds
from sortnet.errors import SortNetError
from sortnet.lab.cells import Result
from sortnet.lab.summaries import Spread, mean_texts
from sortnet.lab.summaries import summary as summarise

if TYPE_CHECKING:
    import pandas as pd


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
        summary = self.summary
        texts: dict[str, Iterable[str]] = {"ranker": summary["ranker"]}
        for measure in self.measures:
            spreads = summary[f"{measure}_{self.spread}"]
            texts[measure] = mean_texts(summary[measure], spreads, best="*{}")
        # The summary is sorted by the first measure, so that the best ranker is the first.
        p_of_pair = self.by_query.set_index(["a", "b"])["p_holm"]
        best_ranker, *other_rankers = summary["ranker"]
        texts["p"] = ["", *(f"{p_of_pair[best_ranker, name]:.3f}" for name in other_rankers)]
        texts["parts"] = summary["parts"].astype(str)
        texts["CPU s"] = summary["seconds"].map("{:.1f}".format)
        return [list(row) for row in zip(*texts.values(), strict=True)]

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
    spread: Spread = "error",
) -> Comparison:
    """Measure the results, summarise the figures, and test the differences between rankers.

    Args:
        results: the cells with their results. A cell is one ranker on one part of the data.
        measures: names of the measures; the first sorts the summary and is tested.
        convention: name of the convention of the figures, for instance how a query without a
            relevant document counts.
        data: path or name of the data.
        spread: the kind of spread beside a mean.

    Raises:
        SortNetError: if no cell has a result.
    """
    import pandas as pd

    from sortnet.lab.published import published_for
    from sortnet.lab.significance import paired_by_part, paired_by_query
    from sortnet.lab.tool_conventions import convention_line, figures_of

    if not results.results:
        _, first_reason = results.failed[0]
        raise SortNetError(f"no ranker could be fitted: {first_reason}")
    figures = figures_of(results.results, measures, convention)
    sizes = figures.attrs  # numbers of queries
    summary = summarise(figures, measures, spread)
    seconds = pd.Series(
        [cpu_seconds(result) for _, result in results.results],
        [cell.ranker.name for cell, _ in results.results],
    )
    summary["seconds"] = summary["ranker"].map(seconds.groupby(level=0).mean())
    rankers = list(summary["ranker"])  # the best first
    return Comparison(
        results=results,
        measures=measures,
        convention=convention,
        data=data,
        spread=spread,
        convention_line=convention_line(convention, measures, sizes["n_empty"], sizes["n_queries"]),
        figures=figures,
        summary=summary,
        published=published_for(data, measures),
        by_query=paired_by_query(figures, measures[0], rankers),
        by_part=paired_by_part(figures, measures[0], sizes["ratio"], rankers),
    )


def published_rows(published: pd.DataFrame) -> tuple[list[str], list[list[str]]]:
    """Make a table of published figures, with a row for each ranker in a source.

    Returns:
        The names of the columns, and the rows.
    """
    with_text = published.replace({"convention": {"": "not said"}}).assign(
        text=mean_texts(published["value"], published["error"])
    )
    origin = ["protocol", "convention", "source"]
    table = with_text.pivot_table(
        index=["ranker", *origin], columns="measure", values="text", aggfunc="first", sort=False
    )
    columns = ["ranker", *table.columns, *origin]
    return columns, table.fillna("").reset_index()[columns].to_numpy().tolist()


def settings_rows(results: Results, part_names: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """Make a table of the settings that the search chose: a row per ranker, a column per part.

    Returns:
        The names of the columns, and the rows.
    """
    texts = {
        (cell.ranker.name, cell.split.name): _chosen_settings(result)
        for cell, result in results.results
    }
    rankers = dict.fromkeys(ranker for ranker, _ in texts)
    rows = [[name, *(texts.get((name, part), "failed") for part in part_names)] for name in rankers]
    return ["ranker", *part_names], rows


def _chosen_settings(result: Result) -> str:
    """Write the names and the chosen values of the settings that the search has tried."""
    trials = result.about["trials"]  # a trial has the settings tried and their `quality`
    searched_names = {name for trial in trials for name in trial} - {"quality"}
    settings = result.about["settings"]
    all_settings = {**settings, **settings.get("training", {})}
    chosen = [f"{name} {value}" for name, value in all_settings.items() if name in searched_names]
    return ", ".join(chosen) or "not searched"
