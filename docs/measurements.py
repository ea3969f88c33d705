"""Tables and sentences of the pages with figures of benchmarks/results.json, and their source."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from textwrap import wrap
from typing import Any

from generate import benchmark_rows, cell, provenance

Row = Mapping[str, Any]
WIDTH = 110

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
SORTS = ("heapsort", "quicksort", "bubble passes", "a whole merge sort")


def rows_of(benchmark: str, starts: str | tuple[str, ...] = "") -> list[dict[str, Any]]:
    """The stored rows of a benchmark whose names begin with one of the starts."""
    return [row for row in benchmark_rows(benchmark) if row["what"].startswith(starts)]


def matched(benchmark: str, name: str) -> list[tuple[re.Match[str], dict[str, Any]]]:
    """The stored rows of a benchmark whose whole names match a pattern, each with its match."""
    matches = [(re.fullmatch(name, row["what"]), row) for row in benchmark_rows(benchmark)]
    return [(match, row) for match, row in matches if match is not None]


def row_of(what: str) -> dict[str, Any]:
    """The stored row of that name."""
    rows = [row for row in benchmark_rows() if row["what"] == what]
    if len(rows) != 1:
        raise ValueError(f"benchmarks/results.json: {len(rows)} rows named {what!r}")
    return rows[0]


def paragraph(text: str) -> str:
    """A paragraph in lines that fit the page."""
    return f"\n{wrapped(text)}\n\n"


def not_measured(benchmark: str) -> str:
    """Paragraph in place of a table whose rows are not stored: the command that measures them."""
    return paragraph(f"Not measured on this version yet: `make bench ARGS={benchmark}`.")


def wrapped(text: str, indent: str = "") -> str:
    """A text in lines that fit the page, code in one piece; `indent` is that of further lines."""
    unbroken = re.sub(r"`[^`]*`", lambda code: code[0].replace(" ", "\0"), text)
    lines = wrap(
        unbroken, WIDTH, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
    )
    return "\n".join(lines).replace("\0", " ")


def table(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    rows = [f"| {' | '.join(line)} |" for line in (header, *lines)]
    return "\n".join([rows[0], "|---" * len(header) + "|", *rows[1:], ""])


def figure(value: float | None, digits: int = 3) -> str:
    """A figure without the zero before its point: `.707`."""
    return "" if value is None else re.sub(r"^(-?)0\.", r"\1.", f"{value:.{digits}f}")


def missed() -> str:
    """A list of the rows that missed their bar; rows of one kind and bar share a line."""
    kinds: dict[tuple[str, str], list[Row]] = {}
    for row in benchmark_rows():
        if row.get("ok") is False:
            kinds.setdefault((row["what"].split(",")[0], row["bar"]), []).append(row)
    lines = [f"- {_missed_by(rows)}; the bar is {bar}" for (_, bar), rows in kinds.items()]
    return "\n" + "\n".join(lines) + "\n\n"


def _missed_by(rows: Sequence[Row]) -> str:
    """The name and the figure of a row, or how many rows of a kind there are and their range."""
    values = sorted(row["ours"] for row in rows)
    if len(rows) == 1:
        return f"{rows[0]['what']}: {values[0]:.4g}"
    kind = rows[0]["what"].split(",")[0]
    return f"{kind}: {len(rows)} rows, from {values[0]:.4g} to {values[-1]:.4g}"


def pair_answers() -> str:
    """The share of answers that reaches 99 % of all pairs' quality: strategies by data sets."""
    name = r"pairs, (.+), (\w+): share of pairs / of answers for 99%"
    shares: dict[str, dict[str, str]] = {}
    for match, row in matched("pairs", name):
        share = "not reached" if row["peer"] is None else f"{row['peer']:.1%}"
        shares.setdefault(match[2], {})[match[1]] = share
    kinds = list(next(iter(shares.values())))
    lines = [
        [f"`{strategy}`", *(by_kind[kind] for kind in kinds)]
        for strategy, by_kind in shares.items()
    ]
    return f"\n{table(('answers for 99 %', *kinds), lines)}\n"


def session_bars() -> str:
    """The bars of the questions to annotators, without the hold-out and with it."""
    rows = {row["what"]: row for row in benchmark_rows("preference")}
    sources: list[Row] = []
    lines = []
    for label, start in SESSION_BARS.items():
        without = rows.get(f"{start}, without hold-out", rows.get(start))
        with_hold_out = rows.get(f"{start}, with hold-out")
        sources += [row for row in (without, with_hold_out) if row]
        bar = without["bar"].split("; ")[-1] if without else ""
        lines.append([label, bar, _with_error(without), _with_error(with_hold_out), _met(without)])
    header = ("what", "bar", "without hold-out", "with hold-out", "")
    return f"\n{table(header, lines)}\n{_sentence(sources)}\n\n"


