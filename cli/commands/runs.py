"""`sortnet runs`, `show` and `pairs`: what the store keeps."""

from __future__ import annotations

import shlex
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from cli.commands.completion import run_ids
from cli.options import json_option, output_option, store_option
from cli.output import print_json, print_table, put, say, width, write_file, write_output
from cli.training import iterations
from sortnet.errors import SortNetError, StoreError

if TYPE_CHECKING:
    import pandas as pd
    from sqlalchemy import URL

    from sortnet.types import Split
    from store import Run, Store

_PATH = 16  # characters of a path that should be seen


@click.command()
@store_option
@json_option
def runs(store: str | None, as_json: bool) -> None:
    """List the training runs, the newest first.

    \b
    Examples:
      sortnet runs
      sortnet runs --store postgresql://me@db/sortnet --json
    """
    with open_existing(store) as opened:
        rows = iterations.rows_of(opened.runs_frame())
        if as_json:
            print_json(rows)
        elif not rows:
            say("no runs yet: sortnet train makes one")
        else:
            header = ["run", "begun (UTC)", "status", "best", "quality", "pairs", "model"]
            print_table(header, _fitted([_run_line(row) for row in rows], header, width()), left=3)
            _say_killed(rows)


def _say_killed(rows: list[dict[str, Any]]) -> None:
    killed = [row for row in rows if row["status"] == "killed" and row["out"]]
    for row in killed[:1]:
        others = f" (and {len(killed) - 1} more)" if len(killed) > 1 else ""
        say(f"run {row['id']}{others} was killed; go on with: {resume(row['out'])}")


def resume(out: str) -> str:
    """The command that goes on with the run whose model is in that folder."""
    return shlex.join(["sortnet", "train", "--resume", "--out", out])


