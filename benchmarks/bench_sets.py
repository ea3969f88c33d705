"""Questions about four items beside pairs: quality by calls, intervals, and time for a question.

The judges have noisy utilities: an answer names the best, and perhaps the worst, of the items by
their grades with normal noise, drawn for each answer. The documents are BM25's first hundred of
queries of TREC DL 2019, and the feature of a session is BM25's score.
"""

from __future__ import annotations

import csv
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr
from scipy.stats import spearmanr

sys.path.append(str(Path(__file__).resolve().parent))

from bench_llm_top import DATA, NDCG, hundreds

from sortnet.items import describe, read_items
from sortnet.lab.asking_sorts import setwise_heapsort
from sortnet.lab.simulated_annotators import in_parallel
from sortnet.metrics import per_query
from sortnet.preference.base import Judgement, Question
from sortnet.preference.design import design
from sortnet.preference.goal import Goal
from sortnet.preference.history import History
from sortnet.preference.judgement_table import Judgements
from sortnet.preference.laplace import fit
from sortnet.preference.session import Session

CALLS = (50, 100, 200, 300)
TOP = 10
JUDGE = "judge"
PAIRS, NAIVE, FOURS, BEST = "pairs", "fours, naive", "fours", "fours, best alone"
HEAPSORT = "setwise heapsort"
BARS = {
    0.87: {100: 0.90},
    0.70: {200: 0.73, 300: 0.83},
}  # of NDCG@10 by calls
BIAS = 0.5  # of the first place over the last, in units of the noise of a pair
COVERAGE = 0.88
QUESTIONS = 2_000
SLOWEST = 20.0  # milliseconds
Answering: TypeAlias = Callable[[Question], Judgement]
Noise: TypeAlias = Callable[[int], Any]


def run(quick: bool, jobs: int = 1) -> list[dict[str, Any]]:
    """The rows of the table; those of TREC only with the data."""
    rows: list[dict[str, Any]] = []
    if DATA.exists():
        for accuracy in BARS:
            rows += quality_rows(accuracy, quick, jobs)
        rows += [*other_noise_rows(quick, jobs), *humour_rows(quick)]
    return [*rows, *coverage_rows(quick, jobs), *pace_rows(quick)]


def noise_of(grades: Any, accuracy: float) -> float:
    """The noise of a utility with which a pair of different grades is answered right so often."""
    gaps = np.abs(grades[:, None] - grades)[np.triu_indices(len(grades), 1)]
    return noise_of_gaps(gaps[gaps > 0], accuracy)


def noise_of_gaps(gaps: Any, accuracy: float) -> float:
    """The noise of a utility with which pairs of these gaps are answered right so often."""

    def excess(log_noise: float) -> float:
        return float(ndtr(gaps / (np.sqrt(2) * np.exp(log_noise))).mean()) - accuracy

    return float(np.exp(brentq(excess, -5, 5)))


def noises(sd: float, rng: np.random.Generator) -> dict[str, Noise]:
    """Noise of the utilities in so many places: normal, with a bias by place, with heavy tails."""

    def biased(places: int) -> Any:
        return sd * (rng.standard_normal(places) + BIAS * np.sqrt(2) * (np.arange(places) == 0))

    return {
        "normal": lambda places: sd * rng.standard_normal(places),
        "a bias to the first place": biased,
        "heavy tails": lambda places: sd * rng.standard_t(3, places) / np.sqrt(3),
    }


def answering(utility: Any, noise: Noise, *, worst: bool = True, judge: str = JUDGE) -> Answering:
    """A judge by utilities and the noise of so many places."""

    def answer(question: Question) -> Judgement:
        items = question.items
        seen = utility[list(items)] + noise(len(items))
        if len(items) == 2:
            return question.answered(judge, "left" if seen[0] > seen[1] else "right")
        last = items[int(seen.argmin())] if worst else None
        return question.answered(judge, "best", best=items[int(seen.argmax())], worst=last)

    return answer


