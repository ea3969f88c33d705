"""Judges that are not people: language models, programs and functions that compare items.

    LanguageModel | Program | Function  --connect()-->  JudgeConnection  --its workers-->  Verdicts

A description of a judge says whom to ask; it holds no connection and no key. A `JudgeConnection`
has workers, each of which answers some questions at a time, and counts what was spent. A
`WorkerPool` distributes questions among the workers; its subclasses in `store` choose and store
them.

A judge by data is another thing: `sortnet.learning.judges` looks grades and answers up.
"""

from sortnet.judges.function import Function
from sortnet.judges.language_model import LanguageModel
from sortnet.judges.limits import Limits
from sortnet.judges.prices import Price
from sortnet.judges.program import Program

__all__ = ["Function", "LanguageModel", "Limits", "Price", "Program"]
