"""Prints the lowest declared version of every direct dependency, as constraints: python tests/lowest_versions.py."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

declared = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]["dependencies"]
for requirement in declared:
    name, version = re.fullmatch(r"([\w.-]+)(?:\[.*\])?>=([\d.]+)", requirement).groups()  # type: ignore[union-attr]
    if name != "torch":  # the script chooses it
        print(f"{name}=={version}.*" if version.count(".") < 2 else f"{name}=={version}")
