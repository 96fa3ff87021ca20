"""Event files are what TensorBoard reads: checked by the format's own rules and, where it is installed, by it."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from radii.training.events import crc32c, curves, record, recorded


def test_crc32c_has_the_published_values() -> None:
    """RFC 3720, Appendix B.4."""
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"\xff" * 32) == 0x62A8AB43


def parsed(content: bytes) -> list[tuple[int, dict[str, float]]]:
    """Records of a file by the rules of TFRecord and protocol buffers, written from their definitions."""
    found = []
    while content:
        (size,) = struct.unpack("<Q", content[:8])
        data, content = content[12 : 12 + size], content[16 + size :]
        fields = message(data)
        if 5 in fields:
            values = {}
            for raw in message(fields[5][0])[1]:
                value = message(raw)
                values[value[1][0].decode()] = value[2][0]
            found.append((fields[2][0], values))
        else:
            assert fields[3] == [b"brain.Event:2"]
    return found


def message(data: bytes) -> dict[int, list[Any]]:
    fields: dict[int, list[Any]] = {}
    while data:
        key, data = varint(data)
        kind, value = key & 7, None
        if kind == 0:
            value, data = varint(data)
        elif kind == 1:
            value, data = struct.unpack("<d", data[:8])[0], data[8:]
        elif kind == 5:
            value, data = struct.unpack("<f", data[:4])[0], data[4:]
        else:
            size, data = varint(data)
            value, data = data[:size], data[size:]
        fields.setdefault(key >> 3, []).append(value)
    return fields


def varint(data: bytes) -> tuple[int, bytes]:
    value = shift = 0
    for place, byte in enumerate(data):
        value |= (byte & 127) << shift
        if byte < 128:
            return value, data[place + 1 :]
        shift += 7
    raise AssertionError("a number without an end")


def written(folder: Path) -> Path:
    with recorded(folder), curves() as plot:
        plot.add(1, loss=2.5, accuracy=0.25)
        plot.add(300, loss=0.5)
    (file,) = folder.iterdir()
    return file


def test_scalars_are_read_back(tmp_path: Path) -> None:
    file = written(tmp_path / "events")
    assert file.name.startswith("events.out.tfevents.")
    assert parsed(file.read_bytes()) == [(1, {"loss": 2.5, "accuracy": 0.25}), (300, {"loss": 0.5})]


def test_checksums_are_masked() -> None:
    made = record(b"abc")
    crc = crc32c(b"abc")
    assert struct.unpack("<I", made[-4:])[0] == ((crc >> 15 | crc << 17) + 0xA282EAD8) % 2**32


def test_nothing_is_written_unless_asked(tmp_path: Path) -> None:
    with recorded(tmp_path / "no"), curves(active=False) as plot:
        plot.add(1, loss=1.0)
    with curves() as plot:
        plot.add(1, loss=1.0)
    assert not (tmp_path / "no").exists()


def test_tensorboard_reads_them(tmp_path: Path) -> None:
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    accumulator = loader.EventAccumulator(str(written(tmp_path / "events").parent))
    accumulator.Reload()
    assert [(point.step, point.value) for point in accumulator.Scalars("loss")] == [(1, 2.5), (300, 0.5)]
