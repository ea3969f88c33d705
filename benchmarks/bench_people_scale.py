"""Many items and many judgements: what a question, a ranking, a fit and opening cost.

The items have five features; as many answers as a twentieth of the items, of twenty annotators.
Judgements in a store are of 200 annotators about 10,000 items. The sizes take minutes. Larger ones
are measured alone: with a number as its only argument the script measures as many judgements about
100,000 items; with `label` and a number of items, the memory of that command.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from datetime import datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
from scipy.stats import spearmanr
from sqlalchemy import insert

from cli.web.admin_state import AdminState, View, ranking_rows
from sortnet.items import Items
from sortnet.preference import Judgement
from sortnet.preference.judgement_table import Judgements
from sortnet.preference.session import Session
from store import Collection, open_store
from store.database.schema import AnnotatorRow, JudgementRow
from store.service.labelling import LabellingService

PEOPLE = 20
CROWD = 200
JUDGES = 100  # of made judgements, more and less reliable ones
BLOCK = 50_000  # judgements written at once


def run(quick: bool) -> list[dict[str, Any]]:
    """Rows of each size, whose peer is the smallest; per item where all items are touched."""
    sizes = (500, 1_000) if quick else (10_000, 100_000)
    crowds = (500, 1_000) if quick else (10_000, 100_000)
    fits = (500, 1_000) if quick else (10_000, 100_000)
    return [
        *_rows({n: measured(n) for n in sizes}, "items", quick),
        *_rows({m: judged(m, 100 if quick else 10_000) for m in crowds}, "judgements", quick),
        *_rows({m: fitted(m, 100 if quick else 10_000) for m in fits}, "judgements", quick),
        label_row(1_000 if quick else 100_000),
    ]


def _rows(found: dict[int, dict[str, float]], of: str, quick: bool) -> list[dict[str, Any]]:
    smallest, *sizes = found
    rows = []
    for n in sizes:
        for what, ours in found[n].items():
            peer = found[smallest][what]
            ok = None if quick else ours <= 3 * peer
            rows.append(
                {"what": f"{what}, {n:,} {of}", "ours": ours, "peer": peer, "ratio": ours / peer}
                | {"bar": "<= 3 x peer", "ok": ok, "note": f"peer: {smallest:,} {of}"}
            )
    return rows


def measured(n: int) -> dict[str, float]:
    """Process seconds of each step, so that other processes matter little."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 5)).astype(np.float32)
    scores = X @ rng.normal(size=5) + 0.5 * rng.normal(size=n)
    left = rng.integers(n, size=n // 20)
    right = (left + rng.integers(1, n, size=len(left))) % n
    won = scores[left] + rng.normal(size=len(left)) > scores[right]
    said = enumerate(zip(left.tolist(), right.tolist(), won.tolist(), strict=True))
    given = Judgements.of(
        Judgement.of(f"p{k % PEOPLE}", (i, j), "left" if w else "right") for k, (i, j, w) in said
    )
    start = time.process_time()
    session = Session(X, n)
    session.replay(given)
    opened = time.process_time() - start
    fitted = seconds(session.refit)
    (asked,) = session.ask("ana", wait=False)  # sorts the items by the new fit
    waited = []
    for _ in range(40):
        start = time.process_time()
        session.tell(asked.answered("ana", "left"))
        (asked,) = session.ask("ana", wait=False)
        waited.append(1000 * (time.process_time() - start))
    ranking, shown = session.ranking(fresh=False), []
    service = SimpleNamespace(is_fitted=True, items=_items(n), ranking=ranking)
    for page in range(40):
        view = View(sort="score", page=1 + page * n // 2_000)
        shown.append(1000 * seconds(partial(ranking_rows, service, view)))
    return {
        "answer and next question, p95 in CPU ms": float(np.quantile(waited, 0.95)),
        "open a session, CPU us an item": 1e6 * opened / n,
        "fit from scratch, CPU us an item": 1e6 * fitted / n,
        "ranking, CPU us an item": 1e6 * seconds(lambda: session.ranking(fresh=False)) / n,
        "a page of the ranking, p50 in CPU ms": float(np.median(shown)),
    }


def judged(m: int, n: int = 100_000) -> dict[str, float]:
    """Of m judgements about n items in a SQLite file; nothing is fitted yet."""
    with TemporaryDirectory() as folder, open_store(Path(folder) / "s.db") as store:
        collection = store.add_items("many", _items(n))
        _write(collection, n, m)
        LabellingService(store.add_items("few", _items(2)))  # what is made once a process
        start, before = time.process_time(), memory()
        service = LabellingService(collection)
        opened, used = time.process_time() - start, memory() - before
        admin = AdminState(service, collection)
        state = partial(admin.state, View(sort="score", page=1))
        counted = seconds(state)
        waited = []
        for k in range(60):
            start = time.process_time()
            (lease,) = service.next(f"p{k % 3}")
            service.answer(lease.id, lease.question.answered(f"p{k % 3}", "left"))
            waited.append(1000 * (time.process_time() - start))
        return {
            "open a service, CPU us a judgement": 1e6 * opened / m,
            "open a service, bytes a judgement": used / m,
            "statistics of the admin page, CPU us a judgement": 1e6 * counted / m,
            "page of the admin, CPU ms": 1000 * seconds(state),
            "served question and answer, p50 in CPU ms": float(np.median(waited)),
            "served question and answer, p95 in CPU ms": float(np.quantile(waited, 0.95)),
        }


def fitted(m: int, n: int) -> dict[str, float]:
    """Of m judgements about n items whose scores are known."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 5)).astype(np.float32)
    scores = X @ rng.normal(size=5) + 0.5 * rng.normal(size=n)
    session = Session(X, n)
    added = seconds(partial(session.replay, _by_truth(scores, m)))
    first = seconds(session.refit)
    ranking = session.ranking(fresh=False)
    closeness = seconds(lambda: session.remaining(fresh=False))
    session.replay(_by_truth(scores, m // 25, seed=1))  # fewer than those that renew the scales
    later = seconds(session.refit)
    waited = []
    for k in range(100):
        start = time.process_time()
        (asked,) = session.ask(f"p{k % JUDGES}", wait=False)
        waited.append(1000 * (time.process_time() - start))
        session.tell(asked.answered(f"p{k % JUDGES}", "left"))
    return {
        "replay, CPU us a judgement": 1e6 * added / m,
        "first fit, CPU us a judgement": 1e6 * first / m,
        "fit by known scales, CPU us a judgement": 1e6 * later / m,
        "a question, p95 in CPU ms": float(np.quantile(waited, 0.95)),
        "how close to the goal, CPU us a judgement": 1e6 * closeness / m,
        "1 - Spearman with the truth": 1 - float(spearmanr(ranking.score, scores)[0]),
    }


def label_row(n: int) -> dict[str, Any]:
    """Peak memory of `sortnet label` about n items."""
    return {
        "what": f"peak memory of `sortnet label`, GB, {n:,} items",
        "ours": label_gigabytes(n),
        "note": f"after {n // 20:,} judgements",
    }


def _by_truth(scores: Any, m: int, seed: int = 0) -> Judgements:
    """Made answers to random pairs; the annotators' reliabilities are .3 to 1.5."""
    rng, n = np.random.default_rng(seed), len(scores)
    who, left = rng.integers(JUDGES, size=m), rng.integers(n, size=m)
    right = (left + rng.integers(1, n, size=m)) % n
    gap = np.linspace(0.3, 1.5, JUDGES)[who] * (scores[left] - scores[right])
    one_each = Judgements.of(Judgement.of(f"p{k}", (0, 1), "left") for k in range(JUDGES))
    made = one_each.where(who)
    made.items[:, 0], made.items[:, 1], made.number[:] = (
        left,
        right,
        seed * 10**9 + np.arange(m) + 1,
    )
    made.best[:] = np.where(gap + rng.normal(size=m) > 0, left, right)
    return made


def label_gigabytes(n: int) -> float:
    """Peak memory of `sortnet label` that asks about n items after n / 20 judgements."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "s.db"
        with open_store(path) as store:
            _write(store.add_items("many", _items(n)), n, n // 20)
        command = [sys.executable, "-m", "cli", "label", "many", "--as", "ana", "--store", path]
        answers = "left\nright\nleft\n"
        subprocess.run(command, input=answers, text=True, stdout=subprocess.DEVNULL, check=True)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6


def _items(n: int) -> Items:
    ids, nothing = tuple(f"item {k}" for k in range(n)), (None,) * n
    features = np.random.default_rng(0).normal(size=(n, 5)).astype(np.float32)
    return Items(ids, ids, nothing, nothing, features, tuple("abcde"))


def _write(collection: Collection, n: int, m: int) -> None:
    """Rows as answers leave them, without leases; a third is about the pair before."""
    names = [f"p{k}" for k in range(CROWD)]
    rng, sides = np.random.default_rng(1), ("left", "right", "right", "skip")
    with collection.database.transaction(write=True) as connection:
        row = {"collection": collection.number, "created": datetime(2026, 1, 1)}
        people = [row | {"name": name, "token": name} for name in names]
        keys = connection.execute(insert(AnnotatorRow).returning(AnnotatorRow.number), people)
        annotators = np.array(keys.scalars().all())
    facts = {
        "collection": collection.number,
        "strategy": "informative",
        "probability": 1.0,
        "model": 0,
    }
    for start in range(0, m, BLOCK):
        number = np.arange(start, min(start + BLOCK, m)) + 1
        left = rng.integers(n, size=len(number))
        right = (left + rng.integers(1, n, size=len(number))) % n
        left[2::3], right[2::3] = right[1::3][: len(left[2::3])], left[1::3][: len(left[2::3])]
        columns = {
            "number": number,
            "annotator": rng.choice(annotators, len(number)),
            "first": left,
            "second": right,
            "milliseconds": rng.integers(500, 9000, size=len(number)),
            "at": 1e9 + number,
        }
        each = zip(*(column.tolist() for column in columns.values()), strict=True)
        rows = [dict(zip(columns, values, strict=True)) | facts for values in each]
        for row in rows:
            items = row.pop("first"), row.pop("second")
            word = sides[row["number"] * 7 % 4]
            best = {"left": items[0], "right": items[1]}.get(word)
            answer = word if best is None else "best"
            row |= {"id": f"{row['number']}", "items": items, "answer": answer, "best": best}
        with collection.database.transaction(write=True) as connection:
            connection.execute(insert(JudgementRow), rows)


def seconds(work: Any) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def memory() -> int:
    """Bytes in memory."""
    return psutil.Process().memory_info().rss


def main() -> None:
    if sys.argv[1:2] == ["label"]:
        print("GB at most:", label_gigabytes(int(sys.argv[2])))
    elif len(sys.argv) > 1:
        print(judged(int(sys.argv[1])))
    else:
        for row in run(quick=False):
            print({key: value for key, value in row.items() if value is not None})


if __name__ == "__main__":
    main()
