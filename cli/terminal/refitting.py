"""A desk's model kept up with the answers, so that who answers never waits for it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sortnet.preference.intervals import Ranking, Remaining
    from store.service.labelling import LabellingService

# Seconds for which a fit may keep the interpreter from a thread that answers. An answer asks for
# it some fifty times, at each step of the database.
_TURN = 0.0005


@contextmanager
def short_turns() -> Iterator[None]:
    """Whoever answers soon gets the interpreter from who computes."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(_TURN)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


_AHEAD = 20  # answers, at the least, that a program may give before the model has learned


class Refitting:
    """Fits at once where that cannot be felt, else in a thread, one fit at a time.

    Args:
        goal: share of pairs that may still be expected in the wrong order; None for the default.
        wait: whether to wait for the first fit, however long it takes.

    Attributes:
        ranking, remaining: as of the last fit.
        known: whether there was a fit yet.
        fault: what went wrong in the thread, if anything did.
    """

    def __init__(
        self, desk: LabellingService, *, goal: float | None = None, wait: bool = True
    ) -> None:
        self._desk, self._goal = desk, goal
        self._thread: threading.Thread | None = None
        self.known, self.fault = False, ""
        if wait:
            self._fit()
        else:
            self._look()
            self.update()

    def update(self) -> None:
        """Let the answers that came since the last fit count, now or soon."""
        if self._desk.session.quick:
            self._fit()
        elif self._desk.session.stale and not (self._thread and self._thread.is_alive()):
            # A daemon: who leaves does not wait for a fit that leaves nothing behind.
            self._thread = threading.Thread(target=self._fit_aside, daemon=True)
            self._thread.start()

    def keep_up(self) -> None:
        """As `update`, for programs: who answers faster than the model learns waits for it."""
        self.update()
        session = self._desk.session
        if session.behind > max(_AHEAD, session.events // 20):
            self.settle()

    def settle(self) -> None:
        """Wait until every answer counts."""
        if self._thread is not None:
            self._thread.join()
        if self._desk.session.stale:
            self._fit()

    def _fit(self) -> None:
        self._desk.session.refit()
        self._look()
        self.known = True

    def _look(self) -> None:
        """What the last fit says."""
        session = self._desk.session
        if self._goal is not None:
            session.goal = self._goal  # here, since a desk begins a new session for new items
        self.ranking: Ranking = session.ranking(fresh=False)
        self.remaining: Remaining = session.remaining(fresh=False)

    def _fit_aside(self) -> None:
        try:
            with short_turns():
                self._fit()
            self.fault = ""
        except Exception as error:  # whatever it is: the answers must go on coming in
            self.fault = f"{type(error).__name__}: {error}"


@contextmanager
def desk_of(
    store: str | None, name: str, *, lease_seconds: float = 600, write: bool = False
) -> Iterator[LabellingService]:
    """The desk of a collection, as commands name it."""
    from cli.commands.items import MAKER
    from cli.commands.runs import open_existing
    from store.service.labelling import LabellingService

    with open_existing(store, MAKER, write=write) as opened:
        yield LabellingService(opened.collection(name), lease_seconds=lease_seconds)
