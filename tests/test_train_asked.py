"""sortnet train --judge and --model: documents without grades, whose judge the loop asks."""

from __future__ import annotations

import json
import shlex
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli_helpers import (
    FAST,
    done,
    fault,
    invoke,
    judge_file,
    letor,
    nothing_changed,
    quick_training,
)
from language_model_server import Model, serving
from result_helpers import value_of

from store import open_store

QUERIES, DOCS = 20, 6
SETTINGS = ("--max-iter", "3", *FAST, "--pairs", "uncertain")
JUDGE = """
import json, os, sys
def asked(line):
    with open("asked", "a") as log:
        print(os.getpid(), line.strip(), file=log, flush=True)
    return json.loads(line)
def better(q):
    left, right = (q[side]["features"]["size"] for side in ("left", "right"))
    return "left" if left > right else "right"
"""
GOOD = (
    "for line in sys.stdin:\n    print(json.dumps({'answer': better(asked(line))}), flush=True)\n"
)


@pytest.fixture(autouse=True)
def folder(here) -> Iterator[None]:
    """A folder with products of several searches, whose store is s.db."""

    rng = np.random.default_rng(0)
    lines = ["search,product,colour,size,weight,label"]
    for q in range(QUERIES):
        for d in range(DOCS):
            colour, size, weight = rng.choice(["red", "blue"]), rng.normal(), rng.normal()
            lines.append(f"q{q},p{q}-{d},{colour},{size:.4f},{weight:.4f},{'3' if d else ''}")
    Path("products.csv").write_text("\n".join(lines) + "\n")
    with quick_training():
        yield


def program(code: str = GOOD) -> str:
    Path("judge.py").write_text(JUDGE + code)
    return f"{shlex.quote(sys.executable)} -S -E judge.py"


def command(*args: object, judgements: int = 60, code: str = GOOD) -> list[str]:
    words = ["train", "products.csv", "--query", "search", "--id", "product", *SETTINGS]
    words += ["--judge", program(code), "--judgements", judgements, *args]
    return [str(word) for word in words]


def asked() -> list[tuple[str, dict]]:
    """The program's process, and what it was asked, in order; a line may be half written."""
    lines = Path("asked").read_text().rpartition("\n")[0].splitlines()
    pairs = [line.split(" ", 1) for line in lines]
    return [(process, json.loads(line)) for process, line in pairs]


def pair(question: dict) -> tuple[str, ...]:
    return tuple(sorted(question[side]["id"] for side in ("left", "right")))


def answers() -> pd.DataFrame:
    """The judgements in the collection of the newest run."""
    with open_store("s.db") as store:
        return store.collection(store.run("last").collection).judgements_frame()


def stored() -> Counter[str]:
    """How many answers of each split the store has, of the newest run."""
    return Counter(items[0].split()[0] for items in answers()["items"])


def test_a_program_is_asked_what_the_loop_needs_and_its_order_is_learned():
    facts = value_of(done(*command("--json")))
    questions = [question for _, question in asked()]
    assert len({pair(question) for question in questions}) == len(questions) == 60
    answers = facts["judge"]["answers"]
    assert answers == stored() and sum(answers.values()) == 60
    assert 8 <= answers["vali"] <= 12  # a fifth; of few pairs some are drawn twice
    assert facts["answers"] == answers["train"] and facts["quality"]["accuracy"] >= 0.8
    taken = [row["tp"] for row in facts["iterations"]]
    assert taken[0] < taken[-1] == answers["train"]  # what was learned chooses later questions


def test_the_answers_of_a_run_are_read_as_those_of_any_annotator():
    costly = GOOD.replace("better(asked(line))}", "better(asked(line)), 'cost': 0.5}")
    result = invoke(*command(judgements=20, code=costly))
    assert result.exit_code == 0 and "all answers cost 10" in result.stdout
    (row,) = value_of(done("items", "list", "--json"))
    name = row["name"]
    assert name == f"run:{row['run_id']}" and row["judgements"] == 20
    assert "run:ID: the answers of the judge of a run" in invoke("items", "list").stderr
    (annotator,) = value_of(done("annotators", "list", name, "--json"))
    assert annotator["name"] == program(costly) and annotator["answers"] == 20
    done("report", name, "--output", "r.html")
    assert "judge.py" in Path("r.html").read_text()
    assert f"answers  {name}" in done("show", row["run_id"])
    facts = value_of(done("train", "--resume", "--out", "model", "--json"))
    assert facts["judge"]["collection"] == name and facts["judge"]["cost_in_all"] == 10
    assert len(done("rank", "model", "products.csv").splitlines()) == 1 + QUERIES * DOCS


