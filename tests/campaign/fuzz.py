"""Odd command lines and broken files: exit codes 0, 1, 2, 130 only, no traceback, nothing left behind.

python tests/campaign/fuzz.py --commands 300 --files 200 --seed 0
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from campaign import broken_files, commands
from campaign.sandbox import Outcome, run_command


def odd_command(seed: int, folder: Path, seconds: float) -> Outcome:
    """One odd command line in a folder of its own."""
    commands.stage(folder)
    return run_command(commands.drawn(seed, commands.tree()), folder, seconds)


def broken_file(seed: int, folder: Path, seconds: float) -> Outcome:
    """One broken file, read by a command."""
    folder.mkdir(parents=True)
    return run_command(broken_files.stage(seed, folder), folder, seconds)


def preload() -> None:
    """Import once what every command needs, before processes are forked."""
    import torch

    import radii.cli.main
    import radii.runs.store  # noqa: F401

    torch.set_num_threads(1)


def fuzz(first: int, lines: int, files: int, seconds: float, show: bool = True) -> tuple[Counter[int], list[Outcome]]:
    """Exit codes counted, and the outcomes with faults."""
    preload()
    codes: Counter[int] = Counter()
    bad = []
    with tempfile.TemporaryDirectory() as top:
        jobs = [(odd_command, seed) for seed in range(first, first + lines)]
        jobs += [(broken_file, seed) for seed in range(first, first + files)]
        for make, seed in jobs:
            outcome = make(seed, Path(top) / f"{make.__name__}-{seed}", seconds)
            codes[outcome.code] += 1
            if outcome.faults:
                bad.append(outcome)
                if show:
                    print(seed, outcome.faults, "radii", *map(repr, outcome.arguments))
                    print("    ", outcome.err.strip().splitlines()[-1:] or outcome.out.strip().splitlines()[-1:])
    return codes, bad


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commands", type=int, default=300)
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=20.0, help="after which a command gets Ctrl-C")
    arguments = parser.parse_args()
    codes, bad = fuzz(arguments.seed, arguments.commands, arguments.files, arguments.seconds)
    told = ", ".join(f"{count} with exit code {code}" for code, count in sorted(codes.items()))
    print(f"fuzz: {arguments.commands} command lines and {arguments.files} files: {told}; {len(bad)} faults")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
