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


def read(
    folder: Path, value: Any, items: Items = ABC, name: str = "f.json", **given: Any
) -> list[tuple[str, str, str, str]]:
    """(annotator, better, worse, answer) of each judgement; of a tie or skip (left, right)."""
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
        pair = judgement.left, judgement.right
        kind = judgement.word if judgement.word in ("tie", "skip") else "better"
        one, other = pair[::-1] if judgement.word == "right" else pair
        said.append((judgement.annotator, items.ids[one], items.ids[other], kind))
    return said


def fault(folder: Path, value: Any, items: Items = ABC, **given: Any) -> str:
    with pytest.raises(DataError) as caught:
        read(folder, value, items, **given)
    message = str(caught.value)
    assert message.startswith(str(folder)) and "\n" not in message and len(message) < 500
    return message.removeprefix(f"{folder}/")


def battle(a: str, b: str, winner: str, **more: Any) -> dict[str, Any]:
    return {"model_a": a, "model_b": b, "winner": winner, **more}


BATTLES = [
    battle("a", "b", "model_a", judge="arena_user_1", tstamp=1682351591.1, question_id="58-d1"),
    battle("c", "b", "model_b", judge="arena_user_2", anony=True, conversation_a=[{"role": "x"}]),
    battle("a", "c", "tie", judge="arena_user_1"),
    battle("c", "a", "tie (bothbad)", judge="arena_user_1"),
]
WON = [
    ("arena_user_1", "a", "b", "better"), ("arena_user_2", "b", "c", "better"),
    ("arena_user_1", "a", "c", "tie"), ("arena_user_1", "c", "a", "tie"),
]  # fmt: skip


def test_battles_of_the_arena_are_read_as_json_lines_table_and_parquet(tmp_path: Path) -> None:
    assert read(tmp_path, BATTLES) == WON
    assert read(tmp_path, BATTLES, name="f.jsonl") == WON
    frame = pd.DataFrame(BATTLES)
    assert read(tmp_path, frame.to_csv(index=False), name="f.csv") == WON
    frame.to_parquet(tmp_path / "whole.parquet")
    assert read(tmp_path, (tmp_path / "whole.parquet").read_bytes(), name="f.parquet") == WON
    (line, *_) = read_lines(tmp_path / "f.json", ABC)
    assert line.judgement.at == 1682351591.1 and line.where == f"{tmp_path}/f.json, record 1"


def test_unknown_models_are_named_in_one_line(tmp_path: Path) -> None:
    models = [battle("a", f"vicuna-{k}", "model_a", judge="x") for k in range(5)]
    assert fault(tmp_path, models) == (
        "f.json: 5 of 6 models are no items of the collection: 'vicuna-0', 'vicuna-1', "
        "'vicuna-2', ...: add them first (sortnet items add)"
    )
    assert "record 1: no annotator: add the column" in fault(tmp_path, [battle("a", "b", "tie")])


def test_chosen_and_rejected_are_found_by_text_by_id_and_in_the_group_of_the_prompt(
    tmp_path: Path,
) -> None:
    records = [
        {"prompt": "", "chosen": "A b!", "rejected": "An A. "},
        {"chosen": "c", "rejected": "a"},
    ]
    assert read(tmp_path, records, annotator="crowd") == [
        ("crowd", "b", "a", "better"), ("crowd", "c", "a", "better")
    ]  # fmt: skip
    user, yes, no = (
        {"role": role, "content": text}
        for role, text in (("user", "Was it?"), ("assistant", "Yes."), ("assistant", "No."))
    )
    records = [
        {"prompt": "Was it?", "chosen": "No.", "rejected": "Yes."},
        {"prompt": "x", "chosen": "No.", "rejected": "Yes."},
        {"prompt": [user], "chosen": [yes], "rejected": [no]},
        {"chosen": [user, yes], "rejected": [user, no]},
    ]
    for name in ("f.json", "f.jsonl"):
        assert read(tmp_path, records, REPLIES, name=name, annotator="crowd") == [
            ("crowd", "y2", "y1", "better"), ("crowd", "x2", "x1", "better"),
            ("crowd", "y1", "y2", "better"), ("crowd", "y1", "y2", "better"),
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("record", "why"),
    [
        ({"chosen": "Yes.", "rejected": "No."}, "are of more than one pair of items: name the"),
        ({"chosen": "Yes.", "rejected": "Maybe", "prompt": "x"}, "has the id or text 'Maybe'"),
        ({"chosen": "Yes.", "rejected": "Yes.", "prompt": "x"}, "are one item, or of different"),
        ({"chosen": "x1", "rejected": "y2"}, "are one item, or of different groups"),
        ({"chosen": "x1", "rejected": "No.", "prompt": "Was it?"}, "no item of the group of its"),
        ({"chosen": 3.5, "rejected": None}, "no item of the collection has the id or text 3.5"),
        ({"chosen": "x" * 10**6, "rejected": "No."}, "has the id or text 'xxxx"),
    ],
)
def test_a_text_of_no_or_several_items_is_refused(tmp_path: Path, record: Any, why: str) -> None:
    message = fault(tmp_path, [record], REPLIES, annotator="crowd")
    assert message.startswith("f.json, record 1: ") and why in message


