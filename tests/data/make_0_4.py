"""Write `0.4.0.zip`: models, a store and files, as version 0.4.0 of SortNet wrote them.

`tests/test_converted_store.py` and `tests/test_folders_of_0_4.py` compare what later versions make
of the files with `expected.json`, which version 0.4.0 wrote too. So the files are never made again:
this script only documents how they were made. In a checkout of version 0.4.0, with the extras of
`dev` installed:

    PYTHONPATH=.:tests python tests/data/make_0_4.py FOLDER
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
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from cli_helpers import done, invoke, letor
from item_helpers import essays, items_of, photo, ranker_of
from language_model_server import Model as LanguageModel
from language_model_server import serving
from result_helpers import value_of

import store.training.training_run
from sortnet import SortNetRanker, __version__, load_ranker, read_fold, read_queries
from sortnet.comparators import DirectRanker
from sortnet.config import PAPER, SCALINGS
from sortnet.core import Queries
from sortnet.rankers.base import Ranker
from sortnet.rankers.fit_ranker import fit_ranker
from sortnet.rankers.registry import KINDS, VARIANTS, settings_for
from store import open_store
from store.service.labelling import LabellingService

STORE = "store.sqlite"
TABLES = (
    *("runs", "queries", "iterations", "pairs", "answers", "collections", "items"),
    *("allowed_pairs", "annotators", "judgements", "judgement_items", "decisions", "leases"),
    *("lease_items", "batches", "servers", "cells"),
)
# Settings that make each kind small and quick, of those that the kind has.
SMALL = {
    "epochs": 2, "max_iter": 2, "committee": 2, "trees": 2, "depth": 2, "rounds": 4, "leaves": 4,
    "generations": 4, "hidden": (3,), "width": 4, "heads": 2, "layers": 1, "points": 2,
    "min_docs": 2, "scaling": "query+standard",
}  # fmt: skip
NETS = {"committee": 1, "epochs": 2, "max_iter": 2, "hidden": (4, 3), "scaling": "normal"}
TREES = {"committee": 2, "epochs": 2, "max_iter": 2, "trees": 2, "depth": 2}
# Further models: {name: (kind, settings)}. Those that begin with "numbers" learn from a table of
# numbers and categories, the others from one that has texts, too.
MORE: dict[str, tuple[str, dict[str, Any]]] = {
    "cmpnn": ("sortnet", {**NETS, "comparator": "cmpnn", "units": "sigmoid"}),
    "cmpnn-committee": ("sortnet", {**NETS, "comparator": "cmpnn", "committee": 2}),
    "net": ("sortnet", {**NETS, "comparator": "directranker", "tau": "identity", "units": "relu"}),
    "net-committee": ("sortnet", {**NETS, "comparator": "directranker", "committee": 2}),
    "numbers": ("sortnet", {**TREES, "scaling": "query+rank"}),
    "numbers-all-scalings": ("sortnet", {**TREES, "scaling": "+".join(SCALINGS)}),
    "numbers-one": ("sortnet", {**TREES, "committee": 1, "scaling": "standard"}),
    "numbers-warm-even": ("sortnet", {**TREES, "pairs": "even", "scaling": "normal"}),
    "paper": ("sortnet", {**PAPER, "epochs": 2, "max_iter": 2, "hidden": (3,)}),
    "polynomial": ("directranker", {"part": "polynomial", "epochs": 2}),
}
TRAINING = (
    *("--committee", "2", "--trees", "2", "--depth", "2", "--epochs", "4", "--max-iter", "4"),
    *("--threads", "1", "--batch-size", "64"),
)
RANKERS = "err,ranksvm:C=0.1,sortnet:trees=2,depth=2,committee=1,max_iter=2,scaling=query"
JUDGE = """\
import json, sys

for line in sys.stdin:
    pair = json.loads(line)
    left, right = (pair[side]["text"].count("superb") for side in ("left", "right"))
    answer = {"id": pair["id"], "answer": "left" if left > right else "right"}
    print(json.dumps(answer), flush=True)