def ndcg(grades: Any, order: Any) -> float:
    found = per_query(NDCG, grades[np.asarray(order)].astype(np.int64), [0, len(grades)])[0]
    return 0.0 if np.isnan(found) else float(found)


def of_query(
    number: int, query: Any, accuracy: float, way: str, noise: str = "normal"
) -> list[float]:
    """NDCG@10 after each number of calls by one way to ask."""
    grades, bm25 = query
    rng = np.random.default_rng([number, round(100 * accuracy)])
    noise_of_places = noises(noise_of(grades, accuracy), rng)[noise]
    answer = answering(grades, noise_of_places, worst=way != BEST)
    if way == HEAPSORT:
        return of_sort(grades, answer)
    size = 2 if way in (PAIRS, NAIVE) else 4
    session = Session(bm25[:, None], seed=0, goal=Goal(top=TOP), set_size=size)
    quality = []
    for calls in CALLS:
        while session.events < calls:
            question = session.ask(JUDGE)[0]
            if way == NAIVE and question.strategy != "random":
                question = naive_four(question, session.ranking(fresh=False).order, rng)
            session.tell(answer(question))
        quality.append(ndcg(grades, session.ranking().order))
    return quality


def naive_four(pair: Question, order: Any, rng: np.random.Generator) -> Question:
    """A pair, and two items drawn from the present top 25."""
    more = rng.permutation([item for item in order[:25] if item not in pair.items])[:2]
    left, right, *further = rng.permutation([*pair.items, *more]).tolist()
    return Question(left, right, "naive", 1.0, 0, tuple(further))


def of_sort(grades: Any, answer: Answering) -> list[float]:
    """NDCG@10 of the state of a setwise heapsort after each number of calls, or at its end."""
    order = list(range(len(grades)))
    sort = setwise_heapsort(order, TOP, 4)
    quality = []
    best: int | None = None
    for calls in range(CALLS[-1] + 1):
        if calls in CALLS:
            quality.append(ndcg(grades, order))
        try:
            items = next(sort) if best is None else sort.send(best)
        except StopIteration:
            break
        judgement = answer(Question(items[0], items[1], "given", 1.0, 0, tuple(items[2:])))
        best = judgement.comparisons()[0][0]
    last = ndcg(grades, order)
    return quality + [last] * (len(CALLS) - len(quality))


def quality_rows(accuracy: float, quick: bool, jobs: int) -> list[dict[str, Any]]:
    """NDCG@10 at equal calls, query by query, of chosen fours beside each other way."""
    queries = [*enumerate(hundreds())][:: 20 if quick else 4]
    table = {}
    for way in (PAIRS, BEST, NAIVE, HEAPSORT, FOURS):
        tasks = [partial(of_query, k, query, accuracy, way) for k, query in queries]
        table[way] = np.array(in_parallel(tasks, jobs, lambda text: None))
    rows = []
    for place, calls in enumerate(CALLS):
        ours = table[FOURS][:, place]
        for peer in (PAIRS, BEST, NAIVE, HEAPSORT):
            theirs = table[peer][:, place]
            gain = ours - theirs
            error = float(gain.std(ddof=1) / np.sqrt(len(gain)))
            least = BARS[accuracy].get(calls, 0.0) if peer == PAIRS else 0.0
            is_ahead = gain.mean() >= (2 * error if peer == HEAPSORT else 0)
            rows.append(
                {
                    "what": f"dl19, pairs right {accuracy:.2f}, NDCG@10 at {calls} calls, "
                    f"against {peer}",
                    "ours": float(ours.mean()), "peer": float(theirs.mean()),
                    "bar": "2 SE above" if peer == HEAPSORT else f"not below, >= {least:.2f}",
                    "ok": None if quick else bool(is_ahead and ours.mean() >= least),
                    "note": f"{gain.mean():+.3f} ± {error:.3f} of {len(gain)} queries",
                }
            )  # fmt: skip
    return [*rows, *break_even_rows(accuracy, table, quick)]