def annotation(selected: str | None, **more: Any) -> dict[str, Any]:
    result = {"from_name": "pw", "to_name": "pw", "type": "pairwise", "id": "Dx_aB91ISN"}
    result["value"] = {"selected": selected}
    return {"id": 7, "result": [result] if selected else [], "completed_by": 3, **more}


def task(*annotations: Any, **data: Any) -> dict[str, Any]:
    data = data or {"text2": "A b!", "text1": "An A."}
    return {"id": 1, "data": data, "annotations": [*annotations], "predictions": [{"result": []}]}


def test_label_studios_pairwise_annotations_are_read(tmp_path: Path) -> None:
    # The form of https://labelstud.io/guide/task_format, the value of the Pairwise tag in it.
    tasks = [
        task(
            annotation("left", lead_time=4.288, created_at="2021-03-09T22:16:08.728353Z"),
            annotation("right", completed_by={"id": 5, "email": "ben@example.org"}),
            annotation(None, was_cancelled=True),
            annotation(None),
        ),
        task(),
    ]
    assert read(tmp_path, tasks) == [
        ("3", "a", "b", "better"), ("ben@example.org", "b", "a", "better"), ("3", "a", "b", "skip"),
    ]  # fmt: skip
    (line, *_) = read_lines(tmp_path / "f.json", ABC)
    assert (line.judgement.milliseconds, line.judgement.at) == (4288, 1615328168.728353)


def test_the_fields_of_a_task_that_hold_left_and_right_are_named_or_certain(
    tmp_path: Path,
) -> None:
    left = annotation("left")
    for names in (("left", "right"), ("right_reply", "left_reply"), ("answer_a", "answer_b")):
        data = dict(zip(names, ("An A.", "A b!"), strict=True)) | {"prompt": "Which?", "n1": "1"}
        better = "b" if names[0] == "right_reply" else "a"
        (said,) = read(tmp_path, [task(left, **data)])
        assert said[1] == better
    unclear = [task(left, one="An A.", other="A b!")]
    assert fault(tmp_path, unclear) == (
        "f.json, record 1: which field holds the left item, and which the right one? "
        "--fields LEFT RIGHT; there are one, other"
    )
    assert read(tmp_path, unclear, sides=("other", "one")) == [("3", "b", "a", "better")]
    assert "no field 'two'" in fault(tmp_path, unclear, sides=("one", "two"))
    models = {"model_a": "x", "model_b": "y", "text1": "C", "text2": "a"}
    assert read(tmp_path, [task(left, **models)]) == [("3", "c", "a", "better")]
    several = {"text1": "C", "text2": "a", "text_a": "C", "text_b": "a"}
    assert "--fields LEFT RIGHT" in fault(tmp_path, [task(left, **several)])
    replies = {"text1": "No.", "text2": "Yes.", "question": "Was it?"}
    assert read(tmp_path, [task(left, **replies)], REPLIES) == [("3", "y2", "y1", "better")]


def test_label_studio_exports_without_one_pairwise_tag_are_refused(tmp_path: Path) -> None:
    other = annotation("left")
    other["result"] = [{**other["result"][0], "from_name": "style"}]
    both = [task(annotation("left"), other)]
    assert "answers of the Pairwise tags pw, style: import one" in fault(tmp_path, both)
    rated = {"id": 1, "result": [{"type": "rating", "value": {"rating": 3}}], "completed_by": 1}
    assert "no result is of type pairwise, all are rating" in fault(tmp_path, [task(rated)])
    assert "is no task of Label Studio" in fault(tmp_path, [{"data": [], "annotations": 1}])
    unknown = task(annotation("left"), text1="Unknown", text2="C")
    assert "has the id or text 'Unknown'" in fault(tmp_path, [unknown])
    small = [{"id": 1, "text1": "C", "pw": "left", "annotator": 1, "annotation_id": 2}]
    assert "needs data, annotations; has" in fault(tmp_path, small, form="label-studio")


FIELDS = {"instruction": "Which?", "reply_1": "An A.", "reply_2": "A b!", "reply_3": "C"}


def record(*values: Any, fields: Any = FIELDS, question: str = "ranking") -> dict[str, Any]:
    """A record as Argilla's SDK writes it to JSON, an annotator u0, u1, ... for each value."""
    said = [{"value": value, "user_id": f"u{k}"} for k, value in enumerate(values)]
    suggestions = {question: {"value": "reply_2", "score": 0.9, "agent": "gpt"}}
    parts = {"metadata": {}, "suggestions": suggestions, "vectors": {}, "_server_id": "0-1"}
    return {"id": "58-d1", "fields": fields, **parts, "responses": {question: said}}


def ranks(**of: int | None) -> list[dict[str, Any]]:
    return [{"value": name, "rank": rank} for name, rank in of.items()]


