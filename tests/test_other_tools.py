"""Judgement files of Chatbot Arena, of preference tuning, of Label Studio and of Argilla."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from collection_helpers import made_items

from sortnet.errors import DataError
from sortnet.items import Items
from store.collections.judgement_lines import read_lines

ABC = made_items(3, ids=("a", "b", "c"), texts=("An A.", "A b!", "C"))
# Two prompts whose replies have texts in common.
REPLIES = made_items(
    4,
    ids=("x1", "x2", "y1", "y2"),
    texts=("Yes.", "No.", "Yes.", "No."),
    groups=("x", "x", "y", "y"),
    contexts=("Is it?", "Is it?", "Was it?", "Was it?"),
)
BATTLES = [
    {"model_a": "a", "model_b": "b", "winner": "model_a", "judge": "u1", "tstamp": 1682351591.1},
    {"model_a": "c", "model_b": "b", "winner": "model_b", "judge": "u2", "anony": True},
    {"model_a": "c", "model_b": "a", "winner": "tie (bothbad)", "judge": "u1"},
]


def read(
    folder: Path, value: Any, items: Items = ABC, name: str = "f.json", **given: Any
) -> list[str]:
    """Each judgement as `annotator: better > worse`, or with the answer between left and right."""
    path = folder / name
    if isinstance(value, bytes):
        path.write_bytes(value)
    elif name.endswith(".jsonl"):
        path.write_text("".join(json.dumps(each) + "\n" for each in value))
    else:
        path.write_text(value if isinstance(value, str) else json.dumps(value))
    said = []
    for line in read_lines(path, items, **given):
        judgement = line.judgement
        left, right = items.ids[judgement.left], items.ids[judgement.right]
        answer = judgement.word
        pair = {"left": f"{left} > {right}", "right": f"{right} > {left}"}
        said.append(f"{judgement.annotator}: {pair.get(answer, f'{left} {answer} {right}')}")
    return said


def task(*annotations: Any, **data: Any) -> dict[str, Any]:
    """A task of Label Studio, in the form of https://labelstud.io/guide/task_format."""
    data = data or {"text2": "A b!", "text1": "An A."}
    return {"id": 1, "data": data, "annotations": [*annotations], "predictions": [{"result": []}]}


def annotation(selected: str | None, tag: str = "pw", **more: Any) -> dict[str, Any]:
    result = {"from_name": tag, "to_name": tag, "type": "pairwise", "id": "Dx_aB91ISN"}
    results = [result | {"value": {"selected": selected}}] if selected else []
    return {"id": 7, "result": results, "completed_by": 3, **more}


FIELDS = {"instruction": "Which?", "reply_1": "An A.", "reply_2": "A b!", "reply_3": "C"}


def record(*values: Any, fields: Any = FIELDS, question: str = "ranking") -> dict[str, Any]:
    """A record as Argilla's SDK writes it to JSON, an annotator u0, u1, ... for each value."""
    said = [{"value": value, "user_id": f"u{k}"} for k, value in enumerate(values)]
    return {"id": "58-d1", "fields": fields, "suggestions": {}, "responses": {question: said}}


def ranks(**of: int | None) -> list[dict[str, Any]]:
    return [{"value": name, "rank": rank} for name, rank in of.items()]


USER, YES, NO = (
    {"role": role, "content": text}
    for role, text in (("user", "Was it?"), ("assistant", "Yes."), ("assistant", "No."))
)
LEFT = annotation("left")
SUBMITTED = {"ranking": {"value": ranks(reply_1=1, reply_2=2)}, "why": {"value": "shorter"}}
TWO = {"prompt": "?", "one": "C", "other": [{"role": "assistant", "content": "An A."}]}
CHOSEN = [
    {"prompt": "Was it?", "chosen": "No.", "rejected": "Yes."},
    {"prompt": "x", "chosen": "No.", "rejected": "Yes."},
    {"prompt": [USER], "chosen": [YES], "rejected": [NO]},
    {"chosen": [USER, YES], "rejected": [USER, NO]},
    {"chosen": "x2", "rejected": "x1"},
]


