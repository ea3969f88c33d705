"""Write the folder `0.3.0`: models, a store and files, as version 0.3.0 of SortNet wrote them.

Later versions must open what is in it, see `tests/test_opens_0_3.py`. So it is never made again:
this script only documents how it was made. In a checkout of version 0.3.0, with the extras of
`dev` installed:

    PYTHONPATH=.:tests python tests/data/make_0_3.py FOLDER
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import cli.training.training_run
import numpy as np
import pandas as pd
import torch
from cli_made import done, invoke, letor
from items_made import essays, items_of, photo, ranker_of
from model_made import Model as LanguageModel
from model_made import serving

from sortnet import SortNetRanker, __version__, load_ranker, read_queries
from sortnet.comparators import DirectRanker
from sortnet.config import PAPER, SCALINGS
from sortnet.rankers.registry import KINDS, VARIANTS, settings_for
from sortnet.rankers.base import Ranker
from sortnet.rankers.fit_ranker import fit_ranker
from sortnet.types import Queries
from store import open_store
from store.service.labelling import LabellingService

STORE = "store.sqlite"
TABLES = (
    *("runs", "queries", "iterations", "pairs", "collections", "items", "allowed_pairs"),
    *("annotators", "judgements", "decisions", "leases", "cells"),
)
# Settings that make each kind small and quick, of those that the kind has.
SMALL = {
    "epochs": 2, "max_iter": 2, "committee": 2, "trees": 2, "depth": 2, "rounds": 4, "leaves": 4,
    "generations": 4, "hidden": (3,), "width": 4, "heads": 2, "layers": 1, "points": 2,
    "min_docs": 2, "scaling": "query+standard",
}  # fmt: skip
NETS = {"committee": 1, "epochs": 2, "max_iter": 2, "hidden": (4, 3), "scaling": "normal"}
# Further models of kinds whose folders differ by their settings: {name: (kind, settings)}.
MORE: dict[str, tuple[str, dict[str, Any]]] = {
    "cmpnn": ("sortnet", {**NETS, "comparator": "cmpnn", "units": "sigmoid"}),
    "cmpnn-committee": ("sortnet", {**NETS, "comparator": "cmpnn", "committee": 2}),
    "net": ("sortnet", {**NETS, "comparator": "directranker", "tau": "identity", "units": "relu"}),
    "net-committee": ("sortnet", {**NETS, "comparator": "directranker", "committee": 2}),
    "paper": ("sortnet", {**PAPER, "epochs": 2, "max_iter": 2, "hidden": (3,)}),
    "polynomial": ("directranker", {"part": "polynomial", "epochs": 2}),
    "scalings": (
        "sortnet",
        {"trees": 1, "depth": 1, "committee": 1, "max_iter": 2, "scaling": "+".join(SCALINGS)},
    ),
}
TRAINING = (
    *("--committee", "2", "--trees", "2", "--depth", "2", "--epochs", "2", "--pairs", "wrong"),
    *("--max-iter", "4", "--set", "max_stale=5", "--threads", "1", "--batch-size", "64"),
)
RANKERS = "err,ranksvm:C=0.1,sortnet:trees=2,depth=2,committee=1,max_iter=2,scaling=query"


def make(folder: Path) -> None:
    """Write everything into the folder, which must be new."""
    folder.mkdir()
    os.chdir(folder)
    os.environ["SORTNET_STORE"] = STORE
    torch.set_num_threads(1)
    make_data()
    scores = {**make_models(), **make_images(), **make_estimators()}
    make_collections()
    scores |= make_runs()
    expected = {"scores": scores, **make_cells()}
    remove_paths(folder)
    expected |= facts_of_the_store()
    write_json("expected.json", expected)


def make_data() -> None:
    """Labelled queries as LETOR text, labelled rows with categories, and items."""
    Path("letor").mkdir()
    for seed, (name, n) in enumerate({"train": 10, "vali": 5, "test": 4}.items()):
        text = letor(n, seed).replace("qid:q", f"qid:{name}-")
        Path(f"letor/{name}.txt").write_text(text)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({
        "qid": np.repeat(np.arange(12), 5),
        "price": rng.normal(size=60).round(3),
        "colour": rng.choice(["red", "green", "blue"], 60),
        "size": rng.choice(["small", "medium", "large"], 60),
        "made": rng.choice(pd.date_range("2020-01-01", periods=9).strftime("%Y-%m-%d"), 60),
    })  # fmt: skip
    frame["grade"] = (frame["price"] + (frame["colour"] == "red") > 0.5).astype(int)
    frame.to_csv("frame.csv", index=False)
    texts = essays(24)
    rows = pd.DataFrame({"id": texts.ids, "text": texts.texts})
    rows.to_csv("essays.csv", index=False)
    rows["topic"], rows["prompt"] = ["sea", "land"] * 12, ["By the sea", "On land"] * 12
    rows["length"] = rows["text"].str.len()
    rows.iloc[:12].to_csv("answers.csv", index=False)
    wines = frame.rename(columns={"made": "bottled"}).drop(columns=["qid", "grade"]).iloc[:40]
    wines.insert(0, "id", [f"wine-{k}" for k in range(40)])
    wines.to_csv("wines.csv", index=False)
    Path("photos").mkdir()
    for seed in range(6):
        photo(Path("photos"), f"photo-{seed}.png", seed=seed)


def make_models() -> dict[str, Any]:
    """A folder of every kind of ranker; what each gives for the test part."""
    Path("models").mkdir()
    train, vali, test = (read_queries(f"letor/{part}.txt") for part in ("train", "vali", "test"))
    outputs = {}
    for name in (*KINDS, *VARIANTS, *MORE):
        kind, changes = MORE.get(name, (name, {}))
        settings = settings_for(kind)
        if name not in MORE:
            changes = {key: value for key, value in SMALL.items() if key in settings.flat()}
            if kind == "sortnet":
                del changes["hidden"]
        labelled = (judged(train), judged(vali)) if kind == "posterior" else (train, vali)
        ranker = fit_ranker(*labelled, settings.changed(**changes))
        ranker.save(f"models/{name}")
        outputs[f"models/{name}"] = {"data": "letor/test.txt", **outputs_of(ranker, test)}
    return outputs


def judged(queries: Queries) -> Queries:
    """The queries with judged pairs of neighbours in place of grades."""
    i = np.arange(queries.n_docs - 1)
    i = i[queries.query_of_docs()[i] == queries.query_of_docs()[i + 1]]
    first = queries.features[i, 0] > queries.features[i + 1, 0]
    with_pairs = queries.with_judgements(np.where(first, i, i + 1), np.where(first, i + 1, i))
    return replace(with_pairs, grades=np.zeros_like(queries.grades))


def outputs_of(ranker: Ranker, queries: Queries) -> dict[str, Any]:
    """Outputs of a ranker for some queries; margins are of each document over the next."""
    first = np.arange(queries.n_docs - 1)
    first = first[queries.query_of_docs()[first] == queries.query_of_docs()[first + 1]]
    return {
        "scores": rounded(ranker.scores(queries)),
        "real_scores": rounded(ranker.real_scores(queries)),
        "margins": rounded(ranker.margins(queries, first, first + 1)),
        "order": ranker.order(queries).tolist(),
    }


def rounded(values: Any) -> list[float]:
    """The values with nine digits, which are enough for a float32."""
    return [float(f"{value:.9g}") for value in values]


def make_estimators() -> dict[str, Any]:
    """Folders of the estimator: of a frame with categories, and of a comparator of the user's."""
    Path("estimators").mkdir()
    frame = pd.read_csv("frame.csv")
    frame["size"] = pd.Categorical(frame["size"], ["small", "medium", "large"], ordered=True)
    frame["made"] = pd.to_datetime(frame["made"])
    X, y = frame.drop(columns="grade"), frame["grade"]
    small = {"committee": 1, "epochs": 2, "scaling": "normal"}
    ranker = SortNetRanker(trees=2, depth=2, max_iter=2, **small).fit(X, y)
    ranker.save("estimators/categories")
    outputs = {"estimators/categories": {"data": "frame.csv", **predictions_of(ranker, X)}}
    linear = SortNetRanker(comparator=own_comparator, max_iter=1, **small)
    numbers = X[["qid", "price"]]
    linear.fit(numbers, y).save("estimators/own")
    outputs["estimators/own"] = {"data": "frame.csv", **predictions_of(linear, numbers)}
    return outputs


