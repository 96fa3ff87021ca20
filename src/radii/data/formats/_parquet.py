"""Parquet in the Hugging Face layout: a column of encoded images, a column of labels, class names in the schema."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from radii.data.formats._reader import (
    TEST_NAMES,
    Reading,
    Side,
    Source,
    check_regular,
    class_numbers,
    entries_below,
    named_sides,
)
from radii.errors import InputError, reason

IMAGE_COLUMNS = ("image", "img", "images", "pixel_values", "picture")
LABEL_COLUMNS = ("label", "labels", "fine_label", "class", "target", "y")


@dataclass(frozen=True)
class ParquetImages:
    """The image column of some files, row after row; an :class:`Encoded`."""

    files: tuple[Path, ...]
    column: str
    count: int

    def __len__(self) -> int:
        return self.count

    def images(self, start: int, stop: int) -> Iterator[tuple[str, bytes]]:
        """Row groups are read one at a time; those outside the range are skipped."""
        first = 0
        for file in self.files:
            with open_parquet(file) as parquet:
                for group in range(parquet.metadata.num_row_groups):
                    size = parquet.metadata.row_group(group).num_rows
                    low, high = max(start - first, 0), min(stop - first, size)
                    if low < high:
                        column = parquet.read_row_group(group, columns=[self.column]).column(self.column)
                        yield from _rows(column.slice(low, high - low), first + low, file)
                    first += size


def read(path: Path, reading: Reading | None = None) -> Source:
    """A parquet file, or a folder whose file or folder names begin with train, test or validation.

    Without an image column all columns but the label are features.
    """
    reading, groups = reading or Reading(), _splits(path)
    schemas = [_schema(files[0]) for files in groups.values()]
    if not set(IMAGE_COLUMNS) & set(schemas[0].names):
        from radii.data.formats._features import read_table

        return read_table({side: _table(files) for side, files in groups.items()}, path, reading)
    image = _column(schemas[0], IMAGE_COLUMNS, "image", path)
    label = _column(schemas[0], (reading.label,) if reading.label else LABEL_COLUMNS, "label", path)
    raw = [_labels(files, label) for files in groups.values()]
    labels, classes = class_numbers(raw, _class_names(schemas[0], label, path), path)
    sides = {
        side: Side(y, ParquetImages(tuple(files), image, len(y)))
        for (side, files), y in zip(groups.items(), labels, strict=True)
    }
    return Source(classes, sides)


def _table(files: list[Path]) -> pa.Table:
    parts = []
    for file in files:
        with open_parquet(file) as parquet:
            parts.append(parquet.read())
    try:
        return pa.concat_tables(parts)
    except pa.ArrowException as error:
        raise InputError(f"{files[0]} and its neighbors have different columns: {reason(error)}.") from error


@contextmanager
def open_parquet(file: Path) -> Iterator[pq.ParquetFile]:
    """Open the parquet ``file`` in a context; every fault of it becomes an InputError of one sentence."""
    try:
        with pq.ParquetFile(file) as parquet:
            yield parquet
    except InputError:
        raise
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise InputError(f"{file} is not a whole parquet file: {reason}.") from error


def _splits(path: Path) -> dict[str, list[Path]]:
    if path.is_file():
        return {"all": [path]}
    by_split: dict[str, list[Path]] = {}
    files = [file for file in entries_below(path) if file.suffix.lower() == ".parquet"]
    for file in files:
        check_regular(file)
        words = [part.lower() for part in file.relative_to(path).parts]
        for name in ("train", *TEST_NAMES):
            if any(word == name or word.startswith((f"{name}-", f"{name}.", f"{name}_")) for word in words):
                by_split.setdefault(name, []).append(file)
                break
    names = named_sides(list(by_split))
    return {side: by_split[name] for side, name in names.items()} if names else {"all": files}


def _schema(file: Path) -> pa.Schema:
    with open_parquet(file) as parquet:
        return parquet.schema_arrow


def _column(schema: pa.Schema, known: tuple[str, ...], what: str, path: Path) -> str:
    for name in known:
        if name in schema.names:
            return name
    raise InputError(
        f"{path} has no {what} column: expected one of {', '.join(known)}, got {', '.join(schema.names)} instead."
    )


def _class_names(schema: pa.Schema, label: str, path: Path) -> tuple[str, ...] | None:
    """Names from ``classes`` (a JSON list) from the hub's ``huggingface`` features, or from README.md."""
    metadata = schema.metadata or {}
    try:
        if b"classes" in metadata:
            return tuple(str(name) for name in json.loads(metadata[b"classes"]))
        if b"huggingface" in metadata:
            feature = json.loads(metadata[b"huggingface"])["info"]["features"].get(label, {})
            if "names" in feature:
                return tuple(str(name) for name in feature["names"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"The class names in the schema of {path} cannot be read: {reason(error)}.") from error
    return _names_on_card(path / "README.md", label)


def _names_on_card(card: Path, label: str) -> tuple[str, ...] | None:
    """The class names of the column ``label`` in the YAML front matter of a hub dataset's card, if they are there."""
    if not card.is_file():
        return None
    from huggingface_hub import metadata_load

    try:
        content = (metadata_load(card) or {}).get("dataset_info") or {}
        for part in content if isinstance(content, list) else [content]:
            for feature in part.get("features", []):
                kind = feature.get("dtype")
                if feature.get("name") == label and isinstance(kind, dict) and "class_label" in kind:
                    names = kind["class_label"]["names"]
                    ordered = [names[key] for key in sorted(names, key=int)] if isinstance(names, dict) else names
                    return tuple(str(name) for name in ordered)
    except Exception:  # a card is prose by strangers; without readable names classes are numbered
        return None
    return None


def _labels(files: list[Path], column: str) -> NDArray[Any]:
    parts = []
    for file in files:
        with open_parquet(file) as parquet:
            labels = parquet.read(columns=[column]).column(column).combine_chunks()
        if pa.types.is_dictionary(labels.type):
            labels = labels.dictionary_decode()
        if labels.null_count:
            row = int(np.flatnonzero(labels.is_null().to_numpy(zero_copy_only=False))[0])
            raise InputError(f"The label of row {row} in {file} is missing ({labels.null_count} are).")
        words = pa.types.is_string(labels.type) or pa.types.is_large_string(labels.type)
        parts.append(np.array(labels.to_pylist(), str) if words else labels.to_numpy(zero_copy_only=False))
    return np.concatenate(parts)


def _rows(column: pa.ChunkedArray, first: int, file: Path) -> Iterator[tuple[str, bytes]]:
    values = column.combine_chunks()
    if pa.types.is_struct(values.type) and values.type.get_field_index("bytes") >= 0:
        values = values.field("bytes")
    if not (pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type)):
        raise InputError(f"The image column of {file} must hold encoded images (bytes), got {values.type} instead.")
    for row, value in enumerate(values, first):
        where = f"row {row} of {file}"
        if not value.is_valid:
            raise InputError(f"The image in {where} is missing.")
        yield where, value.as_py()
