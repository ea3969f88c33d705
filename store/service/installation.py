"""Check the installation: devices, threads, optional extras and the store."""

from __future__ import annotations

import os
import platform
import sys
from contextlib import closing
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from sortnet import __version__
from sortnet.core import Progress
from sortnet.errors import SortNetError
from sortnet.files import Record
from sortnet.threads import cores, kernel_threads

if TYPE_CHECKING:
    from sqlalchemy import URL

    from store.database.engine import StoreAddress

_FACTS_OF_STORE = (
    *("url", "exists", "writable", "schema", "runs", "collections", "bytes", "problem"),
)


def check_installation(store: StoreAddress, progress: Progress) -> Record:
    """Check devices, threads, extras and the store; nothing is changed, and no store is created.

    Returns:
        Facts for JSON: `ok` tells whether there are no `faults`, which have a line each with the
        next step. `system` is Python and the system that it runs on, `executable` the path of
        Python. `devices` are the devices that work, the CPU first; `auto_device` is the device that
        the setting `auto` chooses. `threads` has the number of `cores`, and the number of threads
        of `torch` and of `numba`. `extras` has a row for each optional extra: its `name`, whether
        it is `present`, and the command to `install` it. The facts of `store` that are not known
        are None.
    """
    import torch

    from sortnet.comparators.make import resolve_device

    faults: list[str] = []
    progress("checking devices")
    devices = _working_devices(faults)
    n_threads = {"cores": cores(), "torch": torch.get_num_threads(), "numba": kernel_threads()}
    progress("checking extras and store")
    facts_of_store = _facts_of_store(store, faults)
    return {
        "ok": not faults,
        "sortnet": __version__,
        "system": f"Python {platform.python_version()} on {platform.system()} {platform.machine()}",
        "executable": sys.executable,
        "devices": devices,
        "auto_device": str(resolve_device("auto").type),
        "threads": n_threads,
        "extras": _extras(),
        "store": facts_of_store,
        "faults": faults,
    }


def _working_devices(faults: list[str]) -> list[str]:
    """Name the CPU and each GPU that can compute; add a line to `faults` if a GPU cannot."""
    import torch

    devices = ["cpu"]
    try:
        n_gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
        for number in range(n_gpus):
            torch.zeros(1, device=f"cuda:{number}").add_(1)  # fails if the GPU cannot compute
            gibibytes = torch.cuda.get_device_properties(number).total_memory / 2**30
            name = torch.cuda.get_device_name(number)
            devices.append(f"cuda:{number} {name}, {gibibytes:.0f} GiB")
    except (RuntimeError, AssertionError) as error:  # torch raises one or the other
        reason = " ".join(str(error).split())[:200]
        faults.append(
            f"the GPU cannot be used ({reason}): check its driver, or train with --set device=cpu"
        )
    return devices


def _extras() -> list[Record]:
    """Return a row for each optional extra: its name, its presence, and how to install it."""
    from packaging.requirements import Requirement

    requirements = [Requirement(line) for line in metadata.requires("sortnet") or []]
    rows: list[Record] = []
    for name in metadata.metadata("sortnet").get_all("Provides-Extra") or []:
        needed = [
            requirement.name
            for requirement in requirements
            if requirement.marker and requirement.marker.evaluate({"extra": name})
        ]
        if name not in ("dev", "docs"):  # these are for developers
            install = f"pip install 'sortnet[{name}]'"
            is_present = all(map(_is_installed, needed))
            rows.append({"name": name, "present": is_present, "install": install})
    return rows


def _is_installed(distribution: str) -> bool:
    """Tell whether a distribution (a package of the package index) is installed."""
    try:
        metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return False
    return True


def _facts_of_store(url: StoreAddress, faults: list[str]) -> Record:
    """Return the facts about the store; if it cannot be opened, add a line to `faults`."""
    facts: Record = dict.fromkeys(_FACTS_OF_STORE)
    try:
        from store.database.engine import parse_url, stored_url

        parsed = parse_url(url)
        facts["url"] = stored_url(parsed)
        if parsed.drivername == "sqlite":
            _add_facts_of_file(parsed, facts)
        is_missing_file = facts["exists"] is False  # None: the store is on a server
        if not is_missing_file:
            _add_facts_of_tables(parsed, facts)
    except (SortNetError, ImportError) as error:
        facts["problem"] = str(error)
        advice = "; choose another with --store or SORTNET_STORE"
        faults.append(str(error) if "--store" in str(error) else f"{error}{advice}")
    return facts


def _add_facts_of_file(url: URL, facts: Record) -> None:
    """Add to `facts` whether a store's file exists and can be written, and its size.

    Raises:
        SortNetError: if there is no file, and the file cannot be created.
    """
    file = Path(url.database or "")
    facts["exists"] = file.exists()
    # A new file would be created in the nearest folder that exists.
    folders = (*file.absolute().parents, Path("/"))
    folder = next(folder for folder in folders if folder.exists())
    facts["writable"] = os.access(folder, os.W_OK)
    if not file.exists():
        if not facts["writable"]:
            raise SortNetError(f"store {file}: {folder} is not writable")
        return
    files = (file, Path(f"{file}-wal"))  # SQLite's write-ahead log has the newest data
    facts["bytes"] = sum(path.stat().st_size for path in files if path.exists())
    facts["writable"] &= os.access(file, os.W_OK)


def _add_facts_of_tables(url: URL, facts: Record) -> None:
    """Add to `facts` the schema of a store, and its numbers of runs and collections.

    Raises:
        SortNetError: if the store cannot be opened.
    """
    from sqlalchemy import func, select

    from store.database.engine import Database
    from store.database.revision import checked_revision
    from store.database.schema import CollectionRow, RunRow

    with closing(Database(url, write=False)) as database, database.transaction() as connection:
        facts["exists"] = True
        if database.dialect == "postgresql":
            size = select(func.pg_database_size(func.current_database()))
            facts["bytes"] = connection.execute(size).scalar_one()
        facts["schema"] = checked_revision(connection, name=database.name)
        if facts["schema"] is None:  # the database has no tables of SortNet yet
            return
        tables = {"runs": RunRow.__table__, "collections": CollectionRow.__table__}
        for name, table in tables.items():
            facts[name] = connection.execute(select(func.count()).select_from(table)).scalar_one()
