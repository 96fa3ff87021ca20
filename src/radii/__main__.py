"""``python -m radii``: the command line."""

import sys

from radii.cli.main import run

if __name__ == "__main__":
    sys.exit(run())
