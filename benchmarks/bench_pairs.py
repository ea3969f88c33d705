"""Few answers: which pairs to ask about, by the quality that 2 % and 5 % of all pairs give.

`few answers`: the validation part has its grades, which cost no answers. `asked`: a judge who knows
the grades answers about both parts from one budget. Scaling and weight decay are fixed and every
pair weighs 1, so that nothing but the pairs differs. `pairs`: the shares with which the study
`pair-efficiency` of `sortnet experiment study` first reaches 99 % of the quality of all grades;
its cells are kept in build/studies.db.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from bench_studies import frame_of_points
from made_tables import table
from measuring import DATA, NDCG, Row, difference, mq2008, ndcg, row, smaller, spread, test_part

from sortnet.config import DEFAULTS, Config
from sortnet.core import F32, I32, I64, Queries
from sortnet.data import Fold
from sortnet.lab.splits import Split, folds_of
from sortnet.lab.studies import needed_shares
from sortnet.lab.study_points import cell_of, countable, pair_points
from sortnet.learning.judges import judge_by_grades
from sortnet.learning.pairs_to_ask import pairs_of_grades
from sortnet.rankers.sortnet import fit

SHARES = (0.02, 0.05)  # of all pairs
STRATEGIES = ("top", "uncertain", "compared", "random")
DEFAULT = str(DEFAULTS["few answers"]["pairs"])
STRATEGIES_ASKED = ("uncertain", "top", "random")  # the first is compared with each of the others
DRAWS, DRAWS_ASKED = 4, 3
TABLES = {
    "digits": "digits",
    "friedman1": "friedman1, 20 noise features",
    "products": "products and exclusive-or",
    "an absolute band": "an absolute band",
    "counts": "counts",
}
FOLDS = "MQ2008, folds 1 and 4"
BARS = {
    "digits": "ours >= 0.955, peer >= 0.963",
    "friedman1": "ours >= 0.962, peer >= 0.966",
    FOLDS: "ours >= 0.700, peer >= 0.706",
}
STEP = 4  # from one budget of the study to the next
STUDIED = {"digits": "digits", "friedman1": TABLES["friedman1"], "heavy tails": "heavy tails"}


def run(quick: bool) -> list[Row]:
    """The rows of the three ways to look at it."""
    draws = range(1 if quick else DRAWS)
    data = {name: [(table(made, draw), draw) for draw in draws] for name, made in TABLES.items()}
    data[FOLDS] = [(fold, draw) for fold in mq2008([1, 4]) for draw in draws]
    if quick:
        data = {name: [(smaller(fold), 0) for fold, _ in cases[:1]] for name, cases in data.items()}
    rows: list[Row] = []
    for name, cases in data.items():
        rows += of_few(name, cases, quick) if cases else []
    for name in [*TABLES][:4]:
        rows += of_asked(name, data[name], quick)
    return [*rows, *of_study(quick)]


def of_few(data: str, cases: list[tuple[Fold, int]], quick: bool) -> Iterator[Row]:
    """A row for each strategy: ours by 2 % of the answers, peer by 5 %; and how near the best."""
    scaling = "query+rank" if data == FOLDS else "normal"
    tests = []
    for strategy in STRATEGIES:
        settings = {"scaling": scaling, "weight_decay": DEFAULTS["trees"]["weight_decay"],
                    "pair_weight": "none", "pairs": strategy}  # fmt: skip
        figures = np.array(
            spread(by_few_answers, [(fold, draw, quick, settings) for fold, draw in cases])
        )  # (cases, shares, test and validation)
        test, vali = figures.mean(axis=0).T
        tests.append(test)
        yield row(
            f"few answers, {data}, {strategy}: test ndcg@10 by 2 % / 5 % of them",
            *test,
            bar=BARS.get(data, "") if strategy == DEFAULT else "",
            note=f"validation {vali[0]:.4f} / {vali[1]:.4f}, {len(cases)} runs",
        )
    if data in TABLES:
        behind = tests[STRATEGIES.index(DEFAULT)] - np.max(tests, axis=0)
        what = f"few answers, {data}: {DEFAULT} less the best strategy, 2 % / 5 %"
        yield row(what, *behind, bar="ours >= -0.005, peer >= -0.005")


def by_few_answers(
    fold: Fold, seed: int, quick: bool, settings: dict[str, Any]
) -> list[tuple[float, float]]:
    """Test and validation NDCG@10 by each share of the answers."""
    figures = []
    for share in SHARES:
        n_answers = max(1, round(share * countable(fold.train)[0]))
        config = Config(quality=NDCG, empty="skip", judgements=n_answers, seed=seed)
        config = config.changed(**settings, epochs=2 if quick else None)
        model = fit(fold.train, fold.vali, config)
        test = test_part(fold)
        figures.append((ndcg(test, model.order(test)), float(model.info["quality"])))
    return figures


def of_asked(data: str, cases: list[tuple[Fold, int]], quick: bool) -> Iterator[Row]:
    """A row for each strategy: ours by 2 % of the answers, peer by 5 %."""
    first: Any = None
    for strategy in STRATEGIES_ASKED:
        figures = np.array(
            spread(by_asking, [(*case, quick, strategy) for case in cases[:DRAWS_ASKED]])
        )  # (draws, shares, share right and NDCG@10)
        right, quality = figures.mean(axis=0).T
        note = f"ndcg@10 {quality[0]:.4f} / {quality[1]:.4f}, {len(figures)} seeds"
        if first is None:
            first = figures
        else:
            gains = [difference(figures[:, k, 0], first[:, k, 0]) for k in range(len(SHARES))]
            note = f"less {STRATEGIES_ASKED[0]} {' / '.join(gains)}; {note}"
        what = f"asked, {data}, {strategy}: validation pairs right by 2 % / 5 % of answers"
        yield row(what, *right, note=note)


def by_asking(fold: Fold, seed: int, quick: bool, strategy: str) -> list[tuple[float, float]]:
    """Share of validation pairs in the right order and NDCG@10, by each share of the answers."""
    figures = []
    for share in SHARES:
        n_answers = max(2, round(share * countable(fold.train)[0]))
        config = Config(pairs=strategy, judgements=n_answers, seed=seed)
        config = config.changed(epochs=2) if quick else config
        order = fit(asked(fold.train), asked(fold.vali), config).order(fold.vali)
        figures.append((share_right(fold.vali, order), ndcg(fold.vali, order)))
    return figures


def asked(part: Queries) -> Queries:
    """The part without grades, whose judge knows them."""
    return replace(part, grades=np.zeros_like(part.grades), judge=partial(answers, part))


def answers(graded: Queries, part: Queries, i: I64 | I32, j: I64 | I32) -> F32:
    return judge_by_grades(graded, i, j)


def share_right(part: Queries, order: I64) -> float:
    """The share of all pairs of different grades whose better document stands first."""
    place = np.empty(part.n_docs, np.int64)
    place[order] = np.arange(part.n_docs)
    pairs = pairs_of_grades(part)
    return float(np.mean(place[pairs.i] < place[pairs.j]))


@dataclass(frozen=True)
class Draw(Split):
    """A draw of a made table, as a cell takes its data."""

    table: str
    draw: int
    quick: bool

    @property
    def name(self) -> str:
        return f"{self.table}, draw {self.draw}"

    def load(self) -> Fold:
        fold = table(self.table, self.draw)
        return smaller(fold) if self.quick else fold


def of_study(quick: bool) -> Iterator[Row]:
    """A row for each data set and strategy: shares of pairs (ours) and of answers (peer)."""
    data: dict[str, list[Split]] = {
        name: [Draw(made, draw, quick) for draw in range(1 if quick else 5)]
        for name, made in STUDIED.items()
    }
    if (DATA / "mq2008").exists() and not quick:
        data["MQ2008"] = [*folds_of(str(DATA / "mq2008"))]
    for name, splits in data.items():
        make_cell = partial(
            cell_of,
            scaling="query+rank" if name == "MQ2008" else "quantile",
            empty="skip" if name == "MQ2008" else "zero",
            epochs=2 if quick else None,
        )
        points = pair_points(splits, make_cell, 1000 if quick else STEP)
        frame = frame_of_points("pair-efficiency", points, quick=quick)
        for strategy, needed in needed_shares(frame).items():
            yield row(
                f"pairs, {name}, {strategy}: share of pairs / of answers for 99%",
                *(None if np.isnan(share) else share for share in needed),
                note=f"{len(splits)} draws",
            )
