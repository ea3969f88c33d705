"""Settings and data of a run, read and validated before anything is written."""

from __future__ import annotations

import glob
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from sqlalchemy import URL

from sortnet.comparators import make_comparator
from sortnet.config import Config
from sortnet.core import F32, SPLITS, Ints, NamedColumns, Progress, Queries
from sortnet.core.named_columns import UNNAMED
from sortnet.data import fingerprint, read_fold
from sortnet.data.divide import held_out
from sortnet.data.parts import by_hash, facts_of, ids_in_two_parts, is_part, read_divided
from sortnet.data.read import file_of, read_parts
from sortnet.errors import DataError, SortNetError
from sortnet.files import check_fields
from sortnet.metrics import Metric, check_can_choose, evaluate
from sortnet.rankers.base import Ranker
from sortnet.rankers.sortnet import checked_config
from store.report.run_texts import metrics_of
from store.runs.resuming import exists, find_data, remembered
from store.service.existing_store import is_collection, judged_source, open_collection
from store.service.judged_queries import PREFIX, Source, read_judged
from store.service.run_answers import AskedDocuments
from store.training.run_folder import Origin

# Key in the facts about the validation part: the items or groups of the collection in this part.
HELD_OUT = "held_out"


@dataclass(frozen=True, eq=False)
class TrainingJob:
    """Settings and data of a run.

    Attributes:
        config: the settings as requested, with a RankQuality.
        train: the training part.
        vali: the validation part.
        data: {name of a part: facts about its data}, such as path, folder, fingerprint and named
            columns. If one file is divided into the parts, each part has its queries or rows too,
            and there is a third part `test`.
        test: the file to test with; None if there is no such file.
        note: a line about documents that are in two parts; None if no document is.
        is_asked: whether a judge will be asked about the documents, so that grades are not read.
        origin: the model that the run begins with. If None, the run begins with random weights.
        documents: the documents as the judge is shown them.
    """

    config: Config
    train: Queries
    vali: Queries
    data: dict[str, dict[str, Any]]
    test: str | None = None
    note: str | None = None
    is_asked: bool = False
    origin: Origin | None = None
    documents: AskedDocuments = field(default_factory=AskedDocuments)

    @property
    def metrics(self) -> list[Metric]:
        """The metrics that the settings ask for."""
        return metrics_of(self.config)

    @property
    def is_divided(self) -> bool:
        """Whether one file was divided into the training, the validation and a test part."""
        return is_part(self.data["train"])

    def next_command(self, folder: str) -> str:
        """Return the command to run after the training, which uses the model in `folder`."""
        if self.is_asked or self.vali.judged is not None:
            arguments = ["rank", folder, "NEW"]
        else:
            arguments = ["evaluate", folder, self.test or "TEST"]
            if self.is_divided:
                arguments += ["--part", "test"]
        return f"sortnet {shlex.join(arguments)}"


def read_job(
    paths: Sequence[str],
    config: Config,
    *,
    columns: NamedColumns = UNNAMED,
    progress: Progress,
    store: URL | str | None = None,
    is_asked: bool = False,
    like: Ranker | None = None,
) -> TrainingJob:
    """Read the training and the validation part of a run, and check them.

    Args:
        paths: the files of both parts, one folder with both files, one file that is divided into
            parts, or the name of a collection in the store.
        config: the settings of the run.
        columns: the names of a table's columns.
        progress: called with a line about each step.
        store: the store that may have the collection.
        is_asked: whether a judge will be asked about the documents, which need no grades then.
        like: the model whose features the documents must have. If None, any features are allowed.

    Raises:
        SortNetError: for data or settings that cannot be used for training.
    """
    source = judged_source(paths, store)
    if source is not None:
        if is_asked or columns != UNNAMED:
            raise SortNetError(
                f"{source}: a collection has its judgements and columns already: leave out "
                "--judge, --query and the like; sortnet label "
                f"{shlex.quote(source.name)} asks a judge"
            )
        return _job_of_collection(source, config, store, progress, like)
    reading: dict[str, Any] = {
        "n_features": None if like is None else like.n_features,
        "labelled": not is_asked,
        "columns": columns,
        "like": like,
    }
    test = None
    try:
        match paths:
            case [path] if Path(path).is_file() or glob.has_magic(path):
                return _divided_job(path, config, progress, reading)
            case [folder]:
                progress(f"reading {folder}")
                fold = read_fold(folder, **reading)
                test_file = file_of(Path(folder), "test")
                test = None if test_file is None else str(test_file)
            case [train_path, vali_path]:
                progress(f"reading {train_path} and {vali_path}")
                fold = read_parts(Path(train_path), Path(vali_path), **reading)
            case _:
                raise SortNetError(
                    "give one file to divide, TRAIN and VALI, or a folder that has both; "
                    f"got {len(paths)}"
                )
    except DataError as error:
        hint = ""
        if len(paths) == 1 and is_collection(paths[0], store):
            hint = f"; the collection of that name is {PREFIX}{paths[0]}"
        raise DataError(f"{error}{hint}") from None
    progress("checking the data")

    def facts(part: Queries) -> dict[str, Any]:
        return {**_facts_of_file(part.source), **_column_names(part)}

    return checked_job(fold.train, fold.vali, config, facts, test=test, is_asked=is_asked)


