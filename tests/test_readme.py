"""What the README shows is what happens: its Python session runs, its commands and links exist."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from radii.cli.main import COMMANDS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def test_the_python_session() -> None:
    failed, tried = doctest.testfile(str(ROOT / "README.md"), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert tried >= 5
    assert failed == 0


@pytest.mark.parametrize("command", sorted(set(re.findall(r"`radii ([a-z-]+)", README))))
def test_commands_exist(command: str) -> None:
    assert command in COMMANDS


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)#:]+)\)", README))))
def test_links_lead_somewhere(link: str) -> None:
    assert (ROOT / link).exists()


def test_public_names_are_what_they_say() -> None:
    import radii

    for name in radii.__all__:
        assert getattr(radii, name) is not None
    assert radii.data.variants.smooth is not None
    assert callable(radii.theory.no_free_robustness)
    assert callable(radii.certify)
    assert set(dir(radii)) >= {"audit", "train", "evaluate", "certify", "assess"}
    with pytest.raises(AttributeError, match="nonsense"):
        _ = radii.nonsense
