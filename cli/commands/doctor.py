"""`sortnet doctor`: check the installation and say how to repair it."""

from __future__ import annotations

import os
import platform
import sqlite3
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from email.message import Message
from importlib import import_module, metadata
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.options import cores, json_option, store_option
from cli.output import count, print_json, progress, put
from sortnet import __version__
from sortnet.errors import SortNetError

if TYPE_CHECKING:
    from sqlalchemy import URL

# Distributions whose module has another name.
MODULES = {"scikit-learn": "sklearn", "pillow": "PIL", "xgboost-cpu": "xgboost"}
OLDEST_SQLITE = (3, 24)  # the first version with ON CONFLICT
_LABEL, _WIDTH = 10, 80


@dataclass
class Found:
    """Results of the checks: facts for JSON, text for people, and faults."""

    facts: dict[str, Any] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def add(self, name: str, text: str, fact: Any) -> None:
        self.facts[name], self.texts[name] = fact, text


@click.command(short_help="Check this installation; say what to do if it is broken.")
@store_option
@json_option
@click.pass_context
def doctor(ctx: click.Context, store: str | None, as_json: bool) -> None:
    """Check this installation: versions, devices, threads, store, caches, optional extras.

    The checks change nothing and create no store. The exit code is 1 if something that SortNet
    needs is broken; each fault is one line with the next step.

    \b
    Examples:
      sortnet doctor
      sortnet doctor --store postgresql://me@db/sortnet --json
    """
    found = Found()
    with progress() as status:
        for name, look in _LOOKS.items():
            status(f"checking {name}")
            look(found)
        status("checking the store")
        _look_at_store(found, store)
    if as_json:
        print_json({"ok": not found.faults, **found.facts, "faults": found.faults})
    else:
        _print(found)
    ctx.exit(1 if found.faults else 0)


def _print(found: Found) -> None:
    # A path is never wrapped: it could not be copied.
    fitted = textwrap.TextWrapper(_WIDTH - _LABEL, break_long_words=False, break_on_hyphens=False)
    for name, text in found.texts.items():
        lines = [line for part in text.split("\n") for line in fitted.wrap(part)]
        for label, line in zip_longest([name], lines, fillvalue=""):
            put(f"{label:{_LABEL}}{line}")
    put()
    if not found.faults:
        put("everything that SortNet needs works")
        return
    many = "one thing is" if len(found.faults) == 1 else f"{len(found.faults)} things are"
    put(f"{many} broken:", bold=True)
    for fault in found.faults:
        put(f"- {fault}")


def _look_at_versions(found: Found) -> None:
    found.add("sortnet", __version__, __version__)
    system = f"{platform.system()} {platform.machine()}"
    version = platform.python_version()
    facts = {"version": version, "executable": sys.executable, "system": system}
    found.add("python", f"{version} on {system}\n{sys.executable}", facts)


def _look_at_needed(found: Found) -> None:
    """Import every required package: an installed one may still be broken."""
    if _version("sortnet") is None:
        found.faults.append("sortnet is not installed in this Python: pip install . in its folder")
    rows = []
    for name, wanted in _requirements(""):
        version = _version(name)
        problem = _import_problem(name) if version else "is not installed"
        if version and not problem and not wanted.contains(version, prereleases=True):
            problem = f"is {version}, SortNet needs {name}{wanted}"
        rows.append({"name": name, "version": version, "wants": str(wanted), "problem": problem})
        if problem:
            found.faults.append(f"{name} {problem}: pip install --upgrade '{name}{wanted}'")
    text = ", ".join(f"{row['name']} {row['version'] or 'missing'}" for row in rows)
    found.add("packages", text, rows)


def _requirements(extra: str) -> Iterator[tuple[str, Any]]:
    """(distribution, versions) required by SortNet itself, or by one of its extras."""
    from packaging.requirements import Requirement

    known = [] if _version("sortnet") is None else metadata.requires("sortnet") or []
    for asked in map(Requirement, known):
        plain, named = (
            not asked.marker or asked.marker.evaluate({"extra": e}) for e in ("", extra)
        )
        if asked.name != "sortnet" and named and not (plain and extra):
            yield asked.name, asked.specifier


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _import_problem(distribution: str) -> str | None:
    try:
        import_module(MODULES.get(distribution, distribution.replace("-", "_")))
    except Exception as error:  # whatever a broken package raises
        reason = " ".join(str(error).split())[:200]
        return f"cannot be imported ({type(error).__name__}: {reason})"
    return None


def _look_at_sqlite(found: Found) -> None:
    version = sqlite3.sqlite_version
    found.add("sqlite", version, version)
    if sqlite3.sqlite_version_info[:2] < OLDEST_SQLITE:
        oldest = ".".join(map(str, OLDEST_SQLITE))
        found.faults.append(
            f"the SQLite library is {version}, the store needs {oldest}: use a newer Python, or "
            "a PostgreSQL store"
        )


