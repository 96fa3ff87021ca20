"""Folders of photographs as people have them: many sizes and formats, turned, deep, transparent, moving, damaged."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from radii.data._image_size import crop, gray, parse_size, resize
from radii.data.sources import load
from radii.errors import InputError

RNG = np.random.default_rng(0)


def picture(width: int = 20, height: int = 16, mode: str = "RGB") -> Image.Image:
    channels = {"RGB": 3, "RGBA": 4, "L": 0}[mode]
    shape = (height, width, channels) if channels else (height, width)
    return Image.fromarray(RNG.integers(0, 256, shape, dtype=np.uint8), mode)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Two classes of ten photographs of one size."""
    for word in ("cat", "dog"):
        (tmp_path / "pets" / word).mkdir(parents=True)
        for number in range(10):
            picture().save(tmp_path / "pets" / word / f"{number}.png")
    return tmp_path / "pets"


def test_every_format_counts_and_what_does_not_is_said(photos: Path, caplog: pytest.LogCaptureFixture) -> None:
    for number, ending in enumerate(("bmp", "gif", "tiff", "webp", "jpg", "ppm", "tga")):
        picture().save(photos / "cat" / f"x{number}.{ending}")
    (photos / "cat" / "notes.txt").write_text("hello")
    (photos / "dog" / "a.heic").write_bytes(b"heic")
    (photos / "dog" / "b.heic").write_bytes(b"heic")
    (photos / "empty").mkdir()
    with caplog.at_level(logging.WARNING, "radii"):
        logging.getLogger("radii").propagate = True
        data = load(str(photos))
    assert len(data.train) + len(data.test) == 27
    assert data.classes == ("cat", "dog")
    assert "27 images in 2 classes; left out: 2 .heic, 1 .txt; class folders without an image: empty" in caplog.text


def test_sizes_are_named_and_resize_gives_one(photos: Path) -> None:
    picture(40, 30).save(photos / "cat" / "large.png")
    with pytest.raises(InputError, match=r"got 2 sizes from 20 x 16 to 40 x 30. Scale them: .*pets\+resize:64"):
        load(str(photos))
    assert load(f"{photos}+resize:8").shape == (3, 8, 8)
    assert load(f"{photos}+resize:8x6").shape == (3, 6, 8), "width x height, as [c, h, w]"
    assert load(f"{photos}+resize:12+crop:8+gray").shape == (1, 8, 8)
    assert load(f"{photos}+crop:16").shape == (3, 16, 16)
    assert load(f"{photos}+resize:8+saturate:4").shape == (3, 8, 8)
    with pytest.raises(InputError, match="cannot be cropped to 30 x 30: use resize"):
        load(f"{photos}+crop:30")
    with pytest.raises(InputError, match="A size is one side or WIDTHxHEIGHT"):
        load(f"{photos}+resize:big")


def test_resize_keeps_proportions_and_the_center() -> None:
    """The usual pipeline: scale the whole image until the shorter side fits, then cut out the center."""
    wide = RNG.integers(0, 256, (1, 1, 10, 30), dtype=np.uint8)
    whole = np.asarray(Image.fromarray(wide[0, 0]).resize((15, 5), Image.Resampling.BILINEAR))
    assert (resize(wide, (5, 5))[0, 0] == whole[:, 5:10]).all()
    assert (resize(np.full((2, 3, 7, 9), 77, np.uint8), (4, 6)) == 77).all()
    halves = resize(np.repeat(np.array([[0.0, 1.0]], np.float32), 2, 0)[None, None], (1, 1))
    assert halves == pytest.approx(0.5)
    assert (crop(wide, (10, 10)) == wide[..., 10:20]).all()
    color = np.array([100, 50, 200], np.uint8).reshape(1, 3, 1, 1)
    assert gray(color).item() == round(0.299 * 100 + 0.587 * 50 + 0.114 * 200)
    assert parse_size("64x48") == (64, 48)