def _sentence(rows: Iterable[Row]) -> str:
    """A sentence on where the rows come from."""
    return wrapped(f"By {provenance(rows)}.")


def _with_error(row: Row | None) -> str:
    if row is None:
        return ""
    error = re.search(r"± ([\d.]+)", row["note"])
    return figure(row["ours"]) + (f" ± {figure(float(error[1]))}" if error else "")


def _met(row: Row | None) -> str:
    if row is None or row.get("ok") is None:
        return ""
    return "met" if row["ok"] else "missed"


def top_calls() -> str:
    """NDCG@10 of a simulated model's verdicts, by calls: a session beside the sorts."""
    name = r"dl19, a judge that errs as (.+), NDCG@10 at (\d+) calls, against (.+)"
    peers: dict[str, dict[str, str]] = {}
    ours: dict[str, str] = {}
    for match, row in matched("llm", name):
        key = f"{match[1]}, {match[2]}"
        ours[key] = figure(row["ours"])
        peers.setdefault(key, {})[match[3]] = f"{figure(row['peer'])} ({_gain(row)})"
    lines = [
        [key, ours[key], *(by_sort.get(sort, "") for sort in SORTS)]
        for key, by_sort in peers.items()
    ]
    header = ("judge errs as, calls", "session", *SORTS)
    return f"\n{table(header, lines)}\n{_sentence(rows_of('llm', 'dl19'))}\n\n"


def _gain(row: Row) -> str:
    gain = re.match(r"([+-])0?(\.\d+) ± 0?(\.\d+)", row["note"])
    return f"{gain[1]}{gain[2]} ± {gain[3]}" if gain else ""


def listed(benchmark: str, starts: tuple[str, ...]) -> str:
    """The rows whose names begin so in a small table, or the command that measures them."""
    rows = rows_of(benchmark, starts)
    if not rows:
        return not_measured(benchmark)
    columns = [
        column
        for column in ("what", "ours", "peer", "bar", "ok", "note")
        if any(row.get(column) is not None for row in rows)
    ]
    text = table(columns, [[cell(row.get(column)) for column in columns] for row in rows])
    return f"\n{text}\n{_sentence(rows)}\n\n"


def against_trees() -> str:
    """README's sentences on where SortNet loses to LightGBM, and on the source of its table."""
    seconds = row_of("3,000 rows x 25: CPU seconds with defaults / LightGBM's")
    tables = [row for row in rows_of("tables") if ": NDCG@10 / " in row["what"]]
    lost = [row["what"].split(":")[0] for row in tables if row["ours"] < row["peer"]]
    return paragraph(
        f"Of {len(tables)} kinds of made tables it loses on {', '.join(lost) or 'none'}, and it "
        f"takes {seconds['ratio']:.0f} times the CPU seconds on small tables. "
        f"{_sentence([*rows_of('mq2008'), *rows_of('tables')])}"
    )


def folds_summary() -> str:
    """Sentence on how many differences between the rankers on MQ2008 are more than noise."""
    rows = benchmark_rows("folds")
    match = re.search(r"left out: (\d+) of (\d+)", rows[0]["conventions"])
    if match is None:
        raise ValueError(f"no number of queries in {rows[0]['conventions']!r}")
    queries = int(match[2]) - int(match[1])
    pairs = len(rows) * (len(rows) - 1) // 2
    clear = [f"`{row['summary']['ranker']}`" for row in rows if (row["p"] or 1) < 0.05]
    which = f"the difference of {', '.join(clear)} alone" if clear else "no difference"
    return paragraph(
        f"So on these data {which} to the first row is more than noise (p < .05), with {queries} "
        f"queries that count and {pairs} pairs of rankers to correct for. {_sentence(rows)}"
    )


def adarank() -> str:
    """AdaRank for MAP and for NDCG under the convention of the papers."""
    rows = {row["summary"]["ranker"]: row for row in benchmark_rows("folds")}
    figures = []
    for kind in ("adarank-map", "adarank-ndcg"):
        values = rows[kind]["binarised"]
        ndcg = f"{figure(values['ndcg@10'])} ± {figure(values['ndcg@10_error'])}"
        average = f"{figure(values['map'])} ± {figure(values['map_error'])}"
        figures.append(f"NDCG@10 {ndcg} and MAP {average}")
    text = (
        "- AdaRank for NDCG is behind AdaRank for MAP on MQ2008. Under `--convention binarised`, "
        f"seed 0, means of five folds ± standard error: {figures[0]} for MAP, {figures[1]} for "
        f"NDCG. {_sentence(rows.values())} Published of RankLib are .722 ± .010 and .653 ± .009 "
        "(Köppel et al. 2025, table 1), within two standard errors of both. No figures by fold "
        "were found to compare with."
    )
    return f"\n{wrapped(text, '  ')}\n\n"


