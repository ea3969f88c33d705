"""The types of judges that a caller may pass: a description of a judge, or a plain function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from sortnet.errors import SortNetError
from sortnet.judges.connection import JudgeConnection
from sortnet.judges.function import Function
from sortnet.judges.judge_fields import read_table
from sortnet.judges.language_model import LanguageModel
from sortnet.judges.program import Program
from sortnet.messages import cut, printable

_LONGEST_NAME = 60  # most characters of a name; a command may be longer
MachineJudge: TypeAlias = LanguageModel | Program | Function
OneJudge: TypeAlias = MachineJudge | Callable[..., object]


def judges_by_name(judge: OneJudge | Mapping[str, OneJudge]) -> dict[str, MachineJudge]:
    """Return {name under which answers are stored: judge} for one judge or several named judges.

    A judge that is a plain function is described by a `Function`.

    Raises:
        SortNetError: if there is no judge, or a value is not a judge.

    >>> list(judges_by_name({"length": lambda left, right: "left"}))
    ['length']
    """
    if isinstance(judge, Mapping):
        if not judge:
            raise SortNetError("judge: there is none")
        return {str(name): _described(one) for name, one in judge.items()}
    machine_judge = _described(judge)
    return {cut(machine_judge.annotator, _LONGEST_NAME): machine_judge}


def _described(judge: OneJudge) -> MachineJudge:
    """Return the judge, or a `Function` that describes the judge if it is a plain function."""
    return judge if isinstance(judge, LanguageModel | Program | Function) else Function(judge)


def connect_judges(
    judges: Mapping[str, MachineJudge], originals: Mapping[str, Any] | None = None
) -> dict[str, JudgeConnection]:
    """Connect to judges, and return {name under which answers are stored: connection}.

    Args:
        judges: {name under which answers are stored: judge}.
        originals: {id: item}, the items with which functions are called.

    Raises:
        SortNetError: if a judge cannot be asked.
    """
    return {
        name: judge.connect(f"judge {printable(name)}", originals) for name, judge in judges.items()
    }


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
