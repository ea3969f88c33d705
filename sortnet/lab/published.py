"""Published figures of rankers on public data, each with its source and convention.

Only figures under the same convention can be compared, see `sortnet.lab.tool_conventions`, so each
figure names its convention. The name is empty if the source does not tell the convention, or if
the programs of the source measure in another way: the hold-outs of Köppel et al. 2025 divide the
documents of a query, so that each test query also has documents in the training part.

Columns of `published.csv`:

- `data`: a key of `DATA`
- `ranker`: the name of the ranker in the source
- `kind`: the most similar kind of `sortnet.rankers.registry.KINDS`, or empty
- `measure`: the name of the measure
- `value`, `error`: the mean over the parts; its standard error, or empty
- `protocol`: which data the ranker was trained on
- `convention`: a key of `CONVENTIONS`, or empty
- `source`: paper and table
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

# {data: regular expression that is searched in the lower-case name of a folder}. The expressions of
# MQ2007 and MQ2008 exclude the semi-supervised and listwise versions, which have other rankings.
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
    """Look up the published figures for the data in a folder.

    Args:
        folder: path of the folder; its name tells which data it has, see `data_of`.
        measures: the measures whose figures are wanted.

    Returns:
        A frame with the columns of `published.csv`, with rows in the order of the measures. The
        frame is empty if there are no published figures.

    Raises:
        MetricError: if a measure is unknown.

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
    """Read all published figures from `published.csv`."""
    import pandas as pd

    with (files("sortnet.lab") / "published.csv").open(encoding="utf-8") as file:
        frame = pd.read_csv(file, dtype={"value": float, "error": float})
    return frame.fillna({"kind": "", "convention": ""})


def data_of(folder: str | PurePath) -> str | None:
    """Find the key in `DATA` for the path of a folder; None if no folder name matches.

    The last matching folder name of the path decides.

    >>> data_of("letor/MSLR-WEB10K/Fold2"), data_of("MQ2008-list"), data_of("mine")
    ('MSLR-WEB10K', None, None)
    """
    for part in reversed(PurePath(folder).parts):
        for name, pattern in DATA.items():
            if re.search(pattern, part.lower()):
                return name
    return None
