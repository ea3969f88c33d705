"""Train or resume a run, estimate its calls or fit another ranker, for Python and commands."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from os import PathLike, fspath
from typing import Any

import numpy as np

from sortnet.config import Config, Settings, settings_of
from sortnet.core import NamedColumns
from sortnet.core.named_columns import UNNAMED
from sortnet.core.pairs import all_pairs
from sortnet.core.shard import ALONE, Group, broadcast, threads_of
from sortnet.errors import DataError, SortNetError
from sortnet.files import refuse_folder
from sortnet.judges import LanguageModel, Program
from sortnet.judges.any_judge import OneJudge, connect_judges, judges_by_name
from sortnet.judges.asked_question import asked_question
from sortnet.judges.trial import N_EXAMPLES, DryRun, dry_run
from sortnet.messages import note
from sortnet.preference.study import QUESTION
from sortnet.rankers.base import Ranker
from sortnet.rankers.fit_ranker import fit_ranker
from sortnet.rankers.model_folder import read_bytes
from sortnet.rankers.sortnet import settings_from_model
from sortnet.threads import set_threads
from store import open_store
from store.database.engine import stored_url
from store.runs.resuming import resume_command
from store.training.asked_judge import NOBODY, AskedJudge
from store.training.job import TrainingJob, paths_to_resume, read_job
from store.training.run_folder import Folder, find_origin, refuse_own_folder
from store.training.training_run import (
    TrainedRun,
    TrainingRun,
    Watcher,
    check_processes,
    join_run,
    new_record,
    parse_state,
    share_run,
    store_url,
    stored_run,
)


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Options of `train` and `resume` other than data, folder and settings.

    Attributes:
        store: the store's URL or file. If None, a resumed run uses its own store, and a new run
            the default store of the user.
        from_model: the folder of a model to begin with. If None, weights begin at random.
        columns: names of a table's columns. A resumed run reads `UNNAMED` as the recorded names.
        threads: number of threads. If None, a resumed run has as many as before, and a new run one
            for each core.
        judge: the judges that are asked in place of grades. An argument `judge` of `train` or
            `resume` replaces these judges.
        watcher: called at each step of the training.
        command: the command to record. If None, the call of the Python function is recorded.
        group: the processes of the run, see `sortnet.learning.torchrun.joined_processes`.
    """

    store: str | None = None
    from_model: str | None = None
    columns: NamedColumns = UNNAMED
    threads: int | None = None
    judge: AskedJudge = NOBODY
    watcher: Watcher = field(default_factory=Watcher)
    command: str | None = None
    group: Group = ALONE


def train(
    data: str | PathLike[str] | Sequence[str | PathLike[str]],
    out: str = "model",
    *,
    judge: OneJudge | Mapping[str, OneJudge] | None = None,
    question: str | None = None,
    overwrite: bool = False,
    options: RunOptions | None = None,
    **settings: Any,
) -> TrainedRun | None:
    """Train a model on labelled queries or on a collection's judgements, and store the run.

    With a judge the documents need no grades: the judge tells which of two documents is better. The
    setting `judgements` is the number of pairs that the judge is asked about. Each answer is stored
    at once, so that a resumed run does not ask again about a pair.

    Args:
        data: one file that is divided, a folder with both parts, the name of a collection, or the
            files of the training and the validation part.
        out: the folder of the model.
        judge: a `LanguageModel`, a `Program`, or a function of two documents. The function gets
            rows of a table as dicts, or documents of LETOR text as arrays of numbers. It returns
            `left`, `right`, `tie`, `skip`, or a float, the probability that the left document is
            better. A dict {name: judge} has several judges, to which the pairs are dealt.
        question: the question to the judge. If None, the question is `Which is better?`.
        overwrite: whether a model in the folder is replaced.
        options: store, columns and further options.
        settings: settings of `sortnet.config.Config`, such as `max_iter=3` or `judgements=200`.

    Returns the finished run. If several processes train together, all but the first return None.

    Raises:
        SortNetError: for data or settings that cannot be used, or a folder that has a model. Also
            if the judge fails too often; the message tells how many answers are kept.
        Exception: the error of a judge that is a function, if it raises too often. A
            note of the error tells how many answers are kept.

    >>> import tempfile
    >>> from sortnet.data.read import digits_fold
    >>> from sortnet.tables.letor_writer import write_letor
    >>> fold, folder = digits_fold(0), tempfile.TemporaryDirectory()
    >>> for name, part in (("train", fold.train), ("vali", fold.vali)):
    ...     write_letor(part, f"{folder.name}/{name}.txt")
    >>> options = RunOptions(store=f"{folder.name}/runs.db")
    >>> trained = train(
    ...     folder.name, f"{folder.name}/model", options=options, scaling="normal", max_iter=1
    ... )
    >>> len(trained.rows), trained.kept["kind"]
    (2, 'sortnet')
    >>> resume(f"{folder.name}/model").best == trained.best
    True
    >>> folder.cleanup()

    Cost: a training; the data are held in memory.
    """
    options = with_judge(options or RunOptions(), judge, question)
    folder = Folder(out)
    refuse_folder(out)
    refuse_own_folder(options.from_model, folder)
    if options.group.rank == 0 and not overwrite:
        folder.refuse_if_taken()
    # All other processes wait here until the first process has checked the folder.
    broadcast(options.group, None)
    paths = _paths(data)
    call = f"store.training.train({', '.join(map(repr, (data, out)))})"
    job = prepare(folder, paths, options, settings)
    return _run(job, folder, options, call)


