"""The documentation: every example runs, and no page has drifted from the code."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import click
import numpy as np
import pytest
from docs_helpers import (
    DATABASE,
    ROOT,
    TUTORIAL,
    at_home,
    blocks,
    examples,
    prepare,
    run,
    run_python,
    shape,
    shown,
    sortnet_of,
    walk,
)
from language_model_server import Model, serving
from scipy.stats import spearmanr
from threadpoolctl import threadpool_limits

from cli.main import main

sys.path.insert(0, str(ROOT / "docs"))

README = ROOT / "README.md"
PAGES = sorted((ROOT / "docs").rglob("*.md"))
ANSWERS = ROOT / "docs/how-to/answers.md"
IN_PYTHON = ROOT / "docs/how-to/use-in-python.md"
MACHINES = ROOT / "docs/how-to/machines.md"
COMMANDS = dict(walk())

PAGES_RUN = [
    page for page in PAGES if page.parent.name == "how-to" or "console" in page.read_text()
]

# Examples of commands that no page runs, which no test runs either, and why.
NOT_RUN: dict[str, str] = {
    "sortnet demo": "the tests of the demo run both",
    "sortnet demo --seed 7 --out demo7 --json": "",
    "sortnet experiment holdout MQ2008 --rankers err,ranksvm": "the tests of experiments do",
    "sortnet experiment holdout MQ2008 --rankers directranker,lambdamart --jobs 2": "minutes",
    "sortnet serve essays --annotator ana --annotator ben": "it serves until Ctrl-C, as all three",
    "sortnet serve essays --port 0 --open": "do; the tests of the page start and stop it",
    "sortnet serve essays letters --url https://example.org/label": "",
    "sortnet experiment simulate --protocol votes --votes votes.tsv --items-file items.tsv": (
        "it takes many votes; the tests of simulate make some"
    ),
}


def id_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A home with all that examples name, made once; tests work in copies of it."""
    folder = tmp_path_factory.mktemp("docs") / "home"
    folder.mkdir()
    with at_home(folder):
        prepare(folder)
    return folder


@pytest.fixture
def home(prepared, tmp_path):
    """A copy of the prepared home, and the working directory."""
    folder = shutil.copytree(prepared, tmp_path / "home")
    with at_home(folder):
        yield folder


def database_of(text, request):
    """The URL that stands for the one in the text; PostgreSQL is started only where it is named."""
    return request.getfixturevalue("postgresql_url") if DATABASE in text else None


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_shows_examples_of_itself_that_it_takes(name, prepared):
    found = examples(COMMANDS[name])
    assert found
    above = click.Context(main, **main.context_settings)
    with at_home(prepared):
        for typed in found:
            words = ["sortnet", *sortnet_of(typed)[0]]
            assert " ".join([*words, ""]).startswith(f"{name} ")
            COMMANDS[name].make_context(name, words[len(name.split()) :], parent=above)


def on_pages() -> set[str]:
    """The commands that the pages run."""
    typed = [
        " ".join(["sortnet", *sortnet_of(line)[0]])
        for page in PAGES_RUN
        for block in blocks(page)
        for line, _ in (block.typed if block.kind == "console" else ())
    ]
    return {name for name in COMMANDS if any(f"{line} ".startswith(f"{name} ") for line in typed)}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - on_pages()))
def test_every_example_of_a_command_that_no_page_runs_runs(name, home, quick_training, request):
    found = [typed for typed in examples(COMMANDS[name]) if typed not in NOT_RUN]
    if url := database_of("\n".join(found), request):
        run(f"sortnet train bikes --out team --store {DATABASE}", database=url)
    for typed in found:
        run(typed, database=url)


def test_every_example_that_is_not_run_is_still_there():
    found = [typed for name in COMMANDS.keys() - on_pages() for typed in examples(COMMANDS[name])]
    assert [typed for typed in NOT_RUN if typed not in found] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [page for page in PAGES_RUN if page not in (TUTORIAL, IN_PYTHON, MACHINES, ANSWERS)],
    ids=id_of,
)
def test_the_commands_of_a_page_run(page, home, quick_training, request):
    run_page(page, database_of(page.read_text(), request))


