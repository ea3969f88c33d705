"""`sortnet doctor`: check the installation and say how to repair it."""

from __future__ import annotations

import os
import platform
import sys
import textwrap
from collections.abc import Callable
from contextlib import closing
from functools import partial
from importlib import metadata
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from cli.options import store_and_json
from cli.output import progress, table
from cli.printing.results import Bold, Result, print_result
from sortnet import __version__
from sortnet.errors import SortNetError
from sortnet.messages import count
from sortnet.threads import cores

if TYPE_CHECKING:
    from sqlalchemy import URL

_LABEL, _WIDTH = 10, 80
Look: TypeAlias = tuple[str, Any]  # what is said of a thing, and the fact in JSON


@click.command(short_help="Check this installation; say what to do if it is broken.")
@store_and_json
@click.pass_context
def doctor(ctx: click.Context, store: str | None, as_json: bool) -> None:
    """Check the devices, the threads, the optional extras and the store.

    The checks change nothing and create no store. The exit code is 1 if something that SortNet
    needs is broken; each fault is one line with the next step. Whether packages fit together says
    `pip check`.

    \b
    Examples:
      sortnet doctor
      sortnet doctor --store postgresql://me@db/sortnet --json
    """
    faults: list[str] = []
    found: dict[str, Look] = {}
    looks: dict[str, Callable[[list[str]], Look]] = {
        **{"sortnet": _version, "devices": _devices, "threads": _threads, "extras": _extras},
        "store": partial(_store, store),
    }
    with progress() as status:
        for name, look in looks.items():
            status(f"checking {name}")
            found[name] = look(faults)
    facts = {name: fact for name, (_, fact) in found.items()}
    value = {"ok": not faults, **facts, "faults": faults}
    print_result(Result("installation", value, text=_lines(found, faults)), as_json=as_json)
    ctx.exit(1 if faults else 0)


def _lines(found: dict[str, Look], faults: list[str]) -> list[str]:
    # A path is never wrapped: it could not be copied.
    wrapper = textwrap.TextWrapper(_WIDTH - _LABEL, break_long_words=False, break_on_hyphens=False)
    lines = list[str]()
    for name, (text, _) in found.items():
        wrapped = [line for part in text.split("\n") for line in wrapper.wrap(part)]
        for label, line in zip_longest([name], wrapped, fillvalue=""):
            lines.append(f"{label:{_LABEL}}{line}")
    if not faults:
        return [*lines, "", "everything that SortNet needs works"]
    many = "one thing is" if len(faults) == 1 else f"{len(faults)} things are"
    return [*lines, "", Bold(f"{many} broken:"), *(f"- {fault}" for fault in faults)]


def _version(faults: list[str]) -> Look:
    system = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    return f"{__version__}, {system}\n{sys.executable}", __version__


def _devices(faults: list[str]) -> Look:
    import torch

    from sortnet.comparators.make import resolve_device

    devices = ["cpu"]
    try:
        for k in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
            torch.zeros(1, device=f"cuda:{k}").add_(1)
            memory = torch.cuda.get_device_properties(k).total_memory / 2**30
            devices.append(f"cuda:{k} {torch.cuda.get_device_name(k)}, {memory:.0f} GiB")
    except (RuntimeError, AssertionError) as error:  # torch raises either
        reason = " ".join(str(error).split())[:200]
        faults.append(
            f"the GPU cannot be used ({reason}): check its driver, or train with --device cpu"
        )
    return f"{'; '.join(devices)}\n--device auto takes {resolve_device('auto').type}", devices


def _threads(faults: list[str]) -> Look:
    import torch
    from numba import config

    numba: int = config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
    threads = {"torch": torch.get_num_threads(), "numba": numba}
    used = ", ".join(f"{name} {n}" for name, n in threads.items())
    return f"{used} of {cores()} cores", {"cores": cores(), **threads}


def _extras(faults: list[str]) -> Look:
    from packaging.requirements import Requirement

    about = metadata.metadata("sortnet")
    extras = [e for e in about.get_all("Provides-Extra") or [] if e not in ("dev", "docs")]
    wanted = [Requirement(line) for line in metadata.requires("sortnet") or []]
    rows: list[dict[str, Any]] = []
    for extra in extras:
        of_extra = [w.name for w in wanted if w.marker and w.marker.evaluate({"extra": extra})]
        install = f"pip install 'sortnet[{extra}]'"
        rows.append({"name": extra, "present": all(map(_is_there, of_extra)), "install": install})
    lines = [[row["name"], "installed" if row["present"] else row["install"]] for row in rows]
    return "\n".join(table(["", ""], lines, left=2)[1:]), rows


def _is_there(distribution: str) -> bool:
    try:
        metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return False
    return True


def _store(typed: str | None, faults: list[str]) -> Look:
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
        faults.append(f"{error}; choose another with --store or SORTNET_STORE")
    shown = (facts["url"] or "unknown").removeprefix("sqlite:///")
    return f"{shown}\n{text}", facts


def _contents(url: URL, facts: dict[str, Any]) -> str:
    """The contents of the store; raises what `open_store` would."""
    from sqlalchemy import func, select

    from store.database import upgrade
    from store.database.engine import Database
    from store.database.schema import CollectionRow, RunRow

    writable = True
    if url.drivername == "sqlite":
        path = Path(url.database or "")
        facts["exists"] = path.exists()
        home = next(p for p in (*path.absolute().parents, Path("/")) if p.exists())
        writable = all(os.access(p, os.W_OK) for p in (home, path) if p.exists())
        if not facts["exists"]:
            if not writable:
                raise SortNetError(f"store {path}: {home} is not writable")
            return "does not exist yet: sortnet train creates it"
        sizes = [p.stat().st_size for p in (path, Path(f"{path}-wal")) if p.exists()]
        facts["bytes"] = sum(sizes)
    with closing(Database(url, write=False)) as database, database.transaction() as connection:
        facts["exists"] = True
        if database.dialect == "postgresql":
            size = select(func.pg_database_size(func.current_database()))
            facts["bytes"] = connection.execute(size).scalar_one()
        facts["schema"] = found = upgrade.look(connection, name=database.name)
        if found is None:
            return "has no tables yet: sortnet train creates them"
        tables = {"runs": RunRow.__table__, "collections": CollectionRow.__table__}
        for what, table in tables.items():
            facts[what] = connection.execute(select(func.count()).select_from(table)).scalar_one()
    many = ", ".join(count(facts[what], what.removesuffix("s")) for what in tables)
    new = upgrade.NEWEST
    older = "" if found == new else f" (old: the next command that writes makes it {new})"
    reading = "" if writable else "\nread-only: only commands that read work"
    return f"{many}, {facts['bytes'] / 1e6:.1f} MB, schema {found}{older}{reading}"
