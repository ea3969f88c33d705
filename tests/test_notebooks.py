"""The notebooks: they run from top to bottom, and are stored without what they print."""

from __future__ import annotations

import ast
import gc
import os
import re
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib.font_manager
import nbformat
import pytest
from cli_made import done, quick_training
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).resolve().parent.parent / "notebooks").glob("*.ipynb"))
SECONDS = 1200  # for a cell, on a machine with better things to do
SIMULATED = ("04-preferences", "06-answers", "08-models")  # annotators, by a function
OWN_DATA = ("SORTNET_STORE", "SORTNET_NOTEBOOK_STORE", "SORTNET_NOTEBOOK_LETOR")

# What a reader waits for and a test need not: {as it stands: as it is run here}.
SHORTER = {
    "max_iter=6,": "max_iter=2,",
    "batch_size=256, weight_decay=1e-4)": "batch_size=256, weight_decay=1e-4, epochs=1)",
    "--max-iter 10": "--max-iter 2 --epochs 1",
    'SortNetRanker(quality="ndcg@10",': 'SortNetRanker(quality="ndcg@10", max_iter=1, epochs=1,',
    "committee=8": "committee=1",
    "committee=2)": "committee=1)",
    '("large", 150), ("small", 60)': '("large", 30), ("small", 20)',
    "for _ in range(80):": "for _ in range(12):",
    "for _ in range(24):": "for _ in range(4):",
    "for _ in range(12):": "for _ in range(2):",
    "for _ in range(5):": "for _ in range(2):",
    "epochs=5,queries=64": "epochs=1,queries=64",
    "scaling=standard,epochs=30": "scaling=standard,epochs=1",
    "scaling=standard,epochs=20": "scaling=standard,epochs=1",
    "--epochs 10 --max-iter 6": "--epochs 2 --max-iter 2 --hidden 4 --committee 1",
}
LONG = re.compile("|".join(map(re.escape, SHORTER)))

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def hasten() -> None:
    """In the kernel: run commands in its process too, and train by epochs of one step.

    What all load is loaded now, and `%reset` need not look for rubbish in it.
    """
    for name in ("lightgbm", "sklearn.model_selection", "store.plots", "torch._dynamo"):
        import_module(name)
    gc.freeze()
    quick_training().__enter__()

    def here(run: Callable[..., Any]) -> Callable[..., Any]:
        return lambda words, **how: done(*words[1:]) if words[0] == "sortnet" else run(words, **how)

    subprocess.run, subprocess.check_output = map(here, (subprocess.run, subprocess.check_output))


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder; what Jupyter and SortNet keep for a user lies beside it."""
    for name in ("HOME", "IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    for name in OWN_DATA:
        monkeypatch.delenv(name, raising=False)
    # Its list of fonts is made here, once: where that takes long, it says so on stderr.
    monkeypatch.setenv("MPLCONFIGDIR", matplotlib.get_cachedir())
    ours = [str(Path(__file__).parent), str(NOTEBOOKS[0].parent.parent), *sys.path]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(ours))
    monkeypatch.setenv("PYTHONWARNINGS", "default")
    work = tmp_path / "work"
    work.mkdir()
    return work


def test_the_notebooks_are_numbered_from_one():
    assert [path.stem[:3] for path in NOTEBOOKS] == [f"0{k}-" for k in range(1, 9)]


@each_notebook
def test_a_notebook_is_valid_and_stored_without_outputs(path: Path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell for cell in code if cell.outputs or cell.execution_count is not None] == []
    assert [cell for cell in notebook.cells if cell.metadata] == []


@each_notebook
def test_every_code_cell_of_a_notebook_follows_a_sentence(path: Path):
    kinds = [cell.cell_type for cell in nbformat.read(path, as_version=4).cells]
    assert kinds[0] == "markdown"
    assert ("code", "code") not in list(pairwise(kinds))


@each_notebook
def test_a_notebook_defines_no_class_and_at_most_one_short_function(path: Path):
    """What is worth a name belongs into the packages; a user's own judge does not."""
    cells = nbformat.read(path, as_version=4).cells
    code = [re.sub(r"^%.*$", "", c.source, flags=re.M) for c in cells if c.cell_type == "code"]
    named = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    found = [node for node in ast.walk(ast.parse("\n".join(code))) if isinstance(node, named)]
    assert [node.name for node in found] == (["judge"] if path.stem in SIMULATED else [])
    assert all(len(ast.unparse(node).splitlines()) <= 12 for node in found)


@pytest.mark.slow
def test_the_notebooks_run_and_leave_no_warning_and_no_file(elsewhere: Path):
    """In one process, each without the names of those before: what they load takes longest."""
    notebooks = [nbformat.read(path, as_version=4) for path in NOTEBOOKS]
    whole = nbformat.v4.new_notebook()
    whole.cells.append(nbformat.v4.new_code_cell("import test_notebooks as t; t.hasten()"))
    for notebook in notebooks:
        whole.cells += [nbformat.v4.new_code_cell("%reset -f"), *notebook.cells]
    assert [old for old in SHORTER if not any(old in c.source for c in whole.cells)] == []
    for cell in whole.cells:
        cell.source = LONG.sub(lambda found: SHORTER[found[0]], cell.source)
    where = {"metadata": {"path": str(elsewhere)}}
    NotebookClient(whole, timeout=SECONDS, resources=where).execute()
    for path, notebook in zip(NOTEBOOKS, notebooks, strict=True):
        outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
        said = [o.text for o in outputs if o.output_type == "stream" and o.name == "stderr"]
        assert [text for text in said if "warning" in text.lower()] == [], path.name
        assert any("image/png" in o.get("data", {}) for o in outputs), path.name
    assert list(elsewhere.iterdir()) == []
