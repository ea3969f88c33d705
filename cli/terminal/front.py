"""User interface of an annotator: a question is shown, and answered in words or by their keys."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from cli.console import say
from sortnet.items import Items
from sortnet.judges.verdicts import REPLIES, SET_REPLIES
from sortnet.messages import printable
from sortnet.preference import Judgement, Question
from sortnet.preference.base import LONGEST_COMMENT, Word

if TYPE_CHECKING:
    from sortnet.preference.study import Study
    from store.service.labelling import LabellingService

# Replies to a question that are not answers.
UNDO = "undo"
QUIT = "quit"
MORE = "more"  # continues after the goal is reached
FLAG = "flag"  # flags the question for the administrator, or takes the flag back
COMMENT = "comment "  # begins a comment, which is stored with the answer
# {key: its word}; a typed line may be a key, too. In a terminal, keys have names.
KEYS = {
    "s": "skip",
    "space": "skip",
    "?": "cant-say",
    "z": UNDO,
    "u": UNDO,
    "backspace": UNDO,
    "q": QUIT,
    "m": MORE,
    "f": FLAG,
}
_FURTHER = "skip (s), cant-say (?), undo (z), quit (q), flag (f), comment TEXT"
_MOST_FEATURES = 20  # number of features that are shown of an item without text or media

Part: TypeAlias = tuple[str, str]  # title and text


class Kind(NamedTuple):
    """Keys and words that may be typed at a question.

    Attributes:
        keys: {key: its word}.
        answers: the words that are answers.
        explanation: the answers and their keys, for the annotator.
    """

    keys: Mapping[str, str]
    answers: tuple[Word, ...]
    explanation: str


PAIR = Kind(
    KEYS | {"1": "left", "2": "right", "0": "tie", "=": "tie", "down": "tie"},
    REPLIES,
    f"left (1), right (2), tie (0), {_FURTHER}",
)
SET = Kind(
    KEYS | {"0": "same", "=": "same", "down": "same"},
    SET_REPLIES,
    "the numbers of the best and of the worst, if it is asked for (2 4), same (0), " + _FURTHER,
)
_NUMBERS = re.compile(r"[1-9]([ ,]+[1-9])?")


class Front:
    """User interface that prints questions to stderr and reads answers from the lines of stdin.

    `Screen` is the same for somebody at a terminal.

    Args:
        service: labelling service, which has the items and the study.
    """

    def __init__(self, service: LabellingService) -> None:
        self._service = service
        # The texts that were printed last. They are printed again only when they change.
        self._printed_instructions = ""
        self._printed_explanation = ""

    def ask(self, question: Question, annotator: str, status_line: str) -> Judgement | str:
        """Show a question, and read until there is an answer.

        An answer with a comment has no time, because a part of it was spent on writing.

        Args:
            question: the question.
            annotator: name of the annotator, who gives the answer.
            status_line: status of the labelling.

        Returns:
            The answer, or UNDO or QUIT.
        """
        study = self._service.study
        if study.instructions and study.instructions != self._printed_instructions:
            self._printed_instructions = study.instructions
            self.show_instructions(study)
        kind = PAIR if len(question.items) == 2 else SET
        parts = parts_of_question(self._service.items, question, study.question)
        self.show(parts, status_line, kind.explanation)
        started = time.monotonic()
        facts: dict[str, Any] = {}  # comment and flag
        places: list[int] = []  # places of the best and the worst of more than two items
        n_places = 2 if study.worst else 1
        while True:
            word = self.read()
            word = kind.keys.get(word, word)
            if word == UNDO and places:
                places.clear()
                self.notify("which is the best?")
            elif word in (UNDO, QUIT):
                return word
            elif word == FLAG or word.startswith(COMMENT):
                self._note_remark(word, facts)
            elif word in kind.answers:
                return question.answered(annotator, word, **_timed(facts, started))
            elif named_places := _places_in(word, question):
                places += named_places
                if self._are_complete(places, n_places):
                    return question.answered_by_place(annotator, *places, **_timed(facts, started))
            else:
                self.notify(f"unknown answer {word[:40]!r}; known are {kind.explanation}")

    def _are_complete(self, places: list[int], n_places: int) -> bool:
        """Whether the best item, and the worst if it is asked for, are chosen; if not, say why.

        Args:
            places: places that the annotator has named; cleared if they are no choice.
            n_places: number of places to name.
        """
        if len(places) < n_places:
            number = places[0] + 1
            choices = f"{number}: take it back, 0: all are the same"
            self.notify(f"{number} is the best: which is the worst? ({choices})")
            return False
        if len(places) == n_places == len({*places}):
            return True
        places.clear()
        choice = "the best" if n_places == 1 else "the best, then another item as the worst"
        self.notify(f"nothing is chosen: name {choice}")
        return False

    def show_instructions(self, study: Study) -> None:
        """Show the instructions of a study, which are new or have changed."""
        _say_part("instructions", harmless(study.instructions))

    def show(self, parts: Sequence[Part], status_line: str, explanation: str) -> None:
        """Show a question and the status of the labelling.

        Args:
            parts: texts of the question.
            status_line: status of the labelling.
            explanation: what may be typed at the question.
        """
        say(printable(status_line))
        for title, text in parts:
            _say_part(title, text)
        if explanation != self._printed_explanation:
            say(f"-- answer with {explanation}")
            self._printed_explanation = explanation

    def read(self) -> str:
        """Read the next word, or the key of a word; QUIT at the end of the input."""
        line = sys.stdin.buffer.readline()
        return printable(line.decode("utf-8", "replace").strip()) if line else QUIT

    def notify(self, text: str) -> None:
        """Show a message."""
        say(text)

    def confirm(self, text: str, *expected: str) -> str:
        """Show a message until the annotator types an expected word or QUIT; return the word."""
        self.notify(text)
        while True:
            word = self.read()
            word = KEYS.get(word, word)
            if word in (*expected, QUIT):
                return word

    def _note_remark(self, word: str, facts: dict[str, Any]) -> None:
        """Note a flag or a comment that is stored with the answer.

        A flag takes an earlier flag back. A comment that is too long is refused.
        """
        comment = word.removeprefix(COMMENT).strip()
        if word == FLAG:
            facts["flagged"] = None if facts.get("flagged") else True
            self.notify("flagged" if facts["flagged"] else "not flagged")
        elif len(comment) > LONGEST_COMMENT:
            most = f"{LONGEST_COMMENT:,} characters at most"
            self.notify(f"the comment is too long and not kept: {most}")
        else:
            facts["comment"] = comment or None


def _places_in(word: str, question: Question) -> list[int]:
    """Return the places, from 0, of the one or two items that a word names by their numbers.

    The list is empty if the word names none, or the question is about two items.
    """
    n_items = len(question.items)
    if n_items == 2 or not _NUMBERS.fullmatch(word):
        return []
    places = [int(number) - 1 for number in re.findall("[1-9]", word)]
    return places if max(places) < n_items else []


def _timed(facts: dict[str, Any], started: float) -> dict[str, Any]:
    """Add the time since `started` to the facts of an answer, unless it has a comment."""
    if facts.get("comment"):
        return facts
    return {**facts, "milliseconds": round(1000 * (time.monotonic() - started))}


def _say_part(title: str, text: str) -> None:
    """Print a part of a question below its title, unless the part is empty."""
    if text:
        say(f"-- {title}\n{text}")


def parts_of_question(items: Items, question: Question, text: str) -> list[Part]:
    """Collect the texts of a question: the question, the context, and each item in its place.

    Two items have the titles left and right, more items have their numbers, from 1. The context is
    empty if the items' group has none.

    Args:
        items: all items.
        question: the question, which has the numbers of its items.
        text: text of the question, such as "Which is better?".
    """
    titles = ["left", "right"]
    if len(question.items) > 2:
        titles = [str(place) for place in range(1, len(question.items) + 1)]
    context = harmless(items.context(question.left) or "")
    parts = [("question", harmless(text)), ("context", context)]
    for place, (title, item) in enumerate(zip(titles, question.items, strict=True), 1):
        parts.append((title, item_text(items, item, place)))
    return parts


def item_text(items: Items, item: int, place: int) -> str:
    """Write what is shown of an item: its image or sound, its text and further columns.

    An item without these is shown by its name and its first features.
    Names of files are not shown, because they might give the answer away.

    Args:
        items: all items.
        item: number of the item among all items.
        place: number of the item in the question, from 1.
    """
    content = items.content(item)
    media = []
    if content.image is not None:
        media.append(f"image {place} (sortnet serve shows it)")
    if content.audio is not None:
        media.append(f"sound {place} (sortnet serve plays it)")
    columns = [harmless(f"{name}: {value}") for name, value in content.shown.items()]
    paragraphs = ["\n".join(media), harmless(content.text or ""), "\n".join(columns)]
    text = "\n\n".join(filter(None, paragraphs))
    return text or _feature_text(items, item)


def harmless(text: str) -> str:
    """Replace control characters of a text but line feeds.

    >>> harmless("a\\tb\\rc\\x1b[2J")
    'a   b\\nc\ufffd[2J'
    """
    return "\n".join(printable(line.expandtabs(4)) for line in text.splitlines())


def _feature_text(items: Items, item: int) -> str:
    """Write the name of an item and its first features."""
    lines = [printable(items.ids[item]), ""]
    n_shown = min(len(items.feature_names), _MOST_FEATURES)
    for name, value in zip(items.feature_names[:n_shown], items.features[item], strict=False):
        lines.append(f"{printable(name)}: {value:.6g}")
    if len(items.feature_names) > n_shown:
        lines.append(f"... {len(items.feature_names) - n_shown} more")
    return "\n".join(lines)
