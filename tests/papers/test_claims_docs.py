"""The example of docs/papers/claims.md makes a claim that can be judged."""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields
from pathlib import Path

from radii.studies.results import find
from radii_papers.claims.claim import Claim, read_claim
from radii_papers.claims.judgment import judge
from radii_papers.published import lookup
from radii_papers.theory import STATEMENTS

PAGE = (Path(__file__).parents[2] / "docs" / "papers" / "claims.md").read_text()


def test_the_example_is_a_claim() -> None:
    (block,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (record,) = tomllib.loads(block)["claim"]
    claim = read_claim(record, "Prach & Lampert 2025")
    assert judge(claim, find("geometry", budget="cpu")).status == "holds"


def test_every_field_of_a_record_is_explained() -> None:
    read = {"relation", "tolerance", "published"} | {field.name for field in fields(Claim)} - {"paper"}
    assert {name for name in read if f"`{name}`" not in PAGE and f"\n{name} = " not in PAGE} == set()


def test_the_lookup_of_the_page() -> None:
    assert lookup("003", "Table 6", dataset="MNIST original").number == -1297.0


def test_the_number_of_theorems() -> None:
    (number,) = re.findall(r"the (\d+) results of", PAGE)
    assert int(number) == len(STATEMENTS)
