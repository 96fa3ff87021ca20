"""Loading CIFAR-10 for the first and the second time, and changing its pixels: seconds and resident memory.

Each subject runs in a fresh process; the first load has an empty cache. Goals are
held against CPU seconds, summed over all processes, which a busy machine does not
spoil: a machine with one idle core takes no longer than that, one with two about
half. Wall seconds stand beside them. Memory is the peak resident size less the
resident size after imports (from /proc: Linux only).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile

from harness import Figure, figure, main
from radii.data import sources

MEASURE = """
import json, os, sys, time
from pathlib import Path
import numpy as np
from radii.data import sources, subspace, variants
{before}
def megabytes(field):
    # Not getrusage: a child's peak there begins at the size of the process that started it.
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))
memory, wall, cpu = megabytes("VmRSS"), time.perf_counter(), os.times()
{subject}
spent = [now - then for now, then in zip(os.times()[:4], cpu[:4])]
print(json.dumps(dict(wall=time.perf_counter() - wall, cpu=sum(spent), megabytes=megabytes('VmHWM') - memory)))
"""
SATURATE = "data = sources.load('cifar10')\nboth = [variants.saturate(part.x, 8) for part in (data.train, data.test)]"


def measured(cache: str, subject: str, before: str = "") -> dict[str, float]:
    """Wall and CPU seconds and megabytes of ``subject`` in a new process."""
    environment = os.environ | {"RADII_CACHE": cache, "OMP_NUM_THREADS": "1"}
    program = MEASURE.format(subject=subject, before=before)
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def run(quick: bool) -> list[Figure]:
    """All figures; ``quick`` leaves out the principal components and measures the rest once."""
    if sources.local("cifar10") is None:
        print("CIFAR-10 is not on this machine: set RADII_DATA to a folder that holds cifar10/.", file=sys.stderr)
        return []
    with tempfile.TemporaryDirectory() as cache:
        first = measured(cache, "sources.load('cifar10')")
        seconds = [
            measured(cache, "data = sources.load('cifar10')\ndata.train.digest") for _ in range(1 if quick else 5)
        ]
        saturated = measured(cache, SATURATE)
        figures = [
            figure("CIFAR-10, first load: CPU seconds of all processes", first["cpu"], 30),
            figure("CIFAR-10, first load: wall seconds", first["wall"]),
            figure("CIFAR-10, second load: wall seconds", sorted(s["wall"] for s in seconds)[len(seconds) // 2], 0.5),
            figure("CIFAR-10, second load: added MB", max(s["megabytes"] for s in seconds), 50),
            figure("saturate 60,000 CIFAR-10 images: CPU seconds", saturated["cpu"], 10),
            figure(
                "saturate: added memory over the float32 result", saturated["megabytes"] / (60_000 * 3072 * 4e-6), 2
            ),
            *_augmented(cache),
        ]
        return figures if quick else figures + _components(cache)


def _augmented(cache: str) -> list[Figure]:
    subject = "for x, y in b.epoch(0): pass"
    made = """
from radii.data.augmentation import Augmentation
from radii.data.batches import Batches
b = Batches(sources.load('cifar10').train, 256, 0, Augmentation({}))
b.mean"""
    plain = measured(cache, subject, made.format(""))
    full = measured(cache, subject, made.format("crop=4, flip=True, erase=8"))
    return [
        figure("an epoch of CIFAR-10 batches, plain: CPU seconds", plain["cpu"]),
        figure("an epoch of CIFAR-10 batches, crop + flip + erase: CPU seconds", full["cpu"]),
    ]


def _components(cache: str) -> list[Figure]:
    data = "data = sources.load('cifar10')"
    fitted = measured(cache, "subspace.cached_basis(data.train)", data)
    projected = measured(cache, "sources.load('cifar10+pca:513-3072')", data)
    return [
        figure("principal components of CIFAR-10: CPU seconds", fitted["cpu"]),
        figure("pca:513-3072 of 60,000 images, components cached: CPU seconds", projected["cpu"]),
    ]


if __name__ == "__main__":
    main(run)
