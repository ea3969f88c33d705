"""`python -m sortnet` is the command `sortnet`."""

import runpy

if __name__ == "__main__":
    # By its name: this library works without its command, and imports nothing of it.
    runpy.run_module("cli", run_name="__main__")
