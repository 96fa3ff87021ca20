"""Folders whose names are not UTF-8 or steer terminals: every command writes its page, card, chart and table."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from radii.cli.main import app, guarded
from radii.report import charts
from radii.report.html import Report, Section, render
from radii.tables import ChartSpec, Field, listing
from radii.untrusted_text import clean

NAMES = (b"caf\xe9", b"\x1b[2J\xe2\x80\xae\xffdog\n")
SPOILED = "\x1b\x9b\udcff\ud800\u202e\u2066\u2028\x00"
MODEL = "import torch\nfrom torch import nn\n\ndef net():\n    return nn.Sequential(nn.Flatten(), nn.Linear(16, 2))\n"


def run(*words: object) -> None:
    assert guarded(lambda: app([str(word) for word in words], standalone_mode=False)) in (0, 1)


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two classes of strange names, in the current folder, and a network for them."""
    monkeypatch.chdir(tmp_path)
    draw = np.random.default_rng(0)
    for number, name in enumerate(NAMES):
        folder = os.path.join(os.fsencode(tmp_path), b"photos\xff", name)
        try:
            os.makedirs(folder)
        except OSError:
            pytest.skip("this file system takes UTF-8 only")
        for image in range(20):
            pixels = (draw.random((4, 4)) * 100 + 120 * number).astype(np.uint8)
            Image.fromarray(pixels).save(os.fsdecode(os.path.join(folder, b"%d.png" % image)))
    Path("net.py").write_text(MODEL)
    torch.manual_seed(0)
    torch.save(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 2)).state_dict(), "net.pth")
    return tmp_path / os.fsdecode(b"photos\xff")


def test_every_command_writes_its_files(photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = ("net.py:net", photos, "--weights", "net.pth")
    quick = ("--epochs", 1, "--points", 4, "--suite", "pgd", "--no-forecast", "--workers", 0)
    run("assess", photos, "--model", mine[0], *mine[2:], *quick, "--json", "assess.json")
    run("audit", photos, "--plot", "audit.html", "--pairs", "pairs.png", "--json", "audit.json")
    run("variants", photos, "--binarize")
    run("evaluate", *mine, "--threat", "l2:0.1", "--suite", "pgd", "--plot", "plot.svg", "--pictures", "worst.png",
        "--json", "evaluate.json")  # fmt: skip
    run("gate", *mine, "--require", "clean>=0.5", "--junit", "j.xml", "--markdown", "g.md", "--json", "gate.json")
    run("card", "gate.json")
    run("datasets", photos, "--json", "datasets.json")
    for name in ("report.html", "audit.html", "plot.svg", "j.xml", "g.md", "MODEL_CARD.md"):
        text = Path(name).read_bytes().decode()  # it is UTF-8
        assert not set(SPOILED) & set(text), name
    for name in ("assess.json", "audit.json", "evaluate.json", "gate.json", "datasets.json"):
        json.loads(Path(name).read_text())
    assert "caf\\xe9" in Path("report.html").read_text()


TEXT = f"a{SPOILED}b"


def chart() -> ChartSpec:
    rows = [{"x": f"{TEXT}{n}", "y": float(n), "s": TEXT} for n in range(3)]
    return ChartSpec("bars", rows, Field("x"), Field("y"), series="s", title=TEXT, note=TEXT)


PAGES: dict[str, Callable[[Path], Any]] = {
    ".html": lambda path: path.write_text(
        render(Report(TEXT, (Section(TEXT, (chart(), listing(TEXT, (TEXT,), [(TEXT,)])), lead=TEXT),), TEXT, TEXT))
    ),
    ".svg": lambda path: charts.save(chart(), path),
    ".png": lambda path: charts.save(chart(), path),
    ".pdf": lambda path: charts.save(chart(), path),
}


@pytest.mark.parametrize("suffix", PAGES)
def test_pages_and_pictures_hold_no_spoiled_character(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"page{suffix}"
    PAGES[suffix](path)
    if suffix in (".html", ".svg"):
        text = path.read_bytes().decode()
        assert not set(SPOILED) - {"\u2028"} & set(text)
        assert clean(TEXT).replace("\\", "\\\\") in text or clean(TEXT) in text
