"""Models that err together: recorded verdicts of language models, beside gold pairs and people.

`llmbar`: six models judged 419 pairs in both orders, and 30 pairs, drawn for each seed, are
gold. `pandalm`: two models judged 999 pairs, and some answers of three people are drawn for each
seed; right is their majority, of the decided pairs that nobody was drawn for. Each is a session
with the answers and gold pairs in it. Peers take the same answers: a majority vote, and a session
that takes the models for people.

Intervals contain the rank of an item of a pair with probability .90. Where an interval is of one
rank, and only there, it can be wrong: its share that is right is reported with the coverage.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtr

from sortnet.preference import Judgement
from sortnet.preference.session import Session
from sortnet.preference.study import Decision, study_of

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
ANSWER = {True: "left", False: "right"}
F64: TypeAlias = NDArray[np.float64]
Rows: TypeAlias = list[dict[str, Any]]


@dataclass(frozen=True)
class Recorded:
    """Pairs of items of one group each, and what models said of them.

    Attributes:
        pairs: (p, 2) items a and b of each pair.
        groups: (n,) of the items.
        models: judgements of models, by pair: (pair, judgement).
        people: the same of people.
        gold: (p,) 1 where a is better, 0 where b is, NaN where that is not known.
    """

    pairs: NDArray[np.int64]
    groups: list[str]
    models: list[tuple[int, Judgement]]
    people: list[tuple[int, Judgement]]
    gold: F64


def run(quick: bool) -> Rows:
    """The rows of the table; none without the data."""
    found = _of_llmbar(2 if quick else 10) if (DATA / "llmbar").exists() else []
    if (DATA / "pandalm").exists():
        found += _of_pandalm((50,) if quick else (25, 50, 100), 2 if quick else 4)
    return found


def llmbar() -> Recorded:
    """419 pairs, each a group of its own."""
    lines = _lines("llmbar")
    models = []
    for p, line in enumerate(lines):
        for model, verdicts in sorted(line["judges"].items()):
            for order, (left, right) in {"a": (2 * p, 2 * p + 1), "b": (2 * p + 1, 2 * p)}.items():
                verdict = verdicts[f"{order}_first"]
                if verdict in ("a", "b"):
                    models.append((p, Judgement.of(model, (left, right), ANSWER[verdict == order])))
    n = len(lines)
    gold = np.array([float(line["gold"] == "a") for line in lines])
    groups = [str(k // 2) for k in range(2 * n)]
    return Recorded(np.arange(2 * n).reshape(n, 2), groups, models, [], gold)


def pandalm() -> Recorded:
    """999 pairs of 722 answers to 170 instructions."""
    items: dict[tuple[str, str, str, str], int] = {}
    pairs, models, people, gold = [], [], [], []
    for p, line in enumerate(_lines("pandalm")):
        asked = line["group"], line["instruction"], line["input"]
        a, b = (items.setdefault((*asked, line[side]), len(items)) for side in "ab")
        pairs.append((a, b))
        said = {"a": "left", "b": "right", "tie": "tie"}
        for who, verdict in {name: line[name] for name in ("gpt35", "pandalm7b")}.items():
            if verdict in said:
                models.append((p, Judgement.of(who, (a, b), said[verdict])))
        for k, verdict in enumerate(line["people"]):
            people.append((p, Judgement.of(f"person-{k + 1}", (a, b), said[verdict])))
        lead = line["people"].count("a") - line["people"].count("b")
        gold.append(np.nan if lead == 0 else float(lead > 0))
    groups = ["\0".join(item[:3]) for item in items]
    return Recorded(np.array(pairs), groups, models, people, np.array(gold))


def _lines(name: str) -> Rows:
    return [json.loads(line) for line in (DATA / name / "pairs.jsonl").open(encoding="utf-8")]


def fitted(
    of: Recorded, judgements: Sequence[Judgement], gold: Sequence[int] = (), *, kinds: bool = True
) -> F64:
    """(p,) probabilities that a is better, by a session with these answers.

    Args:
        gold: the pairs whose answer is known.
        kinds: whether the models are known to be models.
    """
    who = {judgement.annotator for _, judgement in of.models} if kinds else set()
    better = [of.pairs[p] if of.gold[p] else of.pairs[p, ::-1] for p in gold]
    known = [Decision("gold", item=int(i), other=int(j)) for i, j in better]
    study = study_of([*known, *(Decision("model", name) for name in who)])
    session = Session(None, len(of.groups), groups=of.groups, study=study)
    session.replay(judgements)
    session.refit()
    mean, variance = session.posterior.difference(*of.pairs.T)
    p: F64 = ndtr(mean / np.sqrt(variance))
    return p


def majority(answers: Sequence[tuple[int, Judgement]], of: Recorded) -> F64:
    """(p,) share of answers that prefer a; ½ without any."""
    votes: list[list[float]] = [[] for _ in of.pairs]
    for p, judgement in answers:
        a = of.pairs[p, 0]
        votes[p].append(0.5 if judgement.best is None else float(judgement.best == a))
    return np.array([np.mean(of_pair) if of_pair else 0.5 for of_pair in votes])


def accuracy(p: F64, of: Recorded, but: Sequence[int] = ()) -> float:
    """Share of the pairs with a known answer that are right, some left out; ½ counts half."""
    some = ~np.isnan(of.gold)
    some[list(but)] = False
    right = np.where(np.isclose(p, 0.5), 0.5, (p > 0.5) == (of.gold == 1))
    return float(right[some].mean())


def covered(p: F64, of: Recorded, but: Sequence[int] = ()) -> tuple[float, float]:
    """Coverage of the intervals of ranks; and the share of those of one rank that are right.

    An interval of .90 has one rank where that has the probability .90 or more, else both.
    """
    some = ~np.isnan(of.gold)
    some[list(but)] = False
    sure = (np.maximum(p, 1 - p) >= 0.9)[some]
    right = ((p > 0.5) == (of.gold == 1))[some]
    return float((right | ~sure).mean()), float(right[sure].mean()) if sure.any() else np.nan


def _of_llmbar(seeds: int) -> Rows:
    of = llmbar()
    by_models = [judgement for _, judgement in of.models]
    gpt4 = majority([(p, j) for p, j in of.models if j.annotator == "GPT-4"], of)
    figures = []
    for seed in range(seeds):
        gold = np.random.default_rng(seed).permutation(len(of.pairs))[:30].tolist()
        p = fitted(of, by_models, gold)
        figures.append((accuracy(p, of, gold), accuracy(gpt4, of, gold), *covered(p, of, gold)))
    ours, peer, coverage, sure = np.array(figures).T
    as_people, without_gold = (fitted(of, by_models, kinds=kinds) for kinds in (False, True))
    votes, people = accuracy(majority(of.models, of), of), accuracy(as_people, of)
    gain = ours - peer
    return [
        _row(
            "llmbar, six models, 30 gold pairs: joined verdict right, beside GPT-4 alone",
            float(ours.mean()), float(peer.mean()), ">= GPT-4 - .02",
            bool(gain.mean() >= -0.02 and ours.mean() > max(votes, people)),
            f"{seeds} draws of gold, on the other pairs; difference {gain.mean():+.3f} ± "
            f"{_error(gain):.3f}; lowest {ours.min():.3f}; without gold majority {votes:.3f}, "
            f"taken for people {people:.3f}, marked as models {accuracy(without_gold, of):.3f}",
        ),
        _row(
            "llmbar: coverage of .90 intervals, models beside 30 gold pairs; before: as people",
            float(coverage.mean()), covered(as_people, of)[0], ">= .85",
            bool(coverage.mean() >= 0.85),
            f"of intervals of one rank right: {np.nanmean(sure):.3f}",
        ),
    ]  # fmt: skip


def _of_pandalm(budgets: Sequence[int], seeds: int) -> Rows:
    of = pandalm()
    by_models = [judgement for _, judgement in of.models]
    models = fitted(of, by_models)
    rows: Rows = []
    for budget in budgets:
        right, coverages = [], []
        for seed in range(seeds):
            drawn = np.random.default_rng(seed).permutation(len(of.people))[:budget]
            answers = [of.people[k] for k in drawn.tolist()]
            but = [p for p, _ in answers]
            people = [judgement for _, judgement in answers]
            ways = {
                "ours": fitted(of, [*people, *by_models]),
                "people": fitted(of, people),
                "models": models,
                "majority": majority([*answers, *of.models], of),
                "taken for people": fitted(of, [*people, *by_models], kinds=False),
            }
            right.append({name: accuracy(p, of, but) for name, p in ways.items()})
            as_people, _ = covered(ways["taken for people"], of, but)
            coverages.append((*covered(ways["ours"], of, but), as_people))
        rows += _rows_of(budget, pd.DataFrame(right), np.nanmean(coverages, axis=0).tolist())
    return rows


def _rows_of(budget: int, right: pd.DataFrame, coverages: list[float]) -> Rows:
    mean = right.mean()
    note = ", ".join(
        f"{name} {mean[name]:.3f} ({gain.mean():+.3f} ± {_error(gain):.3f})"
        for name, gain in ((name, right["ours"] - right[name]) for name in right.columns[1:])
    )
    best = max(mean["people"], mean["models"])
    coverage, sure, as_people = coverages
    return [
        _row(
            f"pandalm, {budget} answers of people beside two models': right of the other pairs",
            mean["ours"], best, "> people alone, > models alone", mean["ours"] > best,
            f"{len(right)} draws; {note}",
        ),
        _row(
            f"pandalm, {budget} answers of people: coverage of .90 intervals; before: as people",
            coverage, as_people, ">= .85", coverage >= 0.85,
            f"of intervals of one rank right: {sure:.3f}",
        ),
    ]  # fmt: skip


def _error(values: Any) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


def _row(what: str, ours: float, peer: float, bar: str, ok: bool, note: str) -> dict[str, Any]:
    return {
        "what": what, "ours": float(ours), "peer": peer, "ratio": None, "bar": bar,
        "ok": bool(ok), "note": note,
    }  # fmt: skip
