"""A result has several faces: the command, the admin page and the report name the same figures."""

from __future__ import annotations

import re

from cli_helpers import done
from collection_helpers import made_items

from cli.web.admin_state import PEOPLE_HEADS
from sortnet.preference import Judgement
from store import open_store
from store.report.columns import TITLES


def test_the_titles_of_the_figures_are_the_same_everywhere(here):
    with open_store("s.db") as store:
        collection = store.add_items("essays", made_items(10))
        pairs = [(k, k + 1) for k in range(9)] * 2
        answers = [Judgement.of(who, pair, "left") for who in ("ana", "ben") for pair in pairs]
        collection.append(answers)
    header = " ".join(done("annotators", "essays").splitlines()[0].split())
    assert " ".join(TITLES) in header
    titles = [title.lower() for title, _ in PEOPLE_HEADS]
    assert all(any(title in head for head in titles) for title in TITLES)
    heads = re.findall(r"<th[^>]*>([^<]*)</th>", done("report", "essays", "--output", "-"))
    shown = [head for head in heads if head in TITLES]
    assert shown == [title for title in TITLES if title != "gold"]  # there are no gold pairs
