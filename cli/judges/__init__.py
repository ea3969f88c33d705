"""Options of judges, which are programs or language models that answer in place of a person."""