def humour() -> str:
    """Paragraph on a folder made from verdicts that ranks texts nobody judged."""
    row = row_of("humour, half of the items never compared: Spearman, by a saved model folder")
    return paragraph(
        "The folder ranks texts that the model never saw, without a call. On 4,030 jokes, with "
        "votes as the verdicts about one half, the folder's ranking of the other half has a "
        f"Spearman correlation of {row['ours']:.2f} with their scores (texts through `--embed`). "
        f"{_sentence([row])}"
    )


def interval_cover() -> str:
    """The share of 90 % intervals that hold the true rank, by features, items and answers."""
    name = r"90 % intervals, (\d+) items, features that say (\w+), (\d+) answers"
    rows = rows_of("preference", "90 % intervals")
    if not rows:
        return not_measured("preference")
    shares: dict[str, dict[int, list[str]]] = {}
    answers: dict[str, None] = {}
    for match, row in matched("preference", name):
        items = shares.setdefault(match[2], {})
        items.setdefault(int(match[1]), []).append(figure(row["ours"], 2))
        answers[match[3]] = None
    sizes = list(next(iter(shares.values())))
    lines = [[share, *(", ".join(by_size[n]) for n in sizes)] for share, by_size in shares.items()]
    header = (
        f"features say; after {', '.join(answers)} answers",
        *(f"{n} items" for n in sizes),
    )
    note = f"{rows[0]['note']}; the bar is {rows[0]['bar']}. {_sentence(rows)}"
    return f"\n{table(header, lines)}{paragraph(note)}"


def loop_ways() -> str:
    """Ways to learn, one training or the loop, on each kind of data; or how they are measured."""
    rows = matched("loop", r"loop, ([^,]+), (.+): ndcg@10")
    if not rows:
        return not_measured("loop")
    ways: dict[str, dict[str, str]] = {}
    for match, row in rows:
        ways.setdefault(match[2], {})[match[1]] = _way(row)
    kinds = list(next(iter(ways.values())))
    lines = [[way, *(by_kind.get(kind, "") for kind in kinds)] for way, by_kind in ways.items()]
    header = ("pairs, trainings, weight", *kinds)
    return f"\n{table(header, lines)}\n{_sentence(row for _, row in rows)}\n\n"


def _way(row: Row) -> str:
    """NDCG@10 of a way, its gain over the first way, CPU seconds, and the share of answers."""
    gain, seconds, answers = (
        re.search(pattern, row["note"])
        for pattern in (
            r"([+-])0?(\.\d+) ± 0?(\.\d+) SE",
            r"([\d.]+) CPU seconds",
            r"([\d.]+) of its",
        )
    )
    if not (gain and seconds and answers):
        raise ValueError(f"no figures of a way in {row['note']!r}")
    text = f"{figure(row['ours'], 4)} ({gain[1]}{gain[2]} ± {gain[3]})"
    return f"{text}; {seconds[1]} s; answers {figure(float(answers[1]), 2)}"


def fours_at_equal_cost() -> str:
    """NDCG@10 of pairs and of fours that cost as much, and the cost of a four at equal quality."""
    rows = matched("sets", r"dl19, (.+), NDCG@10 (?:for|in) the (.+) of (\d+) pairs, (.+)")
    if not rows:
        return not_measured("sets")
    pairs: dict[tuple[str, str], str] = {}
    fours: dict[tuple[str, str], dict[str, str]] = {}
    for match, row in rows:
        judge, cost, n_pairs, way = match.groups()
        factor = way.removeprefix("a four takes ")
        column = "prompt tokens" if cost == "prompt tokens" else f"{factor} the time"
        pairs[judge, n_pairs] = figure(row["peer"])
        fours.setdefault((judge, n_pairs), {})[column] = figure(row["ours"])
    equal = matched("sets", r"dl19, (.+), as good as (\d+) pairs: .+")
    break_even = {match.groups(): figure(row["ours"], 1) for match, row in equal}
    columns = list(next(iter(fours.values())))
    lines = [
        [*key, value, *(fours[key].get(column, "") for column in columns), break_even.get(key, "")]
        for key, value in pairs.items()
    ]
    header = (
        "judge",
        "pairs for the same cost",
        "pairs",
        *(f"fours, {column}" for column in columns),
        "break-even",
    )
    source = _sentence(row for _, row in rows)
    return f"\n{table(header, lines)}\n{source}\n\n"
