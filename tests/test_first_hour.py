"""The first hour of the guide: every command of the page, in its order, on made-up photos and the page's network."""

from __future__ import annotations

import importlib.util
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from radii.cli.main import app, guarded
from radii.data import sources

PAGE = (Path(__file__).parents[1] / "docs" / "guide" / "first-hour.md").read_text()
QUICK = {
    "evaluate": ["--points", "12", "--suite", "pgd"],
    "assess": ["--points", "12", "--suite", "pgd", "--workers", "0"],
    "gate": ["--suite", "pgd", "--points", "40"],
}


def photos(folder: Path) -> None:
    """Two classes: bright above and bright below, with noise; 100 photos each, of two sizes."""
    rng = np.random.default_rng(0)
    for name, top in (("cats", 190), ("dogs", 70)):
        (folder / name).mkdir(parents=True)
        for number in range(100):
            side = 32 if number % 2 else 40
            halves = np.repeat([top, 260 - top], side // 2)[:, None, None]
            pixels = np.clip(halves + rng.normal(0, 30, (side, side, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{number:03}.jpg")


def train(folder: Path) -> None:
    """The page's network, trained for a few seconds on normalized photos."""
    spec = importlib.util.spec_from_file_location("resnet", folder / "resnet.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    torch.manual_seed(0)
    model = module.network(2)
    x, y = sources.load(f"{folder / 'photos'}+resize:32").train.tensors()
    mean, std = (torch.tensor(v)[:, None, None] for v in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(15):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model((x - mean) / std), y).backward()
        optimizer.step()
    torch.save(model.state_dict(), folder / "weights.pth")


def test_every_command_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "resnet.py").write_text(re.findall(r"```python\n(# resnet.py.*?)```", PAGE, re.DOTALL)[0])
    photos(tmp_path / "photos")
    train(tmp_path)
    commands = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]
    assert len(commands) == 6
    for line in commands:
        words = shlex.split(line)[1:]
        extra = QUICK.get(words[0], [])
        assert guarded(lambda words=words, extra=extra: app([*words, *extra], standalone_mode=False)) == 0, line
    for name in ("report.html", "last.json", "gate.xml", "MODEL_CARD.md"):
        assert (tmp_path / name).stat().st_size > 300
