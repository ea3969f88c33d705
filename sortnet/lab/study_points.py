"""List the cells that each study computes, on folds or on synthetic data.

A point is a cell with its place in the figure of the study: its curve and its x.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from sortnet.lab.cells import Cell
from sortnet.lab.entries import ENTRIES, Entry, entry_of
from sortnet.lab.observers import iterations, neighbours, orders
from sortnet.lab.pair_efficiency import REFERENCE, STRATEGIES, budgets_of, cell_of
from sortnet.lab.set_problems import SET_MODELS, SIZES, MadeSets, cells_of, models_named
from sortnet.lab.splits import Split
from sortnet.lab.study_plan import Plan, Point
from sortnet.lab.synthetic import Digits, TrainingShare

_PAPER_SORTNET = "sortnet-paper:hidden=20"
_FIXED = {"scaling": "quantile", "epochs": 10}  # settings of nets on synthetic data
_SQUARED = {"loss": "squared"}
_LOWEST_RELEVANT_MADE = 3  # lowest relevant grade of synthetic data, whose grades are from 0 to 4


class _Learner(NamedTuple):
    """A kind of ranker with settings, in the studies that vary the training part."""

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
# Rankers whose time is measured. Their settings are fixed, because the table in the paper has the
# time of training without the time of a search.
_TIMED = {
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
    """A ranker, with the curve (`series`) and the x of its cells in the figure of a study."""

    ranker: Entry
    series: str
    x: Any


def _on_folds(plan: Plan, rankers: Iterable[_Placed], **options: Any) -> list[Point]:
    """List the cells of each ranker on each fold; `options` are further fields of `Cell`."""
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
    """List the points of curves over one property of synthetic data, such as its noise.

    A point is the result of one training: its x is the value of the property, and its curve is that
    of the kind of net.

    Args:
        plan: the plan of the study, which draws the data several times.
        field: name of the property, a field of `MadeClasses`, such as `classes` or `noise`.
        values: values of the property.
        learners: names of kinds of nets, from `_LEARNERS`; each is a curve.
        fixed: values of other properties, the same for all points.
    """
    points = []
    for learner in learners:
        for value in values:
            properties = {**fixed, field: value}
            for split in plan.made(**properties):
                net = _net(learner, split.classes)
                cell = Cell(net, split, split.seed, quality="ndcg@20")
                points.append(Point(cell, learner, value))
    return points


def _net(learner: str, n_classes: int) -> Entry:
    """Make the net of the paper for synthetic data: 70 hidden units, then one for each class."""
    kind, settings = _LEARNERS[learner]
    return ENTRIES[kind].changed(hidden=(70, n_classes), **_FIXED, **settings)


def _on_shares(plan: Plan, field: str, shares: Iterable[Any]) -> list[Point]:
    """List cells on folds that are trained with only a share of the training part.

    Args:
        plan: the plan of the study.
        field: the field of `TrainingShare` that gets the share.
        shares: the shares, which are the x of the points.
    """
    points = []
    for learner, (kind, settings) in _LEARNERS.items():
        ranker = ENTRIES[kind].changed(hidden=(70,), **settings)
        for share in shares:
            for fold in plan.folds():
                whole = TrainingShare(fold.folder, columns=fold.columns)
                cell = Cell(ranker, replace(whole, **{field: share}), plan.seed)
                points.append(Point(cell, learner, share))
    return points


def hidden_units(plan: Plan) -> list[Point]:
    """List the cells of the paper's SortNet with 10, 20 and 30 hidden units."""
    rankers = [
        _Placed(entry_of(f"sortnet-paper:hidden={units}"), f"{units} hidden", None)
        for units in (10, 20, 30)
    ]
    return _on_folds(plan, rankers, quality="map")


def rank_qualities(plan: Plan) -> list[Point]:
    """List the cells of the paper's SortNet with MAP and with P@10 as RankQuality."""
    points = []
    for quality in ("map", "p@10"):
        ranker = _Placed(entry_of(_PAPER_SORTNET), quality.upper(), None)
        points += _on_folds(plan, [ranker], quality=quality)
    return points


def loop_iterations(plan: Plan) -> list[Point]:
    """List the cells of the paper's SortNet whose iterations are observed."""
    ranker = _Placed(entry_of(_PAPER_SORTNET), "", None)
    return _on_folds(plan, [ranker], quality="map", observe=iterations)


def training_sizes(plan: Plan) -> list[Point]:
    """List the cells of all learners with growing numbers of training documents."""
    if plan.folder is not None:
        return _on_shares(plan, "share", (0.01, 0.03, 0.1, 0.3, 1.0))
    sizes = [n for n in (100, 1_000, 10_000, 100_000) if n <= plan.size.most]
    return on_made_data(plan, "n_train", sizes, _LEARNERS)


def label_ratios(plan: Plan) -> list[Point]:
    """List the cells of all learners with several shares of documents of the upper grades."""
    if plan.folder is not None:
        return _on_shares(plan, "label_ratio", (0.01, 0.1, 1.0))
    return on_made_data(plan, "label_ratio", (0.001, 0.01, 0.1, 1.0), _LEARNERS, classes=6)


