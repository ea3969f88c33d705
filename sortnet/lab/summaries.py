"""Tables of an experiment with means and standard errors, as frames and for LaTeX."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from sortnet.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

Spread: TypeAlias = Literal["error", "deviation"]
_DIGITS = 3  # digits after the decimal point
_ESCAPED = str.maketrans(
    {
        **{character: rf"\{character}" for character in "&%$#_{}"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
    }
)


def group_means(groups: Any, values: Sequence[str], *, spread: Spread = "error") -> pd.DataFrame:
    """Compute the mean and the spread of columns over the rows of each group.

    Args:
        groups: groups of a frame, as `DataFrame.groupby` returns them.
        values: names of the columns. Each gives a column of means with the same name, and a column
            of spreads called `<name>_<spread>`.
        spread: `deviation` for the standard deviation (with n - 1), `error` for the standard error
            of the mean, standard deviation / sqrt(n).

    Returns:
        A frame with a row for each group, in the order of the groups. Missing values do not count;
        the spread of a single value is NaN.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"ranker": list("aab"), "map": [0.25, 0.75, 0.5]})
    >>> group_means(frame.groupby("ranker"), ["map"]).values.tolist()
    [[0.5, 0.25], [0.5, nan]]
    """
    import pandas as pd

    columns = {}
    for name in values:
        columns[name] = groups[name].mean()
        spreads = groups[name].sem() if spread == "error" else groups[name].std()
        columns[f"{name}_{spread}"] = spreads
    return pd.DataFrame(columns)


def summary(
    figures: pd.DataFrame, measures: Sequence[str], spread: Spread = "error"
) -> pd.DataFrame:
    """Summarise the figures in a frame with a row for each ranker, sorted by the first measure.

    A part (a fold or a hold-out) has one value of a measure, the mean over its queries. Parts
    without a value do not count.

    Args:
        figures: a row for each query, part and ranker, with the columns `ranker`, `part`, `qid`
            and the measures.
        measures: names of the columns of measures.
        spread: the kind of spread over the parts, see `group_means`.

    Returns:
        Columns `ranker`; `parts`, the number of parts; `queries`, the number of rankings that were
        measured; for each measure the mean over the parts; and its spread over the parts as
        `<measure>_error` or `<measure>_deviation`, NaN if there is one part.

    Raises:
        DataError: if the figures lack a measure.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"ranker": list("aabb"), "part": list("1212"), "qid": list("xyxy"),
    ...                       "map": [0.25, 0.75, 0.5, 1.0]})
    >>> summary(frame, ["map"]).values.tolist()
    [['b', 2, 2, 0.75, 0.25], ['a', 2, 2, 0.5, 0.25]]
    """
    for name in measures:
        if name not in figures:
            raise DataError(f"the figures have no measure {name!r}")
    grouped = figures.groupby(["part", "ranker"], sort=False, observed=True)
    means_of_parts = grouped[list(measures)].mean().reset_index()
    by_ranker = means_of_parts.groupby("ranker", sort=False, observed=True)
    frame = by_ranker["part"].size().rename("parts").to_frame()
    frame["queries"] = figures.groupby("ranker", sort=False, observed=True).size()
    frame = frame.join(group_means(by_ranker, measures, spread=spread))
    in_order = frame.sort_values(list(measures[:1]), ascending=False, kind="stable")
    return in_order.reset_index()


def latex(summary: pd.DataFrame, *, caption: str = "") -> str:
    """Write a table of means and spreads for LaTeX (booktabs), with the best means in bold.

    Args:
        summary: a frame that `summary` returned.
        caption: caption of the table, such as the conventions of the measures, as plain text.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"ranker": ["rank_svm", "b"], "parts": 5, "queries": 9,
    ...                       "map": [0.6, 0.5], "map_error": [0.01, 0.02]})
    >>> print(latex(frame).splitlines()[4])
    rank\\_svm & \\textbf{0.600} $\\pm$ 0.010 \\\\
    """
    columns = {}
    for column in map(str, summary):
        measure, _, ending = column.rpartition("_")
        if ending in get_args(Spread):
            columns[escaped(measure)] = mean_texts(
                summary[measure], summary[column], best=r"\textbf{{{}}}", plus_minus=r" $\pm$ "
            )
    table = summary[["ranker"]].map(escaped).assign(**columns)
    text = table.to_latex(index=False, escape=False, column_format="l" + "r" * len(columns))
    if caption:
        top = [r"\begin{table}", r"\centering", rf"\caption{{{escaped(caption)}}}"]
        text = "\n".join([*top, text + r"\end{table}", ""])
    return str(text)


def escaped(text: str) -> str:
    r"""Escape the characters of plain text that have a meaning in LaTeX.

    >>> escaped("map_10 & 5 %")
    'map\\_10 \\& 5 \\%'
    """
    return text.translate(_ESCAPED)


def mean_texts(
    means: Iterable[float], spreads: Iterable[float], *, best: str = "{}", plus_minus: str = " ± "
) -> list[str]:
    """Write means with their spreads.

    A mean that is NaN is written as `--`. A spread that is NaN is left out.

    Args:
        means: the means.
        spreads: the spread of each mean, such as its standard error.
        best: pattern in which the highest means are written.
        plus_minus: text between a mean and its spread.

    >>> mean_texts([0.71239, 0.5], [0.01, np.nan], best="*{}"), mean_texts([3000.0], [20.0])
    (['*0.712 ± 0.010', '0.500'], ['3000 ± 20'])
    """
    rounded = np.round([*means], _DIGITS)
    highest = np.nanmax(rounded, initial=-np.inf)
    texts = []
    for mean, spread in zip(rounded, spreads, strict=True):
        digits = 0 if mean >= 1000 else _DIGITS
        text = "--" if np.isnan(mean) else f"{mean:.{digits}f}"
        if mean == highest:
            text = best.format(text)
        if not np.isnan(spread):
            text += f"{plus_minus}{spread:.{digits}f}"
        texts.append(text)
    return texts
