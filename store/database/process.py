"""Describe the process of a run, a lease or a server, and tell whether it is still alive."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Process(NamedTuple):
    """A process as it is stored in the tables of runs, leases and servers.

    Attributes:
        host: name of the machine.
        pid: number of the process; None in rows of a version that stored no process.
        process_start: the start of the process, see the function `process_start`; None in rows of a
            version that stored no start, and if the system does not tell the start.
    """

    host: str | None
    pid: int | None
    process_start: str | None

    @classmethod
    def of(cls, row: Any) -> Process:
        """Read the process from the columns of a row."""
        return cls(row.host, row.pid, row.process_start)

    @classmethod
    def here(cls) -> Process:
        """Return the process in which this code runs."""
        pid = os.getpid()
        return cls(socket.gethostname(), pid, process_start(pid))

    def has_ended(self) -> bool:
        """Whether the process has certainly ended; False for a process on another host."""
        if self.host != socket.gethostname() or self.pid is None:
            return False
        start = process_start(self.pid)
        are_starts_known = None not in (start, self.process_start)
        if are_starts_known and start != self.process_start:
            return True  # a later process has got the same number
        return not is_process(self.pid)


def this_process() -> dict[str, Any]:
    """Return {column: value} with the host, the number and the start of this process."""
    return Process.here()._asdict()


def status_of(row: Any) -> str:
    """Return the status of a run's row, or `killed` if a running run's process has ended."""
    if row.status == "running" and Process.of(row).has_ended():
        return "killed"
    return str(row.status)


def in_words(status: str, host: str | None) -> str:
    """Return the text of a run's status, with the host's name if the run runs on another host.

    >>> in_words("running", "another-host"), in_words("done", "another-host")
    ('running on another-host', 'done')
    """
    is_on_other_host = status == "running" and host not in (None, socket.gethostname())
    return f"{status} on {host}" if is_on_other_host else status


def is_process(pid: int) -> bool:
    """Whether a process with this number runs on this machine."""
    try:
        os.kill(pid, 0)  # the signal 0 only checks that the process exists
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # the process exists, and is another user's
    return process_start(pid) != "ended"


def process_start(pid: int) -> str | None:
    """Return a text that identifies the time at which a process was started.

    The time tells a process from a later process with the same number. The text is `ended` for a
    process that has ended but is still listed, and None if the system does not tell the time.
    """
    with suppress(OSError, IndexError):
        # See `man 5 proc`. Field 2, the name of the program, is in brackets. It may have spaces and
        # brackets itself, so the text is divided at its last bracket.
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        _, _, text_from_field_3 = stat.rpartition(")")
        fields = text_from_field_3.split()
        state = fields[0]
        ticks_since_boot = fields[22 - 3]  # field 22 is the time of the start
        if state in ("Z", "X"):  # zombie, dead
            return "ended"
        boot_id = _BOOT_ID.read_text().strip()  # another text after each start of the machine
        return f"{boot_id} {ticks_since_boot}"
    return None
