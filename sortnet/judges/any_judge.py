"""The types of judges that a caller may pass: a description of a judge, or a plain function."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from sortnet.judges.function import Function
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