def held_out_before(model: Ranker) -> Mapping[str, Sequence[str]] | None:
    """Return the items or groups of a collection that the model's run held out for validation.

    The mapping is the one that `hold_out_documents` takes. It is None if the model was not trained
    on a collection.

    Raises:
        ModelError: if the model's record of its data is damaged.
    """
    names: Any = model.info
    for name in ("data", "vali", HELD_OUT):
        if not isinstance(names, Mapping) or name not in names:
            return None
        names = names[name]
    check_fields({HELD_OUT: names}, {HELD_OUT: dict}, "model.json")
    check_fields(names, dict.fromkeys(names, list[str]), f"model.json, {HELD_OUT}")
    return cast("Mapping[str, Sequence[str]]", names)


def paths_to_resume(data: Mapping[str, Mapping[str, Any]], folder: str) -> list[str]:
    """Return the paths of the recorded data of the run in `folder`, as `read_job` takes them.

    Raises:
        SortNetError: if a file is missing. The message has the command that tells its new path.
    """
    splits = SPLITS[:1] if is_part(data["train"]) else SPLITS
    paths = [find_data(data[split]) for split in splits]
    for path in paths:
        if Source.parse(path) is None and not exists(path):
            places = "NEW_PATH" if len(paths) == 1 else "NEW_TRAIN NEW_VALI"
            raise SortNetError(
                f"{path}: no such file or folder; where the data were moved, name them: "
                f"sortnet train {places} --resume --out {shlex.quote(folder)}"
            )
    return paths


def _job_of_collection(
    source: Source,
    config: Config,
    store: URL | str | None,
    progress: Progress,
    like: Ranker | None,
) -> TrainingJob:
    """Read a collection's judgements, and divide its items or groups into two parts."""
    with open_collection(store, source.name) as collection:
        judged = read_judged(
            collection,
            source.events,
            seed=config.seed,
            as_before=None if like is None else held_out_before(like),
            describer=None if like is None else like.describer,
            progress=progress,
        )
    progress("checking the data")
    job = checked_job(
        judged.train,
        judged.vali,
        config,
        lambda part: {**remembered(part.source), "fingerprint": judged.fingerprint(part)},
    )
    job.data["vali"][HELD_OUT] = held_out(judged.train, judged.vali)
    return job


def _divided_job(
    path: str, config: Config, progress: Progress, reading: Mapping[str, Any]
) -> TrainingJob:
    """Read a file, and divide it into three parts; `sortnet evaluate` reads the test part.

    Args:
        path: the file, or a pattern of files.
        config: the settings of the run.
        progress: called with a line about each step.
        reading: the options of reading.
    """
    is_asked = not reading["labelled"]
    fold = read_divided(path, by_hash(config.seed), progress=progress, **reading)
    progress("checking the data")
    assert fold.test is not None  # `read_divided` always makes three parts
    file_facts = _facts_of_file(path)

    def facts(part: Queries) -> dict[str, Any]:
        return {**file_facts, **_column_names(part), **facts_of(part)}

    job = checked_job(
        fold.train,
        fold.vali,
        config,
        facts,
        test=path,
        note=ids_in_two_parts(fold),
        is_asked=is_asked,
    )
    if not is_asked:
        check_can_choose(job.config.rank_quality, fold.test)
    job.data["test"] = {
        **facts(fold.test),
        "n_queries": len(fold.test),
        "n_docs": fold.test.n_docs,
        "n_features": fold.test.n_features,
    }
    return job


def _facts_of_file(path: str) -> dict[str, Any]:
    """Return facts about a file: a resumed run finds the file and checks its content by them."""
    return {**remembered(path), "fingerprint": fingerprint(path)}


def _column_names(part: Queries) -> dict[str, Any]:
    """Return {"columns": names of a part's columns}, or {} if the user named no column."""
    return {} if part.columns == UNNAMED else {"columns": part.columns.to_json()}


def checked_job(
    train: Queries,
    vali: Queries,
    config: Config,
    facts: Callable[[Queries], dict[str, Any]],
    *,
    is_asked: bool = False,
    **more: Any,
) -> TrainingJob:
    """Check that a model can be trained on the data with these settings, and make the job.

    Args:
        train: the training part.
        vali: the validation part.
        config: the requested settings.
        facts: returns the facts about a part, by which a resumed run recognises its data.
        is_asked: whether a judge will be asked about the documents.
        more: the attributes `test` and `note` of the job.

    Raises:
        SortNetError: for data or settings that cannot be used for training.
    """
    if is_asked:
        train = _to_ask(train)
        vali = _to_ask(vali)
    config = checked_config(train, vali, config)
    if not is_asked:
        _check_measures(train, config)
        _check_measures(vali, config)
    elif not config.rank_quality.row.of_pairs:
        raise SortNetError(
            f"--quality {config.rank_quality.name}: answers about pairs are measured by "
            "accuracy, not by a measure of grades: leave it out"
        )
    # Making a comparator raises an error if the settings do not fit the features.
    make_with_seed = make_comparator(config, train.n_features)
    make_with_seed(config.seed)
    data = {"train": facts(train), "vali": facts(vali)}
    return TrainingJob(config, train, vali, data, is_asked=is_asked, **more)


def _check_measures(part: Queries, config: Config) -> None:
    """Raise an error if the grades of a part cannot be measured by the metrics of the settings."""
    any_order = np.arange(part.n_docs)
    evaluate(part, any_order, metrics_of(config), empty=config.empty)


def _to_ask(part: Queries) -> Queries:
    """Return a part without its grades, and with a placeholder for its judge."""
    if not (part.sizes > 1).any():
        raise DataError(f"{part.source}: no query has two documents: there is no pair to ask about")
    return replace(part, grades=np.zeros_like(part.grades), judge=_judge_to_come)


def _judge_to_come(queries: Queries, i: Ints, j: Ints) -> F32:
    """Raise an error: the judge cannot answer before there is a run to store its answers."""
    raise RuntimeError("asked before the run has begun")
