"""Tables and sentences of the pages with figures of benchmarks/results.json, and their source."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from textwrap import wrap
from typing import Any

from sortnet.lab.studies import STUDIES

ROOT = Path(__file__).resolve().parent.parent
Row = Mapping[str, Any]
Matched = tuple[re.Match[str], Row]
Cell = tuple[str, str, str]  # labels of a row and a column of a table, and the text there
WIDTH = 110
SHOWN_ELSEWHERE = ("duration", "people_scale", "studies")  # benchmarks that have pages of their own

# Rows in README's table: what it calls them, and their names.
BESIDE_LIGHTGBM = {
    "MQ2008, test NDCG@10 (queries without a relevant document left out)": (
        "MQ2008, 5 folds, defaults: test ndcg@10 / LightGBM's"
    ),
    "noisy features": "friedman1, 20 noise features: NDCG@10 / LightGBM's, defaults",
    "heavy tails": "heavy tails: NDCG@10 / LightGBM's, defaults",
    "500 features": "500 features, 60 queries: NDCG@10 / LightGBM's, defaults",
    "a single tree": "a tree of depth 4: NDCG@10 / LightGBM's, defaults",
    "3,000 rows, CPU seconds": "3,000 rows x 25: CPU seconds with defaults / LightGBM's",
}
# Rows of the benchmark of questions: label, name up to the hold-out.
SESSION_BARS = {
    "20 items, no features, 190 questions: ρ": "n = 20, ids, 190 questions, spearman",
    "the same: RMSE": "n = 20, ids, 190 questions, rmse",
    "100 items, no features, 1,840 questions: ρ": "n = 100, ids, 1840 questions, spearman",
    "100 items, 5 features, 50 questions: ρ": "n = 100, 5 features, 0% outside, 50 questions",
    "the same, 100 questions": "n = 100, 5 features, 0% outside, 100 questions",
    "a fifth of the variance outside the features, 100 questions: ρ": (
        "n = 100, 5 features, 20% outside, 100 questions"
    ),
    "the same, 200 questions": "n = 100, 5 features, 20% outside, 200 questions",
    "the same, 400 questions": "n = 100, 5 features, 20% outside, 400 questions",
}
# Phases of an iteration with how often they come.
PHASES = {
    "read text": "once",
    "fit the scaling": "a run",
    "scale": "a run",
    "sort and judge": "an iteration",
    "choose pairs": "an iteration",
    "store pairs": "an iteration",
    "an epoch": "an epoch",
}
# What the papers say, where it is a statement that figures can be compared with.
PAPERS = {
    "rank-quality": "the measure that is RankQuality gains",
    "convergence": "before the last iteration",
    "classes": "falls",
    "features": "grows",
    "noise": "above .80 at .75",
    "training-size": "RankNet\\* needs the fewest",
    "label-ratio": "RankNet\\* is ahead with few upper grades",
    "optimiser-activation": "a difference by the optimiser",
    "runtime": "RankNet\\* is quick, AdaRank the quickest",
    "neighbours": "peaks where the grades change, weaker ones of two grades",
    "order": "documents move by 1 to 5 places of 1,000",
}


def stored_rows(benchmark: str | None = None) -> list[Row]:
    """The stored rows of a benchmark, or of all."""
    results = json.loads((ROOT / "benchmarks/results.json").read_text(encoding="utf-8"))
    return [row for row in results["rows"] if benchmark in (None, row["benchmark"])]


def matched(name: str) -> list[Matched]:
    """The stored rows whose whole names match a pattern, each with its match."""
    candidates = [(re.fullmatch(name, row["what"]), row) for row in stored_rows()]
    return [(match, row) for match, row in candidates if match is not None]


def row_of(what: str) -> Row:
    """The stored row of that name."""
    rows = [row for row in stored_rows() if row["what"] == what]
    if len(rows) != 1:
        raise ValueError(f"benchmarks/results.json: {len(rows)} rows named {what!r}")
    return rows[0]


def source(rows: Iterable[Row]) -> str:
    """A sentence with the command that measured the rows, the versions and the days."""
    listed = list(rows)
    commands = dict.fromkeys(f"`make bench ARGS={row['benchmark']}`" for row in listed)
    spans = []
    for key in ("version", "date"):
        values = sorted({row[key] for row in listed})
        spans.append(values[0] if len(values) == 1 else f"{values[0]} to {values[-1]}")
    return wrapped(f"By {' and '.join(commands)}, SortNet {spans[0]}, {spans[1]}.")


def cell(value: Any) -> str:
    """A value as a table shows it: three digits, yes or no."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    return "" if value is None else " ".join(str(value).replace("|", "\\|").split())


