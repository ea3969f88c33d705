"""Fits that are kept on disk: the same to the last bit, found by their inputs, harmless if lost."""

from __future__ import annotations

import os
from dataclasses import fields, is_dataclass

import numpy as np
import pytest
from collection_helpers import made_items, sqlite_url

from sortnet.preference import Judgement, cached_on_disk, fitted_model, problem
from sortnet.preference.session import Session
from store import open_store
from store.service.judged_queries import read_judged
from store.service.labelling import LabellingService

ENOUGH = fitted_model.ENOUGH


def judgements(n, m, *, seed=0):
    """Answers of three people about n items by their number, a tenth of them wrong."""
    rng = np.random.default_rng(seed)
    for k in range(m):
        left, right = map(int, rng.choice(n, 2, replace=False))
        says = (left > right) != (rng.random() < 0.1)
        how = "random" if k % 10 == 0 else "bald"
        yield Judgement("abc"[k % 3], left, right, "left" if says else "right", strategy=how)


@pytest.fixture(autouse=True)
def quick_units(monkeypatch):
    """No net is trained: the learned units are squares."""

    def units(features, votes, n_annotators, *, seed):
        return features[:, : 2 * (len(votes) > 0)] ** 2

    monkeypatch.setattr(fitted_model, "learned_features", units)


def fitted(n, m, folder, *, d=2):
    """A session with m answers, fitted."""
    X = np.random.default_rng(1).normal(size=(n, d))
    session = Session(X, n, seed=3, keep=folder)
    for judgement in judgements(n, m):
        session.tell(judgement)
    session.refit()
    return session


def refuse(monkeypatch, *names):
    """Let none of these functions be called with answers."""

    def refusing(name, f):
        def called(features, votes, *args, **more):
            assert not len(votes), name
            return f(features, votes, *args, **more)

        return called

    for name in names:
        monkeypatch.setattr(fitted_model, name, refusing(name, getattr(fitted_model, name)))


def flat(value):
    """All numbers of a fit."""
    if is_dataclass(value):
        return [x for f in fields(value) for x in flat(getattr(value, f.name))]
    if isinstance(value, tuple):
        return [x for each in value for x in flat(each)]
    if isinstance(value, np.random.Generator):
        return [repr(value.bit_generator.state)]
    return [value.tobytes() if isinstance(value, np.ndarray) else value]


def test_a_fit_that_was_kept_is_the_same_to_the_last_bit(tmp_path, monkeypatch):
    fresh, first = fitted(30, 260, None), fitted(30, 260, tmp_path)
    assert len(list(tmp_path.iterdir())) == 3
    refuse(monkeypatch, "learned_features", "choose_scales", "fit")
    again = fitted(30, 260, tmp_path)
    assert flat(fresh._fitting.fits) == flat(first._fitting.fits) == flat(again._fitting.fits)
    # An answer that is observed moves both alike, the side biases included.
    for session in (fresh, again):
        session.tell(Judgement("a", 4, 2, "left"))
        session._fitting.catch_up()
    assert flat(fresh._fitting.fits) == flat(again._fitting.fits)
    assert fresh.ask("b", 5) == again.ask("b", 5)


def test_a_fit_without_a_covariance_is_kept_too(tmp_path, monkeypatch):
    monkeypatch.setattr(problem, "DENSE", 20)
    fresh = fitted(30, ENOUGH, None, d=0)
    fitted(30, ENOUGH, tmp_path, d=0)
    refuse(monkeypatch, "choose_scales", "fit")
    again = fitted(30, ENOUGH, tmp_path, d=0)
    assert again._fitting.fits.all.posterior.covariance is None
    assert flat(fresh._fitting.fits) == flat(again._fitting.fits)


def test_a_few_more_answers_are_fitted_with_what_was_learned_from_the_others(tmp_path, monkeypatch):
    fitted(30, 260, tmp_path)
    fresh = fitted(30, 263, None)
    refuse(monkeypatch, "learned_features", "choose_scales")
    assert flat(fitted(30, 263, tmp_path)._fitting.fits) == flat(fresh._fitting.fits)


def test_other_answers_items_or_seeds_are_another_fit(tmp_path):
    inputs = [np.zeros(2), 1, None, "a"]
    for k, other in enumerate((np.zeros((2, 1)), 2, 0, "b")):
        changed = [*inputs[:k], other, *inputs[k + 1 :]]
        for what, value in ((inputs, 0), (changed, 1)):
            found = cached_on_disk.cached(tmp_path, what, lambda: {"x": np.array(value)})  # noqa: B023
            assert found["x"] == value


def test_few_answers_and_fits_in_passing_are_not_kept(tmp_path):
    assert not list(tmp_path.iterdir())
    session = fitted(30, ENOUGH - 1, tmp_path)
    for judgement in judgements(30, 60, seed=1):
        session.tell(judgement)
        session.ask("a")  # fits from time to time, starting from the last fit
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("damage", ["cut", "one bit", "empty", "no file", "not ours"])
def test_a_damaged_file_is_made_again(tmp_path, damage):
    cached_on_disk.cached(tmp_path, ["x"], lambda: {"x": np.arange(100.0)})
    (path,) = tmp_path.iterdir()
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    if damage == "no file":
        path.unlink()
        path.mkdir()
    elif damage == "not ours":
        from safetensors.numpy import save_file

        save_file({"x": np.ones(3)}, path)
    else:
        path.write_bytes({"cut": raw[:-30], "one bit": raw, "empty": b""}[damage])
    found = cached_on_disk.cached(tmp_path, ["x"], lambda: {"x": np.arange(100.0)})
    assert found["x"].tolist() == list(range(100))


def test_a_folder_that_cannot_be_made_is_harmless(tmp_path):
    (tmp_path / "file").write_text("")
    for _ in range(2):
        assert (
            cached_on_disk.cached(tmp_path / "file" / "fits", [1], lambda: {"x": np.array(7)})["x"]
            == 7
        )


def test_the_files_used_last_stay(tmp_path, monkeypatch):
    monkeypatch.setattr(cached_on_disk, "_MOST_BYTES", 2_500)
    for k in range(3):
        cached_on_disk.cached(tmp_path, [k], lambda: {"x": np.zeros(100)})
        for path in tmp_path.iterdir():
            age = path.stat().st_mtime_ns - 10**9
            os.utime(path, ns=(age, age))
        cached_on_disk.cached(tmp_path, [0], lambda: {})  # used again
    assert len(list(tmp_path.iterdir())) == 2
    assert "x" in cached_on_disk.cached(tmp_path, [0], lambda: {})
    assert "x" in cached_on_disk.cached(tmp_path, [2], lambda: {})


def test_the_service_and_training_find_what_another_process_fitted(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with open_store(sqlite_url(tmp_path)) as store:
        collection = store.add_items("many", made_items(30))
        collection.append(list(judgements(30, 260)))
        service = LabellingService(collection)
        service.settle()
        learned = read_judged(collection).train
        refuse(monkeypatch, "learned_features", "choose_scales", "fit")
        again = LabellingService(collection)
        again.settle()
        assert flat(again.ranking) == flat(service.ranking)
        assert again.remaining == service.remaining
        assert read_judged(collection).train.judged.weight.tobytes() == (
            learned.judged.weight.tobytes()
        )
