"""A top ten by simulated judges: quality by calls, tokens and time, and whether a promise is kept.

The documents are BM25's first hundred of each query of TREC DL 2019, in that order for the sorts,
and with BM25's score as the feature of a session; of two documents of one grade a judge prefers a
random one. Some judges see the grades with noise, drawn for each answer. Others err as a model of
LLMBar does: whether it is right about a pair, with the better item on the left and with it on the
right, is drawn from that model's recorded verdicts, once for each pair, so that asking again gives
the same answer; of four, the best is the one that most pairs prefer, the worst the one that fewest
prefer.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np
from measuring import DATA, Row, difference, error, row, spread
from question_costs import WORDS_OF_A_PASSAGE, Curve, break_even, prompt_tokens, tokens_factor
from scipy.special import ndtr
from utility_judges import F64, JUDGE, Answering, answering, noise_of_pairs, noises

from sortnet.lab.asking_sorts import (
    Sort,
    bubble_passes,
    heapsort,
    merge_sort,
    next_items,
    quicksort,
    setwise_heapsort,
)
from sortnet.lab.simulated_annotators import NOISE, features_truth, ids_truth
from sortnet.metrics import parse_metric, per_query
from sortnet.preference.base import Judgement, Question
from sortnet.preference.session import Session
from sortnet.preference.stopping import Goal

TOP = 10
NDCG = parse_metric("ndcg@10")
MODELS = ("GPT-4", "PaLM2")
PAIRS, NAIVE, FOURS = "pairs", "fours, naive", "fours"
SORTS: dict[str, Sort] = {
    "heapsort": heapsort,
    "quicksort": quicksort,
    "bubble passes": bubble_passes,
    "a whole merge sort": merge_sort,
    "setwise heapsort": partial(setwise_heapsort, size=4),
}
CALLS = (50, 100, 200, 300)
CALLS_OF_SORTS = (100, 300)
NUMBERS = (10, 20, 35, 50, 75, 100, 150, 200, 250, 300, 400)  # of questions, `CALLS` among them
BUDGETS = (100, 200, 400)  # pairs
FACTORS = (1.5, 2.0, 3.0)  # times that a four takes a person as long as a pair
BARS = {0.87: {100: 0.90}, 0.70: {200: 0.73, 300: 0.83}}  # of NDCG@10 of fours, by calls
OTHER_NOISE = ("a bias to the first place", "heavy tails")
PROMISE = {"n": 20, "top": 5, "wrong": 1}
MOST = 1000  # questions of a session that keeps its promise
JudgeOf: TypeAlias = Callable[[F64, np.random.Generator], Answering]


def run(quick: bool) -> list[Row]:
    """The rows of the table; those of TREC only with the data."""
    rows: list[Row] = []
    if DATA.exists():
        every = 22 if quick else 1
        for accuracy, bars in BARS.items():
            rows += of_noise(accuracy, bars, every, quick)
        for noise in OTHER_NOISE:
            judge = partial(utility_judge, accuracy=0.80, noise=noise)
            rows += of_fours(noise, judge, 4 * every, quick)
        for model in MODELS:
            judge = partial(recorded_judge, verdicts=recorded(model))
            name = f"a judge that errs as {model}"
            rows += [*of_fours(name, judge, every, quick), *of_sorts(name, judge, every, quick)]
    return [*rows, *promises(2 if quick else 50)]


def hundreds() -> list[tuple[F64, F64]]:
    """The grades and BM25's scores of each query's documents, in BM25's order."""
    grades = {}
    for line in (DATA / "dl19" / "qrels.txt").read_text().splitlines():
        query, _, document, grade = line.split()
        grades[query, document] = int(grade)
    documents = defaultdict(list)
    for line in (DATA / "dl19" / "bm25_top100.trec").read_text().splitlines():
        query, _, document, _, score, _ = line.split()
        documents[query].append((grades.get((query, document), 0), float(score)))
    return [tuple(np.array(one, np.float64).T) for one in documents.values()]


def recorded(model: str) -> list[tuple[bool, bool]]:
    """Whether a model is right about each pair of LLMBar: the better one on the left, the right."""
    verdicts = []
    for line in (DATA / "llmbar" / "pairs.jsonl").read_text().splitlines():
        pair = json.loads(line)
        said, gold = pair["judges"][model], pair["gold"]
        first, second = ("a_first", "b_first") if gold == "a" else ("b_first", "a_first")
        verdicts.append((said[first] == gold, said[second] == gold))
    return verdicts


def utility_judge(
    grades: F64, rng: np.random.Generator, *, accuracy: float, noise: str = "normal"
) -> Answering:
    """A judge who answers this share of the pairs of different grades right."""
    return answering(grades, noises(noise_of_pairs(grades, accuracy), rng)[noise])


