"""Files: open them with one kind of error, fingerprint and write them; JSON that is checked."""

from __future__ import annotations

import glob
import gzip
import hashlib
import json
import logging
import math
import os
import re
import reprlib
import stat
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, Union, cast, get_args, get_origin

from sortnet.errors import DataError, ModelError, SortNetError

if TYPE_CHECKING:
    import pandas as pd

TABLES = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")
PARTS_OF_A_FOLD = ("train", "vali", "valid", "validation", "test")

# Notes about data that are used as they are. The commands print them on stderr; for Python they are
# in the log, as the warning filters are for what a program can change.
_LOG = logging.getLogger("sortnet")
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_SHOWN = 60  # characters of a value that a message shows
_PIECE = 1 << 16
_PIECES = 16
_LARGEST = 2**63  # whole numbers that fit numpy, torch and the store

# A store's connection string, where a file or a folder is to be named.
_HAS_PASSWORD = re.compile(r"\b(ssl)?password\s*=", re.IGNORECASE)
_STORE_INSTEAD = "that is a connection string: a store is given as --store postgresql://..."


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn every error of reading a file into a DataError of one line."""
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise DataError(f"{path}: is a folder, not a file") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path}: the compressed file is cut or damaged: {error}") from None
    except MemoryError:
        raise DataError(f"{path}: does not fit into memory") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None


def refuse_irregular(
    path: Path, *, most: int | None = None, error: type[SortNetError] = DataError
) -> None:
    """Refuse a pipe, a device or a folder before it is opened; and more than `most` bytes.

    A pipe without a writer is waited for without end, and a device may never end. Links are
    followed.

    Raises:
        SortNetError: of the class `error`: what the path is, or its size and the limit.
        OSError: if there is no such file.
    """
    facts = path.stat()
    if not stat.S_ISREG(facts.st_mode):
        kind = _KINDS.get(stat.S_IFMT(facts.st_mode), "special")
        raise error(f"{path}: is {kind}, not a file")
    if most is not None and facts.st_size > most:
        raise error(f"{path}: has {facts.st_size:,} bytes; the limit is {most:,}")


def note_unfinished(place: str) -> None:
    """Log that the last line of a file, which is used as it is, lacks its line end."""
    _LOG.warning("%s: the last line has no line end: if the file was cut, data are missing", place)


def open_bytes(path: Path) -> BinaryIO:
    """Open a regular file, decompressed if its first bytes or its name say gzip."""
    refuse_irregular(path)
    file = path.open("rb")
    magic = file.read(2)
    file.seek(0)
    if magic == b"\x1f\x8b" or path.suffix.lower() == ".gz":
        file.close()
        return cast(BinaryIO, gzip.open(path, "rb"))
    return file


def data_files(path: str | os.PathLike[str]) -> list[Path]:
    """The files of one data set, in the order of their names.

    Args:
        path: a file; a pattern of several, such as `part-*.txt`; or a folder that holds nothing
            else. Names that begin with `.` or `_`, and empty ones of several files, are left out.

    Raises:
        DataError: if there is none, or the folder holds folders or the parts of a fold.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("part-1", "part-0", "_SUCCESS"):
    ...         _ = Path(folder, name).write_text("1 qid:1 1:2\\n")
    ...     [file.name for file in data_files(folder)]
    ['part-0', 'part-1']
    """
    name, path = os.fspath(path), Path(path)
    with reading(path):
        if path.is_dir():
            found = sorted(each for each in path.iterdir() if each.name[0] not in "._")
            for each in found:
                if each.is_dir() or each.name.lower().partition(".")[0] in PARTS_OF_A_FOLD:
                    what = f"is a folder with {each.name} in it"
                    raise DataError(f"{path}: {what}: name a file, or a folder of part files")
        elif glob.has_magic(name) and not path.exists():
            named = map(Path, glob.glob(name))  # noqa: PTH207  # the pattern may be absolute
            found = [each for each in named if each.name[0] != "_"]
        else:
            return [path]
        if not found:
            what = "is a folder without data files" if path.is_dir() else "no file has such a name"
            raise DataError(f"{path}: {what}")
        found.sort()
        # The size of a pipe is 0, too: it is refused when it is read.
        return [each for each in found if each.stat().st_size or not each.is_file()] or found


def suffix_of(path: Path) -> str:
    """The suffix in lower case, that of what is compressed where it is `.gz`.

    >>> suffix_of(Path("votes.CSV.gz"))
    '.csv'
    """
    suffixes = (suffix.lower() for suffix in reversed(path.suffixes[-2:]))
    return next((suffix for suffix in suffixes if suffix != ".gz"), "")


def is_table(path: Path) -> bool:
    """Whether a file's name is that of a table."""
    return suffix_of(path) in TABLES


