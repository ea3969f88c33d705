"""SortNetRanker itself: fit, predict, compare, save and load."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Self, Unpack, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, check_is_fitted, check_X_y, validate_data

from sortnet.comparators import MakeOne
from sortnet.config import Config, Settings, choose_quality
from sortnet.core import F32, F64, I64, NamedColumns, Queries
from sortnet.core.named_columns import ALL_ROWS, QUERY
from sortnet.data.divide import hold_out_documents
from sortnet.data.grades import in_which_bin
from sortnet.errors import DataError, ModelError, SortNetError
from sortnet.estimator import arrays, evaluation, parameters
from sortnet.estimator.arrays import Features
from sortnet.estimator.parameters import Parameters, settings_from
from sortnet.explain.attribution import feature_shares, some_queries
from sortnet.files import shown
from sortnet.learning.iterations import Callback, Iteration
from sortnet.metrics import evaluate
from sortnet.rankers.base import Ranker, fit_ranker, load_ranker
from sortnet.rankers.sortnet import Model, as_model
from sortnet.tables.rows import listed
from sortnet.threads import limit_threads


class SortNetRanker(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Ranks the rows of each query by a comparator learned with Algorithm 3.1.

    `X` is an array, a list or a DataFrame of pandas or polars (a LazyFrame is collected). The query
    of each row is `qid` (in any order), or `group` (sizes of consecutive queries), or the column
    `qid` of a DataFrame, which is no feature then. With none of them all rows are one query, which
    `fit` warns of; on an estimator fitted with queries, two rows or more without them are refused.
    NaN is a missing value. Grades `y` are whole numbers from 0. A sparse matrix becomes an array,
    its zeros are 0.

    A column of a DataFrame is categorical if its dtype is, or if it holds short texts that repeat:
    each of its 50 most frequent levels becomes an indicator; those of an ordered dtype are numbered
    in their order. No grade is looked at. A level that `fit` did not see is no level. A date is a
    number of days. A column of texts, or of image files, becomes what `sortnet.items.describe`
    makes of them. Roles of columns are those that `sortnet train` chooses: ids are no features,
    nor are further columns of texts, of which `fit` warns.

    In `GridSearchCV` and `cross_val_score` give the queries as a column `qid` of a DataFrame: a
    `qid` given to `fit` does not reach `score`, unless it is routed there, with
    `sklearn.set_config(enable_metadata_routing=True)` and
    `SortNetRanker().set_fit_request(qid=True).set_score_request(qid=True)`.

    Args:
        comparator: a kind, such as `cmpnn`, or a function (n_columns, seed) -> NeuralComparator
            for one of your own, such as a DirectRanker with any torch module as feature part;
            the scaling decides how many columns it makes of the features.
        ranker: the kind of ranker; another one than `sortnet` takes of the settings those it has.
        validation_fraction: share of the queries that chooses epoch and iteration, when `fit` is
            given no `eval_set`. Queries are held out whole. Where fewer than two queries can
            choose (RankQuality differs between their rankings), all queries are for both, with
            a warning.
        random_state: of everything random; None for another one each time.
        query: the column of X that says which query a row belongs to; None: `qid`; `none`: all rows
            are one query.
        grade: the column of X with the grades, which `fit` and `score` take where there is no `y`;
            never a feature.
        id: a column of X with the documents' names, which are no feature.
        single_query: rows without queries are meant as one query: no warning, no refusal.
        tune: choose settings by RankQuality on the validation part first: those of a grid
            {parameter: values to try}, or True for the ranker's own, see `tuning.tune`.
        verbose: 1 writes a line an iteration to stderr.
        n_jobs: threads of `fit` and of what predicts; None leaves them as they are (all cores,
            where nobody set them), -1 uses every core. The numbers are the whole process's.
        settings: every other setting of `sortnet.config.Config` and of its training, by its name
            and with its default; `help(SortNetRanker)` lists them.

    Attributes:
        model_: the `Ranker` fitted, a `Model` where it is SortNet.
        history_: an `Iteration` for each iteration, of a ranker that has some.
        best_iteration_: the iteration the model is of; None where there are none.
        best_score_: its RankQuality on the queries that chose: too good a figure for a test, and
            a training figure where they were trained on as well, of which `fit` warns.
        quality_: the name of that RankQuality, such as `ndcg@10`.
        n_iter_: the number of iterations; None where there are none.
        evals_result_: {name: {measure: a value an iteration}} of the parts in `eval_set` (named
            `valid_0`, ...), or of what was held out; RankQuality and the measures of `eval_metric`.
        feature_importances_: see its own page; the sum is 1.
        features_: how the columns of a DataFrame became features; None for an array.
        n_features_in_: the number of columns of X.
        feature_names_in_: their names, where X had some.
        one_query_: whether all rows were one query, for want of `qid` and `group`.
        tuned_: the trials, with `tune`; the settings chosen are `model_.config`.

    >>> X = np.arange(12, dtype=np.float32)[:, None]
    >>> y, qid = X[:, 0] % 6, [1] * 6 + [2] * 6
    >>> ranker = SortNetRanker(scaling="none", batch_size=12).fit(X, y, qid=qid)
    >>> ranker.predict([[3.0], [9.0], [5.0]], qid=[1, 1, 1])
    array([0., 2., 1.], dtype=float32)
    """

    _sample: Queries | None  # of the validation part, for feature_importances_
    _shares: F64 | None

    def __init__(self, **params: Unpack[Parameters]) -> None:
        for name, value in parameters.all_parameters(params).items():
            setattr(self, name, value)

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        qid: ArrayLike | None = None,
        group: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        eval_set: Any = None,
        eval_qid: Any = None,
        eval_group: Any = None,
        eval_names: Sequence[str] | None = None,
        eval_metric: str | Sequence[str] | None = None,
        callbacks: Sequence[Callback] | None = None,
        init_model: SortNetRanker | Model | str | Path | None = None,
    ) -> Self:
        """Learn to sort the queries of X; see `sortnet.rankers.base.fit_ranker`.

        Args:
            X: (n_docs, n_columns).
            y: (n_docs,) grades, higher is more relevant; None: the column `grade` of X.
            qid: (n_docs,) the query of each row.
            group: (n_queries,) sizes of consecutive queries, in place of `qid`.
            sample_weight: (n_docs,) of the rows: a pair counts the product of its rows' weights;
                or (n_queries,) of the queries, in the order of their first rows. RankQuality
                counts every query alike.
            eval_set: (X, y) of the queries that choose epoch and iteration; or a list of such
                tuples, of which the first chooses and the others are only measured.
            eval_qid, eval_group: their queries; in a list where `eval_set` is.
            eval_names: of the parts in `evals_result_`.
            eval_metric: measures such as `map` and `ndcg@5` that `evals_result_` has as well.
            callbacks: called with an `Iteration` and a `State` after each iteration.
            init_model: a fitted estimator, a `Model` or a model folder to begin with, for new
                queries or more training: its weights, scaling and columns, by default half of the
                epochs. It is iteration 0, which is kept if no later one is better.

        Raises:
            DataError: on data or settings that cannot be used, such as a feature that is the qid.
        """
        if y is None and (self.grade is None or self.grade not in getattr(X, "columns", ())):
            raise DataError("SortNetRanker requires y to be passed, but the target y is None")
        also = evaluation.callbacks_of(callbacks)
        first = self._first(init_model, X)
        config = self._settings(first)
        train = self._queries(
            X, y, qid, group, weights=sample_weight, reset=True, labelled=True, first=first
        )
        if eval_set is None:
            config = choose_quality(train, train, config)
            share, metric = self.validation_fraction, config.rank_quality
            train, vali = evaluation.hold_out(train, share, config.seed, metric)
            parts = {"": vali}
        else:
            given = evaluation.eval_parts(X, eval_set, eval_qid, eval_group)
            parts = {
                source: self._queries(*part, source=source, labelled=True)
                for source, part in given.items()
            }
        names = evaluation.named(eval_names, len(parts))
        parts = dict(zip(names, parts.values(), strict=True))
        return self._fit(train, parts, config, eval_metric, also, first)

    def fit_pairs(
        self,
        X: Any,
        pairs: ArrayLike,
        *,
        qid: ArrayLike | None = None,
        group: ArrayLike | None = None,
        weight: ArrayLike | None = None,
        soft: ArrayLike | None = None,
        callbacks: Sequence[Callback] | None = None,
        init_model: SortNetRanker | Model | str | Path | None = None,
    ) -> Self:
        """Learn to sort the queries of X from pairs of rows that somebody compared.

        Some documents, or queries where there are several, are held out with their pairs: these
        choose epoch and iteration by accuracy, the share of them that is predicted.

        Args:
            X: (n_docs, n_columns).
            pairs: (m, 2) rows of one query each, the better one first.
            qid, group: as in `fit`.
            weight: (m,) how much each pair counts, such as its judge's reliability; None: 1.
            soft: (m,) how probably the first row is the better one, ½ for a tie; None: 1.
            callbacks, init_model: as in `fit`.

        Raises:
            DataError: on rows that are not there or of two queries, or too few pairs to hold any
                out.

        >>> X = np.arange(40.0)[:, None]
        >>> pairs = [(k + 1, k) for k in range(39)]
        >>> ranker = SortNetRanker(scaling="none", batch_size=40, max_iter=2, single_query=True)
        >>> ranker = ranker.fit_pairs(X, pairs)
        >>> ranker.predict([[30.0], [10.0], [20.0]])
        array([2., 0., 1.], dtype=float32)
        """
        also = evaluation.callbacks_of(callbacks)
        first = self._first(init_model, X)
        config = self._settings(first)
        queries = self._judged(X, pairs, qid, group, weight, soft, reset=True, first=first)
        train, vali = hold_out_documents(queries, seed=config.seed)
        return self._fit(train, {"held_out": vali}, config, None, also, first)

    def _first(
        self, init_model: SortNetRanker | Model | str | Path | None, X: Any
    ) -> SortNetRanker | None:
        """The fitted estimator to begin with, whose columns this one takes over.

        Args:
            init_model: of `fit`.
            X: of `fit`; it names the columns of a model that no estimator has saved.

        Raises:
            DataError: if it is nothing of these, its comparator cannot be trained further, or with
                `tune`.
        """
        if init_model is None:
            return None
        if self.tune is not False:
            raise DataError("tune chooses settings, which init_model has already: give one of them")
        if isinstance(init_model, SortNetRanker):
            first = init_model
            check_is_fitted(first)
        else:
            model: Ranker
            if isinstance(init_model, Ranker):
                model = init_model
            elif not isinstance(init_model, str | PathLike):
                expected = "a fitted estimator, a Model or a model folder"
                raise DataError(f"init_model is {expected}, not {shown(init_model)}")
            else:
                model = load_ranker(init_model, **parameters.custom(self.comparator))
            about = model.info.get("estimator") or arrays.columns_in(X, model.feature_names)
            first = SortNetRanker()._restored(model, about, "init_model")
        as_model(first.model_, "init_model")
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(first, name):
                setattr(self, name, getattr(first, name))
            elif hasattr(self, name):
                delattr(self, name)
        return first

    def _settings(self, first: SortNetRanker | None) -> Settings:
        """The settings that the parameters ask for; `first` is the estimator to begin with."""
        learned = None if first is None else cast(Config, first.model_.config)
        return settings_from(self.get_params(deep=False), learned)

    def _judged(
        self,
        X: Any,
        pairs: ArrayLike,
        qid: ArrayLike | None,
        group: ArrayLike | None = None,
        weight: ArrayLike | None = None,
        soft: ArrayLike | None = None,
        *,
        reset: bool = False,
        first: SortNetRanker | None = None,
    ) -> Queries:
        rows = np.asarray(pairs)
        if rows.ndim != 2 or rows.shape[1] != 2 or rows.dtype.kind not in "iu":
            raise DataError(
                f"pairs must be (m, 2) row numbers, the better first, got {rows.dtype} of shape "
                f"{rows.shape}"
            )
        queries = self._queries(X, None, qid, group, reset=reset, first=first)
        return queries.with_judgements(rows[:, 0], rows[:, 1], soft=soft, weight=weight)

    def _fit(
        self,
        train: Queries,
        parts: dict[str, Queries],
        config: Settings,
        eval_metric: str | Sequence[str] | None,
        callbacks: Sequence[Callback],
        first: SortNetRanker | None,
    ) -> Self:
        """Fit the ranker, from the weights of `first`, if any; the first part chooses."""
        vali, *others = parts.values()
        config = choose_quality(train, vali, config)
        metrics, history = evaluation.measures(config, eval_metric), list[Iteration]()
        keys = {name: f"eval {k}" if k else "vali" for k, name in enumerate(parts)}
        own = parameters.custom(self.comparator)
        if config.kind == Config.kind:
            own["extra_parts"] = dict(zip([*keys.values()][1:], others, strict=True))
            own["metrics"] = [metric.name for metric in metrics[1:]]
            speak = [evaluation.say(keys, metrics[0])] if self.verbose > 0 else []
            remember: Callback = lambda record, state: history.append(record)  # noqa: E731
            own["callbacks"] = [remember, *speak, *callbacks]
            own["from_model"] = None if first is None else first.model_
        with limit_threads(self.n_jobs):
            model = fit_ranker(train, vali, self._tuned(train, vali, config), **own)
            watched = {name: (keys[name], part) for name, part in parts.items()}
            self.evals_result_ = evaluation.results(history, model, watched, metrics)
        self._sample, self._shares = some_queries(vali), None
        return self._fitted(model, history)

    @property
    def feature_importances_(self) -> F64:
        """(n_features_in_,) the share of each column in the margins between validation documents.

        Integrated gradients of 1,000 random pairs of the queries that chose, see
        `sortnet.explain.attribution.feature_shares`; the indicators of a categorical column are
        added up. What a measure loses without a feature is another question, which
        `sortnet.explain.permutation.permutation_importance` answers.

        Raises:
            AttributeError: if the ranker has no gradients, or was loaded from a folder that does
                not hold them.

        Cost: computed when first asked for, from about 2,000 documents kept since `fit`.
        """
        check_is_fitted(self)
        if self._shares is None:
            if self._sample is None:
                raise AttributeError("the folder holds no feature_importances_")
            try:
                found = feature_shares(self.model_, self._sample)
            except (SortNetError, RuntimeError) as error:
                raise AttributeError(f"no feature_importances_: {error}") from None
            self._shares = found if self.features_ is None else self.features_.added_up(found)
        return self._shares

    def predict(
        self,
        X: Any,
        qid: ArrayLike | None = None,
        *,
        kind: Literal["place", "score"] = "place",
    ) -> F32:
        """(n_docs,) one number a row, in the order of the rows; in a query, higher is better.

        Args:
            X: (n_docs, n_columns).
            qid: (n_docs,) the query of each row.
            kind: `place` is, of SortNet, the number of documents that the comparator puts below
                this one in its query, which says nothing across queries. `score` depends on the
                comparator. Soft trees and DirectRanker have a score g(x) of each document, summed
                over a committee of nets; scores can be compared across queries where the scaling
                does not depend on the query. CmpNN has the mean margin over the other documents of
                the query, n^2 comparisons. Other kinds of rankers have one score for both.

        Raises:
            DataError: on rows that cannot be used, or without queries where `fit` had some.
        """
        check_is_fitted(self)
        if kind not in ("place", "score"):
            raise DataError(f"kind must be 'place' or 'score', got {str(kind)[:60]!r}")
        queries = self._queries(X, None, qid)
        if queries.n_docs == 1:
            self._warn_alone("one row", "give all rows of the query")
        with limit_threads(self.n_jobs):
            of = self.model_.scores if kind == "place" else self.model_.real_scores
            found: F32 = queries.in_row_order(of(queries))
        return found

    def rank(self, X: Any, qid: ArrayLike | None = None) -> I64:
        """(n_docs,) each row's rank in its query, from 1 for the best, in the order of the rows."""
        check_is_fitted(self)
        queries = self._queries(X, None, qid)
        first = np.repeat(queries.offsets[:-1], queries.sizes)
        ranks = np.empty(queries.n_docs, np.int64)
        with limit_threads(self.n_jobs):
            order = self.model_.order(queries)
        ranks[order] = np.arange(queries.n_docs) - first + 1
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
            self._warn_alone("two rows without their query", "give context, the rows of the query")
        else:
            queries = self._queries(context, None, qid)
            i, j = arrays.documents(queries, np.atleast_1d(a), np.atleast_1d(b))
        with limit_threads(self.n_jobs):
            margins = self.model_.margins(queries, i, j)
        return float(margins[0]) if single else margins

    def score(self, X: Any, y: ArrayLike | None = None, qid: ArrayLike | None = None) -> float:
        """RankQuality, the mean over the queries of the measure `quality`; higher is better."""
        check_is_fitted(self)
        queries, config = self._queries(X, y, qid, labelled=True), self.model_.config
        with limit_threads(self.n_jobs):
            order = self.model_.order(queries)
        return config.quality_of(queries, order)

    def score_pairs(
        self,
        X: Any,
        pairs: ArrayLike,
        *,
        qid: ArrayLike | None = None,
        weight: ArrayLike | None = None,
        soft: ArrayLike | None = None,
    ) -> float:
        """The share of judged pairs that is predicted; the arguments are those of `fit_pairs`."""
        check_is_fitted(self)
        queries = self._judged(X, pairs, qid, None, weight, soft)
        with limit_threads(self.n_jobs):
            order = self.model_.order(queries)
        return evaluate(queries, order, "accuracy")["accuracy"]

    def save(self, folder: str | Path) -> None:
        """Write the model folder, which every command of `sortnet` reads, and the history.

        Raises:
            SortNetError: if the folder cannot be written.
        """
        check_is_fitted(self)
        shares = getattr(self, "feature_importances_", None)
        about = {
            "validation_fraction": self.validation_fraction,
            "single_query": self.single_query,
            "one_query": self.one_query_,
            "feature_importances": None if shares is None else shares.tolist(),
            "categories": self._ordered(),
            "history": [_plain(asdict(record)) for record in self.history_],
        }
        if self.features_ is None or not self.features_.is_of_table:
            about["columns"] = getattr(self, "feature_names_in_", np.array([])).tolist()
            about["n_columns"] = self.n_features_in_
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
        model = load_ranker(folder, **parameters.custom(comparator))
        ranker = cls(**parameters.parameters_of(model.config))
        if comparator is not None:
            ranker.set_params(comparator=comparator)
        about = model.info.get("estimator", {})
        return ranker._restored(model, about, str(Path(folder) / "model.json"))

    def _ordered(self) -> dict[str, Any]:
        """The ordered columns by their numbers, as `_restored` reads them."""
        ordered = {} if self.features_ is None else self.features_.ordered
        number = {name: str(k) for k, name in enumerate(getattr(self, "feature_names_in_", ()))}
        return {number[c]: {"levels": [*v], "one_hot": False} for c, v in ordered.items()}

    def _restored(self, model: Ranker, about: Mapping[str, Any], source: str) -> Self:
        """As `save` found it; of a folder of `sortnet train`, as much as there is.

        Raises:
            ModelError: on damaged info, naming the source.
        """
        try:
            return self._with_info(model, about)
        except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
            raise ModelError(f"{source}: damaged info: {error!r}") from None

    def _with_info(self, model: Ranker, about: Mapping[str, Any]) -> Self:
        """Take over the model and the info of `save`."""
        groups = None if model.describer is None else model.describer.columns.get("group")
        without_groups = model.describer is not None and groups is None
        self.one_query_ = about.get("one_query", without_groups)
        names = about.get("columns")
        self.features_ = None
        if names or (names is None and model.feature_names):
            coded = about.get("categories", {}).items()
            places = {int(k): (*c["levels"],) for k, c in coded if not c["one_hot"]}
            ordered = {(names or [])[k]: levels for k, levels in places.items()}
            self.features_ = arrays.features_of_model(model, names, ordered)
            self.feature_names_in_ = np.array(self.features_.columns, dtype=object)
        n_columns = model.n_features if self.features_ is None else len(self.features_.columns)
        self.n_features_in_ = int(about.get("n_columns", n_columns))
        if self.features_ is not None and self.n_features_in_ != n_columns:
            raise ValueError("not the columns of this model")
        self.set_params(
            validation_fraction=about.get("validation_fraction", 0.2),
            single_query=about.get("single_query", False),
            query=model.columns.query or (None if groups == QUERY else groups),
            grade=model.columns.grade,
            id=model.columns.id,
        )
        shares = about.get("feature_importances")
        self._sample, self._shares = None, None if shares is None else np.array(shares, np.float64)
        history = [Iteration(**_unplain(record)) for record in about.get("history", [])]
        return self._fitted(model, history)

    def _queries(
        self,
        X: Any,
        y: ArrayLike | None,
        qid: ArrayLike | None = None,
        group: ArrayLike | None = None,
        *,
        weights: ArrayLike | None = None,
        reset: bool = False,
        source: str = "X",
        pairs: bool = False,
        labelled: bool = False,
        first: SortNetRanker | None = None,
    ) -> Queries:
        """Check the data as scikit-learn does, and group its rows; `reset` where it is learned.

        Rows for `pairs` need no query. `labelled` rows have grades as `y`, or in their column.
        With `first`, the estimator to begin with, the features are those of its columns.
        """
        names_of_columns = NamedColumns(self.query, self.grade, self.id)
        if first is not None:
            names_of_columns = names_of_columns.over(first.model_.columns)
        X, qid, column_of_grades = arrays.take_columns(
            arrays.as_table(X, source), qid, names_of_columns, source
        )
        if labelled and y is None:
            y = self._grades(column_of_grades, source, names_of_columns, reset=reset)
        framed = hasattr(X, "columns")
        if reset:
            self.one_query_ = qid is None and group is None
            self.features_ = None if first is None else first.features_
        found = self._checked(X, y, reset and first is None, source)
        columns, grades = (found, None) if y is None else found
        names = None if self.features_ is None else self.features_.names
        if qid is None and group is None and len(columns) > 1 and not pairs:
            self._take_as_one_query(len(columns), reset, source)
        if reset:
            arrays.refuse_qid_as_feature(columns, qid, names, source)
        queries = Queries.from_arrays(
            columns,
            grades,
            qid=qid,
            group=group,
            feature_names=names,
            source=source,
            weights=weights,
        )
        describer = None if self.features_ is None else self.features_.describer
        if framed:
            queries = replace(queries, columns=names_of_columns, describer=describer)
        return queries

    def _grades(
        self, column: ArrayLike | None, source: str, names: NamedColumns, *, reset: bool
    ) -> ArrayLike:
        """The grades in their column, in the bins of the model where it was fitted with some."""
        if column is None:
            raise DataError(f"{source}: give grades as y, or name their column with grade=")
        edges = names.edges if reset else self.model_.columns.edges
        return in_which_bin(column, edges) if edges else column

    def _checked(self, X: Any, y: ArrayLike | None, reset: bool, source: str) -> Any:
        """X as an array of features, and y where there is one."""
        both = {} if y is None else {"y": y, "y_numeric": True}
        if not reset and y is None and self._is_as_fitted(X):
            return X
        least = 2 if reset else 0  # ranking no documents is no fault
        rules = {
            "dtype": (np.float64, np.float32), "ensure_all_finite": "allow-nan",
            "ensure_min_samples": least,
        }  # fmt: skip
        try:
            if not hasattr(X, "columns"):
                if self.features_ is not None and self.features_.names != self.features_.columns:
                    raise DataError(
                        f"{source} must be a DataFrame: the ranker was fitted with columns of "
                        "categories, texts or ids"
                    )
                return validate_data(self, X, **both, reset=reset, **rules)
            X = self._features_of_frame(X, reset, source)
            if y is None:
                return check_array(X, **rules)
            return check_X_y(X, y, y_numeric=True, **rules)
        except DataError:
            raise
        except ValueError as error:
            if "string to float" in str(error):
                arrays.refuse_words(X, source)
            raise DataError(str(error) if source == "X" else f"{source}: {error}") from None

    def _features_of_frame(self, X: Any, reset: bool, source: str) -> F64:
        """(n, n_features) the features of a frame, which are chosen where `reset`."""
        if self.features_ is not None and self.features_.is_of_table:
            self._refuse_extra_columns(X, source)
            return self.features_.apply(X, source)
        if not reset:
            self._refuse_extra_columns(X, source)
        validate_data(self, X, reset=reset, skip_check_array=True)  # columns by their names
        if self.features_ is not None:
            return self.features_.apply(X, source)
        if not reset:  # fitted on an array
            columns = tuple(map(str, X.columns))
            return Features(columns, columns).apply(X, source)
        query = None if self.one_query_ or self.query == ALL_ROWS else self.query or QUERY
        self.features_, matrix = Features.fit_apply(X, source, id=self.id, query=query)
        if self.features_.unused:
            warnings.warn(
                f"{source}: no features are made of {listed(map(shown, self.features_.unused))}: "
                "columns that are called like an id or a grade, and texts besides the column of "
                "texts that do not repeat; leave them out, or give them other names",
                stacklevel=5,
            )
        return matrix

    def _is_as_fitted(self, X: Any) -> bool:
        """Whether X is an array of floats as scikit-learn's checks leave it, which take longer than
        the ranking of a query."""
        return (
            type(X) is np.ndarray
            and X.dtype in (np.float64, np.float32)
            and X.shape[1:] == (self.n_features_in_,)
            and self.features_ is None
            and not hasattr(self, "feature_names_in_")
            and not np.isinf(X).any()
        )

    def _refuse_extra_columns(self, X: Any, source: str) -> None:
        """Refuse a frame with all columns of `fit` and further ones, in one line that names these.

        Other differences are refused by scikit-learn, in words that its checks expect.
        """
        fitted = set(getattr(self, "feature_names_in_", ()))
        columns = [str(name) for name in X.columns]
        allowed = fitted
        if self.features_ is not None and self.features_.is_of_table:
            describer = self.features_.describer
            fitted = set(self.features_.needed(columns))
            allowed = fitted if describer is None else fitted | {*describer.columns.values()}
        extra = [name for name in columns if name not in allowed]
        if fitted and extra and fitted <= set(columns):
            names = listed(map(shown, extra))
            if len(extra) == 1:
                fault = f"column {names} is not among the columns of fit: leave it out"
            else:
                fault = f"columns {names} are not among the columns of fit: leave them out"
            raise DataError(f"{source}: {fault}")

    def _take_as_one_query(self, n: int, reset: bool, source: str) -> None:
        """Refuse rows without queries; warn where scikit-learn wants `fit` to take them."""
        if self.single_query or self.query == ALL_ROWS or (self.one_query_ and not reset):
            return
        if self.query is not None:
            raise DataError(f"{source} has no column {shown(self.query)}, which names the queries")
        if reset:
            warnings.warn(
                f"{source} has no qid: all {n} rows are taken as one query; give qid, group or a "
                "column 'qid', or set single_query=True",
                stacklevel=4,
            )
            return
        wanted = "eval_qid" if source.startswith("eval_set") else "qid"
        raise DataError(
            f"{source} has no qid, but the ranker was fitted with queries: give {wanted} or a "
            "column 'qid' (in a search: the column, or metadata routing), or set "
            f"single_query=True if the {n} rows are one query"
        )

    def _warn_alone(self, rows: str, advice: str) -> None:
        """Warn of rows without the query that their margins depend on."""
        if self.model_.depends_on_query:
            warnings.warn(
                f"{rows}: this ranker's margins depend on the other rows of the query; {advice}, "
                "or fit with a scaling that does not depend on it, such as normal",
                stacklevel=3,
            )

    def _in_pairs(self, a: Any, b: Any) -> tuple[Queries, I64, I64]:
        """Queries of two documents, a[k] and b[k]."""
        if len(a) != len(b):
            raise DataError(f"{len(a)} documents cannot be compared with {len(b)} one by one")
        rows = np.empty((2 * len(a), self.model_.n_features), np.float32)
        for first, given in enumerate((a, b)):
            checked = self._queries(given, None, pairs=True)
            rows[first::2] = checked.in_row_order(checked.features)
        queries = Queries.from_arrays(rows, group=np.full(len(a), 2), source="a and b")
        return queries, np.arange(0, len(rows), 2), np.arange(1, len(rows), 2)

    def _tuned(self, train: Queries, vali: Queries, config: Settings) -> Settings:
        """The settings chosen on the validation part, where that is asked for."""
        if self.tune is False:
            return config
        if callable(self.comparator):
            raise DataError("tune chooses among the comparators of SortNet, not your own")
        from sortnet.rankers.tuning import tune

        found = tune(train, vali, config, grid=None if self.tune is True else self.tune)
        self.tuned_ = found.trials
        return found.config

    def _fitted(self, model: Ranker, history: list[Iteration]) -> Self:
        self.model_ = model
        self.history_ = history
        iteration = model.info.get("iteration")
        iterations = model.info.get("iterations")
        self.n_iter_ = None if iterations is None else int(iterations)
        self.best_iteration_ = None if iteration is None else int(iteration)
        self.best_score_ = float(model.info["quality"])
        self.quality_ = model.config.rank_quality.name
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.positive_only = True
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True  # made dense
        return tags


# What scikit-learn, help() and an editor read.
SortNetRanker.__init__.__signature__ = parameters.SIGNATURE  # type: ignore[attr-defined]


def _plain(value: Any) -> Any:
    """NaN as None, which JSON can hold."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return None if isinstance(value, float) and math.isnan(value) else value


def _unplain(record: Mapping[str, Any]) -> dict[str, Any]:
    return {key: math.nan if value is None else value for key, value in record.items()}
