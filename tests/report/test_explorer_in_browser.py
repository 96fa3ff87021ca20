"""The point explorer in a real browser: the slider, filters, keys and pictures show what the page's data says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from chromium import Browser, Tab, launched, needs_chromium
from radii.report.explorer import Explorer
from radii.report.html import Report, Section, write
from radii.report.points import Neighbors
from report.conftest import INJECTED
from report.test_explorer import images, random_scores, shown

pytestmark = needs_chromium
POINTS = 60
TILES = "[...document.querySelectorAll('.tiles .tile')]"
NUMBERS = f"{TILES}.map(tile => Number(tile.title.split(':')[0]))"
FACTS = """Object.fromEntries([...document.querySelectorAll('.detail dl div')]
    .map(line => [line.children[0].textContent, line.children[1].textContent]))"""
COLORS = """[...document.querySelectorAll('.detail canvas')]
    .map(own => [...own.getContext('2d').getImageData(0, 0, own.width, own.height).data])"""
STATES = f"{TILES}.map(tile => tile.title.split(', ').at(-1))"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as started:
        yield started


@pytest.fixture(scope="module")
def made() -> Explorer:
    data = images(POINTS, (3, 8, 8))
    x = data.tensors(np.arange(POINTS))[0].numpy()
    near = Neighbors(data, np.arange(POINTS)[::-1].copy(), np.linspace(2, 1, POINTS))
    scores = {"mine": random_scores(1, x=x), INJECTED: random_scores(2, radii=False, x=x)}
    return shown(scores, data, near)


@pytest.fixture(scope="module")
def page(made: Explorer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("points") / "page.html"
    return write(Report("Points", (Section("All", (made,)),)), path)


def choose(tab: Tab, label: str, option: str) -> None:
    tab.page.get_by_label(label, exact=True).select_option(label=option)


def expected(made: Explorer, view: int, k: int) -> list[str]:
    return [made.states[state].name for state in made.views[view].states[k]]


def test_colors_follow_radius_and_model(browser: Browser, page: Path, made: Explorer) -> None:
    tab = browser.open(page)
    assert tab.run(STATES) == expected(made, 0, made.at)
    slider = tab.page.locator("input[type=range]")
    for view, name in ((0, "mine"), (1, INJECTED)):
        choose(tab, "Show", name)
        for k in (0, 7, len(made.radii) - 1):
            slider.fill(str(k))
            assert tab.run(STATES) == expected(made, view, k)
            assert tab.run("document.querySelector('.said').textContent") == made.views[view].said[k]
            legend = tab.run("[...document.querySelectorAll('.states button')].map(e => e.textContent)")
            own = made.views[view].states[k]
            assert legend == [f"{state.name} {int((own == j).sum())}" for j, state in enumerate(made.states)]
    assert "Not attacked" in tab.run("document.querySelector('.said').textContent")
    assert tab.complaints == []
    assert [url for url in tab.requests if not url.startswith("data:")] == [page.as_uri()]


def test_filters_and_order(browser: Browser, page: Path, made: Explorer) -> None:
    tab = browser.open(page)
    labels = np.array(made.labels)
    choose(tab, "Class", "b")
    assert tab.run(NUMBERS) == np.flatnonzero(labels == 1).tolist()
    choose(tab, "Sort by", "distance to another class")
    assert tab.run(NUMBERS) == np.flatnonzero(labels == 1)[::-1].tolist()  # distances fall with the number
    choose(tab, "Class", "all")
    tab.page.locator(".states button", has_text="broken").click()
    assert set(tab.run(STATES)) == {"broken"}
    choose(tab, "Sort by", "distance of the nearest known error")
    key = made.views[0].keys["distance of the nearest known error"]
    found = tab.run(NUMBERS)
    assert [key[point] for point in found] == sorted(key[point] for point in found)
    tab.page.locator(".states button", has_text="broken").click()
    tab.page.locator(".by-class button").nth(2).click()
    assert sorted(tab.run(NUMBERS)) == np.flatnonzero(labels == 2).tolist()


def test_keys_walk_over_the_points(browser: Browser, page: Path) -> None:
    tab = browser.open(page)
    chosen = "Number(document.querySelector('.detail').dataset.point)"
    tab.run("document.querySelector('.tiles .tile[tabindex=\"0\"]').focus()")
    for key, point in (("Enter", 0), ("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("End", POINTS - 1)):
        tab.page.keyboard.press(key)
        assert tab.run(chosen) == point
        assert tab.run("document.activeElement.getAttribute('aria-selected')") == "true"
    tab.page.keyboard.press("Home")
    top = f"{TILES}.filter(tile => tile.offsetTop === {TILES}[0].offsetTop).length"
    tab.page.keyboard.press("ArrowDown")
    assert tab.run(chosen) == tab.run(top)
    assert tab.run(f"{TILES}.filter(tile => tile.tabIndex === 0).length") == 1  # one stop for the tabulator


def test_a_chosen_point_shows_its_pictures_and_facts(browser: Browser, page: Path, made: Explorer) -> None:
    tab = browser.open(page)
    broken = next(point for point, tile in enumerate(made.views[0].pictures[0].tiles) if tile >= 0)
    for point in (broken, next(k for k, tile in enumerate(made.views[0].pictures[0].tiles) if tile < 0)):
        tab.run(f"{TILES}[{point}].click()")
        captions = tab.run("[...document.querySelectorAll('.detail figcaption')].map(e => e.textContent)")
        assert ("misclassified input" in captions) is (point == broken)
        assert {"input", "nearest of another class"} <= set(captions)
        tab.wait("[...document.querySelectorAll('.detail canvas')].every(e => e.dataset.drawn !== undefined)")
        facts = tab.run(FACTS)
        assert facts["nearest other class"] == made.classes[(POINTS - 1 - point) % 3]
        assert ("broken within ε by" in facts) is (point == broken)
    tab.run(f"{TILES}[{broken}].click()")
    tab.wait("[...document.querySelectorAll('.detail canvas')].every(e => e.dataset.drawn !== undefined)")
    clean, change, attacked = (np.array(own).reshape(-1, 4)[:, :3] for own in tab.run(COLORS)[:3])
    sheet = made.sheets[made.views[0].pictures[0].sheet]
    scale = sheet.scales[made.views[0].pictures[0].tiles[broken]]
    wanted = (clean + (change - 128.0) / 126 * scale * 255).clip(0, 255)
    assert np.abs(attacked - wanted).max() <= 1
    assert np.abs(attacked - clean).max() > 1


@pytest.mark.parametrize("width", [320, 390, 768])
def test_nothing_overflows_on_a_phone(browser: Browser, page: Path, width: int) -> None:
    tab = browser.open(page, width)
    tab.run(f"{TILES}[3].click()")
    assert tab.run("document.documentElement.scrollWidth") <= width
    assert (
        tab.run("Math.max(...[...document.querySelectorAll('.explorer *')].map(e => e.getBoundingClientRect().right))")
        <= width
    )


def test_dark_paper_and_no_scripts(browser: Browser, page: Path, made: Explorer) -> None:
    tab = browser.open(page, dark=True)
    color = f"getComputedStyle({TILES}[0]).backgroundColor"
    dark = tab.run(color)
    tab.page.emulate_media(media="print", color_scheme="light")
    assert tab.run(color) != dark
    assert tab.run("getComputedStyle(document.querySelector('.tools')).display") == "none"
    assert tab.run("document.querySelector('.tiles').scrollHeight <= document.querySelector('.tiles').clientHeight + 1")
    quiet = browser.open(page, scripts=False, until="")
    still = quiet.page.locator(".explorer > .still")
    assert still.is_visible()
    told = ", ".join(f"{count} {name}" for name, count in made.counts().items())
    assert still.get_attribute("alt") == f"mine: {told}"
    assert made.views[0].said[made.at] in quiet.page.locator(".said").inner_text().replace("\u00a0", " ")
