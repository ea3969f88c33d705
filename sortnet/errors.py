"""Every error that SortNet raises on purpose; catch `SortNetError` for all of them."""

from __future__ import annotations


class SortNetError(Exception):
    """Base class of all errors; the message names the fault, its place and the offending value."""


class DataError(SortNetError, ValueError):
    """Data that cannot be used: a bad line of a file, an impossible grade, shapes that disagree."""


class MetricError(SortNetError, ValueError):
    """Measure that does not exist, or that cannot be computed for the given grades."""


class ModelError(SortNetError, ValueError):
    """Model folder that is damaged, foreign, of another version, or unfit for the data."""


class ComparatorError(SortNetError, ValueError):
    """Comparator that cannot be built from its settings, or whose margins are not numbers."""


class StoreError(SortNetError):
    """Pair store that cannot be reached, has a newer schema, or lacks a run or collection."""


class DivergedError(SortNetError, ArithmeticError):
    """Training whose loss is no longer a number."""


class JudgementError(SortNetError, ValueError):
    """Invalid judgement: an unknown item or answer, or the undo of an unknown judgement."""


class StudyError(SortNetError, ValueError):
    """Decision about a study that changes nothing, or whose annotator or item is unknown."""


class LeaseError(SortNetError):
    """Answer to a question whose lease expired, was released, or is another annotator's."""
