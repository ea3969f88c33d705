"""A comparison of rankers: its figures, their differences, and its tables."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

from cli.lab.work import Results
from sortnet.errors import SortNetError

if TYPE_CHECKING:
    import pandas as pd

    from sortnet.lab.summaries import Spread


class Comparison:
    """Figures of a comparison, and tests of their differences.

    Args:
        results: the results of the cells of the comparison.
        measures: the names of the measures; the first measure decides the order.
        convention: the name of the convention of the figures.
        data: the path or the name of the data, which finds the published figures.
        spread: the kind of spread beside a mean in the summary.

    Attributes:
        said: the meaning of the convention, in a line.
        figures: a row a query, ranker and part.
        summary: a row a ranker, the best first, see `sortnet.lab.summaries`; its column `seconds`
            has the mean over the ranker's cells.
        published: figures of papers on this data.
        by_query, by_part: a row for each two rankers, see `sortnet.lab.significance`.

    Raises:
        SortNetError: if no cell has a result.
    """

    def __init__(
        self,
        results: Results,
        measures: list[str],
        convention: str,
        data: str,
        cache: Path | None,
        spread: Spread = "error",
    ) -> None:
        import pandas as pd

        from sortnet.lab.measured import figures_of
        from sortnet.lab.published import published_for
        from sortnet.lab.significance import paired_by_part, paired_by_query
        from sortnet.lab.summaries import summary
        from sortnet.lab.tool_conventions import said_under

        if not results.results:
            raise SortNetError(f"no ranker could be fitted: {results.failed[0][1]}")
        self.results = results
        self.measures, self.convention = measures, convention
        self.data, self.spread = data, spread
        self.figures = figures_of(results.results, measures, convention, cache=cache)
        counts = self.figures.attrs
        self.said = said_under(convention, measures, counts["n_empty"], counts["n_queries"])
        self.summary = summary(self.figures, measures, spread)
        seconds = [sum(result.about["seconds"].values()) for _, result in results.results]
        by_ranker = pd.Series(seconds, [cell.ranker.name for cell, _ in results.results])
        self.summary["seconds"] = self.summary["ranker"].map(by_ranker.groupby(level=0).mean())
        self.published = published_for(data, measures)
        order = list(self.summary["ranker"])
        self.by_query = paired_by_query(self.figures, measures[0], order)
        self.by_part = paired_by_part(self.figures, measures[0], counts["ratio"], order)

    def rows(self) -> list[list[str]]:
        """Rows of the printed summary: figures with their spread, the best with a star."""
        best = self.summary[self.measures].max()
        first = self.summary["ranker"][0]
        p = self.by_query.set_index(["a", "b"])["p_holm"]
        rows = []
        for row in self.summary.to_dict("records"):
            name = str(row["ranker"])
            figures = [
                mean_text(row[m], row[f"{m}_{self.spread}"], row[m] == best[m])
                for m in self.measures
            ]
            p_of_first = "" if name == first else f"{p[first, name]:.3f}"
            rows.append([name, *figures, p_of_first, str(row["parts"]), f"{row['seconds']:.1f}"])
        return rows

    @property
    def head(self) -> list[str]:
        """The names of the columns of the printed summary."""
        return ["ranker", *self.measures, "p", "parts", "CPU s"]

    @property
    def notes(self) -> list[str]:
        """The meaning of the columns of the printed summary."""
        best, *worse = self.summary["ranker"]
        p = (
            f"p: that {best} is no better in {self.measures[0]}: paired t-test over "
            "queries, Holm's correction for all pairs of rankers"
        )
        marks = (
            f"± standard {self.spread} over the parts; * the best; CPU s of a part, tuning included"
        )
        return [marks, p] if worse else [marks]


def published_rows(published: pd.DataFrame) -> tuple[list[str], list[list[str]]]:
    """Published figures as a table: its head and its rows, one for each ranker of a source."""
    measures = list(published["measure"].unique())
    figures_of_source: dict[tuple[str, ...], dict[str, str]] = {}
    for row in published.to_dict("records"):
        names = ("ranker", "protocol", "convention", "source")
        source = tuple(row[name] or "not said" for name in names)
        figures = figures_of_source.setdefault(source, {})
        figures[row["measure"]] = mean_text(row["value"], row["error"])
    head = ["ranker", *measures, "protocol", "convention", "source"]
    rows = [
        [ranker, *(figures.get(measure, "") for measure in measures), *about]
        for (ranker, *about), figures in figures_of_source.items()
    ]
    return head, rows


def settings_rows(results: Results, parts: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """The settings that the search chose, as a table: a row a ranker and a column a part."""
    texts: dict[str, dict[str, str]] = {}
    for cell, result in results.results:
        searched = {name for trial in result.about["trials"] for name in trial} - {"quality"}
        settings = result.about["settings"]
        settings = {**settings, **settings.get("training", {})}
        chosen = [f"{name} {value}" for name, value in settings.items() if name in searched]
        by_part = texts.setdefault(cell.ranker.name, {})
        by_part[cell.split.name] = ", ".join(chosen) or "not searched"
    rows = [
        [ranker, *(by_part.get(part, "failed") for part in parts)]
        for ranker, by_part in texts.items()
    ]
    return ["ranker", *parts], rows


def mean_text(value: float, error: float, best: bool = False) -> str:
    """A mean with its spread; NaN: no spread. The best mean is marked.

    >>> mean_text(0.71239, 0.01, True), mean_text(0.5, float("nan")), mean_text(3000, 20)
    ('*0.712 ± 0.010', '0.500', '3000 ± 20')
    """
    digits = 0 if value >= 1000 else 3
    mark = "*" if best else ""
    plus_minus = "" if isnan(error) else f" ± {error:.{digits}f}"
    return f"{mark}{value:.{digits}f}{plus_minus}"
