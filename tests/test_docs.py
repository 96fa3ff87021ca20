"""What README, start/ and guide/ show is what happens, and every command and option that the docs name exists."""

from __future__ import annotations

import importlib.util
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import radii
from pages import blocks, run_page, same
from radii.cli.main import COMMANDS, load_command
from radii.data import sources
from radii.registry import published

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
START = sorted((DOCS / "start").glob("*.md"))
RUN = [ROOT / "README.md", *START, *sorted((DOCS / "guide").glob("*.md"))]
EVERYWHERE = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
QUICK = {  # the first hour is about the commands, not about their figures
    "evaluate": ["--points", "12", "--suite", "pgd"],
    "assess": ["--points", "12", "--suite", "pgd", "--workers", "0"],
    "gate": ["--suite", "pgd", "--points", "40"],
}


@pytest.fixture(scope="module")
def shared_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of a reader who tries page after page: what two pages train is trained once."""
    return tmp_path_factory.mktemp("runs")


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.stem)
def test_a_page_shows_what_happens(
    page: Path, tmp_path: Path, shared_runs: Path, monkeypatch: pytest.MonkeyPatch, radii: Callable[..., Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    if page.stem not in ("runs", "verify"):  # they show what a new store says
        monkeypatch.setenv("RADII_RUNS", str(shared_runs))
    first_hour = page.stem == "first-hour"

    def command(words: list[str]) -> str:
        if first_hour and not (tmp_path / "photos").exists():
            write_photos(tmp_path / "photos")
            train(tmp_path)
        outcome = radii(*words, *(QUICK.get(words[0], []) if first_hour else []))
        assert outcome.code in (0, 1), outcome.err
        return outcome.out

    run_page(page, tmp_path, command, every_command=page in START)
    if first_hour:
        assert all((tmp_path / name).stat().st_size > 300 for name in ("report.html", "gate.xml", "MODEL_CARD.md"))


def write_photos(folder: Path) -> None:
    """Two classes: bright above and bright below, with noise; 100 photos each, of two sizes."""
    rng = np.random.default_rng(0)
    for name, top in (("cats", 190), ("dogs", 70)):
        (folder / name).mkdir(parents=True)
        for number in range(100):
            side = 32 if number % 2 else 40
            halves = np.repeat([top, 260 - top], side // 2)[:, None, None]
            pixels = np.clip(halves + rng.normal(0, 30, (side, side, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{number:03}.jpg")


def train(folder: Path) -> None:
    """The first hour's network, trained for a few seconds on normalized photos."""
    spec = importlib.util.spec_from_file_location("resnet", folder / "resnet.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    torch.manual_seed(0)
    model = module.network(2)
    x, y = sources.load(f"{folder / 'photos'}+resize:32").train.tensors()
    mean, std = (torch.tensor(v)[:, None, None] for v in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(15):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model((x - mean) / std), y).backward()
        optimizer.step()
    torch.save(model.state_dict(), folder / "weights.pth")


def named_commands() -> Iterator[tuple[str, list[str]]]:
    """Every command that README, CONTRIBUTING and the docs write, in blocks and in running text, with its page."""
    for page in EVERYWHERE:
        text = page.read_text()
        for block in blocks(text):
            if block.language in ("", "sh", "bash", "console"):
                yield from ((page.name, words) for words in block.commands)
        for words in re.findall(r"`radii ([a-z][^`]*)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
            yield page.name, shlex.split(words.replace("\\|", "|"))


def test_every_command_and_option_exists() -> None:
    wrong = []
    for page, words in named_commands():
        name, *rest = words
        if name not in {*COMMANDS, *published("radii.commands")}:
            wrong += [(page, name)] if name != "--version" else []
            continue
        command: Any = load_command(name)
        while rest and rest[0][0] != "-" and hasattr(command, "resolve_command"):
            _, command, rest = command.resolve_command(None, rest)
        known = {option for each in command.params for option in (*each.opts, *each.secondary_opts)} | {"--help"}
        options = {word.partition("=")[0] for word in rest if re.match(r"--[a-z]", word)}
        wrong += [(page, f"{name} {option}") for option in options - known]
    assert wrong == []


def test_numbers_may_differ_a_little_and_words_may_not() -> None:
    assert same("98.3% of 359 …\n  done", "98.6% of 359 points,\nin 3 s, done")
    assert not same("98.3% of 359", "94.0% of 359")
    assert not same("98.3% of 359", "98.3% of 359 points")
    assert same("0.0% [0.0%, 1.0%]", "0.1% [0.0%, 1.1%]")
    assert not same("3 wrong", "5 wrong")


def test_a_page_that_shows_something_else_fails(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(6 * 7)\n```\n\n```text\n42\n```\n")
    run_page(page, tmp_path, str, every_command=True)
    for wrong in ("```python\nprint(6 * 7)\n```\n\n```text\n54\n```\n", "```python\nprint(6 * 7)\n```\n"):
        page.write_text(wrong)
        with pytest.raises(AssertionError, match="prints"):
            run_page(page, tmp_path, str, every_command=True)


def test_every_file_that_contributing_names_exists() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    named = set(re.findall(r"`((?:src|tests|docs|examples|benchmarks)/[\w./-]+)`", text))
    assert len(named) > 10
    assert {path for path in named if not (ROOT / path).exists()} == set()
    files = {path.name for folder in ("src", "tests", "docs", "examples") for path in (ROOT / folder).rglob("*.py")}
    assert set(re.findall(r"`(\w+\.py)`", text)) <= files


def test_every_table_that_contributing_names_stands_in_its_file() -> None:
    named = re.findall(r"`([A-Z_]+)` of `(src/[\w./-]+)`", (ROOT / "CONTRIBUTING.md").read_text())
    assert len(named) > 6
    for name, file in named:
        assert re.search(rf"^{name}\b.* = ", (ROOT / file).read_text(), re.MULTILINE), f"{file} has no {name}"


LONGEST = 520  # characters of a paragraph, without the targets of its links


def paragraphs(text: str) -> Iterator[str]:
    """Paragraphs and items of lists, each in one line; blocks of code, tables and headings are left out."""
    text = re.sub(r"^---\n.*?\n---\n|```.*?```", "", text, flags=re.DOTALL)
    for block in re.split(r"\n\s*\n", text):
        for part in re.split(r"\n(?=\s*(?:[-*]|\d+\.) )", block):
            if not part.lstrip().startswith(("|", "#", "<")):
                yield re.sub(r"\]\([^)]*\)", "]", " ".join(part.split()))


def test_paragraphs_are_short() -> None:
    long = [
        f"{page.name}: {len(own)} {own[:60]}"
        for page in EVERYWHERE
        for own in paragraphs(page.read_text())
        if len(own) > LONGEST
    ]
    assert long == []


def test_the_readme_can_be_read_in_five_minutes() -> None:
    words = re.findall(r"\w\S*", (ROOT / "README.md").read_text())
    assert len(words) <= 1050


def test_every_public_name_is_in_the_reference() -> None:
    page = (ROOT / "docs" / "reference" / "index.md").read_text()
    assert [name for name in radii.__all__ if name != "__version__" and f"radii.{name}" not in page] == []
