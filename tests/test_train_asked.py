"""sortnet train --judge and --model: documents without grades, whose judge the loop asks."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli_helpers import FAST, done, fault, invoke, judge_file, letor, quick_training
from forked_processes import Forked
from language_model_server import Model, serving
from result_helpers import value_of

from sortnet.core import NamedColumns
from sortnet.data.parts import read_divided
from sortnet.errors import DataError
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
def folder(tmp_path, monkeypatch) -> Iterator[Path]:
    """A folder with products of several searches, whose store is s.db."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SORTNET_STORE", "s.db")
    rng = np.random.default_rng(0)
    lines = ["search,product,colour,size,weight,label"]
    for q in range(QUERIES):
        for d in range(DOCS):
            colour, size, weight = rng.choice(["red", "blue"]), rng.normal(), rng.normal()
            lines.append(f"q{q},p{q}-{d},{colour},{size:.4f},{weight:.4f},{'3' if d else ''}")
    Path("products.csv").write_text("\n".join(lines) + "\n")
    with quick_training():
        yield tmp_path


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


def weights(folder: str) -> bytes:
    (file,) = Path(folder).glob("weights-*.safetensors")
    return file.read_bytes()


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


def test_commands_that_read_runs_and_models_take_one_that_was_asked():
    id = value_of(done(*command("--json")))["run"]
    said = invoke("report", id, "--output", "report.html")
    assert said.exit_code == 0 and said.stderr == ""
    assert "Not in this report" not in Path("report.html").read_text()
    assert value_of(done("show", id, "--json"))["status"] == "done"
    ranked = done("rank", "model", "products.csv").splitlines()
    assert len(ranked) == 1 + QUERIES * DOCS
    rows = [line.rpartition(",")[0] for line in Path("products.csv").read_text().splitlines()]
    graded = [f"{rows[0]},label"]
    graded += [f"{row},{int(float(row.split(',')[3]) > 0)}" for row in rows[1:]]
    Path("graded.csv").write_text("\n".join(graded) + "\n")
    measures = value_of(done("evaluate", "model", "graded.csv", "--json"))["measures"]
    assert measures["map"] > 0.8


def test_the_answers_of_a_run_are_read_as_those_of_any_annotator():
    costly = GOOD.replace("better(asked(line))}", "better(asked(line)), 'cost': 0.5}")
    result = invoke(*command(judgements=20, code=costly))
    assert result.exit_code == 0 and "all answers cost 10" in result.stdout
    (row,) = value_of(done("items", "list", "--json"))
    name = row["name"]
    assert name == f"run:{row['run_id']}" and row["judgements"] == 20
    documents = {(question["group"], id) for _, question in asked() for id in pair(question)}
    with open_store("s.db") as store:
        items = store.collection(name).items()
    assert {(group, id.split()[2]) for group, id in zip(items.groups, items.ids, strict=True)} == (
        documents
    )
    (annotator,) = value_of(done("annotators", "list", name, "--json"))
    assert annotator["name"] == program(costly) and annotator["answers"] == 20
    done("report", name, "--output", "r.html")
    assert "judge.py" in Path("r.html").read_text()
    assert len(done("judgements", "export", name).splitlines()) == 20
    assert value_of(done("show", row["run_id"], "--json"))["collection"] == name
    assert f"answers  {name}" in done("show", row["run_id"])
    facts = value_of(done("train", "--resume", "--out", "model", "--json"))
    assert facts["judge"]["collection"] == name and facts["judge"]["cost_in_all"] == 10


def test_a_program_is_told_both_documents_and_the_query_as_label_tells_them():
    done(*command("--question", "Which is larger?", judgements=10))
    rows = [line.split(",") for line in Path("products.csv").read_text().splitlines()[1:]]
    by_id = {row[1]: row for row in rows}
    lefts = set()
    for _, question in asked():
        query = by_id[question["left"]["id"]][0]
        assert question["question"] == "Which is larger?" and question["group"] == query
        lefts.add(question["left"]["id"] < question["right"]["id"])
        for side in ("left", "right"):
            document = question[side]
            _, _, colour, size, weight, _ = by_id[document["id"]]
            assert by_id[document["id"]][0] == query
            assert document["shown"] == {"colour": colour} and document["text"] is None
            features = {f"colour={name}": float(colour == name) for name in ("red", "blue")}
            features |= {"size": float(size), "weight": float(weight)}
            assert document["features"] == pytest.approx(features)
    assert lefts == {True, False}  # neither side is that of the first document


