"""The log of an annotator's judgements, by which a session chooses the annotator's questions."""

from __future__ import annotations

from array import array


class AnnotatorLog:
    """The judgements of one annotator, as row numbers of the session's table of judgements.

    A pair of items is packed into one number, with the lower item number first. A question is
    identified by all pairs of its items. An answer counts only for the pairs that it compares. So
    two items between the best and the worst item of a set may still be asked about.

    Attributes:
        rows: the rows of all judgements, oldest first, including undone judgements.
        n_answers_of_pair: {pair: number of the annotator's answers to the pair}.
        rows_answered_once: {question: row of the answer} for questions that were answered once.
        undone_rows: {question: row of the last undone answer} for questions that were not answered
            again.
    """

    def __init__(self) -> None:
        """Start without judgements."""
        self.rows = array("q")
        self.n_answers_of_pair: dict[int, int] = {}
        self.rows_answered_once: dict[tuple[int, ...], int] = {}
        self.undone_rows: dict[tuple[int, ...], int] = {}

    def add(self, row: int, question: tuple[int, ...], pairs: list[int], is_usable: bool) -> None:
        """Add an answer to a question.

        Args:
            row: the row of the answer.
            question: all pairs of the question's items.
            pairs: the pairs that the answer compares.
            is_usable: whether the answer may be used to choose questions; an answer of the hold-out
                may not.
        """
        self.rows.append(row)
        is_first_answer = not any(pair in self.n_answers_of_pair for pair in pairs)
        for pair in pairs:
            self.n_answers_of_pair[pair] = self.n_answers_of_pair.get(pair, 0) + 1
        self.undone_rows.pop(question, None)
        if not is_usable:
            return
        if is_first_answer:
            self.rows_answered_once[question] = row
        else:
            self.rows_answered_once.pop(question, None)

    def take_back(self, row: int, question: tuple[int, ...], pairs: list[int]) -> None:
        """Remove an undone answer from the counts, and remember its question as undone.

        Args:
            row: the row of the undone answer.
            question: all pairs of the question's items.
            pairs: the pairs that the answer compares.
        """
        for pair in pairs:
            self.n_answers_of_pair[pair] -= 1
            if not self.n_answers_of_pair[pair]:
                del self.n_answers_of_pair[pair]
        self.rows_answered_once.pop(question, None)
        self.undone_rows[question] = row