def optimisers_and_activations(plan: Plan) -> list[Point]:
    """List the cells of a DirectRanker with each optimiser and each output activation."""
    optimisers = {"gradient descent": "sgd", "Adam": "adam"}
    activations = {"sigmoid": "sigmoid", "tanh": "tanh", "identity": "linear"}
    rankers = []
    for series, optimiser in optimisers.items():
        for tau, activation in activations.items():
            ranker = ENTRIES["directranker"].changed(
                hidden=(32, 20, 5), loss="squared", optimizer=optimiser, tau=tau
            )
            rankers.append(_Placed(ranker, series, activation))
    return _on_folds(plan, rankers, quality="ndcg@10")


def runtimes(plan: Plan) -> list[Point]:
    """List the cells of the rankers whose time is measured."""
    rankers = [_Placed(entry_of(ranker), name, name) for name, ranker in _TIMED.items()]
    return _on_folds(plan, rankers)


def sorted_neighbours(plan: Plan) -> list[Point]:
    """List the cells that observe a net's margins between neighbours in sorted lists.

    On each split a net learns all grades, and a second net learns only whether a document is
    relevant. The upper half of the grades is relevant, as in the paper.
    """
    splits: list[Split] = [*plan.folds()] if plan.folder else [*plan.made()]
    relevant_from = _lowest_relevant_grade(splits[0]) if plan.folder else _LOWEST_RELEVANT_MADE
    net = _net("RankNet*", n_classes=5)
    points = []
    for series, binarise in (("all grades learned", False), ("two grades learned", True)):
        for k, split in enumerate(splits):
            cell = Cell(
                net,
                split,
                plan.seed + k,
                quality="ndcg@20",
                relevant_from=relevant_from,
                binarise=binarise,
                observe=neighbours,
            )
            points.append(Point(cell, series, k))
    return points


def _lowest_relevant_grade(split: Split) -> int:
    """Find the lowest grade in the upper half of the grades of a training part."""
    highest_grade = int(split.load().train.grades.max())
    return (highest_grade + 1) // 2


def input_orders(plan: Plan) -> list[Point]:
    """List the cells in which a comparator sorts the same documents again from other orders."""
    if plan.folder is not None:
        rankers = [_Placed(entry_of(ranker), name, "") for name, ranker in _SORTING.items()]
        return _on_folds(plan, rankers, observe=orders)
    n_train = min(3000, plan.size.documents)  # few, because CmpNN sorts them up to 20 times
    five_long_lists = {
        "shortest": 1000, "longest": 1000, "lists": 5, "n_train": n_train, "features": 10,
    }  # fmt: skip
    return [
        Point(Cell(entry_of(ranker), split, split.seed, observe=orders), name, "")
        for name, ranker in _SORTING.items()
        for split in plan.made(**five_long_lists)
    ]


def pair_budgets(plan: Plan) -> list[Point]:
    """List cells that train on grades, or on pairs that a strategy chooses within a budget.

    Without a folder, the data are images of handwritten digits.
    """
    splits: list[Split]
    if plan.folder:
        splits = [*plan.folds()]
        make_cell = partial(cell_of, scaling="query+rank", empty="skip", seed=plan.seed)
    else:
        splits = [Digits(seed) for seed in plan.seeds()]
        make_cell = partial(cell_of, scaling="quantile", empty="zero", seed=plan.seed)
    points = [Point(make_cell(split, "compared", None), REFERENCE, None) for split in splits]
    budgets = budgets_of(splits[0].load().train, plan.size.step)
    for strategy in STRATEGIES:
        for budget in budgets:
            for split in splits:
                points.append(Point(make_cell(split, strategy, budget), strategy, budget))
    return points


def scalings(plan: Plan) -> list[Point]:
    """List the cells of two comparators with every scaling of the features."""
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
    """List the cells of LambdaRank with every weighting of pairs and two sizes of the net."""
    nets = (("32 hidden", (32,)), ("64-64 hidden", (64, 64)))
    weightings = {"none": "none", "ideal": "of the ideal DCG", "delta": "|delta NDCG|"}
    rankers = [
        _Placed(ENTRIES["lambdarank"].changed(hidden=units, weighting=weighting), series, title)
        for series, units in nets
        for weighting, title in weightings.items()
    ]
    return _on_folds(plan, rankers)


def set_points(models: Sequence[Entry], draws: int, seed: int, **sizes: int) -> list[Point]:
    """List the cells of models that are tested on sets of many sizes.

    Args:
        models: the models.
        draws: number of draws of the data; each model has a cell for each draw.
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
    """List the cells of models that see the whole set and are tested on sets of many sizes."""
    models = models_named(",".join(SET_MODELS))
    return set_points(
        models, plan.size.draws, plan.seed, train=plan.size.sets, test=plan.size.tested
    )
