"""Every error that SortNet raises on purpose; catch `SortNetError` for all of them."""

from __future__ import annotations


class SortNetError(Exception):
    """Base class of all errors; the message names the fault, its place and the offending value."""


class DataError(SortNetError, ValueError):
    """Raised if data cannot be used: a bad line of a file, an impossible grade, a wrong shape."""


class MetricError(SortNetError, ValueError):
    """Raised if a measure does not exist, or cannot be computed for the given grades."""


class ModelError(SortNetError, ValueError):
    """Raised if a model folder is damaged, foreign or of another version, or does not fit data."""


class ComparatorError(SortNetError, ValueError):
    """Raised if a comparator cannot be built from its settings, or its margins are no numbers."""


class StoreError(SortNetError):
    """Raised if a store cannot be reached, has a newer schema, or lacks a run or a collection."""


class UnansweredError(SortNetError):
    """Raised if a judge that is no person leaves nearly all questions unanswered."""


class DivergedError(SortNetError, ArithmeticError):
    """Raised if the loss of a training is no longer a number."""


class JudgementError(SortNetError, ValueError):
    """Raised if a judgement has an unknown item or answer, or undoes an unknown judgement."""


class StudyError(SortNetError, ValueError):
    """Raised if a decision about a study changes nothing, or names an unknown annotator or item."""


class LeaseError(SortNetError):
    """Raised if the lease of an answered question has expired, was released, or is not the user's.

    A lease belongs to one annotator; only this annotator may answer the question.
    """
