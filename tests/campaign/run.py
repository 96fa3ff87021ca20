# ruff: noqa: E501
"""A standing attack on radii's own promise: no certificate is false, however a network is written.

    python tests/campaign/run.py --seconds 600 --seed 0 --state campaign.json

Trials go on where the state file ended. The last line has the totals; the exit
code is 1 if a certificate was false or a certification crashed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(1, str(Path(__file__).parents[2]))

import torch

from campaign import detectors, exact, forms, planted, smoothed, splits, theorems
from campaign.tally import Tally

KINDS: dict[str, Callable[[int, int], Tally]] = {
    "forms": forms.trial,
    "graphs": theorems.graphs,
    "lipschitz": theorems.lipschitz,
    "planted": planted.trial,
    "detectors": detectors.trial,
    "exact": exact.trial,
    "splits": splits.trial,
    "smoothing": smoothed.trial,
}
SMOOTHING_SLACK = 4.0  # standard errors


def campaign(
    seed: int, seconds: float, kinds: list[str], count: int, state: Path | None, most: int
) -> dict[str, Tally]:
    """Trials of every kind, with equal time for each, until the time or ``most`` trials of each are over; totals by kind."""
    totals, following = {name: Tally() for name in kinds}, dict.fromkeys(kinds, seed)
    if state is not None and state.exists():
        kept = json.loads(state.read_text())
        for name in kinds:
            if name in kept:
                totals[name], following[name] = Tally(**kept[name]["tally"]), kept[name]["next"]
    start, trials, spent = time.monotonic(), dict.fromkeys(kinds, 0), dict.fromkeys(kinds, 0.0)
    while time.monotonic() - start < seconds and (open_kinds := [name for name in kinds if trials[name] < most]):
        name = min(open_kinds, key=spent.__getitem__)  # every kind gets the same time; its seeds are always the same
        before = time.process_time()
        totals[name].add(KINDS[name](following[name], count))
        spent[name] += time.process_time() - before
        following[name] += 1
        trials[name] += 1
        if state is not None and sum(trials.values()) % 20 == 0:
            keep(state, totals, following)
    if state is not None:
        keep(state, totals, following)
    return totals


def keep(state: Path, totals: dict[str, Tally], following: dict[str, int]) -> None:
    """Write the state whole; kinds that are not in ``totals`` stay as they were."""
    content = json.loads(state.read_text()) if state.exists() else {}
    content |= {name: {"tally": asdict(totals[name]), "next": following[name]} for name in totals}
    aside = state.with_suffix(f".{os.getpid()}.part")
    aside.write_text(json.dumps(content))
    aside.replace(state)


def summary(totals: dict[str, Tally]) -> tuple[str, bool]:
    """The closing line, and whether the promise held."""
    whole = Tally()
    for name, tally in totals.items():
        print(
            f"{name:10} networks {tally.networks:8,}  refused {tally.refused:8,}  certificates {tally.certificates:9,}  "
            f"points {tally.points:13,}  false {tally.false}  crashed {tally.crashed}"
        )
        for note in tally.notes[:20]:
            print("  ", note)
        whole.add(tally)
    held = whole.false == 0 and whole.crashed == 0
    if "smoothing" in totals and totals["smoothing"].certificates:
        tried, proved = totals["smoothing"].certificates, totals["smoothing"].points
        limit = smoothed.ALPHA * tried + SMOOTHING_SLACK * (smoothed.ALPHA * tried) ** 0.5
        held &= proved <= limit
        print(
            f"smoothing  certified beyond the truth: {proved} of {tried:,}, alpha {smoothed.ALPHA} allows {limit:.0f}"
        )
    line = (
        f"campaign: {whole.networks:,} networks, {whole.certificates:,} certificates, {whole.points:,} points, "
        f"{whole.false} false, {whole.crashed} crashed"
    )
    return line, held


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600.0, help="time limit")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first trial of every kind")
    parser.add_argument("--only", default=",".join(KINDS), help="kinds, separated by commas")
    parser.add_argument("--count", type=int, default=32_768, help="inputs tried in every proved ball")
    parser.add_argument("--most", type=int, default=10**9, help="trials of each kind at most")
    parser.add_argument("--state", type=Path, default=None, help="file from which a stopped campaign goes on")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    kinds = arguments.only.split(",")
    totals = campaign(arguments.seed, arguments.seconds, kinds, arguments.count, arguments.state, arguments.most)
    line, held = summary(totals)
    print(line)
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
