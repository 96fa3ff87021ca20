"""How soon radii answers: CPU seconds of ``radii --help``, wall seconds of ``radii assess digits``.

``--help`` is compared with a bare typer application, which is the floor.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from harness import Figure, figure, main

BARE = (
    "import typer; app = typer.Typer()\n@app.command()\ndef f(x: int = 0): ...\napp(['--help'], standalone_mode=False)"
)


def child_cpu(command: list[str]) -> float:
    """CPU seconds of a child process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def run(quick: bool) -> list[Figure]:
    """Cold starts, and the main job on the bundled data in a new store."""
    radii = [sys.executable, "-m", "radii.cli.main"]
    ours, floor = [], []
    for _ in range(3 if quick else 9):
        ours.append(child_cpu([*radii, "--help"]))
        floor.append(child_cpu([sys.executable, "-c", BARE]))
    figures = [
        figure("radii --help, CPU seconds", statistics.median(ours), 0.6),
        figure("a bare typer application, CPU seconds", statistics.median(floor)),
    ]
    if not quick:
        with tempfile.TemporaryDirectory() as folder:
            start = time.monotonic()
            subprocess.run(
                [*radii, "assess", "digits", "--out", f"{folder}/report.html"],
                check=True,
                stdout=subprocess.DEVNULL,
                env=os.environ | {"RADII_RUNS": f"{folder}/runs"},
            )
            figures.append(figure("radii assess digits, wall seconds", time.monotonic() - start, 120))
    return figures


if __name__ == "__main__":
    main(run)
