"""What the environment of a process changes: freed memory stays, helpers start isolated."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from radii.process import isolated_helpers

CHILD = """
import resource, sys
import numpy as np
from radii.process import keep_freed
kept = sys.argv[1] == "keep" and keep_freed()
def faults(): return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
def step(): return [np.ones(4_000_000) for _ in range(4)][0].sum()
for _ in range(3): step()
before = faults()
for _ in range(3): step()
print(int(kept), faults() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's malloc")
def test_blocks_are_used_again() -> None:
    def child(word: str) -> tuple[int, int]:
        done = subprocess.run([sys.executable, "-c", CHILD, word], capture_output=True, text=True, check=True)
        kept, faults = done.stdout.split()
        return int(kept), int(faults)

    kept, faults = child("keep")
    if not kept:
        pytest.skip("this C library has no mallopt")
    pages = 3 * 4 * 32_000_000 // resource.getpagesize()
    assert faults < pages / 10
    assert faults <= child("leave")[1]  # how many there are otherwise depends on the size of pages


def test_helpers_do_not_see_ctrl_c_while_they_start() -> None:
    """A spawned interpreter that still imports would print a traceback; the signal it inherits is blocked."""
    asked = "import signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))"
    command = [sys.executable, "-c", asked]
    with isolated_helpers():
        inside = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    outside = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert (inside.strip(), outside.strip()) == ("True", "False")
