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
from sortnet.preference import Judgement
from store import Store
from store.collections.judgement_files import (
    export_judgements,
    import_judgements,
    preference_records,
)
from store.collections.judgement_lines import read_lines
from store.service.judged_queries import annotator_weights

REPLIES = made_items(
    4,
    ids=("x1", "x2", "y1", "y2"),
    texts=("Yes.", "No.", "Yes.", "No."),
    groups=("x", "x", "y", "y"),
    contexts=("Is it?", "Is it?", None, None),
)
TWO = [Judgement.of("ana", (0, 1), "left"), Judgement.of("ana", (3, 2), "left")]


@pytest.mark.parametrize("form", ["chosen", "conversational"])
def test_an_export_has_trls_preference_format_and_is_imported_again(
    store: Store, tmp_path: Any, form: Any
) -> None:
    collection, other = store.add_items("one", REPLIES), store.add_items("two", REPLIES)
    collection.append([*TWO, Judgement.of("bo", (3, 2), "left"), Judgement.of("bo", (0, 1), "tie")])
    path = tmp_path / "preferences.jsonl"
    with path.open("w") as file:
        assert export_judgements(collection, file, form, weights={"ana": 1.0, "bo": 0.5}) == 2
    first, second = map(json.loads, path.read_text().splitlines())
    texts = {"prompt": "Is it?", "chosen": "Yes.", "rejected": "No."}
    if form == "conversational":
        roles = {"prompt": "user", "chosen": "assistant", "rejected": "assistant"}
        expected = {name: [{"role": roles[name], "content": text}] for name, text in texts.items()}
    else:
        expected = texts
    assert first == {**expected, "weight": 1.0, "chosen_id": "x1", "rejected_id": "x2"}
    assert (second["chosen_id"], second["weight"]) == ("y2", 1.5)
    assert import_judgements(other, path, annotator="majority")[0] == 2
    again = io.StringIO()
    export_judgements(other, again, form, weights={"majority": 1.0})
    ours, theirs = (
        pd.read_json(source, lines=True).drop(columns="weight")
        for source in (path, io.StringIO(again.getvalue()))
    )
    pd.testing.assert_frame_equal(theirs, ours)


@pytest.mark.parametrize(
    ("items", "options", "prompts"),
    [(REPLIES, {}, ["Is it?", "y"]), (REPLIES, {"prompt": "Well?"}, ["Well?"] * 2),
     (made_items(4), {}, ["", ""])],
)  # fmt: skip
def test_the_prompt_is_given_or_the_context_of_the_group_or_its_name(
    items, options, prompts
) -> None:
    assert [r["prompt"] for r in preference_records(TWO, items, **options)] == prompts


def test_a_conversation_needs_a_prompt() -> None:
    with pytest.raises(DataError, match="a conversation needs a prompt: give one with --prompt"):
        list(preference_records(TWO, made_items(4), conversational=True))


@pytest.mark.parametrize(
    ("weights", "chosen"),
    [
        ({"ana": 1.2, "ben": 0.9, "eve": 0.35}, [("x1", 1.75), ("y2", 1.2)]),
        # Nothing is chosen by those who answer blindly, or against a more reliable annotator.
        ({"ana": 0.0, "ben": 0.3, "eve": 0.35}, []),
        (None, [("x1", 1), ("y2", 1)]),
    ],
)
def test_the_weight_is_that_of_the_majority_less_that_of_the_others(weights, chosen) -> None:
    votes = [Judgement.of("ben", (1, 0), "right"), Judgement.of("eve", (0, 1), "right")]
    records = preference_records([*TWO, *votes], REPLIES, weights=weights)
    assert [(r["chosen_id"], r["weight"]) for r in records] == chosen


def test_reliable_annotators_weigh_more_than_those_who_toss_coins(store: Store) -> None:
    collection = store.add_items("c", made_items(12, d=0))
    rng = np.random.default_rng(3)
    votes = []
    for who in ["ana", "ben", "eve"] * 60:
        a, b = rng.choice(12, 2, replace=False).tolist()
        is_left_better = a > b if who != "eve" else rng.random() < 0.5
        votes.append(Judgement.of(who, (a, b), "left" if is_left_better else "right"))
    collection.append(votes)
    weights = annotator_weights(collection)
    assert list(weights) == ["ana", "ben", "eve"]
    assert weights["eve"] < 0.5 < min(weights["ana"], weights["ben"])


def test_an_export_is_read_by_its_ids_where_texts_are_those_of_other_ids(tmp_path: Any) -> None:
    items = made_items(2, ids=("a", "b"), texts=("b", "a"))
    path = tmp_path / "f.jsonl"
    path.write_text(json.dumps(next(iter(preference_records(TWO[:1], items)))))
    (line,) = read_lines(path, items, annotator="x")
    assert line.judgement.best == 0
