"""SortNetRanker: learning to sort with scikit-learn's conventions."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from inspect import Parameter, Signature
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from sortnet.comparators import MakeOne, make_comparator
from sortnet.config import Config, Settings, settings_of, settle_quality
from sortnet.errors import DataError, ModelError
from sortnet.learning.loop import Callback
from sortnet.learning.state import Iteration, State
from sortnet.metrics import Metric, can_choose, evaluate
from sortnet.rankers.base import Ranker, fit_ranker, kind_module, load_ranker
from sortnet.types import F32, I64, Queries

_OWN = {  # the parameters that are no settings of a run, and their defaults
    "ranker": "sortnet",
    "validation_fraction": 0.2,
    "random_state": Config().seed,
    "single_query": False,
    "tune": False,
}


def _signature() -> Signature:
    """The parameters of the estimator: every setting of SortNet by its name, and its own."""
    settings = {name: s.default for name, s in settings_of(Config).items() if name != "seed"}
    kind = Parameter.KEYWORD_ONLY
    own = [Parameter(name, kind, default=value) for name, value in (settings | _OWN).items()]
    return Signature([Parameter("self", Parameter.POSITIONAL_ONLY), *own])


_SIGNATURE = _signature()


class SortNetRanker(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Ranks the rows of each query by a comparator learned with Algorithm 3.1.

    `X` is an array, a list or a DataFrame of pandas or polars. The query of each row is `qid` (in
    any order), or `group` (sizes of consecutive queries), or the column `qid` of a DataFrame, which
    is no feature then. With none of them all rows are one query, which `fit` warns of; on an
    estimator fitted with queries, two rows or more without them are refused. NaN is a missing
    value. Grades `y` are whole numbers from 0.

    In `GridSearchCV` and `cross_val_score` give the queries as a column `qid` of a DataFrame: a
    `qid` given to `fit` does not reach `score`, unless it is routed there, with
    `sklearn.set_config(enable_metadata_routing=True)` and
    `SortNetRanker().set_fit_request(qid=True).set_score_request(qid=True)`.

    Args:
        comparator: `cmpnn`, `directranker`, or a function (n_columns, seed) -> NeuralComparator
            for one of your own, such as a DirectRanker with any torch module as feature part;
            the scaling decides how many columns it makes of the features.
        warm_start: train each iteration on from the weights of the last. (Not what scikit-learn
            calls so: a second `fit` always starts afresh.)
        ranker: the kind of ranker; another one than `sortnet` takes of the settings those it has.
        validation_fraction: share of the queries that chooses epoch and iteration, when `fit` is
            given no `eval_set`. Queries are held out whole. Where fewer than two queries can
            choose (RankQuality differs between their rankings), all queries are for both, with
            a warning.
        random_state: of everything random; None for another one each time.
        single_query: rows without queries are meant as one query: no warning, no refusal.
        tune: choose settings by RankQuality on the validation part first: those of a grid
            {parameter: values to try}, or True for the ranker's own, see `tuning.tune`.
        settings: every other setting of `sortnet.config.Config` and of its training, by its name
            and with its default; `help(SortNetRanker)` lists them.

    Attributes:
        model_: the `Ranker` fitted, a `Model` where it is SortNet.
        history_: an `Iteration` for each iteration, of a ranker that has some.
        best_iteration_: the iteration the model is of; None where there are none.
        best_score_: its RankQuality on the queries that chose: too good a figure for a test, and
            a training figure where they were trained on as well, of which `fit` warns.
        quality_: the name of that RankQuality, such as `ndcg@10`.
        n_features_in_: the number of features.
        feature_names_in_: their names, where X had some.
        one_query_: whether all rows were one query, for want of `qid` and `group`.
        tuned_: the trials, with `tune`; the settings chosen are `model_.config`.

    >>> X = np.arange(12, dtype=np.float32)[:, None]
    >>> y, qid = X[:, 0] % 6, [1] * 6 + [2] * 6
    >>> ranker = SortNetRanker(quality="ndcg@10").fit(X, y, qid=qid)
    >>> ranker.predict([[3.0], [9.0], [5.0]], qid=[1, 1, 1])
    array([0., 2., 1.], dtype=float32)
    """

    def __init__(self, **params: Any) -> None:
        given = _SIGNATURE.bind(self, **params)  # refuses names that are no parameter
        given.apply_defaults()
        for name, value in list(given.arguments.items())[1:]:
            setattr(self, name, value)

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        qid: ArrayLike | None = None,
        group: ArrayLike | None = None,
        sample_weight: None = None,
        eval_set: Any = None,
        eval_qid: Any = None,
        eval_group: Any = None,
        callbacks: Sequence[Callback] | None = None,
    ) -> Self:
        """Learn to sort the queries of X; see `sortnet.rankers.base.fit_ranker`.

        Args:
            X: (n_docs, n_features).
            y: (n_docs,) grades, higher is more relevant.
            qid: (n_docs,) the query of each row.
            group: (n_queries,) sizes of consecutive queries, in place of `qid`.
            sample_weight: refused, as every mis-compared pair counts alike.
            eval_set: (X, y) of the queries that choose epoch and iteration, or a list of one.
            eval_qid, eval_group: their queries; in a list where `eval_set` is.
            callbacks: called with an `Iteration` and a `State` after each iteration.

        Raises:
            DataError: on data or settings that cannot be used, such as a feature that is the qid.
        """
        if sample_weight is not None:
            raise DataError(
                "sample_weight is not supported: every mis-compared pair counts alike; "
                "leave out what must not count"
            )
        if y is None:
            raise DataError("SortNetRanker requires y to be passed, but the target y is None")
        config = self._config()
        train = self._queries(X, y, qid, group, reset=True)
        if eval_set is None:
            config = settle_quality(train, train, config)
            share, metric = self.validation_fraction, config.rank_quality
            train, vali = _hold_out(train, share, config.seed, metric)
        else:
            vali = self._queries(*_evaluation(eval_set, eval_qid, eval_group), source="eval_set")
            config = settle_quality(train, vali, config)
        config = self._tuned(train, vali, config)
        history: list[Iteration] = []

        def remember(record: Iteration, state: State) -> None:
            history.append(record)

        own = _custom(self.comparator)
        model = fit_ranker(train, vali, config, callbacks=[remember, *(callbacks or ())], **own)
        return self._fitted(model, history)

    def predict(self, X: Any, qid: ArrayLike | None = None) -> F32:
        """(n_docs,) one number a row, in the order of the rows; in a query, higher is better.

        Of SortNet it is the number of documents that the comparator puts below this one in its
        query, so it says nothing across queries; the rows' order does not change it. A query of one
        row gets 0.

        Raises:
            DataError: on rows that cannot be used, or without queries where `fit` had some.
        """
        check_is_fitted(self)
        queries = self._queries(X, None, qid)
        scores: F32 = queries.in_row_order(self.model_.scores(queries))
        return scores

    def rank(self, X: Any, qid: ArrayLike | None = None) -> I64:
        """(n_docs,) each row's rank in its query, from 1 for the best, in the order of the rows."""
        check_is_fitted(self)
        queries = self._queries(X, None, qid)
        first = np.repeat(queries.offsets[:-1], queries.sizes)
        ranks = np.empty(queries.n_docs, np.int64)
        ranks[self.model_.order(queries)] = np.arange(queries.n_docs) - first + 1
        found: I64 = queries.in_row_order(ranks)
        return found

    def compare(
        self, a: Any, b: Any, *, context: Any = None, qid: ArrayLike | None = None
    ) -> F32 | float:
        """Margins of documents a over documents b: above 0, a goes first.

        Args:
            a, b: (m, n_features) rows, compared one by one; or one row each, for one number.
                With `context`, numbers of its rows in place of rows.
            context: (n_docs, n_features) the queries the documents belong to. Where
                `model_.depends_on_query`, as with the scaling `query`, a margin depends on them:
                without, each pair is a query of its own.
            qid: (n_docs,) the queries of `context`.

        Raises:
            DataError: if a and b differ in length or are not of one query.
        """
        check_is_fitted(self)
        single = np.ndim(a) == (1 if context is None else 0)
        if context is None:
            queries, i, j = self._in_pairs(*(([a], [b]) if single else (a, b)))
        else:
            queries = self._queries(context, None, qid)
            i, j = _documents(queries, np.atleast_1d(a), np.atleast_1d(b))
        margins = self.model_.margins(queries, i, j)
        return float(margins[0]) if single else margins

    def score(self, X: Any, y: ArrayLike, qid: ArrayLike | None = None) -> float:
        """RankQuality, the mean over the queries of the measure `quality`; higher is better."""
        check_is_fitted(self)
        queries, config = self._queries(X, y, qid), self.model_.config
        metric = config.rank_quality
        order = self.model_.order(queries)
        return evaluate(queries, order, metric, empty=config.empty)[metric.name]

    def save(self, folder: str | Path) -> None:
        """Write the model folder, which every command of `sortnet` reads, and the history.

        Raises:
            SortNetError: if the folder cannot be written.
        """
        check_is_fitted(self)
        about = {
            "validation_fraction": self.validation_fraction,
            "single_query": self.single_query,
            "one_query": self.one_query_,
            "history": [_plain(asdict(record)) for record in self.history_],
        }
        model = replace(self.model_, info={**self.model_.info, "estimator": about})
        model.save(folder)

    @classmethod
    def load(cls, folder: str | Path, *, comparator: MakeOne | None = None) -> Self:
        """Read a model folder, of `save` or of `sortnet train`, as a fitted estimator.

        Args:
            folder: the model's.
            comparator: what the parameter `comparator` was, if a function.

        Raises:
            ModelError: if the folder cannot be read, see `Model.load`.
        """
        model = load_ranker(folder, **_custom(comparator))
        about = model.info.get("estimator", {})
        ranker = cls(**_parameters(model.config))
        if comparator is not None:
            ranker.set_params(comparator=comparator)
        ranker.one_query_ = about.get("one_query", False)
        ranker.n_features_in_ = model.n_features
        if model.feature_names is not None:
            ranker.feature_names_in_ = np.array(model.feature_names, dtype=object)
        try:
            ranker.set_params(validation_fraction=about.get("validation_fraction", 0.2))
            ranker.set_params(single_query=about.get("single_query", False))
            history = [Iteration(**_unplain(record)) for record in about.get("history", [])]
            return ranker._fitted(model, history)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ModelError(f"{Path(folder) / 'model.json'}: damaged info: {error!r}") from None

    def _config(self) -> Settings:
        """The settings of the kind of ranker; what it has not must be as it is by default."""
        settings: Settings = kind_module(self.ranker).SETTINGS()
        own, ours = settings.flat(), _SIGNATURE.parameters
        given = {name: getattr(self, name) for name in ours if name not in ("self", *_OWN)}
        if callable(self.comparator) and self.ranker == Config.kind:
            del given["comparator"]
        changed = {k: v for k, v in given.items() if k in own or v != ours[k].default}
        return settings.changed(**changed, seed=_seed(self.random_state))

    def _queries(
        self,
        X: Any,
        y: ArrayLike | None,
        qid: ArrayLike | None = None,
        group: ArrayLike | None = None,
        *,
        reset: bool = False,
        source: str = "X",
        pairs: bool = False,
    ) -> Queries:
        """Check the data as scikit-learn does, and group its rows; `reset` where it is learned.

        Rows for `pairs` need no query.
        """
        X, qid = _column_qid(_as_frame(X), qid, source)
        X = _with_numbers(X, source)
        if reset:
            self.one_query_ = qid is None and group is None
        least = 2 if reset else 0  # ranking no documents is no fault
        both = {} if y is None else {"y": y, "y_numeric": True}
        try:
            found = validate_data(
                self, X, **both, reset=reset, dtype=(np.float64, np.float32),
                ensure_all_finite="allow-nan", ensure_min_samples=least,
            )  # fmt: skip
        except ValueError as error:
            if "string to float" in str(error):
                _with_numbers(_numbered(X), source)
            raise DataError(str(error) if source == "X" else f"{source}: {error}") from None
        features, grades = (found, None) if y is None else found
        names = getattr(self, "feature_names_in_", None)
        if qid is None and group is None and len(features) > 1 and not pairs:
            self._take_as_one_query(len(features), reset, source)
        if reset:
            _refuse_qid_as_feature(features, qid, names, source)
        return Queries.from_arrays(
            features, grades, qid=qid, group=group, feature_names=names, source=source
        )

    def _take_as_one_query(self, n: int, reset: bool, source: str) -> None:
        """Refuse rows without queries; warn where scikit-learn wants `fit` to take them."""
        if self.single_query or (self.one_query_ and not reset):
            return
        if reset:
            warnings.warn(
                f"{source} has no qid: all {n} rows are taken as one query; give qid, group or a "
                "column 'qid', or set single_query=True",
                stacklevel=4,
            )
            return
        wanted = "eval_qid" if source == "eval_set" else "qid"
        raise DataError(
            f"{source} has no qid, but the ranker was fitted with queries: give {wanted} or a "
            "column 'qid' (in a search: the column, or metadata routing), or set "
            f"single_query=True if the {n} rows are one query"
        )

    def _in_pairs(self, a: Any, b: Any) -> tuple[Queries, I64, I64]:
        """Queries of two documents, a[k] and b[k]."""
        if len(a) != len(b):
            raise DataError(f"{len(a)} documents cannot be compared with {len(b)} one by one")
        rows = np.empty((2 * len(a), self.n_features_in_), np.float32)
        for first, documents in enumerate((a, b)):
            checked = self._queries(documents, None, pairs=True)
            rows[first::2] = checked.in_row_order(checked.features)
        queries = Queries.from_arrays(rows, group=np.full(len(a), 2), source="a and b")
        return queries, np.arange(0, len(rows), 2), np.arange(1, len(rows), 2)

    def _tuned(self, train: Queries, vali: Queries, config: Settings) -> Settings:
        """The settings chosen on the validation part, where that is asked for."""
        if self.tune is False:
            return config
        if callable(self.comparator):
            raise DataError("tune chooses among the comparators of SortNet, not your own")
        from sortnet.experiments.tuning import tune

        tuned = tune(train, vali, config, grid=None if self.tune is True else self.tune)
        self.tuned_ = tuned.trials
        return tuned.config

    def _fitted(self, model: Ranker, history: list[Iteration]) -> Self:
        self.model_ = model
        self.history_ = history
        iteration = model.info.get("iteration")
        self.best_iteration_ = None if iteration is None else int(iteration)
        self.best_score_ = float(model.info["quality"])
        self.quality_ = model.config.rank_quality.name
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.positive_only = True
        tags.input_tags.allow_nan = True
        return tags