def own_comparator(n_columns: int, seed: int) -> DirectRanker:
    """A DirectRanker whose feature part is one linear layer."""
    torch.manual_seed(seed)
    return DirectRanker(n_columns, feature_part=torch.nn.Linear(n_columns, 2), seed=seed)


def predictions_of(ranker: SortNetRanker, X: pd.DataFrame) -> dict[str, Any]:
    """Outputs of an estimator for a frame."""
    return {
        "places": ranker.predict(X).tolist(),
        "real_scores": rounded(ranker.predict(X, kind="score")),
        "importances": rounded(ranker.feature_importances_),
    }


def make_collections() -> None:
    """A collection of each form, with answers of people and of models, and decisions."""
    done("items", "add", "essays", "essays.csv")
    done("items", "add", "answers", "answers.csv", "--group", "topic", "--context", "prompt",
         "--show", "length", "--ignore", "length")  # fmt: skip
    done("items", "add", "wines", "wines.csv")
    done("items", "add", "photos", "photos")
    write_lines("pairs.csv", ["a,b", *(f"photo-{k}.png,photo-{k + 1}.png" for k in range(5))])
    done("items", "add", "few", "photos", "--pairs", "pairs.csv")
    write_lines("photos.csv", ["left,right,answer", "photo-0.png,photo-1.png,left"])
    done("judgements", "import", "photos", "photos.csv", "--as", "ana")
    done("judgements", "import", "few", "photos.csv", "--as", "ana")
    make_essays()
    answers = {"i0": 0, "i2": 1, "i4": 2, "i1": 0, "i3": 1, "i5": 2}
    rows = [f"{a},{b},{'left' if answers[a] > answers[b] else 'right'}" for a, b in
            (("i0", "i2"), ("i2", "i4"), ("i0", "i4"), ("i1", "i3"), ("i5", "i1"))]  # fmt: skip
    write_lines("votes.csv", ["left,right,answer", *rows])
    for criterion in ("helpful", "honest"):
        question = ("--question", f"Which is more {criterion}?")
        done("ask", "answers", "--criterion", criterion, *question)
        done("judgements", "import", f"answers:{criterion}", "votes.csv", "--as", "ana")
    make_wines()
    for form in ("jsonl", "csv"):
        exported = ("--format", form, "--output", f"essays-judgements.{form}")
        done("judgements", "export", "essays", *exported)