def resume(
    out: str,
    data: Sequence[str] = (),
    *,
    judge: OneJudge | Mapping[str, OneJudge] | None = None,
    question: str | None = None,
    options: RunOptions | None = None,
    **settings: Any,
) -> TrainedRun | None:
    """Resume the run in a folder from the point where it ended, with its settings and data.

    A finished run is not trained again, only its result is returned. If the folder has no run and
    `data` are given, a new run begins.

    Args:
        out: the folder of the run.
        data: the new paths of data that were moved; empty if the data were not moved.
        judge: the judge that the run asks, or {name: judge} as before. If None, the stored judges
            are asked. A function is not stored, so it must be passed again. A judge may have
            another number of `workers`, another `timeout` and other limits than before; another
            judge is refused.
        question: may be given again; a question other than the run's is refused.
        options: store, threads and further options; options other than the run's are refused.
        settings: may be given again; settings other than the run's are refused.

    Returns the finished run. If several processes train together, all but the first return None.

    Raises:
        SortNetError: if there is no run to resume, or it was begun with other settings, other data
            or another judge.
    """
    options = with_judge(options or RunOptions(), judge, question)
    folder = Folder(out)
    refuse_folder(out)
    refuse_own_folder(options.from_model, folder)
    record = None
    if options.group.rank == 0:
        record = folder.run()
        if record is None and folder.has_model:
            raise SortNetError(f"{folder} has a model but no run.json: nothing to resume")
        if record is None and not data:
            raise SortNetError(
                f"no run in {folder} to resume: begin one with sortnet train DATA --out "
                f"{shlex.quote(str(folder))}"
            )
        if record is None:
            note(f"no run in {folder} to resume: starting a new one")
    record = broadcast(options.group, record)
    call = f"store.training.resume({out!r})"
    job = prepare(folder, data, options, settings, record=record)
    return _run(job, folder, options, call, record=record)


def with_judge(
    options: RunOptions,
    judge: OneJudge | Mapping[str, OneJudge] | None,
    question: str | None,
) -> RunOptions:
    """Put a judge, or judges by name, and a question into the options; None changes nothing."""
    if judge is None and question is None:
        return options
    judges = options.judge.judges if judge is None else judges_by_name(judge)
    asked_judge = replace(options.judge, judges=judges, question=question)
    return replace(options, judge=asked_judge)