def test_variants_of_size_chain_after_others() -> None:
    data = load("digits+subset:200+resize:4")
    assert data.shape == (1, 4, 4)
    assert len(data.train) == 200
    assert load("digits+resize:16").shape == (1, 16, 16)
    assert load("digits+resize:16").train.digest != load("digits").train.digest


def test_photographs_are_turned_upright(photos: Path) -> None:
    """Orientation 6: the camera was held on its side; 16 x 20 stored is 20 x 16 shown."""
    upright = picture(20, 16)
    exif = Image.Exif()
    exif[0x0112] = 6
    upright.transpose(Image.Transpose.ROTATE_90).save(photos / "cat" / "turned.png", exif=exif)
    data = load(str(photos))
    wanted = np.asarray(upright).transpose(2, 0, 1)
    assert any((row == wanted).all() for row in (*data.train.x, *data.test.x))


def test_deep_transparent_and_moving_images(tmp_path: Path) -> None:
    for word in ("a", "b"):
        (tmp_path / "d" / word).mkdir(parents=True)
    deep = np.array([[0, 128, 129, 65535], [257, 514, 32896, 65000]], np.uint16)
    clear = np.zeros((2, 4, 4), np.uint8)
    clear[:, :2, 3] = 255  # the left half is opaque black, the rest shows the background
    for number in range(5):
        Image.fromarray(deep).save(tmp_path / "d" / "a" / f"{number}.png")
    Image.fromarray(clear, "RGBA").save(tmp_path / "d" / "b" / "clear.png")
    frames = [Image.new("L", (4, 2), level) for level in (10, 200)]
    frames[0].save(tmp_path / "d" / "b" / "moving.gif", save_all=True, append_images=frames[1:])
    data = load(str(tmp_path / "d"))
    rows = {row.tobytes() for row in (*data.train.x, *data.test.x)}
    levels = np.rint(deep / 257).astype(np.uint8)
    assert np.repeat(levels[None], 3, 0).tobytes() in rows
    white = np.where(np.arange(4) < 2, 0, 255).astype(np.uint8)
    assert np.broadcast_to(white, (3, 2, 4)).tobytes() in rows
    assert np.full((3, 2, 4), 10, np.uint8).tobytes() in rows, "the first frame"


def test_all_bad_files_at_once_or_left_out(photos: Path) -> None:
    (photos / "cat" / "empty.png").write_bytes(b"")
    (photos / "dog" / "text.jpg").write_text("no image")
    with pytest.raises(InputError, match=r"2 images cannot be read in .*empty.png .*text.jpg .*--skip-bad"):
        load(str(photos))
    data = load(f"{photos}+skip-bad")
    assert len(data.train) + len(data.test) == 20


def test_truncated_images_are_found_while_decoding(photos: Path) -> None:
    whole = (photos / "cat" / "0.png").read_bytes()
    for number in (1, 2):
        (photos / "dog" / f"{number}.png").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"2 images cannot be read in .*pets: .*1.png .*2.png"):
        load(str(photos))
    data = load(f"{photos}+skip-bad")
    assert len(data.train) + len(data.test) == 18


def test_one_point_classes_are_named_together(photos: Path) -> None:
    for word in ("eel", "fox"):
        (photos / word).mkdir()
        picture().save(photos / word / "only.png")
    with pytest.raises(InputError, match=r"2 classes \(2, 3\) have one point only"):
        load(str(photos))


def test_the_command_line_says_it_in_options(photos: Path, radii_command: Callable[..., int]) -> None:
    (photos / "cat" / "empty.png").write_bytes(b"")
    assert radii_command("audit", photos, "--quick") == 2
    assert radii_command("audit", photos, "--quick", "--skip-bad") == 0
    assert radii_command("audit", f"{photos}+resize:8", "--skip-bad") == 0


@pytest.fixture
def radii_command() -> Callable[..., int]:
    from radii.cli.main import app, guarded

    return lambda *words: guarded(lambda: app([str(word) for word in words], standalone_mode=False))
