"""The study file of docs/guide/studies.md is understood, and pages of studies say what the results say."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

import pytest

from radii.runs.store import Store
from radii.studies import results, toml
from radii.studies.study import registered_study

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guide" / "studies.md").read_text()


def test_the_study_file(tmp_path: Path) -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "widths.toml").write_text(text)
    assert len(toml.load(tmp_path / "widths.toml").cells("cpu")) == 4


def script(name: str) -> ModuleType:
    """A script of docs/papers/studies as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / "papers" / "studies" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_pages_of_studies_say_what_the_results_say() -> None:
    """docs/papers/studies/NAME.md is what its script writes from the shipped results."""
    write = script("write")
    for name in write.PAGES:
        assert (ROOT / "docs" / "papers" / "studies" / f"{name}.md").read_text() == write.page(name)
        assert (ROOT / "docs" / "papers" / "studies" / f"{name}.png").is_file()


def test_results_of_several_machines_are_joined(tmp_path: Path) -> None:
    """Cells of an earlier machine stay while the study plans their runs; what was computed anew comes first."""
    ship, first, second = script("ship"), Store(tmp_path / "first"), Store(tmp_path / "second")
    steps = [cell.step for cell in registered_study("geometry").cells("smoke")]
    assert len(steps) > 2
    first.ensure(steps[0]), first.ensure(steps[1]), second.ensure(steps[1])
    path = ship.ship("geometry", "smoke", first, tmp_path)
    assert [cell.run for cell in results.read(path).measured] == [steps[0].run_id, steps[1].run_id]
    ship.ship("geometry", "smoke", second, tmp_path)
    both = results.read(path)
    assert [cell.run for cell in both.measured] == [steps[0].run_id, steps[1].run_id]
    content = json.loads(path.read_text())
    content["cells"][0]["run"] = f"{steps[0].kind}-older"
    path.write_text(json.dumps(content))
    ship.ship("geometry", "smoke", second, tmp_path)
    assert [cell.run for cell in results.read(path).measured] == [steps[1].run_id]


def test_results_are_shipped_twice_without_counting_their_time_twice(tmp_path: Path) -> None:
    ship, first, second = script("ship"), Store(tmp_path / "first"), Store(tmp_path / "second")
    steps = [cell.step for cell in registered_study("geometry").cells("smoke")]
    first.ensure(steps[0]), second.ensure(steps[1])
    path = ship.ship("geometry", "smoke", first, tmp_path)
    ship.ship("geometry", "smoke", second, tmp_path)
    once = results.read(path)
    ship.ship("geometry", "smoke", second, tmp_path)
    assert results.read(path).seconds == pytest.approx(once.seconds)
    assert results.read(path).cpu_seconds == pytest.approx(once.cpu_seconds)


def test_a_run_of_another_study_serves_this_one(tmp_path: Path) -> None:
    ship, first, second = script("ship"), Store(tmp_path / "first"), Store(tmp_path / "second")
    steps = [cell.step for cell in registered_study("geometry").cells("smoke")]
    first.ensure(steps[0]), second.ensure(steps[1])
    path = ship.ship("geometry", "smoke", first, tmp_path)
    content = json.loads(path.read_text())
    content["cells"][0] |= {"seconds": 70.0, "cpu_seconds": 50.0}
    other = tmp_path / "separation-smoke.json"
    other.write_text(json.dumps({**content, "study": "separation"}))
    path.unlink()
    both = results.read(ship.ship("geometry", "smoke", second, tmp_path))
    assert [cell.run for cell in both.measured] == [steps[0].run_id, steps[1].run_id]
    assert both.seconds == pytest.approx(70, abs=5)
    assert both.cpu_seconds == pytest.approx(50, abs=5)
