"""A top ten by a simulated language model: calls against NDCG@10, and whether the promise is kept.

The judge errs as a model of LLMBar does: whether it is right about a pair, with the better item on
the left and with it on the right, is drawn from that model's recorded verdicts, once for each pair,
so that asking again gives the same answer. Of two documents of one grade it prefers a random one.
The documents are BM25's first hundred of each query of TREC DL 2019, in that order for the sorts,
and with its score as the feature of a session.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtr

from sortnet.lab.asking_sorts import (
    Asking,
    bubble_passes,
    heapsort,
    merge_sort,
    next_items,
    quicksort,
)
from sortnet.lab.executor import in_parallel
from sortnet.lab.simulated_annotators import (
    NOISE,
    features_truth,
    ids_truth,
)
from sortnet.metrics import parse_metric, per_query
from sortnet.preference.goal import Goal
from sortnet.preference.session import Session

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
CALLS = (100, 300)
TOP = 10
SORTS = {"heapsort": heapsort, "quicksort": quicksort, "bubble passes": bubble_passes}
MODELS = ("GPT-4", "PaLM2")
JUDGE = "model"
SEEDS = 3
PROMISE = {"n": 20, "top": 5, "wrong": 1}
MOST = 1000  # questions of a run
NDCG = parse_metric("ndcg@10")


def run(quick: bool, jobs: int = 1) -> list[dict[str, Any]]:
    """The rows of the table; those of TREC only with the data."""
    rows: list[dict[str, Any]] = []
    for model in MODELS if DATA.exists() else ():
        rows += calls_rows(model, quick, jobs)
    return [*rows, *promise_rows(quick, jobs)]


def calls_rows(model: str, quick: bool, jobs: int) -> list[dict[str, Any]]:
    """NDCG@10 at equal calls, query by query, against each sort and a whole one."""
    queries, right = hundreds()[:: 20 if quick else 1], recorded(model)
    seeds, numbered = range(1 if quick else SEEDS), [*enumerate(queries)]
    tasks = [partial(of_query, k, query, right, seed) for seed in seeds for k, query in numbered]
    found = in_parallel(tasks, jobs, lambda text: None)
    table = {  # of each query, the mean over the seeds
        name: np.reshape([one[name] for one in found], (len(seeds), -1)).mean(axis=0)
        for name in found[0]
    }
    rows = []
    for calls in CALLS:
        ours = table["session", calls]
        for peer in SORTS:
            gain = ours - table[peer, calls]
            rows.append(_row(model, calls, peer, ours, table[peer, calls], "2 SE above", gain))
            rows[-1]["ok"] = None if quick else bool(gain.mean() >= 2 * _error(gain))
    whole, calls = table["merge sort", 0], CALLS[-1]
    gain = table["session", calls] - whole
    rows.append(_row(model, calls, "a whole merge sort", table["session", calls], whole, "", gain))
    rows[-1] |= {"bar": ">= -.02 (aim)", "ok": None if quick else bool(gain.mean() >= -0.02)}
    rows[-1]["note"] += f", which takes {table['calls of a merge sort', 0].mean():.0f} calls"
    return rows


def _row(
    model: str, calls: int, peer: str, ours: Any, theirs: Any, bar: str, gain: Any
) -> dict[str, Any]:
    error = _error(gain)
    return {
        "what": f"dl19, a judge that errs as {model}, NDCG@10 at {calls} calls, against {peer}",
        "ours": float(ours.mean()), "peer": float(theirs.mean()), "bar": bar,
        "note": f"{gain.mean():+.3f} ± {error:.3f} of {len(gain)} queries, mean and standard error",
    }  # fmt: skip


def _error(values: Any) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def hundreds() -> list[tuple[Any, Any]]:
    """The grades and BM25's scores of each query's documents, in BM25's order."""
    grades = {}
    for line in (DATA / "dl19" / "qrels.txt").read_text().splitlines():
        query, _, document, grade = line.split()
        grades[query, document] = int(grade)
    found = defaultdict(list)
    for line in (DATA / "dl19" / "bm25_top100.trec").read_text().splitlines():
        query, _, document, _, score, _ = line.split()
        found[query].append((grades.get((query, document), 0), float(score)))
    return [tuple(np.array(one).T) for one in found.values()]


def recorded(model: str) -> list[tuple[bool, bool]]:
    """Whether a model is right about each pair of LLMBar: the better one on the left, the right."""
    verdicts = []
    for line in (DATA / "llmbar" / "pairs.jsonl").read_text().splitlines():
        pair = json.loads(line)
        said, gold = pair["judges"][model], pair["gold"]
        first, second = ("a_first", "b_first") if gold == "a" else ("b_first", "a_first")
        verdicts.append((said[first] == gold, said[second] == gold))
    return verdicts


