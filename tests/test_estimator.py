"""SortNetRanker: scikit-learn's conventions, and what users of ranking libraries ask for."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn

import sortnet.estimator.ranker
from sortnet import DirectRanker, SortNetError, SortNetRanker
from sortnet.config import Config
from sortnet.core import Queries
from sortnet.errors import DataError, ModelError
from sortnet.estimator.evaluation import hold_out
from sortnet.rankers.sortnet import fit, with_share_of_epochs

SMALL = {"hidden": (6,), "committee": 1, "max_iter": 3, "epochs": 4, "scaling": "query"}
SMALL |= {"batch_size": 64, "weight_decay": 0.01}


def small(**params) -> SortNetRanker:
    return SortNetRanker(**(SMALL | params))


def made(n_queries: int = 12, *, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of all queries mixed up; the grade grows with the first feature."""
    generator = np.random.default_rng(seed)
    qid = generator.permutation(np.repeat(np.arange(n_queries) * 7 % 13, 9))
    X = generator.normal(size=(len(qid), 4)).astype(np.float32)
    y = np.digitize(X[:, 0] + 0.1 * generator.normal(size=len(qid)), [-0.5, 0.5])
    return X, y, qid


X, y, qid = made()  # no test changes them


def framed() -> tuple[pd.DataFrame, pd.Series]:
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    frame.insert(2, "qid", qid)
    index = np.arange(len(y)) + 100  # not the row numbers
    return frame.set_axis(index), pd.Series(y, index=index)


@pytest.fixture(scope="module")
def fitted() -> SortNetRanker:
    return small(max_iter=5).fit(X, y, qid=qid)


@pytest.fixture
def parts(monkeypatch):
    """The training and validation queries that `fit` hands to `fit_ranker`, and the settings."""
    seen = []
    fit = sortnet.estimator.ranker.fit_ranker

    def spy(train, vali, config, **rest):
        seen[:] = [train, vali, config]
        return fit(train, vali, config, **rest)

    monkeypatch.setattr(sortnet.estimator.ranker, "fit_ranker", spy)
    return seen


UNSUPPORTED = {
    "check_methods_subset_invariance": "a score is a place among the documents of a query",
    "check_sample_weight_equivalence_on_dense_data": "a query is sorted with every document once",
    "check_sample_weight_equivalence_on_sparse_data": "a query is sorted with every document once",
}


@pytest.mark.filterwarnings("ignore:.* can choose by")  # most checks give no queries
@pytest.mark.filterwarnings("ignore:X has no qid")  # the checks know of no queries
@parametrize_with_checks(
    [small(max_iter=2, epochs=2)],
    expected_failed_checks=lambda estimator: UNSUPPORTED,
)
def test_it_keeps_the_conventions_of_scikit_learn(estimator, check):
    if check.func.__name__ == "check_array_api_input":
        pytest.skip("arrays of other libraries are not promised")
    check(estimator)


@pytest.mark.parametrize("scaling", ["query", "none"])
def test_a_score_is_the_number_of_documents_of_the_query_that_it_beats(scaling):
    ranker = small(comparator="directranker", scaling=scaling).fit(X, y, qid=qid)
    rows = range(len(X))
    pairs = np.array([(i, j) for i in rows for j in rows if i != j and qid[i] == qid[j]])
    wins = ranker.compare(pairs[:, 0], pairs[:, 1], context=X, qid=qid) > 0
    beaten = np.bincount(pairs[:, 0], wins, minlength=len(X))
    np.testing.assert_array_equal(ranker.predict(X, qid=qid), beaten)


def test_the_order_of_rows_and_queries_changes_no_score(fitted):
    X, _, qid = made(seed=2)
    shuffled = np.random.default_rng(0).permutation(len(X))
    scores = fitted.predict(X, qid)
    np.testing.assert_array_equal(fitted.predict(X[shuffled], qid[shuffled]), scores[shuffled])


def test_a_column_qid_names_the_queries_and_is_no_feature(fitted):
    frame, y = framed()
    ranker = small(max_iter=5).fit(frame, y)
    assert ranker.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    assert ranker.n_features_in_ == 4
    assert ranker.model_.feature_names == ("a", "b", "c", "d")
    np.testing.assert_array_equal(ranker.predict(frame), fitted.predict(X, qid))


