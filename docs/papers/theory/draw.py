"""Draw the pictures of these pages: ``python docs/papers/theory/draw.py [NAME …]`` (about two minutes for all)."""

from __future__ import annotations

import sys
from pathlib import Path

from PIL import Image

from radii.report.charts import save
from radii_papers.theory.statements import STATEMENTS

HERE = Path(__file__).parent

for name in sys.argv[1:] or STATEMENTS:
    result = STATEMENTS[name].simulation()()
    picture = save(result.chart, HERE / f"{name}.png")
    Image.open(picture).convert("RGB").quantize(48).save(picture, optimize=True)  # flat colors need no more
    print(name, result.verdict, f"{picture.stat().st_size / 1000:.0f} kB")
