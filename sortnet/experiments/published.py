"""Published figures of rankers on public data, each with its source and convention.

Only figures taken under one convention can be compared (`sortnet.experiments.tool_conventions`), so
each names its own: "" where the source does not say, or its programs do not do what it says (the
hold-outs of 2025 divide a query's documents, so training has seen every test query). A trailing
(12) is the standard error in the last digits, as the papers write it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple

from sortnet.metrics import Metric, as_metrics

if TYPE_CHECKING:
    import pandas as pd


class Published(NamedTuple):
    """A published figure.

    Attributes:
        data: a key of `DATA`.
        ranker: the name that the source gives it.
        kind: ours that is the nearest, a key of `sortnet.rankers.base.KINDS`; "" if there is none.
        measure: such as `ndcg@10`.
        value: the mean over the parts.
        error: its standard error, NaN if the source has none.
        protocol: what was trained on what.
        convention: a key of `CONVENTIONS`, or "", see the module.
        source: paper and table.
    """

    data: str
    ranker: str
    kind: str
    measure: str
    value: float
    error: float
    protocol: str
    convention: str
    source: str


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
FOLDS = "five folds"
JOURNAL = "Köppel et al. 2025, Machine Learning 114, table 1"
_LIBRARY = (JOURNAL, f"{FOLDS}, RankLib", "binarised")
_BINARY = (JOURNAL, "15 hold-outs, binary training grades", "")
_GRADED = (JOURNAL, "15 hold-outs, all training grades", "")
_SIX = (
    "MSLR-WEB10K ndcg@10, MSLR-WEB10K map, MQ2008 ndcg@10, MQ2008 map, MQ2007 ndcg@10, MQ2007 map"
)
_EVOLUTION = ("Ibrahim and Landa-Silva 2018, Soft Computing 22, in " + JOURNAL, FOLDS, "")
_TD = ("Rigutini et al., SortNet, table 2", f"{FOLDS} of LETOR 2.0", "")
_LETOR3 = ("LETOR 3.0, official baselines", FOLDS, "letor3")
_LETOR4 = ("Liu 2011, Learning to Rank for Information Retrieval, table 11.9", FOLDS, "letor4")
_CONTEXT = "Pfannschmidt, Gupta and Hüllermeier 2018, by the authors' repository"
_SETS = "10 splits, 10,000 sets to train, 100,000 to test, n = 5, d = 2"
_TREES = ("github.com/lgrz/ltr-baseline, by gdeval", FOLDS, "skip")

# (source, protocol, convention), columns, and rows of ranker | kind | figures.
_TABLES: list[tuple[tuple[str, str, str], str, str]] = [
    (
        (JOURNAL, FOLDS, "binarised"),
        _SIX,
        """
        RankNet*, DirectRanker | directranker | .440(4) .365(3) .720(12) .636(11) .540(10) .534(9)
        """,
    ),
    (
        _LIBRARY,
        _SIX,
        """
        ListNet | listnet | .157(3) .192(2) .719(10) .647(6) .526(10) .525(9)
        RankNet | ranknet | .157(3) .195(2) .716(11) .642(10) .525(11) .525(7)
        LambdaMART | lambdamart | .476(3) .366(3) .723(7) .624(6) .531(12) .510(11)
        AdaRank | adarank-ndcg | .400(16) .322(10) .722(10) .653(9) .526(10) .527(10)
        """,
    ),
    (
        _EVOLUTION,
        _SIX,
        """
        ES-Rank | es-rank | .382 .570 .507 .483 .451 .470
        IESR-Rank | iesr-rank | .415 .603 .517 .494 .455 .473
        IESVM-Rank | iesvm-rank | .224 .457 .498 .473 .436 .456
        """,
    ),
    (
        _BINARY,
        _SIX,
        """
        RankNet* | directranker | .422(8) .380(6) .448(25) .390(26) .526(6) .457(6)
        RankNet | ranknet | .362(15) .332(11) .384(50) .321(51) .476(38) .406(35)
        ListNet* | listnet-star | .423(4) .381(4) .449(12) .391(14) .525(6) .456(5)
        ListNet | listnet | .363(23) .333(17) .381(44) .318(46) .449(40) .382(39)
        LambdaMART | lambdamart | .212(9) .154(8) .342(29) .229(23) .403(15) .281(16)
        AdaRank | adarank-ndcg | .351(4) .320(7) .440(57) .356(104) .515(29) .443(51)
        """,
    ),
    (
        _GRADED,
        _SIX,
        """
        RankNet* | directranker | .349(10) .324(8) .469(14) .409(16) .508(7) .436(7)
        RankNet | ranknet | .327(7) .305(5) .358(42) .294(44) .438(38) .372(35)
        ListNet* | listnet-star | .390(9) .354(7) .449(15) .390(18) .512(22) .442(24)
        ListNet | listnet | .377(10) .344(9) .412(34) .347(35) .461(40) .394(39)
        LambdaMART | lambdamart | .209(4) .153(8) .359(31) .244(26) .409(22) .283(22)
        AdaRank | adarank-ndcg | .351(4) .315(7) .447(45) .376(80) .520(5) .454(5)
        """,
    ),
    (
        _TD,
        "TD2003 ndcg@1, TD2003 ndcg@3, TD2003 ndcg@5, TD2003 ndcg@10,"
        "TD2003 p@1, TD2003 p@3, TD2003 p@5, TD2003 p@10",
        """
        RankBoost | rankboost | .26 .27 .28 .29 .26 .24 .22 .18
        RankSVM | ranksvm | .42 .38 .35 .34 .42 .34 .26 .21
        FRank | frank | .44 .37 .33 .34 .44 .32 .23 .19
        ListNet | listnet | .46 .41 .38 .37 .46 .36 .29 .22
        AdaRank-MAP | adarank-map | .42 .29 .24 .19 .42 .27 .19 .10
        AdaRank-NDCG | adarank-ndcg | .52 .37 .33 .27 .52 .35 .27 .16
        SortNet, 10 hidden, by MAP | sortnet | .38 .28 .29 .28 .38 .25 .24 .17
        SortNet, 10 hidden, by P@10 | sortnet | .32 .31 .30 .31 .32 .29 .25 .20
        """,
    ),
    (
        _TD,
        "TD2004 ndcg@1, TD2004 ndcg@3, TD2004 ndcg@5, TD2004 ndcg@10,"
        "TD2004 p@1, TD2004 p@3, TD2004 p@5, TD2004 p@10",
        """
        RankBoost | rankboost | .48 .46 .44 .47 .48 .40 .32 .25
        RankSVM | ranksvm | .44 .41 .39 .42 .44 .35 .29 .23
        FRank | frank | .44 .45 .44 .47 .44 .39 .32 .26
        ListNet | listnet | .44 .44 .42 .46 .44 .40 .33 .26
        AdaRank-MAP | adarank-map | .41 .40 .39 .41 .41 .34 .29 .22
        AdaRank-NDCG | adarank-ndcg | .36 .38 .38 .39 .36 .33 .28 .21
        SortNet, 20 hidden, by MAP | sortnet | .48 .53 .50 .51 .48 .46 .36 .27
        SortNet, 20 hidden, by P@10 | sortnet | .43 .47 .46 .49 .43 .39 .34 .27
        """,
    ),
    (
        ("Rigutini et al., SortNet, table 1", f"{FOLDS} of LETOR 2.0", ""),
        "TD2003 map, TD2004 map",
        """
        SortNet, 10 hidden, by MAP | sortnet | .23 .41
        SortNet, 20 hidden, by MAP | sortnet | .20 .45
        SortNet, 30 hidden, by MAP | sortnet | .21 .41
        """,
    ),
    (
        _LETOR3,
        "OHSUMED map, OHSUMED ndcg@1, OHSUMED ndcg@3, OHSUMED ndcg@5, OHSUMED ndcg@10,"
        "OHSUMED p@1, OHSUMED p@3, OHSUMED p@5, OHSUMED p@10",
        """
        RankSVM | ranksvm | .4334 .4958 .4207 .4164 .4140 .5974 .5427 .5319 .4864
        RankBoost | rankboost | .4411 .4632 .4555 .4494 .4302 .5576 .5609 .5447 .4966
        ListNet | listnet | .4457 .5326 .4732 .4432 .4410 .6524 .6016 .5502 .4975
        AdaRank-MAP | adarank-map | .4487 .5388 .4682 .4613 .4429 .6338 .5895 .5674 .4976
        """,
    ),
    (
        _LETOR4,
        "MQ2007 ndcg@1, MQ2007 ndcg@3, MQ2007 ndcg@10,"
        "MQ2007 p@1, MQ2007 p@3, MQ2007 p@10, MQ2007 map",
        """
        RankSVM | ranksvm | .410 .406 .444 .475 .432 .383 .464
        RankBoost | rankboost | .413 .407 .446 .482 .435 .386 .466
        ListNet | listnet | .400 .409 .444 .464 .433 .380 .465
        AdaRank | adarank-map | .382 .398 .434 .439 .423 .374 .458
        """,
    ),
    (
        _TREES,
        "MSLR-WEB10K ndcg@5, MSLR-WEB10K ndcg@10, MSLR-WEB30K ndcg@5, MSLR-WEB30K ndcg@10",
        """
        LambdaRank of LightGBM | lambdamart | .4724 .4913 .4865 .5046
        GBDT of XGBoost | xgboost | .4694 .4893 .4847 .5034
        """,
    ),
    (
        ("Qin et al. 2021, ICLR", "Fold1", ""),
        "MSLR-WEB30K ndcg@5",
        """
        LambdaMART of LightGBM | lambdamart | .4966
        DASALC | | .5092
        DASALC, an ensemble | | .5172
        """,
    ),
    (
        (_CONTEXT, _SETS, "skip"),
        "medoid spearman, medoid concordance, medoid exact",
        """
        FATE-Net | fate | .867 .906 .466
        FETA-Net | feta | .599 .765 .158
        RankNet | ranknet | .417 .683 .089
        RankSVM | ranksvm | 0 .500 .008
        ERR | err | 0 .500 .008
        """,
    ),
    (  # docs/how-to/context.md says why they may be of other data
        (_CONTEXT, f"{_SETS}; maybe of medoid sets", "skip"),
        "hypervolume spearman, hypervolume concordance, hypervolume exact",
        """
        FATE-Net | fate | .879 .912 .486
        FETA-Net | feta | .601 .766 .159
        RankNet | ranknet | .413 .681 .088
        RankSVM | ranksvm | 0 .500 .008
        ERR | err | 0 .500 .008
        """,
    ),
    (
        ("Pobrotyn et al., allRank", FOLDS, "one"),
        "MSLR-WEB30K ndcg@5, MSLR-WEB30K ndcg@10",
        "self-attention, LambdaRank loss | | .5155 .5347",
    ),
]


def published_for(
    folder: str | PurePath, measures: Metric | str | Iterable[Metric | str]
) -> pd.DataFrame:
    """What has been published of the data in a folder, which its name or a parent's tells.

    Args:
        folder: such as `MQ2008` or `letor/mq2008/Fold1`; the case does not matter.
        measures: by name.

    Returns:
        A frame with the attributes of `Published`, in the order of the measures; no rows where
        nothing is known.

    Raises:
        MetricError: on an unknown measure.

    >>> found = published_for("data/mq2008", ["ndcg@10", "p@5"])
    >>> found.loc[0, ["ranker", "measure", "convention"]].tolist(), float(found.loc[0, "value"])
    (['RankNet*, DirectRanker', 'ndcg@10', 'binarised'], 0.72)
    """
    import pandas as pd

    data = data_of(folder)
    names = [metric.name for metric in as_metrics(measures)]
    rows = [row for row in PUBLISHED if row.data == data and row.measure in names]
    rows.sort(key=lambda row: names.index(row.measure))
    return pd.DataFrame(rows, columns=list(Published._fields))


def data_of(folder: str | PurePath) -> str | None:
    """The key of `DATA` that a folder's name has in it, the last part that has one first.

    >>> data_of("letor/MSLR-WEB10K/Fold2"), data_of("MQ2008-list"), data_of("mine")
    ('MSLR-WEB10K', None, None)
    """
    for part in reversed(PurePath(folder).parts):
        for name, pattern in DATA.items():
            if re.search(pattern, part.lower()):
                return name
    return None


def parse_figure(text: str) -> tuple[float, float]:
    """A figure and its standard error, NaN if it has none.

    >>> parse_figure(".720(12)"), parse_figure(".44")
    ((0.72, 0.012), (0.44, nan))
    """
    figure, _, error = text.rstrip(")").partition("(")
    digits = len(figure.partition(".")[2])
    return float(figure), float(error) / 10**digits if error else float("nan")


def _rows() -> Iterable[Published]:
    for (source, protocol, convention), columns, lines in _TABLES:
        places = [column.split() for column in columns.split(",")]
        for line in lines.strip().splitlines():
            ranker, kind, figures = map(str.strip, line.split("|"))
            for (data, measure), figure in zip(places, figures.split(), strict=True):
                value, error = parse_figure(figure)
                yield Published(
                    data, ranker, kind, measure, value, error, protocol, convention, source
                )


PUBLISHED: tuple[Published, ...] = tuple(_rows())
