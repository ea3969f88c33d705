"""Ask annotators about pairs of items, and rank the items by the answers. No I/O."""

from sortnet.preference.base import ANSWERS, Answer, Judgement, Question

__all__ = ["ANSWERS", "Answer", "Judgement", "Question"]
