"""A chart is saved as its suffix says, whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from radii.errors import InputError
from radii.report import charts
from radii.report._theme import DARK
from radii.tables import ChartSpec, Field

CHART = ChartSpec(
    "curves",
    [{"radius": k / 10, "accuracy": 1 - k / 10, "model": "a & <b>"} for k in range(11)],
    Field("radius"),
    Field("accuracy"),
    "model",
    "A finding that is long enough " * 4,
    "how to read it",
)


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
    path = charts.save(CHART, tmp_path / "new folder" / name)
    assert path.read_bytes().startswith(start)
    assert [file.name for file in path.parent.iterdir()] == [name]


def test_an_unknown_suffix_names_the_four(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"\.png, \.svg, \.pdf or \.html, got 'c\.jpg'"):
        charts.save(CHART, tmp_path / "c.jpg")


def test_a_path_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        charts.save(CHART, tmp_path / "file" / "c.svg")
    (tmp_path / "folder.svg").mkdir()
    with pytest.raises(InputError, match="is a folder"):
        charts.save(CHART, tmp_path / "folder.svg")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["file", "folder.svg"]


def test_a_still_picture_has_title_background_and_no_hover_layer() -> None:
    spec = charts.still(CHART, dark=True)
    assert len(spec["title"]["text"]) == 2
    assert spec["config"]["background"] == DARK.page
    assert len(spec["layer"]) == len(charts.live(CHART)["layer"]) - 1


def test_a_live_chart_fills_its_box_and_brings_no_theme() -> None:
    spec = charts.live(CHART)
    assert spec["width"] == "container"
    assert "config" not in spec
    assert "title" not in spec


def test_the_same_chart_gives_the_same_bytes(tmp_path: Path) -> None:
    one, two = (charts.save(CHART, tmp_path / name).read_bytes() for name in ("a.svg", "b.svg"))
    assert one == two


def test_text_is_escaped_in_svg() -> None:
    assert "a &amp; &lt;b&gt;" in charts.svg(CHART)


def test_every_function_draws(every: tuple[ChartSpec, ...]) -> None:
    for chart in every:
        assert charts.svg(chart).count("<path") + charts.svg(chart).count("<image") > 3