"""


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
    expected = {"scores": scores, **make_cells(), "collections": facts_of_collections()}
    remove_paths(folder)
    expected |= facts_of_the_store()
    write_json("expected.json", expected)


def make_data() -> None:
    """Labelled queries as LETOR text and as tables with categories and texts, and items."""
    Path("letor").mkdir()
    for seed, (name, n) in enumerate({"train": 10, "vali": 5, "test": 4}.items()):
        text = letor(n, seed).replace("qid:q", f"qid:{name}-")
        Path(f"letor/{name}.txt").write_text(text)
    Path("shop").mkdir()
    Path("numbers").mkdir()
    for seed, (name, n) in enumerate({"train": 12, "vali": 6, "test": 4}.items()):
        table = goods(n, seed)
        table.to_csv(f"shop/{name}.csv", index=False)
        table.drop(columns="text").to_csv(f"numbers/{name}.csv", index=False)
    texts = essays(24)
    rows = pd.DataFrame({"id": texts.ids, "text": texts.texts})
    rows.to_csv("essays.csv", index=False)
    rows["topic"], rows["prompt"] = ["sea", "land"] * 12, ["By the sea", "On land"] * 12
    rows["length"] = rows["text"].str.len()
    rows.iloc[:12].to_csv("answers.csv", index=False)
    wines = goods(7, 9).drop(columns=["qid", "label", "text"]).iloc[:40]
    wines.insert(0, "id", [f"wine-{k}" for k in range(40)])
    wines.to_csv("wines.csv", index=False)
    Path("photos").mkdir()
    for seed in range(6):
        photo(Path("photos"), f"photo-{seed}.png", seed=seed)


def goods(n_queries: int, seed: int) -> pd.DataFrame:
    """A table of goods with a number, categories, a day and a text."""
    rng = np.random.default_rng(seed)
    n = 6 * n_queries
    table = pd.DataFrame({
        "qid": np.repeat([f"q{seed}-{k}" for k in range(n_queries)], 6),
        "price": rng.normal(size=n).round(3),
        "colour": rng.choice(["red", "green", "blue"], n),
        "size": rng.choice(["small", "medium", "large"], n),
        "made": rng.choice(pd.date_range("2020-01-01", periods=9).strftime("%Y-%m-%d"), n),
        "text": essays(n, seed).texts,
    })  # fmt: skip
    good = table["price"] + (table["colour"] == "red") + table["text"].str.count("superb")
    table["label"] = np.clip(good.round(), 0, 2).astype(int)
    return table


def make_models() -> dict[str, Any]:
    """A folder of every kind of ranker; what each gives for the test part."""
    Path("models").mkdir()
    folds = {name: read_fold(name) for name in ("shop", "numbers")}
    assert folds["shop"].train.describer is not None
    outputs = {}
    for name in (*KINDS, *VARIANTS, *MORE):
        kind, changes = MORE.get(name, (name, {}))
        settings = settings_for(kind)
        if name not in MORE:
            changes = {key: value for key, value in SMALL.items() if key in settings.flat()}
            if kind == "sortnet":
                del changes["hidden"]
        data = "numbers" if name.startswith("numbers") else "shop"
        train, vali, test = folds[data].train, folds[data].vali, folds[data].test
        labelled = (judged(train), judged(vali)) if kind == "posterior" else (train, vali)
        ranker = fit_ranker(*labelled, settings.changed(**changes))
        ranker.save(f"models/{name}")
        outputs[f"models/{name}"] = {"data": f"{data}/test.csv", **outputs_of(ranker, test)}
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
    """Folders of the estimator: categories, texts, and a comparator of the user's."""
    Path("estimators").mkdir()
    table = pd.read_csv("shop/train.csv")
    X, y = frame_of(table).drop(columns="label"), table["label"]
    small = {"committee": 1, "epochs": 2, "scaling": "normal"}
    trees = {"trees": 2, "depth": 2, "max_iter": 2}
    numbers = X.drop(columns="text")
    models = {
        "categories": (SortNetRanker(**trees, **small), numbers),
        "own": (SortNetRanker(comparator=own, max_iter=1, **small), X[["qid", "price"]]),
        "texts": (SortNetRanker(**trees, **small), X),
    }
    outputs = {}
    for name, (ranker, columns) in models.items():
        ranker.fit(columns, y).save(f"estimators/{name}")
        predictions = {
            "places": ranker.predict(columns).tolist(),
            "real_scores": rounded(ranker.predict(columns, kind="score")),
            "importances": rounded(ranker.feature_importances_),
        }
        outputs[f"estimators/{name}"] = {"data": "shop/train.csv", **predictions}
    return outputs


