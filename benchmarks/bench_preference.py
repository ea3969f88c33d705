"""How many questions a good ranking takes: the protocols of the literature, and real votes.

Without --quick it takes about ten minutes; `--jobs N` shares it out.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtr
from scipy.stats import spearmanr

from cli.inputs.votes import read_votes
from sortnet.items import describe, read_items
from sortnet.lab.recorded_votes import accuracy
from sortnet.lab.simulated_annotators import simulate
from sortnet.preference import Judgement
from sortnet.preference.session import Session

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "ukpconvarg1"
BUDGETS = {20: (95, 190, 570), 100: (262, 525, 1050, 1840, 2700)}
FEW = (100, 150, 200, 250)  # questions about 100 items that decide what a session starts with
OF_FEATURES = (25, 50, 100, 200, 400)
PURE = "informative"  # a session without hold-out questions and repeats; `default` has both


def run(quick: bool, jobs: int = 1) -> list[dict[str, Any]]:
    """Every bar that a simulation can check, and the time of a question."""
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
    for n, seeds in ((200, 12), (500, 6)):
        rows += many_rows(n, 2 if quick else seeds, quick, jobs)
    rows += [*ties_rows(quick), *people_rows(quick), *intervals_rows(quick)]
    return [*rows, *arguments_rows(quick), question_row(quick)]


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


def many_rows(n: int, seeds: int, quick: bool, jobs: int) -> list[dict[str, Any]]:
    """More items than are fitted after every few answers: against random pairs and merge sorts."""
    budget = 60 if quick else 1000
    peers = ("random", "merge-sort")
    found = simulate(
        ("default", *peers), (budget,), n=n, d=5, outside=0.2, seeds=seeds, seed=1, jobs=jobs
    )
    table = found.pivot_table(index="seed", columns="strategy", values="spearman")
    ours = table["default"]
    rows = []
    for peer in peers:
        gain = ours - table[peer]
        errors = gain.mean() / gain.sem()
        high = n != 200 or ours.mean() >= 0.96
        rows.append(
            row(
                f"n = {n}, 5 features, a fifth outside, {budget} questions, with hold-out",
                ours.mean(),
                f"> 2 SE below {peer}: never" + ("; >= .96" if n == 200 else ""),
                None if quick else bool(errors >= -2 and high),
                f"spearman, {gain.mean():+.4f}, {errors:+.1f} standard errors, {seeds} seeds",
                table[peer].mean(),
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


def arguments_rows(quick: bool) -> list[dict[str, Any]]:
    """Strict pairs of `ukpconvarg1` by features alone, one topic left out after another."""
    if not DATA.exists():
        return []
    items = read_items(DATA / "items.tsv", features=())
    known, group = read_votes(DATA / "strict_pairs.tsv", items, "topic")
    assert group is not None
    features = describe(items).features.astype(np.float64)
    if quick:
        some = group < 3
        known, group = known.where(some), group[some]
    shares = {this: predicted(features, known, group == this) for this in np.unique(group).tolist()}
    share = sum(shares[g] for g in group.tolist()) / len(group)
    length = left_length(features, known)
    return [
        row(
            "ukpconvarg1, a topic left out, strict pairs right",
            share,
            ">= 0.80",
            None if quick else bool(share >= 0.8),
            f"{len(known)} pairs, {len(shares)} topics; worst "
            f"{min(shares.values()):.3f}, best {max(shares.values()):.3f}; peer: length alone",
            length,
        )
    ]


def add_votes(session: Session, known: Any) -> None:
    """Add votes to a session, all as one annotator's."""
    answers = {0.0: "right", 0.5: "tie", 1.0: "left"}
    columns = known.left.tolist(), known.right.tolist(), known.target.tolist()
    session.replay(
        Judgement.of("file", (left, right), answers[target])
        for left, right, target in zip(*columns, strict=True)
    )


def predicted(features: np.ndarray, known: Any, left_out: np.ndarray) -> float:
    """The share of some votes that a session fitted to the others predicts; a tie counts half."""
    session = Session(features)
    add_votes(session, known.where(~left_out))
    return accuracy(session.ranking().score, known.where(left_out))


def left_length(features: np.ndarray, known: Any) -> float:
    """What the first feature, the length of the text, says of the pairs."""
    return accuracy(features[:, 0], known)


def question_row(quick: bool) -> dict[str, Any]:
    """The time of one question of a large session that has been fitted."""
    n, m = (1000, 2000) if quick else (10_000, 100_000)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 5))
    q = X @ rng.standard_normal(5) + rng.standard_normal(n)
    session = Session(X, seed=0)
    left = rng.integers(n, size=m)
    right = (left + rng.integers(1, n, size=m)) % n
    won = q[left] + rng.standard_normal(m) > q[right]
    said = enumerate(zip(left.tolist(), right.tolist(), won.tolist(), strict=True))
    session.replay(
        Judgement.of(f"p{k % 20}", (i, j), "left" if w else "right") for k, (i, j, w) in said
    )
    start = time.perf_counter()
    session.refit()
    fitted = time.perf_counter() - start
    waited = []
    for k in range(200):
        start = time.perf_counter()
        (asked,) = session.ask(f"p{k % 20}")
        waited.append(1000 * (time.perf_counter() - start))
        session.tell(Judgement.of(f"p{k % 20}", (asked.left, asked.right), "left"))
    p95 = float(np.quantile(waited, 0.95))
    return row(
        f"a question at {n:,} items and {m:,} answers, p95 in ms",
        p95,
        "< 20 ms",
        None if quick else p95 < 20,
        f"median {np.median(waited):.1f} ms; learning from scratch beside it {fitted:.1f} s",
    )


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
