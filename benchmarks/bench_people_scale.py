"""Many items and many judgements: what a question, a ranking, a fit and opening cost.

The items have five features; as many answers as a twentieth of the items, of twenty annotators.
Judgements in a store are of 200 annotators about 10,000 items. The sizes take minutes. Larger ones
are measured alone: with a number as its only argument the script measures as many judgements, about
100,000 items; with `items` and a number as many items; with `fit` and the numbers of judgements and
of items, the fits to made answers of 100 annotators; with `label` and a number of items, the memory
of that command; with `left` and a number of sessions, how often the range of the questions left
holds the true number.
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
from scipy.special import ndtr
from scipy.stats import spearmanr
from sqlalchemy import insert

from cli.web.admin_state import AdminState
from cli.web.ranking_rows import View, ranking_rows
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
# Simulated sessions: items, features, and by how much their scores spread in units of the noise.
SESSIONS = ((20, 0, 1.5), (40, 0, 0.8), (40, 0, 1.5), (40, 0, 3.0), (40, 5, 1.5), (80, 5, 1.5))


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
        left_row(SESSIONS[:1] if quick else SESSIONS, 2 if quick else 12, quick=quick),
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
        people = SimpleNamespace(tokens={f"p{k}": "" for k in range(CROWD)})
        admin = AdminState(service, people)  # type: ignore[arg-type]
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
    return {
        "replay, CPU us a judgement": 1e6 * added / m,
        "first fit, CPU us a judgement": 1e6 * first / m,
        "fit by known scales, CPU us a judgement": 1e6 * later / m,
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


def left_row(kinds: Any, sessions: int, *, quick: bool = False) -> dict[str, Any]:
    """How often the range of the questions left holds the number after which a session stops."""
    shares, widths = [], []
    for n, d, spread in kinds:
        ranges = [
            numbers for seed in range(sessions) for numbers in ranges_left(n, d, spread, seed)
        ]
        shares.append(float(np.mean([low <= true <= high for low, high, true in ranges])))
        widths += [max(high, 1) / max(low, 1) for low, high, _ in ranges]
    share = float(np.mean(shares))
    return {
        "what": "the range of the questions left holds the true number, share of sessions",
        "ours": share,
        "peer": None,
        "ratio": None,
        "bar": ">= 0.80",
        "ok": None if quick else share >= 0.8,
        "note": f"{sessions} sessions of each of {len(shares)} kinds, at most 10 moments in each; "
        f"lowest {min(shares):.2f}; the high end is {np.median(widths):.1f} times the low",
    }


def ranges_left(n: int, d: int, spread: float, seed: int) -> list[tuple[int, int, int]]:
    """The range of the questions left at some moments of a session, and the true number."""
    rng = np.random.default_rng([seed, n, d])
    X = rng.standard_normal((n, d)) if d else None
    scores = rng.standard_normal(n)
    if X is not None:
        linear = X @ rng.standard_normal(d)
        scores = np.sqrt(0.8) * linear / linear.std() + np.sqrt(0.2) * scores
    scores *= spread
    session = Session(X, n, seed=seed)
    moments = (np.array([0, 0.1, 0.25, 0.5, 1, 2, 3, 4, 6, 8]) * n).astype(int).tolist()
    ranges: list[tuple[int, int, int]] = []
    for k in range(40 * n):
        if k in moments:
            now = session.remaining()
            if now.stop:
                break
            if now.fewest is not None:
                most = 1 << 20 if now.most is None else now.most
                ranges.append((k, now.fewest, most))
        elif k % (2 + k // 40) == 0 and session.remaining().stop:
            break
        who = f"p{k % 2}"
        asked = session.ask(who)
        if not asked:
            return []  # it does not end with these annotators
        left = rng.random() < ndtr(scores[asked[0].left] - scores[asked[0].right])
        session.tell(asked[0].answered(who, "left" if left else "right"))
    return [(fewest, most, session.n_votes - at) for at, fewest, most in ranges]


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
    if sys.argv[1:2] == ["fit"]:
        print(fitted(*map(int, sys.argv[2:])))
        print("GB at most:", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6)
        return
    if sys.argv[1:2] == ["items"]:
        print(measured(int(sys.argv[2])))
        return
    if sys.argv[1:2] == ["label"]:
        print("GB at most:", label_gigabytes(int(sys.argv[2])))
        return
    if sys.argv[1:2] == ["left"]:
        print(left_row(SESSIONS, int(sys.argv[2])))
        return
    if len(sys.argv) > 1:
        print(judged(int(sys.argv[1])))
        return
    for row in run(quick=False):
        print({key: value for key, value in row.items() if value is not None})


if __name__ == "__main__":
    main()
