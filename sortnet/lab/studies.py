"""The studies of the papers: a row of `STUDIES` says what is worked out and how it is read.

A study is a list of points: a cell of an experiment and where it stands in the figure. What came of
the cells becomes one frame of means and standard errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import lru_cache
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sortnet.core import NamedColumns, Queries
from sortnet.core.named_columns import UNNAMED
from sortnet.errors import SortNetError
from sortnet.lab.cells import Cell, Result
from sortnet.lab.entries import ENTRIES, Entry, entry_of
from sortnet.lab.observers import iterations, neighbours, orders
from sortnet.lab.pair_efficiency import (
    REACHED,
    STRATEGIES,
    budgets_of,
    cell_of,
    crossing,
)
from sortnet.lab.set_problems import QUALITY, SET_MODELS, MadeSets, cells_of, models_named
from sortnet.lab.set_problems import SIZES as SET_SIZES
from sortnet.lab.splits import OfficialFold, Split, folds_of
from sortnet.lab.summaries import group_means
from sortnet.lab.synthetic import Digits, MadeClasses, TrainingShare
from sortnet.metrics import Metric, evaluate, outcomes

if TYPE_CHECKING:
    import pandas as pd

_MADE: dict[str, Any] = {"scaling": "quantile", "epochs": 10}  # of nets on made data
_SQUARED = {"loss": "squared"}
_LEARNERS: dict[str, tuple[str, dict[str, Any]]] = {  # of the studies of the training part
    "RankNet*": ("directranker-neighbours", _SQUARED),
    "RankNet*, cost r(d)": ("directranker-neighbours", {**_SQUARED, "pair_weight": "grade"}),
    "RankNet": ("ranknet", {}),
    "LambdaRank": ("lambdarank", {}),
    "ListNet": ("listnet", {}),
}
_SCALINGS = ("none", "standard", "log", "normal", "quantile", "query", "zscore",
             "rank", "query+rank")  # fmt: skip
_TIMED = {  # without a search of settings, which the papers' table leaves out
    "SortNet": "sortnet:scaling=query+rank",
    "RankNet*": "directranker:hidden=32",
    "RankNet": "ranknet:hidden=32",
    "ListNet": "listnet:hidden=32",
    "AdaRank": "adarank-ndcg:rounds=100",
    "LambdaMART": "lambdamart:trees=300",
}
_PAPER = "sortnet-paper:hidden=20"
_ORDERED = {
    "CmpNN, as in the paper": _PAPER,
    "CmpNN, committee": "sortnet:scaling=query,hidden=32",
    "DirectRanker": "sortnet-directranker:scaling=query,hidden=32",
}


@dataclass(frozen=True)
class Size:
    """How large a study is.

    Attributes:
        documents: to learn from, of made data.
        tested: to test with, of made data.
        draws: of made data, each a repetition.
        folds: of a folder, the first ones; None: all.
        step: the factor between two budgets of answers.
        most: documents of the largest training part, where their number is studied.
        sets: to learn from, of made sets.
    """

    documents: int
    tested: int
    draws: int
    folds: int | None
    step: int
    most: int
    sets: int


SIZES = {
    "small": Size(10_000, 2_000, 3, 2, 8, 10_000, 2_000),
    "paper": Size(100_000, 10_000, 5, None, 2, 100_000, 10_000),
}


class Plan(NamedTuple):
    """What a study is made on: a folder of folds, if there is one, a size and a seed."""

    folder: str | None
    size: Size
    seed: int
    columns: NamedColumns = UNNAMED  # of the folds' tables

    def folds(self) -> list[OfficialFold]:
        """The folds of the folder, as many as the size says."""
        return folds_of(str(self.folder), self.columns)[: self.size.folds]

    def seeds(self) -> range:
        return range(self.seed, self.seed + self.size.draws)

    def made(self, **changes: Any) -> list[MadeClasses]:
        """A draw of made data for each repetition."""
        sizes = {"n_train": self.size.documents, "n_test": self.size.tested}
        return [MadeClasses(**{**sizes, **changes}, seed=seed) for seed in self.seeds()]


class Point(NamedTuple):
    """A cell, and where it stands in the figure."""

    cell: Cell
    series: str
    x: Any


class Row(NamedTuple):
    """A figure of one cell; those of one measure, series and `at` are averaged, and so are x."""

    measure: str
    series: str
    x: Any
    value: float
    at: Any = None


Test = Callable[[], Queries]
Read = Callable[[Point, Result, Test], Iterable[Row]]


@dataclass(frozen=True)
class Study:
    """A study of the papers.

    Attributes:
        says: what it asks, in a sentence.
        source: where the papers do.
        x: what is across.
        points: what is worked out.
        read: the figures of one cell.
        data: whether it takes a folder of folds: `folder`, `made` data alone, or `either`.
        log: whether x is drawn on a logarithmic scale.
        notes: what else follows from the frame, in lines of text.
    """

    says: str
    source: str
    x: str
    points: Callable[[Plan], list[Point]]
    read: Read
    data: str = "folder"
    log: bool = False
    notes: Callable[[pd.DataFrame], list[str]] = lambda frame: []


def points_of(
    name: str,
    folder: str | None,
    size: Size,
    seed: int = 0,
    columns: NamedColumns = UNNAMED,
) -> list[Point]:
    """What a study works out.

    Raises:
        SortNetError: on an unknown study, or one that lacks a folder or takes none.
    """
    if name not in STUDIES:
        near = get_close_matches(name, STUDIES, n=3) or list(STUDIES)
        raise SortNetError(f"unknown study {name[:60]!r}; there is {', '.join(near)}")
    study = STUDIES[name]
    if folder is None and study.data == "folder":
        raise SortNetError(f"the study {name} needs data: sortnet experiment study {name} LETOR")
    if folder is not None and study.data == "made":
        raise SortNetError(f"the study {name} makes its data: leave out {folder[:60]!r}")
    return study.points(Plan(folder, size, seed, columns))


def frame_of(
    name: str, found: Iterable[tuple[Point, Result]], *, cache: Path | None = None
) -> pd.DataFrame:
    """The figures of a study.

    Returns:
        Columns `measure`, `series`, the study's x, `value`, `value_error` (its standard error, NaN
        of one cell) and `cells`, that were averaged.

    Cost: reading the test part of every division once.
    """
    import pandas as pd

    @lru_cache
    def test_part(split: Split) -> Queries:
        test = split.load(cache).test
        assert test is not None
        return test

    study = STUDIES[name]
    rows = [
        row._replace(at=row.x if row.at is None else row.at)
        for point, result in found
        for row in study.read(point, result, lambda split=point.cell.split: test_part(split))  # type: ignore[misc]
    ]
    frame = pd.DataFrame(rows, columns=Row._fields)
    groups = frame.groupby(["measure", "series", "at"], sort=False)
    means = group_means(groups, ["value"])
    table = [
        (measure, series, _common(rows["x"]), mean, error, len(rows))
        for ((measure, series, _), rows), mean, error in zip(
            groups, means["value"], means["value_error"], strict=True
        )
    ]
    return pd.DataFrame(
        table, columns=["measure", "series", study.x, "value", "value_error", "cells"]
    )


def _common(x: pd.Series[Any]) -> Any:
    """The value of all rows; their mean where they differ."""
    return x.iloc[0] if x.nunique() == 1 else x.mean()


def _on_folds(plan: Plan, rankers: Iterable[tuple[Entry, str, Any]], **cell: Any) -> list[Point]:
    """Points of (ranker, series, x) on every fold."""
    return [
        Point(Cell(ranker, split, plan.seed, **cell), series, x)
        for ranker, series, x in rankers
        for split in plan.folds()
    ]


def _net(learner: str, classes: int) -> Entry:
    """The papers' net for made data, 70 units and as many as there are classes."""
    kind, own = _LEARNERS[learner]
    return ENTRIES[kind].changed(hidden=(70, classes), **_MADE, **own)