def test_a_hundredth_of_a_pair_is_a_probability_and_what_cannot_be_said_is_not_asked_again():
    code = """
for k, line in enumerate(sys.stdin):
    q = asked(line)
    p = 0.9 if better(q) == "left" else 0.1
    print(json.dumps({"answer": "cant-say"} if k % 5 == 4 else {"p": p}), flush=True)
"""
    facts = value_of(done(*command("--json", code=code)))
    frame = answers()
    assert {*frame["p"].dropna()} == {0.9, 0.1} and (frame["answer"] == "cant-say").sum() == 12
    assert facts["quality"]["accuracy"] > 0.8
    n_asked = len(asked())
    done("train", "--resume", "--out", "model")
    assert len(asked()) == n_asked == len(frame) == 60


@pytest.mark.slow
def test_kill_9_at_any_moment_asks_no_answered_pair_again_and_the_model_is_the_same():
    slow = GOOD.replace("    print", "    import time; time.sleep(0.004)\n    print")
    done(*command("--out", "whole", code=slow))
    alone = {pair(question) for _, question in asked()}
    Path("asked").unlink()
    rng = np.random.default_rng(int(os.environ.get("SORTNET_FUZZ_SEED", "0")))
    words = command("--out", "killed", code=slow)
    kills = 0
    while True:
        n_before = len(asked()) if Path("asked").exists() else 0
        with Path(os.devnull).open("r+") as null:
            run = Forked(words, [null.fileno()] * 3, dict(os.environ))
        while run.poll() is None and kills < 6:
            n_asked = len(asked()) if Path("asked").exists() else 0
            if n_asked > n_before:
                break
            time.sleep(0.002)
        time.sleep(0.15 * rng.random())
        if kills < 6:
            run.send_signal(signal.SIGKILL)
        kills += 1
        if run.wait() == 0:
            break
        if Path("killed/run.json").exists():
            words = ["train", "--resume", "--out", "killed"]
    assert kills > 3
    of_process: dict[str, list[tuple[str, ...]]] = {}
    for process, question in asked():
        of_process.setdefault(process, []).append(pair(question))
    # The last question of a process was under way when it was killed; all before were answered.
    answered = [one for questions in of_process.values() for one in questions[:-1]]
    under_way = [questions[-1] for questions in of_process.values()]
    assert max(Counter(answered).values()) == 1
    assert {*answered, *under_way} == alone
    assert sum(stored().values()) == len(alone)
    assert weights("killed") == weights("whole")


def test_several_pairs_a_line_and_several_programs_at_once_give_the_same_model():
    done(*command("--out", "one"))
    Path("asked").unlink()
    code = """
for line in sys.stdin:
    pairs = asked(line)
    print(json.dumps([{"answer": better(q)} for q in pairs]), flush=True)
"""
    words = command("--out", "several", "--workers", 3, code=code)
    at = words.index("--judge") + 1
    _, words[at] = judge_file(command=words[at], batch=7)
    done(*words)
    sizes = [len(questions) for _, questions in asked()]
    assert max(sizes) == 7 and sum(sizes) == 60
    assert weights("several") == weights("one")


