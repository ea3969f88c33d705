"""Pairs that were wrong, but are not learned from, stay apart when a run is resumed."""

from __future__ import annotations

import numpy as np
from graded_queries import graded

from sortnet.comparators import CmpNN
from sortnet.config import Config
from sortnet.core.pairs import packed
from sortnet.learning.loop import learn_to_sort
from store import Store


def test_a_resumed_run_learns_from_no_pair_that_was_only_wrong(store: Store) -> None:
    train, vali = graded(0, 6, size=10, noise=1.0), graded(1, 2, size=10, noise=1.0)
    # Every iteration makes other mistakes: its net is a new one.
    config = Config(quality="ndcg@10", pairs="random", start="fresh", max_iter=4, max_stale=9)
    config = config.changed(epochs=2, batch_size=16)

    def run(state=None, sink=None):
        """The sink, the sizes of TP and VP, and the states of a run in the store."""
        if sink is None:
            about = {"command": "test", "config": {}, "seed": 0, "versions": {}}
            sink = store.start_run(**about, train=train, vali=vali)
        sizes, states = [], []

        def keep(record, state) -> None:
            sizes.append((record.tp, record.vp))
            states.append(state)

        make = lambda seed: CmpNN(3, hidden=2, seed=seed)  # noqa: E731
        learn_to_sort(train, vali, make, config, sink=sink, state=state, callbacks=[keep])
        return sink, sizes, states

    whole, sizes, states = run()
    frame, learned = whole.pairs_frame("train"), whole.pairs("train").key
    wrong = packed(frame["winner"].to_numpy(np.int64), frame["loser"].to_numpy(np.int64))
    assert not np.isin(wrong, learned).all()
    filled_beyond, _, _ = run()  # as a kill may leave it
    resumed, sizes_after, states_after = run(states[1], filled_beyond)
    assert sizes_after == sizes[2:]
    np.testing.assert_array_equal(resumed.pairs("train").key, learned)
    for name, weights in states[-1].comparator.arrays().items():
        np.testing.assert_array_equal(states_after[-1].comparator.arrays()[name], weights)
