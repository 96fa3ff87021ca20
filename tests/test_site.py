"""The documentation site builds strictly: no broken link, no page left out, no missing reference, nothing fetched."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mkdocs", reason="mkdocs is not installed: pip install '.[docs]'")
pytestmark = pytest.mark.heavy  # it builds the site; `make docs` does so, too, and tries the search
ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def test_the_site_works_offline(site: Path) -> None:
    fetched = re.compile(r"<(?:script|link|img)[^>]+(?:src|href)=\"?(?:https?:)?//(?!github)", re.IGNORECASE)
    for page in site.rglob("*.html"):
        assert not fetched.search(page.read_text()), page.name
    assert (site / "search" / "search_index.js").exists()
