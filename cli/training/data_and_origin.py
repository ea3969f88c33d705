"""Print the data of a new run, and the model that the run begins with."""

from __future__ import annotations

from cli.console import put, say
from cli.printing.results import Facts
from cli.training.data_in_words import (
    division_line,
    fewer_bins_line,
    near_grade_lines,
    training_facts,
)
from sortnet.core import Queries
from store.report.origins import from_which
from store.training.job import TrainingJob
from store.training.origin import Origin


def say_data(job: TrainingJob, *, err: bool) -> None:
    """Print how the data are divided, and the roles of columns; print warnings on stderr.

    Args:
        err: whether everything is printed on stderr, because stdout has JSON.
    """
    facts = training_facts(job.train)
    if job.is_divided:
        put(division_line(str(job.test), job.data, job.config.seed), err=err)
    if facts:
        for line in Facts(facts).lines():
            put(line, err=err)
    if job.is_divided or facts:
        put(err=err)
    line_about_bins = fewer_bins_line(job.train)
    if line_about_bins is not None:
        say(line_about_bins)
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
