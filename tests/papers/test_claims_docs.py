"""The example of docs/guide/claims.md makes a claim that can be judged."""

from __future__ import annotations

import re
from pathlib import Path

from radii.papers.claims.claim import judge
from radii.papers.published import published
from radii.studies.results import find

PAGE = (Path(__file__).parents[2] / "docs" / "guide" / "claims.md").read_text()


def test_the_example_is_a_claim() -> None:
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict = {}
    exec(block, names)
    assert judge(names["claim"], find("geometry", budget="cpu")).status == "holds"


def test_the_lookup_of_the_page() -> None:
    assert published("003", "Table 6", dataset="MNIST original") == -1297.0
