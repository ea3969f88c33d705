"""`python -m cli` is the command `sortnet`."""

from cli.main import main

if __name__ == "__main__":
    main()
