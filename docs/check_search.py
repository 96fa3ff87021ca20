"""Types words into the search box of the built site, opened from its folder: `python docs/check_search.py build/site`.

`make docs` ends with it. Needs playwright and a Chromium of this machine; without them it says so and checks nothing.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from chromium import launched, missing

PAGES = ("index.html", "guide/security.html")
WORDS = {"certificate": "Certify", "own model": "Your own model"}  # and a page that must be among the first five
TITLES = "Array.from(document.querySelectorAll('.md-search-result__item > a h1')).map(title => title.innerText)"


def main() -> None:
    """Every search must show its page among the first five hits and complain of nothing."""
    site = Path(sys.argv[1])
    if why := missing():
        print(f"The search was not tried: {why}")
        return
    with launched() as browser:
        for page in PAGES:
            for words, title in WORDS.items():
                tab = browser.open(site / page, until="")
                tab.page.click(".md-search__input")
                tab.page.keyboard.type(words)
                tab.wait(f"{TITLES}.slice(0, 5).includes({title!r})")
                assert not tab.complaints, f"{page}: {tab.complaints}"
                print(f"The search of {page} finds {title!r} by {words!r}.")


if __name__ == "__main__":
    main()
