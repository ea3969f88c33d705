"""Run a simulation of annotators, as `sortnet experiment simulate` describes it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sortnet.core import Progress

if TYPE_CHECKING:
    import pandas as pd

# Numbers of questions after which each protocol is measured if the user names none. The numbers of
# `ids` are in trials: as in the ASAP paper, a trial asks about each pair once.
_TRIALS = (0.5, 1, 3)
_FEATURES_BUDGETS = (25, 50, 100, 200, 400)
_VOTES_BUDGETS = (25, 50, 100, 200, 400, 800, 1600, 3200)
_FIGURES = ("spearman", "rmse", "ms")
# {protocol: strategies that are simulated if the user names none}
USUAL = {
    "ids": ("default", "random", "quicksort", "merge-sort"),
    "features": ("default", "random", "merge-sort"),
    "votes": ("default", "random"),
}
# Strategies that are simulated with --top if the user names none.
_USUAL_OF_TOP = ("top", "default", "random", "heapsort", "quicksort", "bubble")


@dataclass(frozen=True)
class Simulation:
    """A simulation of annotators with the options of `sortnet experiment simulate`.

    Attributes:
        protocol: `ids` (items without features), `features` or `votes` (recorded votes).
        n: number of items.
        d: number of features, in the protocol `features`.
        outside: share of the variance of the scores that the features do not explain.
        top: number of best items that are wanted; 0 for all items, in order.
        budgets: numbers of questions after which the ranking is evaluated. If empty, the usual
            numbers of the protocol.
        strategies: names of strategies. If empty, the usual strategies of the protocol.
        seeds: number of repetitions.
        seed: seed of all repetitions.
        jobs: number of processes.
        votes_file: table of recorded votes, in the protocol `votes`.
        items_file: table of the items, in the protocol `votes`.
        by: column of `votes_file` whose values divide the votes into collections; or None.
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
        """Run the simulation, and average its figures over the repetitions.

        Returns:
            A row for each strategy and number of questions, with means and standard errors, see
            `sortnet.lab.simulated_annotators.summary`.

        Raises:
            SortNetError: if a file cannot be used, or a strategy is unknown.
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
        repetitions = f"{self.seeds} seeds" if self.seeds > 1 else "one seed"
        if self.protocol == "ids":
            return f"{self.n} items without features, {repetitions}"
        if self.protocol == "votes":
            return f"Pairs predicted from recorded votes, {repetitions}"
        share = f", {self.outside:.0%} of the variance not explained" if self.outside else ""
        return f"{self.n} items with {self.d} features{share}, {repetitions}"

    def _from_votes(self, progress: Progress) -> pd.DataFrame:
        """Simulate sessions whose questions are answered by the recorded votes of a file.

        Returns:
            The accuracy on held-out pairs for each strategy and number of questions, see `run`.

        Raises:
            UsageError: if the file of votes or of items is not given.
        """
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
        # About half of the votes can be used, because pairs are held out.
        n_usable_votes = n_votes // 2
        most_questions = n_usable_votes // pairs_of_a_question(self._strategies())
        usual_budgets = _up_to(max(1, most_questions), _VOTES_BUDGETS)
        results = simulate_votes(
            features,
            votes,
            self._strategies(),
            self.budgets or usual_budgets,
            group=group,
            **self._common(progress),
        )
        return summary(results, ("accuracy",), ("strategy", "questions"))

    def _common(self, progress: Progress) -> dict[str, Any]:
        """Collect the arguments that the functions of all protocols have."""
        return {"seeds": self.seeds, "seed": self.seed, "jobs": self.jobs, "progress": progress}

    def _strategies(self) -> tuple[str, ...]:
        """List the chosen strategies, or the usual strategies."""
        if self.strategies:
            return self.strategies
        return _USUAL_OF_TOP if self.top else USUAL[self.protocol]

    def _usual_budgets(self) -> tuple[int, ...]:
        """List the usual numbers of questions that all strategies can ask."""
        from sortnet.lab.simulated_annotators import most_questions

        most = most_questions(self._strategies(), self.n)
        if self.protocol == "features":
            return _up_to(most, _FEATURES_BUDGETS)
        n_pairs = self.n * (self.n - 1) / 2
        budgets = [max(1, round(trials * n_pairs)) for trials in _TRIALS]
        return tuple(sorted({min(budget, most) for budget in budgets}))


def _up_to(most: int, budgets: tuple[int, ...]) -> tuple[int, ...]:
    """List the budgets that are at most `most`; if there is none, `most` is the only budget."""
    return tuple(budget for budget in budgets if budget <= most) or (most,)