def make_essays() -> None:
    """Answers of every form about the essays, gold pairs, and a decision of each kind."""
    Path("rules.md").write_text("# Rules\n\nThe one with **better words**.\n")
    done("ask", "essays", "--question", "Which praises more?", "--instructions", "rules.md",
         "--goal", "top 5, 1 wrong", "--overlap", 2, "--deadline", "2031-12-01T18:00")  # fmt: skip
    rows = [
        {"left": f"i{k}", "right": f"i{k + 5}", "annotator": who, "answer": answer}
        for k, (who, answer) in enumerate(
            [("ana", "left"), ("ana", "right"), ("ben", "left"), ("eve", "right"), ("ben", "tie"),
             ("ana", "skip"), ("ben", "cant-say"), ("eve", "left"), ("ana", "left")]
        )
    ]  # fmt: skip
    rows[0] |= {"comment": "close", "flagged": True, "milliseconds": 2100}
    rows[1] |= {"p": 0.25, "cost": 0.002, "meta": json.dumps({"tokens": 12})}
    write_lines("essays.jsonl", map(json.dumps, rows))
    done("judgements", "import", "essays", "essays.jsonl")
    done("ask", "essays", "--quota", "ben", 50)
    write_lines("gold.csv", ["winner,loser", "i3,i0", "i4,i1"])
    done("annotators", "gold", "essays", "gold.csv")
    done("annotators", "gold", "essays", "--rate", 0.1)
    done("annotators", "exclude", "essays", "eve", "--reason", "answers at random")
    done("annotators", "pause", "essays", "ben")
    done("annotators", "pause", "essays", "ben", "--undo")
    done("annotators", "revoke", "essays", "eve")
    done("items", "retire", "essays", "i23", "--reason", "duplicate")
    done("items", "retire", "essays", "i22")
    done("items", "restore", "essays", "i22")
    model = LanguageModel(lambda text: float(len(text)))
    with serving(model) as url:
        done("label", "essays", "--model", "judge", "--server", url, "--number", 6)
    with open_store(STORE) as store:
        collection = store.collection("essays")
        collection.append([collection.judgements()[0].undo()])
        service = LabellingService(collection)
        leases = service.next("ana", 2)
        service.collection.answer(leases[0].id, leases[0].question.answered("ana", "left"))
        service.close()


