"""The examples of docs/guide/report.md run, and print what the page says they print."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "report.md"


def test_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text()
    names: dict = {}
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(block, names)
    printed = re.findall(r"```\n(\(.*?)```", text, re.DOTALL)
    assert capsys.readouterr().out == "".join(printed)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["certified.png", "report.html"]
