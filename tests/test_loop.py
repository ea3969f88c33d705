"""The loop against Algorithm 3.1 written a second time with plain sets, and its own promises."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from pair_tables import table

from sortnet.comparators import CmpNN, Committee
from sortnet.config import Config, LoopTraining
from sortnet.core import SPLITS, ComparedPairs, Queries
from sortnet.learning.iterations import State
from sortnet.learning.loop import MemoryPairs, learn_to_sort
from sortnet.learning.step_budget import Budget, Share
from sortnet.learning.training import train_on_pairs
from sortnet.metrics import evaluate, parse_metric
from sortnet.sorting import sort

MAP, NDCG = parse_metric("map"), parse_metric("ndcg@5")
HOW = LoopTraining(
    loss="squared", keep="loss", schedule="steps", optimizer="adam", query_pairs=None, epochs=8,
    batch_size=64, lr=0.02, pair_weight="none",
)  # fmt: skip
DIVIDED = replace(HOW, keep="quality")  # where one training is divided, no epoch is chosen


def made(n_queries: int, seed: int, noise: float = 0.5) -> Queries:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 15, n_queries)
    X = rng.normal(0, 1, (sizes.sum(), 4)).astype(np.float32)
    truth = X[:, 0] - X[:, 1] * X[:, 2] + rng.normal(0, noise, len(X))
    return Queries.from_arrays(X, np.digitize(truth, [0.3, 1.2]), group=sizes)


def make(seed: int) -> CmpNN:
    return CmpNN(4, hidden=6, seed=seed)


def wrong(**changes) -> Config:
    """Settings of a loop that learns from wrong pairs until none is new."""
    settled = {
        "quality": "map", "pairs": "wrong", "max_iter": 20, "comparator": "cmpnn",
        "training": HOW if changes.get("start") == "fresh" else DIVIDED,
    }  # fmt: skip
    return Config(**{**settled, "max_stale": None, **changes})


def learned(T: Queries, V: Queries, config: Config, make=make, **more):
    """The last state, and the records of the iterations."""
    records = []
    callbacks = [lambda record, state: records.append(record)]
    return learn_to_sort(T, V, make, config, callbacks=callbacks, **more), records


def wrong_pairs(queries: Queries, made) -> set[tuple[int, int]]:
    wrong = set()
    compared = made.compared
    rows = zip(compared.i.tolist(), compared.j.tolist(), compared.margin, strict=True)
    for i, j, margin in rows:
        if queries.grades[i] > queries.grades[j] and not margin > 0:
            wrong.add((i, j))
        if queries.grades[j] > queries.grades[i] and not margin < 0:
            wrong.add((j, i))
    return wrong


def as_pairs(pairs: set[tuple[int, int]]) -> ComparedPairs:
    return table(*np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2).T)


def iteration_seed(seed: int, i: int) -> int:
    return int(np.random.SeedSequence([seed, i]).generate_state(1)[0])


def algorithm_3_1(T: Queries, V: Queries, max_iter: int, start: str, seed: int):
    """The algorithm with Python sets; returns C* and what each iteration saw.

    With `fresh` it is the paper's. With `warm` 8 epochs are divided among `max_iter` trainings, and
    a last sort follows.
    """
    C, TP, VP, best, best_score, history = make(seed), set(), set(), None, (-1.0, 0), []
    pairs_of_query = np.array([n * (n - 1) // 2 for n in np.diff(T.offsets)])
    epoch = -(-pairs_of_query.sum() // 64)
    moments = ()
    for i in range(max_iter if start == "fresh" else max_iter + 1):
        R_T, R_V = sort(C, T), sort(C, V)
        TP_i, VP_i = wrong_pairs(T, R_T), wrong_pairs(V, R_V)
        score = evaluate(V, R_V.order, MAP)["map"]
        judged = sum(V.grades[R_V.compared.i] != V.grades[R_V.compared.j])
        right = 1 - len(VP_i) / judged
        if (score, right) > best_score:
            best, best_score = copy.deepcopy(C), (score, right)
        history.append((len(TP_i), len(VP_i), len(TP_i - TP), len(VP_i - VP), score))
        if start == "fresh" and TP_i <= TP and VP_i <= VP:
            break
        TP, VP = TP | TP_i, VP | VP_i
        following = copy.deepcopy(C) if start == "warm" else make(iteration_seed(seed, i + 1))
        pairs = T, as_pairs(TP), V, as_pairs(VP)
        more = {"seed": iteration_seed(seed, i + 1)}
        if start == "fresh":
            train_on_pairs(following, *pairs, HOW, **more)
        elif i < max_iter:
            first, end = (8 * epoch * k // max_iter for k in (i, i + 1))
            share = Share(first, end, 8 * epoch, epoch)
            how = DIVIDED
            trained = train_on_pairs(following, *pairs, how, share=share, moments=moments, **more)
            moments = trained.moments
        C = following
    return best, history


@pytest.mark.parametrize("start", ["warm", "fresh"])
def test_the_loop_is_algorithm_3_1(start):
    T, V = made(40, 1), made(15, 2)
    state, records = learned(T, V, wrong(max_iter=6, start=start, seed=7), metrics=[NDCG])
    best, history = algorithm_3_1(T, V, 6, start, 7)
    seen = [
        (r.miscompared_train, r.miscompared_vali, r.new_train, r.new_vali, r.quality)
        for r in records
    ]
    assert seen == history
    assert torch.equal(state.best.v, best.v)
    assert state.best_quality == max(r.quality for r in records)
    assert [r.tp for r in records] == np.cumsum([r.new_train for r in records]).tolist()
    assert [r.best for r in records].count(True) >= 1
    assert records[state.best_iteration].quality == state.best_quality


def test_the_best_of_equal_rank_quality_got_more_pairs_right_and_came_first():
    state, best = State(0, make(0)), []
    for scored in ((1.0, 0.8), (1.0, 0.9), (1.0, 0.9), (float("nan"), 1.0)):
        state = replace(state.scored(*scored), iteration=state.iteration + 1)
        best.append(state.best_iteration)
    assert best == [0, 1, 1, 1]
    assert state.scored(0.0, 0.0, keep_last=True).best_iteration == 4


def test_it_stops_when_the_quality_is_stale_or_no_pair_is_new():
    stale = wrong(max_stale=2, start="fresh")
    _, records = learned(made(60, 1, noise=2), made(10, 2, noise=2), stale)
    best = [record.best for record in records]
    assert len(best) < 20 and best[-3:] == [True, False, False]
    twins = Queries.from_arrays([[0.0], [0.0], [1.0], [1.0]], [0, 1, 1, 1])  # two twins disagree
    without_end = wrong(start="fresh", max_iter=50)
    state, records = learned(twins, twins, without_end, lambda seed: CmpNN(1, hidden=3, seed=seed))
    assert state.finished and state.iteration < 50
    assert (records[-1].new_train, records[-1].new_vali) == (0, 0)


TWO_OF_A_QUERY = Queries.from_arrays(np.arange(40)[:, None], np.arange(40) % 2, group=[2] * 20)
SMALL = {
    "two-document queries": TWO_OF_A_QUERY,
    "one query": Queries.from_arrays(np.arange(9)[:, None], np.arange(9) % 3),
    "judged pairs": Queries.from_arrays(np.arange(6)[:, None]).with_judgements([1, 2], [0, 1]),
}


@pytest.mark.parametrize("data", SMALL)
def test_a_warm_run_makes_every_step_of_its_budget_whatever_the_pairs(data):
    queries = SMALL[data]
    quality = "accuracy" if queries.judged is not None else "map"
    config = Config(quality=quality, comparator="cmpnn", pairs="compared", seed=1)
    states, records = [], []
    learn_to_sort(
        queries, queries, lambda seed: CmpNN(1, hidden=3, seed=seed), config,
        callbacks=[lambda record, state: (records.append(record), states.append(state))],
    )  # fmt: skip
    budget = Budget.of(queries, config)
    assert len(records) == 11
    assert states[-1].moments[0]["v:step"] == budget.steps == 20 * 32
    assert sum(record.epochs for record in records) == pytest.approx(20)


@pytest.mark.parametrize(("start", "stop"), [("warm", 3), ("fresh", 1)])
def test_a_resumed_run_ends_like_one_that_was_never_stopped(stop, start):
    T, V = made(30, 1), made(12, 2)
    config = wrong(quality="ndcg@5", max_iter=5, seed=3, start=start)

    def committee(seed):
        return Committee([CmpNN(4, hidden=3, dropout=0.2, seed=seed + k) for k in range(2)])

    def run(sink, state=None):
        records, states = [], []
        callback = [lambda record, state: (records.append(record), states.append(state))]
        more = {"sink": sink, "callbacks": callback, "state": state}
        return learn_to_sort(T, V, committee, config, **more), records, states

    whole_sink, sink = MemoryPairs(), MemoryPairs()
    whole, all_records, states = run(whole_sink)
    run(sink)  # fills the sink beyond the state that is gone on from, as a kill may
    end, records, _ = run(sink, states[stop - 1])
    assert torch.equal(end.best.members[0].v, whole.best.members[0].v)
    assert torch.equal(end.comparator.members[1].v, whole.comparator.members[1].v)
    assert [facts(record) for record in records] == [facts(record) for record in all_records[stop:]]
    for split in SPLITS:
        assert sink.pairs(split).key.tolist() == whole_sink.pairs(split).key.tolist()


def facts(record) -> str:
    """A record without its times, as a text, where nan equals nan."""
    return str({**vars(record), "seconds_sort": 0, "seconds_train": 0})
