"""Made data of the studies: what the papers say of it, counted and measured."""

from __future__ import annotations

from math import erf, sqrt
from pathlib import Path

import numpy as np
import pytest
from letor_folds import write_folds

from sortnet.core import Queries
from sortnet.lab.cells import Cell, keys_of
from sortnet.lab.entries import entry_of
from sortnet.lab.splits import OfficialFold
from sortnet.lab.synthetic import MadeClasses, TrainingShare

MANY = MadeClasses(classes=4, features=60, n_train=20_000, n_test=400)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folds(tmp_path_factory.mktemp("made")) / "Fold1"


def test_features_are_gaussian_by_class_with_means_and_deviations_as_in_the_paper():
    train = MANY.load().train
    classes = [train.features[train.grades == grade] for grade in range(4)]
    means = np.array([X.mean(0) for X in classes])
    spreads = np.array([X.std(0, ddof=1) for X in classes])
    # 5,000 documents of a class: standard errors are at most 100 / sqrt(5000) = 1.4.
    assert (means > -6).all() and (means < 106).all()
    assert (spreads > 47).all() and (spreads < 104).all()
    # 240 draws from U(0, 100) and U(50, 100): standard errors 1.9 and 0.9.
    assert abs(means.mean() - 50) < 8 and abs(means.std() - 100 / sqrt(12)) < 5
    assert abs(spreads.mean() - 75) < 4 and abs(spreads.std() - 50 / sqrt(12)) < 3
    shape = (classes[0] - means[0]) / spreads[0]
    within = np.abs(shape) < 1
    assert abs(within.mean() - erf(1 / sqrt(2))) < 0.01


def test_classes_are_drawn_alike_and_training_queries_have_100_documents():
    train = MANY.load().train
    assert train.n_docs == 20_000 and set(train.sizes) == {100}
    share = np.bincount(train.grades, minlength=4) / 20_000
    assert share == pytest.approx([0.25] * 4, abs=0.02)


def test_lists_are_subsets_of_50_to_150_documents():
    fold = MANY.load()
    for part in (fold.vali, fold.test):
        assert len(part) == 50
        assert part.sizes.min() >= 50 and part.sizes.max() <= 150 and len(set(part.sizes)) > 20
        for k in range(50):
            of_list = part.features[part.offsets[k] : part.offsets[k + 1]]
            assert len(np.unique(of_list, axis=0)) == len(of_list)
        assert len(np.unique(part.features, axis=0)) <= 400


def test_parts_share_no_document():
    fold = MANY.load()
    first = [set(part.features[:, 0].tolist()) for part in (fold.train, fold.vali, fold.test)]
    assert not first[0] & first[1] and not first[0] & first[2] and not first[1] & first[2]


def test_noise_is_gaussian_rounded_and_cut_and_changes_nothing_else():
    clean = MANY.load().train
    for noise in (0.25, 0.75):
        noisy = MadeClasses(**{**vars(MANY), "noise": noise}).load().train
        assert (noisy.features == clean.features).all()
        moved = noisy.grades != clean.grades
        beyond = 1 - erf(0.5 / noise / sqrt(2))  # abs(noise) > 1/2
        inner = (clean.grades > 0) & (clean.grades < 3)
        assert moved[inner].mean() == pytest.approx(beyond, abs=0.02)
        assert moved[~inner].mean() == pytest.approx(beyond / 2, abs=0.02)
        assert noisy.grades.min() >= 0 and noisy.grades.max() == 3
    # As the paper says: 5 % are mislabelled at 0.25, 50 % at 0.75.
    assert 1 - erf(0.5 / 0.25 / sqrt(2)) == pytest.approx(0.05, abs=0.005)
    assert 1 - erf(0.5 / 0.75 / sqrt(2)) == pytest.approx(0.5, abs=0.01)


def test_the_label_ratio_is_that_of_the_upper_half_of_training_and_validation():
    whole = MadeClasses(classes=6, features=2, n_train=6000, n_test=300)
    some = MadeClasses(classes=6, features=2, n_train=6000, n_test=300, label_ratio=0.1)
    before, after = (np.bincount(one.load().train.grades) for one in (whole, some))
    assert after[:3].tolist() == before[:3].tolist()
    assert after[3:].tolist() == [round(0.1 * n) for n in before[3:].tolist()]
    a, b = whole.load(), some.load()
    assert (a.test.features == b.test.features).all() and (a.test.grades == b.test.grades).all()
    assert (b.vali.grades >= 3).mean() < 0.2 < (a.vali.grades >= 3).mean()


def test_the_test_part_is_the_same_for_every_training_size_and_another_for_every_draw():
    few = MadeClasses(features=3, n_train=150, n_test=200)
    more = MadeClasses(features=3, n_train=900, n_test=200)
    other = MadeClasses(features=3, n_train=150, n_test=200, seed=1)
    assert (few.load().test.features == more.load().test.features).all()
    assert few.load().train.sizes.tolist() == [75, 75]
    assert few.load().test.n_docs != other.load().test.n_docs


def test_every_setting_of_made_data_is_in_the_name_and_in_the_key():
    changes = {"classes": 3, "features": 4, "noise": 0.5, "n_train": 7, "n_test": 8, "seed": 9,
               "label_ratio": 0.5, "lists": 3, "shortest": 2, "longest": 99}  # fmt: skip
    assert set(changes) == set(vars(MANY))
    splits = [MANY, *(MadeClasses(**{**vars(MANY), name: v}) for name, v in changes.items())]
    assert len({split.name for split in splits}) == len(splits)
    assert len(set(keys_of([Cell(entry_of("err"), split) for split in splits]))) == len(splits)


def test_a_training_share_leaves_the_other_parts_as_they_are(folder):
    whole = OfficialFold(str(folder)).load()
    half = TrainingShare(str(folder), share=0.5).load()
    assert len(half.train) == len(whole.train) // 2
    assert set(half.train.qids) < set(whole.train.qids)
    assert (half.vali.features == whole.vali.features).all()
    assert (half.test.features == whole.test.features).all()
    assert len(TrainingShare(str(folder), share=1e-6).load().train) == 1
    fewer = TrainingShare(str(folder), label_ratio=0.5).load().train  # grades 0, 1, 2: from 1 on
    before, after = np.bincount(whole.train.grades), np.bincount(fewer.grades)
    assert after.tolist() == [before[0], round(before[1] / 2), round(before[2] / 2)]


def test_documents_left_keep_their_queries():
    queries = Queries.from_arrays(
        [[1.0], [2.0], [3.0], [4.0]], [0, 1, 1, 0], qid=["a", "a", "b", "c"], docids=list("wxyz")
    )
    left = queries.only(np.array([False, True, False, True]))
    assert left.qids.tolist() == ["a", "c"] and left.offsets.tolist() == [0, 1, 2]
    assert left.features[:, 0].tolist() == [2.0, 4.0] and left.docids.tolist() == ["x", "z"]
    assert left.grades.tolist() == [1, 0] and left.rows.tolist() == [1, 3]
