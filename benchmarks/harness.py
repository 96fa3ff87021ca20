"""What all benchmarks share: figures with goals, interleaved timing, one JSON object at the end.

A script defines ``run(quick) -> list[Figure]`` and ends with ``main(run)``.
Times are CPU seconds of this process with its thread count fixed, so a busy
machine does not spoil ratios.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

THREADS = 1


@dataclass(frozen=True)
class Figure:
    """One measured number beside the number to reach."""

    name: str
    value: float
    goal: float | None
    holds: bool | None


def figure(name: str, value: float, goal: float | None = None, *, at_most: bool = True) -> Figure:
    """A figure that holds if it is at most (or at least) its goal; without a goal it is only told."""
    holds = None if goal is None else bool(value <= goal if at_most else value >= goal)
    shown = "" if goal is None else f"   goal {'≤' if at_most else '≥'} {goal:.4g}   {'holds' if holds else 'FAILS'}"
    print(f"{name:64s} {value:10.4g}{shown}", file=sys.stderr)
    return Figure(name, float(value), goal, holds)


def cpu_seconds(action: Callable[[], object]) -> float:
    """CPU seconds of one call, in this process and its threads."""
    start = time.process_time()
    action()
    return time.process_time() - start


def medians(subjects: dict[str, Callable[[], object]], rounds: int, warmup: int = 1) -> dict[str, float]:
    """Median CPU seconds of each subject, timed in turns so that drift falls on all alike."""
    return {name: statistics.median(values) for name, values in _in_turns(subjects, rounds, warmup).items()}


def ratios(subjects: dict[str, Callable[[], object]], rounds: int, warmup: int = 1) -> dict[str, float]:
    """CPU time of each subject over that of the first: the median of the ratios within a round.

    A core's speed may change by a quarter between two rounds; within one it is nearly the same for all.
    """
    seconds = _in_turns(subjects, rounds, warmup)
    base = next(iter(seconds.values()))
    return {
        name: statistics.median(one / first for one, first in zip(values, base, strict=True))
        for name, values in seconds.items()
    }


def _in_turns(subjects: dict[str, Callable[[], object]], rounds: int, warmup: int) -> dict[str, list[float]]:
    for _ in range(warmup):
        for action in subjects.values():
            action()
    seconds: dict[str, list[float]] = {name: [] for name in subjects}
    for _ in range(rounds):
        for name, action in subjects.items():
            seconds[name].append(cpu_seconds(action))
    return seconds


Run = Callable[[bool], list[Figure]]


def main(run: Run | dict[str, Run], threads: int = THREADS) -> None:
    """Command line of a benchmark: ``[--quick] [--json FILE|-]``, and ``[--part NAME]`` for one that has parts.

    A part replaces its figures in FILE and leaves those of other parts.
    """
    parts = run if isinstance(run, dict) else {"all": run}
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    parser.add_argument("--quick", action="store_true", help="a rougher answer within 45 seconds on two cores")
    parser.add_argument("--json", metavar="FILE|-", default="-")
    parser.add_argument("--part", choices=list(parts), help="only this part")
    options = parser.parse_args()
    import torch

    torch.set_num_threads(threads)
    chosen = parts if options.part is None else {options.part: parts[options.part]}
    figures = [asdict(item) for measure in chosen.values() for item in measure(options.quick)]
    if options.part is not None and options.json != "-" and Path(options.json).exists():
        fresh = {item["name"] for item in figures}
        before = json.loads(Path(options.json).read_text())["figures"]
        figures = [item for item in before if item["name"] not in fresh] + figures
    result = {
        "figures": figures,
        "machine": {
            "processor": torch.backends.cpu.get_cpu_capability(),
            "system": platform.system(),
            "python": platform.python_version(),
            "torch": torch.__version__,
            "threads": threads,
        },
        "quick": options.quick,
    }
    text = json.dumps(result, indent=2, allow_nan=False)
    if options.json == "-":
        print(text)
    else:
        Path(options.json).write_text(text + "\n")
