"""A chart is saved as its suffix says, whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from radii.errors import InputError
from radii.report import drawing
from radii.report.charts import Chart, curves
from radii.report.theme import DARK

CHART = curves(
    [{"radius": k / 10, "accuracy": 1 - k / 10, "model": "a & <b>"} for k in range(11)],
    "radius", "accuracy", "model", title="A finding that is long enough " * 4, note="how to read it",
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("c.png", b"\x89PNG"),
        ("c.svg", b"<svg"),
        ("c.pdf", b"%PDF"),
        ("c.html", b"<!doctype html>"),
        ("C.PNG", b"\x89PNG"),
    ],
)
def test_suffix_decides(tmp_path: Path, name: str, start: bytes) -> None:
    path = drawing.save(CHART, tmp_path / "new folder" / name)
    assert path.read_bytes().startswith(start)
    assert [file.name for file in path.parent.iterdir()] == [name]


def test_an_unknown_suffix_names_the_four(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"\.png, \.svg, \.pdf or \.html, got 'c\.jpg'"):
        drawing.save(CHART, tmp_path / "c.jpg")


def test_a_path_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        drawing.save(CHART, tmp_path / "file" / "c.svg")
    (tmp_path / "folder.svg").mkdir()
    with pytest.raises(InputError, match="is a folder"):
        drawing.save(CHART, tmp_path / "folder.svg")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["file", "folder.svg"]


def test_a_still_picture_has_title_background_and_no_hover_layer() -> None:
    spec = drawing.still(CHART, dark=True)
    assert len(spec["title"]["text"]) == 2
    assert spec["config"]["background"] == DARK.page
    assert len(spec["layer"]) == len(drawing.live(CHART)["layer"]) - 1


def test_a_live_chart_fills_its_box_and_brings_no_theme() -> None:
    spec = drawing.live(CHART)
    assert spec["width"] == "container"
    assert "config" not in spec
    assert "title" not in spec


def test_the_same_chart_gives_the_same_bytes(tmp_path: Path) -> None:
    one, two = (drawing.save(CHART, tmp_path / name).read_bytes() for name in ("a.svg", "b.svg"))
    assert one == two


def test_text_is_escaped_in_svg() -> None:
    assert "a &amp; &lt;b&gt;" in drawing.svg(CHART)


def test_every_function_draws(every: tuple[Chart, ...]) -> None:
    for chart in every:
        assert drawing.svg(chart).count("<path") + drawing.svg(chart).count("<image") > 3
