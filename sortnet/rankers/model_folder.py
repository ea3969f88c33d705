"""The folder of a ranker: model.json, and the weights that it names by their hash."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load
from safetensors.numpy import save as save_contiguous

from sortnet.config import Settings
from sortnet.core.memory import free_memory
from sortnet.errors import ModelError, SortNetError
from sortnet.files import (
    make_folder,
    parse_document,
    refuse_irregular,
    shown,
    write_atomically,
)

FORMAT = "sortnet-model"
FORMAT_VERSION = 3  # of version 1 the weights are always in weights.safetensors
FIRST_KIND = "sortnet"  # of the folders that do not say
_JSON = "model.json"
_LONGEST_DOCUMENT = 100_000_000  # bytes: 100,000 features with names of 1,000 letters
_COPIES = 2  # of tensors in memory while they are read: the bytes, and the tensors
_SHA256 = re.compile("[0-9a-f]{64}")
_FIELDS: dict[str, Any] = {
    "n_features": int,
    "feature_names": list[str] | None,
    "config": dict,
    "info": dict,
    "weights_sha256": str,
}
# What a save or a run that was killed leaves in its folder.
_LEFT = re.compile(
    r"weights-[0-9a-f]{16}\.safetensors"
    r"|\.((model|run|tuning)\.json|(state|weights(-[0-9a-f]{16})?)\.safetensors)\.[0-9]+"
)

Array: TypeAlias = NDArray[Any]
R = TypeVar("R")
S = TypeVar("S", bound=Settings)


@dataclass(frozen=True, eq=False)
class Saved:
    """What a folder holds, checked as far as that goes for every kind of ranker."""

    kind: str  # of the ranker
    about: dict[str, Any]  # all of model.json
    n_features: int  # of the data it was fitted on
    feature_names: tuple[str, ...] | None  # of these data, too
    info: dict[str, Any]  # how it came about
    tensors: dict[str, Array]  # by name; `take` takes them out, and what is left is refused
    path: Path  # model.json, for messages
    weights: Path  # the file of the tensors, for messages

    def settings(self, kind: type[S]) -> S:
        """The settings that the ranker was fitted with.

        Raises:
            ModelError: if they are not of that class.
        """
        try:
            return kind.from_json(self.about["config"])
        except SortNetError as error:
            raise ModelError(f"{self.path}: {error}") from None

    def take(self, name: str, dtype: DTypeLike, *shape: int) -> Array:
        """One array of finite numbers.

        Raises:
            ModelError: if it is not there, of another type or shape, or has NaN or infinity.
        """
        return take(self.tensors, name, dtype, shape, self.weights)


def write_folder(
    folder: str | Path, about: Mapping[str, Any], tensors: Mapping[str, Array]
) -> None:
    """Write the weights under a name of their own, then `model.json`, which names them.

    So a folder holds the old ranker or the new one whenever it is read. What a save that was
    killed has left is removed. One process at a time may save into a folder.

    Raises:
        SortNetError: if the folder cannot be written.
    """
    folder = Path(folder)
    make_folder(folder)
    old = None
    with suppress(ModelError):
        old = _weights_of(_document(read_bytes(folder / _JSON), folder / _JSON), folder)
    raw = tensors_as_bytes(tensors)
    digest = hashlib.sha256(raw).hexdigest()
    form = {"format": FORMAT, "format_version": FORMAT_VERSION}
    document = {**form, **about, "weights_sha256": digest}
    weights = _weights_of(document, folder)
    text = json.dumps(document, indent=2) + "\n"
    if len(text) > _LONGEST_DOCUMENT:
        size = f"{len(text):,} bytes"
        raise SortNetError(
            f"cannot write {folder / _JSON}: {size}; the limit is {_LONGEST_DOCUMENT:,}"
        )
    if not _has_content(weights, raw):
        write_atomically(weights, lambda path: path.write_bytes(raw))
    write_atomically(folder / _JSON, lambda path: path.write_text(text, encoding="utf-8"))
    for path in folder.iterdir():
        if path != weights and (path == old or _LEFT.fullmatch(path.name)):
            with suppress(OSError):  # it does no harm
                path.unlink()


def _has_content(path: Path, content: bytes) -> bool:
    """Whether a file has this content, so that it need not be written again."""
    with suppress(OSError):
        return path.stat().st_size == len(content) and path.read_bytes() == content
    return False


def digest_of(tensors: Mapping[str, Array]) -> str:
    """SHA-256 of tensors as a folder holds them."""
    return hashlib.sha256(tensors_as_bytes(tensors)).hexdigest()


def tensors_as_bytes(tensors: Mapping[str, Array], metadata: dict[str, str] | None = None) -> bytes:
    """A safetensors file of arrays, with texts beside them."""
    contiguous = {name: np.asarray(array, order="C") for name, array in tensors.items()}
    return save_contiguous(contiguous, metadata)


def read_folder(folder: str | Path, make: Callable[[Saved], R]) -> R:
    """What `make` makes of a folder; once more where a save replaces it in the middle.

    Raises:
        ModelError: if a file is missing, damaged, foreign, or of another format version; if
            `make` leaves a tensor.
    """
    path = Path(folder) / _JSON
    while True:
        raw = read_bytes(path)
        try:
            saved = _saved(raw, path)
            made = make(saved)
            refuse_rest(saved.tensors, saved.weights)
            return made
        except ModelError:
            if read_bytes(path) == raw:
                raise
        # A save has just replaced this ranker, and taken its weights away: read the new one.


def _saved(raw: bytes, path: Path) -> Saved:
    about = {"kind": FIRST_KIND, **_document(raw, path)}
    n_features, names = int(about["n_features"]), about["feature_names"]
    if not 0 <= n_features < 2**60:
        raise ModelError(f"{path}: n_features cannot be {shown(n_features)}")
    if names is not None and len(names) != n_features:
        raise ModelError(f"{path}: {len(names)} feature names of {n_features} features")
    weights = _weights_of(about, path.parent)
    in_file = read_bytes(weights)
    tensors = parse_tensors(in_file, weights)
    if hashlib.sha256(in_file).hexdigest() != about["weights_sha256"]:
        raise ModelError(f"{weights}: not the weights that {_JSON} was written with")
    names = None if names is None else tuple(names)
    return Saved(about["kind"], about, n_features, names, about["info"], tensors, path, weights)


def _document(raw: bytes, path: Path) -> dict[str, Any]:
    return parse_document(raw, path, FORMAT, range(1, FORMAT_VERSION + 1), _FIELDS)


def _weights_of(about: Mapping[str, Any], folder: Path) -> Path:
    """The file with the weights that a model.json was written with."""
    digest = about["weights_sha256"]
    if not _SHA256.fullmatch(digest):
        raise ModelError(f"{folder / _JSON}: weights_sha256 cannot be {shown(digest)}")
    one = about["format_version"] == 1
    return folder / ("weights.safetensors" if one else f"weights-{digest[:16]}.safetensors")


def read_bytes(path: Path) -> bytes:
    """Read a file of a model folder: a `.json` document, or else tensors.

    Raises:
        ModelError: if it is missing, no regular file, or larger than it may be: a document than
            100 MB, tensors than their header says, or than the memory. None of it is read then.
    """
    is_document = path.suffix == ".json"
    most = _LONGEST_DOCUMENT if is_document else free_memory() // _COPIES
    try:
        refuse_irregular(path, most=most, error=ModelError)
        if not is_document:
            # Opening reads the header, and refuses a file whose size it does not give.
            with _faults_of_tensors(path), safe_open(path, framework="numpy"):
                pass
        return path.read_bytes()
    except OSError as error:
        what = "no model there" if path.name == _JSON else "cannot be read"
        raise ModelError(f"{path}: {what}: {error.strerror or error}") from None


def parse_tensors(raw: bytes, path: Path) -> dict[str, Array]:
    with _faults_of_tensors(path):
        return load(raw)


@contextmanager
def _faults_of_tensors(path: Path) -> Iterator[None]:
    try:
        yield
    # A type that numpy has not, a shape too large to be one, also beside a 0: safetensors lets them
    # through.
    except (SafetensorError, KeyError, ValueError, OverflowError, TypeError) as error:
        reason = str(error).partition("\n")[0]
        raise ModelError(f"{path}: not a readable safetensors file: {reason}") from None


def take(
    tensors: dict[str, Array], name: str, dtype: DTypeLike, shape: Sequence[int], path: Path
) -> Array:
    """As `Saved.take`, of tensors that were read from that path."""
    found = tensors.pop(name, None)
    if found is None or (found.dtype, tuple(found.shape)) != (dtype, tuple(shape)):
        expected = _described(dtype, shape)
        raise ModelError(f"{path}: {name} is {described(found)}, not {expected}")
    if not np.isfinite(found).all():
        raise ModelError(f"{path}: {name} has NaN or infinity")
    return found


def refuse_rest(tensors: Mapping[str, Array], path: Path) -> None:
    """Refuse tensors that nobody has taken."""
    if tensors:
        raise ModelError(
            f"{path}: not the weights of this ranker: {shown(min(tensors))} is none of its own"
        )


def described(array: Array | None) -> str:
    """`float32 3x20` of an array, for messages."""
    return "missing" if array is None else _described(array.dtype, array.shape)


def _described(dtype: DTypeLike, shape: Sequence[int]) -> str:
    return f"{np.dtype(dtype)} {'x'.join(map(str, shape)) or '1'}"
