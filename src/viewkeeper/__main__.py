"""`python -m viewkeeper`: the command line."""

import sys

from viewkeeper.cli import main

if __name__ == "__main__":
    sys.exit(main())
