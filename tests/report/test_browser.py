"""The report in a real browser: drawn, silent, offline, on a phone, in the dark, without scripts."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from chromium import Browser, launched, missing, needs_chromium
from made_assessment import KINDS, made_assessment, made_scores
from radii.report.assessment import page as assessment_page
from radii.report.html import Report, Section, write
from radii.tables import ChartSpec, Field

pytestmark = needs_chromium
ROOT = "document.documentElement"
PLOTS = "[...document.querySelectorAll('.plot')]"
SHAPES = f"{PLOTS}.map(plot => plot.querySelectorAll('.live svg path, .live svg image').length)"
INK = "[...document.querySelectorAll('.live svg')].map(svg => svg.getBoundingClientRect().width)"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as started:
        yield started


def test_every_chart_is_drawn_in_silence(browser: Browser, demo_page: Path, dozen_page: Path) -> None:
    for path, charts in ((demo_page, 3), (dozen_page, 10)):
        page = browser.open(path)
        shapes = page.run(SHAPES)
        assert len(shapes) == charts
        assert min(shapes) > 3
        assert min(page.run(INK)) > 150
        assert page.run(f"[{ROOT}.dataset.charts, {ROOT}.dataset.errors]") == [str(charts), "0"]
        assert page.run("document.querySelectorAll('img[src=x]').length") == 0
        assert page.complaints == []  # an alert would be on record too
        assert [url for url in page.requests if not url.startswith("data:")] == [path.as_uri()]


@pytest.mark.parametrize("width", [320, 360, 768])
def test_nothing_overflows_on_a_phone(browser: Browser, demo_page: Path, dozen_page: Path, width: int) -> None:
    for path in (demo_page, dozen_page):
        page = browser.open(path, width)
        page.run("document.querySelectorAll('details').forEach(each => { each.open = true; })")
        assert page.run(f"{ROOT}.scrollWidth") <= width
        boxes = "[...document.querySelectorAll('main > section > *')]"
        assert page.run(f"Math.max(...{boxes}.map(box => box.getBoundingClientRect().right))") <= width


BOXES = "[...document.querySelectorAll('header > *, main section > *')].map(e => e.getBoundingClientRect())"
OVERLAPS = f"""(boxes => boxes.filter((box, k) => k > 0 && box.top < boxes[k - 1].bottom - 1).length)
    ({BOXES}.filter(box => box.height > 0))"""
WIDE = "[...document.querySelectorAll('.block .scroll, .live')].filter(e => e.scrollWidth > e.clientWidth + 1).length"
CUT = "[...document.querySelectorAll('td, .card, h1, h2, h3')].filter(e => e.scrollWidth > e.clientWidth + 2).length"
LOOKS = [(1200, False, ""), (1200, True, ""), (390, False, ""), (800, False, "print")]


@pytest.mark.parametrize(("width", "dark", "media"), LOOKS)
def test_nothing_overlaps_is_cut_off_or_empty(
    browser: Browser, demo_page: Path, tmp_path: Path, width: int, dark: bool, media: str
) -> None:
    page = browser.open(demo_page, width, dark=dark)
    if media:
        page.page.emulate_media(media=media)
    page.page.screenshot(path=tmp_path / "page.png", full_page=True)
    assert page.run(OVERLAPS) == 0
    assert page.run(WIDE) == 0  # every table fits its box
    assert page.run(CUT) == 0
    shapes = page.run(SHAPES) if not media else page.run("[...document.querySelectorAll('.still')].map(e => e.height)")
    assert min(shapes) > 3


def test_the_pointer_need_not_touch_a_line(browser: Browser, demo_page: Path) -> None:
    page = browser.open(demo_page)
    plot = f"{PLOTS}.find(plot => plot.querySelector('.mark-line'))"
    page.run(f"{plot}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
    x, y, wide, high = page.run(f"(r => [r.x, r.y, r.width, r.height])({plot}.getBoundingClientRect())")
    for shift in (0, 2):
        page.page.mouse.move(x + 0.9 * wide + shift, y + 0.4 * high)  # far above the curves
    page.wait("document.querySelector('#vg-tooltip-element.visible') !== null")
    text = page.run("document.getElementById('vg-tooltip-element').textContent")
    assert text.count("%") >= 2  # all series at that x
    assert page.complaints == []


def test_a_tooltip_leaves_out_lines_that_have_ended(browser: Browser, tmp_path: Path) -> None:
    """Lines of different lengths, gaps and hostile names: each tooltip has the values at its x and nothing else."""
    lengths = {'say "1"': 4, "back\\slash's": 2, "plain": 3}
    rows = [{"r": k, "a": k / 10, "s": name} for name, length in lengths.items() for k in range(length)]
    rows += [{"r": 3, "a": None, "s": "plain"}, {"r": 2, "a": float("nan"), "s": "never"}]
    chart = ChartSpec("curves", rows, Field("r", "radius"), Field("a", percent=True), "s", "Lines that end")
    page = browser.open(write(Report("Ends", (Section("", (chart,)),)), tmp_path / "ends.html"))
    x, y, wide, high = page.run(
        f"(r => [r.x, r.y, r.width, r.height])({PLOTS}[0].querySelector('.live svg').getBoundingClientRect())"
    )
    said = set()
    for step in range(10, 100, 4):
        page.page.mouse.move(x + step / 100 * wide, y + 0.5 * high)
        page.wait("document.querySelector('#vg-tooltip-element.visible') !== null")
        said.add(page.run("document.getElementById('vg-tooltip-element').innerText"))
    texts = {re.search(r"radius:?\s*(\d)", text)[1]: text for text in said}  # type: ignore[index]
    assert sorted(texts) == ["0", "1", "2", "3"]
    for radius, text in texts.items():
        for name, length in lengths.items():
            assert (name in text) is (int(radius) < length)
        assert text.count("%") == sum(int(radius) < length for length in lengths.values())
        assert not re.search("null|undefined|nan", text, re.IGNORECASE)
    assert page.complaints == []


def test_dark_follows_the_reader_and_the_button(browser: Browser, demo_page: Path) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    label = "getComputedStyle(document.querySelector('.live svg .role-axis-label text')).fill"
    page = browser.open(demo_page, dark=True)
    assert page.run(background) == "rgb(18, 22, 28)"
    dark_label = page.run(label)
    page.run("document.getElementById('theme').click()")
    page.wait(f"{ROOT}.dataset.drawn === 'light'")
    assert page.run(background) == "rgb(255, 255, 255)"
    assert page.run(label) != dark_label
    assert page.run("document.querySelectorAll('.live svg').length") == 3  # drawn again, not twice
    assert page.complaints == []


def test_a_tooltip_tells_the_numbers_and_escapes_names(browser: Browser, dozen_page: Path) -> None:
    page = browser.open(dozen_page)
    page.run("document.querySelectorAll('.plot')[5].scrollIntoView({block: 'center', behavior: 'instant'})")
    bars = "document.querySelectorAll('.plot')[5].querySelectorAll('.mark-rect path')"
    spot = page.run(f"(r => [r.x + r.width / 2, r.y + r.height - 9])({bars}[19].getBoundingClientRect())")
    for shift in (0, 1):
        page.page.mouse.move(spot[0] + shift, spot[1])
    page.wait("document.querySelector('#vg-tooltip-element.visible') !== null")
    text = page.run("document.getElementById('vg-tooltip-element').textContent")
    assert "98.0%" in text
    assert "onerror=alert(1)" in text
    assert page.run("document.querySelector('#vg-tooltip-element img') === null")
    assert page.complaints == []


def test_without_scripts_the_still_pictures_stand(browser: Browser, demo_page: Path) -> None:
    page = browser.open(demo_page, scripts=False, until="")
    stills = (
        "[...document.querySelectorAll('.still')].map(img => img.naturalWidth * img.getBoundingClientRect().height)"
    )
    seen = page.run(stills)
    button_hidden = page.run("document.getElementById('theme').hidden")
    assert min(seen) > 10_000
    assert button_hidden


def test_paper_shows_the_still_pictures_in_ink_on_white(browser: Browser, demo_page: Path) -> None:
    page = browser.open(demo_page, width=800, dark=True)
    page.page.emulate_media(media="print", color_scheme="dark")
    assert page.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.run("getComputedStyle(document.querySelector('.live')).display") == "none"
    assert page.run("document.querySelector('.still').getBoundingClientRect().height") > 100
    assert page.run(f"{ROOT}.scrollWidth") <= 800  # no table is cut off


def test_the_page_s_complaints_are_seen(browser: Browser, tmp_path: Path) -> None:
    """The watch itself can fail: a page with every fault is caught at each of them."""
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<meta http-equiv='Content-Security-Policy' content=\"img-src 'none'; script-src 'unsafe-inline'\">"
        "<img src='http://127.0.0.1:9/x.png'><img src='other.png'>"
        "<script>console.error('said'); alert('asked'); throw new Error('thrown');</script>"
    )
    page = browser.open(bad, until="")
    everything = " ".join(page.complaints)
    assert "said" in everything
    assert "dialog: asked" in everything
    assert "Uncaught" in everything
    assert "Content Security Policy" in everything


def test_a_screenshot(browser: Browser, tmp_path: Path, demo_page: Path) -> None:
    browser.open(demo_page, 800, 600, dark=True).page.screenshot(path=tmp_path / "shot.png")
    assert (tmp_path / "shot.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "shot.png").stat().st_size > 10_000


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chromium.shutil.which", lambda name: None)
    assert "no Chromium" in missing()


@pytest.fixture(scope="module")
def assessed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    scores = {name: made_scores(list(KINDS) * 30, [k % 10 for k in range(120)]) for name in ("mine", "1-Lipschitz")}
    path = tmp_path_factory.mktemp("assessed") / "report.html"
    return write(assessment_page(made_assessment(scores, options=("--model", "mine"))), path)


def test_every_number_on_the_pictures_of_the_docs_stands_in_their_legend(browser: Browser, assessed: Path) -> None:
    docs = Path(__file__).parents[2] / "docs"
    spec = importlib.util.spec_from_file_location("take_pictures", docs / "take_pictures.py")
    assert spec is not None
    assert spec.loader is not None
    pictures = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pictures)
    legends = (docs / "start" / "report.md").read_text().split("../pictures/")[1:]
    tab = browser.open(assessed, 1100, 1250)
    tab.page.click(pictures.CHOSEN)
    first = 1
    for legend, (name, places) in zip(legends, pictures.NUMBERED.items(), strict=True):
        assert legend.startswith(name)
        pictures.number(tab, places, first)
        numbers = [str(k) for k in range(first, first + len(places))]
        assert re.findall(r"^\| (\d+) \|", legend, re.MULTILINE) == numbers
        first += len(places)
        assert tab.run("[...document.querySelectorAll('.numbered')].at(-1).textContent") == numbers[-1]
    assert tab.complaints == []


def test_a_command_breaks_between_its_words_and_is_copied_as_it_is(browser: Browser, assessed: Path) -> None:
    tab = browser.open(assessed, 390, 844)
    words = "[...document.querySelectorAll('.issues code span')]"
    heights = tab.run(f"{words}.map(word => word.getClientRects().length)")
    assert set(heights) == {1}
    assert tab.run("document.querySelector('.issues code').innerText").split() == tab.run(
        "document.querySelector('.issues code').textContent"
    ).split(" ")