def test_a_share_of_the_queries_is_held_out_whole(parts):
    small(validation_fraction=0.25, start="fresh").fit(X, y, qid=qid)
    train, vali, _ = parts
    assert (len(train), len(vali)) == (9, 3)
    assert sorted([*train.qids, *vali.qids]) == sorted(map(str, set(qid)))
    assert sorted([*train.rows, *vali.rows]) == list(range(len(X)))


def test_without_a_validation_part_all_queries_are_learned_from_and_the_last_iteration_is_kept():
    states = []
    ranker = small(max_iter=4, random_state=1)
    ranker.fit(X, y, qid=qid, callbacks=[lambda record, state: states.append(state)])
    last = states[-1]
    assert (ranker.best_iteration_, ranker.n_iter_) == (4, 5)
    for name, weights in ranker.model_.comparator.members[0].arrays().items():
        np.testing.assert_array_equal(weights, last.comparator.members[0].arrays()[name])
    queries = Queries.from_arrays(X, y, qid=qid)
    whole = fit(queries, queries, ranker.model_.config, keep_last=True)
    np.testing.assert_array_equal(whole.scores(queries), ranker.model_.scores(queries))
    # RankQuality is that of a shorter fit without the held-out queries, and no training figure.
    rest, vali = hold_out(queries, 0.2, 1, ranker.model_.config.rank_quality)
    shorter = with_share_of_epochs(small(max_iter=4, random_state=1)._settings(None), rest, 1 / 3)
    expected = fit(rest, vali, shorter.changed(quality="ndcg@10")).info["quality"]
    assert ranker.best_score_ == expected


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"eval_set": [(0, 0)], "eval_qid": [1, 2, 3]}, "eval_qid is a list of 3"),
        ({"eval_set": np.eye(2)}, r"eval_set must be \(X, y\)"),
        ({"eval_set": ([[1.0]], [0, 1])}, "eval_set: .*inconsistent numbers of samples"),
        ({"sample_weight": [1, 2]}, r"one a row \(108\) or one a query \(12\), got shape \(2,\)"),
        ({"group": [1, 2]}, "group must be sizes of queries that add up to 108"),
        ({"qid": [1, 2]}, r"108 rows of features but qid has shape \(2,\)"),
    ],
)
def test_arguments_that_fit_cannot_use_are_refused(given, fault):
    with pytest.raises(DataError, match=fault):
        small().fit(X, y, **({} if "group" in given else {"qid": qid}) | given)


@pytest.mark.parametrize(
    "bad",
    [
        *[{"comparator": "svm"}, {"quality": "auc"}, {"epochs": 0}, {"lr": -1.0}, {"hidden": (0,)}],
        *[{"random_state": -1}, {"random_state": "seven"}, {"random_state": [7]}],
        *[{"hidden": 2.5}, {"hidden": True}, {"dropout": "0.1"}, {"quality": 5}, {"tune": 5}],
        *[{"validation_fraction": 0}, {"validation_fraction": 1}, {"settings": 3}],
        *[{"validation_fraction": float("nan")}, {"settings": {"seed": 1}}, {"settings": {"C": 1}}],
    ],
)
def test_parameters_are_checked_not_ignored(bad):
    ((name, value),) = bad.items()
    synonyms = {"random_state": "seed|random_state", "quality": "quality|metric"}
    name = synonyms.get(name, name.removesuffix("s"))
    shown = next(iter(value)) if isinstance(value, dict) else str(value).strip("()")
    with pytest.raises(SortNetError, match=rf"({name}).*{re.escape(shown)}"):
        small(**bad).fit(X, y, qid=qid)


def test_what_is_masked_is_missing():
    missing = np.where(X > 1, np.nan, X)
    expected = small().fit(missing, y, qid=qid).predict(missing, qid)
    masked = np.ma.array(X, mask=X > 1)
    found = small().fit(masked, y, qid=qid).predict(masked, qid)
    np.testing.assert_array_equal(found, expected)
    assert (expected != small().fit(X, y, qid=qid).predict(X, qid)).any()


def test_sparse_columns_are_taken_as_dense_ones():
    dense = pd.DataFrame(np.where(X > 0, X, 0), columns=[*"abcd"]).assign(
        qid=qid, colour=np.where(y, "red", "blue")
    )
    numbers, texts = pd.SparseDtype(float, 0.0), pd.SparseDtype(object)
    some = dense.astype({"colour": texts, "a": numbers})
    everything = dense.astype(dict.fromkeys(dense.columns, numbers) | {"colour": texts})
    expected = small(max_iter=1).fit(dense, y).predict(dense)
    for sparse in (some, everything):
        np.testing.assert_array_equal(small(max_iter=1).fit(sparse, y).predict(sparse), expected)