# What scikit-learn, help() and an editor read.
SortNetRanker.__init__.__signature__ = _SIGNATURE  # type: ignore[attr-defined]


def _as_frame(X: Any) -> Any:
    """A data frame as one of pandas; an array or a list as it is."""
    if not hasattr(X, "columns"):
        return X
    from sortnet.data.tabular import as_pandas

    return as_pandas(X)


def _with_numbers(X: Any, source: str) -> Any:
    """Refuse texts, dates and other objects by the name of their column."""
    dates = getattr(getattr(X, "dtype", None), "kind", None) in ("m", "M")
    if not dates and not hasattr(X, "columns"):
        return X
    from sortnet.data.tabular import with_numbers

    return with_numbers(_numbered(X) if dates else X, source)


def _numbered(X: Any) -> Any:
    """An array as a frame whose columns are called by their numbers from 1."""
    import pandas as pd

    return pd.DataFrame(np.asarray(X)).rename(columns=lambda k: f"feature {k + 1}")


def _column_qid(X: Any, qid: ArrayLike | None, source: str) -> tuple[Any, ArrayLike | None]:
    """Take the column `qid` out of a DataFrame."""
    columns = [str(c) for c in getattr(X, "columns", ())]
    if renamed := [c for c in columns if c.endswith("__qid")]:
        raise DataError(
            f"{source}: the column {renamed[0]!r} is no feature: call it 'qid' "
            "(a ColumnTransformer does with verbose_feature_names_out=False)"
        )
    if "qid" not in columns:
        return X, qid
    if qid is not None:
        raise DataError(f"{source} has a column 'qid', so give no qid besides")
    return X.drop(columns="qid"), X["qid"]