def wrapped(text: str, indent: str = "") -> str:
    """A text in lines that fit the page, code in one piece; `indent` is that of further lines."""
    unbroken = re.sub(r"`[^`]*`", lambda code: code[0].replace(" ", "\0"), text)
    lines = wrap(
        unbroken, WIDTH, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
    )
    return "\n".join(lines).replace("\0", " ")


def paragraph(text: str) -> str:
    """A paragraph in lines that fit the page."""
    return f"\n{wrapped(text)}\n\n"


def table(header: Sequence[str], lines: Iterable[Sequence[str]], rows: Iterable[Row]) -> str:
    """A Markdown table with the source of its rows below it."""
    text = [f"| {' | '.join(line)} |" for line in (header, *lines)]
    text.insert(1, "|---" * len(header) + "|")
    return "\n".join(["", *text, "", source(rows), "", ""])


def grid(corner: str, cells: Iterable[Cell], matches: Sequence[Matched], benchmark: str) -> str:
    """A table of cells, or how its figures are measured.

    Rows and columns come in the order of their first cells; texts at one place are joined.
    """
    if not matches:
        return paragraph(f"Not measured on this version yet: `make bench ARGS={benchmark}`.")
    texts: dict[str, dict[str, list[str]]] = {}
    columns: dict[str, None] = {}
    for label, column, text in cells:
        columns[column] = None
        texts.setdefault(label, {}).setdefault(column, []).append(text)
    lines = [
        [label, *(", ".join(by_column.get(column, [])) for column in columns)]
        for label, by_column in texts.items()
    ]
    return table((corner, *columns), lines, (row for _, row in matches))


def figure(value: float | None, digits: int = 3) -> str:
    """A figure without the zero before its point: `.707`."""
    return "" if value is None else re.sub(r"^(-?)0\.", r"\1.", f"{value:.{digits}f}")


def with_error(value: float, error: float) -> str:
    """A mean with its standard error: `.707 ± .009`."""
    return f"{figure(value)} ± {figure(error)}"


def gain_of(row: Row) -> str:
    """The difference with its standard error at the beginning of a row's note."""
    gain = re.match(r"([+-])0?(\.\d+) ± 0?(\.\d+)", row["note"])
    return f"{gain[1]}{gain[2]} ± {gain[3]}" if gain else ""


def benchmarks() -> str:
    """A section for each benchmark that no other page shows: a table, and notes below it."""
    names = dict.fromkeys(row["benchmark"] for row in stored_rows())
    return "\n" + "\n".join(_benchmark(name) for name in names if name not in SHOWN_ELSEWHERE)


def _benchmark(name: str) -> str:
    """The rows of one benchmark in lines that fit a screen."""
    columns = ("what", "ours", "peer", "ratio", "bar", "ok")
    lines, notes = [], []
    for row in stored_rows(name):
        cells = [cell(row.get(column)) for column in columns]
        if row.get("note"):
            number = len(notes) + 1
            cells[0] += f" ({number})"
            notes.append(wrapped(f"{number}. {cell(row['note'])}", " " * (len(str(number)) + 2)))
        lines.append(cells)
    return "\n".join(
        [f"## {name}", table(columns, lines, stored_rows(name)).rstrip(), "", *notes, ""]
    )


