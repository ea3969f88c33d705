"""Models that err together: recorded verdicts of language models, beside gold pairs and people.

`llmbar`: six models judged 419 pairs in both orders, and 30 pairs, drawn for each seed, are
gold. `pandalm`: two models judged 999 pairs, and some answers of three people are drawn for each
seed; right is their majority, of the decided pairs that nobody was drawn for. Each is a session
with the answers and gold pairs in it. Peers take the same answers: majority vote, Dawid-Skene's
EM (Applied Statistics 28, 1979), and Bradley-Terry (here Thurstone) scores of all answers as if of
one person.

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


def dawid_skene(answers: Sequence[tuple[int, Judgement]], of: Recorded, rounds: int = 100) -> F64:
    """(p,) probabilities that a is better; a tie is a third answer, of two classes."""
    pair, first, who = _columns(answers, of)
    answer = np.rint(2 * first).astype(np.int64)
    votes = np.zeros((len(of.pairs), who.max() + 1, 3))
    np.add.at(votes, (pair, who, answer), 1)
    total = votes.sum(axis=1)
    share = (total[:, 2] + total[:, 1] / 2) / np.maximum(total.sum(axis=1), 1)
    p = np.stack((1 - share, share), axis=1)
    p[total.sum(axis=1) == 0] = 0.5
    for _ in range(rounds):
        prior = p[total.sum(axis=1) > 0].mean(axis=0)
        confusion = np.einsum("pc,pka->kca", p, votes) + 1e-10
        confusion /= confusion.sum(axis=2, keepdims=True)
        log = np.log(prior) + np.einsum("pka,kca->pc", votes, np.log(confusion))
        p = np.exp(log - log.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
    p[total.sum(axis=1) == 0] = 0.5
    return p[:, 1]


def majority(answers: Sequence[tuple[int, Judgement]], of: Recorded) -> F64:
    """(p,) share of answers that prefer a; ½ without any."""
    pair, first, _ = _columns(answers, of)
    n = np.bincount(pair, minlength=len(of.pairs))
    share: F64 = np.bincount(pair, first, len(of.pairs)) / np.maximum(n, 1)
    return np.where(n, share, 0.5)


def _columns(
    answers: Sequence[tuple[int, Judgement]], of: Recorded
) -> tuple[NDArray[np.int64], F64, NDArray[np.int64]]:
    """The pair, how far a is preferred (1, ½, 0), and the annotator of each answer."""
    target = {"left": 1.0, "tie": 0.5, "right": 0.0}
    names: dict[str, int] = {}
    rows = []
    for p, said in answers:
        first = target[said.word] if said.left == of.pairs[p, 0] else 1 - target[said.word]
        rows.append((p, first, names.setdefault(said.annotator, len(names))))
    pair, first, who = zip(*rows, strict=True)
    return np.array(pair), np.array(first), np.array(who)


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
    said = [judgement for _, judgement in of.models]
    alone = [(p, j) for p, j in of.models if j.annotator == "GPT-4"]
    found = []
    for seed in range(seeds):
        gold = np.random.default_rng(seed).permutation(len(of.pairs))[:30].tolist()
        p = fitted(of, said, gold)
        gpt = accuracy(majority(alone, of), of, gold)
        found.append((accuracy(p, of, gold), gpt, *covered(p, of, gold)))
    ours, gpt, coverage, sure = np.array(found).T
    before, without = (fitted(of, said, kinds=kinds) for kinds in (False, True))
    peers = {
        "majority": accuracy(majority(of.models, of), of),
        "Dawid-Skene": accuracy(dawid_skene(of.models, of), of),
        "taken for people": accuracy(before, of),
    }
    best = max(peers.values())
    note = ", ".join(f"{name} {value:.3f}" for name, value in peers.items())
    gain = ours - gpt
    return [
        _row(
            "llmbar, six models, 30 gold pairs: joined verdict right, beside GPT-4 alone",
            float(ours.mean()), float(gpt.mean()), ">= GPT-4 - .02",
            bool(gain.mean() >= -0.02 and ours.mean() > best),
            f"{seeds} draws of gold, on the other pairs; difference {gain.mean():+.3f} ± "
            f"{_error(gain):.3f}; lowest {ours.min():.3f}; without gold {note}, marked as models "
            f"{accuracy(without, of):.3f}",
        ),
        _row(
            "llmbar: coverage of .90 intervals, models beside 30 gold pairs; before: as people",
            float(coverage.mean()), covered(before, of)[0], ">= .85", bool(coverage.mean() >= 0.85),
            f"of intervals of one rank right: {np.nanmean(sure):.3f}, before "
            f"{covered(before, of)[1]:.3f}; models without gold {covered(without, of)[0]:.3f}",
        ),
    ]  # fmt: skip


def _of_pandalm(budgets: Sequence[int], seeds: int) -> Rows:
    of = pandalm()
    by_models = [judgement for _, judgement in of.models]
    models = fitted(of, by_models)
    rows: Rows = []
    for budget in budgets:
        found, coverages = [], []
        for seed in range(seeds):
            drawn = np.random.default_rng(seed).permutation(len(of.people))[:budget]
            some = [of.people[k] for k in drawn.tolist()]
            but = [p for p, _ in some]
            people = [judgement for _, judgement in some]
            both = [*some, *of.models]
            ways: dict[str, F64] = {
                "ours": fitted(of, [*people, *by_models]),
                "people": fitted(of, people),
                "models": models,
                "majority": majority(both, of),
                "Dawid-Skene": dawid_skene(both, of),
                "Bradley-Terry": fitted(of, _as_of_one([*people, *by_models])),
                "taken for people": fitted(of, [*people, *by_models], kinds=False),
            }
            found.append([accuracy(p, of, but) for p in ways.values()])
            coverages.append(
                [*covered(ways["ours"], of, but), *covered(ways["taken for people"], of, but)]
            )
        rows += _rows_of(budget, seeds, list(ways), np.array(found), np.array(coverages))
    return rows


def _as_of_one(judgements: Sequence[Judgement]) -> list[Judgement]:
    return [Judgement.of("all", (j.left, j.right), j.word) for j in judgements]


def _rows_of(budget: int, seeds: int, names: list[str], found: F64, coverages: F64) -> Rows:
    mean = dict(zip(names, found.mean(axis=0).tolist(), strict=True))
    gains = {name: found[:, 0] - found[:, k] for k, name in enumerate(names) if k}
    note = ", ".join(
        f"{name} {mean[name]:.3f} ({gain.mean():+.3f} ± {_error(gain):.3f})"
        for name, gain in gains.items()
    )
    best = max(mean["people"], mean["models"])
    ours, sure, before, sure_before = np.nanmean(coverages, axis=0).tolist()
    return [
        _row(
            f"pandalm, {budget} answers of people beside two models': right of the other pairs",
            mean["ours"], best, "> people alone, > models alone", mean["ours"] > best,
            f"{seeds} draws; {note}",
        ),
        _row(
            f"pandalm, {budget} answers of people: coverage of .90 intervals; before: as people",
            ours, before, ">= .85", ours >= 0.85,
            f"of intervals of one rank right: {sure:.3f}, before {sure_before:.3f}",
        ),
    ]  # fmt: skip


def _error(values: F64) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def _row(what: str, ours: float, peer: float, bar: str, ok: bool, note: str) -> dict[str, Any]:
    return {
        "what": what, "ours": ours, "peer": peer, "ratio": None, "bar": bar, "ok": ok, "note": note,
    }  # fmt: skip
