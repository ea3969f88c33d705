"""Names and bars in tables of features."""

from __future__ import annotations

BAR, NAME = 20, 24  # characters


def bar(value: float, most: float) -> str:
    length = round(BAR * abs(value) / most) if most > 0 else 0
    return (("+" if value > 0 else "-") * length).ljust(BAR)


def cut(name: str) -> str:
    return name if len(name) <= NAME else f"{name[: NAME - 3]}..."
