"""`sortnet annotators`: show how reliable annotators are, and exclude or pause them."""

from __future__ import annotations

from typing import Any

import click

from cli.console import put, say
from cli.options import Real, files, store_and_json, store_option
from cli.printing.labelling import agreement_result, annotators_result
from cli.printing.results import print_result
from sortnet.messages import count, printable
from sortnet.preference.base import P_IN_WORDS, PROBABILITIES
from store.service.existing_store import open_collection


class _ListedGroup(click.Group):
    """A group that runs its command `list` if no command is typed."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; `list` is put in front of the name of a collection."""
        if not args:
            return super().parse_args(ctx, args)
        first_word = args[0]
        is_collection = first_word not in (*self.commands, *ctx.help_option_names)
        if is_collection:
            args = ["list", *args]
        return super().parse_args(ctx, args)


@click.group(
    "annotators", cls=_ListedGroup, short_help="Show who is reliable; exclude, pause, gold pairs."
)
def annotators() -> None:
    """Show how reliable the annotators of a collection are, and act on it.

    Every action is stored, and the last one counts. `sortnet annotators NAME` is short for
    `sortnet annotators list NAME`.

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
    (reliability below 0.95: no fault, the answers weigh less). `next: exclude` is printed for an
    annotator with a fault.

    \b
    Examples:
      sortnet annotators list essays
      sortnet annotators list essays --json
    """
    from store.service.labelling import report_annotators

    with open_collection(store, name) as collection:
        reports = report_annotators(collection)
    print_result(annotators_result(name, reports), as_json=as_json)


@annotators.command(short_help="Measure how much the annotators agree.")
@click.argument("name")
@store_and_json
def agreement(name: str, store: str | None, as_json: bool) -> None:
    """Measure how much the annotators of the collection NAME agree, from the answers alone.

    Prints Krippendorff's alpha (nominal, ties are a third answer; each annotator's first answer
    counts) with the number of pairs that two annotators or more have answered, and the share of
    repeated answers that are the same as before. If items have groups, the same is printed for
    each group, the lowest alpha first. Excluded annotators do not count.

    Annotators disagree more on pairs of close items, which are asked more often, so alpha is lower
    than on random pairs; `sortnet annotators` shows the expected agreement of each annotator.

    \b
    Examples:
      sortnet annotators agreement essays
      sortnet annotators agreement essays --json
    """
    from sortnet.preference import annotator_agreement

    with open_collection(store, name) as collection, collection.transaction():
        judgements = collection.counted_judgements()
        groups = collection.items().groups
    by_group = annotator_agreement.agreement_by_group(judgements, groups)
    overall = annotator_agreement.agreement(judgements)
    print_result(agreement_result(name, overall, by_group), as_json=as_json)


# {name of a command, and kind of the decision that it stores: (kind of the opposite decision, text
# that is printed after each of both, help text)}
_ACTIONS = {
    "exclude": (
        "include",
        "excluded from {name}; the judgements stay stored",
        "included in {name} again",
        """\
    Exclude ANNOTATOR from the collection NAME: their judgements no longer count.

    The judgements stay stored and exported, in a column `excluded`; rankings, agreement and
    training leave them out. The annotator is asked nothing more. --undo lets them count again.

    \b
    Examples:
      sortnet annotators exclude essays eve --reason 'answers at random'
      sortnet annotators exclude paused dan --undo
    """,
    ),
    "pause": (
        "resume",
        "paused",
        "resumed",
        """\
    Pause ANNOTATOR, or else the whole collection NAME: no questions until --undo.

    \b
    Examples:
      sortnet annotators pause essays eve
      sortnet annotators pause paused --undo
    """,
    ),
    "revoke": (
        "renew",
        "the link is revoked",
        "has a new link, which sortnet serve shows",
        """\
    Revoke the link of ANNOTATOR to the page of the collection NAME.

    --undo gives a new link, which `sortnet serve` and its admin page show; the old link does not
    work again.

    \b
    Examples:
      sortnet annotators revoke essays eve
      sortnet annotators revoke essays eve --undo
    """,
    ),
}


def _add_action(kind: str, opposite: str, done: str, undone: str, help_text: str) -> None:
    """Add the command for a kind of decision to the group `annotators`."""

    @annotators.command(kind, help=help_text)
    @click.argument("name")
    @click.argument("annotator", required=kind != "pause")
    @click.option("--undo", is_flag=True, help="Take the action back.")
    @click.option("--reason", metavar="TEXT", help="Reason, which is stored.")
    @store_option
    def decide(
        name: str, annotator: str | None, undo: bool, reason: str | None, store: str | None
    ) -> None:
        from sortnet.preference.study import Decision

        decision = Decision(opposite if undo else kind, annotator=annotator, reason=reason)
        with open_collection(store, name, write=True) as collection:
            collection.decide(decision)
        outcome = undone if undo else done
        subject = annotator or name  # without an annotator, the whole collection is paused
        put(f"{printable(subject)}: {outcome.format(name=name)}")


for _kind, _action in _ACTIONS.items():
    _add_action(_kind, *_action)


@annotators.command(short_help="Set what the probabilities of an annotator mean.")
@click.argument("name")
@click.argument("annotator")
@click.argument("kind", type=click.Choice(PROBABILITIES))
@store_option
def probabilities(name: str, annotator: str, kind: Any, store: str | None) -> None:
    """Set what the probabilities mean that ANNOTATOR gives with answers in the collection NAME.

    A measurement tells how large the difference of two items is: its scale and its error are
    learned, and if the probabilities tell nothing about the errors, only the words count. Programs
    and language models that sortnet label asks begin with measurements. A share is a share of
    votes, 0.7 for 7 of 10; imports begin with shares. If probabilities are ignored, only the words
    count.

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
    """Add the pairs of FILE as gold pairs: their answer is known, and annotators are scored by it.

    FILE is CSV or JSONL with winner and loser, or left, right and answer, items named by their
    ids. One question in twenty is about a gold pair (--rate). The known answers count in the
    ranking and measure the annotators, but train no comparator.

    \b
    Examples:
      sortnet annotators gold essays gold.csv
      sortnet annotators gold essays --rate 0.1
    """
    from store.service.questions import change_gold

    if file is None and rate is None:
        raise click.UsageError("a FILE of gold pairs or --rate SHARE is needed")
    with open_collection(store, name, write=True) as collection:
        study, n_known = change_gold(collection, file, rate, remove=remove)
    if n_known:
        say(f"{count(n_known, 'pair')} of {file} already known")
    pairs = count(len(study.gold), "gold pair")
    put(f"{name}: {pairs}; {study.gold_rate:.0%} of the questions, as far as there are some")
