"""Every Python example of README, docs and examples/ passes the strict type checks, so its names and types are real."""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
BOOKS = (ROOT / "docs" / "start", ROOT / "docs" / "guide")
UNTYPED = '# mypy: disable-error-code="no-untyped-def"\n'  # short examples leave the types of functions out
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
            written[-1].write_text(UNTYPED + text)
    assert len(written) > 5
    config = ("--config-file", str(ROOT / "pyproject.toml"))  # as strict as the package, and what it found is known
    examples = map(str, [*written, *sorted((ROOT / "examples").glob("*.py"))])
    command = [sys.executable, "-m", "mypy", "--no-error-summary", *config, *examples]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
