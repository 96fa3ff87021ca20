"""TensorBoard event files, written without TensorBoard: length, checksums and a small protocol buffer per record.

The format is TFRecord around ``Event{wall_time, step, summary{value{tag, simple_value}}}``;
checksums are CRC-32C, rotated and shifted ("masked") as TFRecord asks.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import BinaryIO

_folder: ContextVar[Path | None] = ContextVar("radii_events", default=None)


@contextmanager
def recorded(folder: Path | None) -> Iterator[None]:
    """Trainings in this context write their curves to ``folder`` (nowhere, for None)."""
    token = _folder.set(folder)
    try:
        yield
    finally:
        _folder.reset(token)


@contextmanager
def curves(active: bool = True) -> Iterator[Curves]:
    """The curves of one training; silent unless :func:`recorded` asked for them."""
    folder = _folder.get()
    if folder is None or not active:
        yield Curves(None)
        return
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"events.out.tfevents.{time.time_ns() // 1000}.{socket.gethostname()}.{os.getpid()}"
    with path.open("wb") as file:
        file.write(record(_event(0, _bytes(3, b"brain.Event:2"))))
        yield Curves(file)


class Curves:
    """Named numbers over steps."""

    def __init__(self, file: BinaryIO | None) -> None:
        self._file = file

    def add(self, step: int, **values: float) -> None:
        """One point of each curve at ``step``; on disk at once, so a kill loses nothing."""
        if self._file is None:
            return
        points = b"".join(_bytes(1, _bytes(1, name.encode()) + _float(2, value)) for name, value in values.items())
        self._file.write(record(_event(step, _bytes(5, points))))
        self._file.flush()


def record(data: bytes) -> bytes:
    """``data`` as one TFRecord."""
    size = struct.pack("<Q", len(data))
    return size + struct.pack("<I", _masked(size)) + data + struct.pack("<I", _masked(data))


def _event(step: int, what: bytes) -> bytes:
    return b"\x09" + struct.pack("<d", time.time()) + b"\x10" + _varint(step) + what


def _bytes(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _float(field: int, value: float) -> bytes:
    return _varint(field << 3 | 5) + struct.pack("<f", value)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _masked(data: bytes) -> int:
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def crc32c(data: bytes) -> int:
    """The Castagnoli checksum (RFC 3720, Appendix B.4)."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def _entry(number: int) -> int:
    for _ in range(8):
        number = number >> 1 ^ (0x82F63B78 if number & 1 else 0)
    return number


_TABLE = [_entry(number) for number in range(256)]
