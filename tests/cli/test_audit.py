"""``radii audit``: table, words, JSON, pictures."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from radii.errors import InputError


def test_one_dataset(app, tmp_path) -> None:
    result = CliRunner().invoke(
        app, ["audit", "digits", "--threat", "linf:8/255", "--json", "-", "--pairs", str(tmp_path / "p.png")]
    )
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["name"] == "digits"
    assert found["test"]["share_possible"] == 1.0
    assert "right and robust on all of them" in found["verdict"][0]
    assert found["shape"]["components_for_variance"]["0.5"] == 5
    assert (tmp_path / "p.png").stat().st_size > 500


def test_variants_side_by_side(app, tmp_path) -> None:
    picture, page, out = tmp_path / "a.svg", tmp_path / "a.html", tmp_path / "a.json"
    words = ["audit", "digits", "digits+binarize", "--norm", "l2", "--quick", "--json", str(out)]
    result = CliRunner().invoke(app, [*words, "--plot", str(picture)])
    assert result.exit_code == 0, result.output
    audits = json.loads(out.read_text())["audits"]
    assert [found["name"] for found in audits] == ["digits", "digits+binarize"]
    assert audits[0]["shape"] is None
    assert "train-train separation" in result.output
    assert picture.read_text().startswith("<svg")
    assert CliRunner().invoke(app, ["audit", "digits", "--plot", str(page)]).exit_code == 0
    text = page.read_text()
    assert "principal components" in text
    assert "image 464" in text  # the closest pair is shown
    assert "image 655" in text
    assert text.count("data:image/png") >= 16


def test_an_audit_is_a_run_and_found_again(app, tmp_path) -> None:
    words = ["audit", "digits", "--threads", "1", "--store", str(tmp_path / "own"), "--json", "-"]
    first = CliRunner().invoke(app, words)
    assert first.exit_code == 0, first.output
    assert "not computed again" not in first.stderr
    (run,) = (tmp_path / "own" / "runs").iterdir()
    assert json.loads(first.stdout)["run"] == run.name
    again = CliRunner().invoke(app, words)
    assert again.stdout == first.stdout, "the audit read from the run is the audit that was measured"
    assert "found, not computed again" in again.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["digits", "--norm", "l7"], "No norm is called 'l7'"),
        (["digits", "--threat", "linf:a"], "Radius 'a' is not a number"),
        (["no-such-data"], "no-such-data"),
    ],
)
def test_bad_input(app, words, message) -> None:
    result = CliRunner().invoke(app, ["audit", *words])
    assert isinstance(result.exception, InputError)
    assert message in str(result.exception)