def test_a_program_is_told_both_documents_and_the_query_as_label_tells_them():
    done(*command("--question", "Which is larger?", judgements=10))
    rows = [line.split(",") for line in Path("products.csv").read_text().splitlines()[1:]]
    by_id = {row[1]: row for row in rows}
    for _, question in asked():
        assert question["question"] == "Which is larger?"
        for document in (question["left"], question["right"]):
            query, _, colour, size, weight, _ = by_id[document["id"]]
            assert question["group"] == query
            assert document["shown"] == {"colour": colour} and document["text"] is None
            features = {f"colour={name}": float(colour == name) for name in ("red", "blue")}
            features |= {"size": float(size), "weight": float(weight)}
            assert document["features"] == pytest.approx(features)
    # Neither side is that of the first document.
    assert len({q["left"]["id"] < q["right"]["id"] for _, q in asked()}) == 2


def test_nine_failures_end_the_run_with_what_was_answered_and_it_goes_on():
    code = """
for line in sys.stdin:
    q = asked(line)
    if len(open("asked").readlines()) > 20 and not os.path.exists("mended"):
        sys.exit("broken")
    print(json.dumps({"answer": better(q)}), flush=True)
"""
    result = invoke(*command(code=code))
    assert result.exit_code == 1
    last = result.stderr.strip().splitlines()[-1]
    assert "failed at 9 of the last 10 questions" in last and "broken" in last
    assert "20 of 60 answers are kept: go on with sortnet train --resume --out model" in last
    first = {pair(question) for _, question in asked()[:20]}
    Path("mended").touch()
    Path("asked").write_text("")
    done("train", "--resume", "--out", "model")
    again = [pair(question) for _, question in asked()]
    assert first.isdisjoint(again) and len({*again}) == len(again) == 40
    assert sum(stored().values()) == 60


def texts(n_queries: int = 12, n_docs: int = 5) -> None:
    """A table of texts, whose longer one is better."""
    rng = np.random.default_rng(1)
    lines = ["question,answer"]
    for q in range(n_queries):
        for length in rng.choice(np.arange(3, 40), n_docs, replace=False):
            lines.append(f"why {q}?,{' '.join(rng.choice(['one', 'two', 'six'], length))}")
    Path("texts.csv").write_text("\n".join(lines) + "\n")


def by_model(url: str, *args: object, data: str = "texts.csv", **keys: object) -> list[str]:
    """Make a command that asks a model; `keys` are those of the file that describes it."""
    judge = judge_file(server=url, **keys) if keys else ("--model", "judge", "--server", url)
    words = ["train", data, *judge, *SETTINGS]
    if data == "texts.csv":
        words += ["--query", "question"]
    return [str(word) for word in (*words, *args)]


@pytest.mark.parametrize("workers", [1, 4])
def test_a_model_is_shown_texts_and_its_probabilities_are_learned(workers):
    texts()
    model = Model(lambda text: len(text.split()) / 5)
    with serving(model) as url:
        facts = value_of(done(*by_model(url, "--judgements", 50, "--workers", workers, "--json")))
        done("train", "--resume", "--out", "model")  # a finished run asks nothing
    judge = facts["judge"]["judges"]["judge"]
    assert judge["calls"] == len(model.prompts) == 50 and judge["tokens_in"] > 0
    assert max(Counter(map(frozenset, model.pairs.elements())).values()) == 1
    assert all("Both belong to: why" in prompt for prompt in model.prompts)
    assert facts["quality"]["accuracy"] > 0.75
    frame = answers()
    assert frame["p"].between(0, 1).all() and frame["meta"].str.contains('"prompt"').all()


def test_both_orders_are_asked_and_their_mean_is_learned():
    texts()
    model = Model(lambda text: 0.0, side=2.0)  # it prefers the first one, whatever it is
    with serving(model) as url:
        result = invoke(*by_model(url, "--judgements", 20, both_orders=True))
    assert len(model.prompts) == 8 and len({frozenset(pair) for pair in model.pairs}) == 4
    assert result.exit_code == 2  # all of V are ties
    fault = (
        "judge judge: answered with 4 ties and 0 skips about validation pairs, so there is nothing"
    )
    assert fault in result.stderr
    assert stored() == {"vali": 8}


# A program that answers as it is told to, and prefers no document of the training part.
UNDECIDED = """
for line in sys.stdin:
    pair = asked(line)
    answer = better(pair) if pair["id"].startswith("vali") else "skip"
    print(json.dumps({"answer": answer}), flush=True)
"""


def test_a_judge_that_prefers_no_training_document_is_named():
    line = invoke(*command(code=UNDECIDED, judgements=10)).stderr.splitlines()[-1]
    n_skips = stored()["train"]
    fault = f"answered with 0 ties and {n_skips} skips about training pairs, so there is nothing"
    assert line.endswith(f"judge.py: {fault} to learn")