@pytest.mark.slow
def test_machines_answer_as_the_page_says(home, quick_training):
    # Words: by probabilities without errors the goal would be reached before the batch is written.
    model = Model(lambda text: len(text) / 50, logprobs=False)
    said: dict[str, str] = {}
    names: dict[str, object] = {}
    n_in_batch = 0
    with serving(model) as url:
        for block in blocks(MACHINES):
            block = replace(block, text=block.text.replace("http://localhost:8000", url))
            if block.kind == "python":
                run_python(block, MACHINES, names)
            for typed, _ in block.typed if block.kind == "console" else ():
                said[typed] = run(typed)
                if "--write-batch" in typed:
                    n_in_batch = answer_batch(model)
    assert n_in_batch == 12
    assert 20 < len(model.prompts) <= 100
    assert "Which number is greater?" in model.prompts[0]  # by `sortnet doctor`
    assert "Which is longer?" in model.prompts[1]
    report = Path("report.html").read_text()
    assert "Which is longer?" in report
    ranked = said["sortnet rank by-asking tomorrow.csv"].splitlines()[1:]
    assert len(ranked) == 8
    assert names["result"].items[0].startswith("Read the manual first")


def answer_batch(model: Model) -> int:
    """Answer the requests of a batch as a provider does; returns their number."""
    lines = Path("requests.jsonl").read_text().splitlines()
    with Path("answers.jsonl").open("w") as answers:
        for request in map(json.loads, lines):
            body = model.answer(request["body"]["messages"][0]["content"], wants=True)
            response = {"status_code": 200, "body": body}
            answers.write(json.dumps({"custom_id": request["custom_id"], "response": response}))
            answers.write("\n")
    return len(lines)


def run_page(page, url=None):
    """Run all commands and all Python of a page; the names that are left."""
    names = {}
    for block in blocks(page):
        if block.kind == "console":
            for typed, _ in block.typed:
                run(typed, database=url)
        elif block.kind == "python":
            run_python(block, page, names)
    return names


@pytest.mark.slow
def test_the_page_of_answers_runs_and_finds_the_annotator_who_tosses_coins(home, quick_training):
    coin = "zlib.crc32(line.encode()) % 2"  # the same in each run of the test
    verdicts: dict[str, str] = {}
    for block in blocks(ANSWERS):
        if block.kind == "python":
            text = block.text.replace("random.random() < 0.5", coin)
            run_python(replace(block, text=text.replace("random,", "zlib,")), ANSWERS, {})
        for typed, _ in block.typed if block.kind == "console" else ():
            # A few answers are not enough for a verdict.
            said = run(typed, short=not typed.startswith("sortnet label"))
            if typed == "sortnet annotators answers":
                verdicts = {line.split()[0]: line for line in said.splitlines() if line.strip()}
    assert Path("coin.py").read_text().count(coin) == 1
    assert verdicts["eve"].endswith("answers at random")
    assert verdicts["ana"].endswith("-") and verdicts["ben"].endswith("-")


@pytest.mark.slow
def test_the_example_with_stars_learns(home, quick_training):
    names = run_page(IN_PYTHON)
    chosen_by, model = names["chosen_by"], names["model"]
    assert chosen_by.grades.min() == 1
    assert model.config.quality == "ndcg@10" and model.info["iteration"] > 0
    assert spearmanr(names["places"], names["stars"]).statistic > 0.7


@pytest.mark.slow
def test_the_tutorial_says_what_its_commands_say(tmp_path):
    with at_home(tmp_path):
        for block in blocks(TUTORIAL):
            if block.kind == "python":
                run_python(block, TUTORIAL, {})
            elif block.kind == "console":
                for typed, recorded in block.typed:
                    said = shown(run(typed, short=False), tmp_path)
                    assert shape(said) == shape(recorded)