def test_nine_failures_end_the_run_with_what_was_answered_and_it_goes_on():
    code = """
for k, line in enumerate(sys.stdin):
    q = asked(line)
    if k < 20 or os.path.exists("mended"):
        print(json.dumps({"answer": better(q)}), flush=True)
    else:
        sys.exit("broken at " + str(k))
"""
    code = code.replace("k < 20", "len(open('asked').readlines()) <= 20")
    result = invoke(*command(code=code))
    assert result.exit_code == 1
    last = result.stderr.strip().splitlines()[-1]
    assert "failed at 9 of the last 10 questions" in last and "broken at" in last
    assert "20 of 60 answers are kept: go on with sortnet train --resume --out model" in last
    assert sum(stored().values()) == 20
    first = {pair(question) for _, question in asked()[:20]}
    Path("mended").touch()
    Path("asked").write_text("")
    facts = value_of(done("train", "--resume", "--out", "model", "--json"))
    again = [pair(question) for _, question in asked()]
    assert first.isdisjoint(again) and len({*again}) == len(again) == 40
    assert facts["quality"]["accuracy"] > 0.7 and sum(stored().values()) == 60


def test_a_pair_at_which_the_only_judge_fails_is_skipped_as_in_a_labelling():
    code = """
for line in sys.stdin:
    q = asked(line)
    if len(open("asked").readlines()) % 9 == 4:  # never at two in a row
        sys.exit("stumbled")
    print(json.dumps({"answer": better(q)}), flush=True)
"""
    result = invoke(*command("--json", code=code))
    assert result.exit_code == 0, result.stderr
    facts = value_of(result.stdout)["judge"]
    n_stumbles = result.stderr.count("stumbled")
    assert sum(facts["answers"].values()) == 60
    (judge,) = facts["judges"].values()
    assert judge["failed"] == 0
    assert judge["skipped"]["error"] == (answers()["answer"] == "skip").sum() > 0 < n_stumbles
    assert max(Counter(pair(question) for _, question in asked()).values()) == 1


def test_the_progress_says_how_many_were_asked_of_all(monkeypatch):
    lines: list[str] = []

    @contextmanager
    def progress():
        yield lines.append

    monkeypatch.setattr("cli.commands.train.progress", progress)
    texts()
    with serving(Model(lambda text: len(text.split()) / 5)) as url:
        done(*by_model(url, "--judgements", 20, *judge_file(price_in=1)))
    told = [line for line in lines if " answered, " in line]
    assert sum(int(line.split()[0]) for line in told) > 0
    n_left = [int(re.search(r"(\d+) of 20 left", line)[1]) for line in told]
    assert n_left == list(range(19, -1, -1))
    assert all(" a second, " in line for line in told)
    assert "20 calls" in told[-1] and "spent" in told[-1]


def test_an_interrupted_run_keeps_its_answers_and_asks_the_others_when_it_goes_on():
    slow = GOOD.replace("    print", "    import time; time.sleep(0.05)\n    print")
    with Path(os.devnull).open("r+") as null, Path("said").open("w") as said:
        streams = [null.fileno(), null.fileno(), said.fileno()]
        run = Forked(command(code=slow), streams, dict(os.environ))
        while run.poll() is None and not (Path("asked").exists() and len(asked()) >= 5):
            time.sleep(0.005)
        run.send_signal(signal.SIGTERM)
        assert run.wait() != 0
    assert "resume with: sortnet train --resume --out model" in Path("said").read_text()
    kept = sum(stored().values())
    assert kept >= len(asked()) - 1 > 0
    done("train", "--resume", "--out", "model", "--judge", program())
    assert len(asked()) <= 61 and sum(stored().values()) == 60


BY_WEIGHT = GOOD.replace("better(asked(line))", "heavier(asked(line))")
HEAVIER = """
def heavier(q):
    left, right = (q[side]["features"]["weight"] for side in ("left", "right"))
    return "left" if left > right else "right"
"""


def model_of_sizes(folder: str) -> None:
    """A model folder that learned from grades that larger products are better."""
    header, *rows = Path("products.csv").read_text().splitlines()
    lines = [header]
    for row in rows:
        *columns, _ = row.split(",")
        grade = int(float(columns[3]) > 0)
        lines.append(",".join([*columns, str(grade)]))
    Path("graded.csv").write_text("\n".join(lines) + "\n")
    words = ["--query", "search", "--id", "product", "--grade", "label"]
    done("train", "graded.csv", *words, *FAST, "--out", folder)