def _refuse_qid_as_feature(X: NDArray[Any], qid: Any, names: Any, source: str) -> None:
    """Refuse a feature that is the qid in every row, if there are two queries at least."""
    try:
        number = np.asarray(qid, dtype=X.dtype)
    except (TypeError, ValueError):  # no qid, or names
        return
    if number.shape != (len(X),) or (number == number[0]).all():
        return
    for k in np.flatnonzero(X[0] == number[0]):
        if np.array_equal(X[:, k], number):
            name = f"feature {k + 1}" if names is None else f"the column {names[k]!r}"
            raise DataError(f"{source}: {name} is the qid in every row, no feature: leave it out")


def _evaluation(eval_set: Any, qid: Any, group: Any) -> tuple[Any, Any, Any, Any]:
    """X, y, qid and group of the validation part, given as they are or in lists of one."""
    if isinstance(eval_set, list):
        given = {"eval_set": eval_set, "eval_qid": qid, "eval_group": group}
        for name, value in given.items():
            if value is not None and len(value) != 1:
                raise DataError(f"{name} is a list of {len(value)}: one part chooses, give one")
        eval_set, qid, group = (None if value is None else value[0] for value in given.values())
    if not isinstance(eval_set, tuple) or len(eval_set) != 2:
        raise DataError("eval_set must be (X, y) or [(X, y)]")
    return (*eval_set, qid, group)


