"""docs/guide/studies.md: its session prints what the page says, its study file is understood."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from radii.studies import toml

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guide" / "studies.md").read_text()


def test_the_python_session(capsys: pytest.CaptureFixture[str]) -> None:
    (session,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(session, {})
    assert f"```\n{capsys.readouterr().out}```" in PAGE


def test_the_study_file(tmp_path: Path) -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "widths.toml").write_text(text)
    assert len(toml.load(tmp_path / "widths.toml").cells("cpu")) == 4


def test_pages_of_studies_say_what_the_results_say() -> None:
    """docs/notes/studies/NAME.md is what its script writes from the shipped results."""
    spec = importlib.util.spec_from_file_location("write", ROOT / "docs" / "notes" / "studies" / "write.py")
    assert spec is not None
    assert spec.loader is not None
    write = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(write)
    for name in write.PAGES:
        assert (ROOT / "docs" / "notes" / "studies" / f"{name}.md").read_text() == write.page(name)
        assert (ROOT / "docs" / "notes" / "studies" / f"{name}.png").is_file()
