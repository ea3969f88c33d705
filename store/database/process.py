"""The process of a run, a lease or a server, and whether it is still alive."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

_BOOT = Path("/proc/sys/kernel/random/boot_id")


class Process(NamedTuple):
    """A process as it is stored in the tables of runs, leases and servers.

    Attributes:
        host: name of its machine.
        pid: None in rows of a version that stored no process.
        process_start: see the function `process_start`; None in rows of a version that stored no
            start, and if the system does not tell it.
    """

    host: str | None
    pid: int | None
    process_start: str | None

    @classmethod
    def of(cls, row: Any) -> Process:
        """The process in a row's columns."""
        return cls(row.host, row.pid, row.process_start)

    @classmethod
    def here(cls) -> Process:
        """This process."""
        pid = os.getpid()
        return cls(socket.gethostname(), pid, process_start(pid))

    def has_ended(self) -> bool:
        """Whether the process has certainly ended; False on another host, which nobody can tell."""
        if self.host != socket.gethostname() or self.pid is None:
            return False
        start = process_start(self.pid)
        if start is not None and self.process_start is not None and start != self.process_start:
            return True  # another process has the same number now
        return not is_process(self.pid)


def this_process() -> dict[str, Any]:
    """Host, pid and start of this process, as the columns of a row."""
    return Process.here()._asdict()


def status_of(row: Any) -> str:
    """A run's status; `killed` if its row says `running` and its process has ended."""
    if row.status == "running" and Process.of(row).has_ended():
        return "killed"
    return str(row.status)


def in_words(status: str, host: str | None) -> str:
    """The status, with the host's name if the run is running elsewhere.

    >>> in_words("running", "another-host"), in_words("done", "another-host")
    ('running on another-host', 'done')
    """
    elsewhere = status == "running" and host not in (None, socket.gethostname())
    return f"{status} on {host}" if elsewhere else status


def is_process(pid: int) -> bool:
    """Whether a process with this number runs on this machine."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # a process of another user
    return process_start(pid) != "ended"


def process_start(pid: int) -> str | None:
    """The start of a process, as a text that no other process of the same number has.

    `ended` for a zombie; None if the system does not tell it.
    """
    with suppress(OSError, IndexError):
        # The name of the program, in brackets, may hold spaces and brackets.
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        facts = stat.rpartition(")")[2].split()
        state, ticks_since_boot = facts[0], facts[19]
        if state in ("Z", "X"):
            return "ended"
        return f"{_BOOT.read_text().strip()} {ticks_since_boot}"
    return None
