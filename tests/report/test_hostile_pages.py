"""Every page that a command writes, on data whose file and classes are named by a stranger: no name becomes markup."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from radii.cli.main import app, guarded
from report.test_html import Elements

NAME = "<img src=x onerror=alert(1)>'&{{7*7}}"
STUDY = f"""
name = "strange"
title = '''{NAME.replace("'", "")}'''
source = '''</script><svg onload=alert(2)>'''
data = ["stranger.npz"]
[settings]
epochs = 1
[[model]]
name = "mlp"
[[method]]
name = "natural"
"""


def written(*words: object) -> Elements:
    """The page that a command writes as page.html."""
    assert guarded(lambda: app([str(word) for word in words], standalone_mode=False)) == 0
    return Elements(Path("page.html").read_text())


def check(page: Elements) -> None:
    """Only the page's own elements, and pictures inside it."""
    handlers = [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
    pictures = [attributes["src"] for tag, attributes in page.tags if tag == "img"]
    assert not handlers
    assert all(str(source).startswith("data:image/") for source in pictures)
    assert not any(tag == "svg" and "onload" in attributes for tag, attributes in page.tags)


@pytest.fixture
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A small dataset in the current folder, under a hostile name and a plain one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RADII_RUNS", "runs")
    draw = np.random.default_rng(0)
    y = np.arange(80) % 2
    x = (0.3 * draw.random((80, 1, 8, 8)) + 0.6 * y[:, None, None, None]).astype(np.float32)
    classes = np.array([NAME, "</script><script>alert(3)</script>"])
    split = {"x_train": x[:60], "y_train": y[:60], "x_test": x[60:], "y_test": y[60:], "classes": classes}
    for name in (f"{NAME}.npz", "stranger.npz"):
        np.savez(name, **split)
    Path("strange.toml").write_text(STUDY)
    return split


def test_no_name_becomes_markup(stranger: dict[str, Any]) -> None:
    data = f"{NAME}.npz"
    quick = ("--epochs", 1, "--points", 10, "--suite", "fast", "--no-forecast", "--workers", 0)
    page = written("assess", data, *quick, "--out", "page.html")
    check(page)
    assert "onerror=alert(1)" in Path("page.html").read_text()  # the names are shown, as text
    check(written("audit", data, "--plot", "page.html"))
    check(written("train", data, "--model", "mlp", "epochs=1", "--plot", "page.html"))
    check(written("study", "run", "strange.toml", "--workers", 0, "--plot", "page.html"))