def missed() -> str:
    """A list of the rows that missed their bar; rows of one kind and bar share a line."""
    rows = [row for row in stored_rows() if row.get("ok") is False]
    kinds: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        kinds.setdefault((row["what"].split(",")[0], row["bar"]), []).append(row)
    lines = []
    for (kind, bar), of_kind in kinds.items():
        values = sorted(row["ours"] for row in of_kind)
        text = f"{of_kind[0]['what']}: {values[0]:.4g}"
        if len(of_kind) > 1:
            text = f"{kind}: {len(of_kind)} rows, from {values[0]:.4g} to {values[-1]:.4g}"
        lines.append(f"- {text}; the bar is {bar}")
    return "\n" + "\n".join(lines) + "\n\n"


def listed(name: str, benchmark: str) -> str:
    """The rows whose names match in a small table, or the command that measures them."""
    matches = matched(name)
    cells = (
        (cell(row["what"]), column, cell(row[column]))
        for _, row in matches
        for column in ("ours", "peer", "ratio", "bar", "ok", "note")
        if row.get(column) not in (None, "")
    )
    return grid("what", cells, matches, benchmark)


def beside_lightgbm() -> str:
    """README's table of figures beside LightGBM's."""
    lines = []
    for name, what in BESIDE_LIGHTGBM.items():
        row = row_of(what)
        lines.append([name, f"{row['ours']:.3f}", f"{row['peer']:.3f}"])
    return table(("", "SortNet", "LightGBM"), lines, map(row_of, BESIDE_LIGHTGBM.values()))


def against_trees() -> str:
    """README's sentence on where SortNet loses to LightGBM."""
    seconds = row_of(BESIDE_LIGHTGBM["3,000 rows, CPU seconds"])
    tables = [row for _, row in matched(r"(?!MQ2008).*: NDCG@10 / LightGBM's, defaults")]
    lost = [row["what"].split(":")[0] for row in tables if row["ours"] < row["peer"]]
    return paragraph(
        f"Of {len(tables)} kinds of made tables it loses on {', '.join(lost) or 'none'}, and it "
        f"takes {seconds['ratio']:.0f} times the CPU seconds on small tables."
    )


def pair_answers() -> str:
    """The share of answers that reaches 99 % of all pairs' quality: strategies by data sets."""
    matches = matched(r"pairs, (.+), (\w+): share of pairs / of answers for 99%")
    cells = (
        (f"`{m[2]}`", m[1], "not reached" if row["peer"] is None else f"{row['peer']:.1%}")
        for m, row in matches
    )
    return grid("answers for 99 %", cells, matches, "pairs")


def few_answers() -> str:
    """Test NDCG@10 by 2 % and by 5 % of the answers: strategies by data sets."""
    matches = matched(r"few answers, (.+), (\w+): test ndcg@10 by 2 % / 5 % of them")
    cells = (
        (f"`{m[2]}`", m[1], f"{figure(row['ours'], 4)}, {figure(row['peer'], 4)}")
        for m, row in matches
    )
    return grid("test NDCG@10 by 2 %, 5 %", cells, matches, "pairs")


def session_bars() -> str:
    """The bars of the questions to annotators, without the hold-out and with it."""
    rows = {row["what"]: row for row in stored_rows("preference")}
    lines, sources = [], []
    for label, start in SESSION_BARS.items():
        without = rows.get(f"{start}, without hold-out") or rows[start]
        with_hold_out = rows.get(f"{start}, with hold-out")
        measured = [row for row in (without, with_hold_out) if row]
        sources += measured
        texts = [*map(_with_noted_error, measured), ""][:2]
        met = {True: "met", False: "missed", None: ""}[without.get("ok")]
        lines.append([label, without["bar"].split("; ")[-1], *texts, met])
    return table(("what", "bar", "without hold-out", "with hold-out", ""), lines, sources)


def _with_noted_error(row: Row) -> str:
    error = re.search(r"± ([\d.]+)", row["note"])
    return with_error(row["ours"], float(error[1])) if error else figure(row["ours"])


