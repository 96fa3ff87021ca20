"""Branch and bound on the networks of Dathathri et al. 2020, image by image; set RADII_VERIFY to the folder.

Two parts of ``verify.py``, and alone: ``python benchmarks/sdp_fo.py``. Every image has 200 CPU seconds. The sample is
the first 20 images of each network, 3 with 20 seconds for a quick run; RADII_IMAGES=100 takes them all (hours). Goals
are those of the whole sets, as shares: 55 of 69 of MNIST and 44 of 46 of CIFAR-10 that some tool proves robust, and
none of the broken ones proved. Verdicts are kept in the folder RADII_VERDICTS, if it is set, and not computed again.
Images that no tool has decided are left out.
"""

from __future__ import annotations

import csv
import os
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch

from bounds import RADII, SHARED, network
from harness import Figure, figure, main

SECONDS, IMAGES = 200.0, 20
QUICK_SECONDS, QUICK_IMAGES = 20.0, 3
GOALS = {"mnist": 55 / 69, "cifar": 44 / 46}


def decided(name: str, number: int, label: int, seconds: float) -> tuple[str, float]:
    """The verdict of one image and the CPU seconds it took."""
    from radii.threat import Ball
    from radii.verification._runnable_network import Deployed
    from radii.verification.answer import Limits
    from radii.verification.true_radius import decide

    limit_cpu_time()
    torch.set_num_threads(1)
    root = folder()
    x = torch.from_numpy(np.load(root / f"{name}_100.npz")["x"][number : number + 1]).float()
    deployed = Deployed.of(network(root, name), tuple(x.shape[1:]))
    start = time.process_time()
    answer = decide(deployed, x, label, 10, Ball("linf", RADII[name]), Limits.of_seconds(seconds))
    return answer.verdict, time.process_time() - start


def limit_cpu_time() -> None:
    """Let limits of this process be CPU seconds, which a busy machine does not shorten."""
    from radii.verification import answer

    answer.monotonic = time.process_time  # type: ignore[attr-defined]


def folder() -> Path:
    """Where the networks and images are."""
    return Path(os.environ.get("RADII_VERIFY", SHARED / "verify")) / "sdp_fo"


@contextmanager
def verdicts() -> Iterator[Path]:
    """The folder of verdicts: RADII_VERDICTS, or one that is removed afterwards."""
    kept = os.environ.get("RADII_VERDICTS")
    if kept:
        Path(kept).mkdir(parents=True, exist_ok=True)
        yield Path(kept)
    else:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)


def answered(name: str, rows: list[dict[str, str]], seconds: float, table: Path) -> list[tuple[str, float]]:
    """The verdict and CPU seconds of images; those of ``table`` are read, new ones are added to it."""
    lines = csv.reader(table.open()) if table.exists() else iter(())
    known = {int(image): (verdict, float(spent)) for image, verdict, spent in lines}
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), mp_context=get_context("spawn")) as pool:
        new = [(int(row["index"]), int(row["label"])) for row in rows if int(row["index"]) not in known]
        left = {pool.submit(decided, name, image, label, seconds): image for image, label in new}
        for task in as_completed(left):
            known[left[task]] = task.result()
            with table.open("a") as lines:
                csv.writer(lines).writerow((left[task], *task.result()))
    return [known[int(row["index"])] for row in rows]


def run(name: str, quick: bool) -> list[Figure]:
    """Proved and refuted images of the network ``name``, and the median CPU seconds of a proof."""
    seconds = QUICK_SECONDS if quick else SECONDS
    count = QUICK_IMAGES if quick else int(os.environ.get("RADII_IMAGES", IMAGES))
    with (folder() / f"{name}_cnn_a_adv_expected.csv").open() as lines:
        rows = [row for row in list(csv.DictReader(lines))[:count] if row["verdict"] != "open"]
    with verdicts() as kept:
        answers = answered(name, rows, seconds, kept / f"sdp_fo-{name}-{seconds:g}.csv")
    return summed(f"sdp_fo {name}, first {count} images, {seconds:g} s each", rows, answers, GOALS[name])


PARTS = {f"sdp_fo-{name}": partial(run, name) for name in RADII}


def summed(title: str, rows: list[dict[str, str]], answers: list[tuple[str, float]], goal: float) -> list[Figure]:
    """Figures of one network: ``rows`` are the known verdicts, ``answers`` ours with their seconds."""
    pairs = list(zip((row["verdict"] for row in rows), answers, strict=True))
    robust = [answer for known, answer in pairs if known == "robust"]
    proofs = [seconds for verdict, seconds in robust if verdict == "unsat"]
    wrong = sum((known, verdict) in (("broken", "unsat"), ("robust", "sat")) for known, (verdict, _) in pairs)
    broken = [verdict for known, (verdict, _) in pairs if known == "broken"]
    return [
        figure(
            f"{title}: share proved of {len(robust)} robust", len(proofs) / max(1, len(robust)), goal, at_most=False
        ),
        figure(f"{title}: broken ones refuted of {len(broken)}", broken.count("sat")),
        figure(f"{title}: wrong verdicts", wrong, 0),
        figure(f"{title}: median CPU seconds of a proof", float(np.median(proofs)) if proofs else 0.0),
    ]


if __name__ == "__main__":
    main(PARTS)
