"""List the cells that a study computes, on folds or on synthetic data, and observe their rankers.

A point is a cell with its place in the figure of the study: its curve and its x. An observer is a
function that computes further values, as JSON, from a fitted ranker, its data, and the iterations
of its training.

For the study of pairs, each strategy of choosing pairs (setting `pairs`) is trained within growing
budgets of answers; the reference is trained on grades, which answer about every pair that its sorts
compare. The share of answers is relative to all pairs of documents of a query, because any pair can
be asked about. The share of pairs is relative to the pairs of different grades, because only such
pairs can be learned from. Scaling, weight decay, pair weights and the comparator are the same in
all cells, so that only the choice of pairs differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np

from sortnet.config import DEFAULTS, PAIRS
from sortnet.core import F32, F64, I64, NamedColumns, Queries
from sortnet.core.named_columns import UNNAMED
from sortnet.core.pairs import packed
from sortnet.data.read import Fold
from sortnet.errors import DataError
from sortnet.lab.cells import Cell
from sortnet.lab.entries import ENTRIES, Entry, entry_of
from sortnet.lab.set_generators import SET_MODELS, STUDIED_SIZES, MadeSets, cells_of, models_named
from sortnet.lab.splits import Digits, MadeClasses, OfficialFold, Split, TrainingShare, folds_of
from sortnet.learning.iterations import Iteration
from sortnet.rankers.base import Ranker
from sortnet.rankers.model import Model
from sortnet.sorting.diagnostics import rank_changes

# A curve (`series`), an x, and a ranker as a user types it, see `entry_of`.
Placed: TypeAlias = tuple[str, Any, str]
# The value of a measure: its name, its curve ("" is the curve of the point), its x and the value.
Observed: TypeAlias = tuple[str, str, Any, float]

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
REFERENCE = "grades"  # name of the series that is trained on grades
_FIRST_BUDGET = 250  # the smallest budget of answers
_LAST_BUDGET = 0.5  # the largest budget, as a share of all pairs
_NEVER = 1_000_000  # iterations without improvement after which training would stop


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
                all_documents = TrainingShare(fold.data, columns=fold.columns)
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
    for strategy in PAIRS:
        for budget in budgets:
            for split in splits:
                points.append(Point(make_cell(split, strategy, budget), strategy, budget))
    return points


def cell_of(
    split: Split,
    strategy: str,
    budget: int | None,
    *,
    scaling: str,
    seed: int = 0,
    empty: str = "zero",
    epochs: int | None = None,
) -> Cell:
    """Make a cell of SortNet that learns from the pairs of a strategy within a budget of answers.

    Args:
        split: the data.
        strategy: value of the setting `pairs`.
        budget: largest number of answers; None for no limit.
        scaling: scaling of the features.
        seed: seed of the ranker.
        empty: what RankQuality counts for a query without a relevant document.
        epochs: number of epochs of each training; None for the default.
    """
    # All settings but the pairs are the same for all strategies. By default the weights of pairs
    # and the weight decay depend on the judgements, and training may stop before all are used.
    settings = {
        "pairs": strategy,
        "judgements": budget,
        "scaling": scaling,
        "pair_weight": "none",
        "weight_decay": DEFAULTS["trees"]["weight_decay"],
        "max_stale": _NEVER,
        "empty": empty,
        "epochs": epochs,
    }
    settings = {name: value for name, value in settings.items() if value is not None}
    return Cell(ENTRIES["sortnet"].changed(**settings), split, seed, observe=learned_pairs)


def budgets_of(train: Queries, step: int) -> list[int]:
    """List budgets of answers: 250, and then each `step` times the budget before it.

    The last budget is at most half of all pairs, unless it is also the first.
    """
    n_pairs, _ = countable(train)
    budgets = [_FIRST_BUDGET]
    while budgets[-1] * step <= _LAST_BUDGET * n_pairs:
        budgets.append(budgets[-1] * step)
    return budgets


def countable(queries: Queries) -> tuple[int, int]:
    """Count all pairs of documents of a query, and the pairs whose documents differ in grade.

    >>> q = Queries.from_arrays([[0.0]] * 5, [0, 0, 1, 0, 1], group=[3, 2])
    >>> countable(q)
    (4, 3)
    """
    query_and_grade = packed(queries.query_of_docs(), queries.grades)
    _, n_docs_of_grade = np.unique(query_and_grade, return_counts=True)
    n_pairs = int((queries.sizes * (queries.sizes - 1) // 2).sum())
    n_equal = int((n_docs_of_grade * (n_docs_of_grade - 1) // 2).sum())
    return n_pairs, n_pairs - n_equal


def learned_pairs(ranker: Ranker, fold: Fold, history: Sequence[Iteration]) -> dict[str, float]:
    """Compute the share of the pairs that a ranker learned from, and the share it asked about.

    Args:
        ranker: the fitted ranker.
        fold: the data.
        history: the iterations of the training, one or more.

    Returns:
        `pairs`: learned pairs / pairs of different grades; `answers`: answers / all pairs.
    """
    n_pairs, n_learnable = countable(fold.train)
    # The last iteration only sorts; nothing is learned from its comparisons.
    learned = history[-2] if len(history) > 1 else history[-1]
    n_learned = learned.tp
    n_answers = learned.observed["train"]["answers"]
    return {"pairs": n_learned / n_learnable, "answers": n_answers / n_pairs}


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


def iterations(ranker: Ranker, fold: Fold, history: Sequence[Iteration]) -> list[Observed]:
    """Collect RankQuality, the share of wrong comparisons and the pairs kept by iteration."""
    quality = ranker.config.rank_quality.name
    rows: list[Observed] = []
    for k, record in enumerate(history):
        wrong = {
            "train": record.miscompared_train / record.comparisons_train,
            "vali": record.miscompared_vali / record.comparisons_vali,
        }
        for part, series in (("train", "training"), ("vali", "validation")):
            rows.append((quality.upper(), series, k, record.measures[part][quality]))
            rows.append(("share of comparisons wrong", series, k, wrong[part]))
        rows.append(("pairs kept", "training", k, record.tp))
    return rows


def orders(ranker: Ranker, fold: Fold, history: Sequence[Iteration]) -> list[Observed]:
    """Measure how far test documents move if the sort starts from another order."""
    model = cast(Model, ranker)  # the ranker sorts by a comparator
    test = cast(Queries, fold.test)
    rows: list[Observed] = []
    for change in rank_changes(model.comparator, model.scaler(test)):
        rows.append(("places moved, mean", "", change.against, change.mean))
        rows.append(("places moved, most", "", change.against, change.max))
        rows.append(("documents that moved, share", "", change.against, change.share))
    return rows


def neighbours(ranker: Ranker, fold: Fold, history: Sequence[Iteration]) -> dict[str, Any]:
    """Classify documents into grades by peaks of the margins r between neighbours in a sorted list.

    The method is from Köppel et al. 2025, section 5.5. One test query is sorted: the first of the
    queries with the most different grades. Between its neighbours the ranker has margins r. The
    highest peaks of r are taken as the boundaries between grades, and the mean scores of the two
    documents at a peak become thresholds, which classify the documents of all other test queries.

    Returns:
        `r`: the margins (n - 1,) in the sorted list. `grades`: its grades (n,). `peaks`: positions
        k of the boundaries between the documents k and k + 1. `accuracy`: accuracy of the
        classifier on the other queries. `majority`: share of the most frequent grade in the other
        queries.

    Raises:
        DataError: if there is only one test query.
    """
    test = cast(Queries, fold.test)
    if len(test) < 2:
        raise DataError(f"{test.source}: there is one list, and no other to classify")
    query_and_grade = np.unique(np.column_stack((test.query_of_docs(), test.grades)), axis=0)
    n_grades_of_query = np.bincount(query_and_grade[:, 0])
    query = int(n_grades_of_query.argmax())
    in_list = slice(test.offsets[query], test.offsets[query + 1])
    sorted_list = ranker.order(test)[in_list]
    scores = ranker.real_scores(test)
    r = ranker.margins(test, sorted_list[:-1], sorted_list[1:])
    grades = np.unique(test.grades)
    peaks = highest_peaks(r, len(grades) - 1)
    scores_at_peaks = (scores[sorted_list[peaks]] + scores[sorted_list[peaks + 1]]) / 2
    # Classify the documents of the other queries by the scores at the peaks.
    grades_elsewhere = np.delete(test.grades, in_list)
    n_below = np.searchsorted(np.sort(scores_at_peaks), np.delete(scores, in_list))
    return {
        "r": [round(float(margin), 6) for margin in r],
        "grades": test.grades[sorted_list].tolist(),
        "peaks": peaks.tolist(),
        "accuracy": float((grades[n_below] == grades_elsewhere).mean()),
        "majority": float(np.bincount(grades_elsewhere).max() / len(grades_elsewhere)),
    }


def highest_peaks(r: F32 | F64, k: int) -> I64:
    """Find the ascending positions (k,) of the highest values of r that are not close together.

    If there are k + 1 classes with equally many documents, two positions are at least a quarter of
    a class apart. The result is shorter than k if r has no further such position.

    >>> highest_peaks(np.array([0.0, 5.0, 4.0, 0.0, 0.0, 0.0, 3.0, 0.0, 0.0]), 2)
    array([1, 6])
    """
    least_distance = max(2, (len(r) + 1) // (4 * (k + 1)))
    chosen: list[int] = []
    for position in np.argsort(-r, kind="stable").tolist():
        if len(chosen) == k:
            break
        if all(abs(position - chosen_position) >= least_distance for chosen_position in chosen):
            chosen.append(position)
    return np.sort(np.array(chosen, np.int64))
