"""The types of judges that a caller may pass: a description of a judge, or a plain function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

from sortnet.errors import SortNetError
from sortnet.judges.function import Function
from sortnet.judges.judge_file import read_table
from sortnet.judges.language_model import LanguageModel
from sortnet.judges.program import Program

MachineJudge: TypeAlias = LanguageModel | Program | Function
OneJudge: TypeAlias = MachineJudge | Callable[..., object]


def described(judge: OneJudge) -> MachineJudge:
    """Return the judge, or a `Function` that describes the judge if it is a plain function.

    Raises:
        SortNetError: if the value is no judge.

    >>> described(lambda left, right: "left").annotator
    'function'
    """
    if isinstance(judge, LanguageModel | Program | Function):
        return judge
    return Function(judge)


def named_judges(judges: Mapping[str, OneJudge]) -> dict[str, MachineJudge]:
    """Return {name under which answers are stored: judge} for several judges.

    Raises:
        SortNetError: if there is no judge, or a value is not a judge.

    >>> named_judges({"length": lambda left, right: "left"})["length"].annotator
    'function'
    """
    if not judges:
        raise SortNetError("judge: there is none")
    return {str(name): described(judge) for name, judge in judges.items()}


def judge_from_file(file: str | Path) -> LanguageModel | Program:
    """Read a judge from a TOML file: a program if the file has a `command`, else a language model.

    Raises:
        SortNetError: if the file has no judge; the message names the file and the key.
    """
    kind = Program if "command" in read_table(file) else LanguageModel
    return kind.from_file(file)


def address_of(judge: LanguageModel | Program) -> str:
    """Return where a judge's questions go: the URL of a server, or the command of a program."""
    return judge.server if isinstance(judge, LanguageModel) else judge.command
