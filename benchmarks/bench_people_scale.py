"""Many items to ask people about: what a question, a ranking and a fit cost beside 10,000 items.

The items have five features; as many answers as a twentieth of the items, of twenty annotators.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from sortnet.preference import Judgement
from sortnet.preference.session import Session

PEOPLE = 20


def run(quick: bool) -> list[dict[str, Any]]:
    """Rows of each size, whose peer is the smallest; per item where all items are touched."""
    sizes = (500, 1_000) if quick else (10_000, 100_000, 1_000_000)
    found = {n: measured(n) for n in sizes}
    smallest = found[sizes[0]]
    rows = []
    for n in sizes[1:]:
        for what, ours in found[n].items():
            peer = smallest[what]
            ok = None if quick else ours <= 3 * peer
            rows.append(
                {"what": f"{what}, {n:,} items", "ours": ours, "peer": peer, "ratio": ours / peer}
                | {"bar": "<= 3 x peer", "ok": ok, "note": f"peer: {sizes[0]:,} items"}
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
    start = time.process_time()
    session = Session(X, n)
    for k, (i, j, w) in enumerate(zip(left.tolist(), right.tolist(), won.tolist(), strict=True)):
        session.tell(Judgement(f"p{k % PEOPLE}", i, j, "left" if w else "right"))
    opened = time.process_time() - start
    fitted = seconds(session.refit)
    (asked,) = session.ask("ana", wait=False)  # sorts the items by the new fit
    waited = []
    for _ in range(40):
        start = time.process_time()
        session.tell(asked.answered("ana", "left"))
        (asked,) = session.ask("ana", wait=False)
        waited.append(1000 * (time.process_time() - start))
    return {
        "answer and next question, p95 in CPU ms": float(np.quantile(waited, 0.95)),
        "open a session, CPU us an item": 1e6 * opened / n,
        "fit from scratch, CPU us an item": 1e6 * fitted / n,
        "ranking, CPU us an item": 1e6 * seconds(lambda: session.ranking(fresh=False)) / n,
    }


def seconds(work: Any) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> None:
    for row in run(quick=False):
        print({key: value for key, value in row.items() if value is not None})


if __name__ == "__main__":
    main()
