"""docs/studies.md: its session prints what the page says, its study file is understood, its links lead somewhere."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from radii.studies import toml

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "studies.md").read_text()


def test_the_python_session(capsys: pytest.CaptureFixture[str]) -> None:
    (session,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(session, {})
    assert f"```\n{capsys.readouterr().out}```" in PAGE


def test_the_study_file(tmp_path: Path) -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "widths.toml").write_text(text)
    assert len(toml.load(tmp_path / "widths.toml").cells("cpu")) == 4


@pytest.mark.parametrize("page", ["studies.md", "cluster.md"])
def test_links_lead_somewhere(page: str) -> None:
    for link in re.findall(r"\]\(([^)#:]+)\)", (ROOT / "docs" / page).read_text()):
        assert (ROOT / "docs" / link).exists(), link


def test_pages_of_studies_say_what_the_results_say() -> None:
    """docs/studies/NAME.md is what its script writes from the shipped results."""
    spec = importlib.util.spec_from_file_location("write", ROOT / "docs" / "studies" / "write.py")
    assert spec is not None
    assert spec.loader is not None
    write = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(write)
    for name in write.PAGES:
        assert (ROOT / "docs" / "studies" / f"{name}.md").read_text() == write.page(name)
        assert (ROOT / "docs" / "studies" / f"{name}.png").is_file()
