"""A comparison of rankers: run it, print its tables, and write its tables and its page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.console import progress, put, say, write_output
from cli.lab.work import Failed, Results, cpu_seconds, results_of
from cli.options import command_line
from cli.printing.results import Result, Table, print_result, table_of_cells, write_csv_file
from sortnet.errors import SortNetError
from sortnet.files import make_folder, rows_of
from sortnet.lab.cells import Cell
from sortnet.lab.summaries import Spread, latex, mean_texts
from sortnet.lab.summaries import summary as summarise
from store.report import html_page
from store.report.html_page import Block, Picture, Section

if TYPE_CHECKING:
    import pandas as pd

FILES = ("results.csv", "summary.csv", "report.html")
_ALPHA = 0.05  # level of significance


@dataclass(frozen=True, eq=False)
class Comparison:
    """Figures of a comparison of rankers, and tests of the differences between rankers.

    A part is a fold of the data, or another division of them into training and test queries.

    Attributes:
        results: results of the cells of the comparison. A cell is one ranker on one part.
        failed: the cells that failed, each with the reason.
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
    failed: Failed
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

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Write the printed summary: figures with spread, the best with a star.

        Returns:
            The names of the columns, and the rows.
        """
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
        return [*texts], [list(row) for row in zip(*texts.values(), strict=True)]

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


def run_comparison(
    cells: Sequence[Cell],
    data: str,
    measures: list[str],
    convention: str,
    *,
    spread: Spread = "error",
    out: Path | None,
    as_json: bool,
    as_latex: bool,
    **how: Any,
) -> int:
    """Compute missing results, measure all results, print the summary and write the files.

    Args:
        cells: the cells of the comparison.
        data: path or name of the data.
        measures: names of the measures.
        convention: name of the convention of the figures.
        spread: the kind of spread beside a mean.
        out: folder for the files `FILES`; None to write none.
        as_json: whether the summary is printed as JSON.
        as_latex: whether the summary is printed as LaTeX.
        how: further arguments of `results_of`.

    Returns:
        1 if a cell failed, else 0.

    Raises:
        SortNetError: if the data cannot be used, or no cell has a result.
    """
    import pandas as pd

    from sortnet.lab.significance import paired_by_part, paired_by_query
    from sortnet.lab.tool_conventions import convention_line, figures_of, published_for

    if as_latex and as_json:
        raise click.UsageError("--json and --latex both print the table: give one of them")
    with progress() as status:
        results, failed = results_of(cells, status, **how)
        status("measuring")
        if not results:
            _, first_reason = failed[0]
            raise SortNetError(f"no ranker could be fitted: {first_reason}")
        figures = figures_of(results, measures, convention)
        n_empty, n_queries = figures.attrs["n_empty"], figures.attrs["n_queries"]
        summary = summarise(figures, measures, spread)
        seconds = pd.Series(
            [cpu_seconds(result) for _, result in results],
            [cell.ranker.name for cell, _ in results],
        )
        summary["seconds"] = summary["ranker"].map(seconds.groupby(level=0).mean())
        names = list(summary["ranker"])  # the best first
        comparison = Comparison(
            results=results,
            failed=failed,
            measures=measures,
            convention=convention,
            data=data,
            spread=spread,
            convention_line=convention_line(convention, measures, n_empty, n_queries),
            figures=figures,
            summary=summary,
            published=published_for(data, measures),
            by_query=paired_by_query(figures, measures[0], names),
            by_part=paired_by_part(figures, measures[0], figures.attrs["ratio"], names),
        )
    if out is not None:
        _write(comparison, out)
    if as_latex:
        put(latex(comparison.summary, caption=comparison.convention_line).rstrip())
    else:
        value = {
            "data": comparison.data,
            "measures": comparison.measures,
            "summary": rows_of(comparison.summary),
            "by_query": rows_of(comparison.by_query),
            "by_part": rows_of(comparison.by_part),
            "failed": [{"cell": cell.name, "why": why} for cell, why in failed],
        }
        notes = [comparison.convention_line, *comparison.notes]
        # In the text the notes stand between the summary and the published figures.
        result = Result("comparison", value, _text(comparison), notes, is_noted_in_text=True)
        print_result(result, as_json=as_json)
    if out is not None:
        say(f"written: {', '.join(str(out / name) for name in FILES)}")
    return 1 if failed else 0


def _text(comparison: Comparison) -> list[str | Table]:
    """List the printed parts: the summary, its notes, and published figures of the same data."""
    summary = table_of_cells(*comparison.table())
    text: list[str | Table] = [summary, comparison.convention_line, *comparison.notes]
    published = comparison.published
    comparable = published[published["convention"] == comparison.convention]
    other_conventions = sorted({convention for convention in published["convention"] if convention})
    if not comparable.empty:
        text += ["", "published figures of these data under this convention:"]
        text.append(table_of_cells(*published_rows(comparable)))
    elif other_conventions:
        text.append(f"published figures are of --convention {' or '.join(other_conventions)}")
    return text


def _write(comparison: Comparison, out: Path) -> None:
    """Write the figures and the summary as CSV files, and the page, to a folder."""
    make_folder(out)
    for name, frame in (("results.csv", comparison.figures), ("summary.csv", comparison.summary)):
        write_csv_file(frame, str(out / name))
    page = _render(comparison, command_line(click.get_current_context()))
    write_output(str(out / "report.html"), lambda file: file.write(page))


def _render(comparison: Comparison, command: str) -> str:
    """Render the page of a comparison; `command` is the command line that is shown on the page.

    Cost: a second or two to draw the pictures.
    """
    part_names = list(dict.fromkeys(comparison.figures["part"]))
    figures = html_page.Table(comparison.convention_line, *comparison.table())
    heads, rows = settings_rows(comparison.results, part_names)
    settings = html_page.Table(
        "On each part, of those that were searched.", heads, rows, range(len(heads))
    )
    published: list[Block] = []
    if not comparison.published.empty:
        from_papers = html_page.Table("From the papers.", *published_rows(comparison.published))
        warning = "Only figures of one convention and protocol can be compared."
        published = [("text", warning), ("table", from_papers)]
    rows = [[cell.name, why] for cell, why in comparison.failed]
    failed = html_page.Table("A ranker on a part.", ["cell", "why"], rows, text=(0, 1))
    sections = [
        Section("Figures", [("table", figures), *(("text", note) for note in comparison.notes)]),
        Section("Published figures", published),
        Section("Is one better than another?", _differences(comparison)),
        Section("Settings chosen", [("table", settings)]),
        Section("Cells that failed", [("table", failed)] if rows else []),
        Section("Reproduce", [("code", command)]),
    ]
    return html_page.render_page(
        f"Rankers on {Path(comparison.data).resolve().name}",
        sections,
        about=f"{len(comparison.summary)} rankers on {len(part_names)} parts of the data, each "
        "with the same budget for its settings, which the test parts did not choose.",
    )


def _differences(comparison: Comparison) -> list[Block]:
    """Show the differences between each two rankers: tables of tests, and a picture of mean ranks.

    The picture needs three rankers or more on several parts of the data.
    """
    from sortnet.lab import significance as tests

    names = list(comparison.summary["ranker"])
    if len(names) < 2:
        return []
    measure = comparison.measures[0]
    blocks: list[Block] = []
    for test, by in (
        ("a paired t-test over all queries", comparison.by_query),
        ("Nadeau and Bengio's test over the parts", comparison.by_part),
    ):
        caption = (
            f"Difference in {measure}, row minus column, and p of {test} with Holm's correction; a "
            f"star marks p < {_ALPHA:g}."
        )
        blocks.append(("table", html_page.Table(caption, ["ranker", *names], _matrix(by, names))))
    table = tests.by_part(comparison.figures, measure, names)
    if len(table) > 1 and len(names) > 2:
        blocks.append(("pictures", [_mean_rank_picture(comparison, names, table)]))
    return blocks


def _matrix(tests: pd.DataFrame, names: Sequence[str]) -> list[list[str]]:
    """Arrange tests of each two rankers as a row for each ranker and a column for each ranker."""
    cells = {(name, name): "" for name in names}
    for row in tests.to_dict("records"):
        star = "*" if row["p_holm"] < _ALPHA else ""
        for pair, sign in (((row["a"], row["b"]), 1), ((row["b"], row["a"]), -1)):
            cells[pair] = f"{sign * row['difference']:+.4f}{star} ({row['p_holm']:.3f})"
    return [[name, *(cells[name, column] for column in names)] for name in names]


def _mean_rank_picture(
    comparison: Comparison, names: Sequence[str], table: pd.DataFrame
) -> Picture:
    """Draw the mean ranks of the rankers over the parts of the data.

    Args:
        comparison: the comparison.
        names: names of the rankers.
        table: the measure of each ranker on each part, with a row for each part.
    """
    from sortnet.lab import significance as tests
    from store.plots.figures import critical_difference_diagram

    _, p, mean_ranks = tests.friedman(table)
    critical_difference = tests.critical_difference(len(names), len(table), _ALPHA)
    diagram = critical_difference_diagram(list(mean_ranks), names, critical_difference)
    caption = (
        f"Mean ranks in {comparison.measures[0]} over {len(table)} parts. Friedman's p "
        f"{p:.3g}; rankers whose bars overlap do not differ by Nemenyi's test at "
        f"{_ALPHA:.0%}."
    )
    return html_page.picture(diagram, "critical difference diagram", caption)


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
        (cell.ranker.name, cell.split.name): _chosen_settings(result.about)
        for cell, result in results
    }
    rankers = dict.fromkeys(ranker for ranker, _ in texts)
    rows = [[name, *(texts.get((name, part), "failed") for part in part_names)] for name in rankers]
    return ["ranker", *part_names], rows


def _chosen_settings(about: dict[str, Any]) -> str:
    """Write the names and the chosen values of the settings that the search has tried."""
    trials = about["trials"]  # a trial has the settings tried and their `quality`
    searched_names = {name for trial in trials for name in trial} - {"quality"}
    settings = about["settings"]
    all_settings = {**settings, **settings.get("training", {})}
    chosen = [f"{name} {value}" for name, value in all_settings.items() if name in searched_names]
    return ", ".join(chosen) or "not searched"