def _on_made(
    plan: Plan, field: str, values: Iterable[Any], learners: Iterable[str] = ("RankNet*",),
    **fixed: Any,
) -> list[Point]:  # fmt: skip
    """Points of made data that differ in one thing."""
    return [
        Point(
            Cell(_net(learner, split.classes), split, split.seed, quality="ndcg@20"),
            learner, value,
        )
        for learner in learners
        for value in values
        for split in plan.made(**{**fixed, field: value})
    ]  # fmt: skip


def _on_shares(plan: Plan, field: str, values: Iterable[Any]) -> list[Point]:
    """Points of folds of which a share of the training part is left."""
    return [
        Point(
            Cell(
                ENTRIES[kind].changed(hidden=(70,), **own),
                replace(TrainingShare(fold.folder, columns=fold.columns), **{field: share}),
                plan.seed,
            ),
            learner, share,
        )
        for learner, (kind, own) in _LEARNERS.items()
        for share in values
        for fold in plan.folds()
    ]  # fmt: skip


def _training_size(plan: Plan) -> list[Point]:
    if plan.folder is not None:
        return _on_shares(plan, "share", (0.01, 0.03, 0.1, 0.3, 1.0))
    sizes = [n for n in (100, 1_000, 10_000, 100_000) if n <= plan.size.most]
    return _on_made(plan, "n_train", sizes, _LEARNERS)