@pytest.mark.slow
def test_the_readme_s_python_runs(home, quick_training):
    rng = np.random.default_rng(0)
    X, X_vali, X_test = rng.normal(size=(3, 60, 4))
    names = {"X": X, "X_vali": X_vali, "X_test": X_test}
    names |= {"y": (X[:, 0] > 0).astype(int), "y_vali": (X_vali[:, 0] > 0).astype(int)}
    names |= dict.fromkeys(["qid", "qid_vali", "qid_test"], np.repeat(np.arange(6), 10))
    names["texts"] = [f"draft number {k}{' that goes on' * k}" for k in range(12)]
    names["new_texts"] = ["short", f"long{' that goes on' * 20}"]
    python_blocks = [block for block in blocks(README) if block.kind == "python"]
    with serving(Model(lambda text: len(text) / 50)) as url:
        for block in python_blocks:
            text = block.text.replace("http://localhost:8000", url).replace("qwen3", "judge")
            run_python(replace(block, text=text), README, names)
    assert names["scores"].shape == (60,)
    assert names["result"].items[0] == names["texts"][-1]
    assert names["result"].ranker.rank(names["new_texts"])["item"].tolist()[0].startswith("long")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_its_help_in_the_reference(name):
    from generate import help_of

    # click below 8.2 puts a choice that may be left out into two pairs of brackets.
    shown = help_of(name, COMMANDS[name]).replace("[[", "[").replace("]]", "]")
    written = (ROOT / "docs/reference/commands.md").read_text()
    assert shown in written.replace("[[", "[").replace("]]", "]")


def make_judge(folder: Path) -> None:
    """Make the program that answers in README as it says."""
    (shown,) = re.findall(r"    \$ cat judge\.py\n(.+?)    \$ ", README.read_text(), re.DOTALL)
    (folder / "judge.py").write_text(dedent(shown))


def test_the_program_that_answers_in_readme_can_be_copied_from_it(tmp_path: Path) -> None:
    make_judge(tmp_path)
    asked = json.dumps({"left": {"text": "long"}, "right": {"text": "no"}}) + "\n"
    program = [sys.executable, "judge.py"]
    said = subprocess.run(
        program, cwd=tmp_path, input=asked * 3, capture_output=True, text=True, check=True
    )
    assert [json.loads(line)["answer"] for line in said.stdout.splitlines()] == ["left"] * 3


@pytest.mark.slow
def test_the_readme_s_tour_of_people_tells_items_by_texts_whatever_the_threads(
    tmp_path, quick_training
):
    tour = README.read_text().partition("## Sort by asking people")[2].partition("\n## ")[0]
    typed = [
        line
        for line in re.findall(r"^    \$ (sortnet .+)", tour, re.M)
        if not line.startswith("sortnet serve")
    ]  # until Ctrl-C
    assert [line.split()[1] for line in typed[-3:]] == ["train", "rank", "report"]
    make_judge(tmp_path)
    (tmp_path / "ukpconvarg1").mkdir()
    (tmp_path / "ukpconvarg1/items.tsv").write_text(arguments(200, sep="\t"))
    (tmp_path / "new.csv").write_text(arguments(6, sep=","))
    with at_home(tmp_path):
        with threadpool_limits(1):
            for line in typed[:-1]:
                # After a few answers no pair may be wrong that the report could show.
                run(line, short=not line.startswith("sortnet label"))
        with threadpool_limits(2):
            run("sortnet train --resume --out judged")
            run(f"{typed[-1]} --output report.html")
        page = (tmp_path / "report.html").read_text()
    assert re.search(r">\d+: [a-t]+ [a-t]+", page), "items are told by their texts"
    assert "with --data" not in page and not re.search(r"place \d+ \|", page)


def arguments(n: int, *, sep: str) -> str:
    """Texts on eight topics, as a table with the columns of UKPConvArg1."""
    rng = np.random.default_rng(0)
    letters = list("abcdefghijklmnopqrst")
    words = ["".join(rng.choice(letters, rng.integers(2, 9))) for _ in range(2000)]
    rows = [
        ["topic", "id", "gold_rank_score", "stance", "up", "down", "text"],
        *(
            [f"topic-{k % 8}", str(k), "0.5", "yes", str(k % 3), "0",
             " ".join(rng.choice(words, rng.integers(3, 40)))]
            for k in range(n)
        ),
    ]  # fmt: skip
    return "".join(sep.join(row) + "\n" for row in rows)


def test_the_readme_names_no_command_that_is_not_there():
    found = re.findall(r"(?:^ *\$ |`)(sortnet [a-z]+)", README.read_text(), re.M)
    named = set(found)
    there = {" ".join(name.split()[:2]) for name in COMMANDS}
    assert named and sorted(named - there) == []


