"""Every error SortNet raises on purpose; catch `SortNetError` for all of them."""

from __future__ import annotations


class SortNetError(Exception):
    """The root: a message that names what is wrong, where, and the offending value."""


class DataError(SortNetError, ValueError):
    """Data that cannot be used: a bad line of a file, an impossible grade, shapes that disagree."""


class MetricError(SortNetError, ValueError):
    """A measure that does not exist, or that cannot be computed on these grades."""


class ModelError(SortNetError, ValueError):
    """A model folder that is damaged, foreign, of another version, or unfit for the data."""


class ComparatorError(SortNetError, ValueError):
    """A comparator that cannot be built with these settings, or whose margins are not numbers."""


class StoreError(SortNetError):
    """A pair store that cannot be reached, is of a newer schema, or lacks a run or collection."""


class DivergedError(SortNetError, ArithmeticError):
    """Training whose loss is no longer a number."""


class JudgementError(SortNetError, ValueError):
    """An invalid judgement: an unknown item or answer, an undo of an unknown judgement."""


class StudyError(SortNetError, ValueError):
    """A decision about a study that changes nothing, or whose annotator or item is unknown."""


class LeaseError(SortNetError):
    """An answer to a question whose lease has expired, was released, or is another annotator's."""
