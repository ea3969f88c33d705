"""Judgement files of other tools: a module for each format, which reads and writes its records."""