def top_calls() -> str:
    """NDCG@10 of a simulated model's verdicts, by calls: a session beside the sorts."""
    sorts = "heapsort|quicksort|bubble passes|a whole merge sort"
    matches = matched(
        rf"dl19, a judge that errs as (.+), NDCG@10 at (\d+) calls, against ({sorts})"
    )
    first = {f"{m[1]}, {m[2]}": figure(row["ours"]) for m, row in matches}
    cells = [(label, "session", text) for label, text in first.items()]
    cells += [
        (f"{m[1]}, {m[2]}", m[3], f"{figure(row['peer'])} ({gain_of(row)})") for m, row in matches
    ]
    return grid("judge errs as, calls", cells, matches, "top")


def fours_at_equal_cost() -> str:
    """NDCG@10 of pairs and of fours that cost as much, and the cost of a four at equal quality."""
    matches = matched(
        r"dl19, (pairs right .+), (?:NDCG@10 (for|in) the .+ of|as good as) (\d+) pairs[,:] (.+)"
    )
    return grid("judge, pairs for the same cost", _costs(matches), matches, "top")


def _costs(matches: Iterable[Matched]) -> Iterator[Cell]:
    """Cells of pairs, of fours by each cost, and of the break-even."""
    for match, row in matches:
        judge, preposition, n_pairs, way = match.groups()
        label = f"{judge}, {n_pairs}"
        if preposition is None:
            yield label, "break-even", figure(row["ours"], 1)
        elif preposition == "for":
            yield label, "pairs", figure(row["peer"])
            yield label, "fours, prompt tokens", figure(row["ours"])
        else:
            factor = way.removeprefix("a four takes ")
            yield label, f"fours, {factor} the time", figure(row["ours"])


def interval_cover() -> str:
    """The share of 90 % intervals that hold the true rank, by features, items and answers."""
    matches = matched(r"90 % intervals, (\d+) items, features that say (\w+), (\d+) answers")
    answers = dict.fromkeys(m[3] for m, _ in matches)
    cells = ((m[2], f"{m[1]} items", figure(row["ours"], 2)) for m, row in matches)
    return grid(f"features say; after {', '.join(answers)} answers", cells, matches, "preference")


def loop_ways() -> str:
    """Ways to learn, one training or the loop, on each kind of data."""
    matches = matched(r"loop, ([^,]+), (.+): ndcg@10")
    return grid("pairs, trainings, weight", map(_way, matches), matches, "defaults")


def _way(matched_row: Matched) -> Cell:
    """NDCG@10 of a way, its gain over the first way, CPU seconds, and the share of answers."""
    match, row = matched_row
    facts = re.search(r"([\d.]+) CPU seconds; 0?([\d.]+) of its", row["note"])
    if facts is None:
        raise ValueError(f"no figures of a way in {row['note']!r}")
    text = f"{figure(row['ours'], 4)} ({gain_of(row)}); {facts[1]} s; answers {facts[2]}"
    return match[2], match[1], text


def humour() -> str:
    """Paragraph on a folder made from verdicts that ranks texts nobody judged."""
    row = row_of("humour, half of the items never compared: Spearman, by a saved model folder")
    return paragraph(
        "The folder ranks texts that the model never saw, without a call. On 4,030 jokes, with "
        "votes as the verdicts about one half, the folder's ranking of the other half has a "
        f"Spearman correlation of {row['ours']:.2f} with their scores (texts through `--embed`). "
        f"{source([row])}"
    )


def durations() -> str:
    """The table of CPU seconds of commands."""
    rows = [row for row in stored_rows("duration") if "command" in row]
    lines = [[f"`sortnet {row['command']}`", row["data"], f"{row['ours']:.1f}"] for row in rows]
    return table(("command", "data", "CPU seconds"), lines, rows)


def questions() -> str:
    """The questions that a ranking takes, by the number of items and what the features explain."""
    matches = matched(r"questions until the goal, (\d+) items, features explain (\d+)%")
    cells = (
        (
            m[1],
            f"features explain {m[2]}%" if m[2] != "0" else "no features",
            f"{row['ours']:.0f} ({row['low']:.0f} to {row['high']:.0f})",
        )
        for m, row in matches
    )
    return grid("items", cells, matches, "duration")


