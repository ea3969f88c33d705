"""Open, fingerprint and write files, and check JSON; faults become errors of SortNet."""

from __future__ import annotations

import codecs
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
from itertools import chain
from pathlib import Path
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    BinaryIO,
    Literal,
    TypeAlias,
    Union,
    cast,
    get_args,
    get_origin,
)

from sortnet.errors import DataError, ModelError, SortNetError
from sortnet.messages import python_values

if TYPE_CHECKING:
    import pandas as pd

Record: TypeAlias = dict[str, Any]  # facts, or a row of a table: values by their names
TABLES = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet")
# {part of a fold: names of its file without an ending; the last name of each is that of LETOR 3.0}
STEMS = {
    "train": ("train", "trainingset"),
    "vali": ("vali", "valid", "validation", "val", "dev", "validationset"),
    "test": ("test", "testset"),
}

# Log of notes about faulty data that are used nevertheless. The commands print it on stderr. Python
# programs find the notes in the log, since a warning is for a fault that the program can correct.
_LOG = logging.getLogger("sortnet")
_KINDS = {
    stat.S_IFREG: "a file",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
# {first bytes of a file that is no text: what the file is, and what to do}
_NO_TEXT = {
    b"PK\3\4": "a ZIP archive, as spreadsheets are: save the table as CSV",
    b"\xd0\xcf\x11\xe0": "a spreadsheet: save the table as CSV",
    b"PAR1": "a Parquet file: give it a name that ends in .parquet",
}
_MOST_CHARACTERS = 60  # most characters of a value that a message shows
_LONGEST_LINE = 200  # most characters of an error's message on one line
_MAGIC_BYTES = 99  # bytes at the beginning of a file that show its format
_LARGEST = 2**63  # whole numbers below this limit fit numpy, torch and the store
_LARGEST_FLOAT = 1e300  # floats below this limit can be added up without overflow

# Matches the connection string of a store that was given instead of a file or a folder.
_HAS_PASSWORD = re.compile(r"\b(ssl)?password\s*=", re.IGNORECASE)
_STORE_INSTEAD = "that is a connection string: a store is given as --store postgresql://..."


def user_folder(variable: str, default: str) -> Path | None:
    """Return a folder of the user, as the XDG Base Directory Specification has it.

    Args:
        variable: the variable of the environment that names the folder, such as `XDG_DATA_HOME`. A
            relative path in it is ignored.
        default: the folder in the home folder that is used otherwise.

    Returns:
        The folder; None if the user has no home folder, as a service or a container may have none.
    """
    named_folder = os.environ.get(variable, "")
    if Path(named_folder).is_absolute():
        return Path(named_folder)
    home = Path(os.path.expanduser("~"))  # noqa: PTH111  # `Path.home` raises without a home
    return home / default if home.is_absolute() else None


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
    """Refuse a pipe, a device or a folder before it is opened, and a file above `most` bytes.

    Opening a pipe that nobody writes to would wait forever, and reading a device may never end.
    Links are followed.

    Args:
        path: the file to check.
        most: the largest size that is allowed, in bytes; None: any size.
        error: class of the error that is raised.

    Raises:
        SortNetError: of the class `error`, if the path is no regular file or the file is too large.
        OSError: if there is no such file.
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise error(f"{path}: is {kind_of(path)}, not a file")
    if most is not None and status.st_size > most:
        raise error(f"{path}: has {status.st_size:,} bytes; the limit is {most:,}")


def kind_of(path: Path) -> str:
    """Name the kind of a path for a message: `a file`, `a folder`, `a pipe`, ...; follow links.

    >>> kind_of(Path("/dev/null")), kind_of(Path("/no/such/file"))
    ('a device', 'no file')
    """
    try:
        mode = path.stat().st_mode
    except OSError:
        return "no file"
    return _KINDS.get(stat.S_IFMT(mode), "special")


def note_unfinished(place: str) -> None:
    """Log that the last line of a file has no line end; the line is used nevertheless."""
    _LOG.warning("%s: the last line has no line end: if the file was cut, data are missing", place)


def note(place: object, text: str) -> None:
    """Log what a reader has done with data that have an unusual form."""
    _LOG.warning("%s: %s", place, text)


def encoding_of(start: bytes) -> str:
    """Name the encoding of a text by its byte order mark or its zero bytes; else it is UTF-8.

    >>> encoding_of("id,text".encode("utf-16")), encoding_of(b"id,text")
    ('utf-16', 'utf-8-sig')
    >>> encoding_of("id,text".encode("utf-16-le"))
    'utf-16-le'
    """
    if start.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "utf-32"
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    # Windows also writes UTF-16 without a mark: each second byte of ASCII letters is then zero.
    match [byte == 0 for byte in start[:4]]:
        case [False, True, False, True]:
            return "utf-16-le"
        case [True, False, True, False]:
            return "utf-16-be"
    return "utf-8-sig"


def open_bytes(path: Path) -> BinaryIO:
    """Open a regular file, and decompress it if its first bytes or its name say that it is gzip.

    Raises:
        DataError: if the first bytes say that the file is no text.
    """
    refuse_irregular(path)
    file = path.open("rb")
    magic = file.read(4)
    file.seek(0)
    if magic in _NO_TEXT:
        file.close()
        raise DataError(f"{path}: is {_NO_TEXT[magic]}")
    if magic.startswith(b"\x1f\x8b") or path.suffix.lower() == ".gz":
        file.close()
        return cast(BinaryIO, gzip.open(path, "rb"))
    return file


def data_files(path: str | os.PathLike[str]) -> list[Path]:
    """List the files of one data set, in the order of their names.

    Args:
        path: a file; a pattern of several files, such as `part-*.txt`; or a folder that has only
            data files. In a pattern or a folder, files whose names begin with `.` or `_` are left
            out, and empty files are left out if another file has data.

    Raises:
        DataError: if there is no file, or if the folder contains folders or the parts of a fold.

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
            files = _files_in(path)
        elif glob.has_magic(name) and not path.exists():
            files = sorted(file for file in _matches(name) if file.name[0] != "_")
            if not files:
                raise DataError(f"{path}: no file has such a name")
        else:
            return [path]
        # A pipe has size 0, too. It stays in the list, so that reading refuses it.
        with_data = [file for file in files if file.stat().st_size or not file.is_file()]
        return with_data or files


def _files_in(folder: Path) -> list[Path]:
    """List the data files of a folder by name, without hidden files.

    A folder with folders, or with whole parts of a fold such as train.txt, is refused.
    """
    files = sorted(file for file in folder.iterdir() if not file.name.startswith((".", "_")))
    if not files:
        raise DataError(f"{folder}: is a folder without data files")
    for file in files:
        if file.is_dir() or file.name.lower().partition(".")[0] in chain(*STEMS.values()):
            raise DataError(
                f"{folder}: is a folder with {file.name} in it: name a file, or a folder of part "
                "files"
            )
    return files


def _matches(pattern: str) -> Iterator[Path]:
    """Find the paths that match a pattern, which may be absolute."""
    return map(Path, glob.glob(pattern))  # noqa: PTH207  # Path.glob takes no absolute pattern


def suffix_of(path: Path) -> str:
    """Return the suffix of a file name in lower case; a final `.gz` is ignored.

    >>> suffix_of(Path("votes.CSV.gz"))
    '.csv'
    """
    for suffix in reversed(path.suffixes[-2:]):
        if suffix.lower() != ".gz":
            return suffix.lower()
    return ""


def is_table(path: Path) -> bool:
    """Check whether the file name has the suffix of a table, such as `.csv` or `.parquet.gz`."""
    return suffix_of(path) in TABLES


def fingerprint(path: str | os.PathLike[str]) -> str:
    """Compute the SHA-256 of a file's bytes, as `sha256sum` prints it, for the record of a run.

    If `path` names several files (see `data_files`), their bytes are joined in the order of the
    files' names.

    Raises:
        DataError: if a file cannot be read.

    Cost: about a second for 1 GB.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     fingerprint(file.name)[:12]
    'e3b0c44298fc'
    """
    digest = hashlib.sha256()
    for data_file in data_files(path):
        with reading(data_file):
            refuse_irregular(data_file)
            with data_file.open("rb") as file:
                hashlib.file_digest(file, lambda: digest)  # adds the file to the same digest
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
    """Write a file by the function `write` so that the file appears complete or not at all.

    Args:
        to: name of the file; a device or a named pipe is written to directly.
        write: function that writes the content to the path that it is called with.

    Raises:
        SortNetError: if other data would be lost, the disk is full, or the folder cannot be
            written.
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
    """Refuse to overwrite an input, a store, or a part of a model.

    Args:
        to: the file to write; `-` is stdout.
        inputs: files that are read, or folders or patterns of such files. The folder of a model
            also stands for the files that the model was trained on.
    """
    if to == "-":
        return
    fault = _fault_of_output(to, inputs)
    if fault:
        raise SortNetError(f"cannot write {to!r}: {fault}")


def _fault_of_output(to: str, inputs: Sequence[str]) -> str | None:
    """Return the reason why a file must not be written, or None if it may be written."""
    path = Path(os.path.realpath(to))
    if not to:
        return "it does not name a file"
    if _HAS_PASSWORD.search(to):
        return _STORE_INSTEAD
    if path.is_dir():
        return "that is a folder: name a file in it"
    if not path.parent.is_dir():
        return _missing_folder(Path(to))
    if path.exists():
        read = [name for name in inputs if any(map(path.samefile, _input_files(name)))]
        if read:
            return f"{read[0]!r} is read, and would be lost: name another file"
        trained = [name for name in inputs if any(map(path.samefile, _training_files(Path(name))))]
        if trained:
            return f"{trained[0]!r} was trained on it, and it would be lost: name another file"
    documents = (path.parent / name for name in ("model.json", "run.json"))
    if any(b'"sortnet-' in _beginning(document) for document in documents):
        return "its folder is that of a model: name a file in another folder"
    if _is_database(path):
        return "that is a database, and would be lost: name another file"
    return None


def _input_files(name: str) -> list[Path]:
    """List the existing files of an input, which is a path, a folder or a pattern."""
    path = Path(name)
    files = path.iterdir() if path.is_dir() else _matches(name)
    return [file for file in (path, *files) if file.exists()]


def _training_files(folder: Path) -> list[Path]:
    """List the existing files that the model in a folder was trained on, if they are recorded."""
    document = folder / "model.json"
    files: list[Path] = []
    # A damaged document is reported by the command that loads the model.
    with suppress(OSError, ModelError, LookupError, TypeError, AttributeError):
        for part in parse_json(document.read_bytes(), document)["info"]["data"].values():
            # If the folder was moved, the path begins at the current folder.
            files += _input_files(str(Path(part["folder"], part["path"])))
            files += _input_files(part["path"])
    return files


def _is_database(path: Path) -> bool:
    """Check whether a path is an SQLite database, or a file that SQLite keeps beside a database."""
    # SQLite names the files beside a database like the database, with one of these endings.
    for ending in ("-wal", "-shm", "-journal"):
        path = path.with_name(path.name.removesuffix(ending) or path.name)
    return _beginning(path).startswith(b"SQLite format 3\0")


def _beginning(path: Path) -> bytes:
    """Read the first bytes of a regular file; the result is empty for any other path."""
    if not path.is_file():
        return b""
    with path.open("rb") as file:
        return file.read(_MAGIC_BYTES)


def refuse_folder(to: str) -> None:
    """Refuse an output folder that cannot be made, before anything is computed for the folder.

    Raises:
        SortNetError: if `to` is empty, a connection string, a file or a link that leads nowhere, or
            has no parent folder.
    """
    path = Path(to)
    if not to:
        raise SortNetError("cannot write '': it does not name a folder")
    if _HAS_PASSWORD.search(to):
        raise SortNetError(f"cannot write {to!r}: {_STORE_INSTEAD}")
    if path.exists() and not path.is_dir():
        raise SortNetError(f"cannot write {to!r}: that is {kind_of(path)}, not a folder")
    leads_nowhere = path.is_symlink() and not path.exists()
    if leads_nowhere or not Path(os.path.realpath(path)).parent.is_dir():
        raise SortNetError(f"cannot make {to!r}: {_missing_folder(path)}")


def _missing_folder(path: Path) -> str:
    """Tell why an output cannot be made: a link leads nowhere, or the parent folder is missing."""
    for part in (path, *path.parents):
        if part.is_symlink() and not part.exists():
            return f"{str(part)!r} is a link to {str(part.readlink())!r}, which does not exist"
    return f"there is no folder {str(path.parent)!r}: make it first"


def make_folder(path: Path) -> None:
    """Make a folder if it does not exist; its parent folder must exist.

    Raises:
        SortNetError: if the folder cannot be made.
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
    """Parse a JSON document that names its format and version.

    Args:
        raw: the content of the file.
        path: the file, for messages.
        kind: the expected `format`, such as `sortnet-model`.
        versions: the format versions that can be read.
        fields: {name: type} of the required fields, see `check_fields`.

    Raises:
        ModelError: if the document is damaged, foreign, or of another version.
    """
    document = parse_json(raw, path)
    if not isinstance(document, dict) or document.get("format") != kind:
        raise ModelError(f"{path}: not a SortNet {kind.removeprefix('sortnet-')}")
    version = document.get("format_version")
    if version not in versions:
        raise ModelError(
            f"{path}: format version {shown(version)}, this SortNet reads "
            f"{', '.join(map(str, versions))}: upgrade SortNet or train again"
        )
    check_fields(document, fields, path)
    return document


def parse_json(raw: str | bytes, path: Path) -> Any:
    """Parse a JSON text that was read from `path`, which only messages name.

    Raises:
        ModelError: if the text is no JSON, or is nested too deeply.
    """
    try:
        return json.loads(raw)
    except RecursionError:
        raise ModelError(f"{path}: not JSON that SortNet wrote: nested too deeply") from None
    except ValueError as error:
        raise ModelError(f"{path}: not JSON: {error}") from None


def check_fields(values: Mapping[str, Any], fields: Mapping[str, Any], path: object) -> None:
    """Refuse JSON values in which a field is missing or has a wrong type.

    A whole number may stand for a float, 3.0 for a whole number, and 0 and 1 for no and yes.
    Numbers must be finite.

    Args:
        values: the JSON values by name.
        fields: {name: type} of the fields that must be there.
        path: the file or the object of the values, for messages.

    Raises:
        ModelError: with `path`, the first faulty field and its value.

    >>> check_fields({"lr": 1, "hidden": [3]}, {"lr": float, "hidden": tuple[int, ...]}, "x")
    """
    for name, json_type in fields.items():
        if name not in values:
            raise ModelError(f"{path}: no {name!r}")
        if not _is_of_type(values[name], json_type):
            raise ModelError(f"{path}: {name} cannot be {shown(values[name])}")


def shown(value: object) -> str:
    """Write any value as a short text for a message.

    >>> shown("a" * 100)[:3], shown(3)
    ("'aa", '3')
    """
    brief = reprlib.Repr()
    brief.maxstring = _MOST_CHARACTERS
    return brief.repr(python_values(value))[:_MOST_CHARACTERS]


def plain(value: Any) -> Any:
    """Convert a value to JSON values: numpy's numbers to Python's, NaN and infinity to None.

    Values of any other type become their text.

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
    if value is None or isinstance(value, bool | int | str):
        return value
    return str(value)


def rows_of(frame: pd.DataFrame) -> list[Record]:
    """Convert a frame to a list of rows with JSON values by column, None in place of NaN."""
    without_nan = frame.astype(object).where(frame.notna(), None)
    rows: list[Record] = plain(without_nan.to_dict("records"))
    return rows


def one_line(error: BaseException) -> str:
    """Return the message of an error on one line, cut to 200 characters.

    An error without a message is told by its class.
    """
    message = " ".join(str(error).split())
    return message[:_LONGEST_LINE] or type(error).__name__


def _is_of_type(value: Any, json_type: Any) -> bool:
    """Check whether a JSON value is of a type, or can be read as one, such as 1 as a float.

    `check_fields` tells which values may stand for others.
    """
    origin = get_origin(json_type)
    args = get_args(json_type)
    if origin in (Union, UnionType):
        return any(_is_of_type(value, alternative) for alternative in args)
    if origin is Literal:
        return value in args
    if origin in (tuple, list):
        if not isinstance(value, list | tuple):
            return False
        return all(_is_of_type(item, args[0]) for item in value)
    if json_type is bool:
        return isinstance(value, bool) or (isinstance(value, int) and value in (0, 1))
    if json_type is float:
        return isinstance(value, int | float) and abs(value) < _LARGEST_FLOAT  # false for NaN
    if json_type is int:
        return isinstance(value, int | float) and value % 1 == 0 and abs(value) < _LARGEST
    return isinstance(value, json_type)
