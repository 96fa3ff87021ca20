"""What an assessment shows of the papers' statements: those about two networks need both, and may have more."""

from __future__ import annotations

import pytest

from made_assessment import made_assessment, made_scores
from radii_papers.claims.observations import observations

PAIRED = "A standard network errs within ε = 0.5 at points where the {} network is proved right."


@pytest.mark.parametrize("names", [("standard", "1-Lipschitz"), ("standard", "adversarial", "interval-trained")])
def test_statements_about_a_standard_and_a_certified_network(names: tuple[str, ...]) -> None:
    scores = {name: made_scores(["broken" if name == "standard" else "proved"] * 40) for name in names}
    said = {seen.statement: seen.holds for seen in observations(made_assessment(scores))}
    assert said[PAIRED.format(names[-1])] is True
    alone = observations(made_assessment({"mine": scores["standard"], "standard": scores["standard"]}))
    assert len(alone) == len(said) - 2