def phase_costs() -> str:
    """CPU microseconds and bytes of a document in each phase, by the number of documents."""
    matches = matched(r"scale, (\S+) documents, (.+): us a document")
    phases = {match[2] for match, _ in matches}
    cells = [(phase, "how often", often) for phase, often in PHASES.items() if phase in phases]
    for match, row in sorted(matches, key=lambda each: float(each[0][1])):
        n_bytes = int(row["note"].split()[0])
        text = f"{figure(row['ours'], 1)} ({n_bytes:,})"
        cells.append((match[2], f"{float(match[1]):,.0f}", text))
    return grid("phase", cells, matches, "scale")


def process_times() -> str:
    """CPU seconds of a process, alone and of two, in each phase."""
    matches = matched(r"scale, \d+ queries, (.+): CPU s of a process, of 2 and alone")
    cells = (
        (m[1], column, text)
        for m, row in matches
        for column, text in (
            ("one process, CPU s", f"{row['peer']:.2f}"),
            ("each of two, CPU s", f"{row['ours']:.2f}"),
            ("ratio", figure(row["ratio"], 2)),
        )
    )
    return grid("phase", cells, matches, "scale")


def people_costs(of: str, names: Iterable[str]) -> str:
    """Some figures of `people_scale`, by the number of what they are `of`: items or judgements."""
    either = "|".join(map(re.escape, names))
    matches = matched(rf"({either}), ([\d,]+) {of}")
    cells = (
        (m[1], size, _in_three_digits(value))
        for m, row in matches
        for size, value in ((row["note"].split()[1], row["peer"]), (m[2], row["ours"]))
    )
    return grid(f"number of {of}", cells, matches, "people_scale")


def _in_three_digits(value: float) -> str:
    """A figure in about three digits."""
    if abs(value) < 10:
        return figure(value, 3 if abs(value) < 0.1 else 1)
    return f"{value:,.0f}"


def label_memory() -> str:
    """Sentence on the peak memory of `sortnet label` of many items."""
    ((match, row),) = matched(r"peak memory of `sortnet label`, GB, ([\d,]+) items")
    return paragraph(
        f"`sortnet label` of {match[1]} items {row['note']} takes {row['ours']:.2f} GB of memory "
        f"at most. {source([row])}"
    )


def rankers_on_folds() -> list[Row]:
    """The rows of every ranker on MQ2008, the best first."""
    return [row for _, row in matched(r"MQ2008, 5 folds, tuned: test ndcg@10 of .+")]


def folds() -> str:
    """The table of every ranker on MQ2008, with the command and the convention above it."""
    rows = rankers_on_folds()
    lines = []
    for row in rows:
        summary, binarised = row["summary"], row["binarised"]
        cells = [
            f"`{summary['ranker']}`",
            *(with_error(summary[m], summary[f"{m}_error"]) for m in ("ndcg@10", "map", "p@10")),
            "" if row["p"] is None else f"{row['p']:.3f}",
            f"{summary['seconds']:.1f}",
            *(with_error(binarised[m], binarised[f"{m}_error"]) for m in ("ndcg@10", "map")),
        ]
        lines.append(cells)
    header = ("ranker", "NDCG@10", "MAP", "P@10", "p", "CPU s", "binarised: NDCG@10", "MAP")
    command = paragraph(f"`{rows[0]['command']}`, seed 0; {rows[0]['conventions']}.")
    return command.rstrip() + "\n" + table(header, lines, rows)


def folds_summary() -> str:
    """Sentence on how many differences between the rankers on MQ2008 are more than noise."""
    rows = rankers_on_folds()
    match = re.search(r"left out: (\d+) of (\d+)", rows[0]["conventions"])
    if match is None:
        raise ValueError(f"no number of queries in {rows[0]['conventions']!r}")
    n_queries = int(match[2]) - int(match[1])
    n_pairs = len(rows) * (len(rows) - 1) // 2
    clear = [f"`{row['summary']['ranker']}`" for row in rows if (row["p"] or 1) < 0.05]
    which = f"the difference of {', '.join(clear)} alone" if clear else "no difference"
    return paragraph(
        f"So on these data {which} to the first row is more than noise (p < .05), with {n_queries} "
        f"queries that count and {n_pairs} pairs of rankers to correct for."
    )


