"""Write and read the folder of a ranker: model.json, and a file of weights that it names."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike
from safetensors import SafetensorError
from safetensors.numpy import load
from safetensors.numpy import save as save_contiguous

from sortnet.core import Array
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
FORMAT_VERSION = 3
_JSON = "model.json"
_LONGEST_DOCUMENT = 100_000_000  # bytes; enough for 100,000 features with names of 1,000 letters
_COPIES = 2  # copies of the tensors in memory while they are read: the file's bytes and the arrays
_LIMIT_OF_FEATURES = 2**60  # so that a byte count of a row fits an int64
_SHA256 = re.compile("[0-9a-f]{64}")
_FIELDS: dict[str, Any] = {
    "kind": str,
    "n_features": int,
    "feature_names": list[str] | None,
    "config": dict,
    "info": dict,
    "weights_sha256": str,
}
# Names of the files that a killed save or a killed run leaves in its folder.
_LEFTOVER = re.compile(
    r"weights-[0-9a-f]{16}\.safetensors"
    r"|\.((model|run|tuning)\.json|(state|weights(-[0-9a-f]{16})?)\.safetensors)\.[0-9]+"
)

R = TypeVar("R")


@dataclass(frozen=True, eq=False)
class Tensors:
    """The arrays of a safetensors file, which its reader takes out one after another.

    Attributes:
        arrays: the arrays that remain, by name.
        path: path of the file, for messages.
    """

    arrays: dict[str, Array]
    path: Path

    @classmethod
    def parse(cls, raw: bytes, path: Path) -> Tensors:
        """Parse the content of a safetensors file.

        Raises:
            ModelError: if the content is damaged.
        """
        try:
            return cls(load(raw), path)
        # Safetensors accepts types that numpy does not have, and shapes that are too large for an
        # array even if the array is empty.
        except (SafetensorError, KeyError, ValueError, OverflowError, TypeError) as error:
            reason = str(error).partition("\n")[0]
            raise ModelError(f"{path}: not a readable safetensors file: {reason}") from None

    def take(self, name: str, dtype: DTypeLike, *shape: int | None) -> Array:
        """Take out an array with a type and a shape, in which None is any length.

        Raises:
            ModelError: if the array is missing, has another type or shape, NaN or infinity.
        """
        array = self.arrays.pop(name, None)
        if array is None:
            raise ModelError(f"{self.path}: {name} is missing")
        has_shape = array.ndim == len(shape) and all(
            length in (None, actual) for length, actual in zip(shape, array.shape, strict=True)
        )
        if array.dtype != dtype or not has_shape:
            expected = _type_and_shape(dtype, shape)
            raise ModelError(
                f"{self.path}: {name} is {_type_and_shape(array.dtype, array.shape)}, "
                f"not {expected}"
            )
        if not np.isfinite(array).all():
            raise ModelError(f"{self.path}: {name} has NaN or infinity")
        return array

    def refuse_few(self, least: int) -> None:
        """Raise a ModelError if the arrays have fewer than `least` numbers.

        This check is made before the comparator is made, so that a small file that asks for a huge
        comparator cannot fill the memory.
        """
        n_numbers = sum(array.size for array in self.arrays.values())
        if n_numbers < least:
            raise ModelError(
                f"{self.path}: not the weights of this comparator: {n_numbers:,} numbers, "
                f"and it has {least:,} or more"
            )

    def refuse_rest(self) -> None:
        """Raise a ModelError if there are arrays that no call of `take` has removed."""
        if self.arrays:
            raise ModelError(
                f"{self.path}: not the weights of this ranker: {shown(min(self.arrays))} is none "
                "of its own"
            )


@dataclass(frozen=True, eq=False)
class Saved:
    """The content of a model folder, after the checks that are the same for all rankers.

    Attributes:
        about: the content of model.json.
        tensors: the arrays, of which `read_folder` refuses those that nobody has taken.
        path: path of model.json, for messages.
    """

    about: dict[str, Any]
    tensors: Tensors
    path: Path


def write_folder(
    folder: str | Path, fields: Mapping[str, Any], tensors: Mapping[str, Array]
) -> None:
    """Write the folder of a ranker; a program that reads it gets the old or the new ranker.

    The weights are written to a file with a new name first, and then `model.json`, which names this
    file. The old weights and files that a killed save has left are removed last. Only one process
    at a time may save into a folder.

    Args:
        folder: the folder, which is made if it does not exist.
        fields: entries of `model.json`.
        tensors: the weights by name.

    Raises:
        SortNetError: if the folder cannot be written.
    """
    folder = Path(folder)
    make_folder(folder)
    json_path = folder / _JSON
    raw = tensors_as_bytes(tensors)
    document = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        **fields,
        "weights_sha256": hashlib.sha256(raw).hexdigest(),
    }
    weights = _weights_path(document, folder)
    text = json.dumps(document, indent=2) + "\n"
    if len(text) > _LONGEST_DOCUMENT:
        raise SortNetError(
            f"cannot write {json_path}: {len(text):,} bytes; the limit is {_LONGEST_DOCUMENT:,}"
        )
    write_atomically(weights, lambda path: path.write_bytes(raw))
    write_atomically(json_path, lambda path: path.write_text(text, encoding="utf-8"))
    for path in folder.iterdir():
        if path != weights and _LEFTOVER.fullmatch(path.name):
            with suppress(OSError):  # a leftover does no harm
                path.unlink()


def tensors_as_bytes(tensors: Mapping[str, Array], metadata: dict[str, str] | None = None) -> bytes:
    """Convert arrays and metadata to the content of a safetensors file."""
    contiguous = {name: np.asarray(array, order="C") for name, array in tensors.items()}
    return save_contiguous(contiguous, metadata)


def read_folder(folder: str | Path, make: Callable[[Saved], R]) -> R:
    """Read a model folder, and call `make` with its content; return the result.

    If another process saves into the folder in the meantime, the new content is read.

    Args:
        folder: the folder.
        make: makes the result; it must take all tensors out of the content.

    Raises:
        ModelError: if a file is missing, damaged, foreign or of another format version, or if
            `make` leaves a tensor.
    """
    path = Path(folder) / _JSON
    while True:
        raw = read_bytes(path)
        try:
            saved = _read_weights(raw, path)
            result = make(saved)
            saved.tensors.refuse_rest()
            return result
        except ModelError:
            # The error is real, unless another process has saved since `raw` was read.
            if read_bytes(path) == raw:
                raise
        # A save has just replaced this ranker and removed its weights: read the new ranker.


def _read_weights(raw: bytes, path: Path) -> Saved:
    """Check the content `raw` of the model.json at `path`, and read the weights that it names."""
    document = parse_document(raw, path, FORMAT, (FORMAT_VERSION,), _FIELDS)
    n_features = int(document["n_features"])
    names = document["feature_names"]
    if not 0 <= n_features < _LIMIT_OF_FEATURES:
        raise ModelError(f"{path}: n_features cannot be {shown(n_features)}")
    if names is not None and len(names) != n_features:
        raise ModelError(f"{path}: {len(names)} feature names of {n_features} features")
    weights = _weights_path(document, path.parent)
    raw_weights = read_bytes(weights)
    tensors = Tensors.parse(raw_weights, weights)
    if hashlib.sha256(raw_weights).hexdigest() != document["weights_sha256"]:
        raise ModelError(f"{weights}: not the weights that {_JSON} was written with")
    return Saved(document, tensors, path)


def _weights_path(document: Mapping[str, Any], folder: Path) -> Path:
    """Return the path of the weights that belong to a model.json in a folder."""
    digest = document["weights_sha256"]
    if not _SHA256.fullmatch(digest):
        raise ModelError(f"{folder / _JSON}: weights_sha256 cannot be {shown(digest)}")
    return folder / f"weights-{digest[:16]}.safetensors"


def read_bytes(path: Path) -> bytes:
    """Read a file of a model folder: a `.json` document, or else tensors.

    Raises:
        ModelError: if the file is missing, no regular file, or too large: a document may have
            100 MB, and tensors must fit into memory.
    """
    is_document = path.suffix == ".json"
    most_bytes = _LONGEST_DOCUMENT if is_document else free_memory() // _COPIES
    try:
        refuse_irregular(path, most=most_bytes, error=ModelError)
        return path.read_bytes()
    except OSError as error:
        if path.name == _JSON and not path.exists():
            raise ModelError(f"{path}: no model there") from None
        raise ModelError(f"{path}: cannot be read: {error.strerror or error}") from None


def _type_and_shape(dtype: DTypeLike, shape: Sequence[int | None]) -> str:
    """Write a type and a shape for a message; a single number has the shape 1, any length is n."""
    sizes = "x".join("n" if length is None else str(length) for length in shape) or "1"
    return f"{np.dtype(dtype)} {sizes}"
