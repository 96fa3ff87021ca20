"""A sealed file is radii's own until a byte of it changes, and it stays a file of its format."""

from __future__ import annotations

import io
import xml.etree.ElementTree
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from radii.errors import InputError
from radii.files import _is_sealed, check_own, write_sealed
from radii.tables import ChartSpec, Field


def picture() -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8)).save(buffer, format="PNG")
    return buffer.getvalue()


CONTENT = {
    "page.html": b"<!doctype html><title>x</title>",
    "card.md": "---\ntags:\n---\n# café\n".encode(),
    "sheet.png": picture(),
    "plot.svg": b"<svg xmlns='http://www.w3.org/2000/svg'></svg>",
    "plot.pdf": b"%PDF-1.4\n%%EOF\n",
    "empty.md": b"",
}


@pytest.mark.parametrize("name", CONTENT)
def test_every_change_breaks_the_seal(name: str, tmp_path: Path) -> None:
    path, content = tmp_path / name, CONTENT[name]
    path.write_bytes(content)
    assert not _is_sealed(path)
    write_sealed(path, content)
    assert _is_sealed(path)
    check_own(path, "")
    own = path.read_bytes()
    for place in range(len(own)):
        path.write_bytes(own[:place] + bytes([own[place] ^ 1]) + own[place + 1 :])
        assert not _is_sealed(path), place
    for other in (own + b"\n", own[:-1], b"x" + own, own + own):
        path.write_bytes(other)
        assert not _is_sealed(path)
        with pytest.raises(InputError, match="choose another"):
            check_own(path, "choose another")


def test_sealed_twice_is_sealed_once(tmp_path: Path) -> None:
    path = tmp_path / "sheet.png"
    write_sealed(path, picture())
    first = path.read_bytes()
    write_sealed(path, picture())
    assert path.read_bytes() == first


def test_a_sealed_picture_is_a_picture(tmp_path: Path) -> None:
    path = tmp_path / "sheet.png"
    write_sealed(path, picture())
    with Image.open(path) as shown:
        shown.verify()
    with Image.open(path) as shown:
        assert np.array_equal(np.asarray(shown), np.arange(64).reshape(8, 8))
        assert str(shown.text["Software"]).startswith("written by radii")  # type: ignore[attr-defined]


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf", ".html"])
def test_charts_are_sealed(suffix: str, tmp_path: Path) -> None:
    from radii.report.charts import save

    path = tmp_path / f"chart{suffix}"
    save(ChartSpec("points", [{"a": 1.0, "b": 2.0}], Field("a"), Field("b"), title="t"), path)
    assert _is_sealed(path)
    if suffix == ".svg":
        xml.etree.ElementTree.parse(path)


def test_a_dangling_link_is_not_radiis(tmp_path: Path) -> None:
    link = tmp_path / "report.html"
    link.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError):
        check_own(link, "")


def test_a_format_without_room_gets_no_seal(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    Image.fromarray(np.zeros((8, 8), np.uint8)).save(buffer, format="JPEG")
    write_sealed(tmp_path / "a.jpg", buffer.getvalue())
    assert (tmp_path / "a.jpg").read_bytes() == buffer.getvalue()
    assert not _is_sealed(tmp_path / "a.jpg")
