"""`sortnet train`: learn to sort labelled queries, and keep the model, the run and its pairs."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from cli.inputs.opened_store import open_to_write
from cli.options import (
    SectionedCommand,
    Whole,
    cache_folder,
    command_line,
    files,
    folders,
    make_config,
    section,
    set_threads,
    settings_options,
    typed_settings,
)
from cli.output import print_json, progress, put, refuse_folder, say
from cli.printing import iterations
from cli.printing.conventions import conventions_of, measures
from cli.terminal.signals import signals_as_ctrl_c
from cli.training.logs import Log, LogType, callbacks_of
from sortnet.errors import SortNetError

if TYPE_CHECKING:
    from cli.training.job import TrainingJob
    from cli.training.model_folder import Folder
    from cli.training.training_run import TrainingRun
    from sortnet.config import Config
    from sortnet.rankers.base import Ranker
    from sortnet.types import Progress

_FILES = "Files"


@click.command(
    cls=SectionedCommand, short_help="Learn to sort labelled queries; keep model and pairs."
)
@click.argument("data", nargs=-1, metavar="TRAIN VALI | FOLD_DIR", shell_complete=files)
@section(
    _FILES,
    "--out",
    "-o",
    default="model",
    show_default=True,
    metavar="DIR",
    shell_complete=folders,
    help="Where the model goes.",
)
@section(
    _FILES,
    "--resume",
    is_flag=True,
    help="Go on where the run in --out was stopped, with its settings and data.",
)
@section(_FILES, "--overwrite", is_flag=True, help="Replace the model that --out has.")
@section(
    _FILES,
    "--store",
    metavar="URL",
    envvar="SORTNET_STORE",
    show_envvar=True,
    help="Where the pairs go: a file or postgresql://...; by default sortnet.db in the "
    "user's data folder.",
)
@section(
    _FILES,
    "--cache/--no-cache",
    default=False,
    show_default=True,
    help="Keep parsed data in the user's cache folder; the next read is nearly free.",
)
@settings_options
@section("The run", "--threads", type=Whole(1), help="Default, and at most: all cores.")
@section(
    "The run",
    "--tune",
    is_flag=True,
    help="First try a small grid of settings, and take those best on the validation part.",
)
@section(
    "The run",
    "--json",
    "as_json",
    is_flag=True,
    help="One JSON document on stdout; the table of iterations goes to stderr.",
)
@section(
    "The run",
    "--log",
    "logs",
    type=LogType(),
    multiple=True,
    metavar="WHERE",
    help="Log every iteration's figures to tensorboard:DIR, mlflow or mlflow:URI as well.",
)
@click.pass_context
@signals_as_ctrl_c()
def train(
    ctx: click.Context,
    /,
    data: tuple[str, ...],
    out: str,
    resume: bool,
    overwrite: bool,
    store: str | None,
    cache: bool,
    threads: int | None,
    tune: bool,
    as_json: bool,
    logs: tuple[Log, ...],
    **_settings: Any,
) -> None:  # fmt: skip
    """Learn to sort the labelled queries of TRAIN; VALI chooses epoch and iteration.

    Both are LETOR text, CSV or Parquet; FOLD_DIR is a folder with train.txt and vali.txt.
    The comparator sorts, the pairs it got wrong are kept and learned, and again, until it makes
    no new mistake or gets no better. The best iteration by RankQuality on VALI is the model.

    \b
    Examples:
      sortnet train MQ2008/Fold1
      sortnet train train.txt vali.txt --out m --quality ndcg@10 --committee 5
      sortnet train --resume --out m
    """
    from cli.training.job import read_task
    from cli.training.model_folder import Folder

    refuse_folder(out)
    folder = Folder(out)
    known = _known(folder, resume=resume, overwrite=overwrite)
    asked, paths = _asked(typed_settings(ctx), data, known, tune=tune)
    with progress() as tell:
        task = read_task(paths, asked, cache=cache_folder(cache), progress=tell)
        tell("starting")
        set_threads(threads or (known["threads"] if known else None))
        _run(task, folder, known, store, command_line(ctx), tell, tune=tune, as_json=as_json,
             logs=logs)  # fmt: skip


def _run(
    task: TrainingJob,
    folder: Folder,
    known: dict[str, Any] | None,
    store: str | None,
    command: str,
    tell: Progress,
    *,
    tune: bool,
    as_json: bool,
    logs: Sequence[Log],
) -> None:
    from cli.training import training_run as sessions
    from cli.training.trials import chosen, trial_shower

    if known is not None:
        sessions.refuse_changes(task, known, folder)
    url, shown = sessions.store_url(store, known)
    tell(f"opening the store {shown}")
    with open_to_write(url) as opened, folder.held():
        for text in _choosing(task) if known is None else ():
            put(text, err=as_json)
        origin = sessions.Origin(command, shown, tune)
        show = trial_shower(task.metrics[0].name, lambda text: put(text, err=as_json))
        session = sessions.begin(task, folder, opened, known, origin, tell, show)
        if tune and known is None:
            put(f"chosen: {chosen(session.config, session.run.config['tuning'])}\n", err=as_json)
        elif task.config.training.weight_decay is None and known is None:
            decay = session.config.training.weight_decay
            say(f"weight decay {decay:g}, chosen by short trials on the validation part")
        if session.finished:
            say(f"the run in {folder} has finished already")
        show_iteration = iterations.shower(task.metrics[0].name, err=as_json)
        model = session.learn(show_iteration, tell, callbacks_of(logs, session.run))
        _conclude(session, model, shown, as_json=as_json)


def _choosing(task: TrainingJob) -> Iterator[str]:
    """What chooses the iteration: the measure, and how many queries it can choose by."""
    from sortnet.metrics import can_choose

    n, m = int(can_choose(task.metrics[0], task.vali).sum()), len(task.vali)
    yield f"{task.metrics[0].name} chooses the iteration: {n} of {m} validation queries can choose"
    if task.data["train"]["fingerprint"] == task.data["vali"]["fingerprint"]:
        yield "VALI is the data of TRAIN: all figures are training figures"


def _known(folder: Folder, *, resume: bool, overwrite: bool) -> dict[str, Any] | None:
    """What the folder says of the run to resume; None for one that begins."""
    if resume and overwrite:
        raise click.UsageError("--resume goes on and --overwrite begins anew: give one of them")
    known = folder.run() if resume else None
    if resume and known is None:
        if folder.has_model:
            raise SortNetError(f"{folder} has a model but no run.json: nothing to resume")
        say(f"no run in {folder} to go on with: beginning one")
    if not resume and not overwrite:
        folder.refuse_if_taken()
    return known


def _asked(
    typed: Mapping[str, Any],
    data: Sequence[str],
    known: Mapping[str, Any] | None,
    *,
    tune: bool,
) -> tuple[Config, Sequence[str]]:
    """The settings and the data's paths: what a resumed run is not told, it remembers."""
    from sortnet.config import Config

    if known is None:
        return make_config(typed), data
    if tune and not known["tuned"]:
        raise SortNetError("cannot go on with --tune: the run was started without it")
    paths = [facts["path"] for facts in known["data"].values()]
    return make_config(typed, Config.from_json(known["asked"])), data or paths


