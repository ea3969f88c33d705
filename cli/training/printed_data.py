"""Print the data of a run, warnings about its columns, and the model that the run begins with."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cli.console import put, say
from cli.printing.results import Facts
from sortnet.config import Config
from sortnet.core import Queries
from sortnet.data.grades import features_near_grades, features_near_model
from sortnet.data.read import PARTS
from sortnet.messages import count, printable
from sortnet.tables.roles import column_of, feature_groups, listed_names
from store.report.models_of_run import from_which
from store.training.job import TrainingJob
from store.training.origin import Origin


def training_facts(train: Queries) -> dict[str, str]:
    """Tell the columns of each role in a table of training queries.

    Returns:
        {role: names of its columns}; empty for LETOR text and collections.
    """
    roles = train.roles
    if roles is None:
        return {}
    n_queries = "one query" if len(train) == 1 else f"{len(train):,} queries"
    query = f"{roles.group}, {n_queries}" if roles.group else "all rows are one"
    computed = [name for name in train.feature_names or () if name not in roles.features]
    facts = {"query": printable(query), "id": printable(roles.id or "row number")}
    if train.judge is None:  # a judge is asked in place of reading grades
        facts["grade"] = printable(_grades(train))
    facts |= feature_groups(roles, computed)
    if roles.ignored:
        facts["ignored"] = listed_names(roles.ignored)
    return facts


def _readable_names(train: Queries) -> tuple[str, ...]:
    """Name the features as people understand them: words by their column."""
    if train.describer is None:
        return train.feature_names or ()
    names: tuple[str, ...] = train.describer.readable_names()
    return names


def near_grade_lines(train: Queries) -> Iterator[str]:
    """Yield a warning about each column that orders the documents nearly as the grade does."""
    if train.roles is None:
        return
    readable = _readable_names(train)
    for feature, correlation in features_near_grades(train).items():
        column = printable(column_of(readable[feature], train.roles.features))
        yield (
            f"warning: {column} is nearly the grade (rank correlation {correlation:.3f}): "
            f"if it is made of the grade, leave it out with --ignore"
        )


def near_model_lines(
    train: Queries, vali: Queries, config: Config, quality: float
) -> Iterator[str]:
    """Yield a warning about each column that alone orders VALI nearly as well as the model does.

    Columns that `near_grade_lines` has named are left out.

    Args:
        train, vali: the training and the validation part.
        config: the settings, whose RankQuality is the measure.
        quality: the model's RankQuality on the validation part.
    """
    if train.roles is None or vali.judged is not None:
        return
    readable = _readable_names(train)
    near_grade = features_near_grades(train)
    near_model = features_near_model(vali, quality, config.quality_of)
    # Several levels of a column may be near; the column is named once.
    quality_of_column = {
        column_of(readable[feature], train.roles.features): alone
        for feature, alone in near_model.items()
        if feature not in near_grade
    }
    for column, alone in quality_of_column.items():
        yield (
            f"warning: {printable(column)} alone orders VALI nearly as well as the model "
            f"({config.rank_quality.name} {alone:.3f} of {quality:.3f}): if it is made of the "
            "grade, leave it out with --ignore"
        )


def _grades(train: Queries) -> str:
    """Describe the grades: the name of their column, and the bins or the range of the grades."""
    name = train.roles.grade
    edges = train.columns.edges
    if edges:
        below = ", ".join(f"{edge:.6g}" for edge in edges)
        return f"{name} in {len(edges) + 1} bins, divided at {below}"
    grades = np.unique(train.grades)
    return f"{name}, {count(len(grades), 'grade')} from {grades[0]} to {grades[-1]}"


def say_data(job: TrainingJob, *, err: bool) -> None:
    """Print how the data are divided, and the roles of columns; print warnings on stderr.

    Args:
        err: whether everything is printed on stderr, because stdout has JSON.
    """
    facts = training_facts(job.train)
    if job.is_divided:
        unit, plural = ("row", "rows") if "rows" in job.data["train"] else ("query", "queries")
        n_train, n_vali, n_test = (len(job.data[part][plural]) for part in PARTS)
        put(
            f"{job.test} is divided by {unit}, seed {job.config.seed}: {n_train:,} to train on, "
            f"{n_vali:,} to choose by, {n_test:,} to test with",
            err=err,
        )
    for line in Facts(facts).lines() if facts else ():
        put(line, err=err)
    if job.is_divided or facts:
        put(err=err)
    bins = job.train.columns.bins
    n_grades = len(job.train.columns.edges) + 1
    if bins not in (None, n_grades):
        say(
            f"note: --bins {bins} makes {count(n_grades, 'grade')}: the numbers of column "
            f"{printable(job.train.roles.grade)} repeat, and equal numbers have the same grade"
        )
    for line in near_grade_lines(job.train):
        say(line)
    if job.note is not None:
        say(f"note: {job.note}")


def say_origin(origin: Origin, vali: Queries, *, err: bool) -> None:
    """Print the model that the run begins with; warn if it was trained on validation queries.

    Args:
        origin: the model that the run begins with.
        vali: the validation queries of the run.
        err: whether the model is printed on stderr, because stdout has JSON.
    """
    put(f"from   {from_which(origin.facts)}: its comparator, scaling and features", err=err)
    train_facts = origin.model.info.get("data", {}).get("train", {})
    trained_qids = {*train_facts.get("queries", ())}
    n_shared = sum(qid in trained_qids for qid in vali.qids.tolist())
    if n_shared:
        seed = origin.model.config.seed
        say(
            f"{n_shared} of {len(vali)} validation queries have names that the model was "
            f"trained on: it may look better than it is; --seed {seed} divides as its run did"
        )
