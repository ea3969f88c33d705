"""Processes that start at once: forks of a process that has loaded `sortnet`.

`Forked` runs a command of `sortnet`, `ForkedScript` runs Python code.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Self

LOADED = (
    *("fitting_preload", "cli.commands.train", "cli.commands.label", "uvicorn"),
    *("sortnet.judges.program", "cli.terminal.screen", "cli.commands.serve", "cli.web.app"),
    *("cli.web.pages", "cli.web.server", "store.service.labelling", "store.training", "httpx"),
)
# A watcher between the two says how the session ended. The session ends as a process of its own
# does: through the interpreter, with its exit handlers.
SERVER = """
import fcntl, gc, json, os, signal, socket, sys, termios
gc.disable()  # nothing that is imported is rubbish
from importlib import import_module
import cli.__main__
import cli.main

for name in sys.argv[2:]:
    import_module(name)
gc.freeze()  # at their end forks need not look through all that is loaded
gc.enable()
jobs = socket.socket(fileno=int(sys.argv[1]))
while True:
    job, handles, _, _ = socket.recv_fds(jobs, 1 << 18, 4)
    if not job:
        break
    if os.fork():
        for handle in handles:
            os.close(handle)
        try:
            while any(os.waitpid(-1, os.WNOHANG)):
                pass
        except ChildProcessError:  # all have ended
            pass
        continue
    jobs.close()
    *streams, reply = handles
    session = os.fork()
    if session:
        for handle in streams:
            os.close(handle)
        os.write(reply, b"%d\\n" % session)
        _, status = os.waitpid(session, 0)
        os.write(reply, b"%d\\n" % os.waitstatus_to_exitcode(status))
        os._exit(0)
    os.setsid()
    for number, handle in enumerate(streams):
        os.dup2(handle, number)
    os.closerange(3, 1 << 12)
    args, folder, environment, terminal, hangups_are_ignored = json.loads(job)
    signal.signal(signal.SIGHUP, signal.SIG_IGN if hangups_are_ignored else signal.SIG_DFL)
    if terminal:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv[1:] = args[2:] if args[:1] == ["-c"] else args
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)
    sys.stderr = open(2, "w", errors="backslashreplace", closefd=False)
    sys.unraisablehook = cli.__main__._interrupt_again_if_lost
    if args[:1] == ["-c"]:
        sys.exit(exec(compile(args[1], "<script>", "exec"), {"__name__": "__main__"}))
    sys.exit(cli.main.main())
"""


@cache
def _server() -> socket.socket:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        handle = theirs.fileno()
        command = [sys.executable, "-c", SERVER, str(handle), *LOADED]
        path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
        env = os.environ | {"PYTHONPATH": path}
        server = subprocess.Popen(command, pass_fds=[handle], env=env)
    atexit.register(server.wait)
    atexit.register(ours.close)
    return ours


@contextmanager
def hearing_hangups() -> Iterator[None]:
    """Let SIGHUP end the processes that are started in the body, also where nohup ignores it.

    This process goes on when its terminal is closed: its handler does nothing, and a process that
    it starts has none.
    """
    before = signal.getsignal(signal.SIGHUP)
    if before is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda number, frame: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


class Forked:
    """A process that runs a command, with what the tests need of `subprocess.Popen`.

    `terminal`: its stdin is the terminal that it belongs to.
    """

    def __init__(
        self,
        args: Sequence[object],
        streams: Sequence[int],
        env: dict[str, str],
        *,
        terminal: bool = False,
    ) -> None:
        self._reply, theirs = socket.socketpair()
        self.returncode: int | None = None
        self._waiting = threading.RLock()  # the exit code can be read once
        words = [str(arg) for arg in args]
        ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN  # as a child inherits it
        job = json.dumps([words, str(Path.cwd()), env, terminal, ignored]).encode()
        with theirs:
            socket.send_fds(_server(), [job], [*streams, theirs.fileno()])
        self.pid = self._number()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.send_signal(signal.SIGKILL)
        self.wait()

    def poll(self) -> int | None:
        with self._waiting:
            ended = self.returncode is None and select.select([self._reply], [], [], 0)[0]
            return self.wait() if ended else self.returncode

    def wait(self, timeout: float | None = None) -> int:
        with self._waiting:
            if self.returncode is None:
                self._reply.settimeout(timeout)
                self.returncode = self._number()
                self._reply.close()
            return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            # The server may have noticed the end of the process, and not told it yet.
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def _number(self) -> int:
        line = b""
        while not line.endswith(b"\n"):
            line += self._reply.recv(1) or b"?\n"
        return int(line)


class ForkedScript(Forked):
    """A process that runs Python code, with pipes for its text as `subprocess.Popen` has them.

    Its stderr goes to a file, so that nobody has to read stderr while the process runs.
    """

    def __init__(self, code: str, *args: object) -> None:
        its_input, our_output = os.pipe()
        our_input, its_output = os.pipe()
        self._files = ExitStack()
        self.stdin = self._files.enter_context(os.fdopen(our_output, "w"))
        self.stdout = self._files.enter_context(os.fdopen(our_input))
        errors, name = tempfile.mkstemp()
        Path(name).unlink()
        self._errors = self._files.enter_context(os.fdopen(errors, "w+"))
        streams = [its_input, its_output, errors]
        try:
            super().__init__(["-c", code, *args], streams, dict(os.environ))
        finally:
            os.close(its_input)
            os.close(its_output)

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self._files.close()

    def communicate(self) -> tuple[str, str]:
        """Wait until the process has ended, and return its stdout and stderr."""
        self.stdin.close()
        output = self.stdout.read()
        self.wait()
        self._errors.seek(0)
        errors = self._errors.read()
        self._files.close()
        return output, errors


def exit_code_of(code: str, *args: object) -> int:
    """The exit code of Python code in a process of its own, or minus the signal that ended it."""
    with ForkedScript(code, *args) as process:
        return process.wait()