def frame_of(table: pd.DataFrame) -> pd.DataFrame:
    """The table with an ordered categorical and a column of days."""
    size = pd.Categorical(table["size"], ["small", "medium", "large"], ordered=True)
    return table.assign(size=size, made=pd.to_datetime(table["made"]))


def own(n_columns: int, seed: int) -> DirectRanker:
    """A DirectRanker whose feature part is one linear layer."""
    torch.manual_seed(seed)
    return DirectRanker(n_columns, feature_part=torch.nn.Linear(n_columns, 2), seed=seed)


def make_images() -> dict[str, Any]:
    """A model of pictures, whose features it makes by itself."""
    names = sorted(path.name for path in Path("photos").iterdir())
    items = items_of(images=names, root=Path("photos"))
    ranker = ranker_of(items, grades=np.arange(len(names)))
    ranker.save("models/images")
    queries = read_queries("photos", n_features=ranker.n_features, labelled=False, like=ranker)
    return {"models/images": {"data": "photos", **outputs_of(ranker, queries)}}


def make_collections() -> None:
    """A collection of each form, with answers of people and of models, and decisions."""
    done("items", "add", "essays", "essays.csv")
    done("items", "add", "fours", "essays.csv")
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
    make_fours()
    answers = {"i0": 0, "i2": 1, "i4": 2, "i1": 0, "i3": 1, "i5": 2}
    rows = [f"{a},{b},{'left' if answers[a] > answers[b] else 'right'}" for a, b in
            (("i0", "i2"), ("i2", "i4"), ("i0", "i4"), ("i1", "i3"), ("i5", "i1"))]  # fmt: skip
    write_lines("votes.csv", ["left,right,answer", *rows])
    for criterion in ("helpful", "honest"):
        question = ("--question", f"Which is more {criterion}?")
        done("ask", "answers", "--criterion", criterion, *question)
        done("judgements", "import", f"answers:{criterion}", "votes.csv", "--as", "ana")
    make_wines()


def make_essays() -> None:
    """Answers of every form about pairs of essays, gold pairs, and a decision of each kind."""
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
    rng = np.random.default_rng(4)
    for who in ("ana", "ben", "eve"):
        for _ in range(25):
            a, b = rng.choice(24, 2, replace=False)
            is_left = (a > b) == (rng.random() < (0.5 if who == "eve" else 0.9))
            answer = {"annotator": who, "answer": "left" if is_left else "right"}
            rows.append({"left": f"i{a}", "right": f"i{b}", **answer})
        rows.append({"left": "i3", "right": "i0", "annotator": who, "answer": "left"})  # gold
    rows.append({"left": "i1", "right": "i4", "annotator": "ben", "answer": "left"})
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
    done("annotators", "revoke", "essays", "ana")
    done("annotators", "revoke", "essays", "ana", "--undo")
    done("annotators", "probabilities", "essays", "ana", "ignored")
    done("items", "retire", "essays", "i23", "--reason", "duplicate")
    done("items", "retire", "essays", "i22")
    done("items", "restore", "essays", "i22")
    model = LanguageModel(lambda text: float(len(text)))
    with serving(model) as url:
        done("label", "essays", "--model", "judge", "--server", url, "--number", 6)
    lease_some("essays")
    asked = ("label", "essays", "--model", "later", "--batch-size", 4, "--write-batch")
    done(*asked, "open.jsonl")
    batch = value_of(done(*asked, "cancelled.jsonl", "--json"), "batch")
    done("label", "essays", "--cancel-batch", batch["name"])
    Path("open.jsonl").unlink()
    Path("cancelled.jsonl").unlink()