@pytest.mark.parametrize(
    ("records", "items", "expected"),
    [
        (BATTLES, ABC, ["u1: a > b", "u2: b > c", "u1: c tie a"]),
        ([{"prompt": "", "chosen": "A b!", "rejected": "An A. "}], ABC, ["eve: b > a"]),
        (CHOSEN, REPLIES, [f"eve: {pair}" for pair in ("y2 > y1", "x2 > x1", "y1 > y2", "y1 > y2",
                                                       "x2 > x1")]),
        ([task(LEFT, annotation("right", completed_by={"id": 5, "email": "ben@example.org"}),
               annotation(None, was_cancelled=True), annotation(None)), task()], ABC,
         ["3: a > b", "ben@example.org: b > a", "3: a skip b"]),
        ([task(LEFT, right_reply="An A.", left_reply="A b!", prompt="Which?")], ABC, ["3: b > a"]),
        ([task(LEFT, answer_a="An A.", answer_b="A b!", n1="1")], ABC, ["3: a > b"]),
        ([task(LEFT, model_a="x", model_b="y", text1="C", text2="a")], ABC, ["3: c > a"]),
        ([task(LEFT, text1="No.", text2="Yes.", question="Was it?")], REPLIES, ["3: y2 > y1"]),
        ([record(ranks(reply_1=2, reply_2=1, reply_3=2), ranks(reply_3=1, reply_1=2)), record()],
         ABC, ["u0: b > a", "u0: a tie c", "u0: b > c", "u1: c > a"]),
        ([record("reply_2")], ABC, ["u0: b > a", "u0: b > c"]),
        ([record("other", "Tie", fields=TWO)], ABC, ["u0: a > c", "u1: c tie a"]),
        ([{"fields": FIELDS, "responses": [
            {"values": SUBMITTED, "user_id": "ana", "status": "submitted"},
            {"values": SUBMITTED, "user_id": "bo", "status": "draft"},
            {"values": None, "user_id": "dee", "status": "discarded"}]}], ABC, ["ana: a > b"]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["f.json", "f.jsonl"])
def test_records_of_other_tools_are_read(tmp_path: Path, records, items, expected, name) -> None:
    assert read(tmp_path, records, items, name=name, annotator="eve") == expected


def test_tables_have_battles_and_times_are_kept(tmp_path: Path) -> None:
    frame = pd.DataFrame(BATTLES)
    frame.to_parquet(tmp_path / "whole.parquet")
    whole = (tmp_path / "whole.parquet").read_bytes()
    for name, content in (("f.csv", frame.to_csv(index=False)), ("f.parquet", whole)):
        assert read(tmp_path, content, name=name) == read(tmp_path, BATTLES)
    (first, *_) = read_lines(tmp_path / "f.json", ABC)
    assert first.judgement.at == 1682351591.1 and first.where == f"{tmp_path}/f.json, record 1"
    timed = annotation("left", lead_time=4.288, created_at="2021-03-09T22:16:08.728353Z")
    read(tmp_path, [task(timed)])
    (line,) = read_lines(tmp_path / "f.json", ABC)
    assert (line.judgement.milliseconds, line.judgement.at) == (4288, 1615328168.728353)


UNCLEAR = [task(LEFT, one="An A.", other="A b!")]
OWN = [{"left": "a", "right": "b", "answer": "left", "chosen": "C", "rejected": "a"}]


def test_the_form_and_the_fields_can_be_named_and_own_columns_come_first(tmp_path: Path) -> None:
    assert read(tmp_path, UNCLEAR, sides=("other", "one")) == ["3: b > a"]
    assert read(tmp_path, OWN, annotator="ana") == ["ana: a > b"]
    assert read(tmp_path, OWN, annotator="ana", form="chosen") == ["ana: c > a"]


@pytest.mark.parametrize(
    ("value", "given", "why"),
    [
        ([{**BATTLES[0], "model_a": f"v{k}"} for k in range(5)], {}, "has the id or text 'v0' ("),
        ([{**BATTLES[0], "judge": None}], {}, "record 1: no annotator: add the column"),
        ([{"chosen": "Yes.", "rejected": "No."}], {"items": REPLIES}, "more than one pair of"),
        ([{"chosen": "x1", "rejected": "y2"}], {"items": REPLIES}, "are one item, or not both"),
        ([{"chosen": "x1", "rejected": "No.", "prompt": "Was it?"}], {"items": REPLIES},
         "not both of the group of the prompt"),

        ([{"chosen": "x" * 10**6, "rejected": "C"}], {}, "has the id or text 'xxxx"),
        (UNCLEAR, {}, "--fields LEFT RIGHT; there are one, other"),
        (UNCLEAR, {"sides": ("one", "two")}, "no field 'two'"),
        ([task(LEFT, text1="C", text2="a", text_a="C", text_b="a")], {}, "--fields LEFT RIGHT"),
        ([task(LEFT, annotation("left", "style"))], {}, "pw, style compare items:"),
        ([task({"id": 1, "result": [{"type": "rating"}], "completed_by": 1})], {},
         "no answer names the better field, or gives each field a rank; there are answers to r"),


        ([record("reply_1"), record("reply_1", question="style")], {}, "ranking, style compare"),

        ([record("reply_1", "B")], {}, "the answer 'B' is no field"),
        ([record("reply_1"), record(fields=3)], {}, "is no record of Argilla"),
        ([record(ranks(reply_1="x", reply_2=1))], {}, "rank 'x' or 1 is no whole number"),
        (OWN, {"form": "argilla"}, "a file of argilla needs fields, responses; has left"),
        ("[1]", {}, ", record 1: is no JSON object: 1"),
        ('[{"a": 1},\n{"b"', {}, ": is no JSON (Expecting ':' delimiter in line 2): '[{"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_in_one_line(tmp_path: Path, value, given, why) -> None:
    annotator = None if "no annotator" in why else "crowd"
    with pytest.raises(DataError) as caught:
        read(tmp_path, value, annotator=annotator, **given)
    message = str(caught.value)
    assert message.startswith(str(tmp_path)) and "\n" not in message and len(message) < 500
    assert why in message


@pytest.mark.parametrize("text", ["", "[]", "\ufeff[]", " \n"])
def test_an_empty_file_has_no_judgements(tmp_path: Path, text: str) -> None:
    for form in (None, "arena", "chosen", "label-studio", "argilla"):
        assert read(tmp_path, text, form=form) == []


WHOLE = {
    "arena": BATTLES[0],
    "chosen": CHOSEN[0],
    "label-studio": task(annotation("left", lead_time=1.0, created_at="2021-03-09T22:16:08Z")),
    "argilla": record(ranks(reply_1=1, reply_2=2), "reply_3"),
}


@pytest.mark.parametrize("tool", WHOLE)
@pytest.mark.parametrize("odd", [None, 1, True, 1e400, "x", [], [None], {}, {"a": [{}]}, [[{}]]])
def test_any_value_in_a_record_is_refused_or_read(tmp_path: Path, tool: str, odd: Any) -> None:
    for changed in changes(WHOLE[tool], odd):
        try:
            read(tmp_path, [changed], form=tool, annotator="eve")
        except DataError as error:
            assert "\n" not in str(error)


def changes(value: Any, odd: Any) -> list[Any]:
    """The value with one part of it replaced, each in turn."""
    found = [odd]
    places: list[Any] = []
    if isinstance(value, dict | list):
        places = list(value) if isinstance(value, dict) else list(range(len(value)))
    for place in places:
        for new in changes(value[place], odd):
            copy = value.copy()
            copy[place] = new
            found.append(copy)
    return found