def test_one_document_and_no_document_are_ranked(fitted):
    with pytest.warns(UserWarning, match="one row: .* give all rows of the query"):
        assert fitted.predict([[1.0, 2, 3, 4]]).tolist() == [0]
    assert fitted.rank([[1.0, 2, 3, 4]]).tolist() == [1]
    nothing = np.empty((0, 4))
    assert fitted.predict(nothing).shape == fitted.rank(nothing, []).shape == (0,)
    assert fitted.predict(np.ones((3, 4)), ["a", "b", "c"]).tolist() == [0, 0, 0]


ALONE = "ignore:two rows without their query"


@pytest.mark.filterwarnings(ALONE)
def test_compared_without_a_context_two_documents_are_a_query_of_their_own(fitted):
    margins = fitted.compare(X[:5], X[5:10])
    for k in range(5):
        alone = fitted.compare(0, 1, context=X[[k, k + 5]], qid=[0, 0])
        assert margins[k] == pytest.approx(alone, abs=1e-6)
        assert fitted.compare(X[k], X[k + 5]) == pytest.approx(alone, abs=1e-6)
    np.testing.assert_allclose(fitted.compare(X[5:10], X[:5]), -margins, atol=1e-6)


def test_rows_that_depend_on_their_query_are_compared_alone_with_a_warning(fitted):
    with pytest.warns(UserWarning, match="without their query: .* give context") as caught:
        fitted.compare(X[0], X[1])
    assert caught[0].filename == __file__
    fitted.compare(0, 1, context=X, qid=np.zeros(len(X)))
    own = small(scaling="normal", max_iter=1).fit(X, y, qid=qid)  # warnings are errors here
    own.compare(X[0], X[1])
    own.predict(X[:1])


@pytest.mark.parametrize(
    ("a", "b", "context", "fault"),
    [
        (np.ones((2, 4)), np.ones((3, 4)), None, "2 documents cannot be compared with 3"),
        ([0, 1], [1], np.ones((2, 4)), "numbers of its rows, compared one by one"),
        ([0.5], [1.0], np.ones((2, 4)), "a and b are numbers of its rows"),
        ([0], [2], np.ones((2, 4)), "row 2: the context has rows 0 to 1"),
        (0, 2, np.ones((3, 4)), "rows 0 and 2 are of the queries 0 and 1"),
    ],
)
def test_what_cannot_be_compared_is_refused(fitted, a, b, context, fault):
    qid = None if context is None else [0, 0, 1][: len(context)]
    with pytest.raises(DataError, match=fault):
        fitted.compare(a, b, context=context, qid=qid)


@pytest.mark.filterwarnings(ALONE)
def test_the_random_state_decides_all_that_is_random():

    def margins(random_state):
        ranker = small(max_iter=1, random_state=random_state).fit(X, y, qid=qid)
        return ranker.compare(X[:5], X[5:10]).tolist()

    assert margins(1) == margins(1) != margins(2)
    assert margins(np.random.RandomState(1)) == margins(np.random.RandomState(1))
    assert margins(np.random.default_rng(1)) == margins(np.random.default_rng(1))
    assert margins(None) != margins(None)


def test_tuning_takes_the_settings_that_are_best_on_the_validation_part():
    grid = {"hidden": [(1,), (6,)], "weight_decay": [0.001, 10.0]}
    Xv, yv, qv = made(seed=1)
    ranker = small(tune=grid).fit(X, y, qid=qid, eval_set=(Xv, yv), eval_qid=qv)
    assert len(ranker.tuned_) == 4
    best = max(ranker.tuned_, key=lambda trial: trial["quality"])
    assert [*ranker.model_.config.hidden] == best["hidden"]
    assert ranker.best_score_ == pytest.approx(best["quality"])
    assert ranker.score(Xv, yv, qid=qv) == pytest.approx(best["quality"])
    assert ranker.get_params()["hidden"] == (6,)


@pytest.mark.parametrize(
    "call",
    [
        lambda r: r.predict([[1.0]]),
        lambda r: r.compare([1.0], [2.0]),
        lambda r: r.save("nowhere"),
    ],
)
def test_an_estimator_that_was_not_fitted_says_so(call):
    with pytest.raises(NotFittedError):
        call(SortNetRanker())


