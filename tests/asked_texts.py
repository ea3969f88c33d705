"""Texts with numbers in a store, judges that prefer the larger number, and what was stored."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest
from cli_helpers import done, invoke
from language_model_server import Model
from result_helpers import value_of

from sortnet.preference import Judgement
from store import open_store


def begin(folder: Path, monkeypatch: pytest.MonkeyPatch, n_texts: int = 8) -> Path:
    """Work in an empty folder, whose store s.db has the texts as the collection `t`."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("SORTNET_STORE", "s.db")
    monkeypatch.delenv("SORTNET_KEY", raising=False)
    monkeypatch.setattr("sortnet.judges.model_worker._SHORTEST_WAIT", 0.01)
    add_texts("t", n_texts)
    return folder


def add_texts(name: str, n_texts: int) -> None:
    rows = ["id,text", *(f"t{k},text number {k}" for k in range(n_texts))]
    Path("t.csv").write_text("\n".join(rows) + "\n")
    done("items", "add", name, "t.csv")


def number_in(text: str) -> float:
    return float(text.split()[-1])


def model(**facts) -> Model:
    return Model(number_in, **facts)


def program(code: str, name: str = "judge.py") -> str:
    """Write a program; return the command that runs it."""
    Path(name).write_text(code)
    return f"{shlex.quote(sys.executable)} -S -E {name}"


def label(*args: object, code: int = 0) -> tuple[dict, str]:
    """Facts about a labelling by one judge, and what was told meanwhile."""
    result = invoke("label", "t", "--json", *args)
    assert result.exit_code == code, result.stderr
    (row,) = value_of(result.stdout, "labelled")
    return row, result.stderr


def by_model(url: str, *args: object, code: int = 0) -> dict:
    """Facts about a labelling by the language model at a URL."""
    return label("--model", "judge", "--server", url, *args, code=code)[0]


def judgements(name: str = "t") -> list[Judgement]:
    """What is stored; no question may be on loan any more."""
    with open_store("s.db") as store:
        collection = store.collection(name)
        assert collection.leases() == []
        return list(collection.judgements())
