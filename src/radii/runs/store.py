"""The run store: a step's hash names its folder, and the folder's existence means done.

::

    store/
      runs/<kind>-<hash>/    committed, immutable: spec.json result.json env.json … manifest.json
      work/<kind>-<hash>/    in progress; checkpoints live here
      locks/<kind>-<hash>    empty files for flock
      damaged/<kind>-<hash>  runs whose files are no longer what was written

Claims are file locks that the kernel releases when their process dies, so none
is ever stale; they only save work. What makes results right is the commit: the
checksums of a folder's files are written last, all files are synced to disk, and the
folder is renamed into ``runs`` whole; if somebody else was first, ours is dropped.

Checksums are compared whenever a run is used. A damaged run, also one without
checksums, is moved aside and computed again.
"""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import platform
import shutil
import subprocess
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from radii.errors import InputError
from radii.files import damage, is_unfinished, sync, sync_all, write_manifest, write_whole
from radii.process import runs_folder, step_threads
from radii.randomness import fixed_arithmetic
from radii.runs.step_results import R, StepResult, parse_result
from radii.spec import read_json
from radii.tables import Table, Tabular, listing

if TYPE_CHECKING:
    from radii.runs.step import Step

CHECKPOINT = "checkpoint.safetensors"
RESULT = "result.json"


@dataclass(frozen=True)
class Workspace:
    """The folder a step works in, and the store where its inputs lie."""

    folder: Path
    store: Store

    @property
    def checkpoint(self) -> Path:
        """Where the step may keep its progress; gone once the run is committed."""
        return self.folder / CHECKPOINT


@dataclass(frozen=True)
class Run(Tabular):
    """A committed run."""

    folder: Path

    @property
    def id(self) -> str:
        """``<kind>-<hash>``."""
        return self.folder.name

    @property
    def kind(self) -> str:
        """The step's kind: train, audit, evaluate, …"""
        return self.id.rpartition("-")[0]

    @property
    def spec(self) -> dict[str, Any]:
        """What was asked."""
        return read_json(self.folder / "spec.json", "the spec of a run")

    @property
    def content(self) -> dict[str, Any]:
        """What came out, as ``result.json`` has it."""
        return read_json(self.folder / RESULT, "the result of a run")

    def read(self, record: type[R]) -> R:
        """What came out, as the record that the step returned.

        Args:
            record: its type: ``run.read(Train.Result)``.
        """
        return parse_result(self.content, record, f"The result of the run {self.id}")

    @property
    def result(self) -> StepResult:
        """What came out, as the record of the run's kind."""
        from radii.runs.step import result_type

        return self.read(result_type(self.kind))

    @property
    def environment(self) -> dict[str, Any]:
        """Versions, threads and processor; recorded, never hashed."""
        return read_json(self.folder / "env.json", "the environment of a run")

    @property
    def committed(self) -> datetime:
        """When it was finished; no result depends on it."""
        return datetime.fromtimestamp(self.folder.stat().st_mtime, UTC)

    @property
    def cpu_seconds(self) -> float | None:
        """CPU time of all threads; None where it is not known: resumed runs."""
        environment = self.environment
        return None if environment.get("resumed") else environment.get("cpu_seconds")

    def table(self) -> Table:
        """The figures of its result, in a line each; nested ones and lists are left out."""
        lines = [(name, value) for name, value in self.content.items() if isinstance(value, str | int | float)]
        return listing(self.id, ("figure", "value"), lines)

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())

    def damage(self, fresh: bool = False) -> str | None:
        """What is wrong with this run's files, in a few words; None if nothing is."""
        return damage(self.folder, fresh)