def test_a_run_from_a_model_learns_what_the_judge_says_otherwise_and_keeps_to_its_budget():
    model_of_sizes("base")
    words = command("--from", "base", "--json", code=HEAVIER + BY_WEIGHT)
    facts = value_of(done(*words))
    questions = [pair(question) for _, question in asked()]
    assert len({*questions}) == len(questions) == 60
    assert sum(facts["judge"]["answers"].values()) == 60 and facts["judge"]["answers"] == stored()
    assert facts["from"]["path"] == "base" and facts["config"]["scaling"] == "query"
    first, *_, last = facts["iterations"]
    assert first["train_accuracy"] < 0.75  # the larger one is the heavier one by chance only
    assert last["train_accuracy"] > first["train_accuracy"] + 0.15
    assert facts["best_iteration"] > 0


def test_a_run_from_a_model_that_the_judge_agrees_with_begins_with_its_answers_right():
    model_of_sizes("base")
    facts = value_of(done(*command("--from", "base", "--json")))
    from_random = value_of(done(*command("--out", "from-random", "--json")))
    assert facts["iterations"][0]["train_accuracy"] > 0.9
    assert from_random["iterations"][0]["train_accuracy"] < 0.9


def test_a_killed_run_from_a_model_asks_no_answered_pair_again_although_the_model_is_gone():
    model_of_sizes("base")
    code = HEAVIER + BY_WEIGHT
    done(*command("--from", "base", "--out", "whole", code=code))
    Path("asked").write_text("")
    stop = "    if len(open('asked').readlines()) > 30:\n        sys.exit('broken')\n"
    broken = code.replace("    print(", f"{stop}    print(")
    result = invoke(*command("--from", "base", "--out", "killed", code=broken))
    assert result.exit_code == 1 and 0 < sum(stored().values()) < 60
    answered = sum(stored().values())
    Path("base").rename("elsewhere")
    Path("asked").write_text("")
    program(code)
    done("train", "--resume", "--out", "killed")
    again = [pair(question) for _, question in asked()]
    assert len(again) == len({*again}) == 60 - answered
    # The iteration in which the program broke was learned from without its last answers, so that
    # the weights are others than those of the whole run.
    assert weights("killed")


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
        again = value_of(done("train", "--resume", "--out", "model", "--json"))
    assert again["judge"]["judges"]["judge"]["calls"] == 0
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
    fault = "--model: answered with 4 ties and 0 skips about validation pairs, so there is nothing"
    assert fault in result.stderr
    assert stored() == {"vali": 8}


# A program that answers as it is told to, and prefers no document of the training part.
UNDECIDED = """
for line in sys.stdin:
    pair = asked(line)
    answer = better(pair) if pair["id"].startswith("vali") else "skip"
    print(json.dumps({"answer": answer}), flush=True)
"""


def test_a_judge_that_prefers_no_document_of_a_part_is_named():
    ties = UNDECIDED.replace("better(pair)", "'tie'")
    line = invoke(*command(code=ties, judgements=10)).stderr.splitlines()[-1]
    assert line.startswith("sortnet: --judge: answered with 2 ties and 0 skips about validation ")
    line = invoke(*command("--overwrite", code=UNDECIDED, judgements=10)).stderr.splitlines()[-1]
    n_skips = stored()["train"]
    fault = f"answered with 0 ties and {n_skips} skips about training pairs, so there is nothing"
    assert line == f"sortnet: --judge: {fault} to learn"


def test_a_limit_of_calls_ends_the_asking_and_what_was_answered_is_learned():
    texts()
    model = Model(lambda text: len(text.split()) / 5)
    with serving(model) as url:
        result = invoke(*by_model(url, "--judgements", 50, "--json", max_calls=30))
        assert result.exit_code == 0, result.stderr
        facts = value_of(result.stdout)
        assert "the limit of 30 calls is reached; it is asked no more" in result.stderr
        assert "30 of 50 answers are kept, and are learned from" in result.stderr
        calls = facts["judge"]["judges"]["judge"]["calls"]
        assert calls == len(model.prompts) == 30 == sum(stored().values())
        done("train", "--resume", "--out", "model")  # it has finished
    assert len(model.prompts) == 30


