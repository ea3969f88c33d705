"""Close connections that send nothing, or an incomplete request, after a timeout."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


class Impatient(H11Protocol):
    """uvicorn's HTTP/1.1 protocol with a timeout for the request head, which uvicorn lacks.

    Args:
        patience: timeout in seconds for a request head, from the start of the connection or from
            the last request. `cli.web.guard` limits the time of the body.
    """

    def __init__(self, *args: Any, patience: float, **options: Any) -> None:
        super().__init__(*args, **options)
        self._patience = patience
        self._waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait_or_not()

    def handle_events(self) -> None:
        super().handle_events()
        self._wait_or_not()

    def connection_lost(self, error: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(error)

    def _wait_or_not(self) -> None:
        if self.conn.their_state is not h11.IDLE:
            self._stop_waiting()
        elif self._waiting is None and not self.transport.is_closing():
            self._waiting = self.loop.call_later(self._patience, self.timeout_keep_alive_handler)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
