"""What describes items: fitted on some, applied to any, kept by a model folder."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from item_helpers import essays, items_of, photo, ranker_of

from sortnet.errors import ModelError
from sortnet.items import Describer, Items, describe
from sortnet.items.features import arrays_of, load_describer, to_json
from sortnet.items.texts import Words
from sortnet.rankers.load_ranker import load_ranker
from sortnet.rankers.model import Model


def fit(items, **options):
    return Describer.fit_apply(items, **options)[0]


def again(fitted: Describer) -> Describer:
    return load_describer(to_json(fitted), arrays_of(fitted))


def same(a: Items, b: Items) -> None:
    assert a.feature_names == b.feature_names
    np.testing.assert_array_equal(a.features, b.features)


WORDS = st.lists(
    st.sampled_from(["cat", "dog", "银行", "Zug", "the", "purr?", "3,5", "HOUSE"]), max_size=9
)
TEXTS = st.lists(st.none() | st.text(max_size=40) | WORDS.map(" ".join), min_size=2, max_size=7)


@settings(max_examples=40, deadline=None)
@given(texts=TEXTS)
def test_items_one_at_a_time_are_described_as_together_by_what_was_saved(texts):
    items = items_of(texts)
    fitted, made = Describer.fit_apply(items)
    same(made, describe(items))
    assert np.isfinite(made.features[[text is not None for text in texts]]).all()
    loaded = again(fitted)
    same(loaded.apply(items), made)
    for k, text in enumerate(texts):
        one = loaded.apply(items_of([text]))
        assert one.feature_names == made.feature_names
        np.testing.assert_array_equal(one.features[0], made.features[k])


def test_what_describes_items_is_saved_with_the_ranker_bit_for_bit(tmp_path):
    items = essays(40)
    model = ranker_of(items)
    model.save(tmp_path / "m")
    for loaded in (load_ranker(tmp_path / "m"), Model.load(tmp_path / "m")):
        assert to_json(loaded.describer) == to_json(model.describer)
        kept = arrays_of(loaded.describer)
        for name, array in arrays_of(model.describer).items():
            np.testing.assert_array_equal(kept[name], array)
        new = essays(7, seed=3)
        same(loaded.describer.apply(new), model.describer.apply(new))


def test_images_never_seen_get_the_columns_of_those_that_were(tmp_path):
    names = [photo(tmp_path, f"{k}.png", seed=k) for k in range(5)]
    fitted, made = Describer.fit_apply(items_of(images=names[:4], root=tmp_path))
    assert fitted.of_images and not fitted.of_texts and arrays_of(fitted) == {}
    new = again(fitted).apply(items_of(images=names, root=tmp_path))
    assert new.feature_names == made.feature_names
    np.testing.assert_array_equal(new.features[:4], made.features)
    assert np.isfinite(new.features[4]).all()


def test_embeddings_of_new_texts_are_on_the_axes_of_the_old_ones(language_model):
    texts = ["aa", None, "bbbbbb", "ab" * 5]
    fitted, made = Describer.fit_apply(items_of(texts), embed=True)
    assert "text: meaning 1" in made.feature_names
    assert language_model.calls == 1  # embeddings are costly
    loaded = again(fitted)
    same(loaded.apply(items_of(texts)), made)
    new = loaded.apply(items_of(["bbbbbb"]))
    np.testing.assert_allclose(new.features[0], made.features[2], rtol=1e-6)
    assert fit(made).feature_names == made.feature_names  # asked for by their names


N_WORDS = len(Words.fit(essays(20).texts).terms)
MANY_WORDS = np.frombuffer("\n".join(f"w{k}" for k in range(301)).encode(), "u1")
SPOILT = {
    "no list": ({"items": 3}, {}, "items cannot be 3"),
    "a role": ({"columns": {"x": "y"}}, {}, "columns cannot have 'x': 'y'"),
    "no column": ({"columns": {"id": 3}}, {}, "columns cannot have 'id': 3"),
    "no texts": ({"texts": 0}, {}, "0 texts, or counts.texts, do not fit"),
    "fewer texts": ({"texts": 3}, {}, "3 texts, or counts.texts, do not fit"),
    "no array": ({"texts": None}, {}, "'counts.texts' is none of their arrays"),
    "twice": ({"given": ["a", "a"]}, {}, "two features have one name"),
    "made": ({"given": ["text: glamour"]}, {}, "named as those that are made"),
    "unknown": ({"made": ["text: glamour"]}, {}, "nothing makes the feature 'text: glamour'"),
    "embedded": ({"embedded": True}, {}, "there is no array meanings.mean"),
    "a term twice": ({}, {"words.terms": np.frombuffer(b"a\na", "u1")}, "a term twice"),
    "no UTF-8": ({}, {"words.terms": np.array([255, 254], "u1")}, "words.terms is not UTF-8"),
    "idf": ({}, {"words.idf": np.zeros(2, "f4")}, "words.idf has values that are not"),
    "NaN": ({}, {"words.idf": np.full(N_WORDS, np.nan, "f4")}, "words.idf has values that are not"),
    "many": ({}, {"words.terms": MANY_WORDS}, "words.idf or the limit of 300 does not fit 301"),
    "0.4": (
        {},
        {"topics": np.zeros((2, 3))},
        "by topics, as versions up to 0.4 did: train it again",
    ),
}


@pytest.mark.parametrize("kind", SPOILT)
def test_what_is_damaged_is_refused_in_one_line(kind):
    fitted = fit(essays(20))
    about, arrays, said = SPOILT[kind]
    kept = arrays_of(fitted)
    for name, array in arrays.items():
        kept[name] = kept[name] * array if np.ndim(array) == 0 else array
    document = 3 if "items" in about else to_json(fitted) | about
    with pytest.raises(ModelError, match=said) as error:
        load_describer(document, kept)
    assert "\n" not in str(error.value)


def test_a_folder_whose_description_was_taken_away_is_refused(tmp_path):
    ranker_of(essays(20)).save(tmp_path / "m")
    path = tmp_path / "m" / "model.json"
    about = json.loads(path.read_text())
    path.write_text(json.dumps({k: v for k, v in about.items() if k != "items"}))
    with pytest.raises(ModelError, match=r"'items\.counts\.texts' is none of its own"):
        load_ranker(tmp_path / "m")