def make_fours() -> None:
    """Answers about four items at a time, one of them undone, and an open question."""
    done("ask", "fours", "--set-size", 4)
    rng = np.random.default_rng(5)
    rows: list[dict[str, Any]] = []
    for who in ("ana", "ben"):
        for _ in range(14):
            chosen = rng.choice(24, 4, replace=False)
            ids = [f"i{k}" for k in chosen]
            ranked = [f"i{k}" for k in np.sort(chosen)]
            answer = {"best": ranked[-1], "worst": ranked[0], "answer": "best"}
            rows.append({"items": ids, "annotator": who, **answer})
    for word, k in (("same", 0), ("skip", 4), ("cant-say", 8)):
        rows.append({"items": [f"i{k + j}" for j in range(4)], "annotator": "ben", "answer": word})
    rows[2] |= {"comment": "clear", "milliseconds": 9000}
    write_lines("fours.jsonl", map(json.dumps, rows))
    done("judgements", "import", "fours", "fours.jsonl")
    lease_some("fours")


def lease_some(name: str) -> None:
    """Undo the first answer, answer one question that is asked, and leave another one open."""
    with open_store(STORE) as store:
        collection = store.collection(name)
        collection.append([collection.judgements()[0].undo()])
        service = LabellingService(collection)
        leases = service.next("ana", 2)
        first = leases[0].question
        choice = ("best", first.items[1], first.items[0]) if first.further else ("left", None, None)
        answer, best, worst = choice
        answered = first.answered("ana", answer, best=best, worst=worst, milliseconds=1500)
        service.collection.answer(leases[0].id, answered)
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
    """Runs of labels, one of them interrupted, of judgements, and of a judge; their outputs."""
    Path("runs").mkdir()
    Path("judge.py").write_text(JUDGE)
    wrong = ("--pairs", "wrong")
    done("train", "letor", "--out", "runs/whole", *wrong, *TRAINING)
    interrupt_after(
        2, lambda: invoke("train", "letor", "--out", "runs/interrupted", *wrong, *TRAINING)
    )
    done("train", "wines", "--out", "runs/posterior", *TRAINING)
    done("train", "essays", "--out", "runs/texts", *TRAINING)
    done("train", "numbers", "--out", "runs/numbers", *TRAINING)
    asked = ("--judge", "python judge.py", "--judgements", 20)
    done("train", "shop/train.csv", "--out", "runs/asked", *asked, *TRAINING)
    described = {"whole": "letor/test.txt", "posterior": "wines.csv", "texts": "essays.csv",
                 "numbers": "numbers/test.csv", "asked": "shop/test.csv"}  # fmt: skip
    outputs = {}
    for name, data in described.items():
        ranker = load_ranker(f"runs/{name}")
        queries = read_queries(data, n_features=ranker.n_features, labelled=False, like=ranker)
        outputs[f"runs/{name}"] = {"data": data, **outputs_of(ranker, queries)}
    return outputs


def interrupt_after(n: int, command: Callable[[], Any]) -> None:
    """Interrupt a training when its state was saved for the n-th time."""
    save, calls = store.training.training_run.save_state, []

    def interrupting(*args: Any) -> None:
        save(*args)
        calls.append(args)
        if len(calls) == n:
            raise KeyboardInterrupt

    store.training.training_run.save_state = interrupting
    try:
        command()
    finally:
        store.training.training_run.save_state = save
    assert len(calls) == n


def make_cells() -> dict[str, Any]:
    """The cells of a comparison, and its table."""
    table = value_of(done("experiment", "folds", "letor", "--rankers", RANKERS, "--json"))
    return {"experiment": {row["ranker"]: row["ndcg@10"] for row in table["summary"]}}


