"""A result has several faces: the command, the admin page and the report name the same figures."""

from __future__ import annotations

import random
import re

from cli_helpers import done
from collection_helpers import made_items

from cli.web.admin_state import PEOPLE_HEADS
from sortnet.preference import Judgement
from sortnet.preference.annotator_agreement import agreement, agreement_by_group
from sortnet.preference.judgement_table import Judgements
from store import open_store
from store.report.columns import TITLES


def test_the_titles_of_the_figures_are_the_same_everywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SORTNET_STORE", "s.db")
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


def test_agreement_by_group_is_that_of_the_judgements_of_each_group():
    drawn = random.Random(1)
    groups = [f"g{k % 4}" for k in range(16)]
    judgements = []
    for _ in range(200):
        left = drawn.randrange(12)  # the last four items have no judgement
        answer = drawn.choice(["left", "right", "tie"])
        pair = left, (left + 4) % 12
        judgements.append(Judgement.of(drawn.choice(["ana", "ben"]), pair, answer))
    by_group = agreement_by_group(Judgements.of(judgements), groups)
    assert dict(by_group) == {
        name: agreement([one for one in judgements if groups[one.left] == name])
        for name in set(groups)
    }
    alphas = [measured.krippendorff_alpha for _, measured in by_group]
    assert alphas == sorted(alphas, key=lambda alpha: (alpha is None, alpha))
