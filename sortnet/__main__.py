"""Run the command `sortnet` by `python -m sortnet`."""

import runpy

if __name__ == "__main__":
    # The command is found by its name, since this library must work without it and not import it.
    runpy.run_module("cli", run_name="__main__")
