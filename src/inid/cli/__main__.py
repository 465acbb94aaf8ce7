"""`python -m inid.cli` is the `inid` command."""

from inid.cli import main

if __name__ == "__main__":
    main()
