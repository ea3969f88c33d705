"""The report and the live page of a run."""