def test_cross_validation_scores_each_fold_by_its_own_queries():
    frame, y = framed()
    folds = GroupKFold(2)
    scores = cross_val_score(small(), frame, y, groups=frame["qid"], cv=folds)
    expected = []
    for train, test in folds.split(frame, y, frame["qid"]):
        ranker = small().fit(frame.iloc[train], y.iloc[train])
        expected.append(ranker.score(frame.iloc[test], y.iloc[test]))
    np.testing.assert_allclose(scores, expected)


def test_settings_of_another_ranker_are_searched_saved_and_kept_by_a_clone(tmp_path):
    frame, y = framed()
    grid = {"settings__C": [0.02, 1.0]}
    ranker = SortNetRanker(ranker="ranksvm", settings={"C": 0.5})
    search = GridSearchCV(ranker, grid, cv=GroupKFold(2), error_score="raise")
    search.fit(frame, y, groups=frame["qid"])
    best = search.best_estimator_
    assert best.settings == {"C": search.best_params_["settings__C"]}
    assert best.model_.config.C == best.settings["C"] != 0.5
    assert ranker.get_params()["settings__C"] == 0.5
    best.save(tmp_path)
    again = clone(SortNetRanker.load(tmp_path))
    assert again.settings == best.settings
    np.testing.assert_array_equal(again.fit(frame, y).predict(frame), best.predict(frame))
    with pytest.raises(TypeError, match=r"no parameter 'C'; .* settings=\{'C': "):
        SortNetRanker(ranker="ranksvm", C=1.0)


def test_query_ids_can_be_routed_through_a_grid_search():
    with config_context(enable_metadata_routing=True):
        ranker = small().set_fit_request(qid=True).set_score_request(qid=True)
        search = GridSearchCV(ranker, {"lr": [0.003, 0.01]}, cv=GroupKFold(2), error_score="raise")
        search.fit(X, y, qid=qid, groups=qid)
    frame, labels = framed()
    plain = GridSearchCV(small(), {"lr": [0.003, 0.01]}, cv=GroupKFold(2))
    plain.fit(frame, labels, groups=frame["qid"])
    np.testing.assert_allclose(
        search.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"]
    )


@pytest.mark.parametrize(
    "ask",
    [
        lambda ranker, X, y: ranker.predict(X),
        lambda ranker, X, y: ranker.compare(0, 1, context=X),
        lambda ranker, X, y: clone(ranker).fit(X, y, group=[60, 48], eval_set=[(X, y)]),
    ],
)
def test_rows_that_lost_their_queries_are_refused_where_fit_had_some(fitted, ask):
    with pytest.raises(DataError, match="has no qid, but the ranker was fitted with queries"):
        ask(fitted, X, y)
    ask(clone(fitted).set_params(single_query=True).fit(X, y, qid=qid), X, y)


@pytest.mark.filterwarnings("ignore:.* can choose by")  # one query alone
def test_a_feature_that_is_the_qid_is_named():
    with pytest.raises(DataError, match="feature 5 is the qid in every row"):
        small().fit(np.column_stack([X, qid]), y, qid=qid)
    with pytest.raises(DataError, match="the column 'topic' is the qid in every row"):
        frame, labels = framed()
        small().fit(frame.assign(topic=frame["qid"]), labels)
    columns = make_column_transformer(
        (StandardScaler(), ["a", "b", "c", "d"]), remainder="passthrough"
    )
    pipeline = make_pipeline(columns, small())
    with pytest.raises(DataError, match="'remainder__qid' is no feature: call it 'qid'"):
        pipeline.set_output(transform="pandas").fit(frame, labels)
    with pytest.raises(DataError, match="feature 5 is the qid in every row"):
        pipeline.set_output(transform="default").fit(frame, labels, sortnetranker__qid=frame["qid"])
    with pytest.warns(UserWarning, match="X has no qid"):
        pipeline.fit(frame, labels)
    # Where there is one query, any constant would be.
    small(max_iter=1).fit(np.column_stack([X, np.ones(len(X))]), y, qid=np.ones(len(X)))


