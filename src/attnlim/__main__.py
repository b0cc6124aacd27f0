"""`python -m attnlim` is the `attnlim` command."""

from attnlim.cli.main import main

if __name__ == "__main__":
    main()
