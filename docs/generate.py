"""What cog puts into the pages. It is taken from the code, so that it cannot drift."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from textwrap import wrap
from typing import Any

import click

ROOT = Path(__file__).resolve().parent.parent
# Modules that serve the others and promise nothing to a reader.
INNER = (
    "sortnet.files",
    "sortnet.data.find_documents",
    "sortnet.core.arrays",
    "sortnet.core.large_arrays",
    "sortnet.core.memory",
    "sortnet.sorting.merge_sort_levels",
    "sortnet.threads",
    "sortnet.core.float32",
    "sortnet.tables.roles",
    "sortnet.tables.rows",
    "sortnet.items.media",
    "sortnet.estimator.arrays",
    "sortnet.estimator.evaluation",
    "sortnet.estimator.parameters",
    "sortnet.preference.history",
    "store.database",
    "store.runs.pair_rows",
)


# Rows of the benchmarks in README's table: what it calls them, and their names there.
FIGURES = {
    "MQ2008, test NDCG@10 (queries without a relevant document left out)": (
        "MQ2008, 5 folds, defaults: test ndcg@10 / LightGBM's"
    ),
    "noisy features": "friedman1, 20 noise features: NDCG@10 / LightGBM's, defaults",
    "heavy tails": "heavy tails: NDCG@10 / LightGBM's, defaults",
    "500 features": "500 features, 60 queries: NDCG@10 / LightGBM's, defaults",
    "a single tree": "a tree of depth 4: NDCG@10 / LightGBM's, defaults",
    "3,000 rows, CPU seconds": "3,000 rows x 25: CPU seconds with defaults / LightGBM's",
}


# Types of the parameters of SortNetRanker that are no settings.
_OWN_PARAMETER_TYPES = {
    "ranker": "str",
    "settings": "Mapping[str, Any] | None",
    "validation_fraction": "float",
    "random_state": "int | np.random.RandomState | np.random.Generator | None",
    "query": "str | None",
    "grade": "str | None",
    "id": "str | None",
    "single_query": "bool",
    "tune": "bool | Mapping[str, Sequence[Any]]",
    "verbose": "int",
    "n_jobs": "int | None",
}
SHOWN_ELSEWHERE = (
    "duration",
    "folds",
    "people_scale",
    "scale",
    "studies",
)  # benchmarks that have a page of their own


def benchmark_rows(benchmark: str | None = None) -> list[dict[str, Any]]:
    """The stored rows of a benchmark, or of all."""
    results = json.loads((ROOT / "benchmarks/results.json").read_text(encoding="utf-8"))
    return [row for row in results["rows"] if benchmark in (None, row["benchmark"])]


def figures() -> str:
    """README's table of figures beside LightGBM's."""
    rows = {row["what"]: row for row in benchmark_rows()}
    lines = [
        f"| {name} | {rows[what]['ours']:.3f} | {rows[what]['peer']:.3f} |"
        for name, what in FIGURES.items()
    ]
    return "\n".join(["", "| | SortNet | LightGBM |", "|---|---|---|", *lines, "", ""])


def benchmarks() -> str:
    """A section for each benchmark that no other page shows: a table, and notes below it."""
    names = dict.fromkeys(row["benchmark"] for row in benchmark_rows())
    return "\n" + "\n".join(_benchmark(name) for name in names if name not in SHOWN_ELSEWHERE)


def estimator_init() -> str:
    """`SortNetRanker.__init__`, with a parameter for each setting and for each of its own."""
    from sortnet.estimator.parameters import DEFAULT_PARAMETERS

    annotations = _setting_annotations() | _OWN_PARAMETER_TYPES
    lines = ["@parameters.refuse_unknown", "def __init__(", "    self,", "    *,"]
    for name, default in DEFAULT_PARAMETERS.items():
        literal = json.dumps(default) if isinstance(default, str) else repr(default)
        lines.append(f"    {name}: {annotations[name]} = {literal},")
    lines.append(") -> None:")
    lines += [f"    self.{name} = {name}" for name in DEFAULT_PARAMETERS]
    return "\n".join([*lines, "", ""])


def _setting_annotations() -> dict[str, str]:
    """The type of each setting as `SortNetRanker` annotates it."""
    from sortnet.config import Config, settings_of
    from sortnet.metrics import Empty, Gain

    aliases = {Gain: "Gain", Empty: "Empty", tuple[int, ...]: "int | Sequence[int]"}
    annotations = {}
    for name, setting in settings_of(Config).items():
        annotation = aliases.get(setting.values) or setting.values.__name__
        if name == "comparator":
            annotation += " | MakeOne"
        if setting.optional:
            annotation += " | None"
        annotations[name] = annotation
    return annotations


def _benchmark(name: str) -> str:
    """The rows of one benchmark in lines that fit a screen."""
    lines = [
        f"## {name}",
        "",
        *wrap(f"By {provenance(benchmark_rows(name))}.", 100, break_on_hyphens=False),
        "",
        "| what | ours | peer | ratio | bar | ok |",
        "|---|---|---|---|---|---|",
    ]
    notes = []
    for row in benchmark_rows(name):
        cells = [cell(row.get(column)) for column in ("what", "ours", "peer", "ratio", "bar", "ok")]
        if row.get("note"):
            notes.append(cell(row["note"]))
            cells[0] += f" ({len(notes)})"
        lines.append(f"| {' | '.join(cells)} |")
    lines.append("")
    for number, note in enumerate(notes, start=1):
        lines += wrap(
            f"{number}. {note}",
            100,
            subsequent_indent=" " * (len(str(number)) + 2),
            break_on_hyphens=False,
        )
    return "\n".join([*lines, ""])


def cell(value: Any) -> str:
    """A value as the benchmarks print it."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    import run

    return run.cell(value)


