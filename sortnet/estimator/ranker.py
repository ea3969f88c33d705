"""The estimator SortNetRanker: fit, predict, compare, save and load."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import asdict, replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, check_is_fitted, check_X_y, validate_data

from sortnet.comparators import MakeOne
from sortnet.config import Config, Settings, choose_quality
from sortnet.core import F32, F64, I64, NamedColumns, Queries
from sortnet.core.arrays import refuse_masked
from sortnet.core.named_columns import ALL_ROWS, QUERY
from sortnet.data.divide import hold_out_documents
from sortnet.data.grades import features_near_model
from sortnet.errors import DataError, ModelError, SortNetError
from sortnet.estimator import arrays, evaluation, parameters
from sortnet.estimator.arrays import Features
from sortnet.estimator.parameters import settings_from
from sortnet.explanation.attribution import feature_shares, some_queries
from sortnet.files import note, plain, shown
from sortnet.learning.iterations import Callback, Iteration, State
from sortnet.metrics import Metric, evaluate
from sortnet.rankers.base import Ranker
from sortnet.rankers.fit_ranker import fit_ranker
from sortnet.rankers.load_ranker import load_ranker
from sortnet.rankers.model import Model, as_model
from sortnet.rankers.sortnet import with_share_of_epochs
from sortnet.tables.rows import listed
from sortnet.threads import limit_threads

# Share of the epochs of the fit that tells RankQuality before all queries are learned from. A third
# takes a third of the time, and tells nearly the RankQuality of all epochs, rather a lower one.
_SHARE_OF_EPOCHS = 1 / 3
_ENTRY = "settings__"  # prefix by which scikit-learn names an entry of `settings`

_noted = set[tuple[str, tuple[str, ...]]]()  # columns, with all columns of their frames


class SortNetRanker(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Estimator that ranks the rows of each query by a comparator, trained by Algorithm 3.1.

    `X` is an array, a list, or a DataFrame: of pandas, polars (a LazyFrame is collected) or Arrow,
    or a list of dicts. The query of each row is `qid` (in any order), or `group` (sizes of
    consecutive queries), or the column `qid` of a DataFrame, which is then no feature. Without
    queries all rows are one query, and `fit` warns; an estimator that was fitted with queries
    refuses two or more rows without queries. NaN is a missing value. Grades `y` are whole numbers
    from 0. A sparse matrix becomes an array, and its zeros are values, not missing values.

    A column of a DataFrame is categorical by its dtype, or if it holds short texts that repeat:
    each of its 50 most frequent levels becomes an indicator. The levels of an ordered dtype are
    numbered in their order. The choice does not depend on the grades. A level that `fit` did not
    see has no indicator. A date becomes a number of days. A column of texts, or of image files,
    becomes the features of `sortnet.items.describe`. Columns have the roles that `sortnet train`
    chooses. A column of ids is no feature, and only one column of texts becomes features; `fit`
    warns of further columns of texts.

    In `GridSearchCV` and `cross_val_score` give the queries as a column `qid` of a DataFrame: the
    argument `qid` of `fit` does not reach `score`, unless it is routed there, with
    `sklearn.set_config(enable_metadata_routing=True)` and
    `SortNetRanker().set_fit_request(qid=True).set_score_request(qid=True)`. The same holds for
    `sample_weight`.

    Args:
        comparator: a kind, such as `cmpnn`, or a function (n_columns, seed) -> NeuralComparator
            that makes a custom comparator, such as a DirectRanker with any torch module as feature
            part. The scaling decides the number of columns.
        ranker: the kind of ranker; a kind other than `sortnet` uses only the settings that it has.
        settings: {name: value} for settings of the kind of ranker, such as
            `settings={"C": 1.0}` for `ranksvm`; `sortnet settings` lists them. A search can vary
            them one by one, as `settings__C`.
        validation_fraction: share of the queries that are held out if `fit` has no `eval_set`: a
            shorter fit without them tells RankQuality, `best_score_`, and then all queries are
            learned from, and the last iteration is kept. Where an epoch or settings are chosen
            (`tune`, `init_model`, `start="fresh"`, `max_iter=1`, pairs that are chosen once), the
            held-out queries choose, and are not learned from. If RankQuality differs between the
            rankings of fewer than two queries, no query is held out: the estimator learns from all
            queries and chooses by them, with a warning.
        random_state: seed of all random numbers; None: another seed in each fit.
        query: the column of X with the query of a row; None: `qid`; `none`: all rows are one query.
        grade: the column of X with the grades, which `fit` and `score` use if they have no `y`;
            this column is never a feature.
        id: the column of X with the documents' names, which is no feature.
        single_query: whether rows without queries are one query, without warning or refusal.
        tune: whether to choose settings by RankQuality on the validation part before the fit. True:
            from the grids of the ranker; {parameter: values to try}: from this grid; see
            `sortnet.rankers.tuning.tune`.
        verbose: 1: write what was made of the columns of a frame, and a line for each iteration, to
            stderr; 0: write nothing.
        n_jobs: threads of fitting and predicting, for the whole process; -1: all cores; None: the
            number stays as it is, by default all cores.
        quality, relevant_from, ...: every setting of `sortnet.config.Config` and of its training,
            by its name and with its default; `help(SortNetRanker)` lists them.

    Attributes:
        model_: the fitted `Ranker`, a `Model` if the ranker is SortNet.
        history_: an `Iteration` for each iteration; empty for a ranker without iterations.
        best_iteration_: the iteration of the model; None for a ranker without iterations.
        best_score_: RankQuality on the queries that chose the model, which is too good to be a test
            result. In a fit without `eval_set` it is the RankQuality of a shorter fit on queries
            that this fit has not seen, see `validation_fraction`. If no queries were held out, it
            is a training figure.
        quality_: the name of RankQuality, such as `ndcg@10`.
        n_iter_: the number of iterations; None for a ranker without iterations.
        evals_result_: {name of a part: {measure: list with a value for each iteration}}. The parts
            are the parts of `eval_set` (`valid_0`, ...), without `eval_set` the `training` queries
            or the held-out queries (`valid_0`), and the measures are RankQuality and `eval_metric`.
        feature_importances_: share of each column in the margins; the sum is 1.
        features_: the rule by which columns of a DataFrame become features, with a `sentence` that
            tells what was made of them; None for an array.
        n_features_in_: the number of columns of X.
        feature_names_in_: the names of the columns of X, if X has names.
        one_query_: whether all rows were one query because `qid` and `group` were left out.
        tuned_: the trials of `tune`; the chosen settings are `model_.config`.

    >>> X = np.arange(12, dtype=np.float32)[:, None]
    >>> y, qid = X[:, 0] % 6, [1] * 6 + [2] * 6
    >>> ranker = SortNetRanker(scaling="none", batch_size=12).fit(X, y, qid=qid)
    >>> ranker.predict([[3.0], [9.0], [5.0]], qid=[1, 1, 1])
    array([0., 2., 1.], dtype=float32)
    """

    settings: Mapping[str, Any] | None
    _sample: Queries | None  # queries of the validation part, for feature_importances_
    _shares: F64 | None  # feature_importances_ once they are computed

    def __init__(self, **values: Any) -> None:
        self.__dict__ |= parameters.checked(values)

    # The parameters and their defaults, for scikit-learn, `help` and editors.
    __init__.__signature__ = parameters.SIGNATURE  # type: ignore[attr-defined]

    @classmethod
    def _get_param_names(cls) -> list[str]:
        """List the names of the parameters for scikit-learn, also for a subclass with more."""
        return sorted({*super()._get_param_names(), *parameters.DEFAULT_PARAMETERS})

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; with `deep` also the entries of `settings`."""
        values: dict[str, Any] = super().get_params(deep=deep)
        if deep and isinstance(self.settings, Mapping):
            values |= {f"{_ENTRY}{name}": value for name, value in self.settings.items()}
        return values

    def set_params(self, **values: Any) -> Self:
        """Set parameters by name; `settings__NAME` sets an entry of `settings`."""
        is_entry = {name: name.startswith(_ENTRY) for name in values}
        super().set_params(**{name: values[name] for name in values if not is_entry[name]})
        entries = {name.removeprefix(_ENTRY): values[name] for name in values if is_entry[name]}
        if entries:
            self.settings = {**(self.settings or {}), **entries}
        return self

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
        """Learn to sort the queries of X; see `sortnet.rankers.fit_ranker.fit_ranker`.

        Args:
            X: (n_docs, n_columns) the rows of the documents.
            y: (n_docs,) grades, higher is more relevant; None: the column `grade` of X.
            qid: (n_docs,) the query of each row.
            group: (n_queries,) sizes of consecutive queries, in place of `qid`.
            sample_weight: weights (n_docs,) of the rows, where a pair has the product of the
                weights of its two rows; or weights (n_queries,) of the queries, in the order of
                their first rows. All queries have the same weight in RankQuality.
            eval_set: the queries that choose epoch and iteration, as a tuple (X, y); or a list of
                such tuples, of which the first chooses and the rest are only measured.
            eval_qid, eval_group: the queries of `eval_set`; lists if `eval_set` is a list.
            eval_names: names of the parts in `evals_result_`.
            eval_metric: measures to add to `evals_result_`, such as `map` and `ndcg@5`.
            callbacks: functions that are called with an `Iteration` and a `State` after each
                iteration.
            init_model: a fitted estimator, a `Model` or a model folder to begin with, for new
                queries or more training. The training has the scaling and the columns of this
                model, and by default half of the usual epochs. The model itself is iteration 0,
                which is kept if no later iteration is better.

        Raises:
            DataError: if data or settings cannot be used; for example, if a feature is the qid.
        """
        learner = copy(self)
        initial = learner._initial_estimator(init_model)
        config = learner._settings(initial)
        train = learner._queries(
            X, y, qid, group, weights=sample_weight, reset=True, labelled=True, initial=initial
        )
        remaining = None
        if eval_set is None:
            config = choose_quality(train, train, config)
            remaining, vali = evaluation.hold_out(
                train, self.validation_fraction, config.seed, config.rank_quality
            )
            chooses_nothing = (
                isinstance(config, Config)
                and config.divides_one_training
                and initial is None
                and self.tune is False
            )
            if chooses_nothing and remaining is not vali:
                eval_parts = evaluation.named_parts([train], eval_names or ["training"], "train")
            else:
                train = remaining
                remaining = None
                eval_parts = evaluation.named_parts([vali], eval_names)
        else:
            eval_queries = [
                learner._queries(*arguments, source=source, labelled=True, initial=initial)
                for source, arguments in evaluation.parts_of_eval_set(
                    X, eval_set, eval_qid, eval_group
                )
            ]
            vali = eval_queries[0]
            config = choose_quality(train, vali, config)
            eval_parts = evaluation.named_parts(eval_queries, eval_names)
        learner._fit(
            train,
            eval_parts,
            vali,
            config,
            eval_metric,
            callbacks or (),
            initial=initial,
            remaining=remaining,
        )
        self.__dict__ = learner.__dict__  # in one step: a fit that fails changes nothing
        return self

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
        """Learn to sort the queries of X from judged pairs of rows.

        Some queries, or some documents if there are few queries, are held out with their pairs. The
        held-out pairs choose epoch and iteration by accuracy, the share of pairs that the ranker
        predicts.

        Args:
            X: (n_docs, n_columns) the rows of the documents.
            pairs: (m, 2) numbers of two rows of the same query, the better row first.
            qid, group: the queries of the rows, as in `fit`.
            weight: (m,) weight of each pair, such as the reliability of its judge; None: 1.
            soft: (m,) probability that the first row is the better row, ½ for a tie; None: 1.
            callbacks, init_model: the same as in `fit`.

        Raises:
            DataError: if a row does not exist, if the rows of a pair belong to two queries, or if
                there are too few pairs to hold out some.

        >>> X = np.arange(40.0)[:, None]
        >>> pairs = [(k + 1, k) for k in range(39)]
        >>> ranker = SortNetRanker(scaling="none", batch_size=40, max_iter=2, single_query=True)
        >>> ranker = ranker.fit_pairs(X, pairs)
        >>> ranker.predict([[30.0], [10.0], [20.0]])
        array([2., 0., 1.], dtype=float32)
        """
        learner = copy(self)
        initial = learner._initial_estimator(init_model)
        config = learner._settings(initial)
        queries = learner._judged(X, pairs, qid, group, weight, soft, reset=True, initial=initial)
        train, vali = hold_out_documents(queries, seed=config.seed)
        config = choose_quality(train, vali, config)
        eval_parts = evaluation.named_parts([vali], ["held_out"])
        learner._fit(
            train,
            eval_parts,
            vali,
            config,
            eval_metric=None,
            callbacks=callbacks or (),
            initial=initial,
        )
        self.__dict__ = learner.__dict__  # in one step: a fit that fails changes nothing
        return self

    def _initial_estimator(
        self, init_model: SortNetRanker | Model | str | Path | None
    ) -> SortNetRanker | None:
        """Make the fitted estimator to begin with, and take over the names of its columns.

        Args:
            init_model: argument of `fit`; None: there is no such estimator.

        Raises:
            DataError: if `init_model` has a wrong type, if its comparator cannot be trained
                further, or if `tune` is set.
        """
        self.__dict__.pop("model_", None)  # the model of an earlier fit
        if init_model is None:
            return None
        if self.tune is not False:
            raise DataError("tune chooses settings, which init_model has already: give one of them")
        if isinstance(init_model, SortNetRanker):
            initial = init_model
            check_is_fitted(initial)
        elif isinstance(init_model, Ranker):
            initial = SortNetRanker()._restore(init_model, "init_model")
        elif isinstance(init_model, str | PathLike):
            comparator = self.comparator if callable(self.comparator) else None
            initial = SortNetRanker.load(init_model, comparator=comparator)
        else:
            expected = "a fitted estimator, a Model or a model folder"
            raise DataError(f"init_model is {expected}, not {shown(init_model)}")
        as_model(initial.model_, "init_model")  # refuses all other kinds of rankers
        for name in ("n_features_in_", "feature_names_in_"):  # scikit-learn checks X by these
            self.__dict__.pop(name, None)
            if hasattr(initial, name):
                setattr(self, name, getattr(initial, name))
        return initial

    def _settings(self, initial: SortNetRanker | None) -> Settings:
        """Make the settings of a fit from the parameters.

        Args:
            initial: the estimator to begin with, whose settings are the defaults; None: the
                training begins from random weights.
        """
        learned = None if initial is None else cast(Config, initial.model_.config)
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
        initial: SortNetRanker | None = None,
    ) -> Queries:
        """Check the data and the pairs, and make queries with judged pairs.

        Args:
            X, pairs, qid, group, weight, soft: arguments of `fit_pairs`.
            reset: whether the estimator is fitted on the data.
            initial: the estimator to begin with.
        """
        refuse_masked(pairs=pairs)
        rows = np.asarray(pairs)
        are_whole_numbers = rows.dtype.kind in "iu"
        if rows.ndim != 2 or rows.shape[1] != 2 or not are_whole_numbers:
            raise DataError(
                f"pairs must be (m, 2) row numbers, the better first, got {rows.dtype} of shape "
                f"{rows.shape}"
            )
        table = arrays.as_table(X)
        deviations = arrays.wins_less_losses(rows, len(table)) if reset else None
        queries = self._queries(
            table, qid=qid, group=group, reset=reset, initial=initial, deviations=deviations
        )
        return queries.with_judgements(rows[:, 0], rows[:, 1], soft=soft, weight=weight)

    def _fit(
        self,
        train: Queries,
        eval_parts: Sequence[evaluation.EvalPart],
        vali: Queries,
        config: Settings,
        eval_metric: str | Sequence[str] | None,
        callbacks: Sequence[Callback],
        *,
        initial: SortNetRanker | None = None,
        remaining: Queries | None = None,
    ) -> None:
        """Fit the ranker on checked data, and set the attributes of a fitted estimator.

        Args:
            train: the training queries.
            eval_parts: the parts to measure.
            vali: the queries that choose epoch and iteration.
            config: the settings.
            eval_metric: argument of `fit`.
            callbacks: the callbacks of the user.
            initial: the estimator to begin with; None: the training begins from random weights.
            remaining: the queries of a shorter fit, which tells RankQuality on `vali`; all queries
                are then learned from, and the last iteration is kept. None: `vali` chooses.
        """
        metrics = evaluation.measures(config, eval_metric)
        history = list[Iteration]()
        arguments = parameters.custom(self.comparator)
        with limit_threads(self.n_jobs):
            chooser: Ranker | None = None
            if remaining is None:
                config = self._tune_settings(train, vali, config)
            else:
                shorter = with_share_of_epochs(cast("Config", config), remaining, _SHARE_OF_EPOCHS)
                chooser = fit_ranker(remaining, vali, shorter, **arguments)
                arguments["keep_last"] = True
            if config.kind == Config.kind:  # only SortNet has iterations
                arguments["metrics"] = [metric.name for metric in metrics[1:]]
                arguments["extra_parts"] = {part.key: part.queries for part in eval_parts[1:]}
                arguments["callbacks"] = self._callbacks(history, eval_parts, metrics, callbacks)
                arguments["from_model"] = None if initial is None else initial.model_
            model = fit_ranker(train, vali, config, **arguments)
            self.evals_result_ = evaluation.results(history, model, eval_parts, metrics)
        if chooser is not None:
            model = replace(model, info={**model.info, "quality": chooser.info["quality"]})
        self._note_near_features(vali, chooser or model)
        # `feature_importances_` computes the shares from the sample at its first use.
        self._sample = some_queries(vali)
        self._shares = None
        self._set_fitted(model, history)

    def _note_near_features(self, vali: Queries, model: Ranker) -> None:
        """Log a note of each column of a frame that alone orders nearly as well as the model.

        A column is noted once in a process: a search fits tables with the same columns many times.

        Args:
            vali: the queries that chose epoch and iteration.
            model: the fitted ranker.
        """
        if self.features_ is None or vali.judged is not None:
            return
        config = model.config
        quality = float(model.info["quality"])
        # Several levels of a column may be near; the column is named once.
        quality_of_column = {
            self.features_.column_of(self.features_.names[feature]): alone
            for feature, alone in features_near_model(
                vali, quality, config.rank_quality, config.empty
            ).items()
        }
        for column, alone in quality_of_column.items():
            table = (column, self.features_.columns)
            if table not in _noted:
                _noted.add(table)
                note(
                    vali.source,
                    f"the column {shown(column)} alone orders documents nearly as well as the "
                    f"model ({config.rank_quality.name} {alone:.3f} of {quality:.3f}): if it is "
                    "made of the grade, leave it out",
                )

    def _callbacks(
        self,
        history: list[Iteration],
        eval_parts: Sequence[evaluation.EvalPart],
        metrics: Sequence[Metric],
        callbacks: Sequence[Callback],
    ) -> list[Callback]:
        """List the callbacks of a fit: for the record, for `verbose`, and those of the user.

        Args:
            history: a list to which the record of each iteration is added.
            eval_parts, callbacks: see `_fit`.
            metrics: the measures, RankQuality first.
        """

        def record_iteration(record: Iteration, state: State) -> None:
            """Add the record of an iteration to the history."""
            history.append(record)

        own_callbacks: list[Callback] = [record_iteration]
        if self.verbose > 0:
            own_callbacks.append(evaluation.printing_callback(eval_parts, metrics[0]))
        return [*own_callbacks, *callbacks]

    @property
    def feature_importances_(self) -> F64:
        """Share (n_features_in_,) of each column in the margins between validation documents.

        The shares are integrated gradients of 1,000 random pairs of validation documents, see
        `sortnet.explanation.attribution.feature_shares`; the indicators of a categorical column are
        added up. `sortnet.explanation.columns.permutation_importance` answers another question:
        how much a measure falls without a feature.

        Raises:
            AttributeError: if the ranker has no gradients, or was loaded from a folder without
                importances.

        Cost: computed at the first use, from about 2,000 documents that `fit` keeps.
        """
        check_is_fitted(self)
        if self._shares is None:
            if self._sample is None:
                raise AttributeError("the folder holds no feature_importances_")
            try:
                shares = feature_shares(self.model_, self._sample)
            except (SortNetError, RuntimeError) as error:
                raise AttributeError(f"no feature_importances_: {error}") from None
            if self.features_ is not None:
                shares = self.features_.shares_of_columns(shares)
            self._shares = shares
        return self._shares

    def predict(
        self,
        X: Any,
        qid: ArrayLike | None = None,
        *,
        kind: Literal["place", "score"] = "place",
    ) -> F32:
        """Predict a number for each row (n_docs,); within a query, higher is better.

        Args:
            X: (n_docs, n_columns) the rows of the documents.
            qid: (n_docs,) the query of each row.
            kind: `place` or `score`, which differ only for SortNet. `place` is the number of
                documents that the comparator puts below the document in its query; it cannot be
                compared across queries. `score` depends on the comparator. Soft trees and
                DirectRanker have a score g(x) of each document, summed over a committee of nets,
                which can be compared across queries if the scaling does not depend on the query.
                CmpNN has the mean margin over the rest of the query, which takes n^2 comparisons
                for n documents.

        Raises:
            DataError: on rows that cannot be used, or without queries if `fit` had queries.
        """
        if kind not in ("place", "score"):
            raise DataError(f"kind must be 'place' or 'score', got {str(kind)[:60]!r}")
        queries = self._queries(X, qid=qid)
        if queries.n_docs == 1:
            self._warn_without_query("one row", "give all rows of the query")
        with limit_threads(self.n_jobs):
            if kind == "place":
                scores = self.model_.scores(queries)
            else:
                scores = self.model_.real_scores(queries)
            scores_of_rows: F32 = queries.in_row_order(scores)
        return scores_of_rows

    def rank(self, X: Any, qid: ArrayLike | None = None) -> I64:
        """Rank the rows of each query from 1 for the best row, (n_docs,).

        Args:
            X: (n_docs, n_columns) the rows of the documents.
            qid: (n_docs,) the query of each row.
        """
        queries = self._queries(X, qid=qid)
        with limit_threads(self.n_jobs):
            order = self.model_.order(queries)
        ranks_of_rows: I64 = queries.in_row_order(queries.ranks(order))
        return ranks_of_rows

    def compare(
        self, a: Any, b: Any, *, context: Any = None, qid: ArrayLike | None = None
    ) -> F32 | float:
        """Compute the margins of documents a over documents b: above 0, a goes first.

        Args:
            a, b: (m, n_features) rows, compared one by one; or a single row each, whose margin is
                a single number. With `context`, a and b are numbers of rows of the context.
            context: (n_docs, n_features) all rows of the queries that the documents belong to. If
                `model_.depends_on_query`, as with the scaling `query`, a margin depends on these
                rows. Without a context each pair is a query of two documents.
            qid: (n_docs,) the query of each row of `context`.

        Raises:
            DataError: if a and b differ in length, or if a pair belongs to two queries.
        """
        if context is None:
            is_single = np.ndim(a) == 1
            if is_single:
                a = [a]
                b = [b]
            queries = self._queries_of_pairs(a, b)
            rows_of_a, rows_of_b = np.arange(queries.n_docs).reshape(2, -1)
            self._warn_without_query(
                "two rows without their query", "give context, the rows of the query"
            )
        else:
            is_single = np.ndim(a) == 0
            queries = self._queries(context, qid=qid)
            rows_of_a, rows_of_b = np.atleast_1d(a), np.atleast_1d(b)
        i, j = arrays.documents_in_rows(queries, rows_of_a, rows_of_b)
        with limit_threads(self.n_jobs):
            margins = self.model_.margins(queries, i, j)
        return float(margins[0]) if is_single else margins

    def score(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        qid: ArrayLike | None = None,
    ) -> float:
        """Compute RankQuality, the weighted mean of the measure `quality_` over the queries.

        Args:
            X: (n_docs, n_columns) the rows of the documents.
            y: (n_docs,) grades; None: the column `grade` of X.
            sample_weight: (n_queries,) weights of the queries, in the order of their first rows; or
                (n_docs,) weights of the rows, whose mean is the weight of the query.
            qid: (n_docs,) the query of each row.
        """
        queries = self._queries(X, y, qid, weights=sample_weight, labelled=True)
        weights = arrays.weights_of_queries(queries, sample_weight)
        with limit_threads(self.n_jobs):
            order = self.model_.order(queries)
        return self.model_.config.quality_of(queries, order, weights)

    def score_pairs(
        self,
        X: Any,
        pairs: ArrayLike,
        *,
        qid: ArrayLike | None = None,
        weight: ArrayLike | None = None,
        soft: ArrayLike | None = None,
    ) -> float:
        """Compute the share of judged pairs that the ranker predicts.

        The arguments are explained at `fit_pairs`.
        """
        queries = self._judged(X, pairs, qid, weight=weight, soft=soft)
        with limit_threads(self.n_jobs):
            order = self.model_.order(queries)
        return evaluate(queries, order, "accuracy")["accuracy"]

    def save(self, folder: str | Path) -> None:
        """Write the fitted estimator to a model folder, which every command of `sortnet` reads.

        Raises:
            SortNetError: if the folder cannot be written.
        """
        check_is_fitted(self)
        info: dict[str, Any] = {
            "validation_fraction": self.validation_fraction,
            "single_query": self.single_query,
            "one_query": self.one_query_,
            "feature_importances": getattr(self, "feature_importances_", None),
            "history": [asdict(record) for record in self.history_],
        }
        features = self.features_
        if features is None:
            info |= {"columns": (), "n_columns": self.n_features_in_}
        elif not features.is_of_table:
            info |= {"columns": features.columns, "n_columns": self.n_features_in_}
            info["categories"] = {
                features.columns.index(column): {"levels": levels}
                for column, levels in features.ordered.items()
            }
        model = replace(self.model_, info={**self.model_.info, "estimator": plain(info)})
        model.save(folder)

    @classmethod
    def load(cls, folder: str | Path, *, comparator: MakeOne | None = None) -> Self:
        """Read a model folder, written by `save` or by `sortnet train`, as a fitted estimator.

        Args:
            folder: the model folder.
            comparator: the value of the parameter `comparator`, if it was a function.

        Raises:
            ModelError: if the folder cannot be read, see `Model.load`.
        """
        model = load_ranker(folder, **parameters.custom(comparator))
        ranker = cls(**parameters.parameters_of(model.config))
        if comparator is not None:
            ranker.set_params(comparator=comparator)
        return ranker._restore(model, str(Path(folder) / "model.json"))

    def _restore(self, model: Ranker, source: str) -> Self:
        """Restore the fitted state from a model, and from what `save` has written beside it.

        A model that `sortnet train` saved has no "estimator" in its info: the model tells then.

        Args:
            model: the fitted ranker.
            source: name of the model in messages.

        Raises:
            ModelError: if the info is damaged.
        """
        info = model.info.get("estimator", {})
        try:
            # An estimator that was fitted on an array without names has no columns.
            self.features_ = None
            self.n_features_in_ = int(info.get("n_columns", model.n_features))
            if info.get("columns", model.feature_names):
                self.features_ = arrays.features_of_model(model, info)
                self.feature_names_in_ = np.array(self.features_.columns, dtype=object)
                self.n_features_in_ = len(self.features_.columns)
            self._restore_queries(model, info)
            shares = info.get("feature_importances")
            self._sample = None
            self._shares = None if shares is None else np.array(shares, np.float64)
            history = []
            for record in info.get("history", []):  # JSON has null in place of NaN
                values: dict[str, Any] = {
                    name: math.nan if value is None else value for name, value in record.items()
                }
                history.append(Iteration(**values))
            return self._set_fitted(model, history)
        except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
            raise ModelError(f"{source}: damaged info: {error!r}") from None

    def _restore_queries(self, model: Ranker, info: Mapping[str, Any]) -> None:
        """Restore how rows are divided into queries.

        A model of `sortnet train` that was trained on items, which a describer describes, has the
        queries in the items' column with the role `group`; without such a column all items are one
        query. Any other table has queries.
        """
        describer = model.describer
        group_column = None if describer is None else describer.columns.get("group")
        is_one_query = describer is not None and group_column is None
        self.one_query_ = info.get("one_query", is_one_query)
        query_column = model.columns.query
        if group_column != QUERY:  # a column `qid` is found without the parameter
            query_column = query_column or group_column
        self.set_params(
            validation_fraction=info.get("validation_fraction", 0.2),
            single_query=info.get("single_query", False),
            query=query_column or None,
            grade=model.columns.grade,
            id=model.columns.id,
        )

    def _queries(
        self,
        X: Any,
        y: ArrayLike | None = None,
        qid: ArrayLike | None = None,
        group: ArrayLike | None = None,
        *,
        weights: ArrayLike | None = None,
        reset: bool = False,
        source: str = "X",
        labelled: bool = False,
        initial: SortNetRanker | None = None,
        deviations: F64 | None = None,
    ) -> Queries:
        """Check the data as scikit-learn does, and make queries of the rows.

        With `reset`, the attributes `one_query_` and `features_` are set.

        Args:
            X, y, qid, group: arguments of `fit`, or of a prediction.
            weights: weights of rows or queries.
            reset: whether the estimator is fitted on the data.
            source: name of the data in messages.
            labelled: whether the rows have grades, as `y` or in a column of X.
            initial: the estimator to begin with, whose features and columns are used.
            deviations: (n_docs,) how much better each row is than its query, by which words of
                texts are chosen; None: by the grades, if there are any.
        """
        if not reset:
            check_is_fitted(self)
        # The columns of query, grade and id are taken out of a frame.
        refuse_masked(**{f"{source}: y": y, f"{source}: qid": qid, f"{source}: group": group})
        columns = NamedColumns(self.query, self.grade, self.id)
        model = getattr(initial or self, "model_", None)
        if model is not None:
            columns = columns.over(model.columns)
        table, qid, grades = arrays.take_columns(arrays.as_table(X), qid, columns, source)
        if labelled and y is None:
            y = grades
            if y is None:
                raise DataError(f"{source}: {arrays.no_grades(arrays.as_table(X), self.grade)}")

        # The remaining columns become features.
        has_no_queries = qid is None and group is None
        if reset:
            self.one_query_ = has_no_queries
            self.features_ = None if initial is None else initial.features_
        is_new = reset and initial is None
        is_frame = hasattr(table, "columns")
        if is_new and is_frame and deviations is None:
            deviations = arrays.deviations_of(y, qid, group, len(table))
        matrix, grades = self._checked_values(table, y, is_new, source, deviations)
        features = self.features_
        feature_names = None if features is None else features.names

        if has_no_queries and len(matrix) > 1:
            self._refuse_without_queries(len(matrix), reset, source)
        if reset:
            arrays.refuse_qid_as_feature(matrix, qid, feature_names, source)
        queries = Queries.from_arrays(
            matrix,
            grades,
            qid=qid,
            group=group,
            feature_names=feature_names,
            source=source,
            weights=weights,
            dates=() if features is None else features.roles.dates,
            origins=None if reset or model is None else model.origins,
        )
        if not is_frame:
            return queries
        describer = None if features is None else features.describer
        return replace(queries, columns=columns, describer=describer)

    def _checked_values(
        self, X: Any, y: ArrayLike | None, reset: bool, source: str, deviations: F64 | None
    ) -> tuple[Any, Any]:
        """Check X and y as scikit-learn does; return X as an array of features, and y.

        Args:
            X: the array, or the frame without the columns of query, grade and id.
            y: (n_docs,) the grades, or None.
            reset: whether the features are chosen by X.
            source: name of the data in messages.
            deviations: as in `_queries`.

        Raises:
            DataError: also in place of the errors of scikit-learn.
        """
        if not reset and y is None and self._is_as_fitted(X):
            return X, None
        is_frame = hasattr(X, "columns")
        features = self.features_
        if not is_frame and features is not None and features.names != features.columns:
            raise DataError(
                f"{source} must be a DataFrame: the ranker was fitted with columns of "
                "categories, texts or ids"
            )
        rules: dict[str, Any] = {
            "dtype": (np.float64, np.float32),
            "ensure_all_finite": "allow-nan",
            "ensure_min_samples": 2 if reset else 0,  # ranking no documents is no fault
        }
        try:
            if is_frame:
                X = self._features_of_frame(X, reset, source, deviations)
            if y is None:
                X = check_array(X, **rules)
            else:
                X, y = check_X_y(X, y, y_numeric=True, **rules)
            if not is_frame:
                validate_data(self, X, reset=reset, skip_check_array=True)
        except DataError:  # a DataError is a ValueError, too, but names the data already
            raise
        except ValueError as error:
            message = str(error)
            if "string to float" in message:
                arrays.refuse_words(X, source)
            raise DataError(message if source == "X" else f"{source}: {message}") from None
        return X, y

    def _features_of_frame(self, X: Any, reset: bool, source: str, deviations: F64 | None) -> Any:
        """Compute the features (n, n_features) of a frame.

        A warning names columns from which no feature is made.

        Args:
            X: the frame, without the columns of query, grade and id.
            reset: whether the features are chosen by the frame.
            source: name of the frame in messages.
            deviations: as in `_queries`.
        """
        features = self.features_
        if features is None or not features.is_of_table:  # check the names of the columns
            validate_data(self, X, reset=reset, skip_check_array=True)
        if features is not None:
            return features.apply(X, source)
        if not reset:  # the estimator was fitted on an array, so every column is a feature
            return X
        if not len(X):
            raise DataError(f"{source}: there are no rows")
        query = None
        if not self.one_query_ and self.query != ALL_ROWS:
            query = self.query or QUERY
        self.features_, matrix = Features.fit_apply(
            X, source, id=self.id, query=query, deviations=deviations
        )
        if self.verbose > 0:
            print(f"{source}: {self.features_.sentence}", file=sys.stderr)
        unused = self.features_.roles.ignored
        if unused:
            warnings.warn(
                f"{source}: no features are made of {listed(map(shown, unused))}: columns that are "
                "called like an id or a grade, and texts besides the column of texts that do not "
                "repeat; leave them out, or give them other names",
                stacklevel=5,
            )
        return matrix

    def _is_as_fitted(self, X: Any) -> bool:
        """Check whether X is an array that scikit-learn's checks would return without a change.

        The checks are then left out, because they take longer than the ranking of a query.
        """
        return (
            self.features_ is None
            and type(X) is np.ndarray
            and X.dtype in (np.float64, np.float32)
            and X.shape[1:] == (self.n_features_in_,)
            and not np.isinf(X).any()
        )

    def _refuse_without_queries(self, n: int, reset: bool, source: str) -> None:
        """Refuse n rows without queries, unless they are meant as one query.

        `fit` only warns, because scikit-learn's tests for estimators fit without queries.

        Raises:
            DataError: if the estimator was fitted with queries, or has a column of queries that is
                not in the data.
        """
        was_fitted_on_one_query = not reset and self.one_query_
        if self.single_query or self.query == ALL_ROWS or was_fitted_on_one_query:
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
        raise DataError(
            f"{source} has no qid, but the ranker was fitted with queries: give qid (eval_qid), or "
            "a column 'qid' (in a search: the column, or metadata routing), or set "
            f"single_query=True if the {n} rows are one query"
        )

    def _warn_without_query(self, rows: str, advice: str) -> None:
        """Warn that rows are compared without the rest of the query that their margins depend on.

        Args:
            rows: the rows, in words.
            advice: what to do instead, in words.
        """
        if self.model_.depends_on_query:
            warnings.warn(
                f"{rows}: this ranker's margins depend on the other rows of the query; {advice}, "
                "or fit with a scaling that does not depend on it, such as normal",
                stacklevel=3,
            )

    def _queries_of_pairs(self, a: Any, b: Any) -> Queries:
        """Make a query of the two documents a[k] and b[k] for each k.

        The rows are all documents of a, then all documents of b.
        """
        a, b = arrays.as_table(a), arrays.as_table(b)
        if len(a) != len(b):
            raise DataError(f"{len(a)} documents cannot be compared with {len(b)} one by one")
        qid = np.tile(np.arange(len(a)), 2)
        if not hasattr(a, "columns"):
            return self._queries(np.concatenate((a, b)), qid=qid)
        import pandas as pd

        rows = pd.concat((a, b), ignore_index=True)
        return self._queries(rows.drop(columns=self.query or QUERY, errors="ignore"), qid=qid)

    def _tune_settings(self, train: Queries, vali: Queries, config: Settings) -> Settings:
        """Choose settings by RankQuality on the validation part, and list the trials in `tuned_`.

        The parameter `tune` is False (nothing is chosen), True, or the grid of values to try.
        """
        if self.tune is False:
            return config
        if callable(self.comparator):
            raise DataError("tune chooses among the comparators of SortNet, not your own")
        from sortnet.rankers.tuning import tune

        grid = None if self.tune is True else self.tune
        tuned = tune(train, vali, config, grid=grid)
        self.tuned_ = tuned.trials
        return tuned.config

    def _set_fitted(self, model: Ranker, history: list[Iteration]) -> Self:
        """Set the attributes of a fitted estimator that follow from the model and its history."""
        self.model_ = model
        self.history_ = history
        best_iteration = model.info.get("iteration")
        n_iterations = model.info.get("iterations")
        self.n_iter_ = None if n_iterations is None else int(n_iterations)
        self.best_iteration_ = None if best_iteration is None else int(best_iteration)
        self.best_score_ = float(model.info["quality"])
        self.quality_ = model.config.rank_quality.name
        return self

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn which input this estimator accepts."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.positive_only = True
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True  # a sparse matrix becomes an array
        return tags
