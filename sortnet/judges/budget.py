"""Calls, tokens and cost of a language model so far, and their limits."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import numpy as np

from sortnet.judges.verdicts import Enough
from sortnet.messages import count


@dataclass
class Budget:
    """Calls, tokens and cost of a judge so far, and their limits. Thread-safe.

    Attributes:
        max_calls: largest number of calls; None: no limit.
        max_cost: largest cost; None: no limit.
        price_in: price of a million tokens of prompts; None: not known.
        price_out: price of a million tokens of answers; None: not known.
        calls: number of calls so far.
        tokens_in: number of tokens in the prompts so far.
        tokens_out: number of tokens in the answers so far.

    >>> budget = Budget(max_calls=2, price_in=3.0)
    >>> budget.call()
    >>> budget.add(1_000_000, 7)
    >>> budget.cost, budget.why()
    (3.0, '')
    """

    max_calls: int | None = None
    max_cost: float | None = None
    price_in: float | None = None
    price_out: float | None = None
    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def lower_limit(self, max_calls: int) -> None:
        """Allow at most `max_calls` calls, if the limit is not lower yet."""
        lowest = max_calls if self.max_calls is None else min(self.max_calls, max_calls)
        self.max_calls = max(lowest, 0)

    def call(self) -> None:
        """Count a call that is about to be made.

        Raises:
            Enough: if a limit is reached, so that the call may not be made.
        """
        with self._lock:
            reached_limit = self.why()
            if reached_limit:
                raise Enough(reached_limit)
            self.calls += 1

    def add(self, tokens_in: int, tokens_out: int) -> None:
        """Count the tokens of a call."""
        with self._lock:
            self.tokens_in += tokens_in
            self.tokens_out += tokens_out

    def cost_of(self, tokens_in: int, tokens_out: int) -> float | None:
        """Return the cost of tokens of prompts and of answers; None if no price is known."""
        if self.price_in is None and self.price_out is None:
            return None
        return (tokens_in * (self.price_in or 0) + tokens_out * (self.price_out or 0)) / 1e6

    @property
    def cost(self) -> float | None:
        """Cost of all calls so far; None if no price is known."""
        return self.cost_of(self.tokens_in, self.tokens_out)

    def why(self) -> str:
        """Return a sentence about the limit that is reached; empty if more calls may be made."""
        if self.max_calls is not None and self.calls >= self.max_calls:
            return f"the limit of {count(self.max_calls, 'call')} is reached"
        cost = self.cost
        if self.max_cost is not None and cost is not None and cost >= self.max_cost:
            limit = amount(self.max_cost)
            return f"the limit of the cost, {limit}, is reached: {amount(cost)} was spent"
        return ""

    def text(self) -> str:
        """Describe the calls, tokens and cost so far."""
        texts = [count(self.calls, "call"), f"{self.tokens_in + self.tokens_out:,} tokens"]
        if self.cost is not None:
            texts.append(f"{amount(self.cost)} spent")
        return ", ".join(texts)


def amount(cost: float) -> str:
    """Format a cost without an exponent.

    >>> amount(0.01234567), amount(7.305e-05), amount(123456.789)
    ('0.01235', '0.000073', '123,456.79')
    """
    if cost >= 1000:
        return f"{cost:,.2f}"
    if 0 < cost < 1e-4:
        return np.format_float_positional(cost, precision=2, fractional=False, trim="-")
    return f"{cost:.4g}"
