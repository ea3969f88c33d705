"""User interface of lines, for scripts and for input that does not come from a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence

from cli.console import say
from cli.terminal.asking import KEYS, QUIT, SET_KEYS, UNDO, Reply
from cli.terminal.question_view import QuestionView, text_lines, view_question
from cli.terminal.set_choice import SetChoice, choice_among
from sortnet.judges.verdicts import REPLIES
from sortnet.messages import printable
from sortnet.preference.base import LONGEST_COMMENT
from store import Lease
from store.service.labelling import LabellingService

_LONGEST = 10_000  # bytes of a line that are read; the rest is ignored
# The lines `comment TEXT` and `flag` add a comment or a flag to the next answer.
_COMMENT = "comment "
_FLAG = "flag"


def _first_keys(keys: Mapping[str, str], outcomes: Sequence[str]) -> dict[str, str]:
    """Map each outcome to the first of its keys."""
    return {outcome: next(key for key in keys if keys[key] == outcome) for outcome in outcomes}


# {outcome: key that messages name for it}, for questions about two items and about more items.
_PAIR_OUTCOMES = _first_keys(KEYS, (*REPLIES, UNDO, QUIT))
_SET_OUTCOMES = _first_keys(SET_KEYS, ("same", "skip", "cant-say", UNDO, QUIT))


def _in_words(outcomes: Mapping[str, str]) -> str:
    """List what an annotator may type: each answer with its key, a flag and a comment."""
    words = [
        f"{outcome} ({key})" if len(key) == 1 else outcome for outcome, key in outcomes.items()
    ]
    return ", ".join([*words, f"{_FLAG} (f)", "comment TEXT"])


class Lines:
    """User interface that prints questions to stderr and reads answers from the lines of stdin."""

    def __init__(self, service: LabellingService) -> None:
        self._service = service
        # The texts that were printed last. They are printed again only when they change.
        self._printed_instructions = ""
        self._printed_explanation = ""

    def ask(self, lease: Lease, status_line: str, renew: Callable[[], bool]) -> Reply:
        """Print a question, and read lines until a line is a reply.

        `renew` is not called: the lease is not extended while the next line is awaited.
        """
        say(status_line)
        study = self._service.study
        view = view_question(self._service.items, lease.question, study.question)
        if study.instructions != self._printed_instructions:
            _say_part("instructions", text_lines(study.instructions))
            self._printed_instructions = study.instructions
        _say_question(view)
        choice = choice_among(len(view.items), is_worst_asked=study.worst)
        explanation = _explain_answers(choice, study.worst)
        if explanation != self._printed_explanation:
            say(f"-- answer with {explanation}")
            self._printed_explanation = explanation
        return self._read_reply(choice, explanation)

    def _read_reply(self, choice: SetChoice | None, explanation: str) -> Reply:
        """Read lines until a line is a reply; QUIT at the end of the input.

        Args:
            choice: state of a choice among more than two items; None: there are two.
            explanation: the possible answers in words.
        """
        started = time.monotonic()
        comment = ""
        flagged = False
        while raw_line := _read_line():
            line = printable(raw_line.decode("utf-8", "replace").strip())
            if line in (_FLAG, "f"):
                flagged = not flagged
                continue
            if line.startswith(_COMMENT):
                comment = _comment_in(line, comment)
                continue
            reply = _parsed_reply(line, choice)
            if isinstance(reply, Reply):
                return reply.after(started, comment, flagged)
            if reply is None:  # the best or the worst item must still be named
                assert choice is not None
                say(choice.prompt)
            else:
                say(f"{reply}; known are {explanation}")
        return Reply(QUIT)

    def notify(self, text: str) -> None:
        say(text)

    def wants_more(self, why: str) -> bool:
        say(f"enough: {why}")
        return False

    def wants_undo(self, why: str) -> bool:
        say(f"{why}; undo (z) withdraws the last answer, anything else quits")
        line = _read_line().decode("utf-8", "replace").strip()
        return KEYS.get(line, line) == UNDO


def _comment_in(line: str, earlier_comment: str) -> str:
    """Return the comment in a line; if it is too long, say so and return the earlier comment."""
    if len(line) > len(_COMMENT) + LONGEST_COMMENT:
        most = f"{LONGEST_COMMENT:,} characters at most"
        say(f"the comment is too long and not kept: {most}")
        return earlier_comment
    return line.removeprefix(_COMMENT).strip()


def _explain_answers(choice: SetChoice | None, is_worst_asked: bool) -> str:
    """List the possible answers to a question in words.

    Args:
        choice: choice among more than two items; None: there are two.
        is_worst_asked: whether the worst item is asked for, too.
    """
    if choice is None:
        return _in_words(_PAIR_OUTCOMES)
    best = "the number of the best"
    if is_worst_asked:
        best += ", then of the worst, or both (2 4)"
    return f"{best}, {_in_words(_SET_OUTCOMES)}"


def _parsed_reply(line: str, choice: SetChoice | None) -> Reply | str | None:
    """Convert a line that the annotator typed to a reply.

    Args:
        line: the line.
        choice: state of a choice among more than two items, which the line may change; None: there
            are two items.

    Returns:
        The reply; a text about what is wrong with the line; or None if the best or the worst item
        must still be named.
    """
    if choice is None:
        outcome = KEYS.get(line, line)
        return Reply(outcome) if outcome in _PAIR_OUTCOMES else f"unknown answer {line[:40]!r}"
    outcome = SET_KEYS.get(line, line)
    if outcome not in _SET_OUTCOMES:
        return choice.choose_by_line(line)
    if choice.best is None or outcome == QUIT:
        return Reply(outcome)
    if outcome == UNDO:
        choice.take_back()
        return None
    if outcome == "same":
        return f"{choice.best + 1} is the best: not all the same"
    return Reply(outcome)


def _read_line() -> bytes:
    """Read the next line, cut if it is too long; empty at the end of the input."""
    line = sys.stdin.buffer.readline(_LONGEST)
    piece = line
    while len(piece) == _LONGEST and not piece.endswith(b"\n"):  # the rest of a long line
        piece = sys.stdin.buffer.readline(_LONGEST)
    return line


def _say_question(view: QuestionView) -> None:
    """Print the question, its context and its items.

    Two items have the titles left and right, more items have numbers.
    """
    titles = ["left", "right"]
    if view.is_set:
        titles = [str(number) for number in range(1, len(view.items) + 1)]
    _say_part("question", view.question)
    _say_part("context", view.context)
    for title, lines in zip(titles, view.items, strict=True):
        _say_part(title, lines)


def _say_part(title: str, lines: Sequence[str]) -> None:
    """Print a part of a question below its title, unless the part is empty."""
    if not lines:
        return
    say(f"-- {title}")
    for line in lines:
        say(line)
