"""Commands that are killed again and again end with the same bits as if nobody had killed them.

    python tests/campaign/kills.py --kills 200 --seed 0

Each story kills one command several times at random moments, by SIGKILL of all
its processes or by SIGTERM of the command, then lets it finish and compares every
file of every run with those of a command in peace. All checksums are compared,
too; SIGTERM must end with exit code 130 and a sentence, and leave no process.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parents[1]))

from campaign.fuzz import preload
from campaign.sandbox import start_command
from radii.runs.store import Store
from runs.test_same_twice import bits

STUDY = """name = "killed"
data = ["digits+subset:100"]
seeds = [0, 1]
[[model]]
name = "mlp"
[[method]]
name = "natural"
[settings]
epochs = 2
[measure.evaluate]
threat = "linf:0.05"
suite = "fast"
points = 10
"""
TRAIN = ["train", "digits+subset:400", "--model", "mlp", "--checkpoint-minutes", "0", "epochs=6"]
EVALUATE = ["evaluate", "train-", "digits", "--threat", "linf:0.1", "--suite", "fast", "--points", "20"]
ASSESS = ["assess", "digits+subset:60", "--epochs", "1", "--points", "10", "--suite", "fast", "--no-forecast"]
COMMANDS = {
    "train": TRAIN,
    "evaluate": EVALUATE,
    "study": ["study", "run", "killed.toml", "--executor", "inline"],
    "assess": [*ASSESS, "--workers", "0"],
    "study in processes": ["study", "run", "killed.toml", "--workers", "2"],
}
MOST = 8  # kills of one story


@dataclass(frozen=True)
class Peace:
    """How a command ends that nobody kills: its store before, its seconds and its bits."""

    before: Path
    seconds: float
    bits: dict[str, str]


def run(name: str, folder: Path, after: float | None = None, by: int = signal.SIGKILL) -> tuple[int, bool, str]:
    """One start of a command in ``folder``: exit code, whether it was killed ``after`` seconds, what it said."""
    (folder / "killed.toml").write_text(STUDY)
    child = start_command(COMMANDS[name], folder, folder.parent / f"{folder.name}.{os.urandom(4).hex()}")
    start, killed = time.monotonic(), False
    while True:
        done, status = os.waitpid(child.process, os.WNOHANG)
        if done:
            break
        if after is not None and not killed and time.monotonic() - start >= after:
            end_process(child.process, by)
            killed = True
        time.sleep(0.002)
    return os.waitstatus_to_exitcode(status), killed, child.said()


def end_process(process: int, by: int) -> None:
    """SIGTERM for a command, SIGKILL for it and all that it has started."""
    try:
        (os.killpg if by == signal.SIGKILL else os.kill)(process, by)
    except ProcessLookupError:  # so young that it does not lead its group yet
        os.kill(process, by)


def in_peace(name: str, top: Path) -> Peace:
    """The command's own end, in a store of its own."""
    folder, before = top / f"{name} in peace", top / f"{name} before"
    folder.mkdir()
    if name == "evaluate":
        assert run("train", folder)[0] == 0
    shutil.copytree(folder, before)
    start = time.monotonic()
    code, _, said = run(name, folder)
    assert code == 0, said
    return Peace(before, time.monotonic() - start, bits(folder / "runs"))


def story(name: str, peace: Peace, draw: Random, folder: Path) -> tuple[Counter[str], list[str]]:
    """Kills of one command until it ends; how many by which signal, and what went wrong."""
    shutil.copytree(peace.before, folder)
    kills, faults = Counter[str](), []
    while kills.total() < MOST:
        by = draw.choice((signal.SIGKILL, signal.SIGTERM))
        code, killed, said = run(name, folder, peace.seconds * draw.random() ** 3, by)
        if not killed:
            break
        kills[by.name] += 1
        if "Traceback" in said:
            faults.append(f"{name}: a traceback after {by.name}: {said[-300:]}")
        if by == signal.SIGTERM and code not in (0, 130, -signal.SIGTERM):  # the last one: before Python could listen
            faults.append(f"{name}: exit code {code} after SIGTERM: {said[-300:]}")
    code, _, said = run(name, folder)
    store = Store(folder / "runs")
    if code != 0:
        faults.append(f"{name}: exit code {code} after kills: {said[-300:]}")
    elif bits(store.root) != peace.bits:
        faults.append(f"{name}: other bits after {dict(kills)}")
    faults += [f"{name}: {run.id}: {reason}" for run in store.runs() if (reason := run.damage(fresh=True))]
    faults += [f"{name}: a damaged run was set aside" for _ in (store.root / "damaged").glob("*")]
    shutil.rmtree(folder)
    return kills, faults


def kill(kills: int, seed: int, names: list[str]) -> tuple[dict[str, Counter[str]], list[str]]:
    """At least ``kills`` kills, by turns over the commands: how many of each, and faults."""
    preload()
    draw, counts, faults = Random(seed), {name: Counter[str]() for name in names}, list[str]()
    with tempfile.TemporaryDirectory() as top:
        peaces = {name: in_peace(name, Path(top)) for name in names}
        number = 0
        while sum(count.total() for count in counts.values()) < kills:
            name = names[number % len(names)]
            count, wrong = story(name, peaces[name], draw, Path(top) / f"story-{number}")
            counts[name] += count
            faults += wrong
            number += 1
            print(f"{number:4} {name:20} {dict(count)}", *wrong, flush=True)
    return counts, faults


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default=",".join(COMMANDS), help="commands, separated by commas")
    arguments = parser.parse_args()
    counts, faults = kill(arguments.kills, arguments.seed, arguments.only.split(","))
    for name, count in counts.items():
        print(f"{name:20} " + ", ".join(f"{number} by {by}" for by, number in sorted(count.items())))
    total = sum(count.total() for count in counts.values())
    print(f"kills: {total} over {len(counts)} commands, {len(faults)} faults; all other runs have equal bits")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
