"""Export judgements to files and import files, as JSON lines, as CSV, or as other tools write."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import IO, Literal, TypeAlias

import numpy as np

from sortnet.errors import DataError, JudgementError
from sortnet.files import Record
from sortnet.items import Items
from sortnet.preference import Judgement
from sortnet.preference.base import Pair, Probabilities
from sortnet.preference.study import Decision, questions_at, study_of
from store.collections.collection import Collection
from store.collections.judgement_lines import PLACE_COLUMNS, Form, read_lines
from store.csv_file import ESCAPED_COLUMN, is_formula, write_csv

FORMS_OF_PAIRS = ("chosen", "conversational")  # formats with a line for each pair
ExportForm: TypeAlias = Literal["jsonl", "csv", "chosen", "conversational"]
_JUDGEMENT_FIELDS = [field.name for field in fields(Judgement) if field.name != "number"]
FIELDS = ("id", "number", *_JUDGEMENT_FIELDS)


def export_judgements(
    collection: Collection,
    file: IO[str],
    form: ExportForm = "jsonl",
    *,
    prompt: str = "",
    weights: Mapping[str, float] | None = None,
    for_spreadsheets: bool = True,
) -> int:
    """Write a collection's judgements to an open file, and return the number of lines.

    The formats `jsonl` and `csv` have everything, including undos, comments and flags, and
    `import_judgements` reads them. The column `at` is in seconds since 1970, `excluded` tells
    whether the annotator is excluded. Each line has the `items` in the order in which they were
    shown (in CSV the columns `item1`, `item2`, ...), the `answer`, the `best` and the `worst`
    item. If items have groups, each line has the group and its context. If a
    question was set, each line has the criterion, and the question at the time of the answer. An
    import ignores these.

    The formats `chosen` and `conversational` are JSON lines of `preference_records`, for preference
    tuning, without undone judgements and judgements of excluded annotators.

    Args:
        collection: the collection.
        file: a file that is open to write text.
        form: the format.
        prompt: the prompt of every record. If empty, the context of the group, and the name of the
            group if it has no context.
        weights: {annotator: weight}; annotators without a weight do not count. If None, all
            weights are 1.
        for_spreadsheets: whether texts of `csv` that a spreadsheet would run as formulas get an
            apostrophe. If there are such texts, there is a column `escaped`, by which an import
            removes the apostrophes. All other formats do not change texts.

    Raises:
        DataError: if there is no record to write, or an item has no text.
        StoreError: if the collection has criteria.
    """
    with collection.transaction():
        collection.check_one_question()
        items = collection.items()
        if form in FORMS_OF_PAIRS:
            judgements = collection.counted_judgements()
            is_conversational = form == "conversational"
            lines = [
                *preference_records(
                    judgements,
                    items,
                    prompt=prompt,
                    weights=weights,
                    conversational=is_conversational,
                )
            ]
            if not lines:  # loaders of data sets refuse an empty file with unclear messages
                fault = "nobody has answered yet"
                if judgements:
                    fault = "no pair has a majority of answers yet"
                raise DataError(f"{collection.name}: {fault}, so there is no chosen item to write")
        else:
            lines = _judgement_lines(collection, items)
    if form == "csv":
        _write_csv(file, lines, raw=not for_spreadsheets)
    else:
        for line in lines:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
    return len(lines)


def _judgement_lines(collection: Collection, items: Items) -> list[Record]:
    """Return a line {column: cell} for each judgement, with ids in place of the items' numbers."""
    decisions = collection.decisions()
    excluded = study_of(decisions).excluded
    judgements = collection.judgements()
    questions: Sequence[str | None] = [None] * len(judgements)
    has_question = any(decision.kind == "question" for decision in decisions)
    if has_question:
        questions = questions_at(decisions, [judgement.at for judgement in judgements])
    ids = collection.judgement_ids()
    lines: list[Record] = []
    for judgement, id, question in zip(judgements, ids, questions, strict=True):
        facts = {**vars(judgement), "id": id}
        line = {name: facts[name] for name in FIELDS}
        line["items"] = [items.ids[item] for item in judgement.items]
        for name in ("best", "worst"):
            line[name] = None if line[name] is None else items.ids[line[name]]
        line["excluded"] = judgement.annotator in excluded
        if items.groups is not None:
            line["group"] = items.groups[judgement.left]
            line["context"] = items.context(judgement.left)
        if has_question:
            line["criterion"] = collection.criterion
            line["question"] = question
        lines.append(line)
    return lines


