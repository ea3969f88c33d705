"""Print the lowest versions that pyproject.toml declares, one pin a line, for pip.

`python tests/lowest.py > lowest.txt` and then `pip install -r lowest.txt`. torch has the version of
constraints.txt: indexes of CPU builds keep the newest ones only. With `--without-torch` torch is
left out, and the other packages have the ranges of pyproject.toml.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
EXTRAS = ("cma", "llm", "moocore", "parquet", "postgresql", "tensorboard", "web")
# What tests need and no user does has no lowest version.
TOOLS = (
    *(
        "axe-playwright-python",
        "griffelib",
        "hypothesis",
        "ir-measures",
        "lightgbm",
        "nbclient",
        "nbformat",
        "polars",
    ),
    *("psutil", "pytest", "pytest-xdist", "pyyaml", "selenium"),
)


def lowest() -> list[str]:
    """`name==version` of what a user needs, and the names of what tests need."""
    return [*map(_pin, _asked_without_torch()), *_constraints("torch"), *TOOLS]


def without_torch() -> list[str]:
    """List what a user needs but torch, and the names of what tests need."""
    return [*map(str, _asked_without_torch()), *TOOLS]


def _asked_without_torch() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    asked = map(Requirement, [*project["dependencies"], *(r for e in EXTRAS for r in extras[e])])
    return [each for each in asked if each.name != "torch"]


def _pin(asked: Requirement) -> str:
    versions = [each.version for each in asked.specifier if each.operator == ">="]
    extras = f"[{','.join(sorted(asked.extras))}]" if asked.extras else ""
    return f"{asked.name}{extras}=={versions[0]}"


def _constraints(name: str) -> list[str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return [line for line in lines if line.startswith(f"{name}==")]


if __name__ == "__main__":
    print("\n".join(without_torch() if "--without-torch" in sys.argv else lowest()))