def test_rankings_and_labels_of_argilla_are_read(tmp_path: Path) -> None:
    records = [
        record(ranks(reply_1=2, reply_2=1, reply_3=2), ranks(reply_3=1, reply_1=2, reply_2=None)),
        record(),
    ]
    assert read(tmp_path, records) == [
        ("u0", "b", "a", "better"), ("u0", "a", "c", "tie"), ("u0", "b", "c", "better"),
        ("u1", "c", "a", "better"),
    ]  # fmt: skip
    assert read(tmp_path, [record("reply_2")]) == [
        ("u0", "b", "a", "better"), ("u0", "b", "c", "better"),
    ]  # fmt: skip
    two = {"prompt": "?", "one": "C", "other": [{"role": "assistant", "content": "An A."}]}
    assert read(tmp_path, [record("other", "Tie", fields=two)]) == [
        ("u0", "a", "c", "better"), ("u1", "c", "a", "tie"),
    ]  # fmt: skip


def test_responses_in_the_form_of_argillas_api_count_if_they_were_submitted(
    tmp_path: Path,
) -> None:
    value = {"ranking": {"value": ranks(reply_1=1, reply_2=2)}, "why": {"value": "shorter"}}
    said = [
        {"values": value, "user_id": who, "status": status}
        for who, status in (("ana", "submitted"), ("bo", "draft"), ("cy", "discarded"))
    ]
    said.append({"values": None, "user_id": "dee", "status": "discarded"})
    assert read(tmp_path, [{"fields": FIELDS, "responses": said}], name="f.jsonl") == [
        ("ana", "a", "b", "better")
    ]


def test_argilla_records_that_could_be_read_in_two_ways_are_refused(tmp_path: Path) -> None:
    plain = [record(["reply_2", "reply_1"])]
    assert fault(tmp_path, plain) == (
        "f.json: question 'ranking': a ranking without ranks, \"['reply_2', 'reply_1']\": each "
        'must be {"value": ..., "rank": ...}, as the API has'
    )
    two = [record("reply_1"), record("reply_1", question="style")]
    assert "the questions ranking, style compare fields: leave" in fault(tmp_path, two)
    assert "no answer names a field of its record" in fault(tmp_path, [record("A"), record(4)])
    assert "the answer 'B' is no field" in fault(tmp_path, [record("reply_1", "B")])
    assert "is no record of Argilla" in fault(tmp_path, [record("reply_1"), record(fields=3)])
    odd = [record([{"value": "reply_1", "rank": "x"}, {"value": "reply_2", "rank": 1}])]
    assert "rank 'x' or 1 is no whole number" in fault(tmp_path, odd)


def test_the_form_can_be_named_and_own_columns_come_first(tmp_path: Path) -> None:
    own = [{"left": "a", "right": "b", "answer": "left", "chosen": "C", "rejected": "a"}]
    assert read(tmp_path, own, annotator="ana") == [("ana", "a", "b", "better")]
    assert read(tmp_path, own, annotator="ana", form="chosen") == [("ana", "c", "a", "better")]
    assert fault(tmp_path, own, form="argilla") == (
        "f.json: a file of argilla needs fields, responses; "
        "has left, right, answer, chosen, rejected"
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[1]", ", record 1: is no JSON object: 1"),
        ('[{"a": 1},\n{"b"', ": is no JSON (Expecting ':' delimiter in line 2): '[{"),
    ],
)
def test_a_json_file_that_is_damaged_is_refused(tmp_path: Path, text: Any, why: str) -> None:
    assert fault(tmp_path, text).startswith(f"f.json{why}")


@pytest.mark.parametrize("text", ["", "[]", "\ufeff[]", " \n"])
def test_an_empty_file_has_no_judgements(tmp_path: Path, text: str) -> None:
    for form in (None, "arena", "chosen", "label-studio", "argilla"):
        assert read(tmp_path, text, form=form) == []


@pytest.mark.parametrize("tool", ["arena", "chosen", "label-studio", "argilla"])
@pytest.mark.parametrize("odd", [None, 1, True, 1e400, "x", [], [None], {}, {"a": [{}]}, [[{}]]])
def test_any_value_in_a_record_is_refused_or_read(tmp_path: Path, tool: str, odd: Any) -> None:
    whole = {
        "arena": BATTLES[0],
        "chosen": {"chosen": "C", "rejected": "a", "prompt": "x"},
        "label-studio": task(annotation("left", lead_time=1.0, created_at="2021-03-09T22:16:08Z")),
        "argilla": record(ranks(reply_1=1, reply_2=2), "reply_3"),
    }[tool]
    for changed in changes(whole, odd):
        try:
            read(tmp_path, [changed], form=tool, annotator="eve")
        except DataError as error:
            assert "\n" not in str(error)


def changes(value: Any, odd: Any) -> list[Any]:
    """The value with one part of it replaced, each in turn."""
    found = [odd]
    if isinstance(value, dict):
        found += [{**value, k: new} for k, each in value.items() for new in changes(each, odd)]
    if isinstance(value, list):
        found += [
            [*value[:k], new, *value[k + 1 :]]
            for k in range(len(value))
            for new in changes(value[k], odd)
        ]
    return found
