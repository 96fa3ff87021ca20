"""Steps on a Ray cluster: a task takes a step as JSON and answers with a run; its progress goes through a queue.

The cluster is one that runs already, or one of this machine's own for the time
of the study. Token authentication is always on and the dashboard off: whoever
reaches a Ray cluster without a token may run any code there. If a machine
dies, Ray gives its tasks to another; since a run's bits do not depend on where
it was computed, the outcome is that of an undisturbed run.
"""

from __future__ import annotations

import os
import secrets
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from radii import progress
from radii.errors import InputError
from radii.process import isolated_helpers, keep_freed
from radii.runs.executors import _memory_limits as memory_limits
from radii.runs.executors import _remote as remote
from radii.runs.executors._progress_relay import Relay, RemoteDisplay
from radii.runs.executors.dispatch import Failures, Observer, drain, unfinished
from radii.runs.step import Step
from radii.runs.store import Store

RETRIES = 5  # of a task whose machine or process died; its own errors are never retried


@dataclass(frozen=True)
class Cluster:
    """The cluster whose head is at ``address``; without one, a cluster of this machine's own."""

    address: str | None = None
    workers: int | None = None

    def width(self) -> int:
        """Steps at the same time: as many as asked for; else this machine's cores, or one for a cluster."""
        return self.workers or (os.cpu_count() or 1 if self.address is None else 1)

    def run(self, steps: Sequence[Step], store: Store, observer: Observer) -> Failures:
        """As :class:`radii.runs.executors.Executor` says."""
        todo = unfinished(steps, store)
        if not todo:
            return {}
        with connected(self.address, self.width()) as ray, _shown_progress(ray) as messages:
            tasks = _Tasks(ray, store, self.workers, messages)
            try:
                return drain(todo, store, tasks, _EndsOnly(observer))
            finally:
                tasks.cancel()


class _Tasks:
    """Tasks of a cluster; satisfies :class:`radii.runs.executors.dispatch.Workers`."""

    def __init__(self, ray: ModuleType, store: Store, most: int | None, messages: _ProgressQueue | None) -> None:
        self._ray, self._store, self._most, self._messages = ray, store, most, messages
        self._sent: dict[str, Any] = {}  # archives in the cluster's object store, by run id or path
        self._refs: dict[Future[Any], Any] = {}
        self._perform = ray.remote(max_retries=RETRIES)(_perform)

    def have_room(self, step: Step) -> bool:  # noqa: ARG002
        return self._most is None or len(self._refs) < self._most

    def submit(self, step: Step) -> Future[Any]:
        runs = {needed.run_id: self._store.folder(needed) for needed in remote.needed_runs(step)}
        data = remote.own_files(step)
        named = {**runs, **data}
        for key, path in named.items():
            if key not in self._sent:
                self._sent[key] = self._ray.put(remote.pack(path))
        device = self._store.device
        graphics = 1 if device.startswith("cuda") else 0
        task = self._perform.options(num_cpus=1, num_gpus=graphics, memory=self._memory(step), name=step.run_id)
        sent = (self._sent[key] for key in named)
        ref = task.remote(step.to_json(), device, self._messages, list(runs), list(data), *sent)
        future: Future[Any] = ref.future()
        self._refs[future] = ref
        return future

    def collect(self, step: Step, future: Future[Any]) -> None:
        del self._refs[future]
        error = future.exception()
        if error is not None:
            raise _plain(error)
        remote.receive(step, future.result(), self._store)

    def cancel(self) -> None:
        """Cancel the tasks that still run when the study ends early."""
        for ref in self._refs.values():
            self._ray.cancel(ref, force=True)

    def _memory(self, step: Step) -> int:
        """What the step needs, but never more than the largest machine has: a task that fits nowhere waits forever."""
        sizes = [node["Resources"].get("memory", 0.0) for node in self._ray.nodes() if node["Alive"]]
        return int(min(memory_limits.needed(step), max(sizes, default=0.0)))


