"""A top ten by questions about pairs and about four: quality at equal calls, tokens and seconds.

The documents are BM25's first hundred of queries of TREC DL 2019, and the feature of a session is
BM25's score. Judges see the grades with noise, drawn for each answer. Others err as a recorded
language model does: their verdicts on pairs are those of `bench_llm_top`, and the best of four is
the one that most of them prefer, the worst the one that fewest prefer.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np
from bench_llm_top import DATA, MODELS, NDCG, hundreds, judge_of, recorded
from question_costs import WORDS_OF_A_PASSAGE, Curve, break_even, prompt_tokens, tokens_factor
from utility_judges import F64, JUDGE, Answering, answering, noise_of_pairs, noises

from sortnet.lab.asking_sorts import setwise_heapsort
from sortnet.lab.executor import in_parallel
from sortnet.metrics import per_query
from sortnet.preference.base import Judgement, Question
from sortnet.preference.goal import Goal
from sortnet.preference.session import Session

TOP = 10
PAIRS, NAIVE, FOURS, BEST = "pairs", "fours, naive", "fours", "fours, best alone"
HEAPSORT = "setwise heapsort"
CALLS = (50, 100, 200, 300)
NUMBERS = (10, 20, 35, 50, 75, 100, 150, 200, 250, 300, 400)  # of questions, `CALLS` among them
BUDGETS = (100, 200, 400)  # pairs
FACTORS = (1.5, 2.0, 3.0)  # times that a four takes a person as long as a pair
BARS = {
    0.87: {100: 0.90},
    0.70: {200: 0.73, 300: 0.83},
}  # of NDCG@10 by calls
OTHER_NOISE = ("a bias to the first place", "heavy tails")
Query: TypeAlias = tuple[F64, F64]  # grades, BM25's scores
JudgeOf: TypeAlias = Callable[[F64, np.random.Generator, bool], Answering]
Row: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Setting:
    """How large the simulations are.

    Attributes:
        every: one of so many queries is used.
        every_peer: one of so many of these, for ways to ask that are less important.
        numbers: of questions after which the quality is measured.
    """

    every: int
    every_peer: int
    numbers: tuple[int, ...]
    jobs: int

    @property
    def queries(self) -> list[tuple[int, Query]]:
        """The queries that are used, with their numbers."""
        return [*enumerate(hundreds())][:: self.every]


def run(quick: bool, jobs: int = 1) -> list[Row]:
    """The rows of the table; none without the data."""
    if not DATA.exists():
        return []
    setting = Setting(1, 4, NUMBERS, jobs)
    if quick:
        setting = Setting(22, 1, tuple(range(2, 2 + len(NUMBERS))), jobs)
    rows: list[Row] = []
    for accuracy in BARS:
        curves = utility_curves(accuracy, setting)
        rows += [*calls_rows(accuracy, curves), *cost_rows(accuracy, curves)]
    rows += [*other_noise_rows(setting), *recorded_rows(setting)]
    return [row | {"ok": None} for row in rows] if quick else rows


def utility_judge(
    grades: F64, rng: np.random.Generator, worst: bool, *, accuracy: float, noise: str = "normal"
) -> Answering:
    """A judge who answers this share of the pairs of different grades right."""
    noise_of_places = noises(noise_of_pairs(grades, accuracy), rng)[noise]
    return answering(grades, noise_of_places, worst=worst)


def recorded_judge(
    grades: F64, rng: np.random.Generator, worst: bool, *, verdicts: list[tuple[bool, bool]]
) -> Answering:
    """A judge that errs as a recorded model: of more than two, the best has the most wins."""
    prefers_left = judge_of(grades, verdicts, rng)
    priority = 0.1 * rng.random(len(grades))  # among equal numbers of wins, for ever the same

    def answer(question: Question) -> Judgement:
        items = question.items
        if len(items) == 2:
            return question.answered(JUDGE, "left" if prefers_left(*items) else "right")
        wins = priority[list(items)]
        for i, j in combinations(range(len(items)), 2):
            winner = i if prefers_left(items[i], items[j]) else j
            wins[winner] += 1
        last_place = int(wins.argmin()) if worst else None
        return question.answered_by_place(JUDGE, int(wins.argmax()), last_place)

    return answer


def curve_of(way: str, judge: JudgeOf, setting: Setting, every: int = 1) -> Curve:
    """NDCG@10 of each query by one way to ask, after each number of questions."""
    tasks = [
        partial(run_of_query, number, query, way, judge, setting.numbers)
        for number, query in setting.queries[::every]
    ]
    runs = np.array(in_parallel(tasks, setting.jobs, lambda text: None))
    return Curve(np.array(setting.numbers, np.float64), runs[:, 0], runs[:, 1])


def run_of_query(
    number: int, query: Query, way: str, judge: JudgeOf, numbers: tuple[int, ...]
) -> tuple[list[int], list[float]]:
    """Questions about four so far, and NDCG@10, after each number of questions about a query."""
    grades, bm25 = query
    rng = np.random.default_rng(number)
    answer = judge(grades, rng, way != BEST)
    if way == HEAPSORT:
        return list(numbers), quality_of_sort(grades, answer, numbers)
    set_size = 2 if way in (PAIRS, NAIVE) else 4
    session = Session(bm25[:, None], seed=0, goal=Goal(top=TOP), set_size=set_size)
    n_fours = 0
    fours, quality = [], []
    for n_questions in numbers:
        while session.events < n_questions:
            question = session.ask(JUDGE)[0]
            if way == NAIVE and question.strategy != "random":
                question = naive_four(question, session.ranking(fresh=False).order, rng)
            n_fours += len(question.items) == 4
            session.tell(answer(question))
        fours.append(n_fours)
        quality.append(ndcg(grades, session.ranking().order))
    return fours, quality


def naive_four(pair: Question, order: Any, rng: np.random.Generator) -> Question:
    """A pair, and two items drawn from the present top 25."""
    candidates = [item for item in order[:25] if item not in pair.items]
    drawn = rng.permutation(candidates)[:2]
    left, right, *further = rng.permutation([*pair.items, *drawn]).tolist()
    return Question((left, right, *further), "naive", 1.0, 0)


def quality_of_sort(grades: F64, answer: Answering, numbers: Sequence[int]) -> list[float]:
    """NDCG@10 of the state of a setwise heapsort after each number of calls, or at its end."""
    order = list(range(len(grades)))
    sort = setwise_heapsort(order, TOP, 4)
    quality = []
    best: int | None = None
    for n_calls in range(numbers[-1] + 1):
        if n_calls in numbers:
            quality.append(ndcg(grades, order))
        try:
            items = next(sort) if best is None else sort.send(best)
        except StopIteration:
            break
        judgement = answer(Question(tuple(items), "given", 1.0, 0))
        best = judgement.best
    at_end = ndcg(grades, order)
    return quality + [at_end] * (len(numbers) - len(quality))


def ndcg(grades: F64, order: Any) -> float:
    """NDCG@10 of an order of the documents; 0 where no document is relevant."""
    value = per_query(NDCG, grades[np.asarray(order)].astype(np.int64), [0, len(grades)])[0]
    return 0.0 if np.isnan(value) else float(value)


def utility_curves(accuracy: float, setting: Setting) -> dict[str, Curve]:
    """The curve of every way to ask a judge of noisy utilities."""
    judge = partial(utility_judge, accuracy=accuracy)
    every = {BEST: setting.every_peer, NAIVE: setting.every_peer}
    return {
        way: curve_of(way, judge, setting, every.get(way, 1))
        for way in (FOURS, PAIRS, HEAPSORT, NAIVE, BEST)
    }


def calls_rows(accuracy: float, curves: dict[str, Curve]) -> list[Row]:
    """NDCG@10 at equal calls, query by query, of chosen fours beside each other way."""
    rows = []
    for calls in CALLS:
        place = NUMBERS.index(calls)
        for peer in (way for way in curves if way != FOURS):
            theirs = curves[peer].quality[:, place]
            every = len(curves[FOURS].quality) // len(theirs)
            ours = curves[FOURS].quality[::every, place][: len(theirs)]
            what = f"dl19, pairs right {accuracy:.2f}, NDCG@10 at {calls} calls, against {peer}"
            row = _row(what, ours, theirs)
            gain, error = _gain(ours, theirs)
            if peer == HEAPSORT:
                row |= {"bar": "2 SE above", "ok": gain >= 2 * error}
            else:
                least = BARS[accuracy].get(calls, 0.0) if peer == PAIRS else 0.0
                at_least = f", >= {least:.2f}" if least else ""
                row |= {"bar": "not below" + at_least, "ok": gain >= 0 and ours.mean() >= least}
            rows.append(row)
    return rows


def cost_rows(accuracy: float, curves: dict[str, Curve]) -> list[Row]:
    """Fours beside pairs at equal tokens of prompts and at equal seconds; where they are equal."""
    pairs, fours = curves[PAIRS], curves[FOURS]
    judge = f"dl19, pairs right {accuracy:.2f}"
    of_tokens = tokens_factor(WORDS_OF_A_PASSAGE)
    rows = []
    for budget in BUDGETS:
        theirs = pairs.quality_at(budget, 1)
        ours = fours.quality_at(budget, of_tokens)
        row = _row(f"{judge}, NDCG@10 for the prompt tokens of {budget} pairs, fours", ours, theirs)
        row |= {"bar": "fours ahead", "ok": ours.mean() > theirs.mean()}
        row["note"] += (
            f"; passages of {WORDS_OF_A_PASSAGE} words: {prompt_tokens(2, WORDS_OF_A_PASSAGE):.0f} "
            f"tokens a pair, {of_tokens:.2f} times as many a four"
        )
        rows.append(row)
        for factor in FACTORS:
            ours = fours.quality_at(budget, factor)
            what = f"{judge}, NDCG@10 in the time of {budget} pairs, a four takes {factor:g} times"
            row = _row(what, ours, theirs)
            if factor == 2:
                row |= {"bar": "fours ahead", "ok": ours.mean() > theirs.mean()}
            rows.append(row)
        equal = break_even(pairs, fours, budget)
        rows.append(
            {
                "what": f"{judge}, as good as {budget} pairs: times the cost of a pair that a four "
                "may have",
                "ours": equal, "bar": ">= 2", "ok": equal >= 2,
                "note": "break-even of time or tokens, by means over the queries",
            }
        )  # fmt: skip
    return rows


def other_noise_rows(setting: Setting) -> list[Row]:
    """Fours beside pairs if the noise is not that of the model."""
    rows = []
    for noise in OTHER_NOISE:
        judge = partial(utility_judge, accuracy=0.80, noise=noise)
        pairs, fours = (curve_of(way, judge, setting, setting.every_peer) for way in (PAIRS, FOURS))
        rows += judge_rows(noise, pairs, fours, "normal noise of pairs right .80")
    return rows


def recorded_rows(setting: Setting) -> list[Row]:
    """Fours beside pairs by judges that err as recorded models."""
    rows = []
    for model in MODELS:
        judge = partial(recorded_judge, verdicts=recorded(model))
        pairs, fours = (curve_of(way, judge, setting) for way in (PAIRS, FOURS))
        rows += judge_rows(
            f"a judge that errs as {model}", pairs, fours, "a four by its recorded pairs"
        )
    return rows


def judge_rows(name: str, pairs: Curve, fours: Curve, note: str) -> list[Row]:
    """NDCG@10 of fours beside pairs at equal calls, by a judge who is not of the model's kind."""
    rows = []
    for calls in CALLS:
        place = NUMBERS.index(calls)
        ours, theirs = fours.quality[:, place], pairs.quality[:, place]
        row = _row(f"dl19, {name}, NDCG@10 at {calls} calls, against pairs", ours, theirs)
        row |= {"bar": "not below", "ok": ours.mean() >= theirs.mean()}
        row["note"] += f", {note}"
        rows.append(row)
    return rows


def _row(what: str, ours: F64, theirs: F64) -> Row:
    """The means of fours and of a peer, with the difference query by query."""
    gain, error = _gain(ours, theirs)
    note = f"{gain:+.3f} ± {error:.3f} of {len(ours)} queries"
    return {"what": what, "ours": float(ours.mean()), "peer": float(theirs.mean()), "note": note}


def _gain(ours: F64, theirs: F64) -> tuple[float, float]:
    """The mean difference, and its standard error."""
    gain = ours - theirs
    return float(gain.mean()), float(gain.std(ddof=1) / np.sqrt(len(gain)))


if __name__ == "__main__":
    for row in run("--quick" in sys.argv):
        print(row)
