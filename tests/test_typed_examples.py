"""Every Python example of README, docs and examples/ passes mypy --strict, so its names and types are real."""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
BOOKS = (ROOT / "docs" / "start", ROOT / "docs" / "guide")
PAGES = [ROOT / "README.md", *sorted(page for book in BOOKS for page in book.glob("*.md"))]


def program(page: Path) -> str:
    """The page's Python blocks one after another; of a session with >>> only what is typed."""
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    sources = [
        "".join(example.source for example in doctest.DocTestParser().get_examples(block)) if ">>>" in block else block
        for block in blocks
        if not block.startswith("# ")  # a file of the reader's own
    ]
    return "\n".join(sources)


def test_examples_pass_strict_type_checks(tmp_path: Path) -> None:
    written = []
    for page in PAGES:
        if text := program(page):
            written.append(tmp_path / f"{page.stem.replace('-', '_').lower()}_page.py")
            written[-1].write_text(text)
    assert len(written) > 5
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--no-error-summary",
        "--config-file",
        str(ROOT / "pyproject.toml"),
    ]
    for untyped in ("no-untyped-def", "no-untyped-call"):  # torch leaves many functions untyped
        command += ["--disable-error-code", untyped]
    command += map(str, [*written, *sorted((ROOT / "examples").glob("*.py"))])
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