@dataclass(frozen=True)
class Store:
    """Runs under one folder of one file system; networks are trained on ``device``."""

    root: Path
    device: str = "cpu"

    @classmethod
    def default(cls, device: str = "cpu") -> Store:
        """``$RADII_RUNS`` or ``./radii-runs``."""
        return cls(runs_folder(), device)

    def folder(self, step: Step) -> Path:
        """Where the step's run is, or will be."""
        return self.root / "runs" / step.run_id

    def is_done(self, step: Step) -> bool:
        """Whether the run is committed and its files are what was written."""
        folder = self.folder(step)
        return folder.is_dir() and Run(folder).damage() is None

    def runs(self) -> list[Run]:
        """All committed runs, oldest first."""
        folders = [path for path in (self.root / "runs").glob("*-*") if path.is_dir() and not path.is_symlink()]
        return [Run(path) for path in sorted(folders, key=lambda path: (path.stat().st_mtime, path.name))]

    def find(self, reference: str) -> Run:
        """The run that a user names, with all its files as they were written.

        Args:
            reference: the run's id, the beginning of its id or of its hash, or its folder.

        Raises:
            InputError: there is no such run, there are several, or it is damaged.
        """
        return _undamaged(self.named(reference))

    def named(self, reference: str) -> Run:
        """The run that a user names; its files are not read."""
        as_path = Path(reference)
        if (as_path / "spec.json").is_file():
            return Run(as_path)
        return self._only(self._matching(reference), reference)

    def _matching(self, reference: str) -> list[Run]:
        runs = self.runs() if reference else []
        exact = [run for run in runs if run.id == reference]
        return exact or [
            run for run in runs if run.id.startswith(reference) or run.id.split("-")[-1].startswith(reference)
        ]

    def _only(self, matches: list[Run], reference: str) -> Run:
        if not matches:
            raise InputError(f"No run in {self.root} is called {reference!r}. `radii runs` lists them.")
        if len(matches) > 1:
            newest = sorted(matches, key=lambda run: run.folder.stat().st_mtime, reverse=True)[:3]
            shown = ", ".join(f"{run.id} ({_origin(run)})" for run in newest)
            raise InputError(f"{reference!r} fits {len(matches)} runs, the newest are {shown}.")
        return matches[0]

    def own(self, reference: str) -> Run:
        """The one run of this store that ``reference`` names, damaged or not; never a folder elsewhere."""
        matches = self._matching(reference)
        if not matches:  # a path is taken if it leads to a run of this store
            place = Path(reference).absolute()
            matches = [run for run in self.runs() if reference and run.folder.absolute() == place]
        return self._only(matches, reference)

    def delete(self, run: Run) -> None:
        """Forget a run of this store: out of ``runs`` by one rename, then removed.

        Raises:
            InputError: the folder is no run of this store.
        """
        if run.folder.absolute().parent != (self.root / "runs").absolute() or run not in self.runs():
            raise InputError(f"{run.folder} is no run of {self.root}; nothing was deleted.")
        trash = self.root / "work" / f".deleted-{run.id}-{os.getpid()}"
        trash.parent.mkdir(parents=True, exist_ok=True)
        os.rename(run.folder, trash)
        shutil.rmtree(trash)

    def ensure(self, step: Step) -> Run:
        """The step's run, computed unless it is there; inputs first.

        Any number of processes may ask at once: one computes, the others wait
        for its lock and find the run committed.
        """
        for needed in step.inputs():
            self.ensure(needed)
        while not self.is_done(step):
            with self._claim(step):
                if not self.is_done(step):
                    self._set_aside(step)
                    self._compute(step)
        return Run(self.folder(step))

    def adopt(self, step: Step, fill: Callable[[Path], None]) -> Run:
        """Commit a run that another machine computed.

        Args:
            step: the step.
            fill: writes the run's files into a folder.

        Raises:
            InputError: the files are not those that the other machine wrote.
        """
        folder = self.root / "work" / f".received-{step.run_id}-{os.getpid()}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            fill(folder)
            if (reason := damage(folder)) is not None:
                raise InputError(f"The run {step.run_id} was damaged on its way: {reason}.")
            _write_json(folder / "spec.json", step.to_json())  # the other machine's names other paths
            write_manifest(folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        self._commit(folder, self.folder(step))
        return Run(self.folder(step))

    @contextmanager
    def _claim(self, step: Step) -> Iterator[None]:
        path = self.root / "locks" / step.run_id
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = path.open("a")
        except OSError as error:
            raise InputError(f"The run store {self.root} cannot be written: {error.strerror}.") from error
        with handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield

    def _set_aside(self, step: Step) -> None:
        """Move a damaged run out of ``runs``, under a name of its own, and say so."""
        folder = self.folder(step)
        if not folder.exists():
            return
        reason = Run(folder).damage()
        place = self.root / "damaged" / f"{step.run_id}-{time.time_ns()}"
        place.parent.mkdir(parents=True, exist_ok=True)
        os.rename(folder, place)
        logging.getLogger("radii").warning(
            "The run %s is damaged (%s); it was moved to %s and is computed again.", step.run_id, reason, place
        )

    def is_finished(self, step: Step) -> bool:
        """Whether the step's work is finished but not committed yet: a kill came between the two."""
        folder = self.root / "work" / step.run_id
        return damage(folder) is None

    def _compute(self, step: Step) -> None:
        folder = self.root / "work" / step.run_id
        folder.mkdir(parents=True, exist_ok=True)
        if not self.is_finished(step):
            try:
                _write_json(folder / "spec.json", step.to_json())
                resumed = any(folder.glob(f"*{CHECKPOINT}"))
                started, used = time.monotonic(), _cpu_clock()
                with fixed_arithmetic(step_threads()):
                    result = _performed(step, Workspace(folder, self))
                    spent = time.monotonic() - started, _cpu_clock() - used
                    _write_json(folder / "env.json", environment(*spent, resumed))
                write_whole(folder / RESULT, result.text().encode(), durable=False)
                _clear(folder)
                write_manifest(folder)
            except Exception as error:
                _record_failure(folder, error)
                raise
        self._commit(folder, self.folder(step))

    def _commit(self, folder: Path, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        sync_all([*(path for path in folder.rglob("*") if path.is_dir()), folder])
        try:
            os.rename(folder, target)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            shutil.rmtree(folder)  # somebody without our lock (another machine) was first; the content is the same
        sync(target.parent)


def _undamaged(run: Run) -> Run:
    reason = run.damage()
    if reason is not None:
        raise InputError(
            f"The run {run.id} is damaged: {reason}. The command that made it computes it again; "
            "`radii runs check` looks at all runs."
        )
    return run


def _performed(step: Step, work: Workspace) -> StepResult:
    result = step.perform(work)
    if not isinstance(result, step.Result):
        wanted = step.Result.__name__
        raise InputError(f"The step {step.kind} must return a {wanted}, got {type(result).__name__} instead.")
    return result


def _clear(folder: Path) -> None:
    """Remove what only served the work: checkpoints, the note of an earlier failure, what a killed writer left."""
    for path in [*folder.glob(f"*{CHECKPOINT}"), folder / "error.json"]:
        path.unlink(missing_ok=True)
    for path in folder.rglob("*"):
        if is_unfinished(path):
            path.unlink()


def _cpu_clock() -> float:
    """CPU seconds of this process and of those that it started and that ended, all threads together."""
    return sum(os.times()[:4])


def environment(seconds: float, cpu_seconds: float, resumed: bool) -> dict[str, Any]:
    """What a result depends on beyond its spec, and the time it took; recorded, never hashed."""
    import torch

    packages = ("radii", "torch", "numpy", "scipy", "scikit-learn", "numba", "safetensors")
    return {
        "seconds": round(seconds, 3),
        "cpu_seconds": round(cpu_seconds, 3),
        "resumed": resumed,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "processor": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "mkldnn": torch.backends.mkldnn.is_available() and torch.backends.mkldnn.enabled,
        "matmul_precision": torch.get_float32_matmul_precision(),
        "versions": {name: _version(name) for name in packages},
        "commit": _commit(),
    }


@cache
def _commit() -> str:
    """The commit of the source tree that runs, with a plus if it has changes; a package that was installed has none."""
    tree = Path(__file__).parents[3]
    if not (tree / ".git").exists():
        return "not recorded"
    git = ("git", "--no-optional-locks", "-C", str(tree))
    try:
        head, changes = (
            subprocess.run([*git, *words], capture_output=True, text=True, timeout=20, check=True).stdout
            for words in (("rev-parse", "HEAD"), ("status", "--porcelain", "--untracked-files=no"))
        )
    except (OSError, subprocess.SubprocessError):  # no git on this machine, or a tree of somebody else
        return "not recorded"
    return head.strip() + ("+" if changes.strip() else "")


def _version(package: str) -> str:
    try:
        return version(package)
    except ModuleNotFoundError:  # run from a source tree that was not installed
        return "not installed"


def _record_failure(folder: Path, error: Exception) -> None:
    with suppress(InputError):  # the disk is full: the error itself, raised by the caller, says so
        _write_json(folder / "error.json", {"error": str(error), "traceback": traceback.format_exc()})


def _write_json(path: Path, content: dict[str, Any]) -> None:
    text = json.dumps(content, indent=2, sort_keys=True, allow_nan=False)
    write_whole(path, text.encode(), durable=False)  # the manifest waits for all files of a run together


def _origin(run: Run) -> str:
    """Dataset and date of a run."""
    when = datetime.fromtimestamp(run.folder.stat().st_mtime, UTC).strftime("%Y-%m-%d")
    try:
        data = run.spec["spec"].get("data") or {}
    except InputError:  # it is damaged
        data = {}
    return f"{data.get('source', '')} {when}".strip()
