"""A hook of mkdocs: the theme's offline mode fetches one script from the network; this site brings its own."""

from __future__ import annotations

import re
from typing import Any

_FETCHED = re.compile(r'<script src="https://unpkg\.com/iframe-worker/shim"></script>')


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Replace the fetched script by docs/assets/local-worker.js, with the page's own way to the root."""
    return _FETCHED.sub(f'<script src="{"../" * page.url.count("/")}assets/local-worker.js"></script>', output)


def on_post_template(output_content: str, **_: Any) -> str:
    """The same on pages that are not written in Markdown, such as 404.html."""
    return _FETCHED.sub('<script src="/assets/local-worker.js"></script>', output_content)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The search finds pages of start/ and guide/ first, and no tables of single studies."""
    path = page.file.src_uri
    if path.startswith(("start/", "guide/", "glossary")):
        page.meta.setdefault("search", {"boost": 4})
    elif path.startswith("papers/studies/"):
        page.meta.setdefault("search", {"exclude": True})
    return markdown
