"""Every format gives back the pixels that went in, and every fault is one sentence."""

from __future__ import annotations

import importlib
import io
import os
import struct
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from radii.data import sources
from radii.data.formats import _decoding as decoding
from radii.data.formats import _npz as npz
from radii.data.formats import _reader as reader
from radii.errors import InputError

from .conftest import encoded, write_parquet  # type: ignore[import-not-found]

Pictures = Callable[..., np.ndarray]
HUB = {"huggingface": {"info": {"features": {"fine_label": {"names": ["ant", "bee"], "_type": "ClassLabel"}}}}}


def sentence(error: pytest.ExceptionInfo[InputError]) -> str:
    text = str(error.value)
    assert "\n" not in text
    assert text.endswith(".")
    return text


# -- what is read ---------------------------------------------------------------------------------------------------


def test_parquet_folder(parquet_folder: tuple[Path, np.ndarray]) -> None:
    folder, pixels = parquet_folder
    data = sources.load(str(folder))
    assert (data.train.x == pixels.transpose(0, 3, 1, 2)).all()
    assert data.train.x.dtype == np.uint8
    assert data.classes == ("disc", "ring", "star")
    assert data.train.y.tolist() == [row % 3 for row in range(35)]
    assert (len(data.train), len(data.test)) == (35, 12)
    assert data.name == "shapes"


@pytest.mark.parametrize("form", ["PNG", "WEBP", "JPEG"])
def test_parquet_shards_with_the_hubs_names(tmp_path: Path, pictures: Pictures, form: str) -> None:
    """Columns img and fine_label, shards train-00000-of-00002, class names in the hub's metadata."""
    train = pictures(20, 8, 8, 3)
    for shard, rows in enumerate((slice(0, 11), slice(11, 20))):
        write_parquet(
            tmp_path / "c" / f"train-{shard:05}-of-00002.parquet", [encoded(image, form) for image in train[rows]],
            [row % 2 for row in range(20)][rows], HUB, ("img", "fine_label"),
        )  # fmt: skip
    images = [encoded(image, form) for image in train[:4]]
    write_parquet(tmp_path / "c" / "test-00000-of-00001.parquet", images, [0, 1, 0, 1], HUB, ("img", "fine_label"))
    data = sources.load(str(tmp_path / "c"))
    assert data.classes == ("ant", "bee")
    expected = train if form != "JPEG" else [np.asarray(Image.open(io.BytesIO(encoded(i, form)))) for i in train]
    assert (data.train.x == np.asarray(expected).transpose(0, 3, 1, 2)).all()
    assert (data.test.x == data.train.x[:4]).all()


def test_a_single_parquet_file_is_divided_by_class(tmp_path: Path, pictures: Pictures) -> None:
    x = pictures(50, 4, 4)
    labels = ["cat"] * 30 + ["dog"] * 20
    data = sources.load(str(write_parquet(tmp_path / "all.parquet", [encoded(image) for image in x], labels)))
    assert data.classes == ("cat", "dog")
    assert np.bincount(data.test.y).tolist() == [6, 4]
    rows = [image.tobytes() for image in np.concatenate([data.train.x, data.test.x])]
    assert sorted(rows) == sorted(image.tobytes() for image in x)
    assert data.train.shape == (1, 4, 4)


def test_labels_in_a_dictionary_column(tmp_path: Path, pictures: Pictures) -> None:
    kind = pa.dictionary(pa.int32(), pa.string())
    images = [encoded(image) for image in pictures(10, 4, 4)]
    data = sources.load(str(write_parquet(tmp_path / "d.parquet", images, ["dog", "cat"] * 5, label_type=kind)))
    assert data.classes == ("cat", "dog")


def test_folder_of_images_by_class(tmp_path: Path, pictures: Pictures) -> None:
    x = pictures(12, 5, 4, 3)
    for number, (side, word) in enumerate(
        (side, word) for side in ("train", "test") for word in ("owl", "bat") for _ in range(3)
    ):
        target = tmp_path / "f" / side / word / f"{number}.png"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(encoded(x[number]))
    data = sources.load(str(tmp_path / "f"))
    assert data.classes == ("bat", "owl")
    assert data.train.y.tolist() == [0, 0, 0, 1, 1, 1]
    assert (data.train.x == x[[3, 4, 5, 0, 1, 2]].transpose(0, 3, 1, 2)).all()


