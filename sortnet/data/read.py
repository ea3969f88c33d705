"""Read a file of labelled queries by its suffix, or a folder of them as a fold."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from sortnet.errors import DataError
from sortnet.files import data_files
from sortnet.types import Queries

# The reader of each kind of table, imported when used; anything else is LETOR text.
_TABLES = {
    ".csv": "sortnet.data.tabular:read_csv",
    ".tsv": "sortnet.data.tabular:read_csv",
    ".parquet": "sortnet.data.tabular:read_parquet",
}
_ENDINGS = tuple(
    f"{kind}{gz}"
    for kind in (".txt", *_TABLES)
    for gz in (("",) if kind == ".parquet" else ("", ".gz"))
)
_STEMS = {"train": ("train",), "vali": ("vali", "valid", "validation"), "test": ("test",)}


def read_queries(
    path: str | os.PathLike[str],
    *,
    n_features: int | None = None,
    labelled: bool = True,
    cache: str | os.PathLike[str] | None = None,
) -> Queries:
    """Read queries: .csv, .tsv (also .gz), .parquet, anything else as LETOR text.

    Args:
        path: the file, or several of one kind as one data set: a pattern such as `part-*.txt` or a
            folder, in the order of their names. A query may go on in the next file.
        n_features: the number of features expected (a model's, for example).
        labelled: whether a table must have its `label` column; LETOR text always has grades.
        cache: a folder to keep the parsed arrays in, memory-mapped when the file is read again;
            they are parsed again if the file has changed or they are damaged.

    Raises:
        DataError: naming file, line and offending text.

    Cost: that of parsing; next to nothing if the file is in the cache. Features of more than
    256 MiB are on disk, see `room`.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
    ...     _ = file.write("qid,label,length\\n7,1,30\\n7,0,12.5\\n")
    ...     file.flush()
    ...     read_queries(file.name).features.tolist()
    [[30.0], [12.5]]
    """
    path = Path(path)
    if cache is None:
        return _parse(path, n_features, labelled)
    from sortnet.data.cache import cached

    what = {"n_features": n_features, "labelled": labelled}
    return cached(path, Path(cache), what, lambda: _parse(path, n_features, labelled))


def _parse(path: Path, n_features: int | None, labelled: bool) -> Queries:
    kind = _kind(path)
    if not kind:
        from sortnet.data.letor import read_letor

        return read_letor(path, n_features=n_features)
    module, _, name = _TABLES[kind].partition(":")
    queries: Queries = getattr(import_module(module), name)(path, labelled=labelled)
    if n_features is not None and queries.n_features != n_features:
        raise DataError(f"{path}: has {queries.n_features} features, {n_features} are expected")
    return queries


def _kind(path: Path) -> str:
    """The ending of a table's name, '' for LETOR text; the same of all files."""
    kinds: dict[str, str] = {}
    for each in data_files(path):
        name = each.name.lower().removesuffix(".gz")
        kinds.setdefault(next(filter(name.endswith, _TABLES), ""), each.name)
    if len(kinds) > 1:
        raise DataError(f"{path}: {' and '.join(kinds.values())} are not of one kind")
    return next(iter(kinds))


@dataclass(frozen=True, eq=False)
class Fold:
    """One split of labelled queries into training, validation and test parts."""

    train: Queries
    vali: Queries
    test: Queries | None = None


def read_fold(
    folder: str | os.PathLike[str],
    *,
    n_features: int | None = None,
    cache: str | os.PathLike[str] | None = None,
) -> Fold:
    """Read a folder with a train, a vali (or valid, validation) and optionally a test part.

    All parts are read with the training part's number of features and must have its feature names.

    Args:
        folder: holds train.txt and so on; also .txt.gz, .csv, .tsv or .parquet, or a folder `train`
            of part files.
        n_features: for sparse files whose training part lacks the last features.
        cache: see `read_queries`.

    Raises:
        DataError: for a part that is missing, ambiguous, or does not match the training part.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(
            f"{folder}: no such folder"
            if not folder.exists()
            else f"{folder}: is a file, not a folder"
        )
    files = {part: file_of(folder, part) for part in _STEMS}
    train_file, vali_file, test_file = files["train"], files["vali"], files["test"]
    if train_file is None or vali_file is None:
        part = "train" if train_file is None else "vali"
        raise DataError(f"{folder}: there is no {part}.txt (or {', '.join(_ENDINGS[1:])})")
    train = read_queries(train_file, n_features=n_features, cache=cache)
    vali = _part(vali_file, train, cache)
    return Fold(train, vali, None if test_file is None else _part(test_file, train, cache))


def file_of(folder: Path, part: str) -> Path | None:
    """The file of a part, or the folder of its files; None if there is none."""
    names = {stem + ending for stem in _STEMS[part] for ending in _ENDINGS}
    found = sorted(each for each in folder.glob("*") if each.name.lower() in names)
    found += [folder / stem for stem in _STEMS[part] if (folder / stem).is_dir()]
    if len(found) > 1:
        raise DataError(f"{folder}: which one is it, {found[0].name} or {found[1].name}?")
    return found[0] if found else None


def _part(path: Path, train: Queries, cache: str | os.PathLike[str] | None) -> Queries:
    queries = read_queries(path, n_features=train.n_features, cache=cache)
    ours, theirs = queries.feature_names, train.feature_names
    if ours == theirs:
        return queries
    if ours is None or theirs is None:
        has = f"has {'no ' if ours is None else ''}feature names"
        other = f"{train.source} has {'none' if theirs is None else 'them'}"
        raise DataError(f"{path}: {has}, {other}")
    k = next(k for k, pair in enumerate(zip(ours, theirs, strict=True)) if pair[0] != pair[1])
    raise DataError(f"{path}: feature {k + 1} is {ours[k]!r}, but {theirs[k]!r} in {train.source}")
