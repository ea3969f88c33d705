"""The log of one annotator's judgements, by which the session knows what to ask them."""

from __future__ import annotations

from array import array


class AnnotatorLog:
    """The judgements of one annotator, by their rows; pairs are packed, the lower number first.

    All pairs of its items identify a question. An answer counts for the pairs that it compares: two
    items between the best and the worst may still be asked about.

    Attributes:
        rows: of all judgements, oldest first; some of them may be undone.
        pairs: {pair: how often the annotator answered it}.
        rows_answered_once: {question: row of its answer} of questions that were answered once.
        undone_rows: {question: row of its last undone answer} of questions not answered since.
    """

    def __init__(self) -> None:
        self.rows = array("q")
        self.pairs: dict[int, int] = {}
        self.rows_answered_once: dict[tuple[int, ...], int] = {}
        self.undone_rows: dict[tuple[int, ...], int] = {}

    def add(self, row: int, question: tuple[int, ...], pairs: list[int], is_usable: bool) -> None:
        """Add an answer to a question, which compares these pairs; usable outside the hold-out."""
        self.rows.append(row)
        is_new = not any(pair in self.pairs for pair in pairs)
        for pair in pairs:
            self.pairs[pair] = self.pairs.get(pair, 0) + 1
        self.undone_rows.pop(question, None)
        if is_usable and is_new:
            self.rows_answered_once[question] = row
        elif is_usable:
            self.rows_answered_once.pop(question, None)

    def take_back(self, row: int, question: tuple[int, ...], pairs: list[int]) -> None:
        """Take an undone answer back."""
        for pair in pairs:
            self.pairs[pair] -= 1
            if not self.pairs[pair]:
                del self.pairs[pair]
        self.rows_answered_once.pop(question, None)
        self.undone_rows[question] = row