def test_folder_without_a_split(tmp_path: Path, pictures: Pictures) -> None:
    for number, image in enumerate(pictures(20, 5, 4)):
        target = tmp_path / "f" / ("a", "b")[number % 2] / f"{number:02}.webp"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(encoded(np.repeat(image[..., None], 3, 2), "WEBP"))
    first = sources.load(str(tmp_path / "f"))
    assert (len(first.train), len(first.test)) == (16, 4)
    assert first.test.y.tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("shape", "result"),
    [
        ((10, 3, 8, 8), (3, 8, 8)),
        ((10, 8, 8, 3), (3, 8, 8)),
        ((10, 8, 8, 1), (1, 8, 8)),
        ((10, 1, 8, 8), (1, 8, 8)),
        ((10, 8, 8), (1, 8, 8)),
        ((10, 8), (8,)),
    ],
)
@pytest.mark.parametrize("dtype", [np.uint8, np.float64, np.int64, bool])
def test_npz_shapes_and_types(tmp_path: Path, shape: tuple[int, ...], result: tuple[int, ...], dtype: type) -> None:
    x = (np.random.default_rng(0).random(shape) * (1 if dtype == np.float64 else 255)).astype(dtype)
    if len(shape) == 2 and dtype is bool:
        x = x.astype(np.uint8)
    np.savez(tmp_path / "d.npz", x=x, y=np.arange(10) % 2)
    data = sources.load(str(tmp_path / "d.npz"))
    assert data.shape == result
    rows, _ = sources.split_rows(np.arange(10) % 2, "d")
    expected = x[rows] if len(shape) == 2 else npz.inputs(x[rows], tmp_path)
    assert np.array_equal(data.train.x, expected.astype(data.train.x.dtype))
    assert data.train.x.dtype == (np.float32 if len(shape) == 2 or dtype == np.float64 else np.uint8)


def test_channels_last_is_transposed() -> None:
    x = np.arange(2 * 4 * 5 * 3, dtype=np.uint8).reshape(2, 4, 5, 3)
    assert (npz.inputs(x, Path("d"))[1, 2] == x[1, :, :, 2]).all()
    ambiguous = np.arange(27, dtype=np.uint8).reshape(1, 3, 3, 3)
    assert (npz.inputs(ambiguous, Path("d"), "nhwc")[0, 2] == ambiguous[0, :, :, 2]).all()
    assert (npz.inputs(ambiguous, Path("d"), "nchw") == ambiguous).all()


def test_npz_with_both_splits_and_class_names(tmp_path: Path) -> None:
    x = np.random.default_rng(0).random((9, 4)).astype(np.float32)
    y = np.array([[0], [1], [2]] * 3)
    np.savez(tmp_path / "d.npz", x_train=x, y_train=y, x_test=x[:3], y_test=y[:3], classes=["p", "q", "r"])
    data = sources.load(str(tmp_path / "d.npz"))
    assert data.classes == ("p", "q", "r")
    assert (data.train.x == x).all()
    assert data.train.box == (0.0, 1.0)
    assert data.test.y.tolist() == [0, 1, 2]


def test_grey_among_colored_images_gets_three_channels(tmp_path: Path, pictures: Pictures) -> None:
    color, grey = pictures(6, 5, 3), pictures(6, 5)
    images = [encoded(color), encoded(grey)] * 5
    data = sources.load(str(write_parquet(tmp_path / "m.parquet", images, [0, 1] * 5)))
    assert (data.train.x[data.train.y == 1] == grey).all()


def test_opaque_alpha_and_palettes_are_plain_color(pictures: Pictures) -> None:
    color = pictures(6, 5, 3)
    opaque = np.concatenate([color, np.full((6, 5, 1), 255, np.uint8)], 2)
    assert (decoding.decode_one(encoded(opaque), "here") == color.transpose(2, 0, 1)).all()
    buffer = io.BytesIO()
    palette = Image.fromarray(color).convert("P")
    palette.save(buffer, format="PNG")
    expected = np.asarray(palette.convert("RGB")).transpose(2, 0, 1)
    assert (decoding.decode_one(buffer.getvalue(), "here") == expected).all()


