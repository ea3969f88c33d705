"""Texts that people compared: what questions about pairs and about four predict.

`humour`: answers about half of the texts, by the scores of a best-worst scaling with the noise of
the recorded votes, order the other half. `ukpconvarg1`: questions are answered by the recorded
votes themselves, see `simulate_votes`, and a fifth of the pairs of a topic is predicted.
"""

from __future__ import annotations

import csv
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from bench_llm_top import DATA
from scipy.stats import spearmanr
from utility_judges import F64, answering, noise_of_gaps

from cli.inputs.votes import read_votes
from sortnet.items import describe, read_items
from sortnet.lab.executor import in_parallel
from sortnet.lab.recorded_votes import simulate_votes
from sortnet.preference.base import Question
from sortnet.preference.design import design
from sortnet.preference.session import Session

QUESTIONS = 2_000
ANSWERS = (25, 50, 100)
N_TOPICS = 32
Row = dict[str, Any]


def run(quick: bool, jobs: int = 1) -> list[Row]:
    """The rows of the table; none without the data."""
    if not DATA.exists():
        return []
    return [*votes_rows(quick, jobs), *humour_rows(quick, jobs)]


def votes_rows(quick: bool, jobs: int) -> list[Row]:
    """Held-out pairs that are predicted by people's recorded votes, topic by topic.

    A four takes six recorded votes of several people for one answer; a pair takes one vote.
    """
    folder = DATA / "ukpconvarg1"
    items = read_items(str(folder / "items.tsv"), features=())
    votes, topic = read_votes(folder / "votes.tsv", items, "topic")
    features = describe(items).features.astype(np.float64)
    n_topics = 2 if quick else N_TOPICS
    results = simulate_votes(
        features, votes, ["default", "sets-4"], ANSWERS, group=topic, seeds=n_topics, jobs=jobs
    )
    rows = []
    for n_answers in ANSWERS:
        accuracy = results[results.questions == n_answers].set_index("strategy")["accuracy"]
        pairs, fours = accuracy["default"].to_numpy(), accuracy["sets-4"].to_numpy()
        gain = fours - pairs
        error = gain.std(ddof=1) / np.sqrt(len(gain))
        rows.append(
            {
                "what": f"ukpconvarg1, recorded votes, {n_answers} answers: held-out pairs "
                "predicted, fours against pairs",
                "ours": float(fours.mean()), "peer": float(pairs.mean()), "bar": "not below",
                "ok": None if quick else bool(gain.mean() >= 0),
                "note": f"{gain.mean():+.3f} ± {error:.3f} of {len(gain)} topics; "
                "a four is answered by a vote on each of its pairs",
            }
        )  # fmt: skip
    return rows


def humour_rows(quick: bool, jobs: int) -> list[Row]:
    """Spearman of texts that nobody compared after equal numbers of questions about the others.

    Answers are drawn by the best-worst-scaling scores with the noise with which the recorded votes
    agree with them so often; the questions are random.
    """
    folder = DATA / "humour"
    with (folder / "items.tsv").open(encoding="utf-8") as file:
        items = [*csv.DictReader(file, delimiter="\t")]
    number = {item["id"]: k for k, item in enumerate(items)}
    with (folder / "pairs.csv").open(encoding="utf-8") as file:
        votes = [(number[vote["winner"]], number[vote["loser"]]) for vote in csv.DictReader(file)]
    score = np.array([float(item["bws_score"]) for item in items])
    winners, losers = np.array(votes).T
    gaps = score[winners] - score[losers]
    gaps = gaps[gaps != 0]
    sd = noise_of_gaps(np.abs(gaps), float(np.mean(gaps > 0)))
    X = _features(items)
    seeds = range(1 if quick else 4)
    tasks = [partial(of_texts, X, score, sd, size, seed) for size in (2, 4) for seed in seeds]
    pairs, fours = np.reshape(in_parallel(tasks, jobs, lambda text: None), (2, -1))
    gain = fours - pairs
    return [
        {
            "what": f"humour, {QUESTIONS:,} random questions about half of the texts: Spearman of "
            "the other half, fours against pairs",
            "ours": float(fours.mean()), "peer": float(pairs.mean()), "bar": ">= pairs + .05",
            "ok": None if quick else bool(gain.mean() >= 0.05),
            "note": f"{gain.mean():+.3f}, from {gain.min():+.3f} to {gain.max():+.3f} of "
            f"{len(gain)} draws; noise {sd:.2f}",
        }
    ]  # fmt: skip


def _features(items: Sequence[dict[str, str]]) -> F64:
    """Features of the texts, as `sortnet items add` makes them, as a session sees them."""
    with tempfile.TemporaryDirectory() as folder:
        texts = Path(folder) / "texts.csv"
        with texts.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, ["id", "text"], extrasaction="ignore")
            writer.writeheader()
            writer.writerows(items)
        return design(describe(read_items(str(texts), features=())).features)


def of_texts(X: F64, score: F64, sd: float, size: int, seed: int) -> float:
    """Spearman of the texts of one half by answers about the other half."""
    rng = np.random.default_rng([4, seed])
    order = rng.permutation(len(score))
    compared, unseen = np.array_split(order, 2)
    answer = answering(score, lambda n_places: sd * rng.standard_normal(n_places))
    session = Session(X, seed=seed)
    sets = [rng.choice(compared, size, replace=False).tolist() for _ in range(QUESTIONS)]
    questions = [Question((a, b, *further), "given", 1.0, 0) for a, b, *further in sets]
    session.replay(answer(question) for question in questions)
    session.refit()
    posterior = session.posterior
    return float(spearmanr(posterior.scores[unseen], score[unseen]).statistic)


if __name__ == "__main__":
    for row in run("--quick" in sys.argv):
        print(row)
