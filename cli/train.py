"""`sortnet train`: learn to sort labelled queries, and keep the model, the run and its pairs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from cli.options import (
    SectionedCommand,
    cache_folder,
    make_config,
    section,
    set_threads,
    settings_options,
    typed_settings,
)
from sortnet.errors import SortNetError

if TYPE_CHECKING:
    from cli.folder import Folder
    from cli.task import Task
    from sortnet.config import Config
    from sortnet.loop import Iteration, State
    from sortnet.types import Progress
    from store import Run, Store

_FILES = "Files"


@click.command(cls=SectionedCommand)
@click.argument("data", nargs=-1, metavar="TRAIN VALI | FOLD_DIR")
@section(_FILES, "--out", "-o", default="model", show_default=True, metavar="DIR",
         help="Where the model goes.")
@section(_FILES, "--resume", is_flag=True,
         help="Go on where a run into --out was stopped; settings and data as they were.")
@section(_FILES, "--overwrite", is_flag=True, help="Replace the model that --out has.")
@section(_FILES, "--store", metavar="URL", envvar="SORTNET_STORE", show_envvar=True,
         help="Where the pairs go: a file or postgresql://...; by default sortnet.db in the "
         "user's data folder.")
@section(_FILES, "--cache/--no-cache", default=False, show_default=True,
         help="Keep parsed data in the user's cache folder; the next read is nearly free.")
@settings_options
@section("The run", "--threads", type=click.IntRange(1), help="Default: all cores.")
@section("The run", "--tune", is_flag=True,
         help="First try a small grid of settings, and take those best on the validation part.")
@section("Output", "--json", "as_json", is_flag=True,
         help="One JSON document on stdout, iterations among it; the table goes to stderr.")
@click.pass_context
def train(
    ctx: click.Context,
    data: tuple[str, ...],
    out: str,
    resume: bool,
    overwrite: bool,
    store: str | None,
    cache: bool,
    threads: int | None,
    tune: bool,
    as_json: bool,
    **_settings: Any,
) -> None:  # fmt: skip
    """Learn to sort the labelled queries of TRAIN; VALI chooses epoch and iteration.

    Both are LETOR text, CSV or Parquet; FOLD_DIR is a folder with train.txt and vali.txt.
    The comparator sorts, the pairs it got wrong are kept and learned, and again, until it makes
    no new mistake. The best iteration by RankQuality on VALI is the model.

    \b
    Examples:
      sortnet train MQ2008/Fold1
      sortnet train train.txt vali.txt --out m --quality ndcg@10 --committee 5
      sortnet train --resume --out m
    """
