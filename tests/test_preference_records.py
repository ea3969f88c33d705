"""Chosen and rejected texts in the format that TRL documents, with the annotators' weights.

The format is that of https://huggingface.co/docs/trl/dataset_formats#preference: a record has a
"prompt", a "chosen" and a "rejected" column, with an explicit prompt (recommended) all texts, or in
the conversational format lists of messages with a "role" and "content", the prompt the user's, the
others the assistant's.
"""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from collection_helpers import made_items

from sortnet.errors import DataError
from sortnet.items import Items
from sortnet.preference import Judgement
from sortnet.preference.session import Session
from store import Store
from store.collections.formats.chosen import preference_records
from store.collections.judgement_files import export_judgements, import_judgements
from store.collections.judgement_lines import read_lines
from store.service.judged_queries import annotator_weights

REPLIES = made_items(
    4,
    ids=("x1", "x2", "y1", "y2"),
    texts=("Yes.", "No.", "Yes.", "No."),
    groups=("x", "x", "y", "y"),
    contexts=("Is it?", "Is it?", None, None),
)


def said(*answers: tuple[str, int, int, Any]) -> list[Judgement]:
    return [
        Judgement.of(who, (left, right), answer, number=k)
        for k, (who, left, right, answer) in enumerate(answers, start=1)
    ]


def records(judgements: list[Judgement], items: Items = REPLIES, **given: Any) -> list[Any]:
    return [*preference_records(judgements, items, **given)]


def check_preference(record: dict[str, Any], *, conversational: bool) -> None:
    """What the page says of a record of type preference with an explicit prompt."""
    for name in ("prompt", "chosen", "rejected"):
        if not conversational:
            assert isinstance(record[name], str)
            continue
        (message,) = record[name]
        assert set(message) == {"role", "content"} and isinstance(message["content"], str)
        assert message["role"] == ("user" if name == "prompt" else "assistant")
    assert isinstance(record["weight"], float) and record["weight"] > 0


@pytest.mark.parametrize("conversational", [False, True])
def test_records_have_the_columns_and_types_of_trls_preference_format(
    conversational: bool,
) -> None:
    judgements = said(("ana", 0, 1, "left"), ("ana", 3, 2, "left"), ("bo", 0, 1, "tie"))
    found = records(judgements, conversational=conversational, weights={"ana": 1.0, "bo": 0.9})
    for record in found:
        check_preference(record, conversational=conversational)
    # The page's own examples have the same form.
    user = {"role": "user", "content": "Is it?"}
    yes, no = ({"role": "assistant", "content": text} for text in ("Yes.", "No."))
    expected: dict[str, Any] = {"prompt": "Is it?", "chosen": "Yes.", "rejected": "No."}
    if conversational:
        expected = {"prompt": [user], "chosen": [yes], "rejected": [no]}
    assert found[0] == expected | {"weight": 1.0, "chosen_id": "x1", "rejected_id": "x2"}
    assert [record["chosen_id"] for record in found] == ["x1", "y2"]


def test_the_prompt_is_given_or_the_context_of_the_group_or_its_name() -> None:
    judgements = said(("ana", 0, 1, "left"), ("ana", 3, 2, "left"))
    assert [r["prompt"] for r in records(judgements)] == ["Is it?", "y"]
    assert [r["prompt"] for r in records(judgements, prompt="Well?")] == ["Well?", "Well?"]
    alone = records(said(("ana", 0, 1, "left")), made_items(2))
    assert [r["prompt"] for r in alone] == [""]
    with pytest.raises(DataError, match="a conversation needs a prompt: give one with --prompt"):
        records(said(("ana", 0, 1, "left")), made_items(2), conversational=True)


def test_the_weight_is_that_of_the_majority_less_that_of_the_others() -> None:
    votes = said(
        ("ana", 0, 1, "left"), ("ben", 1, 0, "right"), ("eve", 0, 1, "right"),  # 2 to 1
        ("ana", 2, 3, "right"),
    )  # fmt: skip
    weights = {"ana": 1.2, "ben": 0.9, "eve": 0.35}
    found = records(votes, weights=weights)
    assert [(r["chosen_id"], r["weight"]) for r in found] == [("x1", 1.75), ("y2", 1.2)]
    # Nothing is chosen by those who answer blindly, or against a more reliable annotator.
    found = records(votes, weights={"ana": 0.0, "ben": 0.3, "eve": 0.35})
    assert found == []
    assert [r["weight"] for r in records(votes)] == [1, 1]


def test_reliable_annotators_weigh_more_than_those_who_toss_coins(store: Store) -> None:
    collection = store.add_items("c", made_items(12, d=1), settings={"holdout": 0.1})
    rng = np.random.default_rng(3)
    quality = collection.items().features[:, 0]
    votes = []
    for who in ("ana", "ben", "eve"):
        for _ in range(60):
            a, b = map(int, rng.choice(12, 2, replace=False))
            better = quality[a] > quality[b] if who != "eve" else rng.random() < 0.5
            votes.append(Judgement.of(who, (a, b), "left" if better else "right"))
    collection.append(votes)
    weights = annotator_weights(collection)
    assert list(weights) == ["ana", "ben", "eve"]
    assert weights["eve"] < 0.5 < min(weights["ana"], weights["ben"])
    assert Session(None, 3).weighted()[1] == {}


@pytest.mark.parametrize("form", ["chosen", "conversational"])
def test_an_export_loads_in_pandas_and_is_imported_again(
    store: Store, tmp_path: Any, form: Any
) -> None:
    collection, other = store.add_items("one", REPLIES), store.add_items("two", REPLIES)
    collection.append(said(("ana", 0, 1, "left"), ("ana", 3, 2, "left"), ("bo", 3, 2, "left")))
    path = tmp_path / "preferences.jsonl"
    assert export_judgements(collection, path, form, weights={"ana": 1.0, "bo": 0.5}) == 2
    frame = pd.read_json(path, lines=True)
    assert list(frame.columns[:4]) == ["prompt", "chosen", "rejected", "weight"]
    assert frame["weight"].tolist() == [1.0, 1.5]
    for record in map(json.loads, path.read_text().splitlines()):
        check_preference(record, conversational=form == "conversational")
    assert import_judgements(other, path, annotator="majority").added == 2
    again = io.StringIO()
    export_judgements(other, again, form, weights={"majority": 1.0})
    theirs = pd.read_json(io.StringIO(again.getvalue()), lines=True)
    pd.testing.assert_frame_equal(theirs.drop(columns="weight"), frame.drop(columns="weight"))


def test_an_export_is_read_by_its_ids_where_texts_are_those_of_other_ids(tmp_path: Any) -> None:
    items = made_items(2, ids=("a", "b"), texts=("b", "a"))
    path = tmp_path / "f.jsonl"
    path.write_text(json.dumps(records(said(("ana", 0, 1, "left")), items)[0]))
    (line,) = read_lines(path, items, annotator="x")
    judgement = line.judgement
    assert (judgement.left if judgement.word == "left" else judgement.right) == 0
