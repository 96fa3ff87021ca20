"""Results in notebooks: short reprs, HTML, DataFrames, progress as text; and the example notebooks run."""

from __future__ import annotations

import ast
import io
import json
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch

import radii
from radii import progress
from radii.tables import ChartSpec, Field, Table, table

NOTEBOOKS = sorted((Path(__file__).parents[1] / "examples").glob("*.ipynb"))


def run_cell(source: str, names: dict[str, Any]) -> Any:
    """Execute a cell as a notebook does; the value of a last expression, if it ends with one."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    if isinstance(last, ast.Expr):
        tree.body.append(ast.parse("_ = 0").body[0])
        tree.body[-1].value = last.value  # type: ignore[attr-defined]
    exec(compile(ast.fix_missing_locations(tree), "cell", "exec"), names)
    return names.pop("_", None)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_example_notebooks_run(path: Path) -> None:
    content = json.loads(path.read_text())
    assert content["nbformat"] == 4
    names: dict[str, Any] = {}
    shown = []
    for cell in content["cells"]:
        assert not cell.get("outputs")  # outputs are not kept in the repository
        if cell["cell_type"] == "code":
            shown.append(run_cell("".join(cell["source"]), names))
    pictures = [value._repr_html_() for value in shown if hasattr(value, "_repr_html_")]
    assert len(pictures) >= 2
    assert all(len(repr(value)) < 400 for value in shown if not hasattr(value, "columns"))
    if path.stem == "gate":
        assert "significant drop" in shown[-1]


def test_reprs_are_short_and_html_is_escaped() -> None:
    data = radii.load("digits")
    assert repr(data) == "Data(digits: 1,438 + 359 points of 1 × 8 × 8, 10 classes)"
    assert data._repr_html_().count("<tr>") == 11
    assert list(data.to_frame()["test"]) == [int((data.test.y == k).sum()) for k in range(10)]
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
    x, y = data.test.tensors(range(8))
    scores = radii.evaluate(model, x, y, radii.Ball("l2", 0.1), suite="fast", radii=False)
    for value in (scores, radii.audit(data, norm="l2", epsilon=0.5), radii.certify(model, x, threat="l2:0.1")):
        assert len(repr(value)) < 300
        assert "<table>" in value._repr_html_()
    assert len(scores.to_frame()) == 8
    assert {"radius", "bound", "accuracy", "low", "high"} <= set(scores.curve_table().to_frame().columns)
    chart = scores.plot("<b>mine</b>")
    assert isinstance(chart, ChartSpec)
    assert "<svg" in chart._repr_html_()
    assert "<b>mine" not in chart._repr_html_()
    assert len(chart.to_frame()) == len(chart.rows)
    assert "&lt;i&gt;" in Table((Field("a"),), ({"a": "<i>"},))._repr_html_()
    assert len(repr(table([{"a": k} for k in range(500)], ["a"]))) < 100


def test_progress_in_a_notebook_is_one_line_that_renews_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter(range(1000))
    monkeypatch.setattr(progress.time, "monotonic", lambda: float(next(seconds)))
    lines: list[str] = []
    with progress.display(progress.NotebookDisplay(lines.append)), progress.task("evaluating", 2, "models") as outer:
        for _ in range(2):
            with progress.task("PGD-20", 10, "points") as inner:
                for left in range(9, -1, -1):
                    inner.advance(1, f"{left} left")
            outer.advance()
    assert "evaluating: 0 of 2 models · PGD-20: 1 of 10 points, about" in lines[2]
    assert lines[2].endswith("9 left")
    assert lines[-1].startswith("evaluating: 2 of 2 models, ")
    assert lines[-1].endswith(" s, done")
    assert not any("\n" in line or "\r" in line for line in lines)


def test_a_notebook_shows_it_in_one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[tuple[str, str]] = []

    class Handle:
        def update(self, content: dict[str, str], raw: bool) -> None:
            assert raw
            shown.append(("update", content["text/plain"]))

    def show(content: dict[str, str], raw: bool, display_id: bool) -> Handle:
        assert raw
        assert display_id
        shown.append(("display", content["text/plain"]))
        return Handle()

    module = types.ModuleType("IPython.display")
    module.display = show  # type: ignore[attr-defined]
    for name, content in (("ipykernel", types.ModuleType("ipykernel")), ("IPython.display", module)):
        monkeypatch.setitem(sys.modules, name, content)
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    with progress.shown(), progress.task("first", 1), progress.task("second", 1) as task:
        task.advance()
    assert [kind for kind, _ in shown].count("display") == 1
    assert shown[-1][1].endswith("done")


def test_progress_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter(range(1000))
    monkeypatch.setattr(progress.time, "monotonic", lambda: float(next(seconds)))
    log, line = io.StringIO(), io.StringIO()
    for stream, over in ((log, False), (line, True)):
        with progress.display(progress.TextDisplay(stream, over)), progress.task("attacking", 40, "points") as task:
            for _ in range(40):
                task.advance(1, "note")
    assert all(text.startswith("attacking: ") for text in log.getvalue().splitlines())
    assert 2 <= len(log.getvalue().splitlines()) <= 8
    assert log.getvalue().splitlines()[-1].startswith("attacking: done in ")
    assert line.getvalue().count("\n") == 1
    assert line.getvalue().count("\r") > 10
    quick = io.StringIO()
    monkeypatch.setattr(progress.time, "monotonic", lambda: 0.0)
    with progress.display(progress.TextDisplay(quick, False)), progress.task("quick", 3, "points") as task:
        task.advance(3)
    assert quick.getvalue() == ""
