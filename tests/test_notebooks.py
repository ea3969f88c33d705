"""The notebooks: they run from top to bottom, and are stored without what they print."""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import matplotlib.font_manager
import nbformat
import pytest
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).resolve().parent.parent / "notebooks").glob("*.ipynb"))
SECONDS = 1200  # for a cell, on a machine with better things to do
OWN_DATA = ("SORTNET_STORE", "SORTNET_NOTEBOOK_STORE", "SORTNET_NOTEBOOK_LETOR")

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An empty working folder; what Jupyter and SortNet keep for a user lies beside it."""
    folder = tmp_path_factory.mktemp("notebooks")
    work = folder / "work"
    work.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        for name in ("HOME", "IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR"):
            patch.setenv(name, str(folder / "home"))
        for name in OWN_DATA:
            patch.delenv(name, raising=False)
        # Its list of fonts is made here, once: where that takes long, it says so on stderr.
        patch.setenv("MPLCONFIGDIR", matplotlib.get_cachedir())
        scripts = str(Path(sys.executable).parent)  # where `sortnet` is
        patch.setenv("PATH", os.pathsep.join([scripts, os.environ["PATH"]]))
        patch.setenv("PYTHONWARNINGS", "default")
        yield work


@pytest.fixture(scope="module")
def kernel(elsewhere: Path) -> Iterator[KernelManager]:
    """One process for all notebooks, which begin without names: what they load takes longest."""
    manager = KernelManager()
    manager.start_kernel(cwd=str(elsewhere))
    yield manager
    manager.shutdown_kernel(now=True)


def test_there_are_five_notebooks_numbered_from_one():
    assert [path.stem[:3] for path in NOTEBOOKS] == ["01-", "02-", "03-", "04-", "05-"]


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
    assert [node.name for node in found] == (["judge"] if path.stem == "04-preferences" else [])
    assert all(len(ast.unparse(node).splitlines()) <= 12 for node in found)


@pytest.mark.slow
@each_notebook
def test_a_notebook_runs_and_leaves_no_warning_and_no_file(
    path: Path, kernel: KernelManager, elsewhere: Path
):
    notebook = nbformat.read(path, as_version=4)
    notebook.cells.insert(0, nbformat.v4.new_code_cell("%reset -f"))
    NotebookClient(notebook, km=kernel, timeout=SECONDS).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    said = [o.text for o in outputs if o.output_type == "stream" and o.name == "stderr"]
    assert [text for text in said if "warning" in text.lower()] == []
    assert any("image/png" in o.get("data", {}) for o in outputs)
    assert list(elsewhere.iterdir()) == []
