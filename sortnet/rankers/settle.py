"""Settle the settings that were left open by short trials on the validation part.

Successive halving over a small menu: every scaling, and a deep net, is tried with half of the
epochs, the best two with all of them where these do not decide; then the hidden units and the
weight decay around the best, with half. One comparator is trained in a trial. Without trials the
settings are `sortnet.config.FIXED`; of few answers the loop tries weight decays itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sortnet.comparators import MakeFor, make_comparator
from sortnet.config import Config
from sortnet.data.divide import joined, query_folds
from sortnet.data.scaling import fit_scaler
from sortnet.learning.judges import can_be_learned
from sortnet.learning.loop import learn_to_sort
from sortnet.metrics import average, can_choose, outcomes
from sortnet.sorting import sort
from sortnet.types import F64, Progress, Queries

Trial = dict[str, Any]

OPEN = ("scaling", "comparator", "hidden", "weight_decay")
SCALINGS = ("query+rank", "query+rank+normal", "normal", "normal+piecewise", "zscore")
# A score of bins: steps and interactions, which a layer of dual units approximates slowly. relu
# units need a lower learning rate.
SHAPE = ("comparator", "hidden", "units", "tau")  # that the deep net has of its own
DEEP: Trial = {
    "comparator": "directranker", "hidden": (64, 64), "units": "relu", "tau": "identity",
    "scaling": "normal+piecewise", "weight_decay": 0.3, "lr": 0.01,
}  # fmt: skip
HIDDEN = ((10,), (32,), (64,), (100,))
WEIGHT_DECAYS = (1.0, 0.3, 0.03, 0.003, 0.0)  # the strongest first
_JUDGED = 1.0  # the weight decay to begin at where people judged, who often disagree
_HALF = 0.5
_TRIED_ON = 20_000  # documents of each part at most, so that trials take seconds
_FEW = 20  # validation queries that can choose, below which trials are cross-validated
_FOLDS = 3
_SURE = 0.5  # standard errors by which a setting must be better to be preferred
_CLEAR = 3.0  # standard errors at which half of the epochs decide


@dataclass
class _Trials:
    """Trials of settings on the same parts; each setting and share of the epochs is tried once."""

    parts: Sequence[tuple[Queries, Queries]]
    left: float  # whole trainings of one comparator that may still be made
    progress: Progress
    on_trial: Callable[[Trial], None]
    make_for: MakeFor
    done: dict[tuple[Config, float], F64] = field(default_factory=dict)
    table: list[Trial] = field(default_factory=list)

    def of(self, candidates: Sequence[Config], share: float) -> list[Config]:
        """Try those that the budget allows, and return what was tried, the best first."""
        tried = [config for config in candidates if self._try(config, share)]
        return sorted(tried, key=lambda config: -self.mean(config, share))

    def mean(self, config: Config, share: float) -> float:
        return average(self.done[config, share], config.empty)

    def gain(self, there: Config, here: Config, share: float) -> float:
        """How much better `there` is than `here`, in standard errors of the mean difference."""
        gain = self.done[there, share] - self.done[here, share]
        gain = gain[~np.isnan(gain)]  # queries without a relevant document do not count
        error = gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else 0.0
        return float(gain.mean() / max(error, 1e-9)) if len(gain) else 0.0

    def _try(self, config: Config, share: float) -> bool:
        if (config, share) in self.done:
            return True
        cost = share * len(self.parts)
        if self.left < cost:
            return False
        self.left -= cost
        self.progress(f"choosing the settings, trial {len(self.done) + 1}")
        qualities = [_qualities(T, V, config, share, self.make_for) for T, V in self.parts]
        self.done[config, share] = np.concatenate(qualities)
        values = {name: _plain(config.flat()[name]) for name in OPEN}
        epochs = _epochs(config, share)
        self.table.append({**values, "epochs": epochs, "quality": self.mean(config, share)})
        self.on_trial(self.table[-1])
        return True


def settle(
    train: Queries,
    vali: Queries,
    config: Config,
    *,
    make_for: MakeFor | None = None,
    progress: Progress = lambda text: None,
    on_trial: Callable[[Trial], None] = lambda trial: None,
) -> tuple[Config, list[Trial]]:
    """Choose scaling, comparator, hidden units and weight decay where they are left open.

    Args:
        train: labelled queries, not scaled.
        vali: labelled queries to choose by; where few of them can choose, all queries are
            divided into three parts and each is predicted from the others.
        config: settings with a RankQuality; `tune_budget` says how long this may take, 0: what is
            open gets fixed values.
        make_for: makes a custom comparator, in place of the one that would be chosen.
        progress: called with progress messages.
        on_trial: called with each trial when it is done.

    Returns:
        The settings, nothing open; and the trials: what was tried, epochs and RankQuality.

    Cost: about twelve short trainings of one comparator, on 20,000 documents of each part at most.
    """
    names = [name for name in OPEN if config.flat()[name] is None]
    if make_for is not None:
        names = [name for name in names if name not in SHAPE]
    elif any(config.flat()[name] is not None for name in SHAPE):
        names = [name for name in names if name != "comparator"]
    best = config.settled
    if vali.judged is not None and "weight_decay" in names:
        best = best.changed(weight_decay=_JUDGED)
    if not names or not config.tune_budget:
        return best, []
    some, judges = _sample(train, config.seed), _sample(vali, config.seed)
    usable = int(can_choose(config.rank_quality, judges).sum())
    if not can_be_learned(some) or not usable:
        return best, []
    enough = usable >= _FEW or judges.judged is not None  # whose pairs count one by one
    parts = [(some, judges)] if enough else list(_folds(some, judges, config))
    if not parts:  # too few queries to divide
        return best, []
    trials = _Trials(
        parts,
        config.tune_budget * config.committee,
        progress,
        on_trial,
        make_for or make_comparator,
    )
    menu = _menu(config, best, train, names)
    if len(menu) > 1:
        best = _of_menu(trials, menu)
    menus: dict[str, Sequence[Any]] = {"weight_decay": WEIGHT_DECAYS}
    if best.hidden in HIDDEN:
        menus["hidden"] = HIDDEN
    # People disagree: what a net must not learn by heart matters more than its size then.
    for name in sorted(menus, reverse=judges.judged is not None):
        if name in names:
            best = _along(trials, best, name, menus[name])
    return best, trials.table


def _menu(config: Config, fixed: Config, train: Queries, names: Sequence[str]) -> list[Config]:
    """Every scaling with the fixed values of the rest, and the deep net."""
    missing = "+missing" if np.isnan(train.features).any() else ""
    menu = [fixed]
    if "scaling" in names:
        menu = [fixed.changed(scaling=scaling + missing) for scaling in SCALINGS]
    # Judged items are few, and described by many numbers.
    if "comparator" in names and train.judged is None:
        asked, default = config.flat(), Config().flat()
        deep = {name: DEEP[name] for name in DEEP if asked[name] == default[name]}
        if "scaling" in deep:
            deep["scaling"] += missing
        menu.insert(1, fixed.changed(**deep))  # early: the budget may end the trials
    return menu


def _of_menu(trials: _Trials, menu: Sequence[Config]) -> Config:
    """The first of the menu, or the best of the others if better.

    Half of the epochs decide where the difference is clear, else all if the budget allows it.
    """
    first = menu[0]
    others = [config for config in trials.of(menu, _HALF) if config != first][:1]
    if not others:
        return first
    share, gain = _HALF, trials.gain(others[0], first, _HALF)
    if abs(gain) < _CLEAR and trials.left >= 2 * len(trials.parts):
        share = 1.0
        trials.of([first, *others], share)
        gain = trials.gain(others[0], first, share)
    return others[0] if gain > _SURE else first


def _along(trials: _Trials, best: Config, name: str, values: Sequence[Any]) -> Config:
    """Go on to the neighbouring value of one setting as long as that is better.

    A stronger weight decay, which costs nothing, needs to be less sure.
    """
    at = values.index(best.flat()[name])
    for step in (-1, 1):
        least = 0.5 if name == "weight_decay" and step < 0 else 1.5
        while 0 <= at + step < len(values):
            there = best.changed(**{name: values[at + step]})
            if len(trials.of([best, there], _HALF)) < 2:
                break
            if trials.gain(there, best, _HALF) < least:
                break
            best, at = there, at + step
    return best


def _epochs(config: Config, share: float) -> int:
    return max(1, round(share * config.training.epochs))


def _qualities(
    train: Queries, vali: Queries, config: Config, share: float, make_for: MakeFor
) -> F64:
    """(n_queries,) RankQuality of one comparator on `vali`; (m,) of judged pairs."""
    config = config.changed(committee=1, start="add", epochs=_epochs(config, share))
    scaler = fit_scaler(config.scaling or "", train, seed=config.seed)
    T, V, quality = scaler(train), scaler(vali), config.rank_quality
    state = learn_to_sort(
        T, V, make_for(config, scaler.n_columns), quality=quality, empty=config.empty,
        training=config.training, pairs=config.pairs, start=config.start, seed=config.seed,
    )  # fmt: skip
    assert state.best is not None  # the loop has run at least one iteration
    return outcomes(quality, V, sort(state.best, V).order)


def _sample(queries: Queries, seed: int) -> Queries:
    if queries.n_docs <= _TRIED_ON:
        return queries
    order = np.random.default_rng(seed).permutation(len(queries))
    fitting = np.cumsum(queries.sizes[order]) <= _TRIED_ON
    fitting[0] = True
    return queries.take(np.sort(order[fitting]))


def _folds(train: Queries, vali: Queries, config: Config) -> Iterator[tuple[Queries, Queries]]:
    """All queries in three parts, each with the others to learn from."""
    both = train if vali is train else joined([train, vali])
    if len(both) < _FOLDS:
        return
    for T, V in query_folds(both, _FOLDS, seed=config.seed):
        if can_be_learned(T) and can_choose(config.rank_quality, V).any():
            yield T, V


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
