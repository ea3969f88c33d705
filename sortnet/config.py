"""Settings of a run: one value that the command line, the estimator and model files share.

A setting is a field with a description. The options of `sortnet train`, the list of `sortnet
settings`, the parameters of `SortNetRanker` and the table in the documentation are made from these
descriptions.

The default of a setting is in its field. If the value is None, the value to use is in `DEFAULTS`,
or is chosen by `choose_quality` for RankQuality. Values that depend on the data are chosen
elsewhere: the epochs and the batch size in `sortnet.learning.step_budget`, and the scaling, the
weight decay and the settings of a run that begins with a model in `sortnet.rankers.sortnet`. The
settings of the other rankers, in `sortnet.rankers`, have a property `fixed` with their own
defaults.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from typing import Any, ClassVar, Self, TypeVar, get_args, get_type_hints

import numpy as np

from sortnet.core import F64, I64, Queries
from sortnet.errors import ComparatorError, DataError, ModelError
from sortnet.files import check_fields
from sortnet.metrics import (
    Empty,
    Gain,
    Metric,
    check_can_choose,
    default_quality,
    evaluate,
    parse_metric,
)
from sortnet.setting import COMPARATOR as COMPARATOR
from sortnet.setting import MACHINE as MACHINE
from sortnet.setting import MEASURES as MEASURES
from sortnet.setting import RUN as RUN
from sortnet.setting import SCALINGS as SCALINGS
from sortnet.setting import TRAINING as TRAINING
from sortnet.setting import Setting as Setting
from sortnet.setting import check_settings, no_setting
from sortnet.setting import hidden_sizes as hidden_sizes
from sortnet.setting import own_settings as own_settings
from sortnet.setting import parse_settings as parse_settings
from sortnet.setting import parse_sizes as parse_sizes
from sortnet.setting import scaling_parts as scaling_parts
from sortnet.setting import setting as setting
from sortnet.setting import settings_of as settings_of

S = TypeVar("S", bound="Settings")

BY_QUERY = frozenset(("query", "zscore", "rank"))  # scalings that depend on the whole query
PAIRS = ("compared", "wrong", "top", "uncertain", "random")
_PAIRS_OF_0_4 = ("even", "all", "neighbours")  # strategies that are gone
LEARNING = ("wrong", "compared", "uncertain", "top")  # choose pairs by the trained comparator
STARTS = ("warm", "fresh")
LARGEST_SEED = 2**63 - 1  # the largest seed that torch takes
# Default numbers of iterations where the trained comparator chooses the pairs to learn from.
_WARM_TRAININGS = 10
_FRESH_SORTS = 20


@dataclass(frozen=True)
class Training:
    """Settings of a training on a set of pairs; each field has its description."""

    # fmt: off
    loss: str = setting(
        "logistic",
        "Loss of a pair: logistic in the margin, or squared, as in the papers, for nets.", TRAINING,
        choices=("logistic", "squared"))
    pair_weight: str = setting(
        "none",
        "Factor of the loss of a pair: 1 (none), or the grade of its better document (grade).",
        TRAINING, choices=("none", "grade"))
    epochs: int | None = setting(
        None,
        "Passes over the training pairs. With start=warm these are the passes of the whole run, "
        "with start=fresh of each iteration. Default: 3 to 20, so that the number of steps hardly "
        "depends on the number of documents; 3 to 60 for a single training.", TRAINING, least=1)
    query_pairs: int | None = setting(
        400,
        "Largest number of pairs of a query in an epoch, drawn again for each epoch, so that long "
        "queries do not outweigh short queries.",
        TRAINING, least=1)
    keep: str = setting(
        "quality",
        "Measure that chooses the epoch to keep: RankQuality, or the loss on the validation pairs.",
        TRAINING, choices=("quality", "loss"))
    patience: int | None = setting(
        None,
        "End a training early after this many epochs in a row without a new best epoch: by the "
        "loss on the validation pairs (keep=loss), or by RankQuality, which is measured after a "
        "few epochs of the second half (keep=quality). Default: run all epochs.",
        TRAINING, least=1)
    batch_size: int | None = setting(
        None,
        "Batch size in pairs; default: a 32nd of the pairs of an epoch, from 32 to 8192.",
        TRAINING, least=1)
    optimizer: str = setting(
        "adamw", "AdamW; for nets also Adam, or SGD with momentum.", TRAINING,
        choices=("adamw", "adam", "sgd"))
    lr: float = setting(
        0.03, "Learning rate; the highest one of a schedule.", TRAINING, within="above 0")
    schedule: str = setting(
        "one-cycle",
        "Learning rate over the training: up and down once (one-cycle), or multiplied by lr_decay "
        "in steps (steps).",
        TRAINING, choices=("one-cycle", "steps"))
    lr_decay: float = setting(
        1.0, "Factor of the learning rate after every lr_decay_epochs epochs.", TRAINING,
        within="above 0 and at most 1")
    lr_decay_epochs: int = setting(
        1, "Number of epochs between two steps of lr_decay.", TRAINING, least=1)
    momentum: float = setting(0.9, "Momentum of sgd.", TRAINING, within="from 0 to below 1")
    weight_decay: float | None = setting(
        None, "Weight decay: apart from the gradient with adamw, else an L2 penalty. Default: "
        "0.01, or 0.03 for nets, or 0.1 for judged pairs.",
        TRAINING, within="from 0")
    precision: str = setting(
        "float32",
        "Precision of the products of documents and weights in training; bf16 is for wide nets on "
        "a GPU. Sorting and measuring always use float32.",
        TRAINING, choices=("float32", "bf16"))
    # fmt: on

    def __post_init__(self) -> None:
        """Check every setting."""
        check_settings(self, ComparatorError)

    @property
    def fixed_weight_decay(self) -> float:
        """The weight decay to train with: the default of nets if the setting is None."""
        if self.weight_decay is not None:
            return self.weight_decay
        return float(DEFAULTS["nets"]["weight_decay"])


@dataclass(frozen=True)
class LoopTraining(Training):
    """Settings of a training in the loop, where a pair can be weighted by the current ranking."""

    # fmt: off
    pair_weight: str | None = setting(  # type: ignore[assignment]
        None,
        "Factor of the loss of a pair: half of it by the change of RankQuality when the two "
        "documents exchange places in the iteration's ranking (quality), 1 (none), or the grade of "
        "the better document (grade). Default: quality, but none for nets and with limited "
        "judgements.",
        TRAINING, choices=("none", "grade", "quality"))
    # fmt: on


@dataclass(frozen=True)
class Settings:
    """Settings that every ranker has: RankQuality, its conventions, and the seed.

    Attributes:
        kind: name of the kind of ranker, a key of `sortnet.rankers.registry.KINDS`.
        takes_judged: whether the ranker learns from judged pairs; if not, they are refused.
        takes_weights: whether the ranker uses weights of documents; if not, they are refused.
        grids: default grids of `sortnet.rankers.tuning.tune`, {name of a setting: values to try}.
    """

    kind: ClassVar[str]
    takes_judged: ClassVar[bool] = False
    takes_weights: ClassVar[bool] = False
    grids: ClassVar[Sequence[Mapping[str, Sequence[Any]]]] = ()
    # fmt: off
    quality: str | None = setting(
        None,
        "RankQuality, the measure that chooses the best iteration, such as map or ndcg@10. "
        "Default: map for two grades, else ndcg@10.", MEASURES)
    relevant_from: int = setting(
        1, "Lowest grade that counts as relevant for map, p@n and mrr.", MEASURES,
        least=1)
    gain: Gain = setting(  # noqa: RUF009
        "exp", "Gain of ndcg; exp: 2^grade - 1.", MEASURES, choices=get_args(Gain))
    empty: Empty = setting(  # noqa: RUF009
        "zero", "Value of a query without a relevant document.", MEASURES,
        choices=get_args(Empty))
    seed: int = setting(0, "Random seed.", RUN, least=0, most=LARGEST_SEED)
    # fmt: on

    def __post_init__(self) -> None:
        """Check every setting, also that the measure of RankQuality is known."""
        check_settings(self, DataError)
        if self.quality is not None:
            self.metric(self.quality)  # refuses an unknown measure

    def metric(self, name: str) -> Metric:
        """Make the measure with a name such as `ndcg@10`, with the conventions of the run."""
        return parse_metric(name, gain=self.gain, relevant_from=self.relevant_from)

    @property
    def rank_quality(self) -> Metric:
        """RankQuality, the measure by which the best iteration is chosen.

        Raises:
            DataError: if the setting `quality` is None.
        """
        if self.quality is None:
            raise DataError("the settings leave RankQuality open: give quality, such as ndcg@10")
        return self.metric(self.quality)

    def quality_of(self, queries: Queries, order: I64, weights: F64 | None = None) -> float:
        """Compute RankQuality of a ranking, the mean over the queries.

        Args:
            queries: queries with grades or judged pairs.
            order: (n_docs,) document numbers, query by query, the best document first.
            weights: (n_queries,) weights of the queries; None: all are 1.
        """
        metric = self.rank_quality
        return evaluate(queries, order, metric, empty=self.empty, weights=weights)[metric.name]

    def flat(self) -> dict[str, Any]:
        """List the values of all settings by name, including the settings of the training."""
        values = {}
        training_values: dict[str, Any] = {}
        for name, value in self._values().items():
            if is_dataclass(value):  # the settings of the training
                training_values |= {f.name: getattr(value, f.name) for f in fields(value)}
            else:
                values[name] = value
        return values | training_values

    def _values(self) -> dict[str, Any]:
        """List the values of the fields by name; the settings of the training are one value."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def changed(self, **values: Any) -> Self:
        """Copy these settings with new values by name; nested training settings may be named, too.

        Raises:
            DataError: if a name is not a setting of this ranker.

        >>> Config().changed(hidden=(5,), epochs=3).training.epochs
        3
        """
        self.check_names(values)
        current = self._values()
        own_values = {name: value for name, value in values.items() if name in current}
        training_values = {name: value for name, value in values.items() if name not in current}
        for name, value in current.items():
            is_training = is_dataclass(value)  # the settings of the training are nested
            if is_training:
                own_values[name] = replace(value, **training_values)
        return replace(self, **own_values)

    def check_names(self, names: Iterable[str]) -> None:
        """Raise a DataError if a name is not a setting of this ranker."""
        valid_names = list(self.flat())
        unknown = sorted(set(names) - set(valid_names))
        if unknown:
            raise DataError(no_setting(self.kind, str(unknown[0]), valid_names))

    @property
    def fixed(self) -> Mapping[str, Any]:
        """Default values for settings that are None."""
        return DEFAULTS["nets"]

    def candidates(self, train: Queries) -> list[Self]:
        """List candidates: copies of the settings that have a value where the settings have None.

        If the list has several entries, a ranker is fitted with each entry, and the validation part
        chooses among these rankers.
        """
        values = self.flat()
        defaults = {
            name: value
            for name, value in self.fixed.items()
            if name in values and values[name] is None
        }
        return [self.changed(**defaults)]

    def to_json(self) -> dict[str, Any]:
        """Convert the settings to JSON values by name; a tuple becomes a list."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(self).items()
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Read the settings that `to_json` wrote.

        Raises:
            ModelError: if a name is unknown, or a value is missing or has a wrong type.
        """
        try:
            settings: Self = _settings_from_json(cls, values)
        except TypeError as error:
            raise ModelError(f"these are not the settings of a run: {error}") from None
        return settings


