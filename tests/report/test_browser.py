"""The report in a real browser: drawn, silent, offline, on a phone, in the dark, without scripts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from radii.errors import InputError
from radii.report import browser

needs_chromium = pytest.mark.skipif(
    browser.find() is None, reason=f"no Chromium on this machine; looked for {', '.join(browser.NAMES)}"
)
ROOT = "document.documentElement"
DRAWN = f"{ROOT}.dataset.drawn !== undefined"
PLOTS = "[...document.querySelectorAll('.plot')]"
SHAPES = f"{PLOTS}.map(plot => plot.querySelectorAll('.live svg path, .live svg image').length)"
INK = "[...document.querySelectorAll('.live svg')].map(svg => svg.getBoundingClientRect().width)"


@pytest.fixture(scope="module")
def window() -> Iterator[browser.Page]:
    with browser.chromium() as page:
        yield page


@pytest.fixture
def page(window: browser.Page) -> browser.Page:
    """The one window of these tests, with nothing on its record."""
    window.requests.clear()
    window.complaints.clear()
    return window


def opened(page: browser.Page, path: Path, width: int = 1200, dark: bool = False) -> None:
    page.look(width, 900, dark)
    page.open(path)
    page.wait(DRAWN)


@needs_chromium
def test_every_chart_is_drawn_in_silence(page: browser.Page, demo_page: Path, dozen_page: Path) -> None:
    for path, charts in ((demo_page, 3), (dozen_page, 13)):
        opened(page, path)
        shapes = page.run(SHAPES)
        assert len(shapes) == charts
        assert min(shapes) > 3
        assert min(page.run(INK)) > 150
        assert page.run(f"[{ROOT}.dataset.charts, {ROOT}.dataset.errors]") == [str(charts), "0"]
        assert page.run("document.querySelectorAll('img[src=x]').length") == 0
    assert page.complaints == []  # an alert would be on record too
    asked = [url for url in page.requests if not url.startswith("data:")]
    assert asked == [demo_page.as_uri(), dozen_page.as_uri()]


@needs_chromium
@pytest.mark.parametrize("width", [320, 360, 768])
def test_nothing_overflows_on_a_phone(page: browser.Page, demo_page: Path, dozen_page: Path, width: int) -> None:
    for path in (demo_page, dozen_page):
        opened(page, path, width)
        page.run("document.querySelectorAll('details').forEach(each => { each.open = true; })")
        assert page.run(f"{ROOT}.scrollWidth") <= width
        boxes = "[...document.querySelectorAll('main > section > *')]"
        assert page.run(f"Math.max(...{boxes}.map(box => box.getBoundingClientRect().right))") <= width


@needs_chromium
def test_dark_follows_the_reader_and_the_button(page: browser.Page, demo_page: Path) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    label = "getComputedStyle(document.querySelector('.live svg .role-axis-label text')).fill"
    opened(page, demo_page, dark=True)
    assert page.run(background) == "rgb(18, 22, 28)"
    dark_label = page.run(label)
    page.run("document.getElementById('theme').click()")
    page.wait(f"{ROOT}.dataset.drawn === 'light'")
    assert page.run(background) == "rgb(255, 255, 255)"
    assert page.run(label) != dark_label
    assert page.run("document.querySelectorAll('.live svg').length") == 3  # drawn again, not twice
    assert page.complaints == []


@needs_chromium
def test_a_tooltip_tells_the_numbers_and_escapes_names(page: browser.Page, dozen_page: Path) -> None:
    opened(page, dozen_page)
    page.run("document.querySelectorAll('.plot')[6].scrollIntoView({block: 'center', behavior: 'instant'})")
    bars = "document.querySelectorAll('.plot')[6].querySelectorAll('.mark-rect path')"
    spot = page.run(f"(r => [r.x + r.width / 2, r.y + r.height - 9])({bars}[19].getBoundingClientRect())")
    for shift in (0, 1):
        page.call("Input.dispatchMouseEvent", type="mouseMoved", x=spot[0] + shift, y=spot[1])
    page.wait("document.querySelector('#vg-tooltip-element.visible') !== null")
    text = page.run("document.getElementById('vg-tooltip-element').textContent")
    assert "98.0%" in text
    assert "onerror=alert(1)" in text
    assert page.run("document.querySelector('#vg-tooltip-element img') === null")
    assert page.complaints == []


@needs_chromium
def test_without_scripts_the_still_pictures_stand(page: browser.Page, demo_page: Path) -> None:
    page.look(1200, 900)
    page.call("Emulation.setScriptExecutionDisabled", value=True)
    page.open(demo_page)
    stills = (
        "[...document.querySelectorAll('.still')].map(img => img.naturalWidth * img.getBoundingClientRect().height)"
    )
    seen = page.run(stills)
    button_hidden = page.run("document.getElementById('theme').hidden")
    page.call("Emulation.setScriptExecutionDisabled", value=False)
    assert min(seen) > 10_000
    assert button_hidden


@needs_chromium
def test_paper_shows_the_still_pictures_in_ink_on_white(page: browser.Page, demo_page: Path) -> None:
    opened(page, demo_page, width=800, dark=True)
    page.call("Emulation.setEmulatedMedia", media="print", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    assert page.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.run("getComputedStyle(document.querySelector('.live')).display") == "none"
    assert page.run("document.querySelector('.still').getBoundingClientRect().height") > 100
    assert page.run(f"{ROOT}.scrollWidth") <= 800  # no table is cut off


@needs_chromium
def test_the_page_s_complaints_are_seen(page: browser.Page, tmp_path: Path) -> None:
    """The watch itself can fail: a page with every fault is caught at each of them."""
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<meta http-equiv='Content-Security-Policy' content=\"img-src 'none'; script-src 'unsafe-inline'\">"
        "<img src='http://127.0.0.1:9/x.png'><img src='other.png'>"
        "<script>console.error('said'); alert('asked'); throw new Error('thrown');</script>"
    )
    page.open(bad)
    page.wait("true")
    everything = " ".join(page.complaints)
    assert "said" in everything
    assert "dialog: asked" in everything
    assert "Uncaught" in everything
    assert "Content Security Policy" in everything


@needs_chromium
def test_screenshot(tmp_path: Path, demo_page: Path) -> None:
    path = browser.screenshot(demo_page, tmp_path / "shot.png", 800, 600, dark=True, at="section:nth-of-type(3)")
    assert path.read_bytes().startswith(b"\x89PNG")
    assert path.stat().st_size > 10_000


def test_without_chromium_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browser.shutil, "which", lambda name: None)
    with pytest.raises(InputError, match="No Chromium"), browser.chromium():
        pass
