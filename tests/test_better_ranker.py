"""Which of a comparator and a posterior is kept, and the reason that is given."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from sortnet.rankers import better_ranker


@dataclass(frozen=True)
class Fitted:
    """A ranker of a kind, with the accuracy that it reached."""

    config: Any
    info: dict[str, Any]


def fitted(kind: str, quality: float) -> Any:
    measure = SimpleNamespace(name="accuracy")
    config = SimpleNamespace(kind=kind, seed=0, rank_quality=measure)
    return Fitted(config, {"quality": quality, "iterations": 3})


@pytest.mark.parametrize(
    ("posterior", "kept", "reason"),
    [
        (17 / 18 - 1e-16, "sortnet", "as good as the other one"),
        (17 / 18, "sortnet", "as good as the other one"),
        (17 / 18 + 1e-15, "sortnet", "as good as the other one"),
        (16 / 18, "sortnet", "better"),
        (1.0, "posterior", "better"),
    ],
)
def test_the_better_one_is_kept_and_the_comparator_if_only_rounding_differs(
    monkeypatch, posterior, kept, reason
):
    def fit_posterior(*_: Any) -> Any:
        return fitted("posterior", posterior)

    monkeypatch.setattr(better_ranker, "fit_ranker", fit_posterior)
    vali: Any = SimpleNamespace(judged=object())
    best = better_ranker.better_than_posterior(fitted("sortnet", 17 / 18), vali, vali)
    assert best.config.kind == best.info["kept"]["kind"] == kept
    assert best.info["kept"]["reason"].startswith(reason)