def make_wines() -> None:
    """Enough answers about wines to learn from: the price decides."""
    prices = pd.read_csv("wines.csv").set_index("id")["price"]
    rng = np.random.default_rng(3)
    pairs = [rng.choice(prices.index, 2, replace=False) for _ in range(90)]
    rows = [f"{a},{b},{'left' if prices[a] > prices[b] else 'right'}" for a, b in pairs]
    write_lines("wines-ana.csv", ["left,right,answer", *rows[:60]])
    write_lines("wines-ben.csv", ["left,right,answer", *rows[60:]])
    for who in ("ana", "ben"):
        done("judgements", "import", "wines", f"wines-{who}.csv", "--as", who)


def make_runs() -> dict[str, Any]:
    """A run of labels, one that was interrupted, and runs of judgements; what their models give."""
    Path("runs").mkdir()
    done("train", "letor", "--out", "runs/whole", *TRAINING)
    interrupt_after(2, lambda: invoke("train", "letor", "--out", "runs/interrupted", *TRAINING))
    done("train", "wines", "--out", "runs/posterior", *TRAINING)
    done("train", "essays", "--out", "runs/texts", *TRAINING)
    described = {"whole": "letor/test.txt", "posterior": "wines.csv", "texts": "essays.csv"}
    outputs = {}
    for name, data in described.items():
        ranker = load_ranker(f"runs/{name}")
        queries = read_queries(data, n_features=ranker.n_features, labelled=False, like=ranker)
        outputs[f"runs/{name}"] = {"data": data, **outputs_of(ranker, queries)}
    kinds = [load_ranker(f"runs/{name}").config.kind for name in ("posterior", "texts")]
    assert kinds == ["posterior", "sortnet"], kinds
    return outputs


def make_images() -> dict[str, Any]:
    """A model of pictures, whose features it makes by itself."""
    names = sorted(path.name for path in Path("photos").iterdir())
    items = items_of(images=names, root=Path("photos"))
    ranker = ranker_of(items, grades=np.arange(len(names)))
    ranker.save("models/images")
    queries = read_queries("photos", n_features=ranker.n_features, labelled=False, like=ranker)
    return {"models/images": {"data": "photos", **outputs_of(ranker, queries)}}


def interrupt_after(n: int, command: Callable[[], Any]) -> None:
    """Interrupt a training when its state was saved for the n-th time."""
    save, calls = cli.training.training_run.save_state, []

    def interrupting(*args: Any) -> None:
        save(*args)
        calls.append(args)
        if len(calls) == n:
            raise KeyboardInterrupt

    cli.training.training_run.save_state = interrupting
    try:
        command()
    finally:
        cli.training.training_run.save_state = save
    assert len(calls) == n


