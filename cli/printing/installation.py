"""Results of `sortnet doctor`: the checks of an installation, and a converted store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cli.printing.results import Bold, Facts, Result
from sortnet.messages import count

if TYPE_CHECKING:
    from store.database.conversion import Converted
    from store.service.installation import Installation


def installation_result(installation: Installation) -> Result:
    """Make the result with a few lines for each check, and a line for each fault."""
    faults = list(installation.faults)
    value = {
        "ok": not faults,
        "sortnet": installation.version,
        "devices": installation.devices,
        "threads": installation.threads,
        "extras": installation.extras,
        "store": installation.store,
        "faults": faults,
    }
    n_libraries = dict(installation.threads)
    n_cores = n_libraries.pop("cores")
    threads = ", ".join(f"{name} {n}" for name, n in n_libraries.items())
    extras = [
        f"{extra['name']}: {'installed' if extra['present'] else extra['install']}"
        for extra in installation.extras
    ]
    devices = "; ".join(installation.devices)
    store = (installation.store["url"] or "unknown").removeprefix("sqlite:///")
    facts = {
        "sortnet": [f"{installation.version}, {installation.system}", installation.executable],
        "devices": [devices, f"device=auto takes {installation.auto_device}"],
        "threads": f"{threads} of {n_cores} cores",
        "extras": extras,
        "store": [store, *_store_lines(installation)],
    }
    verdict = ["everything that SortNet needs works"]
    if faults:
        subject = "one thing is" if len(faults) == 1 else f"{len(faults)} things are"
        verdict = [Bold(f"{subject} broken:"), *(f"- {fault}" for fault in faults)]
    return Result("installation", value, text=[Facts(facts), "", *verdict])


def _store_lines(installation: Installation) -> list[str]:
    """Tell what is in the store, or why it cannot be used."""
    facts = installation.store
    if facts["problem"] is not None:
        return ["cannot be used"]
    if not facts["exists"]:
        return ["does not exist yet: sortnet train creates it"]
    if facts["schema"] is None:
        return ["has no tables yet: sortnet train creates them"]
    contents = f"{count(facts['runs'], 'run')}, {count(facts['collections'], 'collection')}"
    lines = [f"{contents}, {facts['bytes'] / 1e6:.1f} MB, schema {facts['schema']}"]
    if not installation.is_store_writable:
        lines.append("read-only: only commands that read work")
    return lines


def conversion_result(converted: Converted) -> Result:
    """Make the result with what was brought to the new store, and a note about the runs."""
    rows = converted.rows
    brought = {
        "collections": rows["collections"] - converted.criteria,
        "criteria": converted.criteria,
        "items": rows["items"],
        "annotators": rows["annotators"],
        "judgements": rows["judgements"],
        "decisions": rows["decisions"],
        "batches": rows["batches"],
    }
    value = {
        "old": converted.old,
        "new": converted.new,
        "brought": brought,
        "runs_not_converted": converted.runs,
    }
    lines = [f"{converted.new}: brought from {converted.old}"]
    lines += [f"  {n} {name}" for name, n in brought.items()]
    runs = f"runs are not converted: {converted.old} keeps {count(converted.runs, 'run')}"
    return Result("converted", value, text=lines, notes=[runs])
