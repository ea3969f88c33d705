"""Results of commands: a file for each noun makes the result of a value, and prints it."""
