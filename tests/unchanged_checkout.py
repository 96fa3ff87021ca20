"""Hooks of a session of tests: it fails if it leaves a file in the checkout, or changes or removes one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[1]
EDITED = (CHECKOUT / "src", CHECKOUT / "tests")  # people write there while tests run: only new and lost files count


def checkout_files(root: Path = CHECKOUT) -> dict[str, tuple[int, int] | None]:
    """Every file of the checkout, whether git knows it or not, with its size and time; no caches, no environments."""
    files: dict[str, tuple[int, int] | None] = {}
    for folder, inner, names in os.walk(root):
        inner[:] = [name for name in inner if name != "__pycache__" and not name.startswith(".")]
        inner[:] = [name for name in inner if not os.path.exists(os.path.join(folder, name, "pyvenv.cfg"))]
        edited = any(Path(folder).is_relative_to(each) for each in EDITED)
        for path in (Path(folder, name) for name in names if not name.startswith(".")):
            state = path.lstat()
            files[str(path.relative_to(root))] = None if edited else (state.st_size, state.st_mtime_ns)
    return files


_before = pytest.StashKey[dict[str, tuple[int, int] | None]]()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Remember the checkout; under xdist the process that starts the workers does it."""
    if not hasattr(session.config, "workerinput"):
        session.config.stash[_before] = checkout_files()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail if the tests left a file in the checkout, or changed or removed one."""
    before = session.config.stash.get(_before, None)
    if before is None:
        return
    after = checkout_files()
    changed = sorted(name for name in before.keys() | after.keys() if before.get(name, 0) != after.get(name, 0))
    if changed:
        print(f"\nThe tests must leave the checkout as it was; these files differ: {', '.join(changed)}.")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
