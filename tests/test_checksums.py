"""Damage is told by manifests; digests are remembered only while a file's state stays the same."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from radii import files as checksums
from radii.files import MANIFEST, PREFIX, SUFFIX, damage, digests, known_digests, sha256, write_manifest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "folder"
    (place / "below").mkdir(parents=True)
    (place / "a.bin").write_bytes(os.urandom(2_000_000))
    (place / "below" / "b.json").write_text("{}")
    write_manifest(place)
    return place


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files count as settled at once."""
    monkeypatch.setattr(checksums, "SETTLED", -1.0)


def test_a_whole_folder_has_no_damage(folder: Path) -> None:
    assert damage(folder) is None
    (folder / "note.txt").write_text("a file that the manifest does not name")
    assert damage(folder) is None


def test_unfinished_files_are_no_part_of_a_folder(folder: Path) -> None:
    rest = folder / "below" / f"{PREFIX}0011223344556677{SUFFIX}"
    rest.write_text("what a killed writer left")
    write_manifest(folder)
    rest.unlink()
    assert damage(folder) is None


@pytest.mark.parametrize("name", ["../outside.bin", "below/../../outside.bin", "{parent}/outside.bin"])
def test_a_manifest_names_no_file_outside_its_folder(folder: Path, name: str) -> None:
    """Else a received run would be called whole for files that do not belong to it."""
    outside = folder.parent / "outside.bin"
    outside.write_bytes(b"not part of it")
    content = json.loads((folder / MANIFEST).read_text())
    place = name.format(parent=folder.parent)
    content["files"][place] = {"bytes": outside.stat().st_size, "sha256": sha256(outside)}
    (folder / MANIFEST).write_text(json.dumps(content))
    assert damage(folder) == f"{MANIFEST} cannot be read"


@pytest.mark.parametrize("kept_times", [False, True])
def test_every_kind_of_damage_is_told(folder: Path, later: None, kept_times: bool) -> None:
    assert damage(folder) is None  # remembered now
    target = folder / "a.bin"
    before, content = target.stat(), bytearray(target.read_bytes())
    content[1_000_000] ^= 1
    target.write_bytes(content)
    if kept_times:
        os.utime(target, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert damage(folder) == "the content of a.bin has changed"
    target.write_bytes(content[:-1])
    assert damage(folder) == "a.bin has 1,999,999 bytes instead of 2,000,000"
    target.unlink()
    assert damage(folder) == "a.bin is missing"


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"format": 1, "files": {"../x": {}}}', "[" * 100_000])
def test_a_damaged_manifest_is_damage(folder: Path, content: str) -> None:
    (folder / MANIFEST).write_text(content)
    assert damage(folder) == "manifest.json cannot be read"


def test_large_files_are_read_once_and_again_when_asked(
    folder: Path, later: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[Path] = []
    monkeypatch.setattr(checksums, "sha256", lambda path: reads.append(path) or sha256(path))
    assert damage(folder) is None
    first = len(reads)
    assert first == 2
    assert damage(folder) is None
    checksums._remembered.clear()  # another process: the note on disk
    assert damage(folder) is None
    assert len(reads) == first
    assert damage(folder, fresh=True) is None
    assert len(reads) == 2 * first


def test_a_file_that_has_just_changed_is_not_remembered(folder: Path) -> None:
    """Two changes within one tick of the clock leave the same times."""
    assert digests(folder, [folder / "a.bin"])
    assert os.path.abspath(folder / "a.bin") not in checksums._remembered


def test_equal_size_and_mtime_with_another_content_is_another_file(tmp_path: Path, later: None) -> None:
    """What cp -p, rsync -t and tar do."""
    place, other = tmp_path / "a.bin", tmp_path / "b.bin"
    for path, byte in ((place, b"a"), (other, b"b")):
        path.write_bytes(byte * 1_500_000)
        os.utime(path, (1e9, 1e9))
    before = digests(place, [place])
    assert known_digests(place, [place]) == before
    shutil.copy2(other, place)
    assert known_digests(place, [place]) is None
    assert digests(place, [place]) != before


def test_a_read_only_cache_costs_time_only(folder: Path, later: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RADII_CACHE", "/proc/nothing")
    assert damage(folder) is None