def adarank() -> str:
    """AdaRank for MAP and for NDCG under the convention of the papers."""
    rows = {row["summary"]["ranker"]: row for row in rankers_on_folds()}
    figures = []
    for kind in ("adarank-map", "adarank-ndcg"):
        values = rows[kind]["binarised"]
        ndcg, average = (with_error(values[m], values[f"{m}_error"]) for m in ("ndcg@10", "map"))
        figures.append(f"NDCG@10 {ndcg} and MAP {average}")
    text = (
        "- AdaRank for NDCG is behind AdaRank for MAP on MQ2008. Under `--convention binarised`, "
        f"seed 0, means of five folds ± standard error: {figures[0]} for MAP, {figures[1]} for "
        f"NDCG. {source(rows.values())} Published of RankLib are .722 ± .010 and .653 ± .009 "
        "(Köppel et al. 2025, table 1), within two standard errors of both. No figures by fold "
        "were found to compare with."
    )
    return f"\n{wrapped(text, '  ')}\n\n"


def studies() -> str:
    """A table of all studies: what the papers say, and the figures that were measured."""
    rows = [row for row in stored_rows("studies") if "study" in row]
    lines = []
    for name in STUDIES:
        of_study = [row for row in rows if row["study"] == name]
        data = of_study[0]["data"] if of_study else "made data"
        command = f"`{name}`" if data == "made data" else f"`{name} {data}`"
        lines.append([command, PAPERS.get(name, ""), study_text(of_study) or "not measured yet"])
    return table(("`sortnet experiment study`", "in the paper", "here"), lines, rows)


def study_text(rows: Sequence[Row]) -> str:
    """The figures of a study in a cell of a table, measure by measure."""
    by_measure: dict[str, list[Row]] = {}
    for row in rows:
        by_measure.setdefault(row["measure"], []).append(row)
    parts = []
    for measure, of_measure in by_measure.items():
        errors = [row["error"] for row in of_measure if row["error"] is not None]
        text = f"{measure}: {'; '.join(_series(of_measure))}"
        most = f" (± {_number(max(errors), of_measure)} at most)" if errors else ""
        parts.append(text + most)
    return ". ".join(parts).replace("*", "\\*").replace("|", "\\|")


def _series(rows: Sequence[Row]) -> Iterator[str]:
    """The figures of each series of a measure, each after its place where there are several."""
    in_order = sorted(rows, key=lambda row: [each["series"] for each in rows].index(row["series"]))
    for series, of_series in groupby(in_order, key=lambda row: row["series"]):
        figures = [(row["x"], _number(row["ours"], rows)) for row in of_series]
        if len(figures) == 1:
            yield f"{series} {figures[0][1]}".strip()
        else:
            listed = ", ".join(_at_place(x, value) for x, value in figures)
            yield f"{series}: {listed}" if series else listed


def _number(value: float, rows: Sequence[Row]) -> str:
    """A number in three digits: after the point where all figures are shares.

    >>> _number(0.5, [{"ours": 0.4}]), _number(16.25, [{"ours": 20.0}])
    ('.500', '16.2')
    """
    largest = max(abs(row["ours"]) for row in rows)
    if largest <= 1:
        return figure(value)
    return f"{value:.3g}" if largest < 1000 else f"{value:,.0f}"


def _at_place(x: Any, number: str) -> str:
    """A number at its place across, which is a name or a number.

    >>> _at_place("tanh", ".724"), _at_place(10000, ".977"), _at_place(0.25, ".970")
    ('tanh .724', '.977 at 10,000', '.970 at .25')
    """
    if isinstance(x, str):
        return f"{x} {number}"
    place = f"{x:,.0f}" if x == int(x) else figure(float(f"{x:.2g}"), 6).rstrip("0")
    return f"{number} at {place}"