def _write_csv(file: IO[str], lines: Sequence[Record], *, raw: bool) -> None:
    """Write lines as CSV, with a column for each place of an item.

    Args:
        file: the file.
        lines: the lines {column: cell}.
        raw: whether texts that a spreadsheet would run as formulas get no apostrophe.
    """
    columns = [*lines[0]] if lines else [*FIELDS, "excluded"]
    at_items = columns.index("items")
    n_places = max((len(line["items"]) for line in lines), default=2)
    names = [*columns[:at_items], *PLACE_COLUMNS[:n_places], *columns[at_items + 1 :]]
    cells_of_lines = [
        {**line, **dict(zip(PLACE_COLUMNS, line["items"], strict=False))} for line in lines
    ]
    rows = [[cells.get(name) for name in names] for cells in cells_of_lines]
    if not raw and any(is_formula(value) for row in rows for value in row):
        names = [*names, ESCAPED_COLUMN]
        rows = [[*row, True] for row in rows]
    write_csv(file, names, rows, raw=raw)


def import_judgements(
    collection: Collection,
    path: str | Path,
    *,
    form: Form | None = None,
    annotator: str | None = None,
    sides: tuple[str, str] | None = None,
    probabilities: Probabilities | None = None,
) -> tuple[int, int]:
    """Add all judgements of a file to a collection of the same items, or none after an error.

    Each line names its annotator, and its items by their ids, in one of three forms:

    - `items`, a list of two to six ids, and `best` with an id, perhaps also `worst`. If no item was
      chosen, `answer` is same, skip or cant-say in place of `best`. CSV may have columns item1,
      item2, ... in place of `items`.
    - `left`, `right` and `answer`.
    - `winner` and `loser`.

    Files of two items may use other names for columns and answers, such as these:

    | ours | also |
    |---|---|
    | column `left` | `arg1`, `item1`, `first`, `a` |
    | column `right` | `arg2`, `item2`, `second`, `b` |
    | column `answer` | `value`, `vote`, `label`, `choice` |
    | answer `left` | `a1`, `first`, `1`, or the id of the left item |
    | answer `right` | `a2`, `second`, `2`, or the id of the right item |
    | answer `tie` | `equal`, `draw`, `same`, `0` |

    Judgements get new numbers after the existing judgements, and undos are adjusted. A judgement is
    recognised by its `id`. A line without `id` is recognised by its content and the number of equal
    lines before the line. So importing a file again adds nothing, and importing a longer file adds
    the new lines.

    Files of other tools are recognised by their columns: battles of Chatbot Arena, whose models are
    the items; chosen and rejected texts; Label Studio's JSON export of a Pairwise tag; Argilla's
    JSON records with a ranking or a label that names a field. Each text in such a file must be the
    text of exactly one item in the group of the text's prompt.

    Args:
        collection: the collection.
        path: the file.
        form: the format of the file. If None, it is recognised by the file's suffix (JSONL, JSON,
            CSV, TSV or Parquet) and its columns.
        annotator: the annotator of the judgements whose line names no annotator.
        sides: the fields of Label Studio's tasks that have the left and the right item. If None,
            they are recognised by their names, such as text1 and text2.
        probabilities: the meaning of `p` in the file. If None, `p` means what was decided before,
            and a share of votes if nothing was decided.

    Returns:
        The number of judgements that were added, and of judgements that were stored before.

    Raises:
        DataError: on the first error, with file and line; then nothing is added.
    """
    items = collection.items()
    lines = read_lines(Path(path), items, form=form, annotator=annotator, sides=sides)
    judgements = [line.judgement for line in lines]
    ids = [line.id for line in lines]
    try:
        added = collection.append(judgements, ids=ids)
    except JudgementError as error:
        raise DataError(f"{path}: {error}") from None
    if probabilities is not None:
        known = collection.study().probabilities
        annotators = {judgement.annotator for judgement in judgements if judgement.p is not None}
        changed = [name for name in annotators if known.get(name, "share") != probabilities]
        # The kinds of decision about probabilities: p-measurement, p-share and p-ignored.
        collection.decide(*(Decision(f"p-{probabilities}", name) for name in sorted(changed)))
    return len(added), len(lines) - len(added)


