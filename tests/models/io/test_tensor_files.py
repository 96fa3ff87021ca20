"""Tensors on disk carry their checksum: every flipped bit is told, and a reader never meets two files at once."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from radii.errors import InputError
from radii.models.io.weights import read_tensors, write_tensors

TENSORS = {
    "weight": torch.arange(12.0).reshape(3, 4),
    "half": torch.ones(2, dtype=torch.bfloat16),
    "count": torch.tensor(7),
    "flags": torch.tensor([True, False]),
    "empty": torch.zeros(0, 3),
}


def test_round_trip_and_equal_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_tensors(tmp_path / name, TENSORS, {"epoch": 3, "name": "é"})
    tensors, facts = read_tensors(tmp_path / "a")
    assert facts == {"epoch": 3, "name": "é"}
    assert tensors.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert torch.equal(tensors[name], tensor)
        assert tensors[name].dtype == tensor.dtype
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_every_flipped_bit_is_told(tmp_path: Path) -> None:
    """A flip of the padding of the header changes nothing; every other one is refused."""
    path = tmp_path / "w.safetensors"
    write_tensors(path, {"weight": torch.arange(4.0)}, {"epoch": 1})
    whole = path.read_bytes()
    expected, facts = read_tensors(path)
    for place in range(len(whole)):
        content = bytearray(whole)
        content[place] ^= 4
        path.write_bytes(content)
        try:
            tensors, found = read_tensors(path)
        except InputError:
            continue
        named = b"radii" in content and b"sha256" in content  # else it looks like a file of another program
        assert not named or (torch.equal(tensors["weight"], expected["weight"]) and found == facts)


def test_files_of_other_programs_are_taken_as_they_are(tmp_path: Path) -> None:
    save_file({"a": torch.ones(2)}, tmp_path / "plain.safetensors")
    tensors, facts = read_tensors(tmp_path / "plain.safetensors")
    assert facts == {}
    assert torch.equal(tensors["a"], torch.ones(2))


@pytest.mark.parametrize("content", [b"", b"1234567", b"\x80\x04garbage", b"\xff" * 100, b"{}" * 50])
def test_garbage_is_a_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "w").write_bytes(content)
    with pytest.raises(InputError, match="is not a whole safetensors file"):
        read_tensors(tmp_path / "w")


def test_a_reader_beside_a_writer_meets_one_file(tmp_path: Path) -> None:
    path, stop = tmp_path / "w", threading.Event()

    def write() -> None:
        turn = 0
        while not stop.is_set():
            turn += 1
            write_tensors(path, {"x": torch.full((20_000,), float(turn))}, {"turn": turn})

    write_tensors(path, {"x": torch.zeros(20_000)}, {"turn": 0})
    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(200):
            tensors, facts = read_tensors(path)
            assert bool((tensors["x"] == facts["turn"]).all())
    finally:
        stop.set()
        writer.join()