def break_even_rows(accuracy: float, table: dict[str, Any], quick: bool) -> list[dict[str, Any]]:
    """Fours at 50 and 100 calls beside pairs at two and three times as many."""
    rows = []
    for calls, more in ((50, 100), (100, 200), (100, 300)):
        ours = float(table[FOURS][:, CALLS.index(calls)].mean())
        theirs = float(table[PAIRS][:, CALLS.index(more)].mean())
        rows.append(
            {
                "what": f"dl19, pairs right {accuracy:.2f}, {calls} fours against {more} pairs",
                "ours": ours, "peer": theirs, "bar": "fours ahead at 2 times",
                "ok": None if quick or more > 2 * calls else bool(ours >= theirs),
                "note": f"if a four takes {more // calls} times the time or the tokens of a pair",
            }
        )  # fmt: skip
    return rows


def other_noise_rows(quick: bool, jobs: int) -> list[dict[str, Any]]:
    """Fours beside pairs if the noise is not that of the model."""
    queries = [*enumerate(hundreds())][:: 20 if quick else 8]
    rows = []
    for noise in ("a bias to the first place", "heavy tails"):
        table = {}
        for way in (PAIRS, FOURS):
            tasks = [partial(of_query, k, query, 0.80, way, noise) for k, query in queries]
            table[way] = np.array(in_parallel(tasks, jobs, lambda text: None)).mean(axis=0)
        for place, calls in enumerate(CALLS):
            ours, peer = float(table[FOURS][place]), float(table[PAIRS][place])
            rows.append(
                {
                    "what": f"dl19, {noise}, NDCG@10 at {calls} calls, against pairs",
                    "ours": ours, "peer": peer, "bar": "not below",
                    "ok": None if quick else ours >= peer,
                    "note": f"{len(queries)} queries, normal noise of pairs right .80",
                }
            )  # fmt: skip
    return rows


def coverage_rows(quick: bool, jobs: int) -> list[dict[str, Any]]:
    """How often 90 % intervals of ranks hold the true ranks, by size and by noise."""
    rows = []
    for noise in ("normal", "a bias to the first place", "heavy tails"):
        for size in (2, 4, 6):
            runs = range(2 if quick else 12)
            tasks = [partial(covered, size, noise, seed) for seed in runs]
            shares = np.array(in_parallel(tasks, jobs, lambda text: None))
            mean, error = shares.mean(), shares.std(ddof=1) / np.sqrt(len(shares))
            rows.append(
                {
                    "what": f"30 items, questions about {size}, {noise}: "
                    "coverage of 90 % intervals of ranks",
                    "ours": float(mean), "bar": f">= {COVERAGE}",
                    "ok": None if quick or noise != "normal" else bool(mean >= COVERAGE),
                    "note": f"± {error:.3f}; 120 answers of two judges, {len(shares)} runs",
                }
            )  # fmt: skip
    return rows


def covered(size: int, noise: str, seed: int) -> float:
    """The share of the items whose true rank is in its interval after 120 answers."""
    rng = np.random.default_rng([3, seed])
    truth = 1.2 * rng.standard_normal(30)
    noise_of_places = noises(1 / np.sqrt(2), rng)[noise]
    session = Session(None, 30, seed=seed, set_size=size)
    for k in range(120):
        judge = f"judge-{k % 2}"
        question = session.ask(judge)[0]
        session.tell(answering(truth, noise_of_places, judge=judge)(question))
    ranking = session.ranking()
    rank = np.argsort(np.argsort(-truth)) + 1
    return float(np.mean((ranking.low <= rank) & (rank <= ranking.high)))


