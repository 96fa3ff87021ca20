"""Links of the README lead somewhere, and public names exist; ``test_docs.py`` runs its example."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)#:]+)\)", README))))
def test_links_lead_somewhere(link: str) -> None:
    assert (ROOT / link).exists()


def test_public_names_are_what_they_say() -> None:
    import radii
    from radii_papers import theory

    for name in radii.__all__:
        assert getattr(radii, name) is not None
    assert radii.data.variants.smooth is not None
    assert callable(theory.no_free_robustness)
    assert callable(radii.certify)
    assert set(dir(radii)) >= {"audit", "train", "evaluate", "certify", "assess"}
    with pytest.raises(AttributeError, match="nonsense"):
        _ = radii.nonsense
