"""Commands that only read, and the collection that they read beside a run and a model."""

from __future__ import annotations

from pathlib import Path

from collection_helpers import made_items, question

from sortnet.preference import Judgement
from store import open_store

TEST = "fold/test.txt"
# Commands that read the store `s.db` alone, and write to stdout or to the folder `out`.
OF_STORE = (
    ("runs",), ("runs", "--json"), ("show", "last"), ("show", "last", "--json"),
    ("pairs", "last"), ("pairs", "last", "--format", "jsonl", "--split", "train"),
    ("pairs", "last", "--format", "parquet", "--output", "out/pairs.parquet"),
    ("show", "last", "--follow"),
    ("items", "list"), ("items", "list", "--json"), ("items", "show", "shop"),
    ("items", "show", "shop", "i2", "--json"),
    ("judgements", "list", "shop"), ("judgements", "list", "shop", "--json"),
    ("judgements", "export", "shop"), ("judgements", "export", "shop", "--format", "csv"),
    ("judgements", "export", "shop", "--format", "chosen", "--output", "out/chosen.jsonl"),
    ("annotators", "list", "shop"), ("annotators", "list", "shop", "--json"),
    ("annotators", "agreement", "shop"), ("annotators", "agreement", "shop", "--json"),
    ("ask", "shop"), ("ask", "shop", "--json"), ("report", "shop", "--json"),
    ("report", "shop", "--output", "out/shop.html"),
    ("ranking", "shop"), ("ranking", "shop", "--json"),
    ("ranking", "shop", "--output", "out/ranking"),
    ("doctor",), ("doctor", "--json"),
)  # fmt: skip
REPORT = ("report", "last", "--output", "out/report.html")
# Commands that read the model in `m` and the data in `fold`.
OF_MODEL = (
    ("rank", "m", TEST), ("rank", "m", TEST, "--output", "out/run"),
    ("evaluate", "m", TEST), ("evaluate", "m", TEST, "--per-query", "out/q.csv", "--json"),
    ("explain", "m", TEST, "d0-0", "d0-1"), ("explain", "m", TEST, "d0-0", "d0-1", "--json"),
    ("importance", "m", TEST, "--repeats", "1"),
)  # fmt: skip
ELSE = (
    ("settings", "ranksvm", "--output", "out/settings.csv"),
    (
        "experiment",
        "simulate",
        "--items",
        "4",
        "--seeds",
        "1",
        "--budget",
        "3",
        "--strategy",
        "random",
    ),
)


def add_collection(folder: Path) -> None:
    """Add a collection to the store of a run, and an empty `out` to its folder.

    Its name begins no run's number, of which `report` would take note.
    """
    (folder / "out").mkdir()
    with open_store(folder / "s.db") as store:
        collection = store.add_items("shop", made_items(5), settings={"holdout": 0.1})
        pairs = [(k + 1, k) for k in range(4)] * 2
        answers = [Judgement.of(who, (a, b), "left") for who in ("ana", "bo") for a, b in pairs]
        collection.append(answers)
        collection.undo("ana", 1)
        collection.lease("ana", [question(0, 2)], 600)
