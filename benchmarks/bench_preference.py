"""How many questions a good ranking takes: the protocols of the literature.

Without --quick it takes about ten minutes; `--jobs N` shares it out.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtr
from scipy.stats import spearmanr

from sortnet.lab.simulated_annotators import simulate
from sortnet.preference.session import Session

BUDGETS = {20: (95, 190, 570), 100: (262, 525, 1050, 1840, 2700)}
FEW = (100, 150, 200, 250)  # questions about 100 items that decide what a session starts with
OF_FEATURES = (25, 50, 100, 200, 400)
PURE = "informative"  # a session without hold-out questions and repeats; `default` has both


def run(quick: bool, jobs: int = 1) -> list[dict[str, Any]]:
    """Every bar that a simulation can check."""
    seeds = 2 if quick else 100
    names = ("default", PURE, "merge-sort")
    n20 = simulate(names, BUDGETS[20], n=20, seeds=seeds, jobs=jobs)
    few, most = (2, BUDGETS[100][:2]) if quick else (60, BUDGETS[100])
    first = simulate(names, FEW[:2] if quick else FEW, n=100, seeds=few, jobs=jobs)
    n100 = simulate((PURE, "merge-sort"), most, n=100, seeds=few, jobs=jobs)
    rows = [*n20_rows(n20, quick), *n100_rows(first, quick, "default")]
    rows += [*n100_rows(first, quick), *n100_rows(n100, quick)]
    for outside in (0.0, 0.2):
        features = {"n": 100, "d": 5, "outside": outside, "jobs": jobs}
        budgets = OF_FEATURES[:3] if quick else OF_FEATURES
        found = simulate(("default", PURE), budgets, seeds=2 if quick else 60, **features)
        rows += features_rows(found, outside, quick)
    return [*rows, *ties_rows(quick), *people_rows(quick), *intervals_rows(quick)]


def n20_rows(frame: pd.DataFrame, quick: bool) -> list[dict[str, Any]]:
    rows = []
    for name in (PURE, "default"):
        there = frame[(frame.strategy == name) & (frame.questions == 190)]
        peer = frame[(frame.strategy == "merge-sort") & (frame.questions == 190)]
        which = "with" if name == "default" else "without"
        for value, bar, up in (("spearman", 0.942, True), ("rmse", 0.297, False)):
            ours = there[value].mean()
            rows.append(
                row(
                    f"n = 20, ids, 190 questions, {value}, {which} hold-out",
                    ours,
                    f"{'>=' if up else '<='} {bar:.3f}",
                    None if quick or name == "default" else bool((ours >= bar) == up),
                    f"± {there[value].sem():.4f}, {len(there)} seeds; peer: repeated merge sort",
                    peer[value].mean(),
                )
            )
    return rows


def n100_rows(frame: pd.DataFrame, quick: bool, name: str = PURE) -> list[dict[str, Any]]:
    """Against the merge sorts, truth by truth."""
    which = ", with hold-out" if name == "default" else ""
    table = frame.pivot_table(index="seed", columns=["strategy", "questions"], values="spearman")
    rows = []
    for m in sorted(frame.questions.unique()):
        gain = table[name][m] - table["merge-sort"][m]
        errors = gain.mean() / gain.sem()
        ours = table[name][m].mean()
        rows.append(
            row(
                f"n = 100, ids, {m} questions, spearman{which}",
                ours,
                "> 2 SE below repeated merge sort: never" + ("; >= .97" if m == 1840 else ""),
                None if quick else bool(errors >= -2 and (m != 1840 or ours >= 0.97)),
                f"{gain.mean():+.4f}, {errors:+.1f} standard errors, {len(gain)} seeds",
                table["merge-sort"][m].mean(),
            )
        )
    return rows


def features_rows(frame: pd.DataFrame, outside: float, quick: bool) -> list[dict[str, Any]]:
    bars = {100: 0.90} if outside else {50: 0.95, 100: 0.98}
    rows = []
    for (name, m), there in frame.groupby(["strategy", "questions"], sort=False):
        bar = bars.get(m)
        ours = there.spearman.mean()
        which = "with" if name == "default" else "without"
        rows.append(
            row(
                f"n = 100, 5 features, {outside:.0%} outside, {m} questions, {which} hold-out",
                ours,
                f">= {bar:.2f}" if bar else "",
                None if quick or bar is None or name == "default" else bool(ours >= bar),
                f"spearman, ± {there.spearman.sem():.4f}, {len(there)} seeds",
            )
        )
    return rows


def ties_rows(quick: bool) -> list[dict[str, Any]]:
    """Forty items of four grades and a perfect judge: questions until the session is done."""
    asked, wrong, said = np.array([graded(seed) for seed in range(100, 102 if quick else 110)]).T
    return [
        row(
            "40 items of 4 grades, a perfect judge, questions until it stops (the most)",
            asked.max(),
            "<= 300; wrong <= 2 %, said <= 10 %",
            None if quick else bool(asked.max() <= 300 and wrong.max() <= 0.02),
            f"mean {asked.mean():.0f}; truly wrong at most {wrong.max():.1%}, "
            f"said at most {said.max():.1%}, {len(asked)} seeds",
        )
    ]


def graded(seed: int) -> tuple[float, float, float]:
    """Questions until it stops, share truly wrong, share said to be wrong."""
    grade = np.random.default_rng(seed).permutation(np.arange(40) % 4)
    session = Session(None, 40, seed=seed)
    i, j = np.triu_indices(40, 1)
    while True:
        for _ in range(20):
            (asked,) = session.ask("p")
            more = grade[asked.left] - grade[asked.right]
            answer = "tie" if more == 0 else "left" if more > 0 else "right"
            session.tell(asked.answered("p", answer))
        remaining = session.remaining()
        if remaining.stop or session.events >= 600:
            score = session.ranking(fresh=False).score
            wrong = float(np.mean((score[i] - score[j]) * (grade[i] - grade[j]) < 0))
            return session.events, wrong, remaining.wrong


def people_rows(quick: bool) -> list[dict[str, Any]]:
    """A bad annotator beside three good ones: 40 items, 120 answers each."""
    rows = []
    seeds, each = (range(100, 102), 20) if quick else (range(100, 110), 120)
    good = np.mean([with_one_more(None, seed, each)[0] for seed in seeds])
    for kind, bar in (("random", 0.89), ("inverted", 0.90), ("left", 0.91)):
        found = [with_one_more(kind, seed, each) for seed in seeds]
        ours, cover = np.mean([one[:2] for one in found], axis=0)
        named = sum(one[2] for one in found)
        ok = ours >= bar and cover >= 0.85 and named >= 0.9 * len(seeds)
        rows.append(
            row(
                f"three good annotators and one {kind}, spearman",
                ours,
                f">= {bar:.2f}; cover >= .85; named in 9 of 10",
                None if quick else bool(ok),
                f"intervals cover {cover:.3f}, named {named} times after 80 answers, "
                f"{len(seeds)} seeds; peer: the good ones alone",
                float(good),
            )
        )
    return rows


def with_one_more(kind: str | None, seed: int, each: int) -> tuple[float, float, bool]:
    """Spearman, share of intervals that hold the truth, and whether `kind` was named."""
    rng = np.random.default_rng([seed, 7])
    q = 0.75 * rng.standard_normal(40)
    session = Session(None, 40, seed=seed)
    names = ["a", "b", "c", *([kind] if kind else [])]
    named = False
    for k in range(each):
        for who in names:
            (asked,) = session.ask(who)
            honest = rng.random() < ndtr(q[asked.left] - q[asked.right])
            others = {"random": rng.random() < 0.5, "inverted": not honest, "left": True}
            left = others.get(who, honest)
            session.tell(asked.answered(who, "left" if left else "right"))
        if k == 79 and kind:
            session.refit()
            (report,) = session.reports([kind])
            named = report.verdict != ""
    ranking = session.ranking()
    return float(spearmanr(ranking.score, q)[0]), covered(ranking, q), named


def intervals_rows(quick: bool) -> list[dict[str, Any]]:
    """How many 90 % intervals hold the truth, by what the features say."""
    at, seeds = ((30,), range(100, 102)) if quick else ((30, 80, 200), range(100, 106))
    rows = []
    for share, name in ((1.0, "all"), (0.8, "most"), (0.5, "half"), (0.0, "nothing")):
        for n in (20,) if quick else (20, 40, 100):
            shares = np.array([covers(share, n, at, seed) for seed in seeds])
            for m, cover in zip(at, shares.mean(axis=0), strict=True):
                rows.append(
                    row(
                        f"90 % intervals, {n} items, features that say {name}, {m} answers",
                        cover,
                        "0.85 to 0.97",
                        None if quick else bool(0.85 <= cover <= 0.97),
                        f"{len(shares)} seeds",
                    )
                )
    return rows


def covers(share: float, n: int, at: Sequence[int], seed: int) -> list[float]:
    """After each number of answers of two honest people, the share of intervals that cover."""
    rng = np.random.default_rng([seed, n])
    X = rng.standard_normal((n, 5))
    linear = X @ rng.standard_normal(5)
    q = np.sqrt(share) * linear / linear.std() + np.sqrt(1 - share) * rng.standard_normal(n)
    q *= 1.5
    session = Session(X, n, seed=seed)
    found = []
    for k in range(max(at)):
        for asked in session.ask("ab"[k % 2]):
            left = rng.random() < ndtr(q[asked.left] - q[asked.right])
            session.tell(asked.answered("ab"[k % 2], "left" if left else "right"))
        if k + 1 in at:
            found.append(covered(session.ranking(), q))
    return found


def covered(ranking: Any, q: np.ndarray) -> float:
    rank = np.empty(len(q), int)
    rank[np.argsort(-q)] = np.arange(1, len(q) + 1)
    return float(np.mean((ranking.low <= rank) & (rank <= ranking.high)))


def row(
    what: str, ours: float, bar: str, ok: bool | None, note: str, peer: float | None = None
) -> dict[str, Any]:
    return {
        **{"what": what, "ours": float(ours), "peer": peer},
        **{"ratio": None if peer is None else float(ours / peer)},
        **{"bar": bar, "ok": ok, "note": note},
    }


def main() -> None:
    jobs = int(sys.argv[sys.argv.index("--jobs") + 1]) if "--jobs" in sys.argv else 1
    for measured in run(quick="--quick" in sys.argv, jobs=jobs):
        print({key: value for key, value in measured.items() if value is not None}, flush=True)


if __name__ == "__main__":
    main()
