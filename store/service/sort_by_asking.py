"""Sort items by asking a judge: a language model, a program, a function, or several of these.

    items -> a collection in the store -> questions that a session chooses -> the judge's answers
          -> the ranking, with intervals -> a ranker for further items

`sort` is `sortnet items add`, `sortnet ask`, `sortnet label` and `sortnet ranking` in one call. Its
collection can be opened by these commands, by the pages of `sortnet serve` and by `sort` in turn.
"""

from __future__ import annotations

import atexit
import hashlib
import math
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy import URL

from sortnet.errors import DataError, SortNetError
from sortnet.files import shown
from sortnet.items.given_items import GivenItems, items_from
from sortnet.judges import LanguageModel
from sortnet.judges.any_judge import MachineJudge, OneJudge, described
from sortnet.judges.estimate import CallEstimate, estimate_calls
from sortnet.judges.limits import check_whole_number
from sortnet.judges.prompts import Prompt
from sortnet.messages import count
from sortnet.preference.base import MOST_ITEMS
from sortnet.preference.goal import WRONG, Goal
from sortnet.preference.study import Decision
from store.collections.collection import Collection
from store.progress import ProgressOption, shown_progress
from store.service.judge_as_annotator import EndReason, check_takes_sets, example_pairs
from store.service.judges_in_turn import ask_in_turn
from store.service.labelling import LabellingService
from store.service.questions import check_set_size, largest_group
from store.service.sort_collection import collection_to_sort
from store.service.sorted_items import SortedItems, ranking_frame
from store.store import open_store

_LONGEST_NAME = 60  # characters of a command that is an annotator's name
_EXAMPLES = 50  # prompts of which an estimate takes the mean length


def sort(
    items: Any,
    *,
    judge: OneJudge | Mapping[str, OneJudge],
    question: str | None = None,
    instructions: str | None = None,
    top: int | None = None,
    wrong: float = WRONG,
    set_size: int | None = None,
    max_calls: int | None = None,
    store: str | Path | URL | None = None,
    name: str | None = None,
    text: str | None = None,
    id: str | None = None,
    group: str | None = None,
    ignore: Sequence[str] = (),
    seed: int = 0,
    progress: ProgressOption = None,
) -> SortedItems:
    """Sort items by asking a judge which of two is better, or which of some is best and worst.

    Each answer is stored before the next question is chosen. After an interrupt or an error the
    same call goes on where it ended, and asks nothing twice. Called again after the end it asks
    nothing.

    Args:
        items: texts, paths, rows of numbers or dicts in a list; a data frame; a file or folder.
        judge: a `LanguageModel`, a `Program`, or a function of two items as they were passed,
            which returns `left`, `right`, `tie`, `skip`, or the probability that the left one is
            better, see `Function` about more than two; or several judges by name, which answer in
            turn.

        The questions:

        question: what is asked; None: `Which is better?`.
        instructions: how to judge, in Markdown.
