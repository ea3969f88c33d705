"""Published figures: each has a source, a convention that we have, and a ranker of ours if any."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from sortnet.lab.tool_conventions import CONVENTIONS, DATA, data_of, published
from sortnet.metrics import parse_metric
from sortnet.rankers.registry import KINDS, VARIANTS

PUBLISHED = list(published().itertuples(index=False))
JOURNAL_TEXT = Path(__file__).parents[2] / "shared/papers/001_cfce2a31f4c2c7ec.txt"


def test_every_figure_is_whole():
    for row in PUBLISHED:
        assert row.data in DATA
        assert parse_metric(row.measure).name == row.measure
        assert row.kind in {*KINDS, *VARIANTS, ""}
        assert row.convention in {*CONVENTIONS, ""}
        assert 0 < row.value < 1 or (row.measure == "spearman" and row.value == 0)
        assert math.isnan(row.error) or 0 < row.error < row.value
        assert row.ranker and row.source and row.protocol
    keys = [(row.data, row.ranker, row.measure, row.protocol, row.source) for row in PUBLISHED]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(
    ("folder", "data"),
    [
        ("MQ2008", "MQ2008"),
        ("data/mq2008/", "MQ2008"),
        ("/x/MQ2007/Fold1", "MQ2007"),
        ("MQ2008-agg", None),
        ("mq2007_semi", None),
        ("MSLR-WEB10K", "MSLR-WEB10K"),
        ("mslr30k", "MSLR-WEB30K"),
        ("OHSUMED/QueryLevelNorm", "OHSUMED"),
        ("Gov/2003_td_dataset", "TD2003"),
        ("mq2008/copies/TD2004", "TD2004"),
        ("medoid", "medoid"),
        ("digits", None),
        (".", None),
    ],
)
def test_a_folder_is_recognised_by_its_name(folder, data):
    assert data_of(folder) == data
    assert data_of(Path(folder)) == data


@pytest.mark.skipif(not JOURNAL_TEXT.exists(), reason="needs the paper's text")
def test_the_journals_table_is_that_of_its_text():
    text = JOURNAL_TEXT.read_text()
    table = text[text.index("Table 1 ") : text.index("We performed three tests")]
    # its brackets are lost here and there: 0.1922) is 0.192(2)
    theirs = re.findall(r"0\s?\.?(\d{3})\(?(\d*)\)?", table.replace("0.1922)", "0.192(2)"))
    ours = [row for row in PUBLISHED if "table 1" in row.source and "et al. 2025" in row.source]
    found = sorted((f"{row.value:.3f}"[2:], _last_digits(row.error)) for row in ours)
    assert found == sorted(theirs)


def _last_digits(error: float) -> str:
    return "" if math.isnan(error) else str(round(error * 1000))