def test_nothing_is_asked_or_written_for_a_prompt_or_an_estimate(tmp_path):
    texts()
    common = ("train", "texts.csv", "--query", "question")
    model = Model(lambda text: len(text.split()) / 5)
    with serving(model) as url:
        of_model = (*judge_file(price_in=1, both_orders=True), "--server", url, "--dry-run")
        options = ("--judgements", 70, "--question", "Longer?", "--json")
        (run,) = value_of(done(*common, *of_model, *options), "dry_run")
        text = done(*common, *of_model)
    assert not model.prompts
    assert run["question"].startswith("Longer?\n") and "Both belong to: why" in run["question"]
    assert (run["judge"], run["to"]) == ("judge", url)
    planned = run["planned"]
    assert planned["pairs"] == 70 and planned["calls"] == 140 and planned["tokens_in"] > 1400
    assert planned["cost"] == pytest.approx(planned["tokens_in"] / 1e6)
    n_rows = len(Path("texts.csv").read_text().splitlines()) - 1
    assert run["once"]["pairs"] <= n_rows / 2 + 1 and run["hundred"]["calls"] == 200
    assert text.endswith("nothing was sent\n") and "answers: " not in text
    (by_program,) = value_of(done(*common, "--judge", program(), "--dry-run", "--json"))
    assert json.loads(by_program["question"])["left"]["text"] and not Path("asked").exists()
    assert by_program["to"].endswith("judge.py") and by_program["hundred"]["cost"] is None
    files = {path.name for path in tmp_path.iterdir()}
    assert files == {"products.csv", "texts.csv", "judge.toml", "judge.py"}
    assert "--dry-run is for --judge and --model" in fault(*common, "--dry-run")


def test_letor_text_is_for_programs_and_for_templates_that_show_numbers():
    Path("all.txt").write_text(letor(20, 0))
    code = GOOD.replace("better(asked(line))", "by_number(asked(line))")
    code = (
        """
def by_number(q):
    return "left" if q["left"]["features"]["1"] > q["right"]["features"]["1"] else "right"
"""
        + code
    )
    done("train", "all.txt", *SETTINGS, "--judge", program(code), "--judgements", 40)
    question = asked()[0][1]
    assert [*question["left"]["features"]] == ["1", "2", "3", "4"] and question["group"]
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
    lines = Path("products.csv").read_text().splitlines()
    no_grades = [line.rpartition(",")[0] for line in lines]
    Path("all.csv").write_text("\n".join(no_grades) + "\n")
    common = ("--id", "product", *SETTINGS, "--judgements", 40, "--judge", program())
    done("train", "all.csv", "--query", "none", *common)
    assert all("group" not in question for _, question in asked())
    Path("fold").mkdir()
    for part, rows in (("train", no_grades[1:61]), ("vali", no_grades[61:])):
        Path("fold", f"{part}.csv").write_text("\n".join([no_grades[0], *rows]) + "\n")
    Path("asked").unlink()
    done("train", "fold", "--query", "search", *common, "--overwrite")
    assert len(asked()) == 40 and all(question["group"] for _, question in asked())
    Path("asked").unlink()
    done("train", "fold/train.csv", "fold/vali.csv", "--query", "search", *common, "--overwrite")
    assert len(asked()) == 40


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["products.csv", "--judge", "x"], "a judge needs --judgements N"),
        (["products.csv", "--judge", "x", "--judgements", 1], "2 answers at least"),
        (["products.csv", "--judge", "x", "--model", "y"], "--model is for a language model"),
        (["products.csv", "--model", "y", "--judgements", 9], "--model needs --server"),
        (["products.csv", "--workers", 2], "--workers is for --judge and --model"),
        (["products.csv", "--judge", "x", "--judgements", 9, "--quality", "map"], "by accuracy"),
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


