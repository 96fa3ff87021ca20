"""`radii variants`: a picture and a table."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import typer
from PIL import Image
from typer.testing import CliRunner

from radii.data import gallery, sources
from radii.errors import InputError


@pytest.mark.parametrize(
    "words",
    [
        ["digits", "--smooth", "2", "5", "8", "--saturate", "8", "inf", "--binarize"],
        ["--smooth", "2", "5", "8", "--binarize", "--saturate", "8", "--saturate", "inf", "digits"],
    ],
)
def test_several_values_behind_one_option(app: typer.Typer, tmp_path: Path, words: list[str]) -> None:
    picture, report = tmp_path / "gallery.png", tmp_path / "out.json"
    result = CliRunner().invoke(app, ["variants", *words, "--out", str(picture), "--json", str(report)])
    assert result.exit_code == 0, result.output
    rows = json.loads(report.read_text())["variants"]
    names = ["original", "smooth:2", "smooth:5", "smooth:8", "saturate:8", "saturate:inf", "binarize"]
    assert [row["variant"] for row in rows] == names
    assert rows[0]["mean_change"] == 0
    assert rows[-1]["extreme"] == 1
    image = Image.open(picture)
    assert image.width > 10 * 64
    assert image.height == 22 + 7 * (64 + 4)


def test_the_picture_shows_the_pixels(tmp_path: Path) -> None:
    data = sources.load("digits")
    rows = gallery.examples(data, ["binarize", "smooth:3+gamma:2", "pca:1-4"])
    assert [text for text, _ in rows] == ["original", "binarize", "smooth:3+gamma:2", "pca:1-4"]
    first = [int(np.argmax(data.train.y == label)) for label in range(10)]
    assert (rows[0][1] == data.train.x[first]).all()
    whole = sources.load("digits+pca:1-4").train.x[first]
    np.testing.assert_allclose(rows[3][1], whole, atol=1e-6)
    sheet = np.asarray(gallery.draw(rows, data.classes))
    left = sheet.shape[1] - 10 * 68
    shown = sheet[22 + 68 : 22 + 68 + 64 : 8, left : left + 64 : 8, 0]  # the binarized zero, one pixel per block
    assert (shown == rows[1][1][0, 0] * 255).all()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["digits", "--out", "gallery.txt"], "must be a .png"),
        (["digits", "--chain", "gamma:2+pca:1-4", "--out", "g.png"], "pca must be the first"),
        (["digits", "--chain", "subset:10", "--out", "g.png"], "says which points there are"),
        (["digits", "--smooth", "0", "--out", "g.png"], "the filter's length in pixels, at least 1"),
        (["digts"], "Did you mean 'digits'"),
    ],
)
def test_mistakes_are_sentences(
    app: typer.Typer, words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["variants", *words])
    assert isinstance(result.exception, InputError)
    assert message in str(result.exception)
    assert not list(tmp_path.glob("*.png"))


def test_a_table_of_numbers_has_no_gallery(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=np.eye(10, dtype=np.float32), y=np.arange(10) % 2)
    with pytest.raises(InputError, match="A gallery needs images"):
        gallery.examples(sources.load(str(tmp_path / "d.npz")), ["binarize"])