def prepare(
    folder: Folder,
    data: Sequence[str],
    options: RunOptions,
    settings: Mapping[str, Any],
    *,
    record: dict[str, Any] | None = None,
    is_estimate: bool = False,
) -> TrainingJob:
    """Read and check the settings, the data and the judge of a run, and write nothing.

    Args:
        folder: the folder of the run.
        data: paths of the data. If empty, the paths that a resumed run has recorded.
        options: the options of the run.
        settings: {name: value} given by the user.
        record: the record of the run to resume; None for a new run.
        is_estimate: whether the run is only estimated. An estimate asks no judge, so the budget and
            the connection of the run's judge are not checked.
    """
    progress = options.watcher.progress
    judge = options.judge
    has_judge = bool(judge.judges) if record is None else record.get("judged_by") is not None
    will_ask_judge = has_judge and not is_estimate

    # The origin is the model that the run begins with; None if it begins with random weights.
    origin = find_origin(options.from_model, folder, record, progress)
    columns = options.columns
    if record is not None:
        # A resumed run takes from its record what the user does not name again.
        config = Config.from_json(record["asked"]).changed(**settings)
        data = data or paths_to_resume(record["data"], str(folder))
        if columns == UNNAMED:
            recorded_columns = record["data"]["train"].get("columns", {})
            columns = NamedColumns.from_json(recorded_columns, "run.json")
    elif origin is not None:
        config = settings_from_model(origin.model.config, **settings)
    else:
        config = Config().changed(**settings)
    url = store_url(options.store, record)

    # These faults are found before the data are read, which may take long.
    if record is not None:
        judge.check_resumed(record, folder)
    if will_ask_judge:
        judge.check_budget(config)

    job = read_job(
        data,
        config,
        columns=columns,
        progress=progress,
        store=url,
        is_asked=has_judge,
        like=None if origin is None else origin.model,
    )
    check_processes(job, options.group)
    if will_ask_judge:
        connect_judges(judge.judges)  # raises an error if a program, key or server is invalid
    return replace(job, origin=origin, documents=judge.documents(job, progress))


def _run(
    job: TrainingJob,
    folder: Folder,
    options: RunOptions,
    call: str,
    *,
    record: dict[str, Any] | None = None,
) -> TrainedRun | None:
    """Train a prepared run to its end; the first process alone writes to the folder and the store.

    Args:
        job: the settings and data of the run.
        folder: the folder of the run.
        options: the options of the run.
        call: the call of the Python function, which is recorded unless the options have a command.
        record: the record of the run to resume; None for a new run.
    """
    group = options.group
    watcher = options.watcher
    watcher.progress("starting")
    n_threads = options.threads
    if n_threads is None and record is not None and group.size == 1:
        n_threads = record["threads"]
    set_threads(n_threads or threads_of(group))
    if group.rank > 0:
        join_run(job, folder, group, watcher.progress)
        return None

    if record is not None:
        refuse_changes(job, record, folder)
    url = store_url(options.store, record)
    url_to_record = stored_url(url)
    watcher.progress(f"opening the store {url_to_record}")
    judges = options.judge.records()
    with open_store(url) as store, folder.held():
        if record is None:
            watcher.starting(job, job.origin)
            # Settings that cannot be trained raise an error here, before an earlier run is removed.
            record = new_record(job, url_to_record, options.command or call, judges)
            # The record is written once, and then the row in the store: a run that is killed in
            # between is resumed by its folder alone.
            folder.begin(record, None if job.origin is None else job.origin.model)
        run = stored_run(job, folder, record, store, judges)
        config = Config.from_json(record["config"])
        state = None
        if folder.state.exists():
            state = parse_state(folder, job, config, read_bytes(folder.state))
        again = options.judge.again(folder.path) or resume_command(str(folder))
        begun = TrainingRun(job, config, folder, run, state, again)
        watcher.begun(begun)
        asking = options.judge.asking(
            share_run(begun, group),
            watcher.progress,
            # A store that only the record of the run names may be another user's.
            is_own_store=options.store is not None or url == store_url(None, None),
            notify=watcher.note,
        )
        with asking as training:
            ranker = training.learn(watcher)
            trained = TrainedRun(training, ranker, training.run.iteration_rows(), url_to_record)
            watcher.ended(trained)
            return trained


