"""What an annotator has answered: one summary at the end of `label`, `sort` and a training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sortnet.judges.budget import amount
from sortnet.judges.unanswered import skipped_text


@dataclass(frozen=True)
class AnswerSummary:
    """The answers of an annotator, in one call or process and in all.

    Attributes:
        answered: number of answers now, without skips.
        in_all: number of the annotator's answers that are stored.
        skipped: {reason: number of skips now}.
        failed: number of questions that got no answer now, and may be asked again.
        spent: calls, tokens and cost of a language model now; empty for others.
        spent_text: what was spent now, in words.

    >>> AnswerSummary(3, 5, {"filtered": 1}).text
    '3 answered, 5 in all, 1 skipped (1 filtered)'
    """

    answered: int
    in_all: int
    skipped: Mapping[str, int] = field(default_factory=dict)
    failed: int = 0
    spent: Mapping[str, Any] = field(default_factory=dict)
    spent_text: str = field(default="", repr=False)

    @property
    def facts(self) -> dict[str, Any]:
        """The summary for JSON."""
        return {
            "answered": self.answered,
            "in_all": self.in_all,
            "skipped": dict(self.skipped),
            "failed": self.failed,
            **self.spent,
        }

    @property
    def text(self) -> str:
        """The summary in words; numbers of skips and failures only if there are any."""
        texts = [f"{self.answered:,} answered", f"{self.in_all:,} in all"]
        if self.skipped:
            texts.append(skipped_text(self.skipped))
        if self.failed:
            texts.append(f"{self.failed:,} failed")
        if self.spent_text:
            texts.append(self.spent_text)
        return ", ".join(texts)


def cost_text(cost_in_all: float | None) -> str:
    """Tell what all stored answers cost; empty if no cost is known.

    >>> cost_text(0.02), cost_text(None)
    ('all answers cost 0.02', '')
    """
    return "" if cost_in_all is None else f"all answers cost {amount(cost_in_all)}"
