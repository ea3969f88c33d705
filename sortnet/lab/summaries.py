"""Tables of an experiment: the mean and standard error of each ranker, for print and for LaTeX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from sortnet.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

Spread: TypeAlias = Literal["error", "deviation"]
_DIGITS = 3  # after the point, of LaTeX
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


def group_means(
    groups: Any, values: Sequence[str], *, spread: Spread = "error", ending: str | None = None
) -> pd.DataFrame:
    """The mean of columns over the rows of each group, and how they spread.

    Args:
        groups: groups of a frame, as its `groupby` returns them.
        values: the columns; each gives a column of its name, and one with an ending.
        spread: the standard error of the mean, sd / sqrt(n), or sd, both with n - 1.
        ending: ending of the names of the spread's columns; None: the value of `spread`.

    Returns:
        A row for each group, in their order; rows without a value do not count, and the spread of
        one row is NaN.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"ranker": list("aab"), "map": [0.25, 0.75, 0.5]})
    >>> group_means(frame.groupby("ranker"), ["map"]).values.tolist()
    [[0.5, 0.25], [0.5, nan]]
    """
    import pandas as pd

    columns = {}
    for name in values:
        of_group = groups[name]
        columns[name] = of_group.mean()
        columns[f"{name}_{ending or spread}"] = (
            of_group.sem() if spread == "error" else of_group.std()
        )
    return pd.DataFrame(columns)


def summary(
    figures: pd.DataFrame, measures: Sequence[str], spread: Spread = "error"
) -> pd.DataFrame:
    """A row for each ranker, the best by the first measure first.

    Args:
        figures: a row for each query, part and ranker: `ranker`, `part`, `qid`, and measures.
        measures: columns of `figures`.

    Returns:
        `ranker`, `parts` (their number), `queries` (rankings measured) and, for each measure, the
        mean over the parts and in `<measure>_error` its standard error, sd / sqrt(parts) with
        n - 1, or in `<measure>_deviation` sd: NaN of one part. Parts without a value do not count.

    Raises:
        DataError: of a measure that the figures do not have.

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
    means = grouped[list(measures)].mean().reset_index()
    by_ranker = means.groupby("ranker", sort=False, observed=True)
    frame = by_ranker["part"].size().rename("parts").to_frame()
    frame["queries"] = figures.groupby("ranker", sort=False, observed=True).size()
    frame = frame.join(group_means(by_ranker, measures, spread=spread))
    in_order = frame.sort_values(list(measures[:1]), ascending=False, kind="stable")
    return in_order.reset_index()


def latex(summary: pd.DataFrame, *, caption: str = "") -> str:
    """A table for LaTeX with booktabs: mean and spread, the best of a measure as printed in bold.

    Args:
        summary: frame of `summary`.
        caption: such as the conventions of the measures; plain text, it is escaped.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"ranker": ["rank_svm", "b"], "parts": 5, "queries": 9,
    ...                       "map": [0.6, 0.5], "map_error": [0.01, 0.02]})
    >>> print(latex(frame).splitlines()[4])
    rank\\_svm & \\textbf{0.600} $\\pm$ 0.010 \\\\
    """
    spreads = {
        name.removesuffix(f"_{spread}"): name
        for name in map(str, summary)
        for spread in get_args(Spread)
        if name.endswith(f"_{spread}")
    }
    columns = {escaped(name): _cells(summary, name, spreads[name]) for name in spreads}
    table = summary[["ranker"]].map(escaped).assign(**columns)
    text = table.to_latex(index=False, escape=False, column_format="l" + "r" * len(columns))
    if caption:
        top = [r"\begin{table}", r"\centering", rf"\caption{{{escaped(caption)}}}"]
        text = "\n".join([*top, text + r"\end{table}", ""])
    return str(text)


def escaped(text: str) -> str:
    r"""Plain text as LaTeX prints it.

    >>> escaped("map_10 & 5 %")
    'map\\_10 \\& 5 \\%'
    """
    return text.translate(_ESCAPED)


def _cells(summary: pd.DataFrame, name: str, spread: str) -> list[str]:
    means = summary[name].to_numpy(np.float64).round(_DIGITS)
    best = np.nanmax(means, initial=-np.inf)
    errors = summary[spread].to_numpy(np.float64)
    cells = []
    for mean, error in zip(means, errors, strict=True):
        text = "--" if np.isnan(mean) else f"{mean:.{_DIGITS}f}"
        text = rf"\textbf{{{text}}}" if mean == best else text
        cells.append(text if np.isnan(error) else rf"{text} $\pm$ {error:.{_DIGITS}f}")
    return cells