def test_many_images_are_decoded_in_processes(
    parquet_folder: tuple[Path, np.ndarray], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pictures: Pictures
) -> None:
    monkeypatch.setattr(decoding, "IMAGES_PER_PROCESS", 5)
    monkeypatch.setattr(decoding, "CHUNK", 4)
    monkeypatch.setattr(decoding, "_cores", lambda: 3)
    folder, pixels = parquet_folder
    assert (sources.load(str(folder)).train.x == pixels.transpose(0, 3, 1, 2)).all()
    images = [encoded(image) for image in pictures(30, 6, 5)]
    images[22] = images[22][:-30]
    with pytest.raises(InputError, match=r"image at row 22 of .*broken.parquet cannot be decoded"):
        sources.load(str(write_parquet(tmp_path / "broken.parquet", images, [0, 1] * 15)))


SCRIPT = """
import os, sys
from radii.data import sources
from radii.data.formats import _decoding as decoding
decoding.IMAGES_PER_PROCESS, decoding.CHUNK, decoding._cores = 2, 2, lambda: 2
print(len(sources.load(sys.argv[1]).train), flush=True)
"""


def test_a_script_without_a_main_guard_is_not_run_again_in_the_workers(
    parquet_folder: tuple[Path, np.ndarray], tmp_path: Path
) -> None:
    folder, pixels = parquet_folder
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, str(tmp_path / "script.py"), str(folder)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert run.stdout.split() == [str(len(pixels))], run.stderr


DEADLY = """
import os, signal

class Deadly:
    def __init__(self, at_start, picture):
        self.at_start, self.picture = at_start, picture

    def __len__(self):
        return 8

    def images(self, start, stop):
        if start >= 2:
            os.kill(os.getpid(), signal.SIGKILL)
        yield from (("row", self.picture) for _ in range(start, stop))

    def __setstate__(self, state):
        if state["at_start"]:
            os.kill(os.getpid(), signal.SIGKILL)
        self.__dict__ = state
"""


