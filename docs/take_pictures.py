"""Takes the README's pictures of a report: `python docs/take_pictures.py report.html docs/pictures`.

Writes report-light.png, report-dark.png (1200 by 1320) and report-phone.png
(390 by 844, twice the pixels), as headless Chromium shows the page.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from chromium import launched, missing

WINDOWS = {
    "report-light.png": (1200, 1320, False),
    "report-dark.png": (1200, 1320, True),
    "report-phone.png": (390, 844, False),
}


def main(page: str, folder: str) -> None:
    """One picture per window."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    with launched() as browser:
        for name, (width, height, dark) in WINDOWS.items():
            browser.open(page, width, height, dark=dark).page.screenshot(path=Path(folder) / name)
            print(Path(folder) / name)


if __name__ == "__main__":
    if len(sys.argv) != 3 or missing():
        sys.exit(missing() or "usage: python docs/take_pictures.py REPORT.html FOLDER")
    main(sys.argv[1], sys.argv[2])