def _conclude(session: TrainingRun, model: Ranker, store: str, *, as_json: bool) -> None:
    """Say how good the model is, where it is, and what to do next."""
    task, folder = session.task, session.folder
    rows = iterations.rows_of(session.run.iterations_frame())
    best = rows[model.info["iteration"]]
    names = [metric.name for metric in task.metrics]
    figures = {
        split: {name: best[f"{split}_{name}"] for name in names} for split in ("train", "vali")
    }
    said = {
        split: conventions_of(queries, task.metrics, task.config.empty)
        for split, queries in (("train", task.train), ("vali", task.vali))
    }
    if as_json:
        print_json(
            {
                "run": session.run.id,
                "store": store,
                "out": str(folder),
                "config": session.config.to_json(),
                "tuning": session.run.config.get("tuning"),
                "best_iteration": best["iteration"],
                "quality": {task.metrics[0].name: best["quality"]},
                "measures": figures,
                "conventions": said,
                "iterations": rows,
            }
        )
        return
    put(f"\nbest is iteration {best['iteration']} of {len(rows)}")
    for text in measures(figures):
        put(text)
    for split, lines in said.items():
        for text in lines:
            put(f"{split}: {text}")
    put(f"\nmodel  {folder}")
    put(f"run    {session.run.id} in {store}")
    put(f"next   sortnet evaluate {shlex.join([str(folder), task.test or 'TEST'])}")
