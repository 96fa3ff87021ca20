"""Small datasets on disk, in every format that can be read."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image


def encoded(pixels: np.ndarray, form: str = "PNG") -> bytes:
    """uint8 [h, w] or [h, w, 3 or 4] as the bytes of an image file."""
    buffer = io.BytesIO()
    options = {"lossless": True} if form == "WEBP" else {}
    Image.fromarray(pixels).save(buffer, format=form, **options)
    return buffer.getvalue()


def write_parquet(
    path: Path,
    images: Sequence[Any],
    labels: Sequence[Any],
    metadata: dict[str, Any] | None = None,
    columns: tuple[str, str] = ("image", "label"),
    label_type: pa.DataType | None = None,
) -> Path:
    """A parquet file as the hub has them: struct{bytes, path} images in row groups of ten."""
    path.parent.mkdir(parents=True, exist_ok=True)
    struct = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    rows = pa.array([None if image is None else {"bytes": image, "path": None} for image in images], struct)
    table = pa.table({columns[0]: rows, columns[1]: pa.array(labels, label_type)})
    extra = {key: json.dumps(value) for key, value in (metadata or {}).items()}
    pq.write_table(table.replace_schema_metadata(extra), path, row_group_size=10)
    return path


@pytest.fixture
def pictures() -> Callable[..., np.ndarray]:
    """Random uint8 images of a fixed seed."""

    def make(*shape: int, seed: int = 0) -> np.ndarray:
        return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)

    return make


@pytest.fixture
def parquet_folder(tmp_path: Path, pictures: Callable[..., np.ndarray]) -> tuple[Path, np.ndarray]:
    """A folder train.parquet (35 rows), test.parquet (12 rows) of 6 x 5 color images, and the train pixels."""
    train, test = pictures(35, 6, 5, 3), pictures(12, 6, 5, 3, seed=1)
    folder = tmp_path / "shapes"
    names = {"classes": ["disc", "ring", "star"]}
    write_parquet(folder / "train.parquet", [encoded(image) for image in train], [row % 3 for row in range(35)], names)
    write_parquet(folder / "test.parquet", [encoded(image) for image in test], [row % 3 for row in range(12)], names)
    return folder, train
