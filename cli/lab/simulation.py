"""A simulation of annotators: its protocol, and the figures of every strategy by questions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sortnet.core import Progress

if TYPE_CHECKING:
    import pandas as pd

# Budgets of the ASAP paper (half a trial, one, three), of features and of recorded votes.
_PAPER = (0.5, 1, 3)
_FEATURES = (25, 50, 100, 200, 400)
_FIGURES = ("spearman", "rmse", "ms")
_VOTES = (25, 50, 100, 200, 400, 800, 1600, 3200)
USUAL = {
    "ids": ("default", "random", "quicksort", "merge-sort"),
    "features": ("default", "random", "merge-sort"),
    "votes": ("default", "random"),
}  # strategies of each protocol
_USUAL_OF_TOP = ("top", "default", "random", "heapsort", "quicksort", "bubble")


@dataclass(frozen=True)
class Simulation:
    """A simulation of annotators.

    Attributes:
        protocol: `ids`, `features` or `votes`.
        n: items.
        d: features, of the protocol `features`.
        outside: share of the scores' variance that the features do not explain.
        top: best items wanted; 0: all, in order.
        budgets: numbers of questions after which the ranking is evaluated; none: the usual ones.
        strategies: none: the usual ones of the protocol.
        seeds: repetitions.
        votes_file, items_file, by: recorded votes, of the protocol `votes`.
    """

    protocol: str
    n: int
    d: int
    outside: float
    top: int
    budgets: tuple[int, ...]
    strategies: tuple[str, ...]
    seeds: int
    seed: int
    jobs: int
    votes_file: str | None
    items_file: str | None
    by: str | None

    def __post_init__(self) -> None:
        if self.top and self.protocol == "votes":
            raise click.UsageError("--top is for true scores, which the protocol votes has not")

    def run(self, progress: Progress) -> pd.DataFrame:
        """A row for each strategy and number of questions: means with standard errors.

        Raises:
            SortNetError: if the files of votes cannot be used, or there is no such strategy.
        """
        if self.protocol == "votes":
            return self._from_votes(progress)
        from sortnet.lab.simulated_annotators import simulate, summary

        features: dict[str, Any] = {}
        if self.protocol == "features":
            features = {"d": self.d, "outside": self.outside}
        results = simulate(
            self._strategies(),
            self.budgets or self._usual_budgets(),
            n=self.n,
            top=self.top,
            **features,
            **self._common(progress),
        )
        figures = ("top", *_FIGURES) if self.top else _FIGURES
        return summary(results, figures, ("strategy", "questions"))

    @property
    def title(self) -> str:
        """The title of a plot of the simulation."""
        times = f"{self.seeds} seeds" if self.seeds > 1 else "one seed"
        if self.protocol == "ids":
            return f"{self.n} items without features, {times}"
        if self.protocol == "votes":
            return f"Pairs predicted from recorded votes, {times}"
        share = f", {self.outside:.0%} of the variance not explained" if self.outside else ""
        return f"{self.n} items with {self.d} features{share}, {times}"

    def _from_votes(self, progress: Progress) -> pd.DataFrame:
        import numpy as np

        from cli.inputs.votes import read_votes
        from sortnet.items import describe, read_items
        from sortnet.lab.recorded_votes import simulate_votes
        from sortnet.lab.simulated_annotators import pairs_of_a_question, summary

        if self.votes_file is None or self.items_file is None:
            raise click.UsageError("the protocol votes needs --votes FILE and --items-file FILE")
        items = read_items(self.items_file, features=())
        votes, group = read_votes(Path(self.votes_file), items, self.by)
        features = describe(items, progress=progress).features.astype("float64")
        n_votes = len(votes) if group is None else int(np.bincount(group).min())
        most = n_votes // 2 // pairs_of_a_question(self._strategies())
        usual = tuple(budget for budget in _VOTES if budget <= most) or (max(1, most),)
        results = simulate_votes(
            features,
            votes,
            self._strategies(),
            self.budgets or usual,
            group=group,
            **self._common(progress),
        )
        return summary(results, ("accuracy",), ("strategy", "questions"))

    def _common(self, progress: Progress) -> dict[str, Any]:
        return {"seeds": self.seeds, "seed": self.seed, "jobs": self.jobs, "progress": progress}

    def _strategies(self) -> tuple[str, ...]:
        return self.strategies or (_USUAL_OF_TOP if self.top else USUAL[self.protocol])

    def _usual_budgets(self) -> tuple[int, ...]:
        from sortnet.lab.simulated_annotators import most_questions

        trial, most = self.n * (self.n - 1) / 2, most_questions(self._strategies(), self.n)
        if self.protocol == "ids":
            budgets = (max(1, round(share * trial)) for share in _PAPER)
            return tuple(sorted({min(budget, most) for budget in budgets}))
        return tuple(budget for budget in _FEATURES if budget <= most) or (most,)
