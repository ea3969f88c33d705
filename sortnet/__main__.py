"""Run the command `sortnet` by `python -m sortnet`."""

import runpy

if __name__ == "__main__":
    # The command is found by its name, because this library must not import it and works without
    # it.
    runpy.run_module("cli", run_name="__main__")
