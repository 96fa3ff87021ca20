"""``radii claims`` as a user types it; results are the shipped ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from radii.studies.results import find
from radii_papers.claims.claim import all_claims


def test_the_ledger_names_every_claim(radii: Callable) -> None:
    shown = radii("claims")
    assert shown.code == 0
    for claim in all_claims():
        assert claim.id in shown.out
    assert "not run" in shown.out
    assert f"{len(all_claims())} claims:" in shown.out


def test_one_claim_is_explained(radii: Callable) -> None:
    shown = radii("claims", "ding-uniform-variance")
    for words in ("finding", "Proposition 2.1", "The proof takes 1/4", "0.08333", "formulas-cpu.json", "formula-"):
        assert words in shown.out


def test_json_is_complete(radii: Callable) -> None:
    entries = json.loads(radii("claims", "ding", "--json", "-").out)["claims"]
    assert len(entries) == sum(claim.paper == "Ding et al. 2019" for claim in all_claims())
    facets = next(entry for entry in entries if entry["id"] == "ding-facets")
    assert facets["status"] == "holds"
    assert facets["figures"][0]["measured"] == 0
    assert facets["runs"][0].startswith("theory-")
    failed = next(entry for entry in entries if entry["id"] == "ding-saturation-16")
    assert failed["status"] == "fails"
    assert round(failed["excess"], 3) == 0.25


def test_strict_exits_1_on_a_failure_only(radii: Callable) -> None:
    assert radii("claims", "ding-saturation-16").code == 0
    assert radii("claims", "ding-saturation-16", "--strict").code == 1
    assert radii("claims", "vardi", "--strict").code == 0
    assert radii("claims", "prach-table1-certified-test", "--strict").code == 0  # not run is no failure
    assert radii("claims", "prach-robust-learning-is-hungrier", "--strict").code == 0  # nor is not decided


def test_coverage(radii: Callable) -> None:
    table = json.loads(radii("claims", "--coverage", "--json", "-").out)
    *rows, total = table["rows"]
    assert total["published"] == 1123
    assert {"Table 4", "tab:dropout"} <= {row["table"] for row in rows}
    text = radii("claims", "ding", "--coverage").out
    assert "By value: within 3 points of a percentage" in " ".join(text.split())
    assert "would by a constant" in " ".join(text.split())


def test_a_page(radii: Callable, tmp_path: Path) -> None:
    page = tmp_path / "claims.html"
    assert radii("claims", "vardi", "--html", page).code == 0
    text = page.read_text()
    assert "Which claims of the papers hold?" in text
    assert "vardi-kkt-points" in text
    assert "http" not in text.split("</style>")[1].split("<script")[0]


def test_run_computes_what_is_missing(radii: Callable, tmp_path: Path) -> None:
    """Shipped results are of the cpu budget, so smoke results must be computed."""
    assert find("theory", budget="smoke") is None
    shown = radii("claims", "ding-facets", "--run", "--budget", "smoke", "--json", tmp_path / "one.json")
    assert shown.code == 0
    (entry,) = json.loads((tmp_path / "one.json").read_text())["claims"]
    assert (entry["status"], entry["budget"]) == ("holds", "smoke")
    assert str(tmp_path) in entry["origin"]
    assert radii("claims", "prach-no-learner-above-51", "--budget", "smoke").out.count("not run")


def test_mistakes(radii: Callable, tmp_path: Path) -> None:
    assert "nearest id is 'ding-facets'" in radii("claims", "ding-facetts").err
    assert "No budget is called 'large'" in radii("claims", "--budget", "large").err
    assert radii("claims", "--html", tmp_path).code == 2