def preference_records(
    judgements: Sequence[Judgement],
    items: Items,
    *,
    prompt: str = "",
    weights: Mapping[str, float] | None = None,
    conversational: bool = False,
) -> Iterator[Record]:
    """Yield a record for each pair with a majority of annotators, in the order of first answers.

    `prompt`, `chosen` and `rejected` are the columns of TRL's preference type with an explicit
    prompt, in its standard or conversational format
    (https://huggingface.co/docs/trl/dataset_formats). `weight` is the sum of the weights of the
    annotators who prefer the chosen item, minus the weights of the annotators who prefer the
    rejected item. A tied pair, or a pair whose weight is not above 0, is left out. An annotator who
    answered a pair several times has one vote. An answer about more than two items counts for each
    pair of items that it ranks.

    Args:
        judgements: judgements with undos, and without the judgements of excluded annotators.
        items: the items.
        prompt: the prompt of every record. If empty, the context of the group, and the name of the
            group if it has no context.
        weights: {annotator: weight}, 1 for an average annotator. Annotators without a weight do not
            count. If None, all weights are 1.
        conversational: whether the records have the conversational format.

    Raises:
        DataError: if an item has no text, or a conversation no prompt.
    """
    for (low, high), votes in _votes_of_pairs(judgements).items():
        majority = np.sign(sum(votes.values()))  # 1: low, -1: high, 0: the pair is tied
        weight_of = Counter(votes.keys()) if weights is None else weights
        weighted_votes = [vote * weight_of.get(annotator, 0) for annotator, vote in votes.items()]
        weight = round(float(majority * sum(weighted_votes)), 4)
        if weight <= 0:
            continue  # the weight of a tied pair is 0
        chosen, rejected = (low, high) if majority == 1 else (high, low)
        group = "" if items.groups is None else items.groups[low]
        record: Record = {
            "prompt": prompt or items.context(low) or group,
            "chosen": _text(items, chosen),
            "rejected": _text(items, rejected),
        }
        if conversational:
            record = _as_conversations(record)
        ids = {"chosen_id": items.ids[chosen], "rejected_id": items.ids[rejected]}
        yield {**record, "weight": weight, **ids}


def _votes_of_pairs(judgements: Sequence[Judgement]) -> dict[Pair, dict[str, int]]:
    """Return {pair: {annotator: vote}} of all judgements that were not undone.

    A vote is 1 for the item with the lower number, and -1 for the item with the higher number. It
    is 0 if the annotator has preferred both items equally often.
    """
    undone = {judgement.undoes for judgement in judgements}
    balances: defaultdict[Pair, Counter[str]] = defaultdict(Counter)
    for judgement in judgements:
        if judgement.number in undone:
            continue
        for low, high in judgement.pairs:
            better = judgement.better_of(low, high)
            if better is not None:
                balances[low, high][judgement.annotator] += 1 if better == low else -1
    return {
        pair: {annotator: int(np.sign(votes)) for annotator, votes in balance.items()}
        for pair, balance in balances.items()
    }


def _as_conversations(texts: Mapping[str, str]) -> Record:
    """Replace each text of a record by a conversation of one message.

    The prompt is a message of the user, and every other text is a message of the assistant.

    Raises:
        DataError: if the prompt is empty.
    """
    if not texts["prompt"]:
        raise DataError("a conversation needs a prompt: give one with --prompt TEXT")
    return {
        name: [{"role": "user" if name == "prompt" else "assistant", "content": text}]
        for name, text in texts.items()
    }


def _text(items: Items, number: int) -> str:
    """Return the text of an item; raise a DataError if it has no text."""
    text = items.texts[number]
    if text is None:
        raise DataError(f"item {str(items.ids[number])!r} has no text to be chosen or rejected")
    return text
