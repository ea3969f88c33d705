"""`sortnet annotators`: what is known of each annotator, and what to do about a bad one."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from cli.options import Real, files, refuse_gone, store_and_json, store_option
from cli.output import put, say
from cli.printing.results import Column, Result, Step, Table, print_result
from sortnet.items import Items
from sortnet.messages import count, printable
from sortnet.preference.annotator_agreement import Agreement
from sortnet.preference.annotator_agreement import agreement as measured
from sortnet.preference.base import P_IN_WORDS, PROBABILITIES
from sortnet.preference.judgement_table import Judgements
from store.service.existing_store import open_collection

if TYPE_CHECKING:
    from sortnet.preference.annotator_reports import AnnotatorReport, Measured

_ABOUT = (
    "reliability: 1 for the average annotator, 0 for coin tosses, below 0 for the worse item; "
    "90 % intervals in brackets",
    "with others, with self: share of answers that are the same / expected of average annotators",
)

_SHOWN = 20  # groups in the table of agreement
_ABOUT_AGREEMENT = (
    "alpha: Krippendorff's, over the pairs with two annotators or more; 1 is perfect, 0 is chance",
    "with self: share of the repeated answers that are as before; cycles: share of the triples",
)


class _ListedGroup(click.Group):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if len(args) > 1 and not args[1].startswith("-"):
            refuse_gone(ctx, args[0])
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = ["list", *args]
        return super().parse_args(ctx, args)


@click.group(
    "annotators", cls=_ListedGroup, short_help="Show who is reliable; exclude, pause, gold pairs."
)
def annotators() -> None:
    """Show how reliable the annotators of a collection are, and act on it.

    Every action is stored as an event and undone by its opposite. `sortnet annotators NAME` is
    short for `sortnet annotators list NAME`.

    \b
    Examples:
      sortnet annotators essays
      sortnet annotators exclude essays eve --reason 'answers at random'
    """


@annotators.command("list", short_help="Show a row for each annotator.")
@click.argument("name")
@store_and_json
def list_(name: str, store: str | None, as_json: bool) -> None:
    """Show a row for each annotator of the collection NAME.

    Prints the number of answers, reliability and side bias with intervals, agreement with others
    and with oneself beside what is expected on the same pairs, the gold score, the median time
    and a verdict. A verdict needs 20 answers and a 90 % interval that is clear: "always left" (more
    than 0.8 of the answers), "inverted" (reliability below 0, and perhaps below -0.5), "answers at
    random" (below 0.95, and perhaps below 0.2), "unreliable" (below 0.5), "wrong on gold pairs"
    (fewer than half right), "too fast" (median below 0.7 seconds), "below average: counts less"
    (reliability below 0.95: no fault, the answers weigh less). `next: exclude` is printed where the
    held-out answers of the others are predicted better without theirs.

    \b
    Examples:
      sortnet annotators list essays
      sortnet annotators list essays --json
    """
    from sortnet.preference.annotator_reports import FINE
    from store.service.labelling import LabellingService

    with open_collection(store, name) as collection:
        service = LabellingService(collection)
        service.settle()
        reports = service.reports([who.name for who in collection.annotators()])
        bad = [r.name for r in reports if r.verdict not in FINE and r.state != "excluded"]
        harmful = [who for who in bad if service.session.better_without(who)]
    print_result(_annotators_result(name, reports, harmful), as_json=as_json)


def _annotators_result(
    name: str, reports: Sequence[AnnotatorReport], harmful: Sequence[str]
) -> Result:
    """A row for each annotator; the next step excludes one whose answers do harm."""
    if not reports:
        command = f"sortnet label {shlex.quote(name)}"
        return Result("annotators", [], next=Step(command, f"no annotators yet: {command}"))
    rows = [asdict(report) | {"exclude": report.name in harmful} for report in reports]
    steps = []
    for report in reports:
        if report.name in harmful:
            action = ["exclude", name, report.name, "--reason", report.verdict]
            steps.append(shlex.join(["sortnet", "annotators", *map(printable, action)]))
    lines = "\n".join(f"next: {step}" for step in steps)
    step = Step(steps[0], lines) if steps else None
    return Result("annotators", rows, text=[Table(_COLUMNS, reports)], notes=_ABOUT, next=step)


def _measured(value: Measured | None) -> str:
    return "-" if value is None else f"{value.value:.2f} [{value.low:.2f},{value.high:.2f}]"


def _shares(observed: float | None, expected: float | None) -> str:
    return "-" if observed is None else f"{observed:.2f} / {expected:.2f}"


def _seconds(report: AnnotatorReport) -> str:
    return "-" if report.median_seconds is None else f"{report.median_seconds:.1f}"


_COLUMNS = [
    Column("annotator", lambda report: printable(report.name)),
    Column("answers", lambda report: str(report.answers)),
    Column("reliability", lambda report: _measured(report.reliability)),
    Column("side bias", lambda report: _measured(report.side_bias)),
    Column("with others", lambda report: _shares(report.agreement, report.expected_agreement)),
    Column("with self", lambda report: _shares(report.consistency, report.expected_consistency)),
    Column("gold", lambda report: _measured(report.gold)),
    Column("seconds", _seconds),
    Column("state", lambda report: f"{report.state} model" if report.model else report.state),
    Column("verdict", lambda report: report.verdict or "-"),
]


@annotators.command(short_help="Measure how much the annotators agree.")
@click.argument("name")
@store_and_json
def agreement(name: str, store: str | None, as_json: bool) -> None:
    """Measure how much the annotators of the collection NAME agree, from the answers alone.

    Prints Krippendorff's alpha (nominal, ties are a third answer; each annotator's first answer
    counts) with the number of pairs that two annotators or more have answered, the share of
    repeated answers that are the same as before, and the share of cycles (a over b over c over a)
    among the triples of items of which all pairs are decided, each with its number. Where items
    have groups, also for each group, the least alpha first. Excluded annotators do not count.

    Annotators disagree more on pairs of close items, which are asked more often, so alpha is lower
    than on random pairs; `sortnet annotators` shows for each annotator what is to be expected.

    \b
    Examples:
      sortnet annotators agreement essays
      sortnet annotators agreement essays --json
    """
    with open_collection(store, name) as collection:
        judgements, items = collection.counted_judgements(), collection.items()
    found, groups = _agreement_of(judgements, items)
    print_result(_agreement_result(name, found, groups), as_json=as_json)


def _agreement_result(
    name: str, found: Agreement, groups: Sequence[tuple[str, Agreement]]
) -> Result:
    """The agreement in the collection and in each group, the least alpha first."""
    by_group = [{"group": group, **asdict(agreement)} for group, agreement in groups]
    value = {"collection": name, **asdict(found), "groups": by_group}
    if not (found.shared_pairs or found.repeats or found.triples):
        why = "no pair has two annotators, no answer is repeated, no three items are compared"
        command = f"sortnet label {shlex.quote(name)}"
        sentence = f"{name}: nothing to compare yet, {why}: {command}"
        return Result("agreement", value, next=Step(command, sentence))
    notes = list(_ABOUT_AGREEMENT)
    if len(groups) > _SHOWN:
        notes.append(f"{count(len(groups) - _SHOWN, 'group')} more with --json")
    table = Table(_AGREEMENT, [(name, found), *groups[:_SHOWN]])
    return Result("agreement", value, text=[table], notes=notes)


def _share(share: float | None) -> str:
    return "-" if share is None else f"{share:.2f}"


_AGREEMENT = [
    Column("", lambda row: printable(row[0]), cut="end"),
    Column("alpha", lambda row: _share(row[1].krippendorff_alpha)),
    Column("shared pairs", lambda row: str(row[1].shared_pairs)),
    Column("with self", lambda row: _share(row[1].consistency)),
    Column("repeats", lambda row: str(row[1].repeats)),
    Column("cycles", lambda row: _share(row[1].cycles)),
    Column("triples", lambda row: str(row[1].triples)),
]


def _agreement_of(
    judgements: Judgements, items: Items
) -> tuple[Agreement, list[tuple[str, Agreement]]]:
    """The agreement over all, and of each group with judgements, the least alpha first."""
    groups = []
    if items.groups is not None and len(judgements):
        of = np.unique(items.groups, return_inverse=True)[1][judgements.left]
        rows = np.argsort(of, kind="stable")
        each = np.split(rows, np.flatnonzero(np.diff(of[rows])) + 1)
        for some in sorted(each, key=lambda some: int(some[0])):  # by the first judgement
            group = items.groups[judgements.left[some[0]]]
            groups.append((group, measured(judgements.where(some))))
    alpha = [(2.0 if (a := each.krippendorff_alpha) is None else a) for _, each in groups]
    order = sorted(range(len(groups)), key=alpha.__getitem__)
    return measured(judgements), [groups[k] for k in order]


# What each action and its opposite say when they are done, and the help.
_ACTIONS = {
    "exclude": (
        *(
            "include",
            "excluded from {name}; the judgements stay stored",
            "included in {name} again",
        ),
        """Exclude ANNOTATOR from the collection NAME: their judgements no longer count.

    The judgements stay stored and exported, in a column `excluded`; rankings, agreement and
    training leave them out. The annotator is asked nothing more. --undo lets them count again.

    \b
    Examples:
      sortnet annotators exclude essays eve --reason 'answers at random'
      sortnet annotators exclude paused dan --undo
    """,
    ),
    "pause": (
        *("resume", "paused", "resumed"),
        """Pause ANNOTATOR, or without one the whole collection NAME: no questions until --undo.

    \b
    Examples:
      sortnet annotators pause essays eve
      sortnet annotators pause paused --undo
    """,
    ),
    "revoke": (
        *("renew", "the link is revoked", "has a new link, which sortnet serve shows"),
        """Revoke the link of ANNOTATOR to the page of the collection NAME.

    --undo gives a new link, which `sortnet serve` and its admin page show; the old one, revoked or
    not, is nobody's from then on.

    \b
    Examples:
      sortnet annotators revoke essays eve
      sortnet annotators revoke essays eve --undo
    """,
    ),
}


def _add_action(kind: str, opposite: str, done: str, undone: str, text: str) -> None:
    @annotators.command(kind, help=text)
    @click.argument("name")
    @click.argument("annotator", required=kind != "pause")
    @click.option("--undo", is_flag=True, help="Do the opposite.")
    @click.option("--reason", metavar="TEXT", help="Reason, which is stored.")
    @store_option
    def action(
        name: str, annotator: str | None, undo: bool, reason: str | None, store: str | None
    ) -> None:
        from sortnet.preference.study import Decision

        made = Decision(opposite if undo else kind, annotator=annotator, reason=reason)
        with open_collection(store, name, write=True) as collection:
            collection.decide(made)
        said = (undone if undo else done).format(name=name)
        put(f"{printable(annotator or name)}: {said}")


for _kind, _facts in _ACTIONS.items():
    _add_action(_kind, *_facts)


@annotators.command(short_help="Say what the probabilities of an annotator are.")
@click.argument("name")
@click.argument("annotator")
@click.argument("kind", type=click.Choice(PROBABILITIES))
@store_option
def probabilities(name: str, annotator: str, kind: Any, store: str | None) -> None:
    """Say what the probabilities are that ANNOTATOR gives beside answers in the collection NAME.

    A measurement says how large the difference of two items is: its scale and its error are
    learned, and probabilities that say nothing of the errors count as words. Programs and language
    models that sortnet label asks begin with measurements. A share is a share of votes, 0.7 for 7
    of 10; imports begin with shares. Ignored are all probabilities: only the words count.

    \b
    Examples:
      sortnet annotators probabilities essays eve measurement
      sortnet annotators probabilities essays eve ignored
    """
    from sortnet.preference.study import Decision

    with open_collection(store, name, write=True) as collection:
        collection.decide(Decision(f"p-{kind}", annotator))
    put(f"{printable(annotator)}: p is {P_IN_WORDS[kind]} in {name}; the ranking is computed again")


@annotators.command()
@click.argument("name")
@click.argument("file", required=False, shell_complete=files)
@click.option("--rate", type=Real(0, 1), metavar="SHARE", help="Share of gold questions.")
@click.option("--remove", is_flag=True, help="Remove the pairs of FILE from the gold pairs.")
@store_option
def gold(name: str, file: str | None, rate: float | None, remove: bool, store: str | None) -> None:
    """Add the pairs of FILE as gold pairs: their answer is known, and each annotator is scored.

    FILE is CSV or JSONL with winner and loser, or left, right and answer, items named by their
    ids. One question in twenty is about a gold pair (--rate). The known answers count in the
    ranking and measure the annotators, but train no comparator.

    \b
    Examples:
      sortnet annotators gold essays gold.csv
      sortnet annotators gold essays --rate 0.1
    """
    from sortnet.preference.study import Decision
    from store.collections.gold_file import read_gold

    if file is None and rate is None:
        raise click.UsageError("a FILE of gold pairs or --rate SHARE is needed")
    with open_collection(store, name, write=True) as collection:
        items = collection.items()
        pairs = [] if file is None else read_gold(file, items, remove=remove)
        rates = [] if rate is None else [Decision("gold-rate", amount=rate)]
        made = collection.decide(*pairs, *rates)
        study = collection.study()
    known = len(pairs) + len(rates) - len(made)
    if known:
        say(f"{count(known, 'pair')} of {file} already known")
    pairs_now = count(len(study.gold), "gold pair")
    put(f"{name}: {pairs_now}; {study.gold_rate:.0%} of the questions, as far as there are some")
