"""The manifest says of every shipped result where it comes from, and never more than is known."""

from __future__ import annotations

import hashlib
import json
import re
from importlib.resources import files
from pathlib import Path

import pytest

from radii.studies import results
from radii.studies.provenance import NOT_RECORDED, Provenance
from radii.studies.study import STUDIES
from radii_papers.steps import Formula, Theory

ROOT = Path(__file__).parents[2]
PACKAGE = Path(str(files("radii_papers")))
MANIFEST = json.loads((PACKAGE / "manifest.json").read_text(encoding="utf-8"))
SHIPPED = sorted((PACKAGE / "results").glob("*.json"))


def test_every_result_has_an_entry() -> None:
    assert list(MANIFEST) == [path.stem for path in SHIPPED]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_an_entry_is_about_its_file(path: Path) -> None:
    """`python docs/papers/studies/manifest.py` writes it again after a change of results."""
    entry, evidence = MANIFEST[path.stem], results.read(path)
    assert entry["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert (entry["cells"], entry["planned"], entry["budget"]) == (
        len(evidence.measured), evidence.planned, evidence.budget)  # fmt: skip
    runs = {cell.run for cell in evidence.measured}
    assert entry["runs_of_the_plan"] == entry["runs"] == len(runs)
    assert set(entry["setups"]) >= runs  # of every run, not of one
    spent = evidence.cpu_seconds
    assert entry["cpu_seconds"] == (NOT_RECORDED if spent is None else round(spent, 1))
    assert entry["commits"]
    for digests in entry["data"].values():
        assert set(digests) == {"train", "test"}
        assert all(re.fullmatch("[0-9a-f]{16,}", digest) for digest in digests.values())


def test_the_page_has_every_row() -> None:
    page = (ROOT / "docs" / "papers" / "manifest.md").read_text()
    assert [name for name in MANIFEST if f"| {name} |" not in page] == []


def test_scripts_run_every_trained_study_once() -> None:
    """Both scripts name studies that exist, none twice, and the page states what each costs."""
    named: list[str] = []
    for script in ("run_14_gpu_hours.sh", "run_the_rest.sh"):
        text = (ROOT / "docs" / "papers" / "studies" / script).read_text()
        (line,) = re.findall(r"for study in (.*); do", text)
        named += line.split()
        assert '--budget paper --executor ray "$@"' in text
    assert len(set(named)) == len(named) == 19
    assert set(named) <= set(STUDIES)
    page = (ROOT / "docs" / "papers" / "paper-settings.md").read_text()
    assert all(f"`{name}` " in page for name in named)


def test_provenance_of_steps() -> None:
    steps = [Theory.of("facets", seed=3), Formula(name="uniform", seed=1)]
    found = Provenance.of(steps, [{"commit": "b"}, {"commit": "a"}, {}])
    assert found.seeds == (1, 3)
    assert found.commits == ("a", "b", NOT_RECORDED)
    assert found.data == {}
    assert Provenance.read(json.loads(json.dumps(found.to_json()))) == found
    assert Provenance.read({}).commits == (NOT_RECORDED,)