def facts_of_collections() -> dict[str, Any]:
    """What commands say of each collection: rankings, annotators, judgements, decisions."""
    facts = {}
    with open_store(STORE, write=False) as store:
        names = [row["name"] for row in value_of(done("items", "list", "--json"), "collections")]
        for name in names:
            collection = store.collection(name)
            facts[name] = {
                "asked": printed("ask", name),
                "decisions": [asdict(decision) for decision in collection.decisions()],
                "settings": collection.settings,
                "seed": collection.seed,
                "tokens": {each.name: each.token for each in collection.annotators()},
            }
            if collection.criteria():
                continue
            facts[name] |= {
                "ranking": printed("ranking", name),
                "annotators": printed("annotators", "list", name),
                "agreement": printed("annotators", "agreement", name),
                "judgements": printed("judgements", "list", name, "--limit", 1000),
                "leases": [[lease.annotator, list(lease.question.items), lease.batch]
                           for lease in collection.leases()],
                "batches": [[batch.name, batch.annotator, batch.n_open, batch.cancelled is None]
                            for batch in collection.batches()],
            }  # fmt: skip
    return facts


def printed(*args: object) -> Any:
    """The value that a command prints as JSON."""
    return value_of(done(*args, "--json"))


def remove_paths(folder: Path) -> None:
    """Remove what tells of the machine.

    Paths in the store become relative to the folder; those in run.json, which are absolute, begin
    with /FOLDER.
    """
    for path in folder.glob("runs/*/*.json"):
        path.write_text(path.read_text().replace(str(folder), "/FOLDER"))
    with closing(sqlite3.connect(STORE)) as connection:
        for table in ("runs", "leases"):
            connection.execute(f"UPDATE {table} SET host = NULL, pid = NULL, process_start = NULL")
        connection.execute("UPDATE runs SET out = replace(out, ?, '')", [f"{folder}/"])
        connection.execute("UPDATE runs SET data = replace(data, ?, '/FOLDER')", [str(folder)])
        connection.execute("UPDATE collections SET root = replace(root, ?, '')", [str(folder)])
        connection.execute("UPDATE collections SET root = '.' || root WHERE root LIKE '/%'")
        connection.commit()
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("PRAGMA page_size = 1024")  # many small tables
        connection.execute("VACUUM")
    for path in folder.rglob("*"):
        assert not path.is_file() or str(folder).encode() not in path.read_bytes(), path


def facts_of_the_store() -> dict[str, Any]:
    """Contents of the store: rows of each table, runs, results of cells."""
    with closing(sqlite3.connect(STORE)) as connection:

        def rows(statement: str) -> list[Any]:
            return connection.execute(statement).fetchall()

        tables = {name: rows(f"SELECT count(*) FROM {name}")[0][0] for name in TABLES}
        runs = {
            id: {"status": status, "out": out, "pairs": dict(rows(
                f"SELECT split, count(*) FROM pairs WHERE run = {number} GROUP BY split"))}
            for number, id, status, out in rows("SELECT number, id, status, out FROM runs")
        }  # fmt: skip
        (version,) = rows("SELECT version_num FROM sortnet_schema")[0]
    return {"sortnet": __version__, "schema": version, "tables": tables, "runs": runs}


def write_lines(path: str, lines: Any) -> None:
    Path(path).write_text("\n".join(lines) + "\n")


def write_json(path: str, value: Any) -> None:
    """Write JSON with each list of numbers on a line of its own."""
    text = json.dumps(value, indent=1)
    text = re.sub(r"\[[^\[\]{}]*\]", lambda match: " ".join(match[0].split()), text)
    Path(path).write_text(text + "\n")


if __name__ == "__main__":
    to = Path(sys.argv[1]).resolve() / "0.4.0"
    with tempfile.TemporaryDirectory() as temporary:
        os.environ["XDG_CACHE_HOME"] = str(Path(temporary) / "cache")
        make(Path(temporary).resolve() / "0.4.0")
        shutil.make_archive(str(to), "zip", temporary, "0.4.0")
