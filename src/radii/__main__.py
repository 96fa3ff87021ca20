"""``python -m radii``: the command line."""

from radii.cli.main import run

if __name__ == "__main__":
    run()
