"""Depth of image regions -> Queries: super pixels of an image, ranked by how near they are.

The files are those of Ewerth et al. 2017, Estimating Relative Depth in Single Images via RankBoost,
made of Make3D (Saxena, Sun and Ng 2009) and taken up by Pfannschmidt, Gupta and Hüllermeier 2018,
section 5.3. The form is not described anywhere: it is what the program of the latter authors reads.
"""

from __future__ import annotations

import os
from array import array
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from sortnet.errors import DataError
from sortnet.files import open_bytes, reading, shown
from sortnet.types import F64, I32, I64, Queries
from sortnet.types.free import texts

_RANGE = 0.8  # of Make3D's sensor: the files are in hundreds of metres


def read_depth(path: str | os.PathLike[str], *, beyond: float = _RANGE) -> Queries:
    """Read lines `DEPTH qid:IMAGE 1:VALUE 2:VALUE ... # comment`, gzipped or not.

    A line is a super pixel; its depth is a number from 0, and the features of every line are
    numbered from 1 without a gap. The nearest ranks first: a grade is the number of super pixels of
    the image that are farther.

    Args:
        path: the file; `Queries.rows` counts its data lines from 0.
        beyond: the range of the sensor, in the unit of the file; depths from there on tie.

    Raises:
        DataError: naming file, line and offending text.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".dat") as file:
    ...     _ = file.write("0.1 qid:1 1:0.5\\n0.9 qid:1 1:2\\n0.8 qid:1 1:1 # far\\n")
    ...     file.flush()
    ...     read_depth(file.name).grades.tolist()
    [2, 0, 0]

    Cost: linear, some microseconds a value; for each image a sort.
    """
    path = Path(path)
    depths, values, images = array("d"), array("f"), list[str]()
    n_features = None
    with reading(path), open_bytes(path) as file:
        for number, line in enumerate(file, 1):
            words = line.partition(b"#")[0].split()
            if not words:
                continue
            try:
                depth, image, row = _parsed(words)
            except (ValueError, IndexError):
                text = shown(line.decode(errors="replace").rstrip())
                wrong = f"is not DEPTH qid:IMAGE 1:VALUE 2:VALUE ...: {text}"
                raise DataError(f"{path}, line {number}: {wrong}") from None
            n_features = len(row) if n_features is None else n_features
            if len(row) != n_features:
                wrong = f"has {len(row)} features, the lines before have {n_features}"
                raise DataError(f"{path}, line {number}: {wrong}")
            depths.append(depth)
            images.append(image)
            values.extend(row)
    if not images:
        raise DataError(f"{path}: there is no line of a super pixel in it")
    features = np.frombuffer(values, np.float32).reshape(len(images), -1)
    read = Queries.from_arrays(features, qid=texts(images, f"{path}: images"), source=str(path))
    depth_of_docs = np.minimum(np.frombuffer(depths)[read.rows], beyond)
    return replace(read, grades=_farther(depth_of_docs, read.offsets))


def subsets(queries: Queries, size: int, draws: int, *, seed: int = 0) -> Queries:
    """Queries of `size` documents, drawn at random from each query that has as many.

    The paper trains on such small sets of super pixels, and predicts whole images.

    Args:
        queries: whole ones.
        size: documents of a subset, each once.
        draws: subsets of each query.
        seed: of the draw.

    Raises:
        DataError: if no query is as long.

    >>> q = Queries.from_arrays([[1.0], [2.0], [3.0]], [0, 1, 2], qid=["b", "b", "b"])
    >>> few = subsets(q, 2, 3)
    >>> few, few.qids.tolist()
    (Queries('data': 3 queries, 6 documents, 1 features), ['b/1', 'b/2', 'b/3'])
    """
    long = np.flatnonzero(queries.sizes >= size)
    if not len(long):
        raise DataError(f"{queries.source}: no query has {size} documents to draw")
    rng = np.random.default_rng(seed)
    docs: list[I64] = []
    for query in np.repeat(long, draws):
        drawn = rng.choice(queries.sizes[query], size, replace=False)
        docs.append(queries.offsets[query] + np.sort(drawn))
    names = [f"{queries.qids[query]}/{k + 1}" for query in long for k in range(draws)]
    chosen = np.concatenate(docs)
    return Queries.from_codes(
        queries.features[chosen],
        queries.grades[chosen],
        np.repeat(np.arange(len(names)), size),
        texts(names, f"{queries.source}: names of subsets"),
        feature_names=queries.feature_names,
        source=queries.source,
    )


def _farther(depth: F64, offsets: I64) -> I32:
    """(n_docs,) how many documents of the same query are farther."""
    grades = np.empty(len(depth), np.int32)
    for start, end in pairwise(offsets):
        own = depth[start:end]
        grades[start:end] = len(own) - np.searchsorted(np.sort(own), own, side="right")
    return grades


def _parsed(words: list[bytes]) -> tuple[float, str, list[float]]:
    """The depth, the image and the features of a line.

    Raises:
        ValueError: if it is of another form.
    """
    depth, image = float(words[0]), words[1].decode()
    if not 0 <= depth < np.inf or not image.startswith("qid:") or len(image) == 4:
        raise ValueError
    pairs = [word.split(b":") for word in words[2:]]
    if not pairs or any(index != b"%d" % k for k, (index, _) in enumerate(pairs, 1)):
        raise ValueError
    return depth, image[4:], [float(value) for _, value in pairs]
