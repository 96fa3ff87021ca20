# ruff: noqa: E501
"""Odd command lines, drawn from the option grammar of radii itself."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import click
import typer

from campaign import valid_files

WORDS = (
    "", " ", "-", "--", "0", "-1", "1e999", "nan", "inf", "99999999999999999999", "1/0", "8/255", "linf:8", "linf:8/255",
    "l2:0.5", "l1:3", "l3:1", "linf:-1", "l2:nan", "linf:0", "linf", ":", "l2:", "../..", "/dev/null", "/", ".", "nowhere",
    "\x1b[31mred", "\u202egnp", "ünïcödé", "a" * 300, "os:system", "digits", "digits+binarize", "digits+smooth:0",
    "digits+smooth:-3", "digits+gamma:nan", "digits+pca:0-9999", "digits+subset:99999999999999999999", "digits+", "+", "digits+nope:1",
    "radii.models.zoo.mlp:MLP", "natural", "fast", "auto", "crown", "smoke", "cpu", "paper", "out.png", "out.html", "out.json",
    "x/y/z.json", "key=value", "epochs=1", "epcohs=3", "lr=0.1", "optimizer.lr=nan", "model.width=-1", "batch_size=0", "seed=1",
)  # fmt: skip
USUAL = {
    "dataset": ("digits", "digits+subset:100", "digits+binarize", "missing.npz"),
    "network": ("net.onnx", "model.onnx", "missing.onnx"),
    "query": ("prop.vnnlib", "missing.vnnlib"),
    "model": ("nearest", "mlp", "lenet5", "model.onnx", "train-00", "radii.models.zoo.mlp:MLP"),
}


def tree() -> dict[tuple[str, ...], click.Command]:
    """Every command by its words."""
    from radii.cli.main import app, load_command

    found: dict[tuple[str, ...], click.Command] = {}

    def walk(command: Any, words: tuple[str, ...]) -> None:
        if isinstance(command, click.Group) or hasattr(command, "list_commands"):
            context = click.Context(command)
            for name in command.list_commands(context):
                walk(command.get_command(context, name) if words else load_command(name), (*words, name))
        else:
            found[words] = command

    walk(typer.main.get_command(app), ())
    return found


def drawn(seed: int, commands: dict[tuple[str, ...], click.Command]) -> list[str]:
    """A command line: mostly right words with one or two odd ones."""
    draw = Random(seed)
    words = draw.choice(sorted(commands))
    command, line = commands[words], list(words)
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            usual = USUAL.get((parameter.name or "").replace("datasets", "dataset"), ("digits",))
            if draw.random() < 0.9:
                line.append(draw.choice(WORDS) if draw.random() < 0.3 else draw.choice(usual))
    options = [parameter for parameter in command.params if parameter.param_type_name == "option"]
    for option in draw.sample(options, min(len(options), draw.choice((0, 1, 1, 2, 3)))):
        line.append(draw.choice(option.opts))
        if not getattr(option, "is_flag", False) or draw.random() < 0.05:
            line.append(draw.choice(WORDS))
    if draw.random() < 0.1:
        line.insert(draw.randrange(len(line) + 1), draw.choice(WORDS))
    if words[0] in ("train", "lr-search") and draw.random() < 0.9:
        line += ["epochs=1"]
    return [word for word in line if "\0" not in word]


def stage(folder: Path) -> None:
    """Files that command lines may name."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "out.json").write_text("{}")
    (folder / "model.onnx").write_bytes(b"not a network")
    (folder / "net.onnx").write_bytes(valid_files.onnx())
    (folder / "prop.vnnlib").write_text(valid_files.PROPERTY)