def _named_columns(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns named by the user, without edges of bins, which depend on the data."""
    columns = data["train"].get("columns", {})
    return {name: value for name, value in columns.items() if name != "edges"}


def refuse_changes(job: TrainingJob, record: Mapping[str, Any], folder: Folder) -> None:
    """Refuse settings or data that differ from the settings or data at the start of the run."""
    values_before = Config.from_json(record["asked"]).flat()
    changed = []
    for name, value in job.config.flat().items():
        value_before = values_before[name]
        if value != value_before:
            was = "the default" if value_before is None else value_before
            changed.append(f"{name} {value}, not {was}")
    for split, facts in job.data.items():
        recorded = record["data"].get(split, facts)  # a part without a record has not changed
        if facts["fingerprint"] == recorded["fingerprint"]:
            continue
        name = "data" if job.is_divided else f"{split} data"
        change = f"{name} {facts['path']} (its content differs from {recorded['path']})"
        if change not in changed:  # the parts of a divided file make the same text
            changed.append(change)
    if _named_columns(job.data) != _named_columns(record["data"]):
        changed.append("other columns are named")
    if changed:
        raise SortNetError(
            f"cannot resume the run in {folder}, it was started otherwise: {'; '.join(changed)}; "
            f"train on: sortnet train DATA --from {shlex.quote(str(folder))} --out NEW"
        )


def estimate(
    data: str | Sequence[str],
    *,
    judge: LanguageModel | Program,
    question: str | None = None,
    options: RunOptions | None = None,
    **settings: Any,
) -> DryRun:
    """Estimate the calls and cost of `train` with the same arguments; send and write nothing.

    Raises:
        SortNetError: if the judge is a function, and for the errors of `train`.

    Cost: the data are read.
    """
    options = with_judge(options or RunOptions(), judge, question)
    (run,) = estimate_judges(data, options, **settings)
    return run


def _paths(data: str | PathLike[str] | Sequence[str | PathLike[str]]) -> list[str]:
    """List the paths of data; raise a DataError for data that are no paths, such as a frame."""
    paths = [data] if isinstance(data, str | PathLike) else data
    if isinstance(paths, list | tuple) and all(isinstance(path, str | PathLike) for path in paths):
        return [*map(fspath, paths)]
    kind = type(data).__name__
    raise DataError(f"{kind} is no path of data: SortNetRanker().fit learns from frames and arrays")


def estimate_judges(
    data: str | Sequence[str], options: RunOptions, **settings: Any
) -> list[DryRun]:
    """Return what `estimate` does for each judge of the options, as if it were the only judge.

    Raises:
        SortNetError: as `estimate`.
    """
    judges = [
        judge
        for judge in options.judge.judges.values()
        if isinstance(judge, LanguageModel | Program)
    ]
    if len(judges) < max(1, len(options.judge.judges)):
        raise SortNetError("an estimate is of the calls of a language model or a program: pass one")
    paths = _paths(data)
    folder = Folder("model")  # any name will do: nothing is read from the folder or written to it
    job = prepare(folder, paths, options, settings, is_estimate=True)
    question_about = partial(
        asked_question,
        job.documents.shown["train"],
        id="example",
        question=options.judge.question or QUESTION,
        instructions=None,
    )
    # The first pair of training documents that are in one query, and random pairs.
    i, j = all_pairs(job.train.offsets)
    chosen = [0, *np.random.default_rng(0).permutation(len(i))[: N_EXAMPLES - 1]]
    examples = list(map(question_about, i[chosen].tolist(), j[chosen].tolist()))
    n_documents = int(job.train.offsets[-1] + job.vali.offsets[-1])
    n_once = math.ceil(n_documents / 2)
    return [dry_run(judge, examples, n_once, job.config.judgements) for judge in judges]


def fit_kind(
    data: Sequence[str],
    out: str,
    settings: Settings,
    *,
    overwrite: bool = False,
    options: RunOptions | None = None,
) -> tuple[TrainingJob, Ranker]:
    """Fit a ranker on labelled queries or a collection's judgements, and write its folder.

    Args:
        data: the paths, as `train` takes them.
        out: the folder of the model.
        settings: settings of a kind of ranker, see `sortnet.rankers.registry.settings_for`.
        overwrite: whether a model in the folder is replaced.
        options: store, columns, threads and watcher.

    Returns:
        The settings and data, and the ranker, which is also in the folder.

    Raises:
        SortNetError: for data or settings that cannot be used, or a folder that has a model.

    Cost: a fit; the data are held in memory.
    """
    options = options or RunOptions()
    folder = Folder(out)
    watcher = options.watcher
    set_threads(options.threads)
    refuse_folder(out)
    if not overwrite:
        folder.refuse_if_taken()
    values: Mapping[str, Any] = settings.flat()
    # Reading data and measuring a ranker need only the settings that all kinds of rankers share.
    config = Config().changed(**{name: values[name] for name in settings_of(Settings)})
    url = store_url(options.store, None)
    job = read_job(
        data,
        config,
        columns=options.columns,
        progress=watcher.progress,
        store=url,
    )
    settings = settings.changed(quality=job.config.quality)
    watcher.starting(job, None)
    with folder.held():
        ranker = fit_ranker(job.train, job.vali, settings, progress=watcher.progress)
        folder.clear()
        replace(ranker, info={**ranker.info, "data": job.data}).save(folder.path)
    return job, ranker
