"""Lay out the example files in a folder, and tell what each is for.

The shop, the bikes, LETOR and the essays were drawn at random: a product is better if it is cheap,
light, well rated and new, an essay if it has more arguments.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from sortnet.errors import SortNetError
from sortnet.files import refuse_folder, write_atomically

SHIPPED = Path(__file__).parent / "files"


class Example(NamedTuple):
    """Files that are laid out for one purpose.

    Attributes:
        files: the names of the files or of their folder.
        purpose: what the files are.
        command: the first command to type with the files.
    """

    files: str
    purpose: str
    command: str


EXAMPLES = (
    Example(
        "shop.csv, new-products.csv",
        "products that a shop showed for 60 searches, with stars; products of two new searches",
        "sortnet train shop.csv --query search --grade stars --id product --ignore orders",
    ),
    Example(
        "bikes/",
        "bicycles of 100 shops, divided for training, validation and test (the tutorial)",
        "sortnet train bikes --out bikes-model",
    ),
    Example(
        "letor/",
        "three folds of LETOR text",
        "sortnet train letor/Fold1 --out letor-model",
    ),
    Example(
        "essays.csv, new-essays.csv, rules.md",
        "essays without grades, and instructions to annotators",
        "sortnet items add essays essays.csv",
    ),
    Example(
        "votes.csv, gold.csv",
        "judgements of the essays by three annotators, and pairs with a known answer",
        "sortnet judgements import essays votes.csv",
    ),
    Example(
        "answers.csv, tomorrow.csv, pairs.csv",
        "answers of two models to prompts, answers to new prompts, pairs to ask about",
        "sortnet items add answers answers.csv --group prompt_id --context prompt --ignore model",
    ),
    Example(
        "models.csv, battles.json",
        "two models, and judgements of them in the format of Chatbot Arena",
        "sortnet items add models models.csv",
    ),
    Example("holiday/", "pictures", "sortnet items add photos holiday/"),
    Example(
        "judge.py",
        "a program that is a judge: the longer text is better",
        "sortnet label essays --judge 'python judge.py' --number 40",
    ),
    Example(
        "model_server.py, judge.toml",
        "a small server of a language model that prefers the longer text, and its description",
        "python model_server.py",
    ),
)


def lay_out_examples(folder: str) -> list[Path]:
    """Copy the example files into a folder, and return their paths.

    A file that is there already with the same content is left as it is.

    Args:
        folder: the folder, which is made if it does not exist.

    Raises:
        SortNetError: if the folder has another file of the same name, which would be lost, or
            cannot be written. Nothing is written then.
    """
    refuse_folder(folder)
    root = Path(folder)
    contents = {
        root / path.relative_to(SHIPPED): path.read_bytes()
        for path in sorted(SHIPPED.rglob("*"))
        # An installer compiles the programs among the files.
        if path.is_file() and path.parent.name != "__pycache__"
    }
    for path, content in contents.items():
        _refuse_other_file(path, content)
    for path, content in contents.items():
        _write_file(path, content)
    return list(contents)


def _refuse_other_file(path: Path, content: bytes) -> None:
    """Refuse to replace a file that has another content than the example."""
    if not path.exists():
        return
    if not path.is_file() or path.read_bytes() != content:
        raise SortNetError(
            f"{path} is there and is not the example of this name, and would be lost: name another "
            "folder"
        )


def _write_file(path: Path, content: bytes) -> None:
    """Write a file that does not exist yet, and make its folder."""
    if path.exists():
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SortNetError(f"cannot make {path.parent}: {error.strerror or error}") from None
    write_atomically(path, lambda file: file.write_bytes(content))
