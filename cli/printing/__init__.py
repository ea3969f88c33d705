"""Results of commands: each file turns one kind of value into a `Result`, or prints it."""
