"""The facts that the store has of runs, and that a model folder has of its model, as values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sortnet.files import rows_of

if TYPE_CHECKING:
    from store import Run, Store

_FACTS = ("command", "out", "kept", "seed", "config", "versions", "data")


def run_rows(store: Store) -> list[dict[str, Any]]:
    """A row for each run, newest first."""
    return rows_of(store.runs_frame())


def run_facts(run: Run) -> dict[str, Any]:
    """All facts that the store has of a run, with a row for each iteration."""
    facts: dict[str, Any] = {"id": run.id, "status": run.status, "phase": run.phase}
    for name in _FACTS:
        facts[name] = getattr(run, name)
    facts["created"] = run.created.isoformat()
    facts["iterations"] = rows_of(run.iterations_frame())
    return facts


def model_facts(folder: str) -> dict[str, Any]:
    """The facts that a model folder has of its ranker: kind, features, settings and origin.

    `features` are names for people; None if the features have no names.

    Raises:
        ModelError: if the folder has no model, or a damaged one.
    """
    from sortnet.rankers.load_ranker import load_ranker
    from sortnet.rankers.registry import name_of

    ranker = load_ranker(folder)
    names = ranker.feature_names
    describer = ranker.describer
    return {
        "model": folder,
        "kind": name_of(ranker.config),
        "n_features": ranker.n_features,
        "feature_names": None if names is None else list(names),
        "config": ranker.config.to_json(),
        "info": dict(ranker.info),
        "features": names if describer is None else describer.readable_names(),
    }
