"""The code of a page of the docs: its blocks, what they print, and the commands that it names.

A block of ``python`` runs in the page's own names; one that begins with ``# name.py`` is that file. A block of ``sh``
holds commands. A block of ``text`` right below either is what it prints: word for word, but that ``…`` stands for
anything, spaces do not count, and a number may differ by 3% or by one in its last place, because processors round
trainings differently.
"""

from __future__ import annotations

import doctest
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
_SESSION = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL


@dataclass(frozen=True)
class Block:
    """A block of code and the output that the page shows right below it, None where there is none."""

    language: str
    text: str
    shown: str | None

    @property
    def file(self) -> str | None:
        """The file that this block is, by its first line ``# name.py`` or ``# name.toml``."""
        name = re.match(r"# ([\w-]+\.(?:py|toml))\n", self.text)
        return name[1] if name else None

    @property
    def commands(self) -> list[list[str]]:
        """The words of every line ``radii …``, without comments."""
        lines = self.text.replace("\\\n", " ").splitlines()
        return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("radii ")]


def blocks(page: str) -> Iterator[Block]:
    """The blocks of a page in their order; a block of ``text`` is part of the one above it."""
    for fence, below in pairwise([*_FENCE.finditer(page), None]):
        if fence is not None and fence[1] != "text":
            adjacent = below is not None and below[1] == "text" and not page[fence.end() : below.start()].strip()
            yield Block(fence[1], fence[2], below[2] if adjacent and below else None)


def same(shown: str, printed: str) -> bool:
    """Whether a page may show ``shown`` for what was ``printed``."""
    parts = re.split(f"(…|{_NUMBER.pattern})", " ".join(shown.split()))
    pattern = "".join(_as_pattern(part) for part in parts)
    found = re.fullmatch(pattern, " ".join(printed.split()), re.DOTALL)
    numbers = [part for part in parts if _NUMBER.fullmatch(part)]
    return found is not None and all(map(_near, numbers, found.groups()))


def _as_pattern(part: str) -> str:
    return ".*?" if part == "…" else f"({_NUMBER.pattern})" if _NUMBER.fullmatch(part) else re.escape(part)


def _near(shown: str, printed: str) -> bool:
    digits = len(shown.partition(".")[2])
    value, other = (float(text.replace(",", "")) for text in (shown, printed))
    return abs(value - other) <= max(0.03 * value, 1.001 * 10**-digits)


def run_python(block: Block, names: dict[str, Any], page: str) -> str:
    """What a block of Python prints; a session with ``>>>`` is compared line by line by doctest."""
    printed = StringIO()
    if ">>>" in block.text:
        session = doctest.DocTestParser().get_doctest(block.text, names, page, page, 0)
        outcome = doctest.DocTestRunner(optionflags=_SESSION).run(session, clear_globs=False)
        assert outcome.failed == 0, page
        names.update(session.globs)
        return ""
    with redirect_stdout(printed):
        exec(compile(block.text, page, "exec"), names)
    return printed.getvalue()


def run_page(page: Path, folder: Path, command: Callable[[list[str]], str], *, every_command: bool) -> None:
    """Run a page in ``folder``; every difference between what it shows and what happens is an error.

    Args:
        page: the file.
        folder: the current folder, in which the page's files are written.
        command: runs the words of a command and returns what it prints.
        every_command: whether commands without a shown output run, too.
    """
    names: dict[str, Any] = {"__name__": "page"}
    for block in blocks(page.read_text()):
        if block.file:
            (folder / block.file).write_text(block.text)
        elif block.language == "python":
            printed = run_python(block, names, page.name)
            assert same(block.shown or "", printed), f"{page.name}:\n{block.text}\nprints\n{printed}"
        elif block.language == "sh" and (block.shown is not None or every_command):
            printed = "".join(map(command, block.commands))
            assert block.shown is None or same(block.shown, printed), f"{page.name}:\n{block.text}\nprints\n{printed}"
