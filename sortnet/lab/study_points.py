"""List the cells that a study computes, on folds or on synthetic data.

A point is a cell with its place in the figure of the study: its curve and its x.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from sortnet.core import NamedColumns
from sortnet.core.named_columns import UNNAMED
from sortnet.lab.cells import Cell
from sortnet.lab.entries import Entry, entry_of
from sortnet.lab.observers import neighbours, orders
from sortnet.lab.pair_efficiency import REFERENCE, STRATEGIES, budgets_of, cell_of
from sortnet.lab.set_generators import SET_MODELS, STUDIED_SIZES, MadeSets, cells_of, models_named
from sortnet.lab.splits import OfficialFold, Split, folds_of
from sortnet.lab.synthetic import Digits, MadeClasses, TrainingShare

# A curve (`series`), an x, and a ranker as a user types it, see `entry_of`.
Placed: TypeAlias = tuple[str, Any, str]

# The nets of the studies that vary the training part, as typed; {net} are the settings of the net.
_NETS = {
    "RankNet*": "directranker-neighbours:{net},loss=squared",
    "RankNet*, cost r(d)": "directranker-neighbours:{net},loss=squared,pair_weight=grade",
    "RankNet": "ranknet:{net}",
    "LambdaRank": "lambdarank:{net}",
    "ListNet": "listnet:{net}",
}
_SORTING: list[Placed] = [
    ("CmpNN, as in the paper", "", "sortnet-paper:hidden=20"),
    ("CmpNN, committee", "", "sortnet:scaling=query,hidden=32"),
    ("DirectRanker", "", "sortnet-directranker:scaling=query,hidden=32"),
]
_LOWEST_RELEVANT_MADE = 3  # lowest relevant grade of synthetic data, whose grades are from 0 to 4


@dataclass(frozen=True)
class Size:
    """The size of a study.

    Attributes:
        documents: number of training documents of synthetic data.
        tested: number of test documents, or test sets, of synthetic data.
        draws: number of times that synthetic data are drawn; each draw is a repetition.
        folds: number of folds that are used, from the first on. If None, all folds.
        step: the factor between a budget of answers and the next larger budget.
        most: number of documents in the largest training part of a study of training sizes.
        sets: number of training sets, in a study of sets.
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
    """The data of a study: a folder of folds or synthetic data, a size and a seed.

    Attributes:
        folder: a folder of folds; None for synthetic data.
        size: the size of the study.
        seed: the first seed of the synthetic data, and the seed of the rankers on folds.
        columns: names of the columns, if the folds are tables.
    """

    folder: str | None
    size: Size
    seed: int
    columns: NamedColumns = UNNAMED

    def folds(self) -> list[OfficialFold]:
        """List the first folds of the folder, as many as the size says."""
        return folds_of(str(self.folder), self.columns)[: self.size.folds]

    def seeds(self) -> range:
        """Return a seed for each draw of synthetic data."""
        return range(self.seed, self.seed + self.size.draws)

    def made(self, **changes: Any) -> list[MadeClasses]:
        """List the draws of synthetic data; `changes` are values for fields of `MadeClasses`."""
        fields = {"n_train": self.size.documents, "n_test": self.size.tested, **changes}
        return [MadeClasses(**fields, seed=seed) for seed in self.seeds()]


class Point(NamedTuple):
    """A cell with its curve (`series`) and its x in the figure of a study."""

    cell: Cell
    series: str
    x: Any


def on_folds(plan: Plan, rankers: Iterable[Placed], **options: Any) -> list[Point]:
    """List the cells of each ranker on each fold; `options` are further fields of `Cell`."""
    return [
        Point(Cell(entry_of(ranker), fold, plan.seed, **options), series, x)
        for series, x, ranker in rankers
        for fold in plan.folds()
    ]


def on_made_data(
    plan: Plan, field: str, values: Iterable[Any], nets: Iterable[str] = ("RankNet*",), **fixed: Any
) -> list[Point]:
    """List the points of curves over one property of synthetic data, such as its noise.

    A point is the result of one training: its x is the value of the property, and its curve is that
    of the kind of net.

    Args:
        plan: the plan of the study, which draws the data several times.
        field: name of the property, a field of `MadeClasses`, such as `classes` or `noise`.
        values: values of the property.
        nets: kinds of nets, from `_NETS`; each is a curve.
        fixed: values of other properties, the same for all points.
    """
    return [
        Point(Cell(_net(kind, split.classes), split, split.seed, quality="ndcg@20"), kind, value)
        for kind in nets
        for value in values
        for split in plan.made(**{**fixed, field: value})
    ]


