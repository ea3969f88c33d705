"""Read tasks of Label Studio, from its JSON export of a Pairwise tag."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from sortnet.files import shown
from sortnet.tables.rows import listed
from store.collections.formats.faults import refuse
from store.collections.formats.item_finder import ItemFinder, Record

COLUMNS = ("data", "annotations")
_MOST_SECONDS = 1e9  # a longer time for an answer is an error of the file, and is ignored
# The endings by which field names tell the left item from the right, as in text1 and text2.
_SIDE_ENDINGS = (("left", "right"), ("1", "2"), ("a", "b"), ("0", "1"))


def check_controls(path: str, tasks: Sequence[Record]) -> None:
    """Refuse a file with results of several Pairwise tags, or with results of other tags only.

    In such a file it is not clear which tag is meant.

    Args:
        path: the file, for messages.
        tasks: all tasks of the file.
    """
    results: list[Record] = []
    for task in tasks:
        if isinstance(task["annotations"], list):
            for annotation in task["annotations"]:
                results += _results(annotation)
    controls = {
        str(result.get("from_name")) for result in results if result.get("type") == "pairwise"
    }
    if len(controls) > 1:
        names = listed(sorted(controls))
        refuse(path, f"has answers of the Pairwise tags {names}: import one at a time")
    if results and not controls:
        kinds = listed(sorted({str(result.get("type")) for result in results}))
        refuse(path, f"no result is of type pairwise, all are {kinds}")


def read_task(
    finder: ItemFinder, fields: tuple[str, str] | None, place: str, task: Record
) -> Iterator[dict[str, Any]]:
    """Yield an answer or a skip for each annotation of a task; leave out predictions.

    Args:
        finder: finds the item that has the text of a field.
        fields: the names of the fields with the left and the right item. If None, the fields are
            recognised by their names.
        place: the file and task, for messages.
        task: the task.
    """
    data = task["data"]
    annotations = task["annotations"]
    if not isinstance(data, dict) or not isinstance(annotations, list):
        refuse(place, "is no task of Label Studio: data is an object, annotations an array")
    for annotation in annotations:
        selected_sides = _selected_sides(annotation)
        is_skipped = isinstance(annotation, dict) and annotation.get("was_cancelled")
        if not selected_sides and not is_skipped:
            continue
        left, right = _items_of_task(finder, fields, place, data)
        yield {
            "left": left,
            "right": right,
            "answer": "skip" if is_skipped else selected_sides[0],
            "annotator": _annotator(annotation),
            "milliseconds": _milliseconds(annotation.get("lead_time")),
            "at": _seconds_since_1970(annotation.get("created_at")),
        }


def _results(annotation: Any) -> list[Record]:
    """List the results of an annotation that are objects; none if the annotation is malformed."""
    results = annotation.get("result") if isinstance(annotation, dict) else None
    if not isinstance(results, list):
        return []
    return [result for result in results if isinstance(result, dict)]


def _selected_sides(annotation: Any) -> list[Any]:
    """List the sides, such as `left`, that are selected in an annotation's Pairwise results."""
    values = [
        result.get("value") for result in _results(annotation) if result.get("type") == "pairwise"
    ]
    return [value.get("selected") for value in values if isinstance(value, dict)]


def _annotator(annotation: Record) -> Any:
    """Return the name or number of the user who made an annotation; None if it is unknown."""
    user = annotation.get("completed_by")
    if not isinstance(user, dict):
        return user
    for key in ("email", "username", "id"):
        if user.get(key):
            return user[key]
    return None


def _items_of_task(
    finder: ItemFinder, fields: tuple[str, str] | None, place: str, data: Record
) -> tuple[str, str]:
    """Return the ids of the left and the right item of a task.

    Args:
        finder: finds the item that has the text of a field.
        fields: the names of the fields with the left and the right item. If None, the fields are
            recognised by their names.
        place: the file and task, for messages.
        data: the fields of the task.
    """
    left_field, right_field = fields or _fields_of_sides(place, data, finder)
    for field in (left_field, right_field):
        if field not in data:
            refuse(place, f"has no field {shown(field)}; there are {listed(data)}")
    return finder.pair(place, data[left_field], data[right_field], data)


def _fields_of_sides(place: str, data: Record, finder: ItemFinder) -> tuple[str, str]:
    """Find the fields with the left and the right item by their names.

    If the names of several pairs of fields fit, only fields with items count.

    Raises:
        DataError: if no pair of fields fits, or more than one pair.
    """
    field_of_lower = {field.lower(): field for field in data}
    pairs: list[tuple[str, str]] = []
    for left_name, left_field in field_of_lower.items():
        for right_name in _right_names(left_name) & field_of_lower.keys():
            pairs.append((left_field, field_of_lower[right_name]))
    if len(pairs) > 1:
        pairs = [pair for pair in pairs if all(finder.is_item(data[field]) for field in pair)]
    if len(pairs) != 1:
        question = "which field holds the left item, and which the right one?"
        refuse(place, f"{question} --fields LEFT RIGHT; there are {listed(data)}")
    return pairs[0]


def _right_names(left_name: str) -> set[str]:
    """Return the names that the right field may have, given the name of the left field.

    The names differ at their ends (such as left and right, 1 and 2, a and b), or at their starts.

    >>> _right_names("text1"), _right_names("left_text")
    ({'text2'}, {'right_text'})
    """
    names = {
        left_name.removesuffix(left_end) + right_end
        for left_end, right_end in _SIDE_ENDINGS
        if left_name.endswith(left_end)
    }
    if left_name.startswith("left"):
        names.add(left_name.replace("left", "right", 1))
    return names


def _milliseconds(seconds: Any) -> int | None:
    """Convert seconds to milliseconds; return None if the value is no plausible number."""
    if not isinstance(seconds, int | float) or not 0 <= seconds < _MOST_SECONDS:
        return None
    return round(1000 * seconds)


def _seconds_since_1970(iso_time: Any) -> float | None:
    """Convert an ISO time to seconds since 1970.

    Return None for a value that is no time, a time without time zone, or a time of 1970 or before.
    """
    try:
        time = datetime.fromisoformat(iso_time)
    except (TypeError, ValueError):
        return None
    if time.tzinfo is None or time.year <= 1970:
        return None
    return time.timestamp()