def _label_ratio(plan: Plan) -> list[Point]:
    ratios = (0.001, 0.01, 0.1, 1.0)
    if plan.folder is not None:
        return _on_shares(plan, "label_ratio", ratios[1:])
    return _on_made(plan, "label_ratio", ratios, _LEARNERS, classes=6)


def _optimiser_activation(plan: Plan) -> list[Point]:
    optimisers, taus = {"gradient descent": "sgd", "Adam": "adam"}, ("sigmoid", "tanh", "identity")
    return _on_folds(
        plan,
        [
            (
                ENTRIES["directranker"].changed(
                    hidden=(32, 20, 5), loss="squared", optimizer=name, tau=tau
                ),
                optimiser, "linear" if tau == "identity" else tau,
            )
            for optimiser, name in optimisers.items()
            for tau in taus
        ],
        quality="ndcg@10",
    )  # fmt: skip


def _neighbours(plan: Plan) -> list[Point]:
    """Of a folder the upper half of the grades is relevant, as in the papers."""
    splits: list[Split] = [*(plan.folds() if plan.folder else plan.made())]
    relevant = (int(splits[0].load().train.grades.max()) + 1) // 2 if plan.folder else 3
    kinds = {"all grades learned": False, "two grades learned": True}
    return [
        Point(
            Cell(
                _net("RankNet*", 5), split, plan.seed + k, quality="ndcg@20",
                relevant_from=relevant, binarise=binarise, observe=neighbours,
            ),
            series, k,
        )
        for series, binarise in kinds.items()
        for k, split in enumerate(splits)
    ]  # fmt: skip


def _order(plan: Plan) -> list[Point]:
    if plan.folder is not None:
        return _on_folds(
            plan, [(entry_of(r), name, "") for name, r in _ORDERED.items()], observe=orders
        )
    n_train = min(3000, plan.size.documents)  # CmpNN sorts them up to 20 times
    lists = {"shortest": 1000, "longest": 1000, "lists": 5, "n_train": n_train, "features": 10}
    return [
        Point(Cell(entry_of(ranker), split, split.seed, observe=orders), name, "")
        for name, ranker in _ORDERED.items()
        for split in plan.made(**lists)
    ]


def _pair_efficiency(plan: Plan) -> list[Point]:
    splits: list[Split] = [*plan.folds()] if plan.folder else [Digits(n) for n in plan.seeds()]
    scaling, empty = ("query+rank", "skip") if plan.folder else ("quantile", "zero")
    budgets = budgets_of(splits[0].load().train, plan.size.step)
    asked = [("all", None), *((s, budget) for s in STRATEGIES for budget in budgets)]
    return [
        Point(
            cell_of(split, strategy, budget, scaling=scaling, empty=empty, seed=plan.seed),
            strategy,
            budget,
        )
        for strategy, budget in asked
        for split in splits
    ]


def set_points(models: Sequence[Entry], draws: int, seed: int, **sizes: int) -> list[Point]:
    """Points of models whose test sets are of many sizes; `sizes` are of `MadeSets`.

    Raises:
        DataError: if the sets cannot be drawn.
    """
    least, most = SET_SIZES
    splits = [
        MadeSets("medoid", number, smallest=least, largest=most, seed=seed, **sizes)
        for number in range(1, draws + 1)
    ]
    return [Point(cell, cell.ranker.name, None) for cell in cells_of(models, splits, seed)]


def _set_sizes(plan: Plan) -> list[Point]:
    models, size = models_named(",".join(SET_MODELS)), plan.size
    return set_points(models, size.draws, plan.seed, train=size.sets, test=size.tested)


def _by_set_size(point: Point, result: Result, test: Test) -> list[Row]:
    sets = test()
    right = outcomes(Metric(QUALITY), sets, result.order)
    name = "0/1 ranking accuracy"
    return [
        Row(name, point.series, int(n), float(right[sets.sizes == n].mean()))
        for n in np.unique(sets.sizes)
    ]


def _at_ranks(point: Point, result: Result, test: Test) -> list[Row]:
    """NDCG@n and P@n over n, and MAP."""
    ranks = range(1, 11)
    names = ["map", *(f"{kind}@{n}" for kind in ("ndcg", "p") for n in ranks)]
    found = evaluate(test(), result.order, names, empty="skip")
    return [
        *(Row("NDCG@n", point.series, n, found[f"ndcg@{n}"]) for n in ranks),
        *(Row("P@n", point.series, n, found[f"p@{n}"]) for n in ranks),
        Row("MAP", point.series, "all", found["map"]),
    ]


