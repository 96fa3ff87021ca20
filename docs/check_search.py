"""Types questions into the search box of the built site: `python docs/check_search.py build/site`.

The site is opened from its folder. `make docs` ends with it and prints the rank of the page that answers each
question. Needs playwright and a Chromium of this machine; without them it says so and checks nothing.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from chromium import launched, missing

PAGES = ("index.html", "guide/security.html")
FIRST = 5  # hits among which the answer must be
QUESTIONS = {  # what people type, and the titles of pages that answer it
    "certificate": ("Certify",),
    "own model": ("Your own model",),
    "install": ("Install",),
    "threat": ("How to read the report", "Evaluate and attack", "Changes that people meet", "Ten minutes"),
    "report": ("How to read the report",),
    "normalization": ("Your own model", "Is it ready? radii doctor"),
    "pytest": ("A gate in CI",),
    "github action": ("A gate in CI",),
    "docker": ("A gate in CI",),
    "csv": ("Data",),
    "parquet": ("Data",),
    "sklearn": ("Your own model", "Linear models and trees"),
    "xgboost": ("Linear models and trees", "Your own model"),
    "onnx": ("Verify ONNX networks", "Your own model", "Deploy a certificate"),
    "vnnlib": ("Verify ONNX networks",),
    "brightness": ("Changes that people meet",),
    "leaderboard": ("Compare models",),
    "tensorboard": ("Train", "Install"),
    "ray": ("Studies on many machines", "Install"),
    "how much data": ("How much data do I need?", "How much data", "Forecast"),
}
TITLES = "Array.from(document.querySelectorAll('.md-search-result__item > a h1')).map(title => title.innerText)"


def main() -> None:
    """Every search must show its page among the first five hits and complain of nothing."""
    site = Path(sys.argv[1])
    if why := missing():
        print(f"The search was not tried: {why}")
        return
    with launched() as browser:
        for page in PAGES:
            for words, answers in list(QUESTIONS.items())[: None if page == PAGES[0] else 2]:
                tab = browser.open(site / page, until="")
                tab.page.click(".md-search__input")
                tab.page.keyboard.type(words)
                tab.wait(f"{TITLES}.slice(0, {FIRST}).some(title => {list(answers)!r}.includes(title))")
                assert not tab.complaints, f"{page}: {tab.complaints}"
                titles = tab.run(TITLES)
                rank = 1 + min(titles.index(title) for title in answers if title in titles)
                print(f"{page}, {words!r}: {titles[rank - 1]!r} is hit {rank}.")
                tab.page.context.close()


if __name__ == "__main__":
    main()
