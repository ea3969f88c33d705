"""Print the lowest versions that pyproject.toml declares, one pin a line, for pip.

`python tests/lowest.py > lowest.txt` and then `pip install -r lowest.txt`. torch is left out:
indexes of CPU builds keep its newest versions only, and its wheels are the largest by far.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
EXCEPTED = ("sortnet", "torch")
# What tools and tests need but no user does has no lowest version.
EXTRAS = ("parquet", "postgresql", "tensorboard", "web")


def lowest() -> list[str]:
    """`name==version`, or as it stands where no lowest version is declared."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    asked = map(Requirement, [*project["dependencies"], *(r for e in EXTRAS for r in extras[e])])
    return [_pin(each) for each in asked if each.name not in EXCEPTED]


def _pin(asked: Requirement) -> str:
    versions = [each.version for each in asked.specifier if each.operator == ">="]
    extras = f"[{','.join(sorted(asked.extras))}]" if asked.extras else ""
    return f"{asked.name}{extras}=={versions[0]}"


if __name__ == "__main__":
    print("\n".join(lowest()))
