"""Judges that are not people: language models, programs and functions that compare items.

    LanguageModel | Program | Function  --connect()-->  JudgeConnection  --its workers-->  Verdicts

A description of a judge says whom to ask; it has no connection and no key. A `JudgeConnection` has
the budget of the calls, and makes the workers that answer questions. A `Machine` of `store.asking`
distributes questions among the workers, and stores the answers.

The judges in `sortnet.learning.judges` are different: they look up grades and stored answers.
"""

from sortnet.judges.function import Function
from sortnet.judges.language_model import LanguageModel
from sortnet.judges.program import Program

__all__ = ["Function", "LanguageModel", "Program"]
