"""Restricted ImageNet from a folder of 1,000 classes: nine groups, linked; one sentence where the folder is another."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from radii.data import sources
from radii.data._restricted_imagenet import CLASSES, GROUPS, link_groups
from radii.errors import InputError


def make_imagenet(root: Path, classes: int = CLASSES) -> Path:
    """One tiny image for each class of the groups, in both splits; the other folders are empty."""
    wanted = {number for first, last in GROUPS.values() for number in range(first, last + 1)}
    draw = np.random.default_rng(0)
    for split in ("train", "val"):
        for number in range(classes):
            folder = root / split / f"n{number:08d}"
            folder.mkdir(parents=True)
            if number in wanted:
                pixels = draw.integers(0, 256, (4, 4, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / f"{number}.png")
    return root


def test_nine_groups_of_the_right_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_imagenet(tmp_path / "data" / "imagenet")
    monkeypatch.setenv("RADII_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("RADII_CACHE", str(tmp_path / "cache"))
    data = sources.load("restricted-imagenet")
    assert data.classes == tuple(sorted(GROUPS))
    counts = {name: int((data.train.y == label).sum()) for label, name in enumerate(data.classes)}
    assert counts == {name: last - first + 1 for name, (first, last) in GROUPS.items()}
    assert sum(counts.values()) == len(data.test) == 203


def test_files_are_linked_and_made_once(tmp_path: Path) -> None:
    imagenet = make_imagenet(tmp_path / "imagenet")
    made = link_groups(imagenet, tmp_path / "restricted")
    files = list((made / "train" / "crab").iterdir())
    assert sorted(file.name for file in files) == [f"n{n:08d}-{n}.png" for n in range(118, 122)]
    assert all(file.stat().st_nlink == 2 for file in files)
    files[0].unlink()
    assert len(list((link_groups(imagenet, made) / "train" / "crab").iterdir())) == 3
    assert not [entry for entry in tmp_path.iterdir() if entry.name.startswith(".")]


def test_another_folder_is_refused_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"no folder .*train"):
        link_groups(tmp_path, tmp_path / "out")
    make_imagenet(tmp_path / "small", classes=400)
    with pytest.raises(InputError, match="1,000 classes, got 400"):
        link_groups(tmp_path / "small", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    monkeypatch.setenv("RADII_DATA", str(tmp_path / "nothing"))
    monkeypatch.setenv("RADII_CACHE", str(tmp_path / "cache"))
    with pytest.raises(InputError, match="made from an ImageNet folder of your own"):
        sources.locate("restricted-imagenet")
