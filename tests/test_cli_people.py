"""The whole way, from a table of things to their ranking, by commands, on either database."""

from __future__ import annotations

import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
from cli_helpers import done
from collection_helpers import made_items
from result_helpers import value_of

from store import open_store

LONGER = Path(__file__).parent.parent / "cli/examples/files/judge.py"  # prefers longer texts


def test_a_collection_becomes_a_ranking_on_either_database(url: str, tmp_path: Path):
    lines = [f"t{k:02},{'word ' * (3 * k + 1)}" for k in range(16)]
    (tmp_path / "texts.csv").write_text("\n".join(["id,text", *lines]) + "\n")
    store = ("--store", url)
    done("items", "add", "texts", str(tmp_path / "texts.csv"), *store)
    command = f"{sys.executable} {LONGER}"
    judged = ("--judge", command, "--as", "longer", "--number", "40", "--json")
    (said,) = value_of(done("label", "texts", *judged, *store))
    assert said["failed"] == 0
    ids = [item["id"] for item in value_of(done("ranking", "texts", "--json", *store))]
    places = [ids.index(f"t{k:02}") for k in range(16)]
    # The longest first: hardly a pair is in another order.
    wrong = sum(places[a] < places[b] for a in range(16) for b in range(a + 1, 16))
    assert wrong <= 6
    out = tmp_path / "said.jsonl"
    done("judgements", "export", "texts", "--output", str(out), *store)
    assert len(out.read_text().splitlines()) == said["answered"]


@pytest.mark.parametrize(
    ("outcome", "n_asked"), [(KeyboardInterrupt("SIGTERM"), 1), (["interrupted"], 2)]
)
def test_an_interrupt_ends_label_before_the_next_criterion_and_a_reason_that_says_so_does_not(
    tmp_path, monkeypatch, outcome, n_asked
):
    monkeypatch.setenv("SORTNET_STORE", str(tmp_path / "s.db"))
    with open_store() as store:
        collection = store.add_items("c", made_items(4))
        for criterion in ("helpful", "honest"):
            collection.add_criterion(criterion)
    run_asking = Mock(side_effect=outcome * 2 if isinstance(outcome, list) else outcome)
    monkeypatch.setattr("cli.terminal.asking.Asking.run", run_asking)
    rows = value_of(done("label", "c", "--as", "ana", "--json"))
    assert [row["why"] for row in rows] == ["interrupted"] * n_asked
    assert run_asking.call_count == n_asked
