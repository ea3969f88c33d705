"""Humour: half of the texts are judged, the other half are ranked by the folder that came of it.

The votes on `humour` stand for a model's verdicts: those of two texts of one half of the items are
the judgements of a collection, whose texts are described and embedded; `sortnet train` learns from
them, and `sortnet rank` puts the other half, which nothing was chosen on, in order.
"""

from __future__ import annotations

import csv
import io
import os
import tempfile
from contextlib import chdir
from pathlib import Path
from typing import Any

import numpy as np
from bench_judged import sortnet
from scipy.stats import spearmanr

from sortnet.rankers.load_ranker import load_ranker

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "humour"
BAR = 0.50


def run(quick: bool) -> list[dict[str, Any]]:
    """The row of the table; none without the data."""
    if not DATA.exists():
        return []
    with (DATA / "items.tsv").open(encoding="utf-8") as file:
        items = [*csv.DictReader(file, delimiter="\t")]
    with (DATA / "pairs.csv").open(encoding="utf-8") as file:
        votes = [*csv.DictReader(file)]
    if quick:
        items = items[::10]
    known = np.random.default_rng(0).permutation(len(items)) < len(items) // 2
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        os.environ["SORTNET_STORE"] = "s.db"
        rho, n, kind = of_half(items, votes, known, quick)
    return [
        {
            "what": "humour, half of the items never compared: Spearman, by a saved model folder",
            "ours": rho, "peer": None, "ratio": None, "bar": f">= {BAR:.2f}, aim 0.56",
            "ok": None if quick else bool(rho >= BAR),
            "note": f"{n} votes among {known.sum()} items, {(~known).sum()} ranked; kept: {kind}; "
            "0.56 is of GPPL, which has the votes on all",
        }
    ]  # fmt: skip


def of_half(
    items: list[dict[str, str]], votes: list[dict[str, str]], known: np.ndarray, quick: bool
) -> tuple[float, int, str]:
    """Spearman on the items that are not known, number of votes, and the kind that was kept."""
    ids = {item["id"] for item, k in zip(items, known, strict=True) if k}
    rest = [item for item, k in zip(items, known, strict=True) if not k]
    _write("known.csv", ["id", "text"], [item for item in items if item["id"] in ids])
    _write("new.csv", ["id", "text"], rest)
    said = [vote for vote in votes if {vote["winner"], vote["loser"]} <= ids]
    _write("votes.csv", ["winner", "loser"], said)
    sortnet("items", "add", "jokes", "known.csv", "--describe", "--embed")
    sortnet("judgements", "import", "jokes", "votes.csv", "--as", "model")
    sortnet("train", "jokes", "--out", "m", *(("--epochs", "3") if quick else ()))
    ranked = csv.DictReader(io.StringIO(sortnet("rank", "m", "new.csv")))
    place = {row["docid"]: -int(row["rank"]) for row in ranked}
    scores = [float(item["bws_score"]) for item in rest]
    rho = float(spearmanr(scores, [place[item["id"]] for item in rest]).statistic)
    return rho, len(said), str(load_ranker("m").config.kind)


def _write(name: str, columns: list[str], rows: list[dict[str, str]]) -> None:
    with Path(name).open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
