"""Options mean the same on every command, and old spellings are answered with the new one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, get_args

import pytest
import typer

from radii.cli.main import COMMANDS, app, load_command

# names that are arguments of a result of the theory, where they are the paper's symbols
OWN_OF_RESULTS = "theory"
SHARED = {"threat", "norm", "points", "workers", "threads", "store", "seed", "device", "json", "plot", "budget"}


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command below ``group`` with its path of names; the theory's results are left out."""
    for name in group.list_commands(None):
        command = group.get_command(None, name) if path else load_command(name)
        if hasattr(command, "list_commands"):
            if name != OWN_OF_RESULTS:
                yield (*path, name), command
                yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


def test_a_name_has_one_type_and_one_meaning() -> None:
    seen: dict[str, dict[tuple[str, str], list[str]]] = defaultdict(lambda: defaultdict(list))
    for path, command in commands(typer.main.get_command(app)):
        for option in command.params:
            if option.param_type_name != "option" or option.name == "help":
                continue
            meaning = (option.help or "").replace("; may be repeated", "")
            annotation = option.type_descriptor.annotation  # of one value: a list says that it may be repeated
            kind = str(*get_args(annotation)) if get_args(annotation) else str(annotation)
            for flag in option.opts:
                seen[flag.lstrip("-")][kind, meaning].append(" ".join(path))
    for flag, meanings in seen.items():
        if flag in ("out", "method", "model", "threat"):  # each command says which file, way, network or threats
            assert len({kind for kind, _ in meanings}) == 1, meanings
            continue
        assert len(meanings) == 1, f"--{flag} means {dict(meanings)}"
    assert set(seen) >= SHARED


def test_every_option_and_argument_has_a_help_text() -> None:
    silent = [
        f"{' '.join(path)}: {option.name}"
        for path, command in commands(_root())
        for option in command.params
        if not (option.help or "").strip()
    ]
    assert silent == []


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_shows_the_first_line_of_each_help(name: str) -> None:
    assert (load_command(name).help or "").split("\n\n")[0] == COMMANDS[name]


def test_runs_are_kept_in_one_place_by_every_command_that_computes() -> None:
    options = {path[0]: {option.name for option in command.params} for path, command in commands(_root())}
    for name in ("train", "lr-search", "evaluate", "attack", "certify", "audit", "assess", "export", "claims"):
        assert "store" in options[name], name


def _root() -> Any:
    return typer.main.get_command(app)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("audit", "digits", "--eps", "8/255"), "Write --threat NORM:RADIUS instead of --eps"),
        (("certify", "nearest", "digits", "--radius", "0.1"), "Write --threat NORM:RADIUS instead of --radius"),
        (("audit", "digits", "--norm", "l2", "--threat", "l2:1"), "either --threat NORM:RADIUS or --norm NORM"),
        (("certify", "nearest", "digits", "--threat", "l2:1", "--threat", "linf:1"), "must have one norm"),
    ],
)
def test_options_of_other_programs_name_ours(radii: Callable, words: tuple[str, ...], sentence: str) -> None:
    outcome = radii(*words)
    assert outcome.code == 2
    assert sentence in outcome.err
