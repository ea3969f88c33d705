"""The handwritten digits as queries."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

from sortnet.data.read import digits_fold


@pytest.fixture(scope="module")
def parts():
    fold = digits_fold(3)
    return [fold.train, fold.vali, fold.test]


def test_no_image_is_in_two_parts(parts):
    train, vali, test = (set(part.docids) for part in parts)
    assert not (train & vali or train & test or vali & test)
    # 1,078, 359 and 360 of 1,797; what fills no query in either division is in none.
    assert 29 * 36 < len(train) <= 1078
    assert 9 * 36 < len(vali) <= 359
    assert len(test) == 360


def test_a_document_is_the_image_its_id_names(parts):
    pixels, numbers = load_digits(return_X_y=True)
    for part in parts:
        images = part.docids.astype(int)
        np.testing.assert_array_equal(part.features * 16, pixels[images])
        np.testing.assert_array_equal(part.grades, numbers[images])


def test_a_query_has_36_different_images(parts):
    for part in parts:
        for images in np.split(part.docids, part.offsets[1:-1]):
            assert len(images) == len(set(images)) == 36


def test_the_seed_decides_the_division_and_nothing_else_does():
    first, again, other = (digits_fold(seed).train.docids for seed in (0, 0, 1))
    assert first.tolist() == again.tolist() != other.tolist()
