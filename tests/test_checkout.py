"""``unchanged_checkout.py``: a session of tests that writes into the checkout fails, with and without xdist."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HOOKS = Path(__file__).with_name("unchanged_checkout.py")
TESTS = {
    "clean": "def test_it(tmp_path): (tmp_path / 'report.html').write_text('x')",
    "dirty": "import pathlib\ndef test_it(): pathlib.Path(__file__).parents[1].joinpath('report.html').write_text('x')",
}


@pytest.mark.parametrize(("kind", "workers"), [("clean", "0"), ("dirty", "1")])
def test_a_file_in_the_checkout_fails_the_session(kind: str, workers: str, tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    shutil.copy(HOOKS, tmp_path / "tests" / "conftest.py")
    (tmp_path / "tests" / "test_it.py").write_text(TESTS[kind])
    (tmp_path / "report.html").write_text("of make demo")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:radii",
        "-n",
        workers,
        "--rootdir",
        ".",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == (kind == "dirty"), done.stdout + done.stderr
    assert ("these files differ: report.html." in done.stdout) == (kind == "dirty")