@pytest.mark.parametrize("at_start", [True, False])
@pytest.mark.timeout(90)
def test_a_dead_worker_is_one_sentence_and_never_a_hang(
    at_start: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers that are killed when they start, or in the middle, as the system does when memory is short."""
    (tmp_path / "deadly_images.py").write_text(DEADLY)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(decoding, "IMAGES_PER_PROCESS", 4)
    monkeypatch.setattr(decoding, "CHUNK", 2)
    monkeypatch.setattr(decoding, "_cores", lambda: 2)
    source = importlib.import_module("deadly_images").Deadly(at_start, encoded(np.zeros((4, 4), np.uint8)))
    path = tmp_path / "out.npy"
    out = np.lib.format.open_memmap(path, mode="w+", dtype=np.uint8, shape=(8, 1, 4, 4))
    with pytest.raises(InputError, match=r"A process that decodes images died"):
        decoding.decode(source, out, path, "decoding")


def test_entries_of_an_npz_file_that_are_not_needed_stay_on_disk(tmp_path: Path) -> None:
    """An entry that claims 8 GB is never opened."""
    path = tmp_path / "data.npz"
    np.savez(path, x=np.zeros((4, 2), np.float32), y=np.array([0, 1, 0, 1]))
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": (8 << 30,)})
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("masks.npy", header.getvalue())
    assert npz.read(path).sides["all"].y.tolist() == [0, 1, 0, 1]


@pytest.mark.timeout(30)
@pytest.mark.parametrize("kind", ["pipe", "device", "broken link"])
def test_what_is_not_a_regular_file_is_refused_before_it_is_opened(tmp_path: Path, kind: str) -> None:
    for word in ("cat", "dog"):
        (tmp_path / "pets" / word).mkdir(parents=True)
        (tmp_path / "pets" / word / "1.png").write_bytes(encoded(np.zeros((4, 4), np.uint8)))
    strange = tmp_path / "pets" / "dog" / "2.png"
    if kind == "pipe":
        os.mkfifo(strange)
    else:
        strange.symlink_to("/dev/zero" if kind == "device" else tmp_path / "nothing")
    with pytest.raises(InputError, match=r"dog/2.png is not a regular file"):
        sources.load(str(tmp_path / "pets"))


# -- what is refused ------------------------------------------------------------------------------------------------


def refused(path: Path | str) -> str:
    with pytest.raises(InputError) as error:
        sources.load(str(path))
    return sentence(error)


def test_truncated_parquet(parquet_folder: tuple[Path, np.ndarray]) -> None:
    file = parquet_folder[0] / "train.parquet"
    file.write_bytes(file.read_bytes()[:-100])
    assert f"{file} is not a whole parquet file" in refused(parquet_folder[0])


def test_parquet_damaged_in_the_middle(parquet_folder: tuple[Path, np.ndarray]) -> None:
    file = parquet_folder[0] / "train.parquet"
    content = bytearray(file.read_bytes())
    content[100:2000] = bytes(1900)
    file.write_bytes(content)
    assert "train.parquet" in refused(parquet_folder[0])


def test_text_called_parquet(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_text("not parquet")
    assert "is not a whole parquet file" in refused(tmp_path / "t.parquet")


@pytest.mark.parametrize(
    ("labels", "kind", "metadata", "message"),
    [
        ([0, 1, None, 1], pa.int64(), None, "label of row 2 in .* is missing"),
        ([0, 1, -1, 1], pa.int64(), None, "must lie in 0..1, got -1..1"),
        ([0, 1, 2, 1], pa.int64(), {"classes": ["a", "b"]}, "must lie in 0..1, got 0..2"),
        ([0.0, 1.0, 0.0, 1.0], pa.float64(), None, "whole class numbers or words, got float64"),
        ([0, 0, 0, 0], pa.int64(), {"classes": ["a", "b"]}, "at least two classes, got one class only"),
        ([0, 0, 0, 0], pa.int64(), None, "at least two classes"),
        ([0, 1, 900, 1], pa.int64(), None, "class numbers 0, 1, 2, …, got 900"),
        (["a", "b", "z", "b"], pa.string(), {"classes": ["a", "b"]}, "label 'z' in .* is not among the classes a, b"),
        ([0, 1, 0, 1], pa.int64(), {"classes": 3}, "class names in the schema .* cannot be read"),
        ([], pa.int64(), None, "split of .* is empty"),
        ([0, 0, 0, 1], pa.int64(), None, "class 1 has one point only"),
    ],
)
def test_bad_labels(
    tmp_path: Path, pictures: Pictures, labels: list, kind: pa.DataType, metadata: dict | None, message: str
) -> None:
    images = [encoded(image) for image in pictures(4, 3, 3)][: len(labels)]
    path = write_parquet(tmp_path / "d.parquet", images, labels, metadata, label_type=kind)
    with pytest.raises(InputError, match=message) as error:
        sources.load(str(path))
    sentence(error)


def test_missing_columns(tmp_path: Path, pictures: Pictures) -> None:
    images = [encoded(image) for image in pictures(4, 3, 3)]
    path = write_parquet(tmp_path / "d.parquet", images, [0, 1, 0, 1], columns=("photo", "label"))
    assert "binary, path: string>, neither numbers nor words" in refused(path)
    path = write_parquet(tmp_path / "e.parquet", images, [0, 1, 0, 1], columns=("image", "kind"))
    assert "no label column" in refused(path)


def broken_images(pictures: Pictures) -> dict[str, tuple[object, str]]:
    good = encoded(pictures(6, 5))
    clear = np.zeros((6, 5, 4), np.uint8)
    deep, vectors = io.BytesIO(), b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 5 6\n"
    Image.fromarray(np.zeros((6, 5), np.float32)).save(deep, format="TIFF")
    bomb = bytearray(good)  # a header that says more pixels than there are
    bomb[16:24] = struct.pack(">II", 12000, 12000)
    bomb[29:33] = struct.pack(">I", zlib.crc32(bomb[12:29]))
    return {
        "cut": (good[: len(good) // 2], "image at row 7 of .* cannot be decoded"),
        "text": (b"hello", "image at row 7 of .* cannot be decoded"),
        "empty": (b"", "image at row 7 of .* cannot be decoded"),
        "missing": (None, "image in row 7 of .* is missing"),
        "other size": (encoded(pictures(7, 5)), "one size, got 5 x 7 .grey. at row 7 of .* and 5 x 6"),
        "color": (encoded(pictures(6, 5, 3)), "row 7 of .* cannot be used: it is colored, but the first image"),
        "transparent": (encoded(clear), "row 7 of .* cannot be used: it is colored"),
        "floating point": (deep.getvalue(), "row 7 of .* must have 8 or 16 bits per channel"),
        "bomb": (bytes(bomb), "row 7 of .* it has 12000 x 12000 pixels"),
        "other format": (vectors, "row 7 of .* cannot be decoded"),
    }


@pytest.mark.parametrize(
    "case",
    ["cut", "text", "empty", "missing", "other size", "color", "transparent", "floating point", "bomb", "other format"],
)
def test_bad_images_name_their_row(tmp_path: Path, pictures: Pictures, case: str) -> None:
    bad, message = broken_images(pictures)[case]
    images: list[object] = [encoded(image) for image in pictures(10, 6, 5)]
    images[7] = bad
    with pytest.raises(InputError, match=message) as error:
        sources.load(str(write_parquet(tmp_path / "d.parquet", images, [0, 1] * 5)))
    sentence(error)
    cached = tmp_path / "cache" / "decoded"
    assert [file for file in cached.iterdir() if not file.name.endswith(".lock")] == []


X = np.random.default_rng(0).random((10, 3, 4, 4)).astype(np.float32)
Y = np.arange(10) % 2


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": X}, "must hold x and y.*got x instead"),
        ({}, "got nothing instead"),
        ({"x": X, "y": Y[:9]}, "one label for every input"),
        ({"x": X, "y": Y.astype(float)}, "whole class numbers or words, got float64"),
        ({"x": np.full_like(X, np.nan), "y": Y}, "NaN or infinity"),
        ({"x": X * 255, "y": Y}, r"must lie in \[0, 1\]"),
        ({"x": (X * 999).astype(np.int32), "y": Y}, r"must lie in 0\.\.255"),
        ({"x": X[:, :, :3, :3], "y": Y}, r"may be \[n, c, h, w\] or \[n, h, w, c\]: add an entry layout"),
        ({"x": np.zeros((10, 5, 4, 4)), "y": Y}, "add an entry layout"),
        ({"x": X, "y": Y, "layout": "rows"}, "layout in .* must be nchw or nhwc, got 'rows'"),
        ({"x": X[..., None], "y": Y}, r"must be \[n, d\].*got \(10, 3, 4, 4, 1\)"),
        ({"x": X.astype(complex), "y": Y}, "must be numbers, got complex128"),
        ({"x": X, "y": np.array([{}] * 10, object)}, "pickled Python objects, which are never opened"),
        ({"x": np.array([object()] * 10), "y": Y}, "pickled Python objects"),
        ({"x": X, "y": Y * 0}, "at least two classes"),
        ({"x": X[:0], "y": Y[:0]}, "is empty"),
        ({"x_train": X, "y_train": Y, "x_test": X[:0], "y_test": Y[:0]}, "test split of .* is empty"),
        ({"x_train": X, "y_train": Y, "x_test": X[:, :1], "y_test": Y}, "must have one shape"),
        ({"x": X, "y": Y - 1}, "must lie in 0..0, got -1..0"),
    ],
)
def test_bad_npz(tmp_path: Path, arrays: dict[str, np.ndarray], message: str) -> None:
    np.savez(tmp_path / "d.npz", **arrays)
    with pytest.raises(InputError, match=message) as error:
        sources.load(str(tmp_path / "d.npz"))
    sentence(error)


def test_damaged_npz(tmp_path: Path) -> None:
    path = tmp_path / "d.npz"
    np.savez(path, x=X, y=Y)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert "is not a whole .npz file" in refused(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", b"garbage")
    assert "d.npz" in refused(path)
    path.write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    assert "d.npz" in refused(path)


def test_bad_folders(tmp_path: Path, pictures: Pictures) -> None:
    (tmp_path / "empty").mkdir()
    assert "holds neither parquet files nor images" in refused(tmp_path / "empty")
    loose = tmp_path / "loose"
    (loose / "a").mkdir(parents=True)
    (loose / "a" / "1.png").write_bytes(encoded(pictures(3, 3)))
    (loose / "2.png").write_bytes(encoded(pictures(3, 3)))
    assert "stands outside a class folder" in refused(loose)
    (loose / "2.png").unlink()
    assert "at least two classes" in refused(loose)
    (loose / "a").rename(loose / "train")
    assert "has a folder train but none called test" in refused(loose)
    (tmp_path / "notes.txt").write_text("x")
    assert "is of no known format" in refused(tmp_path / "notes.txt")


def test_identity_changes_with_the_files(parquet_folder: tuple[Path, np.ndarray]) -> None:
    folder, _ = parquet_folder
    before = reader.identity(folder)
    assert before == reader.identity(folder)
    (folder / "test.parquet").touch()
    assert before == reader.identity(folder)  # the content is the same
    with (folder / "test.parquet").open("ab") as file:
        file.write(b"more")
    assert before != reader.identity(folder)
