"""The words at the end of a page are those of the glossary."""

from __future__ import annotations

import re
from pathlib import Path

from radii.report.glossary import WORDS, words_section

GLOSSARY = Path(__file__).parents[2] / "docs" / "glossary.md"


def test_the_page_and_the_glossary_say_the_same() -> None:
    rows = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", GLOSSARY.read_text(), re.MULTILINE))
    assert {word: rows[word] for word in WORDS} == WORDS
    assert [row["word"] for row in words_section().rows()] == list(WORDS)
