"""The process: what radii reads from environment variables, each checked, and what happens to freed memory.

======================== ==================================================
RADII_CACHE              folder of decoded datasets and other things that
                         can be computed again; the user's cache folder
RADII_RUNS               folder of runs; ``./radii-runs``
RADII_DATA               folder in which datasets are looked up by name
RADII_CHECKPOINT_SECONDS seconds between checkpoints of a training; 30
RADII_THREADS            torch threads that a step is computed with; 1
                         (a neighbor search takes all cores unless it is set)
======================== ==================================================
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from math import isfinite
from pathlib import Path

from radii.errors import InputError

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # names of glibc's malloc.h
_LARGEST_KEPT = 2**30
_MOST_KEPT = 2**31 - 1
CHECKPOINT_SECONDS = 30.0


def cache_folder() -> Path:
    """``$RADII_CACHE``, else the folder ``radii`` in the user's cache folder."""
    own = os.environ.get("RADII_CACHE")
    if own:
        return Path(own).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or "~/.cache"
    return Path(base).expanduser() / "radii"


def runs_folder() -> Path:
    """``$RADII_RUNS`` or ``./radii-runs``."""
    return Path(os.environ.get("RADII_RUNS") or "radii-runs").expanduser()


def data_folder() -> Path | None:
    """``$RADII_DATA``, if it is set."""
    own = os.environ.get("RADII_DATA")
    return Path(own).expanduser() if own else None


@contextmanager
def isolated_helpers() -> Iterator[None]:
    """Processes that are started in this context never import modules from the current folder, and do not see Ctrl-C.

    A spawned interpreter has that folder first on its path until it learns its parent's path, and imports
    modules before it does; a file ``socket.py`` beside one's data would be run. Ctrl-C reaches the whole group: a
    helper that still imports would print a traceback. It inherits a blocked signal; the parent ends it.
    """
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        if before is None:
            del os.environ["PYTHONSAFEPATH"]
        else:
            os.environ["PYTHONSAFEPATH"] = before


def checkpoint_seconds() -> float:
    """``$RADII_CHECKPOINT_SECONDS``: how much work a kill may lose, in seconds; 30."""
    text = os.environ.get("RADII_CHECKPOINT_SECONDS") or str(CHECKPOINT_SECONDS)
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not (isfinite(seconds) and seconds >= 0):
        raise InputError(f"RADII_CHECKPOINT_SECONDS must be a number of seconds, 0 or more, got {text!r} instead.")
    return seconds


def step_threads() -> int:
    """``$RADII_THREADS``: torch threads of a step; 1, so that every machine and executor gives the same bits."""
    text = os.environ.get("RADII_THREADS") or "1"
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 1024):
        raise InputError(f"RADII_THREADS must be a number of threads from 1 to 1024, got {text!r} instead.")
    return int(text)


def search_threads() -> int | None:
    """Threads of a neighbor search: ``$RADII_THREADS``, else None for all cores; they do not change its result."""
    return step_threads() if os.environ.get("RADII_THREADS") else None


def physical_memory() -> int | None:
    """Bytes of memory that this machine has; None where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def keep_freed() -> bool:
    """Let freed memory stay with this process, from now to its end; False where the C library cannot.

    A training step or a forward pass frees and asks for the same large blocks again
    and again. glibc gives such blocks back to the system, which hands out fresh
    pages one fault at a time: 150,000 faults, a fifth of the time, in a step of a
    CPL ConvNet with 16 channels and batch 256, and half of the time of a forward
    pass of Wong & Kolter's ConvNet on 250 images.

    Blocks up to 1 GB are kept and used again, up to 2 GB at the top of the
    heap. Results do not change; the process may hold on to the most it needed.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if hasattr(ctypes, "CDLL") else None
    if mallopt is None:
        return False
    # Setting either ends glibc's own adjustment of both, so both or none.
    return bool(mallopt(_MMAP_THRESHOLD, _LARGEST_KEPT) and mallopt(_TRIM_THRESHOLD, _MOST_KEPT))
