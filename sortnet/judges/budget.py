"""Calls, tokens and cost of a language model so far, and their limits."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace

from sortnet.judges.limits import Limits
from sortnet.judges.prices import Price, amount
from sortnet.judges.verdicts import Enough
from sortnet.messages import count


def exceeded_limit(
    limits: Limits, *, calls: int, tokens: int, cost: float | None, currency: str | None
) -> str:
    """Describe the limit that the calls, tokens or cost exceed; empty if they exceed none.

    >>> exceeded_limit(Limits(max_calls=3), calls=4, tokens=900, cost=None, currency=None)
    'the limit of 3 calls'
    """
    if limits.max_calls is not None and calls > limits.max_calls:
        return f"the limit of {count(limits.max_calls, 'call')}"
    if limits.max_tokens is not None and tokens > limits.max_tokens:
        return f"the limit of {count(limits.max_tokens, 'token')}"
    if limits.max_cost is not None and cost is not None and cost > limits.max_cost:
        return f"the limit of the cost, {amount(limits.max_cost, currency)},"
    return ""


@dataclass
class Budget:
    """Calls, tokens and cost of a language model so far, and their limits. Thread-safe.

    Attributes:
        limits: limits after which no call may be made.
        price: price of the tokens.
        calls: number of calls so far.
        tokens_in: number of tokens in the prompts so far.
        tokens_out: number of tokens in the answers so far.

    >>> budget = Budget(Limits(max_calls=2), Price(3.0))
    >>> budget.call()
    >>> budget.add(1_000_000, 7)
    >>> budget.cost, budget.is_spent
    (3.0, False)
    """

    limits: Limits = field(default_factory=Limits)
    price: Price = field(default_factory=Price)
    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def lower_limit(self, max_calls: int) -> None:
        """Allow at most `max_calls` calls, if the limit is not lower yet."""
        limit = self.limits.max_calls
        lowest = max_calls if limit is None else min(limit, max_calls)
        self.limits = replace(self.limits, max_calls=max(lowest, 0))

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
        return self.price.of(tokens_in, tokens_out)

    @property
    def cost(self) -> float | None:
        """Cost of all calls so far; None if no price is known."""
        return self.cost_of(self.tokens_in, self.tokens_out)

    @property
    def currency(self) -> str | None:
        """Currency of the cost; None if it is not known."""
        return self.price.currency

    @property
    def is_spent(self) -> bool:
        """Whether no more calls may be made."""
        return bool(self.why())

    def why(self) -> str:
        """Return a sentence about the limit that is reached; empty if more calls may be made."""
        limits = self.limits
        if limits.max_calls is not None and self.calls >= limits.max_calls:
            return f"the limit of {count(limits.max_calls, 'call')} is reached"
        tokens = self.tokens_in + self.tokens_out
        if limits.max_tokens is not None and tokens >= limits.max_tokens:
            return f"the limit of {limits.max_tokens:,} tokens is reached: {tokens:,} were used"
        cost = self.cost
        if limits.max_cost is not None and cost is not None and cost >= limits.max_cost:
            limit = amount(limits.max_cost, self.currency)
            spent = amount(cost, self.currency)
            return f"the limit of the cost, {limit}, is reached: {spent} was spent"
        return ""

    def text(self) -> str:
        """Describe the calls, tokens and cost so far."""
        parts = [count(self.calls, "call"), f"{self.tokens_in + self.tokens_out:,} tokens"]
        if self.cost is not None:
            parts.append(f"{amount(self.cost, self.currency)} spent")
        return ", ".join(parts)
