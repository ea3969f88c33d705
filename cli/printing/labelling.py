"""Results about a labelling: its status, questions, judgements and annotators."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import IO, TYPE_CHECKING, Any

from cli.console import say, write_output
from cli.printing.results import Block, Facts, Result, table_of
from sortnet.files import Record, refuse_output, rows_of
from sortnet.judges.budget import amount
from sortnet.judges.trial import EXPECTED, DryRun
from sortnet.messages import count, printable
from sortnet.preference.base import ORDER_ANSWERS
from store.report.columns import TITLES, annotator_row, meanings

if TYPE_CHECKING:
    import pandas as pd

    from sortnet.preference.annotator_agreement import Agreement
    from sortnet.preference.annotator_reports import AnnotatorReport
    from store import Collection
    from store.service.labelling import LabellingService

_GROUPS = 20  # number of groups in the table of agreement; JSON has all groups
_NOT_SHOWN = ("quit", "status", "summary")  # facts about a labelling that JSON does not have
_JUDGEMENTS = ("number", "annotator", "question", "answer", "seconds", "at")
_OPTIONAL = ("p", "cost", "comment")  # columns only if a judgement has a value
_AGREEMENT = ("group", "krippendorff_alpha", "shared_pairs", "consistency", "repeats")
_ANNOTATORS = ("annotator", "answers", *TITLES, "median_seconds", "state", "verdict")


def answers_in_words(service: LabellingService) -> str:
    """Tell the number of answers, and how many people and models gave them.

    The text is empty if nobody has answered.
    """
    judgements = service.session.judgements()
    answers_of = Counter(judgements.annotator[judgements.is_answer].tolist())
    if not answers_of:
        return ""
    names = {name for name, number in judgements.annotators.items() if number in answers_of}
    n_models = len(names.intersection(service.study.models))
    n_people = len(names) - n_models
    texts = []
    if n_people:
        texts.append("1 person" if n_people == 1 else f"{n_people} people")
    if n_models:
        texts.append(count(n_models, "model"))
    return f"{count(answers_of.total(), 'answer')} by {' and '.join(texts)}"


def standing_notes(
    service: LabellingService, group: str | None = None, *, verbose: bool = False
) -> list[str]:
    """Write a line with the number of answers and the distance to the goal, then details.

    Args:
        service: the labelling service of the collection.
        group: name of a group whose distance to the goal is also told, or None.
        verbose: whether to say more about how sure the ranking is.
    """
    from store.service import sentences

    answers = answers_in_words(service)  # such as "9 answers by 2 people"
    remaining = service.remaining
    if not answers:
        notes = [f"no judgements yet: sortnet label {shlex.quote(service.collection.name)}"]
    else:
        notes = [f"{len(service.items)} items, {answers}; {sentences.why(remaining)}"]
        notes += filter(None, [sentences.sets_apart(remaining)])
        if verbose and service.study.set_size > 2:
            notes.append(f"questions are about {service.study.set_size} items")
        if verbose:
            notes += [*sentences.details(remaining), sentences.model_check(remaining)]
    if group is not None:
        notes += _lines_about_group(service, group)
    criterion = service.collection.criterion
    return notes if criterion is None else [f"{criterion}: {note}" for note in notes]


def _lines_about_group(service: LabellingService, group: str) -> list[str]:
    """Tell the number of items and answers of a group, and how much of its order may be wrong.

    There is no line if the items have no groups, or no model was fitted yet.
    """
    from store.service.sentences import expected_errors

    groups_of_items = service.items.groups
    standings = service.remaining.groups
    if groups_of_items is None or not standings:
        return []
    group_names = list(dict.fromkeys(groups_of_items))  # the standings have this order
    standing = standings[group_names.index(group)]
    counts = f"{count(standing.items, 'item')}, {count(standing.answers, 'answer')}"
    errors = expected_errors(service.remaining.goal, standing.wrong)
    return [f"{printable(group)}: {counts}; {errors}"]


def labelled_result(labelled: Sequence[Record], criterion: str | None = None) -> Result:
    """Make the result with a row for each annotator and criterion.

    Args:
        labelled: the facts about each annotator and criterion.
        criterion: the criterion, if all facts are about the same criterion.
    """
    rows = [
        {name: fact for name, fact in facts.items() if name not in _NOT_SHOWN} for facts in labelled
    ]
    lines = [line for facts in labelled for line in _lines(facts, criterion)]
    # Annotators of the same criterion have the same status line. It is printed once, after the
    # last annotator.
    lines_from_last = dict.fromkeys(reversed(lines))
    return Result("labelled", rows, text=[*reversed(lines_from_last)])


def _lines(facts: Record, criterion: str | None) -> list[str]:
    """Write the number of answers and why the labelling ended, the cost if known, and the status.

    If the reason begins with the status, or the status with the reason, only the longer text is
    printed.
    """
    from store.asking.machine import AnswerSummary, cost_text

    annotator = facts["annotator"]
    name = annotator if criterion is None else f"{annotator}, {criterion}"
    # Of a person nothing else is told.
    summary = facts.get("summary") or AnswerSummary(facts["answered"], facts["in_all"]).text
    answered = f"{name}: {summary}"
    cost = cost_text(facts.get("cost_in_all"))
    shorter, longer = sorted([facts["why"], facts["status"]], key=len)
    if longer.startswith(shorter):
        return [*filter(None, [answered, cost]), longer]
    return [*filter(None, [f"{answered}; {facts['why']}", cost]), facts["status"]]


def questions_result(questions: Sequence[Record]) -> Result:
    """Make the result with a few lines for the question of each criterion.

    Args:
        questions: facts about each question, as `store.service.questions.question_facts` returns
            them.
    """
    from sortnet.preference.stopping import WRONG, Goal
    from store.service.sentences import goal_in_words

    text = list[Block]()
    for question in questions:
        text.append(f"{printable(question['name'])}: {printable(question['question'])}")
        n_words = len(question["instructions"].split())
        overlap = question["overlap"]
        set_size = question["set_size"]
        choice = "the best and the worst" if question["worst"] else "the best"
        settings = {
            "  instructions": count(n_words, "word") if n_words else "none",
            "  goal": goal_in_words(Goal(question["goal"] or WRONG, question["top"] or 0)),
            "  deadline": question["deadline"] or "none",
            "  overlap": f"{overlap} answers a pair" if overlap > 1 else "",
            "  items": f"{set_size} a question: {choice}" if set_size > 2 else "",
            "  quota": [
                f"{annotator}: {count(n_answers, 'answer')}"
                for annotator, n_answers in question["quotas"].items()
            ],
            "  models": ", ".join(question["models"]),
            "  judgements": f"{question['judgements']}, with skips and undos",
        }
        text.append(Facts(settings))
    return Result("questions", questions, text=text)


def judgements_result(name: str, frame: pd.DataFrame, limit: int) -> Result:
    """Make the result with a row for each of the newest judgements, oldest first.

    A note counts the answers about the order of items, without undone judgements and judgements of
    excluded annotators. Without judgements, the next step is the command that asks annotators.

    Args:
        name: name of the collection.
        frame: all judgements, as `Collection.judgements_frame` makes it.
        limit: most judgements that are shown.
    """
    rows = rows_of(frame.tail(limit))
    for row in rows:
        row["at"] = row["at"] and row["at"].replace(" ", "T")  # ISO 8601, if the time is known
    if not rows:
        command = f"sortnet label {name}"
        return Result("judgements", rows, next=command, proposal=f"no judgements yet: {command}")
    optional = [name for name in _OPTIONAL if any(row[name] is not None for row in rows)]
    n_older = len(frame) - len(rows)
    older = f", {n_older} older ones not shown (--limit)" if n_older else ""
    counted = frame[frame["answer"].isin(ORDER_ANSWERS) & ~frame["undone"] & ~frame["excluded"]]
    annotators = count(counted["annotator"].nunique(), "annotator")
    counts = f"{count(len(counted), 'answer')} of {annotators}"
    table = table_of(map(_judgement_row, rows), [*_JUDGEMENTS, *optional])
    return Result("judgements", rows, text=[table], notes=[f"{counts}{older}"])


def _judgement_row(row: Record) -> Record:
    """Make the row of a judgement in the table of judgements."""
    milliseconds = row["milliseconds"]
    seconds = None if milliseconds is None else milliseconds / 1000
    question = ", ".join(row["items"])
    return {**row, "question": question, "answer": _answer(row), "seconds": seconds}


def _answer(row: Record) -> str:
    """Write an answer: its items, and whether the judgement is undone or excluded."""
    if row["answer"] == "undo":
        return f"undo of {row['undoes']}"
    text: str = row["answer"]
    if text == "best":
        text = f"best {row['best']}"
        if row["worst"] is not None:
            text += f", worst {row['worst']}"
    if row["undone"]:
        text += " (undone)"
    if row["excluded"]:
        text += " (excluded)"
    return text


def imported_result(name: str, n_added: int, n_known: int) -> Result:
    """Make the result with the number of judgements that a file added to a collection.

    Args:
        name: name of the collection.
        n_added: number of judgements that were added.
        n_known: number of judgements that were stored before.
    """
    value = {"collection": name, "added": n_added, "known": n_known}
    line = f"{name}: {n_added} judgements added"
    if n_known:
        line += f", {n_known} already known"
    return Result("imported", value, text=[line])


def export_to(output: str, collection: Collection, form: Any, **options: Any) -> None:
    """Write judgements to a file, or to stdout (`-`), and print their number on stderr.

    Args:
        output: path of the file, or `-`.
        collection: the collection that has the judgements.
        form: format of the file, see `write_judgements`.
        options: further arguments of `write_judgements`.
    """
    from store.collections.judgement_files import FORMS_OF_PAIRS
    from store.service.judged_queries import write_judgements

    n_written = 0

    def write(file: IO[str]) -> None:
        nonlocal n_written
        n_written = write_judgements(collection, file, form, **options)

    refuse_output(output, collection.items().source)
    write_output(output, write)
    unit = "pair" if form in FORMS_OF_PAIRS else "judgement"
    message = f"{count(n_written, unit)} of {collection.name}"
    if n_written == 0:
        message += f" yet: sortnet label {shlex.quote(collection.name)}"
    say(message if output == "-" else f"{output}: {message}")


def annotators_result(collection: str, reports: Sequence[AnnotatorReport]) -> Result:
    """Make the result with a row for each annotator.

    The next step excludes an annotator whose answers do harm.

    Args:
        collection: name of the collection.
        reports: a report for each annotator.
    """
    from sortnet.preference.annotator_reports import FINE

    if not reports:
        command = f"sortnet label {shlex.quote(collection)}"
        return Result("annotators", [], next=command, proposal=f"no annotators yet: {command}")
    rows = []
    exclude_commands = []
    for report in reports:
        # FINE has the verdicts that report no fault. An excluded annotator does no harm.
        is_harmful = report.verdict not in FINE and report.state != "excluded"
        rows.append({**asdict(report), "exclude": is_harmful})
        if is_harmful:
            arguments = ["exclude", collection, report.name, "--reason", report.verdict]
            command = shlex.join(["sortnet", "annotators", *map(printable, arguments)])
            exclude_commands.append(command)
    # The text shows all commands. JSON has room for one command, which is the first.
    first_command = exclude_commands[0] if exclude_commands else None
    proposal = "\n".join(f"next: {command}" for command in exclude_commands)
    table = table_of(map(annotator_row, rows), _ANNOTATORS)
    notes = meanings(_ANNOTATORS)
    return Result("annotators", rows, [table], notes, next=first_command, proposal=proposal)


def agreement_result(
    name: str, overall: Agreement, groups: Sequence[tuple[str, Agreement]]
) -> Result:
    """Make the result with a row for the collection, and a row for each of the first groups.

    Args:
        name: name of the collection.
        overall: agreement over all items.
        groups: name and agreement of each group, the least alpha first.
    """
    by_group = [{"group": group, **asdict(agreement)} for group, agreement in groups]
    value = {"collection": name, **asdict(overall), "groups": by_group}
    if not overall.shared_pairs and not overall.repeats:
        reason = "no pair has two annotators, no answer is repeated"
        command = f"sortnet label {shlex.quote(name)}"
        sentence = f"{name}: nothing to compare yet, {reason}: {command}"
        return Result("agreement", value, next=command, proposal=sentence)
    notes = meanings(_AGREEMENT)
    n_more = len(groups) - _GROUPS
    if n_more > 0:
        notes.append(f"{count(n_more, 'group')} more with --json")
    table = table_of([{"group": name, **asdict(overall)}, *by_group[:_GROUPS]], _AGREEMENT)
    return Result("agreement", value, text=[table], notes=notes)


def dry_run_result(runs: Sequence[DryRun]) -> Result:
    """Make the result with a question for each judge, and the calls, tokens and cost."""
    text: list[str] = []
    for run in runs:
        text += [f"a question to {_name(run.judge, run.to)}:", "", run.question, ""]
        text.append(f"every item once: {run.once}")
        text.append(f"each further 100 questions: {run.hundred}")
        if run.planned is not None:
            text.append(f"{run.planned.pairs:,} answers: {run.planned}")
        text.append("")
    text.append("nothing was sent")
    return Result("dry_run", [asdict(run) for run in runs], text=text)


def _name(judge: str, address: str) -> str:
    """Name a judge, with its server; the name of a program is its command."""
    return judge if judge == address else f"{judge} at {address}"


def judge_check_result(check: Record) -> Result:
    """Make the result of asking a judge one question, see `check_judge`."""
    name = _name(check["judge"], check["to"])
    fault = check["fault"]
    if fault is not None:
        name = check["judge"] if check["to"] in fault else name
        return Result("judge", check, text=[f"{name}: {' '.join(fault.split())}"])
    probability = "none" if check["p"] is None else f"{check['p']:.3g}"
    answer = check["answer"]
    text = [
        f"{name} answered in {check['milliseconds']:,} ms",
        f"answer       {answer}",
        f"probability  {probability}",
    ]
    if check["calls"]:
        cost = "not known" if check["cost"] is None else amount(check["cost"])
        tokens = count(check["tokens_in"] + check["tokens_out"], "token")
        text += [
            f"JSON schema  {'yes' if check['structured'] else 'no'}",
            f"calls        {check['calls']}, {tokens}",
            f"cost         {cost}",
        ]
    notes = [f"the answer to an easy question is {answer}, not {EXPECTED}"]
    return Result("judge", check, text=text, notes=notes[answer == EXPECTED :])
