"""What people's judgements teach: a topic of `ukpconvarg1` left out, ranked by a saved model.

For each topic the others become a collection with the topics as groups, every vote is imported with
its rater, `sortnet train` learns from them, and `sortnet rank` puts the arguments of the topic that
was left out in order by the model's folder. A strict pair is right if its more convincing argument
is before the other. Beside the kept model, the comparator and the posterior are both reported.
"""

from __future__ import annotations

import csv
import io
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from click.testing import CliRunner

from cli.main import main
from sortnet.rankers.load_ranker import load_ranker
from sortnet.tables.read_rows import read_rows

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "ukpconvarg1"
ANSWERS = {"a1": "left", "a2": "right", "equal": "tie"}


def run(quick: bool) -> list[dict[str, Any]]:
    """The rows of the table; none without the data."""
    if not DATA.exists():
        return []
    items, votes, strict = (
        read_rows(DATA / f"{n}.tsv").columns for n in ("items", "votes", "strict_pairs")
    )
    topics = sorted(set(items["topic"]))[:: 16 if quick else 1]
    found = [of_topic(topic, items, votes, strict, quick) for topic in topics]
    right, n, tried, kept = (np.array(each) for each in zip(*found, strict=True))
    share = float(right.sum() / n.sum())
    by_topic = right / n
    note = (
        f"{n.sum()} strict pairs of {len(topics)} topics; worst {by_topic.min():.3f}, best "
        f"{by_topic.max():.3f}; posterior kept in {kept.sum()}; accuracy on held-out judgements "
        f"of the comparator {tried[:, 0].mean():.4f}, of the posterior {tried[:, 1].mean():.4f}"
    )
    return [
        {
            "what": "ukpconvarg1, a topic left out, by a saved model folder: strict pairs right",
            "ours": share, "peer": None, "ratio": None, "bar": ">= 0.80",
            "ok": None if quick else bool(share >= 0.8), "note": note,
        }
    ]  # fmt: skip


def of_topic(
    topic: str, items: dict[str, Any], votes: dict[str, Any], strict: dict[str, Any], quick: bool
) -> tuple[int, int, tuple[float, float], bool]:
    """Strict pairs of the topic that are right, and all; accuracies; whether the posterior won."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["SORTNET_STORE"] = "s.db"
        write("known.csv", ("id", "text", "topic"), items, lambda row: row["topic"] != topic)
        write("new.csv", ("id", "text", "topic"), items, lambda row: row["topic"] == topic)
        said = {
            "left": [f"{t} {a}" for t, a in zip(votes["topic"], votes["arg1"], strict=True)],
            "right": [f"{t} {a}" for t, a in zip(votes["topic"], votes["arg2"], strict=True)],
            "answer": [ANSWERS[value] for value in votes["value"]],
            "annotator": votes["rater"],
            "topic": votes["topic"],
        }
        columns = ("left", "right", "answer", "annotator")
        write("votes.csv", columns, said, lambda row: row["topic"] != topic)
        sortnet("items", "add", "args", "known.csv", "--group", "topic")
        sortnet("judgements", "import", "args", "votes.csv")
        sortnet("train", "args", "--out", "m", *(("--epochs", "5") if quick else ()))
        ranked = csv.DictReader(io.StringIO(sortnet("rank", "m", "new.csv")))
        place = {row["docid"]: int(row["rank"]) for row in ranked}
        model = load_ranker("m")
    pairs = [
        (f"{topic} {winner}", f"{topic} {loser}")
        for t, a, b, label in zip(
            *(strict[c] for c in ("topic", "arg1", "arg2", "label")), strict=True
        )
        if t == topic
        for winner, loser in [(a, b) if label == "a1" else (b, a)]
    ]
    right = sum(place[winner] < place[loser] for winner, loser in pairs)
    figures_by_kind = model.info["kept"]["figures"]
    figures = figures_by_kind["sortnet"], figures_by_kind["posterior"]
    return right, len(pairs), figures, model.config.kind == "posterior"


def write(name: str, columns: tuple[str, ...], table: dict[str, Any], wanted: Any) -> None:
    """Some rows as CSV; ids are those of topic and argument, as an id may be in two topics."""
    names = list(table)
    with Path(name).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        for values in zip(*table.values(), strict=True):
            row = dict(zip(names, values, strict=True))
            if not wanted(row):
                continue
            if "id" in row:
                row["id"] = f"{row['topic']} {row['id']}"
            writer.writerow([row[c] for c in columns])


def sortnet(*arguments: str) -> str:
    """What a command prints on stdout."""
    result = CliRunner().invoke(main, list(arguments), catch_exceptions=False)
    if result.exit_code:
        raise RuntimeError(f"sortnet {' '.join(arguments)}: {result.output}")
    return result.stdout
