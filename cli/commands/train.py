"""`sortnet train`: train a model on labelled queries; store the run and its pairs."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from cli.inputs.column_options import OPTIONS as NAMES
from cli.inputs.column_options import training_name_options
from cli.judges.judge_options import NAMES as JUDGE
from cli.judges.judge_options import judge_options
from cli.options import (
    SETTINGS,
    command_line,
    data_option,
    files,
    folders,
    json_option,
    settings_options,
    store_option,
    threads_option,
    typed_settings,
)
from cli.output import print_json, progress, put, say, silent
from cli.printing import iterations
from cli.printing.conventions import interval, measures
from cli.terminal.signals import raise_if_signalled, signals_as_ctrl_c
from sortnet.config import PRESETS, Config
from sortnet.core import SPLITS, NamedColumns, Progress
from sortnet.core.named_columns import UNNAMED
from sortnet.errors import SortNetError
from sortnet.files import refuse_folder, rows_of
from sortnet.messages import count
from sortnet.metrics import can_choose
from sortnet.threads import set_threads
from store.report.conventions import conventions_of
from store.report.kept_models import kept_model
from store.service.existing_store import open_to_write

if TYPE_CHECKING:
    from pathlib import Path

    from sortnet.core import Queries
    from sortnet.core.shard import Group
    from sortnet.learning.iterations import Callback
    from sortnet.rankers.base import Ranker
    from store import Store
    from store.training.job import TrainingJob
    from store.training.origin import Origin
    from store.training.run_folder import Folder
    from store.training.training_run import TrainingRun

_OF_JUDGE = (*JUDGE, "question")
_FILES = ("out", "from_model", "resume", "overwrite", "store", "cache")


class _SectionedCommand(click.Command):
    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for option in (p for p in self.get_params(ctx) if isinstance(p, click.Option)):
            name, record = str(option.name), option.get_help_record(ctx)
            heading = "Files" if name in _FILES else "The run"
            heading = "Columns of a table" if name in NAMES else heading
            heading = SETTINGS[name].section if name in SETTINGS else heading
            heading = "A judge that is asked" if name in _OF_JUDGE else heading
            if record is not None:
                sections.setdefault(heading, []).append(record)
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records)


@click.command(
    cls=_SectionedCommand, short_help="Train a model on labelled queries or on judgements."
)
@click.argument(
    "data", nargs=-1, metavar="FILE | TRAIN VALI | FOLD_DIR | COLLECTION", shell_complete=files
)
@click.option(
    *("--out", "-o"), default="model", metavar="DIR", shell_complete=folders,
    help="Model folder to write.",
)  # fmt: skip
@click.option("--resume", is_flag=True, help="Resume the run in --out with its settings and data.")
@click.option(
    "--from", "from_model", metavar="MODEL", shell_complete=folders,
    help="Begin with the weights, scaling and features of this model, for new queries, new answers "
    "or more training; by default half of the epochs.",
)  # fmt: skip
@click.option("--overwrite", is_flag=True, help="Replace the model in --out.")
@store_option
@data_option
@training_name_options
@settings_options
@click.option(
    "--ranker",
    default="sortnet",
    metavar="KIND",
    help="Kind of ranker, such as lambdamart, ranksvm or listnet; of another than sortnet no run "
    "is stored, the model folder alone is written.",
)
@click.option(
    "--set",
    "extra",
    multiple=True,
    metavar="NAME=VALUE",
    help="Any other setting, such as loss=squared, dropout=0.1 or, of another --ranker, C=0.1.",
)
@threads_option
@click.option("--no-tune", is_flag=True, help="Fixed values for what is left open.")
@click.option(
    "--preset", type=click.Choice(["paper"]), help="Settings to start from; paper: Algorithm 3.1."
)
@judge_options
@click.option(
    "--question",
    metavar="TEXT",
    help="What the judge is asked of two documents; default: Which is better?",
)
@json_option
@click.option(
    "--log",
    "logs",
    multiple=True,
    metavar="WHERE",
    help="Also log the figures of every iteration to tensorboard:DIR, mlflow or mlflow:URI.",
)
@click.pass_context
@signals_as_ctrl_c()
def train(
    ctx: click.Context,
    /,
    data: tuple[str, ...],
    out: str,
    resume: bool,
    from_model: str | None,
    overwrite: bool,
    store: str | None,
    cache: Path | None,
    columns: NamedColumns,
    ranker: str,
    extra: tuple[str, ...],
    threads: int | None,
    no_tune: bool,
    preset: str | None,
    as_json: bool,
    logs: tuple[str, ...],
    **_settings: Any,
) -> None:  # fmt: skip
    """Train a model on labelled queries, or on the judgements of a collection.

    FILE is one table, or LETOR text, of all your queries: whole queries are divided into training,
    validation and test parts (60, 20, 20 %), each by a hash of --seed and its name. --query,
    --grade and --id name columns; the model remembers names and parts, so that `sortnet evaluate
    m FILE --part test` and `sortnet rank m NEW` need no more. With --query none all rows are one
    query, and the rows are divided. TRAIN and VALI are two such files,
    FOLD_DIR is a folder with train.txt and vali.txt (or .csv ...), or with folders train and vali.
    Tables are CSV, TSV, JSON lines or Parquet, also .gz; several files are a quoted pattern.
    COLLECTION is a name of `sortnet items`, whose judgements are learned from; a path goes first,
    collection:NAME is always the collection.

    In each iteration the comparator sorts all queries, pairs of documents are judged and stored
    (--pairs says which), and the comparator is trained on all stored ones. By default ten
    iterations divide one training. The model is the best iteration by RankQuality on the
    validation part.

    With --judge or --model and --judgements N documents need no grades: a program or a language
    model says which of two is better, as in `sortnet label`, N times at most. A fifth of the
    answers is about the validation part, where accuracy, the share of answers predicted, chooses
    the iteration; the others are about the pairs that --pairs chooses by what was learned so far.
    Grades that the data have are not looked at. The program reads a line of JSON per pair, {"id",
    "question", "instructions", "group", "context", "left", "right"}, where the group is the query;
    each side has "id", "text", "image", "audio", "shown" (further columns that are no numbers) and
    "features". It answers with a line such as {"answer": "left"}. Each answer is stored as it
    comes: a run that is resumed asks no stored one again. After three failures in a row the run
    ends, with what was answered; after --max-calls and the like nothing more is asked, and what
    was answered is learned from.

    \b
    Examples:
      sortnet train all.csv --query search --grade stars --id product
      sortnet train sweets.csv --query none --grade points --bins 5
      sortnet train MQ2008/Fold1
      sortnet train train.txt vali.txt --out m --quality ndcg@10 --committee 5
      sortnet train essays --out judged
      sortnet train all.csv --query search --judge ./judge.py --judgements 200
      sortnet train MQ2008/Fold1 --ranker ranksvm --out svm --set C=0.1
      sortnet train --resume --out m
      sortnet train new.csv --from m --out newer
    """
    from cli.training.command_judge import CommandJudge
    from cli.training.other_kinds import fit_other, values_set
    from sortnet.learning.distributed import broadcast, joined, threads_of
    from store.training.job import read_job
    from store.training.origin import find_origin, refuse_own_folder
    from store.training.run_folder import Folder
    from store.training.training_run import agree, follow, refuse_changes, shared, store_url

    refuse_folder(out)
    _trackers(logs)  # a misspelt one is refused before anything is read
    folder, judge = Folder(out), CommandJudge.of(ctx)
    refuse_own_folder(from_model, folder)
    if ranker != "sortnet":
        if resume or preset or no_tune or logs or from_model:
            raise click.UsageError(
                "--resume, --from, --preset, --no-tune and --log are of a sortnet alone"
            )
        if os.environ.get("WORLD_SIZE", "1") != "1":
            raise click.UsageError(f"one process fits {ranker}: leave torchrun out")
        fit_other(ctx.params, typed_settings(ctx), folder, store_url(store, None)[0])
        return
    typed = typed_settings(ctx) | values_set(Config(), extra)
    with joined() as group, silent(group.rank > 0), progress() as status:
        own = None
        if group.rank == 0 and not judge.only_shows:
            own = _known(folder, data, resume=resume, overwrite=overwrite)
        known = broadcast(group, own)
        origin = find_origin(from_model, folder, known, status)
        asked, paths, columns = _asked(typed, data, columns, known, preset, folder, origin)
        asked = asked.with_defaults if no_tune else asked
        url, shown = store_url(store, known)
        is_asked = judge.is_asked(known)
        if is_asked and not judge.only_shows:
            judge.refuse_without_budget(asked)
        job = read_job(
            paths, asked, columns=columns, cache=cache, progress=status, store=url,
            is_asked=is_asked, like=None if origin is None else origin.model,
        )  # fmt: skip
        agree(job, group)
        documents = judge.documents(job, status)
        if judge.only_shows:
            judge.show(job, documents["train"], as_json=as_json)
            return
        status("starting")
        recorded = known["threads"] if known and group.size == 1 else None
        set_threads(threads or recorded or threads_of(group))
        if group.rank:
            with follow(job, folder, url, group, origin) as training:
                training.learn(lambda record: None, status)
            return
        if known is not None:
            refuse_changes(job, known, folder)
        status(f"opening the store {shown}")
        with open_to_write(url) as opened, folder.held():
            started = _begin(
                job, folder, opened, known, shown, status, group, judge.record(), origin,
                as_json=as_json,
            )  # fmt: skip
            is_own_store = store is not None or store_url(None, None)[0] == url
            with judge.asking(
                shared(started, group), documents, status, is_own_store=is_own_store
            ) as training:
                _learn(training, shown, status, logs, as_json=as_json)


def _begin(
    job: TrainingJob, folder: Folder, store: Store, known: dict[str, Any] | None, shown: str,
    progress: Progress, group: Group, judge: dict[str, Any] | None, origin: Origin | None, *,
    as_json: bool,
) -> TrainingRun:  # fmt: skip
    """Start or resume the run, and print what was chosen for it."""
    from cli.training.data_and_origin import say_data, say_origin
    from store.training.run_folder import CHOOSING
    from store.training.training_run import begin

    if known is None:
        say_data(job, err=as_json)
        if origin is not None:
            say_origin(origin, job.vali, err=as_json)
    for text in _choosing(job) if known is None else ():
        put(text, err=as_json)
    is_choosing = known is None or known.get("phase") == CHOOSING
    if is_choosing and group.size > 1:
        who_waits = "process waits" if group.size == 2 else f"{group.size - 1} processes wait"
        say(f"the other {who_waits} until the settings are chosen")
    show_trial = iterations.trial_shower(job.metrics[0].name, lambda text: put(text, err=as_json))

    def show(trial: iterations.Trial) -> None:
        show_trial(trial)
        raise_if_signalled()

    command = command_line(click.get_current_context())
    training = begin(
        job,
        folder,
        store,
        known,
        command,
        shown,
        progress,
        show,
        group=group,
        judge=judge,
        origin=origin,
    )
    lines = []
    if is_choosing and (trials := training.run.config.get("tuning")):
        lines.append(iterations.chosen(training.config.flat(), trials))
    if training.finished:
        say(f"the run in {folder} has finished already")
    elif is_choosing and training.config.divides_one_training:
        lines.append(_budget(job, training.config))
    if lines:
        put("\n".join([*lines, ""]), err=as_json)
    return training


def _budget(job: TrainingJob, config: Config) -> str:
    """A line on how one training is divided among the iterations."""
    from sortnet.learning.budget import Budget

    budget = Budget.of(job.train, config)
    text = f"one training of {budget.steps:,} steps, in {count(budget.iterations, 'iteration')}"
    if config.max_iter is not None and budget.iterations < config.max_iter:
        text += f", not {config.max_iter}: an iteration has at least one epoch"
    return text


def _learn(
    training: TrainingRun, store: str, progress: Progress, logs: Sequence[str], *, as_json: bool
) -> None:
    show = iterations.shower(training.job.metrics[0].name, err=as_json)
    about = (training.run.id, {"command": training.run.command, **training.config.flat()})
    callbacks = [lambda *_: raise_if_signalled(), *_trackers(logs, *about)]
    model = training.learn(show, progress, callbacks)
    _conclude(training, model, store, as_json=as_json)


def _trackers(
    logs: Sequence[str], run: str = "", params: Mapping[str, Any] | None = None
) -> list[Callback]:
    if not logs:
        return []
    from sortnet.learning.trackers import tracker
    from store.database.engine import without_passwords

    def warn(text: str) -> None:
        say(" ".join(map(without_passwords, text.split())))

    return [tracker(where, run, dict(params or {}), warn) for where in logs]


def _choosing(job: TrainingJob) -> Iterator[str]:
    """The measure that chooses the iteration, and the number of queries it can choose by."""
    judged = job.vali.judged
    if job.is_asked:
        from store.training.training_run import vali_pairs_of

        n_vali, n_answers = len(vali_pairs_of(job)), job.config.judgements or 0
        yield (
            f"{n_answers:,} answers: {n_vali:,} about validation pairs, where "
            f"{job.metrics[0].name} chooses the iteration, {n_answers - n_vali:,} about training "
            "pairs"
        )
        return
    n, m = int(can_choose(job.metrics[0], job.vali).sum()), len(job.vali)
    judges = f"{n} of {m} validation queries can choose"
    if judged is not None:
        judges = f"{len(judged):,} judged pairs with items that are held out"
    yield f"{job.metrics[0].name} chooses the iteration: {judges}"
    is_same = job.data["train"]["fingerprint"] == job.data["vali"]["fingerprint"]
    if is_same and not job.is_divided:
        yield "VALI is the data of TRAIN: all figures are training figures"


def _known(
    folder: Folder, data: Sequence[str], *, resume: bool, overwrite: bool
) -> dict[str, Any] | None:
    """The record of the run to resume; None for a new run."""
    if resume and overwrite:
        raise click.UsageError(
            "--resume continues a run and --overwrite starts again: give one of them"
        )
    known = folder.run() if resume else None
    if resume and known is None:
        if folder.has_model:
            raise SortNetError(f"{folder} has a model but no run.json: nothing to resume")
        if not data:
            raise SortNetError(
                f"no run in {folder} to resume: begin one with sortnet train DATA --out "
                f"{shlex.quote(str(folder))}"
            )
        say(f"no run in {folder} to resume: starting a new one")
    if not resume and not overwrite:
        folder.refuse_if_taken()
    return known


def _asked(
    typed: Mapping[str, Any],
    data: Sequence[str],
    columns: NamedColumns,
    known: Mapping[str, Any] | None,
    preset: str | None,
    folder: Folder,
    origin: Origin | None,
) -> tuple[Config, Sequence[str], NamedColumns]:
    """The settings, data paths and columns; a resumed run uses its own where none are given."""
    from sortnet.rankers.from_model import settings_from_model
    from store.training.job import columns_of, paths_to_resume

    typed = {**(PRESETS[preset] if preset else {}), **typed}
    if known is None:
        if origin is not None:
            return settings_from_model(origin.model.config, **typed), data, columns
        return Config().changed(**typed), data, columns
    if columns == UNNAMED:
        columns = columns_of(known["data"], "run.json")
    paths = data or paths_to_resume(known["data"], str(folder))
    return Config.from_json(known["asked"]).changed(**typed), paths, columns


def _conclude(training: TrainingRun, model: Ranker, store: str, *, as_json: bool) -> None:
    job, folder = training.job, training.folder
    rows = rows_of(training.run.iterations_frame())
    best = rows[model.info["iteration"]]
    names = [metric.name for metric in job.metrics]
    parts: dict[str, Queries] = {split: training.judged(split) for split in SPLITS}
    figures = {split: {name: best[f"{split}_{name}"] for name in names} for split in parts}
    said = {s: conventions_of(part, job.metrics, job.config.empty) for s, part in parts.items()}
    if as_json:
        print_json(
            {
                "run": training.run.id,
                "store": store,
                "out": str(folder),
                "config": training.config.to_json(),
                "tuning": training.run.config.get("tuning"),
                "best_iteration": best["iteration"],
                "quality": {job.metrics[0].name: best["quality"]},
                "measures": figures,
                "conventions": said,
                "answers": model.info["answers"],
                "judge": None if training.judge is None else training.judge.facts(),
                "kept": training.run.kept,
                "from": training.run.config.get("from"),
                "iterations": rows,
            }
        )
        return
    put(f"\nbest is iteration {best['iteration']} of 0 to {rows[-1]['iteration']} (the last *)")
    if training.origin is not None and best["iteration"] == 0:
        put("no iteration is better than the model that the run began with")
    if [row["quality"] for row in rows].count(best["quality"]) > 1:
        put("of those of equal quality it is the first that has the most pairs of VALI right")
    for text in measures(figures, said):
        put(text)
    if (judged := parts["vali"].judged) is not None:
        put(f"vali: {interval(figures['vali']['accuracy'], len(judged))}")
    put()
    if (kept := training.run.kept) is not None:
        put(f"kept   {kept_model(kept)}")
    answers = f"{model.info['answers']:,} training pairs"
    put(f"judge  answered for {training.judge.text() if training.judge else answers}")
    put(f"model  {folder}")
    put(f"run    {training.run.id} in {store}")
    put(f"next   {job.next_command(str(folder))}")