def _hold_out(queries: Queries, share: float, seed: int, metric: Metric) -> tuple[Queries, Queries]:
    """Some whole queries to learn from, the others to choose by.

    Queries that can choose by the metric are divided by themselves, so that both parts have some
    of them.
    """
    if not 0 < share < 1:
        raise DataError(f"validation_fraction must be between 0 and 1, got {share}")
    useful = can_choose(metric, queries)
    if useful.sum() < 2:
        warnings.warn(
            f"{useful.sum()} of {len(queries)} queries can choose by {metric.name}, so none is "
            "held out: best_score_ is a training figure; give more queries or an eval_set",
            stacklevel=3,
        )
        return queries, queries
    generator = np.random.default_rng(seed)
    held = np.zeros(len(queries), np.bool_)
    for kind, least in ((useful, 1), (~useful, 0)):
        numbers = generator.permutation(np.flatnonzero(kind))
        most = max(len(numbers) - 1, 0)
        held[numbers[: min(max(round(share * len(numbers)), least), most)]] = True
    return queries.take(np.flatnonzero(~held)), queries.take(np.flatnonzero(held))


def _documents(queries: Queries, a: Any, b: Any) -> tuple[I64, I64]:
    """Document numbers of the rows a and b, which must be of one query pair by pair."""
    rows = np.stack(_whole(a, b))
    bad = (rows < 0) | (rows >= queries.n_docs)
    if bad.any():
        raise DataError(f"row {rows[bad][0]}: the context has rows 0 to {queries.n_docs - 1}")
    document = np.empty(queries.n_docs, np.int64)
    document[queries.rows] = np.arange(queries.n_docs)
    i, j = document[rows]
    query = queries.query_of_docs()
    apart = query[i] != query[j]
    if apart.any():
        k = int(np.argmax(apart))
        raise DataError(
            f"rows {rows[0, k]} and {rows[1, k]} are of the queries {queries.qids[query[i[k]]]} "
            f"and {queries.qids[query[j[k]]]}: only documents of one query compare"
        )
    return i, j


