"""What each theorem costs: CPU seconds and resident memory of its default run, and how the time grows.

Each result runs in a process of its own, with one thread, so that memory is
its own too. ``--quick`` runs the results that take below three seconds and the
smaller sizes of the growth curves.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys

from harness import Figure, figure, main

RUN = """
import json, sys, time
from radii_papers.theory.statements import statement
simulate = statement(sys.argv[1]).simulation()
began = time.process_time()
given = json.loads(sys.argv[2])
result = simulate(**{key: tuple(value) if isinstance(value, list) else value for key, value in given.items()})
seconds = time.process_time() - began
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))  # ru_maxrss would be inherited
megabytes = int(peak.split()[1]) / 1024
print(json.dumps({"seconds": seconds, "megabytes": megabytes, "holds": result.holds}))
"""
SLOW = ("no-free-robustness", "concentric-spheres", "random-networks", "max-margin-bias", "gaussian-model")
GROWTH = {  # the main parameter, its sizes, and what else is fixed
    "no-free-robustness": ("n", (1024, 4096, 16384), {"trained_functions": 0, "precision": 0.01}),
    "nearest-neighbor-bound": ("n", (2368, 9472, 37888), {"training_sets": 6}),
    "half-spaces": ("samples", (5000, 20_000, 80_000), {"d": [784]}),
    "random-networks": ("networks", (10, 40, 160), {"d": [300], "k": [300], "activations": ["tanh"]}),
    "neighbor-distances": ("n", (12_500, 50_000, 200_000), {}),
}


def measured(name: str, parameters: dict) -> dict:
    """Seconds, megabytes and verdict of one run in a new process."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", RUN, name, json.dumps(parameters)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return json.loads(done.stdout)


def run(quick: bool) -> list[Figure]:
    """One figure of time and one of memory per result, their totals, and the growth exponents."""
    from radii_papers.theory.statements import STATEMENTS

    figures, total, most = [], 0.0, 0.0
    for name in STATEMENTS:
        if quick and name in SLOW:
            continue
        cost = measured(name, {})
        total, most = total + cost["seconds"], max(most, cost["megabytes"])
        figures.append(figure(f"{name}, CPU seconds", cost["seconds"], 20))
        figures.append(figure(f"{name}, megabytes", cost["megabytes"], 2000))
        figures.append(figure(f"{name}, holds", float(cost["holds"]), 1, at_most=False))
    figures.append(figure("all that ran, CPU seconds", total, 240))
    figures.append(figure("largest memory, megabytes", most, 2000))
    for name, (parameter, sizes, fixed) in GROWTH.items():
        if quick and name in SLOW:
            continue
        ends = (sizes[0], sizes[1] if quick else sizes[-1])
        seconds = [measured(name, {parameter: size, **fixed})["seconds"] for size in ends]
        exponent = math.log(seconds[1] / seconds[0]) / math.log(ends[1] / ends[0])
        figures.append(figure(f"{name}: exponent of time in {parameter}, {ends[0]} to {ends[1]}", exponent))
    return figures


if __name__ == "__main__":
    main(run)