def test_letor_text_is_for_programs_and_for_templates_that_show_numbers():
    Path("all.txt").write_text(letor(20, 0))
    code = GOOD.replace("better(asked(line))", "'left' if asked(line)['group'] else ''")
    done("train", "all.txt", *SETTINGS, "--judge", program(code), "--judgements", 40)
    assert [*asked()[0][1]["left"]["features"]] == ["1", "2", "3", "4"]
    args = ("--judgements", 40, "--overwrite")
    refused = fault(*by_model("http://127.0.0.1:9", *args, data="all.txt"))
    assert "has numbers only" in refused and "prompt" in refused and "--judge" in refused
    template = "<A>\n{{ left.features['1'] }}\n</A>\n<B>\n{{ right.features['1'] }}\n</B>"
    Path("p.txt").write_text(template)
    model = Model(float)
    with serving(model) as url:
        done(*by_model(url, *args, data="all.txt", prompt="p.txt"))
    assert len(model.prompts) == 40


def test_all_rows_of_a_table_and_a_folder_without_grades_can_be_asked_about():
    header, *rows = (line.rpartition(",")[0] for line in Path("products.csv").read_text().split())
    Path("fold").mkdir()
    for file, some in (("all", rows), ("fold/train", rows[:60]), ("fold/vali", rows[60:])):
        Path(f"{file}.csv").write_text("\n".join([header, *some]) + "\n")
    for data in (["all.csv", "--query", "none"], ["fold"], ["fold/train.csv", "fold/vali.csv"]):
        common = ("--id", "product", *SETTINGS, "--judgements", 40, "--judge", program())
        query = () if "--query" in data else ("--query", "search")
        done("train", *data, *query, *common, "--overwrite")
        assert [bool(question.get("group")) for _, question in asked()] == [bool(query)] * 40
        Path("asked").unlink()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["products.csv", "--judge", "x"], "a judge needs --judgements N"),

        (["products.csv", "--workers", 2], "--workers is for --judge and --model"),

        (["products.csv", "--judge", "x", "--judgements", 9, "--ranker", "listnet"], "--ranker"),
        (["products.csv", "--judge", "'", "--judgements", 9], "No closing quotation"),
        (["collection:c", "--judge", "x", "--judgements", 9], "sortnet label c"),
        (["one.csv", "one.csv", "--judge", "x", "--judgements", 9], "no query has two documents"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_refused_in_one_line(args, said):
    Path("one.csv").write_text("qid,size\n1,2\n2,3\n")
    names = ["--query", "search", "--id", "product"] if args[0] == "products.csv" else []
    message = fault("train", *args, *names)
    assert said in message
    assert not Path("model").exists() and not Path("s.db").exists()


def test_a_program_that_cannot_be_started_is_refused_before_the_last_run_is_replaced():
    words = command(judgements=10)
    done(*words)
    Path("folder").mkdir()
    for typed, why in (
        ("no-such-program 1", "No such file or directory"),
        ("./folder", "Permission denied"),
    ):
        words[words.index("--judge") + 1] = typed
        with nothing_changed(Path("model")):
            line = invoke(*words, "--overwrite").stderr.splitlines()[-1]
        assert line == f"sortnet: cannot start '{typed.split()[0]}': {why}"


def test_a_judge_that_fails_at_all_it_is_asked_about_is_told_with_its_fault():
    texts()
    with serving(Model(lambda text: 0.0, faults=[500] * 9)) as url:
        # There are too few pairs to give the judge up.
        args = ("--judgements", 10, *judge_file(patience=0), "--workers", 4)
        message = invoke(*by_model(url, *args)).stderr.strip().splitlines()[-1]
    assert "failed at all 2 pairs" in message and "still 500" in message
    assert "go on with sortnet train --resume --out model" in message


def test_a_store_that_only_a_folder_names_runs_no_command(monkeypatch):
    code = GOOD.replace("for line", "os.path.exists('asked') or sys.exit(3)\nfor line")
    assert invoke(*command("--store", "other.db", code=code)).exit_code == 1
    monkeypatch.delenv("SORTNET_STORE")
    monkeypatch.setenv("XDG_DATA_HOME", str(Path.cwd() / "data"))
    Path("asked").write_text("")
    resume = ("train", "--resume", "--out", "model")
    assert "give --judge again, or --store" in fault(*resume)
    assert asked() == []
    done(*resume, "--store", "other.db")


def test_a_dry_run_asks_and_writes_nothing(tmp_path):
    texts()
    common = ("train", "texts.csv", "--query", "question", "--dry-run")
    by_program = ("--judge", program())
    of_model = judge_file(server="http://127.0.0.1:9", price_in=1, both_orders=True)
    options = ("--judgements", 70, "--question", "Longer?", "--json")
    run, other = value_of(done(*common, *of_model, *by_program, *options), "dry_run")
    assert run["question"].startswith("Longer?\n") and "Both belong to: why" in run["question"]
    assert run["planned"]["calls"] == 140 and run["hundred"]["calls"] == 200
    assert json.loads(other["question"])["left"]["text"]
    assert done(*common, *by_program).endswith("nothing was sent\n")
    files = {path.name for path in tmp_path.iterdir()}
    assert files == {"products.csv", "texts.csv", "judge.toml", "judge.py"}
    assert "--dry-run is for --judge and --model" in fault(*common)
