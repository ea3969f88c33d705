"""What a comparison of rankers prints and writes: results.csv, summary.csv, report.html."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cli.experiments.comparison import Comparison, published_rows
from cli.output import print_json, print_table, put, records, say, write_output
from sortnet.files import make_folder

FILES = ("results.csv", "summary.csv", "report.html")


def report(made: Comparison, out: Path | None, *, as_json: bool, latex: bool) -> None:
    """Print the summary, and write the files if there is a folder for them."""
    if out is not None:
        _write(made, out)
    if as_json:
        print_json(_as_json(made))
    elif latex:
        from sortnet.experiments.summaries import latex as as_latex

        put(as_latex(made.summary, caption=made.said).rstrip())
    else:
        _print(made)
    if out is not None:
        say(f"written: {', '.join(str(out / name) for name in FILES)}")


def _print(made: Comparison) -> None:
    print_table(made.head, made.rows())
    for line in (made.said, *made.notes):
        put(line)
    alike = made.published[made.published["convention"] == made.convention]
    if not alike.empty:
        put("\npublished figures of these data under this convention:")
        print_table(*published_rows(alike))
    elif others := sorted({c for c in made.published["convention"] if c}):
        put(f"published figures are of --convention {' or '.join(others)}")


def _write(made: Comparison, out: Path) -> None:
    from cli.experiments.comparison_page import render

    make_folder(out)
    for name, frame in (("results.csv", made.figures), ("summary.csv", made.summary)):
        write_output(str(out / name), lambda file, f=frame: f.to_csv(file, index=False))  # type: ignore[misc]
    page = render(made)
    write_output(str(out / "report.html"), lambda file: file.write(page))


def _as_json(made: Comparison) -> dict[str, Any]:
    frames = {"summary": made.summary, "by_query": made.by_query, "by_part": made.by_part}
    about = {"data": made.data, "measures": made.measures, "conventions": made.said}
    failed = [{"cell": cell.name, "why": why} for cell, why in made.found.failed]
    return {**about, **{name: records(f) for name, f in frames.items()}, "failed": failed}
