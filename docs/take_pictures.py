"""Takes the docs' pictures of a report: `python docs/take_pictures.py report.html docs/pictures`.

Writes report-light.png, report-dark.png (1200 by 1320) and report-phone.png
(390 by 844, twice the pixels), as headless Chromium shows the page, and
report-top.png and report-points.png with the numbers that docs/start/report.md
explains.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from chromium import Tab, launched, missing

WINDOWS = {
    "report-light.png": (1200, 1320, False),
    "report-dark.png": (1200, 1320, True),
    "report-phone.png": (390, 844, False),
}
FIRST = ".bars li:first-child"  # the line of the first model
NUMBERED = {  # parts of the page by picture; the numbers go on from one picture to the next
    "report-top.png": (
        ".subtitle",
        ".facts",
        ".verdict",
        f"{FIRST} .who",
        f"{FIRST} .clean",
        f"{FIRST} .share",
        f"{FIRST} .range .small",
        ".bars .legend",
        ".issues li:first-child",
        ".issues .command",
    ),
    "report-points.png": (".tools label", ".tools .radius", ".states", ".said", ".tiles", ".detail", ".by-class"),
}
CHOSEN = ".tile.tone-broken"  # the point that is shown in detail
DRAW = """([place, number]) => {
  const part = document.querySelector(place), mark = document.createElement("div");
  const at = part.getBoundingClientRect();
  mark.className = "numbered";
  mark.textContent = number;
  Object.assign(mark.style, {
    position: "absolute", zIndex: 9, left: `${at.left + scrollX - 27}px`, top: `${at.top + scrollY - 9}px`,
    width: "23px", height: "23px", borderRadius: "50%", background: "#c2127a", color: "#ffffff",
    font: "700 13px/23px sans-serif", textAlign: "center",
  });
  document.body.append(mark);
}"""


def number(tab: Tab, places: tuple[str, ...], first: int) -> None:
    """Draw a numbered circle at each part of the page, the first of them with the number ``first``."""
    for count, place in enumerate(places, first):
        assert tab.page.locator(place).count(), f"The page has no {place}."
        tab.page.evaluate(DRAW, [place, count])


def main(page: str, folder: str) -> None:
    """One picture for each window, then the numbered ones."""
    to = Path(folder)
    to.mkdir(parents=True, exist_ok=True)
    with launched() as browser:
        for name, (width, height, dark) in WINDOWS.items():
            browser.open(page, width, height, dark=dark).page.screenshot(path=to / name)
        first = 1
        for name, places in NUMBERED.items():
            tab = browser.open(page, 1100, 1250)
            if ".tiles" in places:
                tab.page.click(CHOSEN)
                tab.page.mouse.move(0, 0)
                tab.run("document.querySelector('.explorer').scrollIntoView()")
            number(tab, places, first)
            first += len(places)
            tab.page.screenshot(path=to / name)


if __name__ == "__main__":
    if len(sys.argv) != 3 or missing():
        sys.exit(missing() or "usage: python docs/take_pictures.py REPORT.html FOLDER")
    main(sys.argv[1], sys.argv[2])
