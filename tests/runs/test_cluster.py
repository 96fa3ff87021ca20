"""Ray: a real cluster of two nodes, one of which is killed in the middle of a study; the bits stay the same."""

from __future__ import annotations

import hashlib
import os
import secrets
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from radii.errors import InputError
from radii.runs.executors import executor_named

pytest.importorskip("ray")

# In a process of its own: Ray reads the authentication mode when it is loaded, and pytest's other tests go on without.
SCRIPT = textwrap.dedent(
    """
    import atexit, signal, sys, time
    from contextlib import contextmanager
    from pathlib import Path

    from ray.cluster_utils import Cluster

    from radii import progress
    from radii.runs.executors import Inline, Observer
    from radii.runs.executors._ray_cluster import Cluster as RayExecutor
    from radii.runs.component_specs import DataSpec
    from radii.runs.planning import train_step
    from radii.runs.steps import Evaluate
    from radii.runs.store import Store
    from radii.threat import Ball

    folder, epochs = Path(sys.argv[1]), int(sys.argv[2])
    data = DataSpec.of(str(folder / "own.npz"))  # only the driver has this file: it travels
    settings = {"model": {"widen": 0.125}, "epochs": epochs, "batch_size": 128}
    trainings = [train_step(data, "lenet5", "natural", settings, seed=seed) for seed in range(3)]
    steps = [*trainings, Evaluate(model=trainings[0], data=data, ball=Ball("l2", 0.3), suite="fast", points=20)]

    started = time.monotonic()
    try:
        cluster = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 1, "include_dashboard": False, "object_store_memory": 80_000_000},
        )
    except Exception as error:
        sys.exit(77 if "timed out during startup" in str(error) else 1)
    atexit.register(cluster.shutdown)
    signal.signal(signal.SIGALRM, lambda *_: sys.exit("too slow"))  # so that no node outlives the test
    signal.alarm(700)
    worker = cluster.add_node(num_cpus=1, object_store_memory=80_000_000)
    print(f"cluster of two nodes after {time.monotonic() - started:.1f} s", flush=True)


    class Killer(Observer):
        ended_before = 0

        def ended(self, step, error):
            assert error is None, error
            self.ended_before += 1
            print(f"{time.monotonic() - started:6.1f} s: {step.run_id}", flush=True)
            if self.ended_before == 1:  # the next ones are under way on both nodes
                cluster.remove_node(worker, allow_graceful=False)
                print("the worker node was killed", flush=True)


    class Seen:
        opened, advanced = [], 0.0

        @contextmanager
        def task(self, what, total, unit):
            self.opened.append(what)
            yield self

        def advance(self, amount=1, note=""):
            self.advanced += amount

        def say(self, sentence):
            self.opened.append(sentence)


    far = Store(folder / "far")
    killer, seen = Killer(), Seen()
    with progress.display(seen):
        failures = RayExecutor(cluster.address).run(steps, far, killer)
    assert not failures, failures
    assert killer.ended_before == 4
    print("bars:", sorted(set(seen.opened)), seen.advanced, flush=True)
    assert seen.opened and seen.advanced > 0, seen.opened
    near = Store(folder / "near")
    assert not Inline().run(steps, near, Observer())
    """
)


def files_of(root: Path) -> dict[str, str]:
    """What must be the same: weights, points and results by their sha256 (env.json has the seconds)."""
    found = sorted(path for path in (root / "runs").rglob("*") if path.suffix == ".safetensors")
    found += sorted((root / "runs").rglob("result.json"))
    return {str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


@pytest.mark.timeout(850)
@pytest.mark.heavy
def test_a_node_that_dies_changes_no_bit(tmp_path: Path) -> None:
    import numpy as np
    from sklearn.datasets import load_digits

    digits = load_digits()
    x = (digits.images / 16).astype(np.float32)[:, None]
    np.savez(
        tmp_path / "own.npz", x_train=x[:600], y_train=digits.target[:600], x_test=x[600:], y_test=digits.target[600:]
    )
    environment = os.environ | {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_USAGE_STATS_ENABLED": "0",
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path), "5"],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=800,
    )
    if done.returncode == 77:
        pytest.skip("Ray waits 30 seconds for a node to start, which was not enough on this busy machine")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert "the worker node was killed" in done.stdout
    far, near = files_of(tmp_path / "far"), files_of(tmp_path / "near")
    assert len(far) == 3 + 1 + 4  # weights, points, results
    assert far == near


def test_an_address_belongs_to_ray() -> None:
    assert executor_named("ray", 3, "head:6379").width() == 3
    assert executor_named("ray:local", 2).width() == 2
    with pytest.raises(InputError, match="--executor ray --address HOST:PORT"):
        executor_named("ray")
    with pytest.raises(InputError, match="An address goes with --executor ray"):
        executor_named("processes", None, "head:6379")