def judge_of(
    grades: Any, right: list[tuple[bool, bool]], rng: np.random.Generator
) -> Callable[[int, int], bool]:
    """Whether the judge prefers the left one of two documents, the same whenever it is asked."""
    n = len(grades)
    verdict, coin = np.array(right)[rng.integers(len(right), size=(n, n))], rng.random((n, n))

    def prefers_left(left: int, right: int) -> bool:
        pair = min(left, right), max(left, right)
        better = grades[left] > grades[right]
        if grades[left] == grades[right]:
            better = (coin[pair] < 0.5) == (left < right)
        is_right = verdict[pair][0 if better else 1]
        return bool(better == is_right)

    return prefers_left


def of_query(
    number: int, query: tuple[Any, Any], right: list[tuple[bool, bool]], seed: int
) -> dict[tuple[str, int], float]:
    """NDCG@10 of one query by each way to ask, and number of calls."""
    (grades, bm25), n = query, len(query[0])
    rng = np.random.default_rng([seed, number])
    prefers_left, swapped = judge_of(grades, right, rng), rng.random((n, n)) < 0.5

    def wins(i: int, j: int) -> bool:
        """Whether i is preferred, on a random side."""
        return not prefers_left(j, i) if swapped[min(i, j), max(i, j)] else prefers_left(i, j)

    def ndcg(order: Any) -> float:
        found = per_query(NDCG, grades[np.asarray(order)].astype(np.int64), [0, n])[0]
        return 0.0 if np.isnan(found) else float(found)

    found: dict[tuple[str, int], float] = {}
    for name, sort in SORTS.items():
        order = list(range(n))
        for calls, state in states_of(sort(order, TOP), order, wins).items():
            found[name, calls] = ndcg(state)
    whole, count = list(range(n)), 0
    sort = merge_sort(whole, n)
    items = next(sort, None)
    while items is not None:
        i, j = items
        items = next_items(sort, i if wins(i, j) else j)
        count += 1
    found |= {("merge sort", 0): ndcg(whole), ("calls of a merge sort", 0): count}
    session = Session(bm25[:, None], seed=seed, goal=Goal(top=TOP))
    for calls in CALLS:
        while session.events < calls:
            (asked,) = session.ask(JUDGE)
            said = "left" if prefers_left(asked.left, asked.right) else "right"
            session.tell(asked.answered(JUDGE, said))
        found["session", calls] = ndcg(session.ranking().order)
    return found


def states_of(
    asking: Asking, order: list[int], wins: Callable[[int, int], bool]
) -> dict[int, list[int]]:
    """The state of a sort after each number of calls; the last one if it ends before."""
    states: dict[int, list[int]] = {}
    pair = next(asking, None)
    for calls in range(CALLS[-1] + 1):
        if calls in CALLS:
            states[calls] = order.copy()
        if pair is None:
            break
        i, j = pair
        pair = next_items(asking, i if wins(i, j) else j)
    return {calls: states.get(calls, order) for calls in CALLS}


def promise_rows(quick: bool, jobs: int) -> list[dict[str, Any]]:
    """Sessions until they stop, by four annotators: how many of the top are really wrong."""
    rows = []
    for what, d, outside in (("without features", 0, 0.0), ("5 features, half outside", 5, 0.5)):
        runs = range(2 if quick else 50)
        found = in_parallel([partial(kept, d, outside, k) for k in runs], jobs, lambda text: None)
        stopped = np.array([one for one in found if one is not None])
        share = float(np.mean(stopped[:, 0] <= PROMISE["wrong"])) if len(stopped) else float("nan")
        error = np.sqrt(0.9 * 0.1 / max(len(stopped), 1))
        rows.append(
            {
                "what": f"{PROMISE['n']} items, {what}, goal top {PROMISE['top']}, "
                f"{PROMISE['wrong']} wrong: runs in which no more were wrong",
                "ours": share, "bar": ">= 0.90, less 2 SE",
                "ok": None if quick else bool(share >= 0.9 - 2 * error),
                "note": f"± {error:.3f}; {len(stopped)} of {len(found)} runs stopped, after "
                f"{np.median(stopped[:, 1]) if len(stopped) else 0:.0f} questions (median)",
            }
        )  # fmt: skip
    return rows


def kept(d: int, outside: float, seed: int) -> tuple[int, int] | None:
    """Number of the chosen that are wrong, and of questions; None if it does not stop."""
    rng = np.random.default_rng([2, seed])
    n, top = PROMISE["n"], PROMISE["top"]
    truth = features_truth(n, d, outside, rng) if d else ids_truth(n, rng)
    session = Session(truth.features, n, seed=seed, goal=Goal(PROMISE["wrong"] / top, top))
    best = np.argsort(-truth.scores)[:top]
    while session.events < MOST:
        who = f"person-{session.events % 4}"
        if not (questions := session.ask(who)):
            return None
        (asked,) = questions
        win = rng.random() < ndtr((truth.scores[asked.left] - truth.scores[asked.right]) / NOISE)
        session.tell(asked.answered(who, "left" if win else "right"))
        if session.events % 5 == 0 and session.remaining().stop:
            chosen = session.ranking(fresh=False).order[:top]
            return top - int(np.isin(chosen, best).sum()), session.events
    return None


if __name__ == "__main__":
    for one in run("--quick" in sys.argv):
        print(one)
