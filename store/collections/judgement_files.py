"""Export judgements to files and import them: JSON lines, CSV, and files of other tools."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias

from sortnet.errors import DataError, JudgementError
from sortnet.files import write_atomically
from sortnet.items import Items
from sortnet.preference import Judgement
from sortnet.preference.base import SET_FIELDS, Probabilities
from sortnet.preference.study import Decision, questions_at, study_of
from store.collections.collection import Collection
from store.collections.formats.chosen import preference_records
from store.collections.formula_escapes import ESCAPED_COLUMN, escape_formulas, is_formula
from store.collections.judgement_lines import Form, Line, read_lines

ExportForm: TypeAlias = Literal["jsonl", "csv", "chosen", "conversational"]
_JUDGEMENT_FIELDS = [field.name for field in fields(Judgement) if field.name not in SET_FIELDS]
FIELDS = ("id", "number", *(name for name in _JUDGEMENT_FIELDS if name != "number"))
_EXPORTED = (*FIELDS, "excluded")
# Columns that only some exports have. An import ignores the last four.
_SET_COLUMNS = ("items", "best", "worst")  # if questions are about more than two items
_GROUP_COLUMNS = ("group", "context")  # if items have groups
_QUESTION_COLUMNS = ("criterion", "question")  # if a question was set


@dataclass(frozen=True)
class Imported:
    """Counts of an import: judgements that were added, and judgements that were stored before."""

    added: int
    known: int


def export_judgements(
    collection: Collection,
    to: str | Path | IO[str],
    form: ExportForm = "jsonl",
    *,
    prompt: str = "",
    weights: Mapping[str, float] | None = None,
    for_spreadsheets: bool = True,
) -> int:
    """Write a collection's judgements to a file in one step, and return the number of lines.

    `jsonl` and `csv` hold everything, including undos, comments and flags, and `import_judgements`
    reads them; `at` is in seconds since 1970, `excluded` whether the annotator is excluded. An
    answer about more than two items has no left and right, but the `items` in their places (in CSV
    a JSON list in one cell), the `best` and the `worst`. If items have groups, each line has the
    group and its context; if a question was set, the criterion and the question of that time.
    `chosen` and `conversational` are JSON lines of `preference_records`, for preference tuning,
    without undone judgements and judgements of excluded annotators.

    Args:
        prompt: the prompt of every record; empty: the context of the group, else its name.
        weights: weights of the annotators, see `annotator_weights`; None: 1 each.
        for_spreadsheets: put an apostrophe before the texts of `csv` that a spreadsheet would run
            as formulas. If there are such texts, the column `escaped` says so, and an import
            removes the apostrophes. Other forms do not change texts.

    Raises:
        DataError: if there is no record to write, or an item has no text.
        SortNetError: if the file cannot be written.
        StoreError: if the collection has criteria.
    """
    collection.check_one_question()
    items = collection.items()
    if form in ("chosen", "conversational"):
        names: list[str] = []
        lines = _preference_lines(collection, items, prompt, weights, form == "conversational")
    else:
        names, lines = _judgement_lines(collection, items)
    has_formulas = any(is_formula(value) for line in lines for value in line.values())
    if form == "csv" and for_spreadsheets and has_formulas:
        names.append(ESCAPED_COLUMN)
        lines = [escape_formulas(line) for line in lines]

    if not isinstance(to, str | Path):
        _write_lines(to, lines, form, names)
        return len(lines)

    def write(path: Path) -> None:
        with path.open("w", encoding="utf-8", newline="") as file:
            _write_lines(file, lines, form, names)

    write_atomically(Path(to).resolve(), write)
    return len(lines)


def _preference_lines(
    collection: Collection,
    items: Items,
    prompt: str,
    weights: Mapping[str, float] | None,
    conversational: bool,
) -> list[dict[str, Any]]:
    """Return the records of `preference_records`; raise a DataError if there are none."""
    judgements = collection.counted_judgements()
    lines = list(
        preference_records(
            judgements, items, prompt=prompt, weights=weights, conversational=conversational
        )
    )
    if not lines:  # loaders of data sets refuse an empty file, with unclear messages
        no_majority, no_answer = "no pair has a majority of answers yet", "nobody has answered yet"
        fault = no_majority if judgements else no_answer
        raise DataError(f"{collection.name}: {fault}, so there is no chosen item to write")
    return lines


def _judgement_lines(
    collection: Collection, items: Items
) -> tuple[list[str], list[dict[str, Any]]]:
    """Return the names of the columns, and one {column: cell} for each judgement."""
    decisions, judgements = collection.decisions(), collection.judgements()
    excluded = study_of(decisions).excluded
    names = list(_EXPORTED)
    if items.groups is not None:
        names += _GROUP_COLUMNS
    if judgements.is_set.any():
        names += _SET_COLUMNS
    # Judgements may be stored after the line above: then more ids are read than judgements.
    ids = collection.judgement_ids()
    lines = [
        {**_cells(judgement, id, items), "excluded": judgement.annotator in excluded}
        for judgement, id in zip(judgements, ids, strict=False)
    ]
    if any(decision.kind == "question" for decision in decisions):
        names += _QUESTION_COLUMNS
        questions = questions_at(decisions, [judgement.at for judgement in judgements])
        for line, question in zip(lines, questions, strict=True):
            line["criterion"] = collection.criterion
            line["question"] = question
    return names, lines


def _cells(judgement: Judgement, id: str, items: Items) -> dict[str, Any]:
    """Return {column: cell} for a judgement; items are written by their ids."""
    fields_and_id = {**vars(judgement), "id": id}
    cells = {name: fields_and_id[name] for name in FIELDS}
    if judgement.further:
        del cells["left"], cells["right"]
        cells["items"] = [items.ids[item] for item in judgement.items]
        cells["best"] = None if judgement.best is None else items.ids[judgement.best]
        cells["worst"] = None if judgement.worst is None else items.ids[judgement.worst]
    else:
        cells["left"] = items.ids[judgement.left]
        cells["right"] = items.ids[judgement.right]
    if items.groups is not None:
        cells["group"] = items.groups[judgement.left]
        cells["context"] = items.context(judgement.left)
    return cells


def _write_lines(
    file: IO[str], lines: Sequence[dict[str, Any]], form: ExportForm, names: Sequence[str]
) -> None:
    """Write lines as CSV with the columns `names`, or as JSON lines in all other forms."""
    if form != "csv":
        for line in lines:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
        return
    writer = csv.DictWriter(file, names, lineterminator="\n")
    writer.writeheader()
    for line in lines:
        if "items" in line:
            line = {**line, "items": json.dumps(line["items"], ensure_ascii=False)}
        writer.writerow(line)


def import_judgements(
    collection: Collection,
    path: str | Path,
    *,
    form: Form | None = None,
    annotator: str | None = None,
    sides: tuple[str, str] | None = None,
    probabilities: Probabilities | None = None,
) -> Imported:
    """Add all of a file's judgements to a collection of the same items, or none after an error.

    Each line needs left, right and answer, or winner and loser, and an annotator; items are given
    by their ids. A line about more than two has `items`, a list of three to six ids, with `best`
    and perhaps `worst`, or with the answer same, skip or cant-say. Columns may also be called arg1,
    arg2, value, ...; an answer is left, a1, 1, ..., right, a2, 2, ..., tie, equal, 0, ..., skip,
    cant-say, or an item's id. Judgements get new numbers after the existing judgements, undos are
    adjusted. A judgement is recognised by its `id`; a line without `id` by its content and the
    number of equal lines before it. Importing a file again adds nothing, importing it with more
    lines adds the new lines.

    Files of other tools are known by their columns: battles of Chatbot Arena, whose models are the
    items; chosen and rejected texts; Label Studio's JSON export of a Pairwise tag; Argilla's JSON
    records with a ranking or a label that names a field. Each of their texts must be the text of
    exactly one item in the group of its prompt.

    Args:
        form: format of the file; None: by its suffix (JSONL, JSON, CSV, TSV or Parquet) and its
            columns.
        annotator: annotator of the judgements whose line names no annotator.
        sides: the fields of Label Studio's tasks that hold the left and the right item; None: by
            their names, such as text1 and text2.
        probabilities: the meaning of `p` in the file; None: as decided before, or a share of
            votes if nothing was decided.

    Raises:
        DataError: on the first error, with file and line; then nothing is added.
    """
    items = collection.items()
    lines = read_lines(Path(path), items, form=form, annotator=annotator, sides=sides)
    try:
        added = collection.append(
            [line.judgement for line in lines], ids=[line.id for line in lines]
        )
    except JudgementError as error:
        raise DataError(f"{path}: {error}") from None
    if probabilities is not None:
        _decide_probabilities(collection, lines, probabilities)
    return Imported(len(added), len(lines) - len(added))


def _decide_probabilities(
    collection: Collection, lines: Sequence[Line], probabilities: Probabilities
) -> None:
    """Store the meaning of `p` for each annotator of the lines who had another meaning so far."""
    annotators = {line.judgement.annotator for line in lines if line.judgement.p is not None}
    study = collection.study()
    decisions = [
        Decision(f"p-{probabilities}", annotator)
        for annotator in sorted(annotators)
        if study.probabilities.get(annotator, "share") != probabilities
    ]
    collection.decide(*decisions)