def typed_in(page: Path) -> list[str]:
    """Words that follow `sortnet` in inline code and in console and text blocks of a page."""
    text = page.read_text(encoding="utf-8")
    fenced = "\n".join(block.text for block in blocks(page) if block.kind in ("console", "text"))
    commands = re.findall(r"^(?:    )?\$ sortnet (.+)$", f"{text}\n{fenced}", re.MULTILINE)
    return [*commands, *re.findall(r"`sortnet ([^`]+)`", text)]


def fault_of(typed: str) -> str | None:
    """The command or option of a line that is not there."""
    words = typed.split()
    groups = {" ".join(name.split()[:2]) for name in COMMANDS}
    longest_first = (f"sortnet {' '.join(words[:n])}" for n in (2, 1))
    name = next((name for name in longest_first if name in COMMANDS), None)
    if name is None:
        return None if f"sortnet {words[0]}" in groups or words[0].startswith("-") else words[0]
    there = {"--help"}
    for option in COMMANDS[name].params:
        there |= {*option.opts, *option.secondary_opts}
    typed_options = re.findall(r"(?<!\S)--?[a-z][a-z-]*", typed)
    return next((option for option in typed_options if option not in there), None)


@pytest.mark.parametrize("page", [README, *PAGES], ids=id_of)
def test_a_page_names_no_command_or_option_that_is_gone(page):
    faults = {typed: fault_of(typed) for typed in typed_in(page)}
    assert {typed: fault for typed, fault in faults.items() if fault} == {}


@pytest.mark.parametrize("page", PAGES_RUN, ids=id_of)
def test_a_page_makes_what_it_uses_of_others_or_says_where_it_is_made(page):
    text = page.read_text(encoding="utf-8")
    if page != TUTORIAL and re.search(r"\bbikes\b", text):
        assert "(../tutorial.md)" in text
    if (used := text.find("python judge.py")) >= 0:
        made = text.find('Path("judge.py").write_text')
        assert 0 <= made < used or "(people.md#a-program-as-annotator)" in text


def test_a_test_that_a_page_names_is_there():
    texts = "".join(path.read_text() for path in PAGES)
    there = "".join(f"{path}\n{path.read_text()}" for path in (ROOT / "tests").glob("test_*.py"))
    named = re.findall(r"make test k=(\w+)", texts)
    assert len(named) > 5 and [name for name in named if name not in there] == []


def test_every_variable_of_the_environment_that_is_read_is_explained():
    sources = [p for package in ("sortnet", "store", "cli") for p in (ROOT / package).rglob("*.py")]
    reads = r"""(?:environ(?:\.get\(|\[)|getenv\(|envvar=)["']([A-Z_]+)["']"""
    read = {name for path in sources for name in re.findall(reads, path.read_text())}
    explained = (ROOT / "docs/how-to/files.md").read_text()
    assert "SORTNET_STORE" in read
    assert [name for name in sorted(read) if f"`{name}`" not in explained] == []


def test_the_reference_shows_doctests_as_code():
    from doctests import fenced

    text = "One.\n\n>>> 1\n1\n\nCost: none."
    assert fenced(text) == "One.\n\n```pycon\n>>> 1\n1\n```\n\nCost: none."
    assert fenced("Args:\n    a: one.") == "Args:\n    a: one."


def test_every_public_name_is_in_the_reference():
    from generate import names

    import sortnet

    table = names()
    assert [n for n in sortnet.__all__ if not n.startswith("__") and f"[`{n}`]" not in table] == []


def test_a_page_that_is_not_in_the_menu_does_not_exist():
    menu = (ROOT / "mkdocs.yml").read_text()
    assert [id_of(p) for p in PAGES if f": {p.relative_to(ROOT / 'docs')}\n" not in menu] == []


@pytest.mark.slow
def test_the_built_pages_warn_of_nothing_and_fetch_nothing(tmp_path):
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    for package in ("sortnet", "store"):  # what the reference is made of
        (tmp_path / package).symlink_to(ROOT / package)
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    built = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert built.returncode == 0, built.stdout + built.stderr
    html = {path.name: path.read_text() for path in (tmp_path / "site").rglob("*.html")}
    assert len(html) >= len(PAGES)
    fetched = r"""<(?:script|link|img|iframe|source)[^>]*(?:src|href)=["']?(?:https?:)?//[^>]*>"""
    assert {
        name: found for name, text in html.items() if (found := re.findall(fetched, text))
    } == {}
