"""sortnet items: collections in and out of the store, and the roles of the columns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cli_helpers import OLD_RUNNER, done, fault, invoke
from PIL import Image
from result_helpers import value_of

from sortnet.items import describe, read_items
from sortnet.preference import Judgement
from store import open_store

ESSAYS = (
    "id,text,stars,teacher\n"
    "e1,Cats purr at night.,3,Ann\n"
    "e2,The cats purr because they like it!,5,Bob\n"
    "e3,Why do dogs bark at cats?,1,Ann\n"
)


@pytest.fixture(autouse=True)
def folder(here) -> None:
    """An empty working folder with a table; the store is s.db in it."""
    Path("essays.csv").write_text(ESSAYS)


def stored(name: str):
    with open_store("s.db") as store:
        return store.collection(name).items()


def test_adding_says_what_was_taken_as_what_and_how_to_go_on():
    result = invoke("items", "add", "essays", "essays.csv", "--ignore", "stars")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    made = describe(read_items("essays.csv", ignore=["stars"]))
    assert lines == [
        "essays: 3 items added, 3 in all",
        "id        id",
        "text      text",
        f"features  {len(made.feature_names)}",
        f"  texts   text ({len(made.feature_names)} features)",
        "ignored   stars, teacher",
    ]
    assert result.stderr.endswith(
        "next: sortnet label essays, or in a browser: sortnet serve essays\n"
    )
    items = stored("essays")
    assert (items.ids, items.texts) == (made.ids, made.texts)
    assert items.feature_names == made.feature_names
    np.testing.assert_array_equal(items.features, made.features)


def test_more_items_are_described_together_with_those_that_are_there():
    done("items", "add", "essays", "essays.csv", "--ignore", "stars")
    Path("more.csv").write_text("id,text\ne4,Birds sing; cats listen.\n")
    said = done("items", "add", "essays", "more.csv")
    assert said.startswith("essays: 1 item added, 4 in all\n")
    rows = [",".join(line.split(",")[:2]) for line in ESSAYS.splitlines()]
    Path("all.csv").write_text("\n".join([*rows, "e4,Birds sing; cats listen."]))
    whole = describe(read_items("all.csv"))
    items = stored("essays")
    assert (items.ids, items.feature_names) == (whole.ids, whole.feature_names)
    np.testing.assert_array_equal(items.features, whole.features)


def test_items_that_are_there_are_refused_or_updated_and_judgements_stay():
    done("items", "add", "essays", "essays.csv")
    with open_store("s.db") as store:
        before = store.collection("essays").append([Judgement.of("ana", (0, 2), "left")])
    Path("new.csv").write_text("id,text,stars\ne3,Rewritten.,4\ne0,New.,2\n")
    said = fault("items", "add", "essays", "new.csv")
    assert "new.csv: an item 'e3' is there already, with other content (--update" in said
    assert stored("essays").features.tolist() == [[3], [5], [1]]
    again = done("items", "add", "essays", "essays.csv")
    assert again.startswith("essays: 0 items added, 3 known, 3 in all\n")
    said = done("items", "add", "essays", "new.csv", "--update")
    assert said.startswith("essays: 1 item added, 1 replaced, 4 in all\n")
    items = stored("essays")
    assert items.ids == ("e1", "e2", "e3", "e0") and items.texts[2] == "Rewritten."
    assert items.features.tolist() == [[3], [5], [4], [2]]
    with open_store("s.db") as store:
        assert store.collection("essays").judgements() == before


def test_who_updates_items_that_are_served_is_told_what_the_server_shows():
    done("items", "add", "essays", "essays.csv")
    typed = ("items", "add", "essays", "essays.csv", "--update")
    message = "the running server shows the items as they were before until it is restarted\n"
    with open_store("s.db") as store, store.collection("essays").serving():
        assert message in invoke(*typed).stderr
    assert message not in invoke(*typed).stderr


def test_a_folder_of_images_is_added_and_shown():
    Path("things").mkdir()
    for name, colour in (("red", "red"), ("blue", "blue"), ("dark", "black")):
        Image.new("RGB", (20, 20), colour).save(f"things/{name}.png")
    assert "id        files\nimage     files\n" in done("items", "add", "things", "things")
    summary = value_of(done("items", "show", "things", "dark.png", "--json"))
    assert summary["image"] == "dark.png"
    assert summary["features"]["image: lightness"] == pytest.approx(0, abs=1e-6)
    Path("things/cut.png").write_bytes(Path("things/red.png").read_bytes()[:60])
    assert "things, item 'cut.png': cut.png: " in fault("items", "add", "other", "things")
    assert [row["name"] for row in value_of(done("items", "list", "--json"))] == ["things"]


def test_a_collection_is_removed_only_after_a_yes():
    done("items", "add", "essays", "essays.csv")
    run = invoke("items", "remove", "essays", lines="n\n")
    assert run.exit_code == 0 and "3 items and 0 judgements? [y/N]" in run.stderr
    assert len(stored("essays")) == 3
    run = invoke("items", "remove", "essays", lines="")
    assert run.exit_code == (0 if OLD_RUNNER else 2)  # to the old one no answer is an empty one
    assert len(stored("essays")) == 3
    run = invoke("items", "remove", "essays", lines="y\n")
    assert run.exit_code == 0
    assert value_of(done("items", "list", "--json")) == []
    done("items", "add", "essays", "essays.csv")
    done("items", "remove", "essays", "--yes")
    assert "no collections yet" in invoke("items", "list").stderr


def test_what_is_not_there_is_said_in_one_line():
    assert "s.db: no such file; sortnet items add makes one" in fault("items", "list")
    assert "none.csv: no such file or folder" in fault("items", "add", "x", "none.csv")
    done("items", "add", "essays", "essays.csv")
    assert "no collection 'esays'; collections: essays" in fault("items", "show", "esays")
    assert "collection 'essays' has no item 'e9'" in fault("items", "show", "essays", "e9")
    assert "no collection 'x'" in fault("items", "remove", "x", "--yes")
    Path("one.csv").write_text("id,text\na,x\n")
    assert "has one item; sorting needs two" in fault("items", "add", "one", "one.csv")
    assert "no collection 'one'" in fault("items", "show", "one")
    said = fault("items", "add", "essays", "essays.csv", "--update", "--ignore", "stars")
    assert "essays.csv: there is no feature 'stars', as the others have" in said


ANSWERS = "id,prompt,answer\na,Why?,one\nb,Why?,two\nc,How?,three\nd,How?,four\n"


def test_groups_contexts_and_pairs_are_taken_and_said():
    Path("answers.csv").write_text(ANSWERS + "e,When?,five\n")
    Path("pairs.csv").write_text("left,right\nb,a\n")
    args = ("items", "add", "answers", "answers.csv", "--no-describe", "--group", "prompt")
    result = invoke(*args, "--context", "prompt", "--pairs", "pairs.csv")
    assert result.stdout.splitlines()[1:6] == [
        "id        id",
        "text      answer",
        "group     prompt, 3 groups",
        "context   prompt",
        "pairs     1 pair may be asked, no others",
    ]
    assert "1 group has one item, which is compared with nothing: 'When?'\n" in result.stderr
    with open_store("s.db") as store:
        columns = store.collection("answers").settings["columns"]
    assert (columns["group"], columns["context"], columns["text"]) == ("prompt", "prompt", "answer")
    shown = value_of(done("items", "show", "answers", "c", "--json"))
    assert (shown["group"], shown["context"]) == ("How?", "How?")
    # The next file has the same columns; further pairs are added.
    Path("more.csv").write_text("id,prompt,answer\nf,When?,six\na,Why?,seven\n")
    Path("pairs.csv").write_text("left,right\ne,f\n")
    said = done("items", "add", "answers", "more.csv", "--update", "--pairs", "pairs.csv")
    assert "1 item added, 1 replaced, 6 in all" in said and "2 pairs may be asked" in said
    assert stored("answers").groups == ("Why?", "Why?", "How?", "How?", "When?", "When?")


def test_columns_are_shown_beside_the_items_and_kept_by_later_files():
    add = ("items", "add", "essays")
    assert "shown      teacher\n" in done(*add, "essays.csv", "--show", "teacher")
    assert [row["teacher"] for row in stored("essays").shown] == ["Ann", "Bob", "Ann"]
    assert "teacher: Bob\n" in done("items", "show", "essays", "e2")
    Path("new.csv").write_text("id,text,stars,teacher\ne1,Cats.,3,Eve\ne4,New.,2,\n")
    assert "shown      teacher\n" in done(*add, "new.csv", "--update")
    Path("few.csv").write_text("id,text,stars\ne2,Rewritten.,5\n")
    assert "shown" not in done(*add, "few.csv", "--update")
    items = stored("essays")
    assert items.shown == ({"teacher": "Eve"}, {"teacher": "Bob"}, {"teacher": "Ann"}, None)
    assert items.texts[1] == "Rewritten."
    assert "there is no column 'cost'" in fault(*add, "essays.csv", "--show", "cost")
