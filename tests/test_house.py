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


@pytest.mark.parametrize("name", sortnet.__all__)
def test_every_public_name_is_there_and_tells_what_it_is(name):
    assert getattr(sortnet, name).__doc__


def test_type_checkers_are_shown_the_modules_that_names_are_loaded_from():
    source = (ROOT / "sortnet/__init__.py").read_text()
    imports = re.findall(r"^    from (\S+) import (.+)$", source, re.MULTILINE)
    shown = {}
    for module, names in imports:
        for name in names.split(", "):
            name_there, _, public_name = name.partition(" as ")
            shown[public_name or name_there] = (module, name_there)
    assert shown == sortnet._SOURCES


def test_importing_sortnet_loads_nothing_heavy():
    heavy = {"torch", "numba", "numpy", "pandas", "sklearn", "pyarrow"}
    loaded = run_python("import sys, sortnet; print(*sys.modules)").split()
    assert "sortnet" in loaded and heavy.isdisjoint(loaded)


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
    info = f"sortnet-{sortnet.__version__}.dist-info"
    assert f"{info}/licenses/LICENSE" in wheel.namelist()


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
