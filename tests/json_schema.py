"""What ``--json`` writes, compared with the schema of the docs: every test that asks a command for JSON does it."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

SCHEMA = Path(__file__).parents[1] / "docs" / "reference" / "json-schema.json"


@cache
def schemas() -> dict[str, Any]:
    """The schema of each command."""
    content = json.loads(SCHEMA.read_text())
    return {name: {"$defs": content["$defs"], **own} for name, own in content["properties"].items()}


def check(words: list[str], printed: str) -> None:
    """Compare what the command ``words`` wrote by its ``--json`` with the schema."""
    try:
        from jsonschema import validate
    except ImportError:
        return
    target = words[words.index("--json") + 1]
    text = printed if target == "-" else Path(target).read_text() if Path(target).is_file() else ""
    start = text.find("{")
    if start < 0:
        return
    content, _ = json.JSONDecoder().raw_decode(text[start:])
    assert content["version"] == 1, words
    name = " ".join(words[:2])
    own = schemas().get(name if name in schemas() else words[0])
    if own is not None:
        validate(content, own)