def recorded_judge(
    grades: F64, rng: np.random.Generator, *, verdicts: list[tuple[bool, bool]]
) -> Answering:
    """A judge that errs as a recorded model: of more than two, the best has the most wins."""
    n = len(grades)
    verdict, coin = np.array(verdicts)[rng.integers(len(verdicts), size=(n, n))], rng.random((n, n))
    priority = 0.1 * rng.random(n)  # among equal numbers of wins, for ever the same

    def prefers_left(left: int, right: int) -> bool:
        pair = min(left, right), max(left, right)
        better = grades[left] > grades[right]
        if grades[left] == grades[right]:
            better = (coin[pair] < 0.5) == (left < right)
        is_right = verdict[pair][0 if better else 1]
        return bool(better == is_right)

    def answer(question: Question) -> Judgement:
        items = question.items
        if len(items) == 2:
            return question.answered(JUDGE, "left" if prefers_left(*items) else "right")
        wins = priority[list(items)]
        for i, j in combinations(range(len(items)), 2):
            winner = i if prefers_left(items[i], items[j]) else j
            wins[winner] += 1
        return question.answered_by_place(JUDGE, int(wins.argmax()), int(wins.argmin()))

    return answer


def curve_of(way: str, judge: JudgeOf, every: int, quick: bool) -> Curve:
    """NDCG@10 of each query by one way to ask, after each number of questions."""
    numbers = tuple(range(2, 2 + len(NUMBERS))) if quick else NUMBERS
    cases = [(k, query, way, judge, numbers) for k, query in [*enumerate(hundreds())][::every]]
    fours, quality = np.moveaxis(np.array(spread(of_query, cases), np.float64), 1, 0)
    return Curve(np.array(numbers, np.float64), fours, quality)


def of_query(
    number: int, query: tuple[F64, F64], way: str, judge: JudgeOf, numbers: Sequence[int]
) -> tuple[Sequence[int], list[float]]:
    """Questions about four so far, and NDCG@10, after each number of questions about a query."""
    grades, bm25 = query
    rng = np.random.default_rng(number)
    answer = judge(grades, rng)
    if way in SORTS:
        return numbers, quality_of_sort(SORTS[way], grades, answer, numbers, rng)
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


def quality_of_sort(
    sort: Sort, grades: F64, answer: Answering, numbers: Sequence[int], rng: np.random.Generator
) -> list[float]:
    """NDCG@10 of the state of a sort after each number of calls, or at its end."""
    order = list(range(len(grades)))
    asking = sort(order, TOP)
    items = next(asking, None)
    quality = []
    for n_calls in range(numbers[-1] + 1):
        if n_calls in numbers:
            quality.append(ndcg(grades, order))
        if items is None:
            break
        left, right, *further = rng.permutation(items).tolist()
        judgement = answer(Question((left, right, *further), "given", 1.0, 0))
        assert judgement.best is not None
        items = next_items(asking, judgement.best)
    at_end = ndcg(grades, order)
    return quality + [at_end] * (len(numbers) - len(quality))


def ndcg(grades: F64, order: Any) -> float:
    """NDCG@10 of an order of the documents; 0 where no document is relevant."""
    value = per_query(NDCG, grades[np.asarray(order)].astype(np.int64), [0, len(grades)])[0]
    return 0.0 if np.isnan(value) else float(value)


