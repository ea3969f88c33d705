"""A comparison of rankers: its figures, their differences, and the tables of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cli.lab.work import Results
from sortnet.errors import SortNetError

if TYPE_CHECKING:
    import pandas as pd

    from sortnet.lab.summaries import Spread


class Comparison:
    """Figures of a comparison, and what they say.

    Args:
        measures: by name, the first decides the order.
        convention: convention of the figures, by its name; `said` is what it means.
        data: what the page says of the data, and published figures are found by.
        spread: what stands beside a mean in the summary.

    Attributes:
        figures: a row a query, ranker and part.
        summary: a row a ranker, the best first, see `sortnet.lab.summaries`; and `seconds`,
            the mean of a cell's.
        published: figures of papers on this data.
        by_query, by_part: a row for each two rankers, see `sortnet.lab.significance`.

    Raises:
        SortNetError: if no cell has a result.
    """

    def __init__(
        self,
        found: Results,
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

        if not found.results:
            raise SortNetError(f"no ranker could be fitted: {found.failed[0][1]}")
        self.found, self.measures, self.convention = found, measures, convention
        self.data, self.spread = data, spread
        self.figures = figures_of(found.results, measures, convention, cache=cache)
        about = self.figures.attrs
        self.said = said_under(convention, measures, about["n_empty"], about["n_queries"])
        self.summary = summary(self.figures, measures, spread)
        seconds = [sum(result.about["seconds"].values()) for _, result in found.results]
        took = pd.Series(seconds, [cell.ranker.name for cell, _ in found.results])
        self.summary["seconds"] = self.summary["ranker"].map(took.groupby(level=0).mean())
        self.published = published_for(data, measures)
        order = list(self.summary["ranker"])
        self.by_query = paired_by_query(self.figures, measures[0], order)
        self.by_part = paired_by_part(self.figures, measures[0], about["ratio"], order)

    def rows(self) -> list[list[str]]:
        """The summary as it is shown: figures with their standard errors, the best with a star."""
        best = self.summary[self.measures].max()
        first, p = self.summary["ranker"][0], self.by_query.set_index(["a", "b"])["p_holm"]
        found = []
        for row in self.summary.to_dict("records"):
            name = str(row["ranker"])
            figures = [
                mean_text(row[m], row[f"{m}_{self.spread}"], row[m] == best[m])
                for m in self.measures
            ]
            of_best = "" if name == first else f"{p[first, name]:.3f}"
            found.append([name, *figures, of_best, str(row["parts"]), f"{row['seconds']:.1f}"])
        return found

    @property
    def head(self) -> list[str]:
        return ["ranker", *self.measures, "p", "parts", "CPU s"]

    @property
    def notes(self) -> list[str]:
        """What the columns mean."""
        best, *others = self.summary["ranker"]
        p = (
            f"p: that {best} is no better in {self.measures[0]}: paired t-test over "
            "queries, Holm's correction for all pairs of rankers"
        )
        marks = (
            f"± standard {self.spread} over the parts; * the best; CPU s of a part, tuning included"
        )
        return [marks, p] if others else [marks]


def published_rows(published: pd.DataFrame) -> tuple[list[str], list[list[str]]]:
    """Published figures as a table: its head and its rows, one for each ranker of a source."""
    by = ["ranker", "protocol", "convention", "source"]
    measures = list(published["measure"].unique())
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    for row in published.to_dict("records"):
        key = tuple(row[name] or "not said" for name in by)
        rows.setdefault(key, {})[row["measure"]] = mean_text(row["value"], row["error"])
    return [by[0], *measures, *by[1:]], [
        [key[0], *(figures.get(m, "") for m in measures), *key[1:]] for key, figures in rows.items()
    ]


def settings_rows(found: Results, parts: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """The settings that the search chose, a row a ranker and a column a part."""
    chosen: dict[str, dict[str, str]] = {}
    for cell, result in found.results:
        searched = {name for trial in result.about["trials"] for name in trial}
        flat = {**result.about["settings"], **result.about["settings"].get("training", {})}
        said = [f"{name} {flat[name]}" for name in flat if name in searched and name != "quality"]
        chosen.setdefault(cell.ranker.name, {})[cell.split.name] = ", ".join(said) or "not searched"
    rows = [[name, *(by_part.get(p, "failed") for p in parts)] for name, by_part in chosen.items()]
    return ["ranker", *parts], rows


def mean_text(value: float, error: float, best: bool = False) -> str:
    """A mean with its spread, NaN where there is none; the best is marked.

    >>> mean_text(0.71239, 0.01, True), mean_text(0.5, float("nan")), mean_text(3000, 20)
    ('*0.712 ± 0.010', '0.500', '3000 ± 20')
    """
    digits = 0 if value >= 1000 else 3
    plus_minus = "" if error != error else f" ± {error:.{digits}f}"
    return f"{'*' if best else ''}{value:.{digits}f}{plus_minus}"
