"""Judgement files of other tools; each module reads or writes the records of one format."""