def _measured(*names: str) -> Read:
    """These measures of the test part, queries without a relevant document left out."""

    def read(point: Point, result: Result, test: Test) -> list[Row]:
        found = evaluate(test(), result.order, names, empty="skip")
        return [Row(name.upper(), point.series, point.x, value) for name, value in found.items()]

    return read


def _of_training_part(point: Point, result: Result, test: Test) -> Iterable[Row]:
    name = "ndcg@20" if isinstance(point.cell.split, MadeClasses) else "ndcg@10"
    return _measured(name)(point, result, test)


def _convergence(point: Point, result: Result, test: Test) -> list[Row]:
    seen, quality = result.about["observed"], str(point.cell.quality)
    rows = []
    for part, called in (("train", "training"), ("vali", "validation")):
        for i, (measures, wrong) in enumerate(
            zip(seen["measures"][part], seen["wrong"][part], strict=True)
        ):
            rows.append(Row(quality.upper(), called, i, measures[quality]))
            rows.append(Row("share of comparisons wrong", called, i, wrong))
    return rows + [Row("pairs kept", "training", i, kept) for i, kept in enumerate(seen["kept"])]


def _runtime(point: Point, result: Result, test: Test) -> list[Row]:
    took = result.about["seconds"]
    return [
        Row("seconds", "reading", point.x, took["read"]),
        Row("seconds", "training", point.x, took["fit"]),
        Row("seconds", "ranking the test part", point.x, took["rank"]),
    ]


def _peaks(point: Point, result: Result, test: Test) -> list[Row]:
    """Of the first fold or draw the sorted list, of all of them the classifier's accuracy."""
    seen = result.about["observed"]
    rows = [
        Row("accuracy", point.series, "thresholds at the peaks", seen["accuracy"]),
        Row("accuracy", point.series, "the commonest grade", seen["majority"]),
    ]
    if point.x == 0:
        name, grades, highest = f"r, {point.series}", seen["grades"], len(seen["peaks"])
        rows += [Row(name, "r of neighbours", k + 1, r) for k, r in enumerate(seen["r"])]
        for k, grade in enumerate(grades):
            above = highest - sum(peak < k for peak in seen["peaks"])
            rows.append(Row(name, "grade / highest", k + 1, grade / max(grades)))
            rows.append(Row(name, "the same by the peaks", k + 1, above / highest))
    return rows


_MOVES = {
    "mean": "places moved, mean",
    "max": "places moved, most",
    "share": "documents that moved, share",
}


def _moves(point: Point, result: Result, test: Test) -> list[Row]:
    return [
        Row(_MOVES[name], point.series, against, value)
        for against, moved in result.about["observed"].items()
        for name, value in moved.items()
    ]


def _shares(point: Point, result: Result, test: Test) -> list[Row]:
    seen = result.about["observed"]
    quality = evaluate(test(), result.order, "ndcg@10", empty="skip")["ndcg@10"]
    at = {"x": seen["answers"], "at": point.x or 0}
    return [
        Row("NDCG@10", point.series, value=quality, **at),
        Row("share of pairs learned from", point.series, value=seen["pairs"], **at),
    ]


def _enough(frame: pd.DataFrame) -> list[str]:
    """Where each strategy is as good as all pairs, nearly."""
    quality, pairs = (frame[frame["measure"] == name] for name in frame["measure"].unique()[:2])
    reference = float(quality.loc[quality["series"] == "all", "value"].iloc[0])
    lines = []
    for strategy in dict.fromkeys(quality["series"]):
        if strategy == "all":
            continue
        own = quality["series"].to_numpy() == strategy
        found = np.column_stack(
            [pairs["value"].to_numpy()[own], quality.iloc[:, 2][own], quality["value"][own]]
        )
        p, a = crossing(found.astype(np.float64), reference)
        enough = "not reached" if isnan(p) else f"{p:.2%} of the pairs, {a:.2%} of the answers"
        lines.append(f"{REACHED:.0%} of the quality of all pairs by {strategy}: {enough}")
    return lines


_2018 = "Pfannschmidt, Gupta and Hüllermeier 2018"
_2008, _2025 = "SortNet (Rigutini et al.)", "RankNet revisited (Köppel et al. 2025)"
_DOCUMENTS = "training documents, or share of the training part"

