"""What cog puts into the pages. It is taken from the code, so that it cannot drift."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parent.parent
# Modules that serve the others and promise nothing to a reader.
INNER = (
    "sortnet.files",
    "sortnet.core.arrays",
    "sortnet.core.memory",
    "sortnet.threads",
    "sortnet.core.float32",
    "sortnet.tables.roles",
    "sortnet.tables.rows",
    "sortnet.estimator.arrays",
    "sortnet.estimator.evaluation",
    "sortnet.estimator.parameters",
    "sortnet.preference.history",
    "store.database",
    "store.runs.pair_rows",
)


def walk(command: click.Command, name: str = "sortnet") -> Iterator[tuple[str, click.Command]]:
    """Every command that runs, with its name as typed: `sortnet train`."""
    if not isinstance(command, click.Group):
        yield name, command
        return
    for child_name, child in command.commands.items():
        yield from walk(child, f"{name} {child_name}")


def help_of(name: str, command: click.Command) -> str:
    """Help as an 80-column terminal shows it."""
    from cli.main import main

    settings = {**main.context_settings, "terminal_width": 80, "max_content_width": 80}
    return command.get_help(click.Context(command, info_name=name, **settings))


def commands() -> str:
    """A table of the commands, and each one's own help."""
    from cli.main import main

    all_commands = list(walk(main))
    rows = [
        f"| [`{name}`](#{name.replace(' ', '-')}) | {command.get_short_help_str(200)} |"
        for name, command in all_commands
    ]
    table = ["| command | what it does |", "|---|---|", *rows]
    parts = [f"## {name}\n\n{_fenced(help_of(name, command))}" for name, command in all_commands]
    return "\n" + "\n".join(table) + "\n\n" + "\n".join(parts) + "\n"


def modules(package: str) -> str:
    """One block of reference for each public module, which mkdocstrings fills."""
    names = [package, *_below(package)]
    public = [name for name in names if not name.startswith(INNER)]
    listed = [name for name in public if name != package or package == "store"]
    parts = [f"## {name} {{ #{name} }}\n\n::: {name}\n" for name in listed if _documented(name)]
    return "\n" + "\n".join(parts) + "\n"


def names() -> str:
    """A table of what `import sortnet` offers."""
    import sortnet

    rows = []
    for name in sortnet.__all__:
        value = getattr(sortnet, name)
        if name.startswith("__"):
            continue
        first_line = (inspect.getdoc(value) or "").split("\n")[0]
        reference = f"{value.__module__}.{value.__qualname__}"
        rows.append(f"| [`{name}`][{reference}] | {first_line} |")
    return "\n| name | what it is |\n|---|---|\n" + "\n".join(rows) + "\n\n"


def source(path: str, first: str, last: str) -> str:
    """The lines of a file from the one that begins with `first` to the one with `last`."""
    lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
    start = next(k for k, line in enumerate(lines) if line.strip().startswith(first))
    end = next(k for k in range(start, len(lines)) if lines[k].strip().startswith(last))
    return "\n" + _fenced(inspect.cleandoc("\n" + "\n".join(lines[start : end + 1])), "python")


def _below(package: str) -> list[str]:
    path = importlib.import_module(package).__path__
    return [module.name for module in pkgutil.walk_packages(path, f"{package}.")]


def _documented(module: str) -> bool:
    """Whether a module defines, or a package offers, a public name."""
    members = vars(importlib.import_module(module))
    public_names = [
        name
        for name, value in members.items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module
    ]
    return bool(public_names)


def _fenced(text: str, language: str = "text") -> str:
    return f"```{language}\n{text}\n```\n"
