"""`sortnet train`: train a model on labelled queries; store the run and its pairs."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from cli.console import progress, silent
from cli.inputs.column_options import OPTIONS as NAMES
from cli.inputs.column_options import training_name_options
from cli.judges.judge_options import NAMES as JUDGE
from cli.judges.judge_options import judge_options
from cli.options import (
    SETTINGS,
    data_option,
    files,
    folders,
    json_option,
    settings_options,
    store_option,
    threads_option,
)
from cli.signals import raise_if_signalled, signals_as_ctrl_c

_JUDGE_OPTIONS = (*JUDGE, "question")
_FILES = ("out", "from_model", "resume", "overwrite", "store", "cache")


def _section_of(option: str) -> str:
    """Return the heading under which the help lists an option."""
    if option in _JUDGE_OPTIONS:
        return "A judge that is asked"
    if option in SETTINGS:
        return SETTINGS[option].section
    if option in NAMES:
        return "Columns of a table"
    if option in _FILES:
        return "Files"
    return "The run"


class _SectionedCommand(click.Command):
    """A command whose help lists the options in sections."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options under their headings, in the order in which they are declared."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            if not isinstance(parameter, click.Option):
                continue
            record = parameter.get_help_record(ctx)
            if record is not None:
                sections.setdefault(_section_of(str(parameter.name)), []).append(record)
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
    "--out",
    "-o",
    default="model",
    metavar="DIR",
    shell_complete=folders,
    help="Model folder to write.",
)
@click.option("--resume", is_flag=True, help="Resume the run in --out with its settings and data.")
@click.option(
    "--from",
    "from_model",
    metavar="MODEL",
    shell_complete=folders,
    help="Begin with the weights, scaling and features of this model, for new queries, new answers "
    "or more training; by default half of the epochs.",
)
@click.option("--overwrite", is_flag=True, help="Replace the model in --out.")
@store_option
@data_option
@training_name_options
@settings_options
@click.option(
    "--ranker",
    default="sortnet",
    metavar="KIND",
    help="Kind of ranker, such as lambdamart, ranksvm or listnet. Kinds other than sortnet store "
    "no run, and write the model folder only.",
)
@click.option(
    "--set",
    "extra",
    multiple=True,
    metavar="NAME=VALUE",
    help="Any other setting, such as loss=squared or dropout=0.1, or C=0.1 for --ranker ranksvm.",
)
@threads_option
@click.option(
    "--preset", type=click.Choice(["paper"]), help="Settings to start from; paper: Algorithm 3.1."
)
@partial(judge_options, several=True)
@click.option(
    "--question",
    metavar="TEXT",
    help="Question to the judge about two documents; default: Which is better?",
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
    overwrite: bool,
    ranker: str,
    as_json: bool,
    logs: tuple[str, ...],
    **_options: Any,  # they are read from `ctx.params`
) -> None:
    """Train a model on labelled queries, or on the judgements of a collection.

    FILE is one table, or LETOR text, of all your queries: whole queries are divided into training,
    validation and test parts (60, 20, 20 %), by a hash of --seed and the query's name. --query,
    --grade and --id name columns; the model remembers names and parts, so that `sortnet evaluate
    m FILE --part test` and `sortnet rank m NEW` need no more. With --query none all rows are one
    query, and the rows are divided. TRAIN and VALI are two such files,
    FOLD_DIR is a folder with train.txt and vali.txt (or .csv ...), or with folders train and vali.
    Tables are CSV, TSV, JSON lines or Parquet, also .gz; several files are a quoted pattern.
    COLLECTION is a name of `sortnet items`, and the run learns from its judgements. If a path has
    the same name, the path is taken; collection:NAME is always the collection.

    In each iteration the comparator sorts all queries, pairs of documents are judged and stored
    (--pairs says which), and the comparator is trained on all stored pairs. By default one
    training is divided among ten iterations. The model is the best iteration by RankQuality on the
    validation part.

    With --judge or --model and --judgements N documents need no grades: a program or a language
    model says which of two is better, as in `sortnet label`, N times at most. A fifth of the
    answers is about the validation part, where accuracy, the share of answers predicted, chooses
    the iteration; the other answers are about pairs that --pairs chooses by the present comparator.
    Grades in the data are ignored. The program reads a line of JSON per pair, {"id",
    "question", "instructions", "group", "context", "left", "right"}, where the group is the query;
    each side has "id", "text", "image", "audio", "shown" (further columns that are no numbers) and
    "features". It answers with a line such as {"answer": "left"}. Each answer is stored at once:
    a resumed run asks no answered question again. After nine failures at ten questions the run ends
    and keeps its answers; after --max-calls and --max-cost nothing more is asked, and the run
    learns from the answers so far. A file FILE.toml may describe the judge, see sortnet label; an
    option replaces the value in the file. --judge or --model may be given several times: the pairs
    are dealt to the judges, each of which answers under its own name, up to --max-calls calls. A
    judge that fails is asked no more, and the others go on.

    \b
    Examples:
      sortnet train all.csv --query search --grade stars --id product
      sortnet train sweets.csv --query none --grade points --bins 5
      sortnet train MQ2008/Fold1
      sortnet train train.txt vali.txt --out m --quality ndcg@10 --committee 5
      sortnet train essays --out judged
      sortnet train all.csv --query search --judge ./judge.py --judgements 200
      sortnet train all.csv --query search --judge qwen.toml --dry-run
      sortnet train MQ2008/Fold1 --ranker ranksvm --out svm --set C=0.1
      sortnet train --resume --out m
      sortnet train new.csv --from m --out newer
    """
    from cli.training.command_judge import print_dry_run
    from cli.training.command_options import checked_judge, run_options, run_settings
    from cli.training.printed_kind import fit_and_print
    from cli.training.printed_run import PrintedRun
    from store.training.run_processes import joined
    from store.training.train_or_resume import resume as resume_run
    from store.training.train_or_resume import train as train_run

    judge = checked_judge(ctx)
    if ranker != "sortnet":
        fit_and_print(ctx)
        return
    settings = run_settings(ctx)
    # Only the first of several processes prints.
    with joined() as group, silent(group.rank > 0), progress() as status:
        watcher = PrintedRun(status, logs, raise_if_signalled, as_json=as_json)
        options = run_options(ctx, judge, watcher, group)
        if ctx.params["dry_run"]:
            print_dry_run(ctx.params, options, settings)
        elif resume:
            resume_run(out, data, options=options, **settings)
        else:
            train_run(data, out, overwrite=overwrite, options=options, **settings)