def _net(kind: str, n_classes: int) -> Entry:
    """Make the net of the paper for synthetic data: 70 hidden units, then one for each class."""
    return entry_of(_NETS[kind].format(net=f"hidden=70-{n_classes},scaling=quantile,epochs=10"))


def _on_shares(plan: Plan, field: str, shares: Iterable[Any]) -> list[Point]:
    """List cells on folds that are trained with only a share of the training part.

    Args:
        plan: the plan of the study.
        field: the field of `TrainingShare` that gets the share.
        shares: the shares, which are the x of the points.
    """
    points = []
    for kind, typed in _NETS.items():
        ranker = entry_of(typed.format(net="hidden=70"))
        for share in shares:
            for fold in plan.folds():
                all_documents = TrainingShare(fold.folder, columns=fold.columns)
                cell = Cell(ranker, replace(all_documents, **{field: share}), plan.seed)
                points.append(Point(cell, kind, share))
    return points


def training_sizes(plan: Plan) -> list[Point]:
    """List the cells of all nets with growing numbers of training documents."""
    if plan.folder is not None:
        return _on_shares(plan, "share", (0.01, 0.03, 0.1, 0.3, 1.0))
    sizes = [n for n in (100, 1_000, 10_000, 100_000) if n <= plan.size.most]
    return on_made_data(plan, "n_train", sizes, _NETS)


def label_ratios(plan: Plan) -> list[Point]:
    """List the cells of all nets with several shares of documents of the upper grades."""
    if plan.folder is not None:
        return _on_shares(plan, "label_ratio", (0.01, 0.1, 1.0))
    return on_made_data(plan, "label_ratio", (0.001, 0.01, 0.1, 1.0), _NETS, classes=6)


def sorted_neighbours(plan: Plan) -> list[Point]:
    """List the cells that observe a net's margins between neighbours in sorted lists.

    On each split a net learns all grades, and a second net learns only whether a document is
    relevant. The upper half of the grades is relevant, as in the paper.
    """
    splits: list[Split] = [*plan.folds()] if plan.folder else [*plan.made()]
    relevant_from = _LOWEST_RELEVANT_MADE
    if plan.folder:
        relevant_from = (int(splits[0].load().train.grades.max()) + 1) // 2
    net = _net("RankNet*", n_classes=5)
    cell = Cell(net, splits[0], quality="ndcg@20", relevant_from=relevant_from, observe=neighbours)
    return [
        Point(replace(cell, split=split, seed=plan.seed + k, binarise=binarise), series, k)
        for series, binarise in (("all grades learned", False), ("two grades learned", True))
        for k, split in enumerate(splits)
    ]


def input_orders(plan: Plan) -> list[Point]:
    """List the cells in which a comparator sorts the same documents again from other orders."""
    if plan.folder is not None:
        return on_folds(plan, _SORTING, observe=orders)
    n_train = min(3000, plan.size.documents)  # few, because CmpNN sorts them up to 20 times
    five_long_lists = {
        "shortest": 1000, "longest": 1000, "lists": 5, "n_train": n_train, "features": 10,
    }  # fmt: skip
    return [
        Point(Cell(entry_of(ranker), split, split.seed, observe=orders), series, x)
        for series, x, ranker in _SORTING
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
    return pair_points(splits, make_cell, plan.size.step)


def pair_points(splits: Sequence[Split], make_cell: Callable[..., Cell], step: int) -> list[Point]:
    """List cells of each strategy and budget on each split, after cells that train on grades.

    Args:
        splits: the splits.
        make_cell: makes a cell of a split, a strategy and a budget, see `cell_of`.
        step: the factor between a budget and the next larger budget.
    """
    points = [Point(make_cell(split, "compared", None), REFERENCE, None) for split in splits]
    budgets = budgets_of(splits[0].load().train, step)
    for strategy in STRATEGIES:
        for budget in budgets:
            for split in splits:
                points.append(Point(make_cell(split, strategy, budget), strategy, budget))
    return points


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
    smallest, largest = STUDIED_SIZES
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