def make_cells() -> dict[str, Any]:
    """The cells of a comparison, and its table."""
    command = ("experiment", "folds", "letor", "--rankers", RANKERS, "--json")
    table = json.loads(done(*command))
    return {"experiment": {row["ranker"]: row["ndcg@10"] for row in table["summary"]}}


def remove_paths(folder: Path) -> None:
    """Remove what tells of the machine.

    Paths in the store become relative to the folder; those in run.json, which are absolute, begin
    with /FOLDER.
    """
    for path in folder.glob("runs/*/run.json"):
        path.write_text(path.read_text().replace(str(folder), "/FOLDER"))
    with closing(sqlite3.connect(STORE)) as connection:
        connection.execute("UPDATE runs SET host = NULL, pid = NULL, process_start = NULL")
        connection.execute("UPDATE runs SET out = replace(out, ?, '')", [f"{folder}/"])
        connection.execute("UPDATE collections SET root = replace(root, ?, '')", [str(folder)])
        connection.execute("UPDATE collections SET root = '.' || root WHERE root LIKE '/%'")
        connection.commit()
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("PRAGMA page_size = 1024")  # many small tables
        connection.execute("VACUUM")
    for path in folder.rglob("*"):
        assert not path.is_file() or str(folder).encode() not in path.read_bytes(), path


def facts_of_the_store() -> dict[str, Any]:
    """Contents of the store: rows of each table, runs, answers, results of cells."""
    with closing(sqlite3.connect(STORE)) as connection:

        def rows(statement: str) -> list[Any]:
            return connection.execute(statement).fetchall()

        tables = {name: rows(f"SELECT count(*) FROM {name}")[0][0] for name in TABLES}
        runs = {
            id: {
                "status": status, "out": out,
                "iterations": rows(f"SELECT tp, vp, quality FROM iterations WHERE run = {number}"
                                   " ORDER BY iteration"),
                "pairs": dict(rows(f"SELECT split, count(*) FROM pairs WHERE run = {number}"
                                   " GROUP BY split")),
            }
            for number, id, status, out in rows("SELECT number, id, status, out FROM runs")
        }  # fmt: skip
        collections = {
            name: {
                "items": rows(f"SELECT count(*) FROM items WHERE collection = {number}")[0][0],
                "answers": dict(rows("SELECT answer, count(*) FROM judgements WHERE collection ="
                                     f" {number} GROUP BY answer")),
                "decisions": dict(rows("SELECT kind, count(*) FROM decisions WHERE collection ="
                                       f" {number} GROUP BY kind")),
            }
            for number, name in rows("SELECT number, name FROM collections")
        }  # fmt: skip
        cells = {
            key: {"ranker": ranker, "order": np.frombuffer(ranking, "<i4").tolist()}
            for key, ranker, ranking in rows("SELECT key, ranker, ranking FROM cells")
        }
        (version,) = rows("SELECT version_num FROM sortnet_schema")[0]
    about = {"sortnet": __version__, "schema": version}
    return {**about, "tables": tables, "runs": runs, "collections": collections, "cells": cells}


def write_lines(path: str, lines: Any) -> None:
    Path(path).write_text("\n".join(lines) + "\n")


def write_json(path: str, value: Any) -> None:
    """Write JSON with each list of numbers on a line of its own."""
    text = json.dumps(value, indent=1)
    text = re.sub(r"\[[^\[\]{}]*\]", lambda match: " ".join(match[0].split()), text)
    Path(path).write_text(text + "\n")


if __name__ == "__main__":
    to = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as temporary:
        os.environ["XDG_CACHE_HOME"] = str(Path(temporary) / "cache")
        make(Path(temporary).resolve() / "0.3.0")
        shutil.copytree(Path(temporary) / "0.3.0", to)
