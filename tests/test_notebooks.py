"""The notebooks: they run from top to bottom, and are stored with clean outputs of their code."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib.font_manager
import nbformat
import pytest
from cli_helpers import done, quick_training
from nbclient import NotebookClient
from packaging.requirements import Requirement

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "notebooks"))

from stored_outputs import is_older_than_its_code, without_seconds

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
RESULTS = {"stream", "execute_result", "display_data"}
# What is other in each run.
PASSING = re.compile(
    r"/(tmp|home|root|work|Users)/"
    r"|\b(?!0{12})[0-9a-f]{12}\b"  # the id of a run
    r"|\b0x[0-9a-f]+"  # an address
    r"|\bT_[0-9a-f]{5}\b"  # the name of a styled table
    r"|\b\d\d:\d\d\b|\b20\d\d-\d\d-\d\d"  # a time, a date
    r"|\d s\b|\d seconds"
)
AGAIN = "make notebooks runs it again"
SECONDS = 1200  # for a cell, on a machine with better things to do
OWN_DATA = ("SORTNET_STORE", "SORTNET_NOTEBOOK_STORE", "SORTNET_NOTEBOOK_LETOR")

# What a reader waits for and a test need not: {as it stands: as it is run here}.
SHORTER = {
    "max_iter=6,": "max_iter=2,",
    "batch_size=256, weight_decay=1e-4)": "batch_size=256, weight_decay=1e-4, epochs=1)",
    "--quality ndcg --set gain=linear": "--quality ndcg --set gain=linear --max-iter 2 --epochs 2",
    'scaling="normal", seed=0)': 'scaling="normal", seed=0, max_iter=2, committee=1)',
    'SortNetRanker(quality="ndcg@10",': 'SortNetRanker(quality="ndcg@10", max_iter=1, epochs=1,',
    "committee=8": "committee=1",
    "committee=2)": "committee=1)",
    "n_estimators=100": "n_estimators=5",
    "rng.integers(2, 5, 4000)": "rng.integers(2, 5, 400)",
    "[3200, 3600, 4000]": "[320, 360, 400]",
    '"--dry-run", "--number", "150"': '"--dry-run", "--number", "20"',
    '("large", 150), ("small", 80)': '("large", 12), ("small", 10)',
    '"max_calls": 300': '"max_calls": 12',
    "max_calls=100": "max_calls=6",
    "max_calls=40": "max_calls=6",
    "for _ in range(80):": "for _ in range(8):",
    "for _ in range(24):": "for _ in range(4):",
    "for _ in range(12):": "for _ in range(2):",
    "for _ in range(5):": "for _ in range(2):",
    "epochs=5,queries=64": "epochs=1,queries=64",
    "scaling=standard,epochs=30": "scaling=standard,epochs=1",
    "scaling=standard,epochs=20": "scaling=standard,epochs=1",
    "model --epochs 10": (
        # So slowly that some pairs stay wrong.
        "model --epochs 2 --max-iter 2 --set hidden=4 --set committee=1 --set lr=0.0001"
    ),
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


@each_notebook
def test_a_notebook_is_stored_with_the_outputs_of_its_code(path: Path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert not is_older_than_its_code(notebook), f"{path.name} is older than its code: {AGAIN}"
    assert [cell for cell in notebook.cells if cell.metadata] == []
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert {output.output_type for output in outputs} <= RESULTS
    assert path.stat().st_size < 250_000
    texts = [text for output in outputs for text in texts_of(output)]
    assert [match[0] for text in texts for match in PASSING.finditer(text)] == []
    assert [text for text in texts if without_seconds(text) != text] == []
    kinds = [cell.cell_type for cell in notebook.cells]
    assert kinds[0] == "markdown" and ("code", "code") not in list(pairwise(kinds))


def texts_of(output: nbformat.NotebookNode) -> list[str]:
    """The texts of an output."""
    data = output.get("data", {})
    return [output.get("text", ""), *(data[kind] for kind in data if kind.startswith("text/"))]


def test_the_extra_of_the_notebooks_has_what_they_import_and_what_runs_them():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    needed = [*project["dependencies"], *extras["notebooks"], *extras["llm"], *extras["web"]]
    installed = {Requirement(text).name.replace("-", "_") for text in needed}
    assert {"ipykernel", "nbconvert", "nbclient"} <= installed
    installed |= {"sortnet", "store", "cli", "IPython", "sklearn", *sys.stdlib_module_names}
    for path in NOTEBOOKS:
        imports = re.findall(r"^(?:import|from) (\w+)", code_of(path), re.MULTILINE)
        assert set(imports) <= installed


def code_of(path: Path) -> str:
    """The code of a notebook, without IPython's own commands."""
    cells = nbformat.read(path, as_version=4).cells
    code = [re.sub(r"^%.*$", "", c.source, flags=re.M) for c in cells if c.cell_type == "code"]
    return "\n".join(code)


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
        assert kinds_of(notebook) == kinds_of(nbformat.read(path, as_version=4)), (
            f"{path.name} is older than the packages: {AGAIN}"
        )
    assert list(elsewhere.iterdir()) == []


def kinds_of(notebook: nbformat.NotebookNode) -> list[list[str]]:
    """The kinds of results that each code cell of a notebook has."""
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    kinds = ((kind for output in cell.outputs for kind in output.get("data", {})) for cell in code)
    return [sorted(names) for names in kinds]
