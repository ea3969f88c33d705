"""The documentation: every command can be typed, and no page has drifted from the code."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from docs_helpers import (
    ROOT,
    TUTORIAL,
    at_home,
    blocks,
    examples,
    shape,
    shown,
    type_page,
    typed_on,
    walk,
    words_of,
)

from cli.main import main
from sortnet.preference.annotator_reports import FINE

sys.path.insert(0, str(ROOT / "docs"))

README = ROOT / "README.md"
PAGES = sorted((ROOT / "docs").rglob("*.md"))
HOW_TOS = sorted((ROOT / "docs/how-to").glob("*.md"))
TYPED = [page for page in (README, TUTORIAL, *HOW_TOS) if typed_on(page)]
COMMANDS = dict(walk())
NOT_TYPED = {"sortnet serve"}  # it serves until Ctrl-C


def id_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_shows_examples_of_itself_that_it_takes(name, tmp_path):
    found = examples(COMMANDS[name])
    assert found
    above = click.Context(main, **main.context_settings)
    with at_home(tmp_path):
        for typed in found:
            words = words_of(typed)
            assert " ".join([*words, ""]).startswith(f"{name} ")
            COMMANDS[name].make_context(name, words[len(name.split()) :], parent=above)


def test_every_command_is_typed_on_a_page():
    lines = [f"{' '.join(words_of(typed))} " for page in TYPED for typed in typed_on(page)]
    typed = {name for name in COMMANDS if any(line.startswith(f"{name} ") for line in lines)}
    assert COMMANDS.keys() - typed == NOT_TYPED


@pytest.mark.slow
@pytest.mark.parametrize("page", TYPED, ids=id_of)
def test_the_commands_of_a_page_can_be_typed_in_a_new_home(page, tmp_path, request):
    if page != TUTORIAL:  # whose output is shown
        request.getfixturevalue("quick_training")
    first = next(block for block in blocks(page) if block.kind == "console")
    commands = [typed for typed, _ in first.typed]
    assert commands[:2] == ["sortnet demo --examples examples", "cd examples"]
    with at_home(tmp_path):
        typed = []
        for command, said, recorded in type_page(page):
            typed.append(command)
            if page == TUTORIAL and recorded.strip():
                assert shape(shown(said, tmp_path)) == shape(recorded)
    assert typed == typed_on(page)


MADE = (
    r"(?:--out|--output|--write-batch|items add) ([\w.-]+)",
    r"(?:\.save|\.report|\.train)\((?:[\w\"]+, )?\"([\w.-]+)\"",
    r"store=\"([\w.-]+)\"",
)


def made_on(page: Path) -> set[str]:
    """Names of the models, collections, stores and files that the blocks of a page make."""
    text = "".join(block.text for block in blocks(page) if block.kind in ("console", "python"))
    return {name for pattern in MADE for name in re.findall(pattern, text)}


def test_a_page_can_be_typed_after_all_others_because_it_makes_names_of_its_own():
    pages_of_name: dict[str, list[str]] = {}
    for page in TYPED:
        for name in made_on(page):
            pages_of_name.setdefault(name, []).append(id_of(page))
    assert {"shop-model", "essays", "essays.db", "shop-in-python"} <= pages_of_name.keys()
    assert {name: pages for name, pages in pages_of_name.items() if len(pages) > 1} == {}


def typed_in(page: Path) -> list[str]:
    """Words that follow `sortnet` in inline code and in console and text blocks of a page."""
    text = page.read_text(encoding="utf-8")
    fenced = "\n".join(block.text for block in blocks(page) if block.kind in ("console", "sh"))
    commands = re.findall(r"^(?:    )?(?:\$ )?sortnet (.+)$", fenced, re.MULTILINE)
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


def test_every_verdict_on_an_annotator_is_explained():
    page = (ROOT / "docs/how-to/annotators.md").read_text(encoding="utf-8")
    assert [verdict for verdict in FINE if verdict not in page] == []


def test_every_variable_of_the_environment_that_is_read_is_explained():
    sources = [p for package in ("sortnet", "store", "cli") for p in (ROOT / package).rglob("*.py")]
    reads = r"""(?:environ(?:\.get\(|\[)|getenv\(|envvar=)["']([A-Z_]+)["']"""
    read = {name for path in sources for name in re.findall(reads, path.read_text())}
    explained = (ROOT / "docs/how-to/files.md").read_text()
    assert "SORTNET_STORE" in read
    assert [name for name in sorted(read) if f"`{name}`" not in explained] == []


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


def test_pages_name_tests_that_are_there_and_stand_in_the_menu():
    texts = "".join(path.read_text() for path in PAGES)
    there = "".join(f"{path}\n{path.read_text()}" for path in (ROOT / "tests").glob("test_*.py"))
    named = re.findall(r"make test k=(\w+)", texts)
    assert len(named) > 5 and [name for name in named if name not in there] == []
    menu = (ROOT / "mkdocs.yml").read_text()
    assert [id_of(p) for p in PAGES if f": {p.relative_to(ROOT / 'docs')}\n" not in menu] == []
