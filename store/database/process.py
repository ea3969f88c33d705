"""The process of a run, and whether it is still alive."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

_BOOT = Path("/proc/sys/kernel/random/boot_id")


def this_process() -> dict[str, Any]:
    """Host, pid and start of this process, as stored in the table of runs."""
    return {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "process_start": process_start(os.getpid()),
    }


def status_of(row: Any) -> str:
    """A run's status; `killed` if its row says `running` and its process is gone.

    The row of another host, or of a version that stored no process, is taken as it is.
    """
    if row.status != "running" or row.host != socket.gethostname() or row.pid is None:
        return str(row.status)
    start = process_start(row.pid)
    same = start == row.process_start or None in (start, row.process_start)
    return "running" if same and is_process(row.pid) else "killed"


def in_words(status: str, host: str | None) -> str:
    """The status, with the host's name if the run is running elsewhere.

    >>> in_words("running", "another-host"), in_words("done", "another-host")
    ('running on another-host', 'done')
    """
    elsewhere = status == "running" and host not in (None, socket.gethostname())
    return f"{status} on {host}" if elsewhere else status


def is_process(pid: int) -> bool:
    """Whether a process of that number is running on this machine."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # another user's
    return process_start(pid) != "ended"


def process_start(pid: int) -> str | None:
    """When a process started, as a text that no other process of its number has.

    `ended` for a zombie; None if the system does not say.
    """
    with suppress(OSError, IndexError):
        # The name of the program, in brackets, may hold anything.
        facts = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return "ended" if facts[0] in "ZX" else f"{_BOOT.read_text().strip()} {facts[19]}"
    return None
