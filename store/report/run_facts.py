"""Collect the facts of runs from the store, and of a model from its folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sortnet.files import rows_of

if TYPE_CHECKING:
    from store import Run, Store

_FACTS = ("command", "out", "kept", "seed", "config", "versions", "data")


def run_rows(store: Store) -> list[dict[str, Any]]:
    """Return a row for each run, the newest first."""
    return rows_of(store.runs_frame())


def run_facts(run: Run) -> dict[str, Any]:
    """Collect all facts of a run from the store, with a row for each iteration.

    `collection` is the name of the collection with the answers of the run's judge; None without a
    judge.
    """
    with run.database.one_state():
        facts: dict[str, Any] = {"id": run.id, "status": run.status}
        for name in _FACTS:
            facts[name] = getattr(run, name)
        facts["collection"] = None if run.judge is None else run.collection
        facts["created"] = run.created.isoformat()
        facts["iterations"] = run.iteration_rows()
    return facts


def model_facts(folder: str) -> dict[str, Any]:
    """Collect the facts of a model from its folder: kind, features, settings and origin.

    The fact `feature_names` has the names in the data, and `features` the names for people; both
    are None if the features have no names.

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