def fingerprint(path: str | os.PathLike[str]) -> str:
    """The SHA-256 of a file's bytes, as `sha256sum` prints it, for the record of a run.

    Of several files (see `data_files`) it is that of one after the other, as `cat` joins them.

    Raises:
        DataError: if the file cannot be read.

    Cost: about a second for 1 GB.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     fingerprint(file.name)[:12]
    'e3b0c44298fc'
    """
    digest = hashlib.sha256()
    for each in data_files(path):
        with reading(each):
            refuse_irregular(each)
            with each.open("rb") as file:
                hashlib.file_digest(file, lambda: digest)
    return digest.hexdigest()


def sample_hash(path: Path) -> str:
    """A hash of samples spread over a file, including both ends; reads at most 1 MB."""
    refuse_irregular(path)
    size = path.stat().st_size
    digest = hashlib.blake2b(str(size).encode(), digest_size=16)
    step = max(_PIECE, (size - _PIECE) // (_PIECES - 1))
    with path.open("rb") as file:
        for start in range(0, size, step):
            file.seek(min(start, max(0, size - _PIECE)))
            digest.update(file.read(_PIECE))
    return digest.hexdigest()


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file beside `path`, then rename it to `path`.

    Raises:
        SortNetError: if the disk is full or the folder cannot be written; nothing is left behind.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        write(temporary)
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise SortNetError(f"cannot write {path}: {error.strerror or error}") from None
    finally:
        with suppress(OSError):
            temporary.unlink()


def write_file(to: str, write: Callable[[Path], object]) -> None:
    """Let `write` write a file, which appears whole or not at all.

    Raises:
        SortNetError: if something would be lost, the disk is full, or the folder cannot be written.
    """
    refuse_output(to)
    path = Path(os.path.realpath(to))
    if not path.exists() or path.is_file():
        write_atomically(path, write)
        return
    try:  # a device or a named pipe is written to, not replaced
        write(path)
    except OSError as error:
        raise SortNetError(f"cannot write {to}: {error.strerror or error}") from None


def refuse_output(to: str, *inputs: str) -> None:
    """Refuse to write where something would be lost: an input, a store, a part of a model.

    `inputs` are files that are read, or folders or patterns of them.
    """
    if to != "-" and (fault := _unfit(to, inputs)):
        raise SortNetError(f"cannot write {to!r}: {fault}")


def _unfit(to: str, inputs: Sequence[str]) -> str | None:
    """Why a file must not be written; None if it may."""
    path = Path(os.path.realpath(to))
    if not to:
        return "it does not name a file"
    if _HAS_PASSWORD.search(to):
        return _STORE_INSTEAD
    if path.is_dir():
        return "that is a folder: name a file in it"
    if not path.parent.is_dir():
        return f"there is no folder {str(Path(to).parent)!r}: make it first"
    for name in inputs if path.exists() else ():
        matches = map(Path, glob.glob(name))  # noqa: PTH207  # the pattern may be absolute
        named = Path(name).iterdir() if Path(name).is_dir() else matches
        if any(map(path.samefile, filter(Path.exists, (Path(name), *named)))):
            return f"{name!r} is read, and would be lost: name another file"
    documents = (path.parent / name for name in ("model.json", "run.json"))
    if any(b'"sortnet-' in _beginning(file) for file in documents):
        return "its folder is that of a model: name a file in another folder"
    if _is_database(path):
        return "that is a database, and would be lost: name another file"
    return None


def _is_database(path: Path) -> bool:
    """Whether it is an SQLite file, or one of SQLite's companion files."""
    for ending in ("-wal", "-shm", "-journal"):
        path = path.with_name(path.name.removesuffix(ending) or path.name)
    return _beginning(path).startswith(b"SQLite format 3\0")


def _beginning(path: Path) -> bytes:
    """The first bytes of a file; none if it is no regular file."""
    if not path.is_file():
        return b""
    with path.open("rb") as file:
        return file.read(99)


def refuse_folder(to: str) -> None:
    """Refuse a folder that cannot be made, before the work that is to fill it."""
    path = Path(to)
    if not to:
        raise SortNetError("cannot write '': it does not name a folder")
    if _HAS_PASSWORD.search(to):
        raise SortNetError(f"cannot write {to!r}: {_STORE_INSTEAD}")
    if path.exists() and not path.is_dir():
        raise SortNetError(f"cannot write {to!r}: that is a file, not a folder")
    if not Path(os.path.realpath(path)).parent.is_dir():
        missing = f"there is no folder {str(path.parent)!r}: make it first"
        raise SortNetError(f"cannot make {to!r}: {missing}")


def make_folder(path: Path) -> None:
    """Make a folder if there is none yet; its parent folder must exist.

    Raises:
        SortNetError: if it cannot be made.
    """
    try:
        path.mkdir(exist_ok=True)
    except FileNotFoundError:
        raise SortNetError(f"cannot make {path}: no folder {path.parent}: make it first") from None
    except OSError as error:
        raise SortNetError(f"cannot make {path}: {error.strerror or error}") from None


def parse_document(
    raw: bytes, path: Path, kind: str, versions: Sequence[int], fields: Mapping[str, Any]
) -> dict[str, Any]:
    """A document that says which kind and version it is.

    Args:
        kind: its `format`, as `sortnet-model`.
        versions: the format versions that can be read.
        fields: what it must have, {name: type}, see `check_fields`.

    Raises:
        ModelError: if it is damaged, foreign, or of another version.
    """
    about = parse_json(raw, path)
    if not isinstance(about, dict) or about.get("format") != kind:
        raise ModelError(f"{path}: not a SortNet {kind.removeprefix('sortnet-')}")
    if about.get("format_version") not in versions:
        raise ModelError(
            f"{path}: format version {shown(about.get('format_version'))}, this SortNet reads "
            f"{', '.join(map(str, versions))}: upgrade SortNet or train again"
        )
    check_fields(about, fields, path)
    return about


def parse_json(raw: str | bytes, path: Path) -> Any:
    """What a JSON text says.

    Raises:
        ModelError: if it is no JSON, or nested too deeply.
    """
    try:
        return json.loads(raw)
    except RecursionError:
        raise ModelError(f"{path}: not JSON that SortNet wrote: nested too deeply") from None
    except ValueError as error:
        raise ModelError(f"{path}: not JSON: {error}") from None


def check_fields(values: Mapping[str, Any], fields: Mapping[str, Any], path: object) -> None:
    """Refuse values out of JSON that lack a field, or are of another type than it.

    A whole number may stand for a float, 3.0 for a whole number, 0 and 1 for no and yes; numbers
    are finite.

    Raises:
        ModelError: naming `path`, the first such field and its value.

    >>> check_fields({"lr": 1, "hidden": [3]}, {"lr": float, "hidden": tuple[int, ...]}, "x")
    """
    for name, kind in fields.items():
        if name not in values:
            raise ModelError(f"{path}: no {name!r}")
        if not _is(values[name], kind):
            raise ModelError(f"{path}: {name} cannot be {shown(values[name])}")


def shown(value: object) -> str:
    """A value for a message, however large or deep.

    >>> shown("a" * 100)[:3], shown(3)
    ("'aa", '3')
    """
    brief = reprlib.Repr()
    brief.maxstring = _SHOWN
    return brief.repr(value)[:_SHOWN]


def plain(value: Any) -> Any:
    """Convert a value for JSON: numpy's numbers to Python's, NaN and infinity to None.

    >>> plain({"map": float("nan"), "path": Path("a")})
    {'map': None, 'path': 'a'}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def rows_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """A frame as rows of values that JSON has: None in place of NaN."""
    known = frame.astype(object).where(frame.notna(), None)
    rows: list[dict[str, Any]] = plain(known.to_dict("records"))
    return rows


def one_line(error: BaseException) -> str:
    """What an error says, on one line of limited length."""
    return " ".join(str(error).split())[:200] or type(error).__name__


def _is(value: Any, kind: Any) -> bool:
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return any(_is(value, one) for one in args)
    if origin is Literal:
        return value in args
    if origin in (tuple, list):
        return isinstance(value, list | tuple) and all(_is(item, args[0]) for item in value)
    if kind is bool:
        return isinstance(value, bool) or (isinstance(value, int) and value in (0, 1))
    if kind is float:
        return isinstance(value, int | float) and abs(value) < 1e300  # NaN is not
    if kind is int:
        return isinstance(value, int | float) and value % 1 == 0 and abs(value) < _LARGEST
    return isinstance(value, kind)
