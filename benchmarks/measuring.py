"""What the benchmarks share: rows with their bars, differences with errors, times, and data."""

from __future__ import annotations

import re
import resource
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np

from sortnet.core import I64, Queries
from sortnet.data import Fold, read_fold
from sortnet.lab.executor import in_parallel
from sortnet.metrics import evaluate

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
NDCG = "ndcg@10"  # gain 2^grade - 1; queries without a relevant document are left out
JOBS = 2
N_QUERIES_QUICK = 8  # of each part, see `smaller`
Row: TypeAlias = dict[str, Any]
T = TypeVar("T")
_BAR = re.compile(r"(ours|peer|ratio) ([<>]=) (?:(peer) ([+-]) )?([\d.-]+)")


def row(
    what: str, ours: Any, peer: Any = None, *, bar: str = "", note: str = "", **more: Any
) -> Row:
    """Make a row of the table.

    Args:
        what: what was measured; the pages find the row by this name.
        ours: the figure of SortNet.
        peer: the figure beside it.
        bar: inequalities such as `ours >= peer - 0.005` or `ratio <= 0.4`, joined by ", ". They
            decide `ok`; a bar in other words has its `ok` among `more`.
        note: how it was measured.
        more: further columns.
    """
    ratio = ours / peer if ours is not None and peer else None
    figures = {"ours": ours, "peer": peer, "ratio": ratio}
    tests = [_BAR.fullmatch(test) for test in bar.split(", ")]
    ok = all(_holds(test, figures) for test in tests if test) if all(tests) else None
    return {"what": what, **figures, "bar": bar, "ok": ok, "note": note, **more}


def _holds(test: re.Match[str], figures: dict[str, Any]) -> bool:
    """Whether an inequality of a bar holds."""
    side, sign, other, plus_or_minus, number = test.groups()
    bound = float(number)
    if other:
        bound = figures[other] + (bound if plus_or_minus == "+" else -bound)
    return bool(figures[side] <= bound if sign == "<=" else figures[side] >= bound)


def error(values: Any) -> float:
    """Standard error of a mean; 0 of a single value."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def difference(ours: Any, theirs: Any, digits: int = 4) -> str:
    """The mean of paired differences with its standard error: `+0.0095 ± 0.0013`."""
    gain = np.asarray(ours) - np.asarray(theirs)
    return f"{gain.mean():+.{digits}f} ± {error(gain):.{digits}f}"


def fastest(*works: Callable[[], object], rounds: int) -> list[float]:
    """Seconds of the fastest call of each, in turn: other work on the machine hits all alike."""
    seconds = np.empty((rounds, len(works)))
    for number in range(rounds):
        for k, work in enumerate(works):
            start = time.perf_counter()
            work()
            seconds[number, k] = time.perf_counter() - start
    return [float(least) for least in seconds.min(axis=0)]


def seconds_of(work: Callable[[], object]) -> float:
    """Seconds of one call."""
    return fastest(work, rounds=1)[0]


def alone(work: Callable[..., T], *arguments: Any) -> tuple[T, float]:
    """Result of a call in a process of its own, and the peak of its memory in GB."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_with_peak, work, arguments).result()


def _with_peak(work: Callable[..., T], arguments: Sequence[Any]) -> tuple[T, float]:
    result = work(*arguments)
    return result, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def status(name: str) -> int:
    """Bytes in a line of this process's status on Linux: `VmHWM`, the peak, or `RssAnon`."""
    text = Path("/proc/self/status").read_text()
    return 1024 * int(text.split(f"{name}:")[1].split()[0])


def spread(work: Callable[..., T], cases: Iterable[Sequence[Any]]) -> list[T]:
    """Results of a function for each case, from processes of one thread each, in order."""
    return in_parallel([partial(work, *case) for case in cases], JOBS, lambda text: None)


def mq2008(numbers: Iterable[int] = range(1, 6)) -> list[Fold]:
    """The official folds of MQ2008; none where the data are not there."""
    folders = [DATA / "mq2008" / f"Fold{number}" for number in numbers]
    return [read_fold(folder) for folder in folders if folder.exists()]


def smaller(fold: Fold) -> Fold:
    """The first queries of each part."""
    parts = (fold.train, fold.vali, test_part(fold))
    return Fold(*(part.take(np.arange(min(N_QUERIES_QUICK, len(part)))) for part in parts))


def test_part(fold: Fold) -> Queries:
    """The test part of a fold that has one."""
    assert fold.test is not None
    return fold.test


def order_of(scores: Any, queries: Queries) -> I64:
    """The documents query by query, by descending scores."""
    return np.lexsort((-np.asarray(scores), queries.query_of_docs()))


def ndcg(queries: Queries, order: I64) -> float:
    """NDCG@10 of an order of the documents."""
    return evaluate(queries, order, NDCG, empty="skip")[NDCG]