def _look_at_devices(found: Found) -> None:
    try:
        import torch
    except Exception:  # reported already
        return found.add("devices", "unknown without torch", [])
    devices = ["cpu"]
    try:
        for k in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
            torch.zeros(1, device=f"cuda:{k}").add_(1)
            memory = torch.cuda.get_device_properties(k).total_memory / 2**30
            devices.append(f"cuda:{k} {torch.cuda.get_device_name(k)}, {memory:.0f} GiB")
    except (RuntimeError, AssertionError) as error:  # torch raises either
        reason = " ".join(str(error).split())[:200]
        found.faults.append(
            f"the GPU cannot be used ({reason}): check its driver, or train with --device cpu"
        )
    used = "cuda" if len(devices) > 1 else "cpu"
    found.add("devices", f"{'; '.join(devices)}\n--device auto takes {used}", devices)


def _look_at_threads(found: Found) -> None:
    threads: dict[str, int] = {}
    with suppress(Exception):  # reported already
        import torch
        from numba import config

        numba: int = config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
        threads = {"torch": torch.get_num_threads(), "numba": numba}
    used = ", ".join(f"{name} {n}" for name, n in threads.items())
    found.add("threads", f"{used or 'unknown'} of {cores()} cores", {"cores": cores(), **threads})


def _look_at_cache(found: Found) -> None:
    from sortnet.data.cache import default_cache_dir

    path = default_cache_dir()
    files = [p for p in path.rglob("*") if p.is_file()] if path.is_dir() else []
    size = sum(p.stat().st_size for p in files)
    text = f"{path}\n{_bytes(size)}" if files else f"{path}\nempty (--cache fills it)"
    found.add("cache", text, {"path": str(path), "bytes": size})


def _look_at_extras(found: Found) -> None:
    rows: list[dict[str, Any]] = []
    lines = []
    about: Any = Message() if _version("sortnet") is None else metadata.metadata("sortnet")
    extras = [e for e in about.get_all("Provides-Extra") or [] if e not in ("dev", "docs")]
    for extra in extras:
        wanted = dict(_requirements(extra))
        has = {name: _version(name) for name in wanted}
        present = all(v and wanted[name].contains(v, prereleases=True) for name, v in has.items())
        install = f"pip install 'sortnet[{extra}]'"
        rows.append({"name": extra, "present": present, "packages": has, "install": install})
        having = "has " + ", ".join(f"{name} {version}" for name, version in has.items())
        lines.append(f"{extra:{max(map(len, extras))}}  {having if present else install}")
    found.add("extras", "\n".join(lines) or "none", rows)


_LOOKS: dict[str, Callable[[Found], None]] = {
    "versions": _look_at_versions,
    "packages": _look_at_needed,
    "SQLite": _look_at_sqlite,
    "devices": _look_at_devices,
    "threads": _look_at_threads,
    "extras": _look_at_extras,
    "the cache": _look_at_cache,
}


def _look_at_store(found: Found, typed: str | None) -> None:
    names = ("url", "exists", "schema", "runs", "collections", "bytes", "problem")
    facts: dict[str, Any] = dict.fromkeys(names)
    try:
        from store.database.engine import parse_url, stored_url

        url = parse_url(typed)
        facts["url"] = stored_url(url)
        text = _contents(url, facts)
    except (SortNetError, ImportError) as error:
        facts["problem"] = str(error)
        text = "cannot be used"
        found.faults.append(f"{error}; choose another with --store or SORTNET_STORE")
    shown = (facts["url"] or "unknown").removeprefix("sqlite:///")
    found.add("store", f"{shown}\n{text}", facts)


def _contents(url: URL, facts: dict[str, Any]) -> str:
    """The contents of the store; raises what `open_store` would."""
    from sqlalchemy import func, inspect, select

    from store.database import schema
    from store.database.engine import Database
    from store.database.tables import CollectionRow, RunRow

    writable = True
    if url.drivername == "sqlite":
        path = Path(url.database or "")
        facts["exists"] = path.exists()
        home = next(p for p in path.absolute().parents if p.exists())
        writable = all(os.access(p, os.W_OK) for p in (home, path) if p.exists())
        if not facts["exists"] and not writable:
            raise SortNetError(f"store {path}: {home} is not writable")
        if not facts["exists"]:
            return "does not exist yet: sortnet train creates it"
        sizes = [p.stat().st_size for p in (path, Path(f"{path}-wal")) if p.exists()]
        facts["bytes"] = sum(sizes)
    database = Database(url, write=False)
    with closing(database), database.transaction() as connection:
        facts["exists"] = True
        if database.dialect == "postgresql":
            size = select(func.pg_database_size(func.current_database()))
            facts["bytes"] = connection.execute(size).scalar_one()
        facts["schema"] = found = schema.look(connection, name=database.name)
        if found is None:
            return "has no tables yet: sortnet train creates them"
        tables = {"runs": RunRow.__table__}
        if inspect(connection).has_table(CollectionRow.__tablename__):  # not in an old store
            tables["collections"] = CollectionRow.__table__
        for what, table in tables.items():
            facts[what] = connection.execute(select(func.count()).select_from(table)).scalar_one()
    many = ", ".join(count(facts[what], what.removesuffix("s")) for what in tables)
    new = schema.newest()
    older = "" if found == new else f" (old: the next command that writes makes it {new})"
    reading = "" if writable else "\nread-only: only commands that read work"
    return f"{many}, {_bytes(facts['bytes'])}, schema {found}{older}{reading}"


def _bytes(n: int) -> str:
    """
    >>> _bytes(999), _bytes(1_234_567)
    ('999 bytes', '1.2 MB')
    """
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n >= size:
            return f"{n / size:.1f} {unit}"
    return f"{n} bytes"