@pytest.mark.parametrize(
    "missing",
    [
        lambda qid: qid.where(qid != 7).astype(float),
        lambda qid: qid.where(qid != 7).astype("Int64"),
        lambda qid: pd.to_datetime(qid).where(qid != 7),
    ],
)
def test_a_row_whose_query_is_missing_is_named(fitted, missing):
    row = int(np.argmax(qid == 7))
    with pytest.raises(DataError, match=f"X, row {row}: there is no qid"):
        fitted.predict(X, qid=missing(pd.Series(qid)))


def test_a_feature_of_an_array_that_is_no_number_is_named(fitted):
    named = X.astype(object)
    named[2, 1] = "tall"
    with pytest.raises(DataError, match=r"X, row 2: column 'feature 2': 'tall' is not a number"):
        fitted.predict(named, qid)


def test_columns_that_fit_did_not_have_are_named():
    frame, y = framed()
    ranker = small().fit(frame, y)
    for method in (ranker.predict, ranker.rank):
        with pytest.raises(DataError, match=r"unseen at fit time:\s+- note"):
            method(frame.assign(note="text"))
    with pytest.raises(DataError, match=r"eval_set: [^$]*unseen at fit time:\s+- label"):
        small().fit(frame, y, eval_set=(frame.assign(label=1), y))


def with_own_features(n_features: int, seed: int) -> DirectRanker:
    part = nn.Sequential(nn.Linear(n_features, 5), nn.SiLU(), nn.Linear(5, 3))
    generator = np.random.default_rng(seed)
    for weights in part.parameters():
        drawn = generator.normal(scale=0.3, size=tuple(weights.shape)).astype(np.float32)
        weights.data = nn.Parameter(weights.data.new_tensor(drawn)).data
    return DirectRanker(n_features, feature_part=part, seed=seed)


@pytest.mark.parametrize("committee", [1, 3])
def test_a_comparator_of_ones_own_is_trained_saved_and_loaded(tmp_path, committee):
    ranker = small(comparator=with_own_features, committee=committee, epochs=15, lr=0.02)
    ranker.set_params(scaling="query+rank", weight_decay=None).fit(X, y, qid=qid)
    assert ranker.model_.scaler.n_columns > ranker.n_features_in_ == 4
    assert ranker.score(X, y, qid=qid) > 0.9
    ranker.save(tmp_path)
    loaded = SortNetRanker.load(tmp_path, comparator=with_own_features)
    np.testing.assert_array_equal(loaded.predict(X, qid), ranker.predict(X, qid))
    with pytest.raises(ModelError):
        SortNetRanker.load(tmp_path)


@pytest.mark.parametrize("params", [{}, {"comparator": "directranker", "committee": 2}])
def test_a_saved_estimator_comes_back_as_it_was(tmp_path, params):
    frame, y = framed()
    ranker = small(validation_fraction=0.3, **params).fit(frame, y)
    ranker.save(tmp_path)
    loaded = SortNetRanker.load(tmp_path)
    np.testing.assert_array_equal(loaded.predict(frame), ranker.predict(frame))
    again = clone(loaded).fit(frame, y)
    np.testing.assert_array_equal(again.predict(frame), ranker.predict(frame))
    assert loaded.feature_names_in_.tolist() == ranker.feature_names_in_.tolist()
    assert loaded.best_score_ == ranker.best_score_
    assert repr(loaded.history_) == repr(ranker.history_)  # as text, NaN equals NaN


def test_a_comparator_of_ones_own_cannot_be_tuned():
    with pytest.raises(DataError, match="not your own"):
        small(comparator=with_own_features, tune=True).fit(X, y, qid=qid)


def test_groups_of_a_frame_are_sizes_of_consecutive_queries():
    order = np.argsort(qid, kind="stable")
    frame = pd.DataFrame(X[order])
    by_group = small().fit(frame, y[order], group=np.unique(qid, return_counts=True)[1])
    by_qid = small().fit(X[order], y[order], qid=qid[order])
    np.testing.assert_array_equal(
        by_group.predict(frame, qid[order]), by_qid.predict(X, qid)[order]
    )
    with pytest.raises(DataError, match="kind must be 'place' or 'score', got 'proba'"):
        by_qid.predict(X, qid, kind="proba")


def test_a_query_stays_to_be_learned_from_however_many_are_held_out():
    queries = Queries.from_arrays(X, y, qid=qid)
    train, vali = hold_out(queries, 0.99, 0, Config(quality="ndcg@10").rank_quality)
    assert (len(train), len(vali)) == (1, 11)
