"""The house: what is imported, packaged, pinned and written down."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import distributions
from pathlib import Path

import pytest
from lowest import lowest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import sortnet
from cli.main import main

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("sortnet", "store", "cli")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]


def run_python(code: str, *, cwd: Path = ROOT) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def files_of_the_tree() -> list[str]:
    """Every file that is tracked or would be, relative to the root."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = [line for line in lines if not line.startswith("#")]
    return {canonical(name): version for name, version in (line.split("==") for line in pinned)}


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def requirements() -> list[Requirement]:
    """What pyproject.toml names, the project's own extras left out."""
    named = [*PROJECT["dependencies"], *(text for extra in EXTRAS.values() for text in extra)]
    return [asked for asked in map(Requirement, named) if asked.name != "sortnet"]


def test_the_changelog_speaks_of_this_version_right_below_the_unreleased_changes():
    headings = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[:2] == ["Unreleased", sortnet.__version__]


@pytest.mark.parametrize("name", sortnet.__all__)
def test_every_public_name_is_there_and_tells_what_it_is(name):
    assert getattr(sortnet, name).__doc__


EVERYDAY = ("estimate", "explain", "importance", "open_store", "report", "resume", "sort", "train")


def test_the_everyday_calls_need_no_import_from_inside():
    assert set(EVERYDAY) <= set(sortnet.__all__)


def test_the_table_of_lazy_names_and_the_public_list_agree():
    assert sorted(sortnet.__all__) == sorted([*sortnet._SOURCES, "__version__"])


def test_type_checkers_are_shown_the_modules_that_names_are_loaded_from():
    source = (ROOT / "sortnet/__init__.py").read_text()
    imports = re.findall(r"^    from (\S+) import (.+)$", source, re.MULTILINE)
    shown = {}
    for module, names in imports:
        for name in names.split(", "):
            name_there, _, public_name = name.partition(" as ")
            shown[public_name or name_there] = (module, name_there)
    assert shown == sortnet._SOURCES


def test_a_misspelt_public_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'SortNetRankr'"):
        sortnet.SortNetRankr  # noqa: B018


def test_importing_sortnet_loads_nothing_heavy():
    heavy = {"torch", "numba", "numpy", "pandas", "sklearn", "pyarrow"}
    loaded = run_python("import sys, sortnet; print(*sys.modules)").split()
    assert "sortnet" in loaded and heavy.isdisjoint(loaded)


def test_the_project_installs_its_three_packages_and_no_others():
    found = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert found == set(PACKAGES), "tests, benchmarks and notebooks are no packages"
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    finder = setuptools["packages"]["find"]
    assert finder == {"include": [f"{name}*" for name in PACKAGES], "namespaces": False}


def test_a_command_is_one_file_of_its_name():
    files = {path.stem for path in (ROOT / "cli/commands").glob("*.py")} - {"__init__"}
    assert files == {*main.commands} - {"experiment"}
    for name, command in main.commands.items():
        folder = "lab" if name == "experiment" else "commands"
        assert command.callback.__module__ == f"cli.{folder}.{name}"


def tree_of_contributing() -> dict[str, set[str]]:
    """{package: what its picture names in it}; a folder ends with a slash."""
    below = (ROOT / "CONTRIBUTING.md").read_text().split("## Where things are\n", 1)[1]
    below = below.split("Imports run", 1)[0]
    tree: dict[str, set[str]] = {}
    for line in re.findall(r"^    (.+)$", below, re.MULTILINE):
        if found := re.match(r"(\w+)  ", line):
            package = tree.setdefault(found[1], set())
        elif found := re.match(r"   (\S.*?)  ", line):
            package |= set(found[1].split(", "))
    return tree


def test_the_tree_in_contributing_is_the_tree():
    there = {
        package: {f"{path.parent.name}/" for path in (ROOT / package).glob("*/__init__.py")}
        | {path.stem for path in (ROOT / package).glob("*.py") if not path.stem.startswith("__")}
        for package in PACKAGES
    }
    assert tree_of_contributing() == there


def test_contributing_names_files_that_are_there():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    named = re.findall(r"`([a-z_]+/[\w./-]*)`", text)
    gone = {path for path in named if not path.startswith("build/") and not (ROOT / path).exists()}
    assert named and gone == set()


def test_no_file_holds_a_path_of_somebodys_machine():
    path = re.compile(r"(?<![\w.~*-])/(work|root|home|Users)(/|\b)")
    texts = {name: (ROOT / name).read_bytes() for name in files_of_the_tree()}
    lines = [
        f"{name}:{number}: {line.strip()}"
        for name, raw in texts.items()
        if b"\0" not in raw
        for number, line in enumerate(raw.decode(errors="replace").splitlines(), start=1)
        if path.search(line)
    ]
    assert lines == []


