"""Learning from annotators: sessions, choosing pairs, a ranking with intervals. No I/O."""

from sortnet.preference.base import ANSWERS, Answer, Judgement, Question

__all__ = ["ANSWERS", "Answer", "Judgement", "Question"]