def _perform(
    step: remote.Json, device: str, messages: _ProgressQueue | None, runs: list[str], data: list[str], *sent: bytes
) -> tuple[str, bytes]:
    """The task: archives arrive in the order of their names, runs first."""
    keep_freed()
    arrived = dict(zip([*runs, *data], sent, strict=True))
    with ExitStack() as shown:
        if messages is not None:
            shown.enter_context(progress.display(RemoteDisplay(messages, secrets.token_hex(4))))
        return remote.perform(
            step, {name: arrived[name] for name in runs}, {name: arrived[name] for name in data}, device
        )


class _ProgressQueue:
    """Progress of tasks on its way to the driver: an actor's queue as a ``progress_relay.Pipe``."""

    def __init__(self, queue: Any) -> None:
        self._queue, self._held = queue, list[Any]()

    def send(self, message: Any, /) -> None:
        self._queue.actor.put_nowait.remote(message)  # no answer is waited for: a message may be lost

    def poll(self, timeout: float = 0.0, /) -> bool:
        try:
            if not self._held:
                self._held.append(self._queue.get(timeout=max(timeout, 0.01)))
        except Exception:  # Empty, or the machine that kept the queue has died: the work goes on without bars
            time.sleep(timeout)
        return bool(self._held)

    def recv(self) -> Any:
        return self._held.pop()


@contextmanager
def _shown_progress(ray: ModuleType) -> Iterator[_ProgressQueue | None]:
    """A queue on this machine whose messages are shown, if there is a display."""
    if progress.current() is None:
        yield None
        return
    from ray.util.queue import Queue
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    this_node = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
    queue = Queue(actor_options={"num_cpus": 0, "scheduling_strategy": this_node})
    relay = Relay(_ProgressQueue(queue))
    try:
        yield _ProgressQueue(queue)
    finally:
        relay.close()
        queue.shutdown(force=True)


class _EndsOnly(Observer):
    """Passes on ends only: this process does not know when a task of a cluster starts."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer

    def ended(self, step: Step, error: BaseException | None) -> None:
        self._observer.ended(step, error)


def _plain(error: BaseException) -> BaseException:
    """The error itself, without Ray's account of where it happened."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, Exception):
        return cause
    text = str(error).strip().splitlines()
    return RuntimeError(f"{type(error).__name__}: {text[0] if text else 'no reason given'}")


class OwnPath(list[str]):
    """Folders that Ray puts first on the path of its workers: only such as this process imports from itself.

    Ray adds the current folder in any case; a file ``torch.py`` beside downloaded data would be run.
    """

    def extend(self, folders: Iterable[str], /) -> None:
        """Add those of the folders that are on this process's own path."""
        super().extend(folder for folder in folders if folder in sys.path)


@contextmanager
def connected(address: str | None, cores: int) -> Iterator[ModuleType]:
    """Ray, connected. It is disconnected afterwards, and ended if this call started it; an existing connection is kept.

    Args:
        address: HOST:PORT of a cluster's head; None starts a cluster on this machine.
    """
    ray = _imported(address)
    if ray.is_initialized():
        yield ray
        return
    quiet = {"log_to_driver": False, "logging_level": "error", "configure_logging": False}
    ours = {"num_cpus": cores, "include_dashboard": False} if address is None else {}
    job = ray.job_config.JobConfig()
    job._py_driver_sys_path = OwnPath()  # no public way
    try:
        with isolated_helpers():
            ray.init(address=address or "local", job_config=job, **ours, **quiet)
    except Exception as error:  # Ray raises many types, bare Exception among them
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        hint = "Is its head running there, and is RAY_AUTH_TOKEN (or RAY_AUTH_TOKEN_PATH) the cluster's own?"
        what = f"The Ray cluster at {address} cannot be joined" if address else "A Ray cluster cannot be started here"
        raise InputError(f"{what}: {reason} {hint if address else ''}".strip()) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _imported(address: str | None) -> ModuleType:
    """Ray, set before its import to require a token and not to report its use."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ["RAY_AUTH_MODE"] = "token"
    if address is None and not (os.environ.get("RAY_AUTH_TOKEN") or os.environ.get("RAY_AUTH_TOKEN_PATH")):
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    try:
        import ray
    except ImportError as error:
        raise InputError("Ray is not installed: pip install ray.") from error
    return ray
