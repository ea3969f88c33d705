"""Cells that studies work out, on folds and on made data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from sortnet.lab.cells import Cell
from sortnet.lab.entries import ENTRIES, Entry, entry_of
from sortnet.lab.observers import iterations, neighbours, orders
from sortnet.lab.pair_efficiency import STRATEGIES, budgets_of, cell_of
from sortnet.lab.set_problems import SET_MODELS, SIZES, MadeSets, cells_of, models_named
from sortnet.lab.splits import Split
from sortnet.lab.study_plan import Plan, Point
from sortnet.lab.synthetic import Digits, TrainingShare

_PAPER_SORTNET = "sortnet-paper:hidden=20"
_FIXED = {"scaling": "quantile", "epochs": 10}  # settings of nets on made data
_SQUARED = {"loss": "squared"}


class _Learner(NamedTuple):
    """A ranker of the studies of the training part."""

    kind: str
    settings: dict[str, Any]


_LEARNERS = {
    "RankNet*": _Learner("directranker-neighbours", _SQUARED),
    "RankNet*, cost r(d)": _Learner(
        "directranker-neighbours", {**_SQUARED, "pair_weight": "grade"}
    ),
    "RankNet": _Learner("ranknet", {}),
    "LambdaRank": _Learner("lambdarank", {}),
    "ListNet": _Learner("listnet", {}),
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
_SORTING = {
    "CmpNN, as in the paper": _PAPER_SORTNET,
    "CmpNN, committee": "sortnet:scaling=query,hidden=32",
    "DirectRanker": "sortnet-directranker:scaling=query,hidden=32",
}


class _Placed(NamedTuple):
    """A ranker, and where its cells stand in the figure."""

    ranker: Entry
    series: str
    x: Any


def _on_folds(plan: Plan, rankers: Iterable[_Placed], **options: Any) -> list[Point]:
    """Points of rankers on every fold; `options` are of `Cell`."""
    return [
        Point(Cell(placed.ranker, split, plan.seed, **options), placed.series, placed.x)
        for placed in rankers
        for split in plan.folds()
    ]


def on_made_data(
    plan: Plan,
    field: str,
    values: Iterable[Any],
    learners: Iterable[str] = ("RankNet*",),
    **fixed: Any,
) -> list[Point]:
    """Points of made data that differ in one field of `MadeClasses`."""
    return [
        Point(
            Cell(_net(learner, split.classes), split, split.seed, quality="ndcg@20"),
            learner,
            value,
        )
        for learner in learners
        for value in values
        for split in plan.made(**{**fixed, field: value})
    ]


def _net(learner: str, n_classes: int) -> Entry:
    """The papers' net for made data, with layers of 70 units and of a unit for each class."""
    kind, settings = _LEARNERS[learner]
    return ENTRIES[kind].changed(hidden=(70, n_classes), **_FIXED, **settings)


def _on_shares(plan: Plan, field: str, shares: Iterable[Any]) -> list[Point]:
    """Points of folds that keep only a share of the training part."""
    return [
        Point(
            Cell(
                ENTRIES[kind].changed(hidden=(70,), **settings),
                replace(TrainingShare(fold.folder, columns=fold.columns), **{field: share}),
                plan.seed,
            ),
            learner,
            share,
        )
        for learner, (kind, settings) in _LEARNERS.items()
        for share in shares
        for fold in plan.folds()
    ]


def hidden_units(plan: Plan) -> list[Point]:
    """The comparator of the paper with 10, 20 and 30 units."""
    rankers = [
        _Placed(entry_of(f"sortnet-paper:hidden={units}"), f"{units} hidden", None)
        for units in (10, 20, 30)
    ]
    return _on_folds(plan, rankers, quality="map")


def rank_qualities(plan: Plan) -> list[Point]:
    """The paper's SortNet, chosen by MAP and by P@10."""
    points = []
    for quality in ("map", "p@10"):
        ranker = _Placed(entry_of(_PAPER_SORTNET), quality.upper(), None)
        points += _on_folds(plan, [ranker], quality=quality)
    return points


def loop_iterations(plan: Plan) -> list[Point]:
    """The paper's SortNet; the figure shows each of its iterations."""
    ranker = _Placed(entry_of(_PAPER_SORTNET), "", None)
    return _on_folds(plan, [ranker], quality="map", observe=iterations)


def training_sizes(plan: Plan) -> list[Point]:
    """Every learner with more and more training documents."""
    if plan.folder is not None:
        return _on_shares(plan, "share", (0.01, 0.03, 0.1, 0.3, 1.0))
    sizes = [n for n in (100, 1_000, 10_000, 100_000) if n <= plan.size.most]
    return on_made_data(plan, "n_train", sizes, _LEARNERS)


def label_ratios(plan: Plan) -> list[Point]:
    """Every learner with fewer and fewer documents of the upper grades."""
    if plan.folder is not None:
        return _on_shares(plan, "label_ratio", (0.01, 0.1, 1.0))
    return on_made_data(plan, "label_ratio", (0.001, 0.01, 0.1, 1.0), _LEARNERS, classes=6)


