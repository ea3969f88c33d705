"""Read a file of labelled queries by its suffix, or a folder of such files as a fold.

`digits_fold` makes a fold of handwritten digits: real data that needs no download.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sortnet.core import NamedColumns, Progress, Queries
from sortnet.core.named_columns import UNNAMED
from sortnet.errors import DataError
from sortnet.files import STEMS, TABLES, data_files, is_table, kind_of, suffix_of

if TYPE_CHECKING:
    from sortnet.data.read_tables import HasFeatures

PARTS = ("train", "vali", "test")
_ENDINGS = tuple(
    ending
    for suffix in (".txt", *TABLES)
    for ending in (suffix, f"{suffix}.gz")
    if ending != ".parquet.gz"
)
# Formats of tables and archives that are not read; LETOR text may have any other suffix.
_OTHER_FORMATS = {
    *(".xlsx", ".xls", ".xlsm", ".ods", ".numbers", ".feather", ".arrow", ".orc", ".avro", ".npy"),
    *(".npz", ".pkl", ".pickle", ".h5", ".hdf5", ".html", ".xml", ".yaml", ".yml", ".sav", ".dta"),
    *(".rds", ".db", ".sqlite", ".zip", ".tar", ".tgz", ".bz2", ".xz", ".zst", ".7z", ".pdf"),
}
SIDE = 8  # width and height of an image of a digit, in pixels
_SHARES = {"train": 0.6, "vali": 0.2, "test": 0.2}  # shares of the images of digits
_DARKEST = 16  # largest value of a pixel of a digit


def read_queries(
    path: str | os.PathLike[str],
    *,
    n_features: int | None = None,
    labelled: bool = True,
    columns: NamedColumns | None = None,
    like: HasFeatures | None = None,
    first_index: int | None = None,
    progress: Progress = lambda text: None,
) -> Queries:
    """Read queries from a table (.csv, .tsv, .jsonl, .parquet), or LETOR text (anything else).

    Args:
        path: the file, also gzipped. Several files of one kind can be read as one data set: `path`
            is then a pattern such as `part-*.txt`, or a folder; the files are read in the order of
            their names, and a query may continue in the next file. If `like` has a describer, the
            path may also be a folder of texts or images.
        n_features: number of features of sparse LETOR text that lacks the last features, or the
            number that a table must have. If None, the file decides.
        labelled: whether a table must have grades; LETOR text always has grades.
        columns: names of a table's columns of query, grade and document id. If None, the names
            that `like` remembers, otherwise `qid`, `label` and `docid`.
        like: Queries or a ranker with the features that the documents shall have. A table's
            features are found by their names. The names of columns that `like` remembers are used
            where `columns` gives no name.
        first_index: the number from which LETOR text counts features, 0 or 1. If None, it is the
            number from which the features of `like` were counted. Without `like` it is 0 if the
            file has a feature 0, and 1 if not.
        progress: called with a text while texts and images are read.

    Raises:
        DataError: naming file, line and offending text.

    Cost: parsing the file. Features of more than 256 MiB are on disk, see `allocate`.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
    ...     _ = file.write("qid,label,length\\n7,1,30\\n7,0,12.5\\n")
    ...     file.flush()
    ...     read_queries(file.name).features.tolist()
    [[30.0], [12.5]]
    """
    path = Path(path)
    like = getattr(like, "model_", like)  # the ranker of a fitted estimator
    describer = None if like is None else like.describer
    if describer is not None and path.is_dir():
        from sortnet.data.read_tables import read_item_folder

        return read_item_folder(path, describer, labelled=labelled, progress=progress)
    if are_tables(path):
        from sortnet.data.read_tables import read_table

        queries = read_table(path, labelled=labelled, columns=columns, like=like, progress=progress)
        if n_features is not None and queries.n_features != n_features:
            raise DataError(f"{path}: has {queries.n_features} features, {n_features} are expected")
        return queries
    refuse_names(path, columns)
    _refuse_other_formats(path)
    if describer is not None and describer.made:  # LETOR text has no texts or images
        raise DataError(
            f"{path}: is none of {', '.join(TABLES)} and no folder of items; the model makes "
            "features from texts or images"
        )
    from sortnet.tables.letor import names_from_zero, read_letor

    if first_index is None and like is not None:
        names = like.feature_names or ()
        first_index = 0 if names and names == names_from_zero(len(names)) else 1
    return read_letor(path, n_features=n_features, first_index=first_index)


def _refuse_other_formats(path: Path) -> None:
    """Raise DataError for files of spreadsheets and other formats, which are no LETOR text."""
    for file in data_files(path):
        suffix = suffix_of(file)
        if suffix in _OTHER_FORMATS:
            raise DataError(
                f"{file}: {suffix} is none of {', '.join(TABLES)}, nor LETOR text: save it as CSV"
            )


def refuse_names(path: Path, columns: NamedColumns | None) -> None:
    """Raise DataError if columns are named for a file of LETOR text, which has no columns."""
    if columns is None or columns == UNNAMED:
        return
    if not path.exists():
        raise DataError(f"{path}: no such file or folder; a name with spaces needs quotes")
    raise DataError(
        f"{path}: is LETOR text, which has no columns to name: leave out --query and the like"
    )


def are_tables(path: Path) -> bool:
    """Whether the file, or each of several files, is a table; if not, the files are LETOR text.

    Raises:
        DataError: if the files are of different kinds.
    """
    letor = "LETOR"
    file_of_kind = {}
    for file in data_files(path):
        kind = suffix_of(file) if is_table(file) else letor
        file_of_kind[kind] = file.name
    if len(file_of_kind) > 1:
        raise DataError(f"{path}: {' and '.join(file_of_kind.values())} are not of one kind")
    return letor not in file_of_kind


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
    labelled: bool = True,
    columns: NamedColumns | None = None,
    like: HasFeatures | None = None,
) -> Fold:
    """Read a folder with a train, a vali (or valid, val, dev) and optionally a test part.

    All parts have the training part's features; in tables they are found by name.

    Args:
        folder: the folder of the fold. A part is a file such as train.txt, train.txt.gz, train.csv,
            train.tsv, train.jsonl or train.parquet, or a folder `train` of several files.
        n_features: number of features of sparse files whose training part lacks the last features.
        labelled: whether the parts must have grades, see `read_queries`.
        columns: names of the columns, see `read_queries`.
        like: data or a ranker with the features that the documents shall have, see `read_queries`.

    Raises:
        DataError: if a part is missing or ambiguous, or does not match the training part.
    """
    folder = Path(folder)
    if not folder.is_dir():
        fault = f"is {kind_of(folder)}, not a folder" if folder.exists() else "no such folder"
        if folder.exists() and not folder.is_file():
            fault += ": data are read more than once, so save them as a file"
        raise DataError(f"{folder}: {fault}")
    train_file, vali_file, test_file = (file_of(folder, part) for part in STEMS)
    if train_file is None or vali_file is None:
        part = "train" if train_file is None else "vali"
        fault = f"there is no {part}.txt (or {', '.join(_ENDINGS[1:])})"
        folds = [path for path in folder.glob("*") if path.is_dir() and file_of(path, part)]
        advice = f"{min(folds)} has one" if folds else "to divide a file, name the file"
        raise DataError(f"{folder}: {fault}: {advice}")
    return read_parts(
        train_file,
        vali_file,
        test_file,
        n_features=n_features,
        labelled=labelled,
        columns=columns,
        like=like,
    )


def read_parts(
    train: Path,
    vali: Path,
    test: Path | None = None,
    *,
    labelled: bool = True,
    like: HasFeatures | None = None,
    **options: Any,
) -> Fold:
    """Read the files of the parts; the options and the errors are those of `read_fold`.

    If a part has a feature 0, all parts of LETOR text count their features from 0.
    """
    from sortnet.tables.letor import IndexZero

    def read(first_index: int | None) -> Fold:
        """Read all parts, with features that are counted from a number."""
        of_train = read_queries(
            train, labelled=labelled, like=like, first_index=first_index, **options
        )
        of_vali = _read_like_train(vali, of_train, labelled=labelled)
        of_test = None if test is None else _read_like_train(test, of_train, labelled=labelled)
        return Fold(of_train, of_vali, of_test)

    try:
        return read(None)
    except IndexZero:
        if like is not None:
            raise
        return read(0)


def file_of(folder: Path, part: str) -> Path | None:
    """Find the file of a part, or the folder with its files; None if the folder has neither."""
    names = {stem + ending for stem in STEMS[part] for ending in _ENDINGS}
    paths = sorted(path for path in folder.glob("*") if path.name.lower() in names)
    paths += [folder / stem for stem in STEMS[part] if (folder / stem).is_dir()]
    if len(paths) > 1:
        raise DataError(f"{folder}: which one is it, {paths[0].name} or {paths[1].name}?")
    return paths[0] if paths else None


def _read_like_train(path: Path, train: Queries, *, labelled: bool) -> Queries:
    """Read the validation or test part, with the features of the training part.

    Raises:
        DataError: if this part has feature names and the training part has none, or the reverse.
    """
    part = read_queries(path, n_features=train.n_features, labelled=labelled, like=train)
    if (part.feature_names is None) != (train.feature_names is None):
        raise DataError(f"{path}: only one of it and {train.source} has feature names")
    return part


def digits_fold(seed: int = 0, *, size: int = 36, times: int = 2) -> Fold:
    """Make queries from scikit-learn's images of handwritten digits; the grade is the digit.

    scikit-learn has 1,797 images of 8 x 8 pixels: the test part of UCI's Optical Recognition of
    Handwritten Digits. No image is in two parts.

    Args:
        seed: seed of the split and of the queries.
        size: number of images per query.
        times: number of queries in which each image of a part is used. The few images that are
            left after the last full query are not used.

    Returns:
        Three parts with 64 pixels from 0 (paper) to 1 (ink) as features. `docids` are the numbers
        of the images in `sklearn.datasets.load_digits`.

    >>> fold = digits_fold()
    >>> fold.train, fold.test
    (Queries('digits/train': 58 queries, 2088 documents, 64 features), \
Queries('digits/test': 20 queries, 720 documents, 64 features))
    """
    from sklearn.datasets import load_digits

    pixels, digits = load_digits(return_X_y=True)
    ink = pixels / _DARKEST
    generator = np.random.default_rng(seed)
    part_ends = np.cumsum([round(share * len(pixels)) for share in _SHARES.values()])
    names = [f"pixel_{row}_{column}" for row in range(SIDE) for column in range(SIDE)]
    images_of_parts = np.split(generator.permutation(len(pixels)), part_ends[:-1])
    queries_of_parts = {}
    for part, images in zip(_SHARES, images_of_parts, strict=True):
        # Only full queries are used, so that no query has an image twice.
        n_used = len(images) // size * size
        docs = np.concatenate([generator.permutation(images)[:n_used] for _ in range(times)])
        queries_of_parts[part] = Queries.from_arrays(
            ink[docs],
            digits[docs],
            group=np.full(len(docs) // size, size),
            docids=docs.astype(np.str_).tolist(),
            feature_names=names,
            source=f"digits/{part}",
        )
    return Fold(**queries_of_parts)
