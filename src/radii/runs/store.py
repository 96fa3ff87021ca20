"""The run store: a step's hash names its folder, and the folder's existence means done.

::

    store/
      runs/<kind>-<hash>/    committed, immutable: spec.json result.json env.json …
      work/<kind>-<hash>/    in progress; checkpoints live here
      locks/<kind>-<hash>    empty files for flock

Claims are file locks that the kernel releases when their process dies, so none
is ever stale; they only save work. What makes results right is the commit: a
folder is synced to disk and renamed into ``runs`` whole, and if somebody else
was first, ours is dropped.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import platform
import shutil
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from radii.errors import InputError

if TYPE_CHECKING:
    from radii.runs.step import Step

CHECKPOINT = "checkpoint.safetensors"


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
class Run:
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
        return _read_json(self.folder / "spec.json")

    @property
    def result(self) -> dict[str, Any]:
        """What came out."""
        return _read_json(self.folder / "result.json")

    @property
    def environment(self) -> dict[str, Any]:
        """Versions, threads and processor; recorded, never hashed."""
        return _read_json(self.folder / "env.json")

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())


@dataclass(frozen=True)
class Store:
    """Runs under one folder of one file system; networks are trained on ``device``."""

    root: Path
    device: str = "cpu"

    @classmethod
    def default(cls, device: str = "cpu") -> Store:
        """``$RADII_RUNS`` or ``./radii-runs``."""
        return cls(Path(os.environ.get("RADII_RUNS", "radii-runs")), device)

    def folder(self, step: Step) -> Path:
        """Where the step's run is, or will be."""
        return self.root / "runs" / step.run_id

    def is_done(self, step: Step) -> bool:
        """Whether the run is committed."""
        return self.folder(step).is_dir()

    def runs(self) -> list[Run]:
        """All committed runs, oldest first."""
        folders = [path for path in (self.root / "runs").glob("*-*") if path.is_dir()]
        return [Run(path) for path in sorted(folders, key=lambda path: (path.stat().st_mtime, path.name))]

    def find(self, reference: str) -> Run:
        """The run of which ``reference`` is the id, the beginning of its id or of its hash, or the folder."""
        as_path = Path(reference)
        if (as_path / "spec.json").is_file():
            return Run(as_path)
        matches = [
            run for run in self.runs() if run.id.startswith(reference) or run.id.split("-")[-1].startswith(reference)
        ]
        if len(matches) == 1:
            return matches[0]
        if not matches:
            raise InputError(f"No run in {self.root} is called {reference!r}. `radii runs` lists them.")
        raise InputError(f"{reference!r} fits {len(matches)} runs, {matches[0].id} and {matches[1].id} among them.")

    def delete(self, run: Run) -> None:
        """Forget a run: out of ``runs`` by one rename, then removed."""
        grave = self.root / "work" / f".deleted-{run.id}-{os.getpid()}"
        grave.parent.mkdir(parents=True, exist_ok=True)
        os.rename(run.folder, grave)
        shutil.rmtree(grave)

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
                    self._compute(step)
        return Run(self.folder(step))

    def adopt(self, step: Step, fill: Callable[[Path], None]) -> Run:
        """The step's run as another machine computed it; ``fill`` writes its files into a folder."""
        folder = self.root / "work" / f".received-{step.run_id}-{os.getpid()}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            fill(folder)
            _write_json(folder / "spec.json", step.to_json())  # the other machine's names other paths
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

    def _compute(self, step: Step) -> None:
        folder = self.root / "work" / step.run_id
        folder.mkdir(parents=True, exist_ok=True)
        result = folder / "result.json"
        if not result.exists():  # else killed between finishing and committing: commit now
            try:
                _write_json(folder / "spec.json", step.to_json())
                started = time.monotonic()
                outcome = step.perform(Workspace(folder, self))
                _write_json(folder / "env.json", environment(time.monotonic() - started))
                _write_json(result, outcome)
            except Exception as error:
                _record_failure(folder, error)
                raise
        self._commit(folder, self.folder(step))

    def _commit(self, folder: Path, target: Path) -> None:
        (folder / CHECKPOINT).unlink(missing_ok=True)
        (folder / "error.json").unlink(missing_ok=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        for path in [*folder.rglob("*"), folder]:
            _sync(path)
        try:
            os.rename(folder, target)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            shutil.rmtree(folder)  # somebody without our lock (another machine) was first; the content is the same
        _sync(target.parent)


def environment(seconds: float) -> dict[str, Any]:
    """What the bits of a result may depend on beyond its spec."""
    import torch

    packages = ("radii", "torch", "numpy", "scipy", "scikit-learn", "numba", "safetensors")
    return {
        "seconds": round(seconds, 3),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "processor": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "versions": {name: _version(name) for name in packages},
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except ModuleNotFoundError:  # run from a source tree that was not installed
        return "not installed"


def _record_failure(folder: Path, error: Exception) -> None:
    try:
        _write_json(folder / "error.json", {"error": str(error), "traceback": traceback.format_exc()})
    except OSError:
        return  # the disk is full: the error itself, raised by the caller, says so


def _read_json(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text())
    except (OSError, json.JSONDecodeError) as error:
        raise InputError(f"{path} is not a file of a run: {error}.") from error


def _write_json(path: Path, content: dict[str, Any]) -> None:
    aside = path.with_name(f".{path.name}.part")
    with aside.open("w") as file:
        json.dump(content, file, indent=2, sort_keys=True, allow_nan=False)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
