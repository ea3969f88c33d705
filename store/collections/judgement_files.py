"""Judgements out to files and in again: JSONL and CSV; chosen and rejected texts."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias

from sortnet.errors import DataError, JudgementError
from sortnet.files import write_atomically
from sortnet.items import Items
from sortnet.preference import Judgement
from store.collections.collection import Collection
from store.collections.judgement_lines import FIELDS, Form, read_lines

ExportForm: TypeAlias = Literal["jsonl", "csv", "chosen"]
EXPORT_FORMS: tuple[ExportForm, ...] = ("jsonl", "csv", "chosen")


@dataclass(frozen=True)
class Imported:
    """What became of a file's judgements: so many were added, so many known already."""

    added: int
    known: int


def export_judgements(
    collection: Collection,
    to: str | Path | IO[str],
    form: ExportForm = "jsonl",
    *,
    prompt: str = "",
) -> int:
    """Write a collection's judgements to a file, whole or not at all; how many lines.

    `jsonl` and `csv` have everything, undoes too, and `import_judgements` reads them back; `at`
    counts seconds since 1970. `chosen` has a line for each pair that more people decided one way
    than the other, `{"prompt": ..., "chosen": text, "rejected": text}`, as tools for preference
    tuning read it; what was undone does not count, ties are for neither side.

    Args:
        prompt: what `chosen` puts in every line.

    Raises:
        DataError: on items without text, of which `chosen` can say nothing.
        SortNetError: if the file cannot be written.
    """
    judgements, items = collection.judgements(), collection.items()
    if form == "chosen":
        lines = list(_chosen(judgements, items, prompt))
    else:
        # Ids read later may be more; those of the judgements are the first of them.
        ids = collection.judgement_ids()
        lines = [_fields(j, id, items) for j, id in zip(judgements, ids, strict=False)]
    if isinstance(to, str | Path):
        write_atomically(Path(to).resolve(), lambda path: _write_file(path, lines, form))
    else:
        _write(to, lines, form)
    return len(lines)


def import_judgements(
    collection: Collection,
    path: str | Path,
    *,
    form: Form | None = None,
    annotator: str | None = None,
) -> Imported:
    """Add a file's judgements to a collection of the same items, all or none.

    Each line needs left, right and answer, or winner and loser, and an annotator; the items by
    their ids. Numbers are given anew behind those that are there, undoes follow. A judgement is
    recognised by its `id`, or without one by all that its line says and how often the file has
    said so before: importing a file again adds nothing, importing it with more lines adds those.

    Args:
        form: of the file; None goes by its suffix: .jsonl, .json, .ndjson, .csv, .tsv.
        annotator: whose judgements those are which name nobody.

    Raises:
        DataError: on the first fault, with file and line; nothing is added then.
    """
    items = {id: number for number, id in enumerate(collection.items().ids)}
    lines = read_lines(Path(path), items, form=form, annotator=annotator)
    try:
        added = collection.append(
            [line.judgement for line in lines], ids=[line.id for line in lines]
        )
    except JudgementError as error:
        raise DataError(f"{path}: {error}") from None
    return Imported(len(added), len(lines) - len(added))


def _fields(judgement: Judgement, id: str, items: Items) -> dict[str, Any]:
    facts = {**vars(judgement), "id": id}
    facts |= {side: items.ids[facts[side]] for side in ("left", "right")}
    return {name: facts[name] for name in FIELDS}


def _chosen(judgements: Sequence[Judgement], items: Items, prompt: str) -> Iterator[dict[str, str]]:
    """One record a pair, by the majority of the people, in the order of the first vote."""
    undone = {judgement.undoes for judgement in judgements}
    votes: dict[tuple[int, int], Counter[str]] = {}
    for judgement in judgements:
        if judgement.answer in ("left", "right") and judgement.number not in undone:
            low, _ = judgement.pair
            winner = judgement.left if judgement.answer == "left" else judgement.right
            people = votes.setdefault(judgement.pair, Counter())
            people[judgement.annotator] += 1 if winner == low else -1
    for (low, high), people in votes.items():
        # Who answered a pair twice has one voice all the same.
        surplus = sum((n > 0) - (n < 0) for n in people.values())
        if surplus:
            better, worse = (low, high) if surplus > 0 else (high, low)
            yield {
                "prompt": prompt,
                "chosen": _text(items, better),
                "rejected": _text(items, worse),
            }


def _text(items: Items, number: int) -> str:
    text = items.texts[number]
    if text is None:
        raise DataError(f"item {items.ids[number]!r} has no text to be chosen or rejected")
    return text


def _write_file(path: Path, lines: Sequence[dict[str, Any]], form: ExportForm) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        _write(file, lines, form)


def _write(file: IO[str], lines: Sequence[dict[str, Any]], form: ExportForm) -> None:
    if form == "csv":
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
        return
    for line in lines:
        file.write(json.dumps(line, ensure_ascii=False) + "\n")
