"""Basic types of the project, such as Queries and Pairs, and the protocols between its parts.

| file | noun |
|---|---|
| `queries` | `Queries`, the documents of many queries |
| `pairs` | `Pairs`, judged pairs of documents; a pair as one number |
| `compared_pairs` | `ComparedPairs`, from the sort to the store; `Sorting`, the result of a sort |
| `protocols` | `Comparator`, which decides the order of two documents in a sort |
| | `Judge`, which answers which of two documents is better |
| | `PairSink`, which keeps the pairs of TP and VP |
| `named_columns` | `NamedColumns`, the columns of a table that have a role |
| `shard` | `Group`, the processes that learn one model, and the values that they share |
| `memory` | free memory, checks that data fit into it, and arrays in files that are larger |
| `float32` | a check that float32 keeps the differences of features |
| `arrays` | short names of array types, for annotations; a refusal of masked values |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from sortnet.core.arrays import F32 as F32
from sortnet.core.arrays import F64 as F64
from sortnet.core.arrays import I32 as I32
from sortnet.core.arrays import I64 as I64
from sortnet.core.arrays import Array as Array
from sortnet.core.arrays import Bool as Bool
from sortnet.core.arrays import Ints as Ints
from sortnet.core.arrays import Str as Str
from sortnet.core.compared_pairs import ComparedPairs as ComparedPairs
from sortnet.core.compared_pairs import Sorting as Sorting
from sortnet.core.named_columns import NamedColumns as NamedColumns
from sortnet.core.pairs import Pairs as Pairs
from sortnet.core.protocols import NEVER_ADDED as NEVER_ADDED
from sortnet.core.protocols import NEVER_WRONG as NEVER_WRONG
from sortnet.core.protocols import SPLITS as SPLITS
from sortnet.core.protocols import Comparator as Comparator
from sortnet.core.protocols import Judge as Judge
from sortnet.core.protocols import Margin as Margin
from sortnet.core.protocols import PairSink as PairSink
from sortnet.core.protocols import Split as Split
from sortnet.core.queries import Queries as Queries
from sortnet.core.queries import grade_fault as grade_fault
from sortnet.core.queries import whole_grades as whole_grades

Progress: TypeAlias = Callable[[str], None]  # a function that is called with progress messages
