"""The collection of a run: the answers of its judge, about the documents it was asked about."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_helpers import invoke
from collection_helpers import ON_SQLITE, made_items
from PIL import Image
from sqlalchemy import delete

from sortnet.core import I64, SPLITS, Queries, Split
from sortnet.core.pairs import packed
from sortnet.data import read_queries
from sortnet.items import Items
from sortnet.judges import Function
from sortnet.preference import Judgement
from sortnet.preference.judgement_table import Judgements
from store import Run, Store
from store.asking.run_judge import RunJudge
from store.database.schema import RunRow
from store.service.run_answers import AskedDocuments, RunAnswers, item_ids, targets_of
from store.training.documents import asked_documents

SIZES = {"train": [3, 4], "vali": [2, 3]}
NOTHING_ASKED = np.empty(0, np.int64)


def part(split: Split) -> Queries:
    """The documents of two queries; the names of queries and documents are in both parts."""
    sizes = SIZES[split]
    qid = np.repeat(["a", "b"], sizes)
    docids = [f"d{number}" for size in sizes for number in range(size)]
    return Queries.from_arrays(np.zeros((sum(sizes), 1)), qid=qid, docids=docids)


def documents(split: Split) -> Items:
    queries = part(split)
    assert queries.docids is not None
    groups = np.repeat(["a", "b"], SIZES[split]).tolist()
    ids = tuple(queries.docids.tolist())
    return made_items(queries.n_docs, ids=ids, groups=tuple(groups))


def start(store: Store) -> Run:
    parts = {split: part(split) for split in SPLITS}
    return store.start_run(command="x", config={}, seed=3, versions={}, judge={}, **parts)


def judge_of(run: Run, judge: Callable[..., Any] | Function, **options: Any) -> RunJudge:
    """The judge of a run, which answers by the texts of the items."""
    described = judge if isinstance(judge, Function) else Function(judge, name="judge")
    shown = {split: documents(split) for split in SPLITS}
    items = {
        split: replace(shown[split], ids=item_ids(split, shown[split].ids)) for split in SPLITS
    }
    value_of_id = {
        id: text
        for split in SPLITS
        for id, text in zip(items[split].ids, items[split].texts, strict=True)
    }
    facts: dict[str, Any] = {"question": "Longer?", "judgements": 99, "again": "again"}
    return RunJudge(
        {described.annotator: described.connect("", value_of_id)},
        run,
        AskedDocuments(items, items),
        closed=False,
        progress=lambda text: None,
        **{**facts, **options},
    )


def ask(judge: RunJudge, i: list[int], j: list[int], vali: I64 = NOTHING_ASKED) -> list[float]:
    """Ask about pairs of training documents, and validation pairs; return the answers."""
    with judge.connected():
        train, _ = judge.parts(part("train"), part("vali"), vali)
        assert train.judge is not None
        return train.judge(train, np.array(i), np.array(j)).tolist()


def first_text(left: str, right: str) -> str:
    return "left" if left < right else "right"


def test_documents_become_items_when_they_are_asked_about(store: Store) -> None:
    run = start(store)
    judge = judge_of(run, first_text)
    assert ask(judge, [4, 3, 2], [3, 6, 0], packed(np.array([3]), np.array([4]))) == [0, 1, 0]
    collection = store.collection(f"run:{run.id}")
    items = collection.items()
    assert {*items.ids} == {
        *("train 0 d0", "train 2 d2", "train 3 d0", "train 4 d1", "train 6 d3"),
        *("vali 3 d1", "vali 4 d2"),
    }
    number = items.ids.index("train 6 d3")
    assert (items.texts[number], items.groups[number]) == ("text 6", "b")
    assert items.features[number].tolist() == documents("train").features[6].tolist()
    study = collection.study()
    assert study.question == "Longer?" and {*study.models} == {*study.probabilities} == {"judge"}
    assert judge.facts()["answers"] == {"train": 3, "vali": 1}
    assert store.collections_frame()["run_id"].tolist() == [run.id]


def test_a_resumed_run_asks_only_what_is_not_answered_and_a_removed_run_takes_its_answers(
    store: Store,
) -> None:
    run = start(store)
    ask(judge_of(run, first_text), [0, 1], [1, 2])
    asked: list[tuple[str, ...]] = []

    def other(left: str, right: str) -> float:
        asked.append(tuple(sorted((left, right))))
        return 0.9 if left < right else 0.1

    resumed = judge_of(run, other)
    answers = ask(resumed, [1, 2, 0], [0, 1, 2])
    assert asked == [("text 0", "text 2")] and answers == pytest.approx([0, 0, 0.9])
    pairs = resumed.judged("train", part("train")).judged
    assert pairs is not None
    assert pairs.winner.tolist() == [0, 0, 1] and pairs.loser.tolist() == [1, 2, 2]
    assert pairs.target.tolist() == RunAnswers(run).pairs("train").target.tolist()
    kept = store.add_items("kept", made_items(2))
    with store.database.transaction(write=True) as connection:
        connection.execute(delete(RunRow).where(RunRow.number == run.number))
    assert store.collections_frame()["name"].tolist() == [kept.name]


def test_answers_of_people_are_not_learned_from_and_undone_answers_are_asked_for_again(
    store: Store,
) -> None:
    run = start(store)
    ask(judge_of(run, first_text), [0, 0], [1, 2])
    collection = store.collection(run.collection)
    first = collection.judgements()[0]
    collection.append([Judgement.of("ana", (1, 2), "left", strategy="informative")])
    collection.undo("judge", first.number)
    assert [*RunAnswers(run).targets("train")] == [(0, 2)]
    asked: list[str] = []
    answers = ask(judge_of(run, lambda *texts: asked.append(texts) or "tie"), [0, 0], [1, 2])
    assert len(asked) == 1 and answers == [0.5, 1]


@ON_SQLITE
def test_a_skip_is_not_counted_as_an_answer(store: Store) -> None:
    judge = judge_of(start(store), lambda *texts: None if "text 2" in texts else "left")
    ask(judge, [0, 0, 1], [1, 2, 2])
    facts = judge.facts()
    assert facts["answers"] == {"train": 1, "vali": 0}
    assert facts["judges"]["judge"]["answered"] == facts["judges"]["judge"]["in_all"] == 1
    assert facts["judges"]["judge"]["skipped"] == {"by the judge": 2}
    assert judge.left() == "96 of 99 left"


@ON_SQLITE
def test_a_long_command_of_several_lines_is_an_annotator(store: Store) -> None:
    run = start(store)
    name = "python\n -c '" + 300 * "x" + "'"
    ask(judge_of(run, Function(first_text, name=name)), [0], [1])
    (annotator,) = store.collection(run.collection).annotators()
    assert annotator.name.startswith("python -c 'xxx") and len(annotator.name) == 200


READING = ["items show", "annotators list", "judgements list", "judgements export", "ranking"]


@ON_SQLITE
@pytest.mark.parametrize("words", READING)
def test_a_collection_without_items_is_read_in_one_line(store: Store, url: str, words: str) -> None:
    name = RunAnswers(start(store), create=True).collection.name
    result = invoke(*words.split(), name, "--store", url)
    is_refused = result.exit_code == 2 and "there must be two to compare" in result.stderr
    assert is_refused or result.exit_code == 0
    assert "bug in SortNet" not in result.stderr


@ON_SQLITE
def test_a_judge_without_answers_leaves_a_collection_that_can_be_read(store: Store) -> None:
    run = start(store)
    with pytest.raises(ValueError, match="broken"):
        ask(judge_of(run, lambda *texts: int("broken")), [0, 0, 1, 3], [1, 2, 2, 4])
    collection = store.collection(run.collection)
    assert len(collection.judgements_frame()) == 0 and len(collection.items()) == 5


def test_files_of_parts_in_two_folders_are_items_of_one(tmp_path: Path) -> None:
    parts: dict[Split, Queries] = {}
    paths: dict[Split, str] = {}
    for split in SPLITS:
        folder = tmp_path / split
        folder.mkdir()
        for name in ("a", "b"):
            Image.new("L", (8, 8)).save(folder / f"{name}.png")
        table = folder / "table.csv"
        table.write_text("qid,image,size,label\n1,a.png,1,0\n1,b.png,2,1\n")
        paths[split] = str(table)
        parts[split] = read_queries(str(table), like=None if split == "train" else parts["train"])
    asked = asked_documents(parts, paths, as_rows=False)
    assert asked.shown["train"].ids == ("1", "2")
    for split, items in asked.items.items():
        assert items.root == tmp_path.resolve()
        assert items.images == (f"{split}/a.png", f"{split}/b.png")
    by_function = asked_documents(parts, paths, as_rows=True)
    assert by_function.shown["vali"].ids == ("vali 0 1", "vali 1 2")
    assert by_function.value_of_id["vali 1 2"]["image"] == "b.png"


def test_targets_are_the_average_of_a_pairs_answers() -> None:
    documents = np.array([7, 2, 5])  # of the items
    told = [
        Judgement.of("m", (0, 1), "left"),  # document 7 is better than 2
        Judgement.of("m", (1, 0), "left"),
        Judgement.of("m", (0, 1), "right", p=0.2),
        Judgement.of("m", (1, 2), "tie"),
        Judgement.of("m", (0, 2), "skip"),
    ]
    targets = targets_of(Judgements(told), documents)
    assert targets.pop((2, 7)) == pytest.approx((0 + 1 + 0.8) / 3)
    assert targets.pop((2, 5)) == 0.5
    assert math.isnan(targets.pop((5, 7))) and not targets
