"""Fit a comparator and a posterior to judged pairs; keep the better predictor of held-out pairs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sortnet.config import Config
from sortnet.core import Queries
from sortnet.rankers.base import Ranker
from sortnet.rankers.fit_ranker import fit_ranker
from sortnet.rankers.model import Model
from sortnet.rankers.posterior_ranker import PosteriorSettings

# The last digits of equal figures may differ, because their terms are added in different orders.
_DECIMALS = 9


def better_ranker(train: Queries, vali: Queries, config: Config) -> Ranker:
    """Fit a comparator and a posterior to judged pairs; return the better predictor.

    Args:
        train: queries with judged pairs.
        vali: queries with the judged pairs that are held out.
        config: settings of the comparator; the posterior gets the same seed.

    Raises:
        DataError: if there are too few judged pairs.

    Cost: a training of the comparator, and a second for the posterior.
    """
    net = fit_ranker(train, vali, config)
    assert isinstance(net, Model)
    return better_than_posterior(net, train, vali)


def better_than_posterior(net: Model, train: Queries, vali: Queries) -> Ranker:
    """Fit a posterior to the same judged pairs; return the better of the posterior and `net`.

    Without judged pairs, `net` is returned. `info["kept"]` of the result tells the kind of ranker
    that was kept, the measure, the figures of both rankers and the reason.

    Args:
        net: the comparator, trained on `train` and chosen by `vali`.
        train: the training queries.
        vali: the validation queries, whose judged pairs are predicted.
    """
    has_judged_pairs = vali.judged is not None
    rankers: list[Ranker] = [net]
    if has_judged_pairs:
        rankers.append(fit_ranker(train, vali, PosteriorSettings(seed=net.config.seed)))
    figures = {ranker.config.kind: float(ranker.info["quality"]) for ranker in rankers}
    best = max(rankers, key=lambda ranker: round(figures[ranker.config.kind], _DECIMALS))
    choice = {
        "kind": best.config.kind,
        "measure": net.config.rank_quality.name,
        "figures": figures,
        "reason": _reason(figures, net.info["iterations"], has_judged_pairs=has_judged_pairs),
    }
    info = {**net.info, "quality": figures[best.config.kind], "kept": choice}
    return replace(best, info=info)


def _reason(figures: Mapping[str, float], n_iterations: int, *, has_judged_pairs: bool) -> str:
    """Tell the reason for keeping the ranker with the highest figure, in words for a report."""
    if not has_judged_pairs:
        return f"best on the validation queries of iterations 0 to {n_iterations - 1}"
    if len({round(figure, _DECIMALS) for figure in figures.values()}) == 1:
        return "as good as the other one on the judgements held out, and the one that comes first"
    return "better on the judgements held out"
