"""Names, paths and where they are looked up."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from radii.data import cache, hub, sources
from radii.data.formats import _decoding as decoding
from radii.errors import InputError


def test_digits_are_exact_and_divided_by_class() -> None:
    from sklearn.datasets import load_digits

    data = sources.load("digits")
    assert data.shape == (1, 8, 8)
    assert (len(data.train), len(data.test)) == (1438, 359)
    assert data.classes == tuple("0123456789")
    everything = np.concatenate([data.train.x, data.test.x]) * 16
    original = load_digits()
    assert sorted(map(bytes, everything.astype(np.uint8))) == sorted(
        map(bytes, original.images[:, None].astype(np.uint8))
    )
    shares = np.bincount(data.test.y) / np.bincount(original.target)
    assert (np.abs(shares - 0.2) < 0.005).all()
    assert data.train.digest == sources.load("digits").train.digest


def test_the_split_is_fixed_for_everybody() -> None:
    _, test = sources.split_rows(np.arange(40) % 2, "d")
    assert test.tolist() == FIXED_SPLIT
    train, test = sources.split_rows(np.array([0, 0, 1, 1]), "d")
    assert (len(train), len(test)) == (2, 2)


FIXED_SPLIT = [1, 3, 4, 8, 15, 18, 21, 24]


def test_names_are_looked_up_in_the_data_folder_then_in_the_cache(
    parquet_folder: tuple[Path, np.ndarray], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, pixels = parquet_folder
    monkeypatch.delenv("RADII_DATA", raising=False)
    fetched = cache.folder() / "datasets" / "fashion-mnist"
    fetched.parent.mkdir(parents=True)
    folder.rename(fetched)
    assert sources.locate("fashion-mnist").path == fetched
    here = tmp_path / "data"
    (here / "fashion_mnist").mkdir(parents=True)
    for file in fetched.iterdir():
        (here / "fashion_mnist" / file.name).write_bytes(file.read_bytes())
    monkeypatch.setenv("RADII_DATA", str(here))
    for spelling in ("fashion-mnist", "fashion_mnist"):
        found = sources.locate(spelling)
        assert (found.name, found.path) == ("fashion-mnist", here / "fashion_mnist")
    assert (sources.load("fashion-mnist").train.x == pixels.transpose(0, 3, 1, 2)).all()


def test_own_datasets_in_the_data_folder_have_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    np.savez(tmp_path / "data" / "mine.npz", x=np.eye(10, dtype=np.float32), y=np.arange(10) % 2)
    monkeypatch.setenv("RADII_DATA", str(tmp_path / "data"))
    assert sources.load("mine").shape == (10,)
    assert [line.name for line in sources.listing() if line.contents == "your own"] == ["mine"]


def test_listing_opens_nothing(
    parquet_folder: tuple[Path, np.ndarray], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder, _ = parquet_folder
    folder.rename(tmp_path / "mnist")
    monkeypatch.setenv("RADII_DATA", str(tmp_path))
    monkeypatch.setattr(decoding, "decode", lambda *_: pytest.fail("decoded"))
    monkeypatch.setattr(hub, "fetch", lambda _: pytest.fail("fetched"))
    lines = {line.name: line for line in sources.listing()}
    assert lines["mnist"].path == str(tmp_path / "mnist")
    assert not lines["mnist"].decoded
    assert lines["cifar10"].where == "hub: uoft-cs/cifar10"
    assert {"digits", *hub.KNOWN} <= lines.keys()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("digit", "No dataset is called 'digit'. Did you mean 'digits'?"),
        ("./nowhere/data.npz", "There is no file or folder './nowhere/data.npz'."),
        ("missing.parquet", "There is no file or folder 'missing.parquet'."),
        ("digits+smoth:3", "Did you mean 'smooth'?"),
        ("digits+pca:1-65", "There are 64 principal components"),
        ("digits+smooth:9", "from 1 to the image's side, got 9"),
        ("", "No dataset is called ''"),
    ],
)
def test_unknown_names_are_refused(name: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        sources.load(name)
    assert message in str(error.value)


def test_real_data_has_its_published_shape(real_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RADII_DATA", str(real_data))
    data = sources.load(str(real_data / "mnist" / "test.parquet"))  # ten thousand images: cheap enough
    assert len(data.train) + len(data.test) == 10_000
    assert data.shape == (1, 28, 28)
    assert np.bincount(np.concatenate([data.train.y, data.test.y])).tolist() == [
        980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009
    ]  # fmt: skip


@pytest.mark.heavy
def test_cifar10_is_decoded_whole(real_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RADII_DATA", str(real_data))
    data = sources.load("cifar10")
    assert np.bincount(data.train.y).tolist() == [5000] * 10
    assert data.classes[:2] == ("airplane", "automobile")
    means = data.train.x.mean((0, 2, 3), dtype=np.float64) / 255
    np.testing.assert_allclose(means, (0.4914, 0.4822, 0.4465), atol=1e-4)  # as quoted in every CIFAR-10 recipe