def beside(name: str, calls: int, peer: str, ours: Curve, theirs: Curve, bar: str) -> Row:
    """NDCG@10 at equal calls, query by query; the bar `2 SE above`, or that ours are not below."""
    place = NUMBERS.index(calls)
    mine, others = ours.quality[:, place], theirs.quality[:, place]
    mine = mine[:: len(mine) // len(others)][: len(others)]
    needed = 2 * error(mine - others) if bar == "2 SE above" else 0.0
    return row(
        f"dl19, {name}, NDCG@10 at {calls} calls, against {peer}",
        mine.mean(),
        others.mean(),
        bar=bar,
        ok=bool((mine - others).mean() >= needed),
        note=f"{difference(mine, others, 3)} of {len(mine)} queries",
    )


def of_fours(name: str, judge: JudgeOf, every: int, quick: bool) -> Iterator[Row]:
    """Fours beside pairs at equal calls."""
    pairs, fours = (curve_of(way, judge, every, quick) for way in (PAIRS, FOURS))
    for calls in CALLS:
        yield beside(name, calls, PAIRS, fours, pairs, "not below")


def of_sorts(name: str, judge: JudgeOf, every: int, quick: bool) -> Iterator[Row]:
    """A session that asks about pairs beside the sorts of pairs."""
    session = curve_of(PAIRS, judge, every, quick)
    for peer in [*SORTS][:4]:
        theirs = curve_of(peer, judge, every, quick)
        for calls in CALLS_OF_SORTS[1 if peer == "a whole merge sort" else 0 :]:
            yield beside(name, calls, peer, session, theirs, "2 SE above")


def of_noise(accuracy: float, bars: dict[int, float], every: int, quick: bool) -> Iterator[Row]:
    """Fours beside other ways to ask a judge of noisy utilities, at equal calls and costs."""
    judge, name = partial(utility_judge, accuracy=accuracy), f"pairs right {accuracy:.2f}"
    fours, pairs = (curve_of(way, judge, every, quick) for way in (FOURS, PAIRS))
    setwise = curve_of("setwise heapsort", judge, every, quick)
    naive = curve_of(NAIVE, judge, 4 * every, quick)
    for calls in CALLS:
        against_pairs = beside(name, calls, PAIRS, fours, pairs, "not below")
        if least := bars.get(calls):
            against_pairs["bar"] += f", >= {least:.2f}"
            against_pairs["ok"] &= bool(against_pairs["ours"] >= least)
        yield against_pairs
        yield beside(name, calls, "setwise heapsort", fours, setwise, "2 SE above")
        yield beside(name, calls, NAIVE, fours, naive, "not below")
    of_tokens = tokens_factor(WORDS_OF_A_PASSAGE)
    tokens = f"passages of {WORDS_OF_A_PASSAGE} words: {prompt_tokens(2, WORDS_OF_A_PASSAGE):.0f}"
    for budget in BUDGETS:
        theirs = pairs.quality_at(budget, 1)
        ways = {f"for the prompt tokens of {budget} pairs, fours": of_tokens}
        ways |= {f"in the time of {budget} pairs, a four takes {f:g} times": f for f in FACTORS}
        for way, factor in ways.items():
            ours = fours.quality_at(budget, factor)
            note = f"{difference(ours, theirs, 3)} of {len(ours)} queries"
            if factor == of_tokens:
                note += f"; {tokens} tokens a pair, {of_tokens:.2f} times as many a four"
            bar = "ratio >= 1" if factor <= 2 else ""
            yield row(
                f"dl19, {name}, NDCG@10 {way}", ours.mean(), theirs.mean(), bar=bar, note=note
            )
        yield row(
            f"dl19, {name}, as good as {budget} pairs: times the cost of a pair that a four may "
            "have",
            break_even(pairs, fours, budget),
            bar="ours >= 2",
            note="break-even of time or tokens, by means over the queries",
        )


def promises(n_runs: int) -> Iterator[Row]:
    """Sessions until they stop, by four annotators: how many of the top are really wrong."""
    for what, d, outside in (("without features", 0, 0.0), ("5 features, half outside", 5, 0.5)):
        sessions = spread(kept, [(d, outside, seed) for seed in range(n_runs)])
        stopped = [ended for ended in sessions if ended is not None]
        n_wrong, n_questions = np.reshape(stopped, (-1, 2)).T
        share = float(np.mean(n_wrong <= PROMISE["wrong"])) if stopped else 0.0
        allowed = float(np.sqrt(0.9 * 0.1 / max(len(stopped), 1)))
        yield row(
            f"{PROMISE['n']} items, {what}, goal top {PROMISE['top']}, {PROMISE['wrong']} wrong: "
            "runs in which no more were wrong",
            share,
            bar=">= 0.90, less 2 SE",
            ok=bool(share >= 0.9 - 2 * allowed),
            note=f"± {allowed:.3f}; {len(stopped)} of {len(sessions)} runs stopped, after "
            f"{np.median(n_questions) if stopped else 0:.0f} questions (median)",
        )


def kept(d: int, outside: float, seed: int) -> tuple[int, int] | None:
    """Number of the chosen that are wrong, and of questions; None if it does not stop."""
    rng = np.random.default_rng([2, seed])
    n, top = PROMISE["n"], PROMISE["top"]
    features, scores = features_truth(n, d, outside, rng) if d else (None, ids_truth(n, rng))
    session = Session(features, n, seed=seed, goal=Goal(PROMISE["wrong"] / top, top))
    best = np.argsort(-scores)[:top]
    while session.events < MOST:
        who = f"person-{session.events % 4}"
        if not (questions := session.ask(who)):
            return None
        (asked,) = questions
        win = rng.random() < ndtr((scores[asked.left] - scores[asked.right]) / NOISE)
        session.tell(asked.answered(who, "left" if win else "right"))
        if session.events % 5 == 0 and session.remaining().stop:
            chosen = session.ranking(fresh=False).order[:top]
            return top - int(np.isin(chosen, best).sum()), session.events
    return None