def _whole(a: NDArray[Any], b: NDArray[Any]) -> tuple[I64, I64]:
    if a.shape != b.shape or a.ndim != 1:
        raise DataError(f"rows of shapes {a.shape} and {b.shape} cannot be compared one by one")
    if a.dtype.kind not in "iu" or b.dtype.kind not in "iu":
        raise DataError("with a context, a and b are numbers of its rows")
    return a.astype(np.int64), b.astype(np.int64)


def _custom(comparator: Any) -> dict[str, Any]:
    """How a custom comparator is made."""
    if not callable(comparator):
        return {}
    return {"make_for": lambda config, n: make_comparator(config, n, comparator)}


def _seed(random_state: Any) -> int:
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    return random_state  # type: ignore[no-any-return]  # `Config` refuses what is no seed


def _parameters(config: Settings) -> dict[str, Any]:
    """The estimator's parameters of these settings."""
    values = config.flat() | {"ranker": config.kind}
    values["random_state"] = values.pop("seed")
    return {name: value for name, value in values.items() if name in _SIGNATURE.parameters}


def _plain(value: Any) -> Any:
    """NaN as None, which JSON can hold."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return None if isinstance(value, float) and math.isnan(value) else value


def _unplain(record: Mapping[str, Any]) -> dict[str, Any]:
    return {key: math.nan if value is None else value for key, value in record.items()}