def _fitted(rows: list[list[str]], header: list[str], columns: int | None) -> list[list[str]]:
    """Rows that fit: where they must, the time of day goes, and the beginning of long paths."""
    if columns is None:
        return rows
    for kept in (16, 10):  # a date with its time, a date
        rows = [[row[0], row[1][:kept], *row[2:]] for row in rows]
        widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
        room = columns - sum(widths[:-1]) - 2 * (len(widths) - 1)
        if room >= min(widths[-1], _PATH):
            break
    return [[*row[:-1], _end_of(row[-1], max(room, _PATH // 2))] for row in rows]


def _end_of(path: str, room: int) -> str:
    """
    >>> _end_of("/very/long/path", 8), _end_of("m", 8)
    ('.../path', 'm')
    """
    return path if len(path) <= room else f"...{path[3 - room :]}"


def _run_line(row: dict[str, Any]) -> list[str]:
    from store.runs.process import in_words

    best, quality = row["best_iteration"], row["best_quality"]
    name = row["config"].get("quality", "")
    return [
        row["id"],
        row["created"][:16].replace("T", " "),
        in_words(row["status"], row["host"]),
        "-" if best is None else f"{best}/{row['iterations']}",
        "-" if quality is None else f"{name} {quality:.4f}",
        str((row["tp"] or 0) + (row["vp"] or 0)),
        row["out"] or "-",
    ]


@click.command()
@click.argument("run", shell_complete=run_ids)
@store_option
@json_option
def show(run: str, store: str | None, as_json: bool) -> None:
    """Show a run and its iterations. RUN is its id, the beginning of one, or `last`.

    \b
    Examples:
      sortnet show last
      sortnet show 3f2a --json
    """
    with open_existing(store) as opened:
        found = find_run(opened, run)
        standing = found.status_text
        rows = iterations.rows_of(found.iterations_frame())
        about: dict[str, Any] = {"id": found.id, "status": found.status} | {
            name: getattr(found, name)
            for name in ("command", "out", "seed", "config", "versions", "data")
        }
        if as_json:
            print_json({**about, "created": found.created.isoformat(), "iterations": rows})
            return
        for name in ("id", "status", "command", "out"):
            put(f"{name:8} {standing if name == 'status' else about[name]}")
        for split, facts in about["data"].items():
            put(
                f"{split:8} {facts['path']}: {facts['n_queries']} queries, "
                f"{facts['n_docs']} documents, {facts['n_features']} features"
            )
        quality = _quality(about["config"])
        put()
        for text in (*iterations.header(quality), *(iterations.line(row, quality) for row in rows)):
            put(text)
        if not rows:
            say("no iteration has ended yet")
        if about["status"] in ("interrupted", "failed", "killed") and about["out"]:
            say(f"next: {resume(about['out'])}")


def _quality(config: dict[str, Any]) -> str:
    from sortnet.metrics import parse_metric

    return parse_metric(config.get("quality", "map")).name


@click.command()
@click.argument("run", shell_complete=run_ids)
@click.option(
    "--format",
    "form",
    type=click.Choice(["csv", "jsonl", "parquet"]),
    default="csv",
    show_default=True,
)
@output_option("--output", "-o", default="-", show_default=True, help="-: stdout.")
@click.option(
    "--split", type=click.Choice(["train", "vali", "all"]), default="all", show_default=True
)
@store_option
def pairs(run: str, form: str, output: str, split: str, store: str | None) -> None:
    """Write every pair that a run's comparator ever got wrong.

    A pair is a query's winner and loser: document numbers, and their places in the query, from 0;
    with the first and the last iteration that got it wrong, and in how many it did.

    \b
    Examples:
      sortnet pairs last | head
      sortnet pairs 3f2a --format parquet --output pairs.parquet --split train
    """
    only: Split | None = None if split == "all" else split  # type: ignore[assignment]
    with open_existing(store) as opened:
        found = find_run(opened, run)
        if form == "parquet":
            _write_parquet(output, _parts(found, only))
        else:
            write = _write_csv if form == "csv" else _write_jsonl
            write_output(output, lambda file: write(file, _parts(found, only)))


def _parts(run: Run, split: Split | None) -> Iterator[pd.DataFrame]:
    """A run's pairs as frames that fit into memory; one without rows where there are none."""
    parts = run.iter_pairs(split=split)
    first = next(parts, None)
    return chain([run.pairs_frame(split) if first is None else first], parts)


def _write_csv(file: IO[str], parts: Iterator[pd.DataFrame]) -> None:
    for k, part in enumerate(parts):
        part.to_csv(file, header=k == 0, index=False, lineterminator="\n")


def _write_jsonl(file: IO[str], parts: Iterator[pd.DataFrame]) -> None:
    for part in parts:
        part.to_json(file, orient="records", lines=True)


def _write_parquet(output: str, parts: Iterator[pd.DataFrame]) -> None:
    try:
        import pyarrow
        from pyarrow.parquet import ParquetWriter
    except ImportError:
        raise SortNetError("parquet needs pyarrow: pip install 'sortnet[parquet]'") from None

    def write(to: Path | IO[bytes]) -> None:
        first = pyarrow.Table.from_pandas(next(parts), preserve_index=False)
        with ParquetWriter(to, first.schema) as writer:
            writer.write_table(first)
            for part in parts:
                writer.write_table(pyarrow.Table.from_pandas(part, schema=first.schema))

    if output != "-":
        write_file(output, write)
    elif sys.stdout.isatty():
        raise click.UsageError("parquet is not for a terminal: give --output FILE")
    else:
        write(sys.stdout.buffer)


def find_run(opened: Store, name: str) -> Run:
    """The run of that id; what to do next where the store has none at all."""
    if opened.runs_frame().empty:
        raise StoreError(f"{opened.database.name} has no runs yet: sortnet train makes one")
    return opened.run(name)


@contextmanager
def open_existing(
    url: str | None, maker: str = "sortnet train", *, write: bool = False
) -> Iterator[Store]:
    """The store, which must be there: a misspelt name makes no new one, `maker` does.

    Raises:
        StoreError: if it cannot be opened, or what reads it meets values that cannot be.
    """
    from store import open_store
    from store.database.engine import parse_url

    parsed = parse_url(url)
    if parsed.drivername == "sqlite" and not Path(parsed.database or "").exists():
        raise StoreError(
            f"store {parsed.database}: no such file; {maker} makes one, --store or "
            "SORTNET_STORE names another"
        )
    with open_to_write(parsed) if write else open_store(parsed, write=False) as opened:
        try:
            yield opened
        except (SortNetError, OSError):
            raise
        except _ODD as error:
            if write:
                raise
            place = traceback.extract_tb(error.__traceback__)[-1]
            what = f"{type(error).__name__}: {str(error)[:99]} ({place.name}, line {place.lineno})"
            raise StoreError(
                f"{opened.database.name} holds what SortNet does not write, or this is a fault of "
                f"SortNet: {what}"
            ) from error


# What comes of values that the tables should not hold.
_ODD = (ValueError, TypeError, AttributeError, LookupError, OverflowError, RecursionError)


def open_to_write(url: URL | str | None) -> Store:
    """The store; where its old schema was upgraded, it is said where a copy is."""
    from store import open_store

    opened = open_store(url)
    if opened.copy is not None:
        say(f"{opened.database.name} has a new schema now; as it was before: {opened.copy}")
    return opened