@pytest.mark.parametrize(
    ("typed", "why"),
    [
        ("no-such-program", "No such file or directory"),
        ("./judge.py 1", "Permission denied"),
        ("./folder", "Permission denied"),
    ],
)
def test_a_program_that_cannot_be_started_is_refused_before_the_last_run_is_replaced(typed, why):
    words = command(judgements=10)
    done(*words)
    Path("folder").mkdir()
    before = {path.name: path.read_bytes() for path in Path("model").iterdir()}
    words[words.index("--judge") + 1] = typed
    line = invoke(*words, "--overwrite").stderr.splitlines()[-1]
    assert line == f"sortnet: cannot start '{typed.split()[0]}': {why}"
    assert {path.name: path.read_bytes() for path in Path("model").iterdir()} == before
    with open_store("s.db", write=False) as store:
        assert store.runs_frame()["status"].tolist() == ["done"]


def test_after_a_program_that_ends_at_once_another_one_goes_on():
    words = command()
    words[words.index("--judge") + 1] = f"{shlex.quote(sys.executable)} -c pass"
    assert "failed" in invoke(*words).stderr.splitlines()[-1]
    done("train", "--resume", "--out", "model", "--judge", program())
    assert sum(stored().values()) == 60


def test_a_judge_that_fails_at_all_it_is_asked_about_is_told_with_its_fault():
    texts()
    with serving(Model(lambda text: 0.0, faults=[500] * 9)) as url:
        # There are too few pairs to give the judge up.
        args = ("--judgements", 10, *judge_file(patience=0), "--workers", 4)
        message = invoke(*by_model(url, *args)).stderr.strip().splitlines()[-1]
    assert "failed at all 2 pairs" in message and "still 500" in message
    assert "go on with sortnet train --resume --out model" in message


def test_a_resumed_run_keeps_its_judge():
    texts()
    with serving(Model(lambda text: len(text.split()) / 5, faults=[500] * 3)) as url:
        assert invoke(*by_model(url, "--judgements", 20, *judge_file(patience=0))).exit_code == 2
        resume = ("train", "--resume", "--out", "model")
        assert "another --question" in fault(*resume, "--question", "Which is shorter?")
        assert "another --model" in fault(*resume, "--model", "other", "--server", url)
        assert "another judge" in fault(*resume, "--judge", program())
        done(*resume, "--workers", 2)
    assert sum(stored().values()) == 20


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


def test_parts_without_grades_need_two_documents_of_a_query():
    columns = NamedColumns(query="search", id="product")
    fold = read_divided("products.csv", labelled=False, columns=columns)
    assert sum(map(len, (fold.train, fold.vali, fold.test))) == QUERIES
    Path("single.csv").write_text("qid,size\n" + "".join(f"{k},{k}\n" for k in range(40)))
    with pytest.raises(DataError, match=r"two documents|one document"):
        read_divided("single.csv", labelled=False)


def test_a_resumed_run_keeps_its_request():
    texts()
    bodies: list[dict] = []
    model = Model(lambda text: len(text.split()) / 5, faults=[500] * 3)
    real = model.reply

    def reply(body, headers):
        bodies.append(body)
        return real(body, headers)

    model.reply = reply  # type: ignore[method-assign]
    with serving(model) as url:
        halted = judge_file(patience=0, request={"top_p": 0.5, "seed": 1})
        assert invoke(*by_model(url, "--judgements", 20, *halted)).exit_code == 2
        resume = ("train", "--resume", "--out", "model", "--server", url)
        assert "another request" in fault(*resume, *judge_file(request={"top_p": 0.7}))
        structured = judge_file(request={"top_p": 0.5}, structured=True)
        assert "another structured" in fault(*resume, *structured)
        bodies.clear()
        # A seed makes no other judge.
        done(*resume, *judge_file(request={"top_p": 0.5, "seed": 2}))
        assert len(bodies) == 20
        assert {(body["top_p"], body["seed"]) for body in bodies} == {(0.5, 2)}
