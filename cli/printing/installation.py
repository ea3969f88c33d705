"""Result of `sortnet doctor`: the checks of an installation, and the faults found."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from cli.console import table
from cli.printing.results import Bold, Result
from sortnet.messages import count

if TYPE_CHECKING:
    from store.service.installation import Installation

_LABEL_WIDTH = 10  # characters
_WIDTH = 80  # characters of a line, the label included


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
    return Result("installation", value, text=[*_check_lines(installation), "", *_verdict(faults)])


def _check_lines(installation: Installation) -> list[str]:
    """Write the text of each check, wrapped beside its label."""
    texts = {
        "sortnet": f"{installation.version}, {installation.system}\n{installation.executable}",
        "devices": _devices_text(installation),
        "threads": _threads_text(installation),
        "extras": _extras_text(installation),
        "store": _store_text(installation),
    }
    # A path is not broken across lines, because it could not be copied from the terminal then.
    wrapper = textwrap.TextWrapper(
        _WIDTH - _LABEL_WIDTH, break_long_words=False, break_on_hyphens=False
    )
    lines = list[str]()
    for name, text in texts.items():
        wrapped = list[str]()
        for paragraph in text.split("\n"):
            wrapped += wrapper.wrap(paragraph)
        label = name
        for line in wrapped:
            lines.append(f"{label:{_LABEL_WIDTH}}{line}")
            label = ""  # only the first line has the label
    return lines


def _verdict(faults: list[str]) -> list[str]:
    """List the faults under a headline, or say that everything works."""
    if not faults:
        return ["everything that SortNet needs works"]
    subject = "one thing is" if len(faults) == 1 else f"{len(faults)} things are"
    return [Bold(f"{subject} broken:"), *(f"- {fault}" for fault in faults)]


def _devices_text(installation: Installation) -> str:
    """List the devices, and name the device that is used by default."""
    devices = "; ".join(installation.devices)
    return f"{devices}\ndevice=auto takes {installation.auto_device}"


def _threads_text(installation: Installation) -> str:
    """Tell how many threads each library uses, and how many cores the machine has."""
    threads = dict(installation.threads)
    n_cores = threads.pop("cores")
    used = ", ".join(f"{name} {n}" for name, n in threads.items())
    return f"{used} of {n_cores} cores"


def _extras_text(installation: Installation) -> str:
    """Tell for each extra whether it is installed, or which command installs it."""
    rows = []
    for extra in installation.extras:
        state = "installed" if extra["present"] else extra["install"]
        rows.append([extra["name"], state])
    _, *lines = table(["", ""], rows, left=2)  # the header is empty
    return "\n".join(lines)


def _store_text(installation: Installation) -> str:
    """Name the store, and tell what is in it."""
    url = (installation.store["url"] or "unknown").removeprefix("sqlite:///")
    return f"{url}\n{_store_contents(installation)}"


def _store_contents(installation: Installation) -> str:
    """Tell what is in the store, its size and its schema version, or why it cannot be used."""
    facts = installation.store
    if facts["problem"] is not None:
        return "cannot be used"
    if not facts["exists"]:
        return "does not exist yet: sortnet train creates it"
    if facts["schema"] is None:
        return "has no tables yet: sortnet train creates them"
    contents = f"{count(facts['runs'], 'run')}, {count(facts['collections'], 'collection')}"
    size = f"{facts['bytes'] / 1e6:.1f} MB"
    restriction = ""
    if not installation.is_store_writable:
        restriction = "\nread-only: only commands that read work"
    return f"{contents}, {size}, schema {facts['schema']}{restriction}"