def folds() -> str:
    """The table of `make bench ARGS=folds`, with the command and the convention above it."""
    rows = benchmark_rows("folds")
    lines = [
        *wrap(f"`{rows[0]['command']}`, seed 0; {rows[0]['conventions']}.", 110),
        "",
        "| ranker | NDCG@10 | MAP | P@10 | p | CPU s | binarised: NDCG@10 | MAP |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        summary = row["summary"]
        cells = [
            f"`{summary['ranker']}`",
            *(_with_error(summary, name) for name in ("ndcg@10", "map", "p@10")),
            "" if row["p"] is None else f"{row['p']:.3f}",
            f"{summary['seconds']:.1f}",
            *(_with_error(row["binarised"], name) for name in ("ndcg@10", "map")),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n" + "\n".join(lines) + "\n\n"


def _with_error(summary: Mapping[str, Any], name: str) -> str:
    """A mean with its standard error: `.707 ± .009`."""
    return f"{summary[name]:.3f} ± {summary[f'{name}_error']:.3f}".replace("0.", ".")


def provenance(rows: Iterable[Mapping[str, Any]]) -> str:
    """The command that measured the rows, with the versions and days of the measurements.

    The version of a row is that of the code's last release; work on the next one may be in it.
    """
    listed = list(rows)
    commands = dict.fromkeys(f"`make bench ARGS={row['benchmark']}`" for row in listed)
    days = sorted({(row["version"], row["date"]) for row in listed})
    return f"{' and '.join(commands)}, {'; '.join(_measured_on(*day) for day in days)}"


def _measured_on(version: str, day: str) -> str:
    """A version with the day: `SortNet 0.3.0, 2026-11-24`, or between which two versions."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.findall(r"^## \[([\d.]+)\](?: - ([\d-]+))?", text, re.MULTILINE)[::-1]
    dates = dict(released)
    following = {before: after for (before, _), (after, _) in pairwise(released)}
    if dates.get(version) == day:
        return f"SortNet {version}, {day}"
    if version in following:
        return f"between SortNet {version} and {following[version]}, {day}"
    return f"after SortNet {version}, {day}"


def walk(command: click.Command, name: str = "sortnet") -> Iterator[tuple[str, click.Command]]:
    """Every command that runs, with its name as typed: `sortnet train`."""
    if not isinstance(command, click.Group):
        yield name, command
        return
    for child_name, child in command.commands.items():
        yield from walk(child, f"{name} {child_name}")


def help_of(name: str, command: click.Command) -> str:
    """Help as an 80-column terminal shows it."""
    from cli.main import main

    settings = {**main.context_settings, "terminal_width": 80, "max_content_width": 80}
    return command.get_help(click.Context(command, info_name=name, **settings))


def commands() -> str:
    """A table of the commands, and each one's own help."""
    from cli.main import main

    all_commands = list(walk(main))
    rows = [
        f"| [`{name}`](#{name.replace(' ', '-')}) | {command.get_short_help_str(200)} |"
        for name, command in all_commands
    ]
    table = ["| command | what it does |", "|---|---|", *rows]
    parts = [f"## {name}\n\n{_fenced(help_of(name, command))}" for name, command in all_commands]
    return "\n" + "\n".join(table) + "\n\n" + "\n".join(parts) + "\n"


def modules(package: str) -> str:
    """One block of reference for each public module, which mkdocstrings fills."""
    names = [package, *_below(package)]
    public = [name for name in names if not name.startswith(INNER)]
    listed = [name for name in public if name != package or package == "store"]
    parts = [f"## {name} {{ #{name} }}\n\n::: {name}\n" for name in listed if _documented(name)]
    return "\n" + "\n".join(parts) + "\n"


def names() -> str:
    """A table of what `import sortnet` offers."""
    import sortnet

    rows = []
    for name in sortnet.__all__:
        value = getattr(sortnet, name)
        if name.startswith("__"):
            continue
        first_line = (inspect.getdoc(value) or "").split("\n")[0]
        reference = f"{value.__module__}.{value.__qualname__}"
        rows.append(f"| [`{name}`][{reference}] | {first_line} |")
    return "\n| name | what it is |\n|---|---|\n" + "\n".join(rows) + "\n\n"


def source(path: str, first: str, last: str) -> str:
    """The lines of a file from the one that begins with `first` to the one with `last`."""
    lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
    start = next(k for k, line in enumerate(lines) if line.strip().startswith(first))
    end = next(k for k in range(start, len(lines)) if lines[k].strip().startswith(last))
    return "\n" + _fenced(inspect.cleandoc("\n" + "\n".join(lines[start : end + 1])), "python")


def measured(benchmark: str) -> str:
    """The table of one benchmark, or how it is measured."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    from run import markdown

    rows = benchmark_rows(benchmark)
    if not rows:
        return f"\nNot measured on this version yet: `make bench ARGS={benchmark}`.\n\n"
    return f"\n{markdown(rows)}\n\nBy {provenance(rows)}.\n\n"


def durations() -> str:
    """The table of CPU seconds of commands."""
    rows = [row for row in benchmark_rows("duration") if "command" in row]
    lines = [f"| `sortnet {row['command']}` | {row['data']} | {row['ours']:.1f} |" for row in rows]
    header = ["", "| command | data | CPU seconds |", "|---|---|---|"]
    return "\n".join([*header, *lines, "", f"By {provenance(rows)}.", "", ""])


def questions() -> str:
    """The table of the questions that a ranking takes: a row for each number of items."""
    rows = [row for row in benchmark_rows("duration") if "items" in row]
    shares = sorted({row["explained"] for row in rows})
    cells: dict[int, list[str]] = {}
    for row in sorted(rows, key=lambda row: (row["items"], row["explained"])):
        text = f"{row['ours']:.0f} ({row['low']:.0f} to {row['high']:.0f})"
        cells.setdefault(row["items"], []).append(text)
    header = " | ".join(f"features explain {share:.0%}" if share else "no features"
                        for share in shares)  # fmt: skip
    lines = [f"| {items} | {' | '.join(texts)} |" for items, texts in cells.items()]
    return "\n".join(
        [
            *("", f"| items | {header} |", "|---" * (len(shares) + 1) + "|", *lines),
            *("", f"By {provenance(rows)}.", "", ""),
        ]
    )


def _below(package: str) -> list[str]:
    path = importlib.import_module(package).__path__
    return [module.name for module in pkgutil.walk_packages(path, f"{package}.")]


def _documented(module: str) -> bool:
    """Whether a module defines, or a package offers, a public name."""
    members = vars(importlib.import_module(module))
    public_names = [
        name
        for name, value in members.items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module
    ]
    return bool(public_names)


def _fenced(text: str, language: str = "text") -> str:
    return f"```{language}\n{text}\n```\n"