def optimisers_and_activations(plan: Plan) -> list[Point]:
    """A DirectRanker for each optimiser and each output activation."""
    optimisers = {"gradient descent": "sgd", "Adam": "adam"}
    activations = {"sigmoid": "sigmoid", "tanh": "tanh", "identity": "linear"}
    rankers = [
        _Placed(
            ENTRIES["directranker"].changed(
                hidden=(32, 20, 5), loss="squared", optimizer=optimiser, tau=tau
            ),
            series,
            activation,
        )
        for series, optimiser in optimisers.items()
        for tau, activation in activations.items()
    ]
    return _on_folds(plan, rankers, quality="ndcg@10")


def runtimes(plan: Plan) -> list[Point]:
    """Rankers whose seconds are measured."""
    return _on_folds(
        plan, [_Placed(entry_of(ranker), name, name) for name, ranker in _TIMED.items()]
    )


def sorted_neighbours(plan: Plan) -> list[Point]:
    """Nets whose neighbours in the sorted lists are observed.

    In a folder the upper half of the grades is relevant, as in the papers.
    """
    splits: list[Split] = [*(plan.folds() if plan.folder else plan.made())]
    relevant_from = 3
    if plan.folder:
        highest_grade = int(splits[0].load().train.grades.max())
        relevant_from = (highest_grade + 1) // 2
    return [
        Point(
            Cell(
                _net("RankNet*", 5),
                split,
                plan.seed + k,
                quality="ndcg@20",
                relevant_from=relevant_from,
                binarise=binarise,
                observe=neighbours,
            ),
            series,
            k,
        )
        for series, binarise in (("all grades learned", False), ("two grades learned", True))
        for k, split in enumerate(splits)
    ]


def input_orders(plan: Plan) -> list[Point]:
    """Comparators whose sort starts from other orders of the documents."""
    if plan.folder is not None:
        rankers = [_Placed(entry_of(ranker), name, "") for name, ranker in _SORTING.items()]
        return _on_folds(plan, rankers, observe=orders)
    n_train = min(3000, plan.size.documents)  # CmpNN sorts them up to 20 times
    lists = {"shortest": 1000, "longest": 1000, "lists": 5, "n_train": n_train, "features": 10}
    return [
        Point(Cell(entry_of(ranker), split, split.seed, observe=orders), name, "")
        for name, ranker in _SORTING.items()
        for split in plan.made(**lists)
    ]


def pair_budgets(plan: Plan) -> list[Point]:
    """All pairs, and every strategy within growing budgets of answers."""
    splits: list[Split]
    if plan.folder:
        splits = [*plan.folds()]
        scaling, empty = "query+rank", "skip"
    else:
        splits = [Digits(seed) for seed in plan.seeds()]
        scaling, empty = "quantile", "zero"
    budgets = budgets_of(splits[0].load().train, plan.size.step)
    strategies: list[tuple[str, int | None]] = [("all", None)]
    strategies += [(strategy, budget) for strategy in STRATEGIES for budget in budgets]
    return [
        Point(
            cell_of(split, strategy, budget, scaling=scaling, empty=empty, seed=plan.seed),
            strategy,
            budget,
        )
        for strategy, budget in strategies
        for split in splits
    ]


def scalings(plan: Plan) -> list[Point]:
    """Two comparators with every scaling of the features."""
    nets: tuple[tuple[str, str, dict[str, Any]], ...] = (
        ("CmpNN", "sortnet-cmpnn", {"committee": 1}),
        ("RankNet*", "directranker", {"loss": "squared"}),
    )
    rankers = [
        _Placed(ENTRIES[kind].changed(scaling=scaling, hidden=(32,), **settings), series, scaling)
        for series, kind, settings in nets
        for scaling in _SCALINGS
    ]
    return _on_folds(plan, rankers)


def pair_weightings(plan: Plan) -> list[Point]:
    """LambdaRank with every weight of a pair, and two sizes of the net."""
    nets = (("32 hidden", (32,)), ("64-64 hidden", (64, 64)))
    weightings = {"none": "none", "ideal": "of the ideal DCG", "delta": "|delta NDCG|"}
    rankers = [
        _Placed(ENTRIES["lambdarank"].changed(hidden=units, weighting=weighting), series, title)
        for series, units in nets
        for weighting, title in weightings.items()
    ]
    return _on_folds(plan, rankers)


def set_points(models: Sequence[Entry], draws: int, seed: int, **sizes: int) -> list[Point]:
    """Points of models that are tested on sets of many sizes.

    Args:
        models: the models.
        draws: number of draws of the data; each model has a point for each draw.
        seed: seed of the draws and of the models.
        sizes: fields of `MadeSets`, such as `train` and `test`, the numbers of sets.

    Raises:
        DataError: if the sets cannot be drawn.
    """
    smallest, largest = SIZES
    splits = [
        MadeSets("medoid", number, smallest=smallest, largest=largest, seed=seed, **sizes)
        for number in range(1, draws + 1)
    ]
    return [Point(cell, series=cell.ranker.name, x=None) for cell in cells_of(models, splits, seed)]


def set_sizes(plan: Plan) -> list[Point]:
    """Models that see the whole set, tested on sets of many sizes."""
    models = models_named(",".join(SET_MODELS))
    return set_points(
        models, plan.size.draws, plan.seed, train=plan.size.sets, test=plan.size.tested
    )