def _settings_from_json(settings_class: Any, values: Mapping[str, Any]) -> Any:
    """Make settings of a class from JSON values; a nested dict becomes nested settings."""
    hints = get_type_hints(settings_class)
    nested_classes = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    # A plain setting may be missing, nested settings may not.
    types = {f.name: hints[f.name] for f in fields(settings_class) if f.name in values}
    for name in nested_classes:
        types[name] = dict
    check_fields(values, types, "settings")
    arguments = dict(values)
    for name, nested_class in nested_classes.items():
        arguments[name] = _settings_from_json(nested_class, values[name])
    return settings_class(**arguments)


@dataclass(frozen=True)
class Config(Settings):
    """Settings of SortNet: its comparator, its pairs and its training; each field is described."""

    kind: ClassVar[str] = "sortnet"
    takes_judged: ClassVar[bool] = True
    takes_weights: ClassVar[bool] = True
    grids: ClassVar[Sequence[Mapping[str, Sequence[Any]]]] = (
        {"comparator": ["cmpnn", "directranker"], "pairs": ["wrong", "compared"]},
    )
    # fmt: off
    comparator: str | None = setting(
        None, "Comparator. trees are soft trees, cmpnn is the paper's net, directranker is "
        "DirectRanker's net. Default: trees, unless a setting is given that trees do not have.",
        COMPARATOR,
        choices=("trees", "cmpnn", "directranker"))
    committee: int = setting(
        8, "Number of comparators whose margins are added up: heads of the trees, or nets from "
        "different seeds.", COMPARATOR, least=1, most=10_000)
    trees: int | None = setting(
        None, "Number of trees of a head; default: 8.", COMPARATOR, least=1, most=10_000)
    depth: int | None = setting(
        None, "Depth of the trees; default: 6.", COMPARATOR, least=1, most=12)
    hidden: tuple[int, ...] | None = setting(
        None, "Hidden units per layer of a net, such as 20 or 32,20,5; default: 32.", COMPARATOR)
    units: str | None = setting(
        None, "Activation function of the hidden units; relu is for directranker. Default: tanh.",
        COMPARATOR, choices=("tanh", "sigmoid", "relu"))
    tau: str | None = setting(
        None, "Output activation of a directranker; default: tanh.", COMPARATOR,
        choices=("tanh", "identity", "sigmoid"))
    scaling: str | None = setting(
        None,
        "Feature scaling. It is one part, or several joined by +, such as query+rank. Default: "
        "query+rank+normal, or query+rank for features that are scaled within each query; and "
        "missing, if values are missing.", COMPARATOR,
        choices=SCALINGS, joined=True)
    dropout: float | None = setting(
        None, "Dropout rate of the hidden units of a net; default: 0.", TRAINING,
        within="from 0 to below 1")
    pairs: str | None = setting(
        None,
        "Pairs to learn from. compared: all that the sort compared; wrong: those that the "
        "comparator got wrong; top: uncertain pairs near the top; uncertain: pairs that the "
        "comparator is uncertain about; random: random pairs. Default: compared; with limited "
        "judgements top, or uncertain if RankQuality is accuracy.",
        RUN, choices=PAIRS)
    judgements: int | None = setting(
        None, "Largest number of answers of the judge. If the judge is asked about the validation "
        "part, too, one answer in five is about that part.", MEASURES, least=1)
    start: str = setting(
        "warm", "Weights that each iteration starts from: the last weights, so that one training "
        "is divided among the iterations (warm), or random weights (fresh).", RUN, choices=STARTS)
    max_iter: int | None = setting(
        None, "Largest number of iterations. With start=warm these are trainings, each followed by "
        "a sort; with start=fresh sorts, the first with random weights. Default: 10 (warm) or 20 "
        "(fresh) if the pairs are chosen by the trained comparator (wrong, compared, uncertain, "
        "top), else one training.", RUN, least=1)
    max_stale: int | None = setting(  # None: never, as in the paper
        2, "With start=fresh: stop after this many iterations in a row without a better "
        "RankQuality.", RUN, least=1)
    device: str = setting(
        "auto", "Device of nets; auto: the GPU if there is one. Trees use the CPU.", RUN,
        choices=("auto", "cpu", "cuda"))
    training: LoopTraining = field(default_factory=LoopTraining)
    # fmt: on

    def __post_init__(self) -> None:
        """Check every setting, and refuse settings that the comparator does not have."""
        super().__post_init__()
        for name in _MISSING_SETTINGS.get(str(self.comparator), ()):
            if getattr(self, name) is not None:
                raise ComparatorError(f"comparator {self.comparator} has no {name}: leave it out")
        if self.comparator == "trees":
            for name, value in _TRAINING_OF_TREES.items():
                if getattr(self.training, name) != value:
                    raise ComparatorError(f"comparator trees has {name} {value}: leave it out")

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Read the settings that `to_json` wrote; a strategy that only 0.4 had becomes None."""
        if values.get("pairs") in _PAIRS_OF_0_4:
            values = {**values, "pairs": None}
        return super().from_json(values)

    @property
    def strategy(self) -> str:
        """Name of the strategy that selects the pairs to learn from, one of `PAIRS`."""
        return self.pairs or str(self.with_defaults.pairs)

    @property
    def trainings(self) -> int:
        """Largest number of trainings; a sort follows each training.

        With start=warm, `max_iter` counts the trainings, and each training continues the training
        before it. With start=fresh, `max_iter` counts the sorts, as in Algorithm 3.1: the first
        sort is by random weights, before any training.
        """
        # If the trained comparator does not choose the pairs, one training is the default.
        is_learning = self.strategy in LEARNING
        if self.start == "warm":
            default_trainings = _WARM_TRAININGS if is_learning else 1
            return self.max_iter or default_trainings
        default_sorts = _FRESH_SORTS if is_learning else 2
        n_sorts = self.max_iter or default_sorts
        return n_sorts - 1

    @property
    def divides_one_training(self) -> bool:
        """Whether the run divides one training among its iterations.

        >>> Config().divides_one_training, Config(start="fresh").divides_one_training
        (True, False)
        """
        return self.start == "warm" and self.trainings > 1

    @property
    def with_defaults(self) -> Config:
        """These settings with default values for the settings that are None, except RankQuality.

        If the comparator is None, it becomes the first comparator that has all settings with
        values.

        Raises:
            ComparatorError: if no comparator has all these settings.
        """
        set_names = {name for name, value in self.flat().items() if value is not None}
        comparator = self.comparator or self._first_comparator(set_names)
        if comparator == "trees" and self.device == "cuda":
            raise ComparatorError(
                "soft trees are learned on the CPU: leave device out, or choose comparator cmpnn"
            )
        defaults = {"comparator": comparator}
        for situation in self._situations(comparator):
            defaults |= DEFAULTS[situation]
        excluded = set_names.union(_MISSING_SETTINGS[comparator])
        changes = {name: value for name, value in defaults.items() if name not in excluded}
        return self.changed(**changes)

    def _first_comparator(self, set_names: set[str]) -> str:
        """Name the first comparator that has all the named settings; `trees` if none has them."""
        for comparator, missing_settings in _MISSING_SETTINGS.items():
            if comparator == "cmpnn" and self.units == "relu":
                continue  # CmpNN has the setting `units`, but not this value
            if comparator == "trees" and any(
                getattr(self.training, name) != value for name, value in _TRAINING_OF_TREES.items()
            ):
                continue
            if set_names.isdisjoint(missing_settings):
                return comparator
        return "trees"  # the check of the settings refuses a setting that trees do not have

    def _situations(self, comparator: str) -> Iterator[str]:
        """Yield the keys of `DEFAULTS` that apply to these settings with a comparator."""
        yield "trees" if comparator == "trees" else "nets"
        if self.judgements is not None:
            yield "few answers"
            if self.quality is not None and self.rank_quality.row.of_pairs:
                yield "few answers, by accuracy"


# Values of the settings that the user leaves open, for each situation of a run. If
# several situations apply to a run, a value of the last situation has priority.
DEFAULTS: dict[str, dict[str, Any]] = {
    "nets": {
        "hidden": (32,), "units": "tanh", "tau": "tanh", "dropout": 0.0, "scaling": "query+rank",
        "weight_decay": 0.03, "pairs": "compared", "pair_weight": "none",
    },
    "trees": {
        "trees": 8, "depth": 6, "scaling": "query+rank", "weight_decay": 0.01, "pairs": "compared",
        "pair_weight": "quality",
    },
    # A judge gives no grades. Without grades, a pair's change of RankQuality cannot be computed.
    "few answers": {"pairs": "top", "pair_weight": "none"},
    # The accuracy of judged pairs counts the top of a ranking as much as the rest.
    "few answers, by accuracy": {"pairs": "uncertain"},
}  # fmt: skip
_MISSING_SETTINGS = {  # settings that a comparator does not have
    "trees": ("hidden", "units", "tau", "dropout"),
    "cmpnn": ("tau", "trees", "depth"),
    "directranker": ("trees", "depth"),
}
# The values that settings of the training must have for trees.
_TRAINING_OF_TREES = {"loss": "logistic", "optimizer": "adamw", "precision": "float32"}
# Settings of the paper's Algorithm 3.1. Comparators of equal RankQuality are treated in another way
# than in the paper, see `State.scored`.
PAPER: dict[str, Any] = {
    "pair_weight": "none", "loss": "squared", "query_pairs": None, "keep": "loss",
    "schedule": "steps", "optimizer": "adam", "lr": 0.005, "epochs": 8, "weight_decay": 0.0,
    "comparator": "cmpnn", "hidden": (20,), "units": "tanh", "scaling": "query", "committee": 1,
    "pairs": "wrong", "start": "fresh", "max_iter": 20, "max_stale": None,
}  # fmt: skip
PRESETS = {"paper": PAPER}


def choose_quality(train: Queries, vali: Queries, config: S) -> S:
    """Choose the setting `quality` by the data if it is None; return the new settings.

    `quality` names RankQuality, the measure that chooses the best iteration. The choice is
    `accuracy` with judged pairs or a judge; `map` if there are two different grades, and only the
    higher grade is relevant; and `ndcg@10` otherwise.

    Args:
        train: the training queries.
        vali: the validation queries, by whose RankQuality the best iteration is chosen.
        config: the settings of any ranker.

    Raises:
        DataError: if RankQuality gives every ranking of `vali` the same score.
    """
    if config.quality is None:
        if vali.judged is not None or vali.judge is not None:
            quality = "accuracy"
        else:
            grades = np.concatenate([np.unique(queries.grades) for queries in (train, vali)])
            quality = default_quality(grades, config.relevant_from)
        config = replace(config, quality=quality)
    if vali.judge is None:
        check_can_choose(config.rank_quality, vali)
    return config
