"""Published figures of rankers on public data, each with its source and convention.

Only figures taken under one convention can be compared (`sortnet.lab.tool_conventions`), so
each names its own: none where the source does not say, or its programs do not do what it says (the
hold-outs of 2025 divide a query's documents, so training has seen every test query).

Columns of `published.csv`: data, a key of `DATA`; ranker, the name that the source gives it; kind,
the nearest of `sortnet.rankers.registry.KINDS`, or none; measure; value, the mean over the parts,
and error, its standard error, or none; protocol, what was trained on what; convention, a
key of `CONVENTIONS`, or none; source, paper and table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.resources import files
from pathlib import PurePath
from typing import TYPE_CHECKING

from sortnet.metrics import Metric, as_metrics

if TYPE_CHECKING:
    import pandas as pd

# Data, and what a folder's name has in it, in lower case. Subsets of MQ2008 have other rankings.
DATA: dict[str, str] = {
    "MQ2007": r"mq2007(?!.?(semi|list|agg))",
    "MQ2008": r"mq2008(?!.?(semi|list|agg))",
    "MSLR-WEB10K": r"(web|mslr).?10k",
    "MSLR-WEB30K": r"(web|mslr).?30k",
    "OHSUMED": r"ohsumed",
    "TD2003": r"td2003|2003_td",
    "TD2004": r"td2004|2004_td",
    "medoid": r"medoid$",
    "hypervolume": r"hypervolume$",
}


def published_for(
    folder: str | PurePath, measures: Metric | str | Iterable[Metric | str]
) -> pd.DataFrame:
    """Published figures on the data in a folder, recognised by its name or a parent's.

    Returns:
        A frame with the columns of `published.csv`, in the order of the measures; no rows where
        nothing is known.

    Raises:
        MetricError: on an unknown measure.

    >>> figures = published_for("data/mq2008", ["ndcg@10", "p@5"])
    >>> figures.loc[0, ["ranker", "measure", "convention"]].tolist(), float(figures.loc[0, "value"])
    (['RankNet*, DirectRanker', 'ndcg@10', 'binarised'], 0.72)
    """
    names = [metric.name for metric in as_metrics(measures)]
    figures = published()
    is_about_data = figures["data"] == data_of(folder)
    matching = figures[is_about_data & figures["measure"].isin(names)]
    order = matching["measure"].map(names.index).argsort(kind="stable")
    return matching.iloc[order].reset_index(drop=True)


def published() -> pd.DataFrame:
    """All of `published.csv`."""
    import pandas as pd

    with (files("sortnet.lab") / "published.csv").open(encoding="utf-8") as file:
        frame = pd.read_csv(file, dtype={"value": float, "error": float})
    return frame.fillna({"kind": "", "convention": ""})


def data_of(folder: str | PurePath) -> str | None:
    """The key of `DATA` that the path of a folder names; the last part that names one decides.

    >>> data_of("letor/MSLR-WEB10K/Fold2"), data_of("MQ2008-list"), data_of("mine")
    ('MSLR-WEB10K', None, None)
    """
    for part in reversed(PurePath(folder).parts):
        for name, pattern in DATA.items():
            if re.search(pattern, part.lower()):
                return name
    return None