STUDIES: dict[str, Study] = {
    "hidden": Study(
        "How many hidden units does the comparator need?", f"{_2008}, table 1", "n",
        lambda plan: _on_folds(
            plan,
            [(entry_of(f"sortnet-paper:hidden={h}"), f"{h} hidden", None) for h in (10, 20, 30)],
            quality="map",
        ),
        _at_ranks,
    ),
    "rank-quality": Study(
        "Does a RankQuality raise the measure that it is?", f"{_2008}, table 2", "n",
        lambda plan: [
            point
            for quality in ("map", "p@10")
            for point in _on_folds(
                plan, [(entry_of(_PAPER), quality.upper(), None)], quality=quality
            )
        ],
        _at_ranks,
    ),
    "convergence": Study(
        "When does the loop converge?", f"{_2008}, figure 3", "iteration",
        lambda plan: _on_folds(
            plan, [(entry_of(_PAPER), "", None)], quality="map", observe=iterations
        ),
        _convergence,
    ),
    "classes": Study(
        "How does quality fall with the number of classes?", f"{_2025}, figure 4a", "classes",
        lambda plan: _on_made(plan, "classes", (2, 5, 10, 20)),
        _measured("ndcg@20"), "made",
    ),
    "features": Study(
        "How does quality grow with the number of features?", f"{_2025}, figure 4b", "features",
        lambda plan: _on_made(plan, "features", (2, 5, 10, 20, 40, 100)),
        _measured("ndcg@20"), "made", log=True,
    ),
    "noise": Study(
        "How much noise on the grades does it bear?", f"{_2025}, figure 4c",
        "standard deviation of the noise",
        lambda plan: _on_made(plan, "noise", (0.0, 0.25, 0.5, 0.75, 1.0, 1.5)),
        _measured("ndcg@20"), "made",
    ),
    "training-size": Study(
        "How many training documents does each ranker need?", f"{_2025}, figures 4d, 5a, 5b",
        _DOCUMENTS, _training_size, _of_training_part, "either", log=True,
    ),
    "label-ratio": Study(
        "How few documents of the upper grades may there be?", f"{_2025}, figures 5c, 5d",
        "share of the upper grades that is left", _label_ratio, _of_training_part, "either",
        log=True,
    ),
    "optimiser-activation": Study(
        "Does the optimiser count, or the output activation?", f"{_2025}, table 2",
        "output activation", _optimiser_activation, _measured("ndcg@10"),
    ),
    "runtime": Study(
        "How long do reading and training take?", f"{_2025}, table 3", "ranker",
        lambda plan: _on_folds(plan, [(entry_of(r), name, name) for name, r in _TIMED.items()]),
        _runtime,
    ),
    "neighbours": Study(
        "Do peaks of r in a sorted list say where the grades change?", f"{_2025}, figure 6",
        "place in the sorted list, or classifier", _neighbours, _peaks, "either",
    ),
    "order": Study(
        "Does the ranking depend on the input order, or on the sorting algorithm?",
        f"{_2008}, section 3", "other sort", _order, _moves, "either",
    ),
    "pair-efficiency": Study(
        "How many answers does each strategy of choosing pairs need?", f"{_2008}, section 3.1",
        "answers, share of all pairs", _pair_efficiency, _shares, "either", log=True,
        notes=_enough,
    ),
    "scaling": Study(
        "Which scaling of the features is best?", f"{_2008}, equation 5; {_2025}, section 4.4",
        "scaling",
        lambda plan: _on_folds(
            plan,
            [
                (ENTRIES[kind].changed(scaling=scaling, hidden=(32,), **more), name, scaling)
                for name, kind, more in (
                    ("CmpNN", "sortnet-cmpnn", {"committee": 1}),
                    ("RankNet*", "directranker", {"loss": "squared"}),
                )
                for scaling in _SCALINGS
            ],
        ),
        _measured("ndcg@10", "map"),
    ),
    "weighting": Study(
        "Does it help a net to weigh pairs by what they change in NDCG?",
        "LambdaRank (Burges 2010)", "weight of a pair",
        lambda plan: _on_folds(
            plan,
            [
                (ENTRIES["lambdarank"].changed(hidden=units, weighting=name), series, said)
                for units, series in (((32,), "32 hidden"), ((64, 64), "64-64 hidden"))
                for name, said in (
                    ("none", "none"), ("ideal", "of the ideal DCG"), ("delta", "|delta NDCG|"),
                )
            ],
        ),
        _measured("ndcg@10", "map"),
    ),
    "set-sizes": Study(
        "How well are sets of other sizes ranked than those learned from?", f"{_2018}, figure 4",
        "objects of a set", _set_sizes, _by_set_size, "made",
    ),
}  # fmt: skip