def humour_rows(quick: bool) -> list[dict[str, Any]]:
    """Spearman of texts that nobody compared after equal numbers of questions about the others.

    Answers are drawn by the best-worst-scaling scores with the noise with which the recorded votes
    agree with them so often; the questions are random.
    """
    folder = DATA / "humour"
    with (folder / "items.tsv").open(encoding="utf-8") as file:
        items = [*csv.DictReader(file, delimiter="\t")]
    place = {item["id"]: k for k, item in enumerate(items)}
    with (folder / "pairs.csv").open(encoding="utf-8") as file:
        votes = [(place[vote["winner"]], place[vote["loser"]]) for vote in csv.DictReader(file)]
    score = np.array([float(item["bws_score"]) for item in items])
    gaps = np.subtract(*score[np.array(votes).T])
    gaps = gaps[gaps != 0]
    sd = noise_of_gaps(np.abs(gaps), float(np.mean(gaps > 0)))
    with tempfile.TemporaryDirectory() as place_of_texts:
        texts = Path(place_of_texts) / "texts.csv"
        with texts.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, ["id", "text"], extrasaction="ignore")
            writer.writeheader()
            writer.writerows(items)
        X = design(describe(read_items(str(texts), features=())).features)
    seeds = range(1 if quick else 4)
    found = np.array([[of_texts(X, score, sd, size, seed) for size in (2, 4)] for seed in seeds])
    pairs, fours = found.T
    gain = fours - pairs
    return [
        {
            "what": f"humour, {QUESTIONS:,} random questions about half of the texts: Spearman of "
            "the other half, fours against pairs",
            "ours": float(fours.mean()), "peer": float(pairs.mean()), "bar": ">= pairs + .05",
            "ok": None if quick else bool(gain.mean() >= 0.05),
            "note": f"{gain.mean():+.3f}, from {gain.min():+.3f} to {gain.max():+.3f} of "
            f"{len(gain)} draws; noise {sd:.2f}",
        }
    ]  # fmt: skip


def of_texts(X: Any, score: Any, sd: float, size: int, seed: int) -> float:
    """Spearman of the texts of one half by answers about the other half."""
    rng = np.random.default_rng([4, seed])
    order = rng.permutation(len(score))
    known, unseen = np.array_split(order, 2)
    answer = answering(score, lambda places: sd * rng.standard_normal(places))
    history = History(len(score))
    sets = [rng.choice(known, size, replace=False).tolist() for _ in range(QUESTIONS)]
    questions = [Question(a, b, "given", 1.0, 0, tuple(further)) for a, b, *further in sets]
    history.add(Judgements.of([answer(question) for question in questions]))
    posterior = fit(X, history.votes(QUESTIONS), 1, seed=seed).posterior
    return float(spearmanr(posterior.scores[unseen], score[unseen]).statistic)


def pace_rows(quick: bool) -> list[dict[str, Any]]:
    """The 95th percentile of the time for a question, with many items and answers."""
    n, n_answers = (500, 2_000) if quick else (10_000, 100_000)
    rng = np.random.default_rng(0)
    truth = rng.standard_normal(n)
    items = np.stack([rng.choice(n, 4, replace=False) for _ in range(n_answers)])
    answer = [
        answering(truth, lambda places: rng.standard_normal(places), judge=f"judge-{k}")
        for k in range(20)
    ]
    rows = []
    for goal in (Goal(), Goal(top=TOP)):
        session = Session(None, n, seed=0, goal=goal, set_size=4)
        questions = (Question(a, b, "given", 1.0, 0, (c, d)) for a, b, c, d in items.tolist())
        session.replay([answer[k % 20](question) for k, question in enumerate(questions)])
        session.refit()
        for judge in range(20):  # the first question of each reads their answers
            session.ask(f"judge-{judge}", wait=False)
        for size in (2, 4):
            times = []
            for k in range(300):
                start = time.perf_counter()
                (question,) = session.ask(f"judge-{k % 20}", wait=False, set_size=size)
                times.append(1000 * (time.perf_counter() - start))
                session.tell(answer[k % 20](question))
            slow = float(np.percentile(times, 95))
            rows.append(
                {
                    "what": f"a question about {size}, {n:,} items, {n_answers:,} answers about 4, "
                    f"{'top 10' if goal.top else 'whole order'}: p95, ms",
                    "ours": slow, "bar": f"<= {SLOWEST:g}" if size > 2 else "",
                    "ok": None if quick or size == 2 else slow <= SLOWEST,
                    "note": f"median {np.median(times):.1f}",
                }
            )  # fmt: skip
    return rows


if __name__ == "__main__":
    for one in run("--quick" in sys.argv):
        print(one)
