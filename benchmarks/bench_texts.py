"""Texts that people compared: what a saved model folder, or a session, predicts of other texts.

`ukpconvarg1`: a topic is left out; the others become a collection with the topics as groups, every
vote is imported with its rater, `sortnet train` learns from the votes, and `sortnet rank` orders
the topic that was left out. A strict pair is right if its more convincing argument is before the
other. Questions about pairs and about four are answered by the votes themselves, see
`simulate_votes`, and a fifth of the pairs of a topic is predicted. `humour`: the votes on two texts
of one half of the items are the judgements, and the other half, embedded by `--embed`, is ranked.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable
from contextlib import chdir
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from click.testing import CliRunner
from measuring import DATA, JOBS, Row, difference, row
from scipy.stats import spearmanr

from cli.inputs.votes import read_votes
from cli.main import main
from sortnet.items import describe, read_items
from sortnet.lab.recorded_votes import simulate_votes
from sortnet.rankers.load_ranker import load_ranker

ANSWERS = {"a1": "left", "a2": "right", "equal": "tie"}
N_ANSWERS = (25, 50, 100)
N_TOPICS = 32


def run(quick: bool) -> list[Row]:
    """The rows of the table; none without the data."""
    if not DATA.exists():
        return []
    return [*of_topics(quick), *of_votes(2 if quick else N_TOPICS), of_humour(quick)]


def of_topics(quick: bool) -> Iterable[Row]:
    """Share of the strict pairs of a topic that are right, and which kinds of rankers were kept."""
    folder = DATA / "ukpconvarg1"
    items, votes, strict = (
        pd.read_csv(folder / f"{name}.tsv", sep="\t", dtype=str, quoting=3)
        for name in ("items", "votes", "strict_pairs")
    )
    items["id"] = items["topic"] + " " + items["id"]  # an argument's id may be in two topics
    for frame in (votes, strict):
        frame["left"] = frame["topic"] + " " + frame["arg1"]
        frame["right"] = frame["topic"] + " " + frame["arg2"]
    votes["answer"] = votes["value"].map(ANSWERS)
    votes["annotator"] = votes["rater"]
    columns = ["left", "right", "answer", "annotator"]
    n_right = []
    n_pairs = []
    kinds = []
    for topic in sorted(set(items["topic"]))[:: 16 if quick else 1]:
        is_known = items["topic"] != topic
        pairs = strict[strict["topic"] == topic]
        place, kind = ranked(
            items[is_known], votes.loc[votes["topic"] != topic, columns], items[~is_known],
            ("--group", "topic"), ("--epochs", "5") if quick else (),
        )  # fmt: skip
        left_is_first = pairs["left"].map(place) < pairs["right"].map(place)
        left_is_better = pairs["label"] == "a1"
        n_right.append(int((left_is_first == left_is_better).sum()))
        n_pairs.append(len(pairs))
        kinds.append(kind)
    shares = np.array(n_right) / n_pairs
    yield row(
        "ukpconvarg1, a topic left out, by a saved model folder: strict pairs right",
        sum(n_right) / sum(n_pairs),
        bar="ours >= 0.80",
        note=f"{sum(n_pairs)} strict pairs of {len(kinds)} topics; worst {shares.min():.3f}, best "
        f"{shares.max():.3f}; posterior kept in {kinds.count('posterior')}",
    )


def ranked(
    known: pd.DataFrame, votes: pd.DataFrame, new: pd.DataFrame, how_items: tuple[str, ...],
    how_train: tuple[str, ...],
) -> tuple[pd.Series, str]:  # fmt: skip
    """The places of new texts by a folder that learned from votes on others, and its kind."""
    with TemporaryDirectory() as folder, chdir(folder):
        os.environ["SORTNET_STORE"] = "s.db"
        for name, frame in (("known", known), ("new", new), ("votes", votes)):
            frame.to_csv(f"{name}.csv", index=False)
        sortnet("items", "add", "texts", "known.csv", *how_items)
        sortnet("judgements", "import", "texts", "votes.csv")
        sortnet("train", "texts", "--out", "m", *how_train)
        ranking = pd.read_csv(io.StringIO(sortnet("rank", "m", "new.csv")), dtype={"docid": str})
        return ranking.set_index("docid")["rank"], str(load_ranker("m").config.kind)


def sortnet(*arguments: str) -> str:
    """What a command prints on stdout."""
    result = CliRunner().invoke(main, list(arguments), catch_exceptions=False)
    if result.exit_code:
        raise RuntimeError(f"sortnet {' '.join(arguments)}: {result.output}")
    return result.stdout


def of_votes(n_topics: int) -> Iterable[Row]:
    """Held-out pairs that are predicted by people's recorded votes, topic by topic.

    A four takes six recorded votes of several people for one answer; a pair takes one vote.
    """
    folder = DATA / "ukpconvarg1"
    items = read_items(str(folder / "items.tsv"), features=())
    votes, topic = read_votes(folder / "votes.tsv", items, "topic")
    features = describe(items).features.astype(np.float64)
    strategies = ["default", "sets-4"]
    results = simulate_votes(
        features, votes, strategies, N_ANSWERS, group=topic, seeds=n_topics, jobs=JOBS
    )
    for n_answers in N_ANSWERS:
        accuracy = results[results.questions == n_answers].set_index("strategy")["accuracy"]
        pairs, fours = (accuracy[strategy].to_numpy() for strategy in strategies)
        yield row(
            f"ukpconvarg1, recorded votes, {n_answers} answers: held-out pairs predicted, fours "
            "against pairs",
            fours.mean(),
            pairs.mean(),
            bar="ratio >= 1",
            note=f"{difference(fours, pairs, 3)} of {len(fours)} topics; a four is answered by a "
            "vote on each of its pairs",
        )


def of_humour(quick: bool) -> Row:
    """Spearman on the half of the texts that nobody compared."""
    items = pd.read_csv(DATA / "humour" / "items.tsv", sep="\t", dtype={"id": str})
    votes = pd.read_csv(DATA / "humour" / "pairs.csv", dtype=str)
    items = items[::10] if quick else items
    known = np.random.default_rng(0).permutation(len(items)) < len(items) // 2
    is_known = votes[["winner", "loser"]].isin(set(items["id"][known])).all(axis=1)
    place, kind = ranked(
        items.loc[known, ["id", "text"]],
        votes.loc[is_known, ["winner", "loser"]].assign(annotator="model"),
        items.loc[~known, ["id", "text"]],
        () if quick else ("--describe", "--embed"),
        ("--epochs", "3") if quick else (),
    )
    rest = items[~known]
    return row(
        "humour, half of the items never compared: Spearman, by a saved model folder",
        spearmanr(rest["bws_score"], -rest["id"].map(place)).statistic,
        bar="ours >= 0.50",
        note=f"{is_known.sum()} votes among {known.sum()} items, {(~known).sum()} ranked; kept: "
        f"{kind}; 0.56 is of GPPL, which has the votes on all",
    )
