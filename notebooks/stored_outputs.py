"""Run the notebooks and store them with their outputs, in place: `make notebooks`.

    python notebooks/stored_outputs.py [NAME ...]

A NAME is the beginning of a notebook's, such as 02; without one all are run. Pages that show code
show the outputs, too. What differs from run to run is left out of them: paths, ids of runs, times,
addresses and what is written to stderr. Pictures have at most 256 colours and 1,000 pixels a row.
The hash of the code that made the outputs is stored in the metadata of the notebook, so that a
test finds outputs that are older.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode
from PIL import Image

FOLDER = Path(__file__).resolve().parent
SECONDS = 1200  # for a cell
OWN_DATA = ("SORTNET_STORE", "SORTNET_NOTEBOOK_STORE", "SORTNET_NOTEBOOK_LETOR")
# What differs from run to run, and what is stored in place of a match.
REPLACED = (
    (re.compile(r"\b[0-9a-f]{12}\b"), "0" * 12),  # the id of a run
    (re.compile(r" at 0x[0-9a-f]+"), ""),  # the address of an object
    (re.compile(r"\b127\.0\.0\.1:\d+"), "127.0.0.1:PORT"),
)
_STYLE = re.compile(r"\bT_[0-9a-f]{5}(?![0-9a-f])")  # the name of a styled table
_COLOURS = 256
_WIDTH = 1000  # pixels


def code_hash(notebook: NotebookNode) -> str:
    """The hash of the notebook's code."""
    sources = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    return hashlib.sha256("\0".join(sources).encode()).hexdigest()


def is_older_than_its_code(notebook: NotebookNode) -> bool:
    """Whether the outputs that a notebook is stored with are of other code than it has."""
    stored = notebook.metadata.get("sortnet", {}).get("code_sha256")
    return stored != code_hash(notebook)


def run(path: Path) -> NotebookNode:
    """The notebook with the outputs that its code has now, clean.

    It is run in an empty folder. What Jupyter, SortNet and others keep for a user is beside it.
    """
    notebook = nbformat.read(path, as_version=4)
    metadata = dict(notebook.metadata)
    with tempfile.TemporaryDirectory() as folder:
        for name in ("home", "temporary", "empty"):
            Path(folder, name).mkdir()
        resources = {"metadata": {"path": f"{folder}/empty"}}
        client = NotebookClient(notebook, timeout=SECONDS, resources=resources, record_timing=False)
        client.execute(env=environment(Path(folder)))
        clean(notebook, f"{folder}/temporary")
    notebook.metadata = NotebookNode(metadata, sortnet={"code_sha256": code_hash(notebook)})
    return notebook


def environment(folder: Path) -> dict[str, str]:
    """The environment of a kernel whose files are in the folder, and whose commands are of here."""
    inherited = {name: value for name, value in os.environ.items() if name not in OWN_DATA}
    homes = ("HOME", "IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "XDG_CACHE_HOME")
    paths = {
        "PATH": [str(Path(sys.executable).parent), os.environ.get("PATH", "")],
        "PYTHONPATH": [str(FOLDER.parent), os.environ.get("PYTHONPATH", "")],
    }
    return {
        **inherited,
        **{name: os.pathsep.join(filter(None, folders)) for name, folders in paths.items()},
        **dict.fromkeys(homes, str(folder / "home")),
        "TMPDIR": str(folder / "temporary"),
        "OMP_NUM_THREADS": "1",  # sums are rounded alike on any number of cores
    }


def clean(notebook: NotebookNode, temporary: str) -> None:
    """Remove from the outputs what differs from run to run; temporary files are in that folder."""
    styles: dict[str, str] = {}
    for cell in notebook.cells:
        cell.metadata = NotebookNode()
        if cell.cell_type == "code":
            cell.outputs = [
                cleaned(output, temporary, styles) for output in joined_streams(cell.outputs)
            ]


def joined_streams(outputs: Sequence[NotebookNode]) -> list[NotebookNode]:
    """The outputs with one text for stdout, which arrives in parts, and none for stderr."""
    printed = [output for output in outputs if output.output_type == "stream"]
    text = "".join(output.text for output in printed if output.name == "stdout")
    results = [output for output in outputs if output.output_type != "stream"]
    if not text:
        return results
    return [nbformat.v4.new_output("stream", name="stdout", text=text), *results]


def cleaned(output: NotebookNode, temporary: str, styles: dict[str, str]) -> NotebookNode:
    """An output without what differs from run to run; `styles` has names of styled tables."""
    if output.output_type == "stream":
        output.text = clean_text(output.text, temporary, styles)
    for kind, content in output.get("data", {}).items():
        if kind == "image/png":
            output.data[kind] = with_few_colours(content)
        elif isinstance(content, str):
            output.data[kind] = clean_text(content, temporary, styles)
    return output


def clean_text(text: str, temporary: str, styles: dict[str, str]) -> str:
    """A text without what differs from run to run.

    >>> clean_text("run 0123456789ab in /x/tmp1/a.db, <A at 0x7f>", "/x", {})
    'run 000000000000 in FOLDER/a.db, <A>'
    """
    text = re.sub(rf"{re.escape(temporary)}/\w+", "FOLDER", text)
    for pattern, replacement in REPLACED:
        text = pattern.sub(replacement, text)
    text = _STYLE.sub(lambda match: styles.setdefault(match[0], f"T_{len(styles)}"), text)
    return without_seconds(text)


def without_seconds(text: str) -> str:
    """A text whose tables have no numbers in a last column `seconds`.

    >>> print(without_seconds("iter  seconds\\n   0      1.2 *\\n   1     10.0"))
    iter  seconds
       0        - *
       1        -
    """
    lines, end = text.split("\n"), 0
    for k, line in enumerate(lines):
        if line.rstrip().endswith("seconds"):
            end = len(line.rstrip())
        elif not line.strip():
            end = 0
        elif end and (number := re.search(r"\d+\.\d+$", line[:end])):
            lines[k] = f"{line[: number.start()]}{'-':>{len(number[0])}}{line[end:]}"
    return "\n".join(lines)


def with_few_colours(png: str) -> str:
    """A picture as base64, in a third of the bytes."""
    with Image.open(io.BytesIO(base64.b64decode(png))) as picture:
        smaller = picture.convert("RGB")
    smaller.thumbnail((_WIDTH, smaller.height))
    smaller = smaller.quantize(_COLOURS, dither=Image.Dither.NONE)
    file = io.BytesIO()
    smaller.save(file, "png", optimize=True)
    return base64.b64encode(file.getvalue()).decode() + "\n"


def main(names: Sequence[str]) -> None:
    """Run the notebooks whose names begin so, and store them with their outputs."""
    for path in sorted(FOLDER.glob("*.ipynb")):
        if not names or path.name.startswith(tuple(names)):
            print(path.name, flush=True)
            nbformat.write(run(path), path)


if __name__ == "__main__":
    main(sys.argv[1:])
