"""Made data of the studies: what the papers say of it, counted and measured."""

from __future__ import annotations

from math import erf, sqrt
from pathlib import Path

import numpy as np
import pytest
from letor_folds import write_folds

from sortnet.lab.splits import MadeClasses, OfficialFold, TrainingShare

MANY = MadeClasses(classes=4, features=60, n_train=20_000, n_test=400)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folds(tmp_path_factory.mktemp("made")) / "Fold1"


def test_features_are_gaussian_by_class_with_means_and_deviations_as_in_the_paper():
    train = MANY.load().train
    assert train.n_docs == 20_000 and set(train.sizes) == {100}
    classes = [train.features[train.grades == grade] for grade in range(4)]
    assert min(map(len, classes)) > 4500
    means = np.array([X.mean(0) for X in classes])
    spreads = np.array([X.std(0, ddof=1) for X in classes])
    # 240 draws from U(0, 100) and U(50, 100): standard errors 1.9 and 0.9.
    assert abs(means.mean() - 50) < 8 and abs(means.std() - 100 / sqrt(12)) < 5
    assert abs(spreads.mean() - 75) < 4 and abs(spreads.std() - 50 / sqrt(12)) < 3
    within = np.abs((classes[0] - means[0]) / spreads[0]) < 1
    assert abs(within.mean() - erf(1 / sqrt(2))) < 0.01


def test_parts_share_no_document_and_lists_have_50_to_150():
    fold = MANY.load()
    first = [set(part.features[:, 0].tolist()) for part in (fold.train, fold.vali, fold.test)]
    assert not first[0] & first[1] and not first[0] & first[2] and not first[1] & first[2]
    for part in (fold.vali, fold.test):
        assert len(part) == 50 and part.sizes.min() >= 50 and part.sizes.max() <= 150


@pytest.mark.parametrize(("noise", "mislabelled"), [(0.25, 0.05), (0.75, 0.5)])  # as in the paper
def test_noise_is_gaussian_rounded_and_cut_and_changes_nothing_else(noise, mislabelled):
    clean = MANY.load().train
    noisy = MadeClasses(**{**vars(MANY), "noise": noise}).load().train
    assert (noisy.features == clean.features).all()
    moved = noisy.grades != clean.grades
    inner = (clean.grades > 0) & (clean.grades < 3)
    assert moved[inner].mean() == pytest.approx(mislabelled, abs=0.03)
    assert moved[~inner].mean() == pytest.approx(mislabelled / 2, abs=0.02)
    assert noisy.grades.min() >= 0 and noisy.grades.max() == 3


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


def test_a_training_share_leaves_the_other_parts_as_they_are(folder):
    whole = OfficialFold(str(folder)).load()
    half = TrainingShare(str(folder), share=0.5).load()
    assert len(half.train) == len(whole.train) // 2
    assert (half.vali.features == whole.vali.features).all()
    fewer = TrainingShare(str(folder), label_ratio=0.5).load().train  # grades 0, 1, 2: from 1 on
    before, after = np.bincount(whole.train.grades), np.bincount(fewer.grades)
    assert after.tolist() == [before[0], round(before[1] / 2), round(before[2] / 2)]
