"""The page as text: pinned scripts, nothing from elsewhere, untrusted names inert, small."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from radii.errors import InputError
from radii.evaluation.accuracy import Accuracy, Bracket
from radii.report import html
from radii.report.galleries import Example, Gallery, Picture
from radii.report.html import Bar, Card, Cards, Commands, Prose, Report, Section
from radii.tables import Field, Table

HOSTILE = "</script><img src=x onerror=alert(1)>\"'&{{ 7 * 7 }}"


class Elements(HTMLParser):
    """All start tags with their attributes, and the text of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.raw: list[tuple[str, dict[str, str | None], str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.lasttag in {"script", "style"} and data.strip():
            self.raw.append((self.lasttag, self.tags[-1][1], data))


@pytest.fixture(scope="module")
def demo(demo_page: Path) -> Elements:
    return Elements(demo_page.read_text())


@pytest.fixture(scope="module")
def dozen(dozen_page: Path) -> Elements:
    return Elements(dozen_page.read_text())


def policy(page: Elements) -> dict[str, list[str]]:
    content = next(attrs["content"] for tag, attrs in page.tags if attrs.get("http-equiv"))
    return {words[0]: words[1:] for words in (part.split() for part in content.split(";"))}


@pytest.mark.parametrize(
    ("proved", "unbroken", "clean", "parts"),
    [
        (30, 50, 80, [("proved", 0, 15), ("open", 15, 10), ("broken", 25, 15), ("wrong", 40, 60)]),
        (0, 200, 200, [("open", 0, 100)]),
        (200, 200, 200, [("proved", 0, 100)]),
        (0, 0, 0, [("wrong", 0, 100)]),
        (20, 20, 20, [("proved", 0, 10), ("wrong", 10, 90)]),
    ],
)
def test_a_bar_counts_all_points(proved: int, unbroken: int, clean: int, parts: list[tuple[str, float, float]]) -> None:
    """Every part is a share of all 200 points, also of those that are wrong without any change."""
    bar = Bar("net", Accuracy(clean, 200), Bracket(Accuracy(proved, 200), Accuracy(unbroken, 200)))
    assert [tone for tone, _, _ in bar.parts] == [tone for tone, _, _ in parts]
    assert np.array([place for _, *place in bar.parts]) == pytest.approx(np.array([place for _, *place in parts]))
    assert bar.said == f"proved {proved / 200:.0%}, unbroken {unbroken / 200:.0%}"


def test_policy_pins_every_script_and_style_and_allows_nothing_else(demo: Elements) -> None:
    rules = policy(demo)
    assert rules["default-src"] == ["'none'"]
    assert rules["img-src"] == ["data:"]
    for kind, tag in (("script-src", "script"), ("style-src", "style")):
        texts = [text for name, attrs, text in demo.raw if name == tag and attrs.get("type") is None]
        hashes = {base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts}
        assert {f"'sha256-{one}'" for one in hashes} == set(rules[kind])
    assert "unsafe" not in json.dumps(rules)


def test_nothing_points_outside(demo: Elements, dozen: Elements) -> None:
    for page in (demo, dozen):
        for tag, attrs in page.tags:
            for name in ("src", "href", "action", "data", "srcset", "poster"):
                assert (attrs.get(name) or "#").startswith(("#", "data:")), (tag, attrs)
            assert not any(name.startswith("on") or name == "style" for name in attrs), (tag, attrs)
        assert not any("url(" in text or "@import" in text for tag, _, text in page.raw if tag == "style")


def test_anchors_lead_somewhere_and_ids_are_unique(demo: Elements) -> None:
    ids = [attrs["id"] for _, attrs in demo.tags if attrs.get("id")]
    assert len(ids) == len(set(ids))
    targets = {attrs["href"][1:] for tag, attrs in demo.tags if tag == "a"}
    assert targets <= set(ids)
    assert len(targets) == 6


def test_json_blocks_parse_and_hold_no_markup(dozen: Elements) -> None:
    blocks = [text for _, attrs, text in dozen.raw if attrs.get("type") == "application/json"]
    assert len(blocks) == 11  # 10 charts and the themes
    for text in blocks:
        assert not re.search("[<>&]", text)
        assert json.loads(text)
    assert any(HOSTILE[:20] in json.dumps(json.loads(text)) for text in blocks)


def test_every_chart_has_title_still_picture_and_numbers(demo: Elements, demo_page: Path) -> None:
    figures = [attrs for tag, attrs in demo.tags if tag == "figure" and attrs.get("class") == "chart"]
    stills = [attrs for tag, attrs in demo.tags if attrs.get("class") == "still"]
    assert len(figures) == len(stills) == 3
    assert all(attrs["alt"] and attrs["src"].startswith("data:image/svg+xml;base64,") for attrs in stills)
    assert demo_page.read_text().count("<summary>The numbers</summary>") == 3


def test_hostile_text_is_inert_in_every_block() -> None:
    word = HOSTILE
    blocks = (
        Table((Field(word), Field("b", word)), ({word: word, "b": word},), word, word),
        Gallery(word, (Example(word, (Picture("data:image/png;base64,", word),), word),), word),
        Cards((Card(word, word, word), Card(word, word)), word),
        Prose(word),
        Commands((word,), {word: word}),
    )
    section = Section(word, blocks, word)
    text = html.render(Report(word, (section, section), word, word, (blocks[2],)))  # type: ignore[arg-type]
    page = Elements(text)
    assert "{{ 7 * 7 }}" in text
    assert [attrs["src"] for tag, attrs in page.tags if tag == "img"] == ["data:image/png;base64,"] * 2
    assert not any("onerror" in attrs for _, attrs in page.tags)


def test_a_dozen_charts_stay_small(dozen_page: Path, demo_page: Path) -> None:
    assert dozen_page.stat().st_size < 2.5e6
    assert demo_page.stat().st_size < 1.5e6


def test_a_page_without_charts_carries_no_vega() -> None:
    assert len(html.render(Report("Only words", (Section("One", (Prose("a"),)),)))) < 30_000


def test_the_same_report_gives_the_same_bytes() -> None:
    report = Report("Same", (Section("", (Prose("ε = 0.5 holds"),)),))
    assert html.render(report) == html.render(report)
    assert "ε\u00a0=\u00a00.5 holds" in html.render(report)


def test_write_makes_folders_and_refuses_a_folder(tmp_path: Path) -> None:
    report = Report("R", ())
    assert html.write(report, tmp_path / "a" / "r.html").read_text().startswith("<!doctype html>")
    with pytest.raises(InputError, match="is a folder"):
        html.write(report, tmp_path / "a")