def test_constraints_are_plain_pins_that_any_index_can_serve():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    odd = [
        line for line in lines if not re.fullmatch(r"#.*|[A-Za-z0-9_.-]+==[0-9][0-9a-z.]*", line)
    ]
    assert odd == []


def test_pins_can_be_installed_with_the_first_release_of_the_lowest_python():
    """Else pip searches for minutes for what no version of a pinned package can give."""
    first = PROJECT["requires-python"].removeprefix(">=") + ".0"
    pinned = pins()
    too_new = [
        distribution.name
        for distribution in distributions()
        if canonical(distribution.name) in pinned
        and (needed := distribution.metadata.get("Requires-Python"))
        and not SpecifierSet(needed).contains(first)
    ]
    assert too_new == []


@pytest.mark.parametrize("asked", requirements(), ids=str)
def test_a_dependency_is_pinned_within_its_range(asked):
    assert asked.specifier.contains(pins()[canonical(asked.name)])


def test_the_lowest_versions_are_those_that_are_declared():
    names = {canonical(line.split("=")[0].split("[")[0]): line for line in lowest()}
    for asked in map(Requirement, PROJECT["dependencies"]):
        version = names[canonical(asked.name)].partition("==")[2]
        assert asked.specifier.contains(version)
        if asked.name != "torch":
            assert f">={version}" in str(asked.specifier).split(",")


def test_every_command_that_the_makefile_promises_is_phony_and_listed():
    text = (ROOT / "Makefile").read_text()
    promised = set(re.findall(r"^([a-z-]+):.*##", text, re.MULTILINE))
    phony = set(re.search(r"^\.PHONY: (.+)$", text, re.MULTILINE)[1].split())
    assert {"demo", "test", "check", "bench", "clean", "help"} <= promised <= phony


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> zipfile.ZipFile:
    """A wheel of the tree as it stands, built from a copy so that no stale build/ gets in."""
    tree, out = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("wheel")
    for name in files_of_the_tree():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tree / name)
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(out), str(tree)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = out.glob("*.whl")
    return zipfile.ZipFile(path)


@pytest.mark.slow
def test_the_wheel_holds_the_three_packages_whole_and_nothing_else(wheel):
    in_wheel = {name for name in wheel.namelist() if ".dist-info/" not in name}
    in_tree = {name for name in files_of_the_tree() if name.split("/")[0] in PACKAGES}
    assert in_wheel == in_tree


@pytest.mark.slow
def test_the_wheel_carries_the_licence_and_the_command(wheel):
    info = f"sortnet-{sortnet.__version__}.dist-info"
    assert f"{info}/licenses/LICENSE" in wheel.namelist()
    assert "sortnet = cli.__main__:main" in wheel.read(f"{info}/entry_points.txt").decode()


@pytest.mark.slow
def test_all_modules_of_the_wheel_import_without_extras(wheel, tmp_path):
    wheel.extractall(tmp_path)
    modules = sorted(
        name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for name in wheel.namelist()
        # Only alembic can import its environment.
        if name.endswith(".py") and not name.endswith(("__main__.py", "migrations/env.py"))
    )
    assert {"store.database.migrations.versions.r0001_baseline", "store.database.revision"} <= {
        *modules
    }
    absent = ["pyarrow", "psycopg", "hypothesis", "pytest", "ir_measures", "psutil"]
    absent += ["lightgbm", "xgboost", "cma", "moocore"]
    code = (
        "import importlib, sys, warnings; warnings.simplefilter('ignore')\n"
        f"sys.modules.update(dict.fromkeys({absent!r}))\n"
        f"for name in {modules!r}: importlib.import_module(name)\n"
        "import sortnet; print(sortnet.__file__)"
    )
    assert run_python(code, cwd=tmp_path).strip() == str(tmp_path / "sortnet/__init__.py")


WARNINGS = """
import sqlite3
import warnings
import theirs

def test_of_a_third_party():
    theirs.warn()

def test_of_ours():
    warnings.warn("ours", DeprecationWarning)

def test_of_a_connection_that_is_never_closed():
    {leak}
"""


def test_only_warnings_about_our_code_are_errors(tmp_path):
    (tmp_path / "theirs.py").write_text(
        "import warnings\ndef warn():\n    warnings.warn('theirs', DeprecationWarning)\n"
    )
    leak = "sqlite3.connect(':memory:')" if sys.version_info >= (3, 13) else "open(__file__)"
    (tmp_path / "test_warnings.py").write_text(WARNINGS.format(leak=leak))
    options = ["-c", ROOT / "pyproject.toml", "--rootdir", tmp_path, "-p", "no:cacheprovider"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "-v", tmp_path],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    outcomes = dict(re.findall(r"::(\w+) (PASSED|FAILED)", ran.stdout))
    assert outcomes == {
        "test_of_a_third_party": "PASSED",
        "test_of_ours": "FAILED",
        "test_of_a_connection_that_is_never_closed": "FAILED",
    }, ran.stdout
