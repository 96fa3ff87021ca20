"""The help of a command: usage, what it does, its options by what they are about, and three examples.

Options without a value show none; others show one short word: N, NAME, FILE. Lines wrap between words.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any

GROUPS: dict[str, tuple[str, ...]] = {
    "Start": ("doctor", "assess", "evaluate", "attack", "gate", "compare", "board"),
    "Train": ("train", "lr-search"),
    "Prove": ("certify", "verify", "check", "export"),
    "Data": ("audit", "datasets", "variants", "forecast"),
    "Papers": ("study",),
    "Housekeeping": ("runs", "card"),
}
PAPERS = "Papers"  # and the commands of other packages
PANELS: dict[str, tuple[str, ...]] = {
    "Model": ("model", "weights", "mean", "std", "outputs", "trust", "surrogate", "recipe", "method", "preprocessing"),
    "Data": ("points", "split", "label", "skip_bad", "extra", "on"),
    "Threat and attacks": ("threat", "norm", "suite", "attack", "require"),
    "Proofs": ("certify", "complete", "seconds", "nodes", "exact", "prove", "sigma", "alpha", "samples", "proof"),
    "Output": (
        "out", "json", "latex", "plot", "html", "pictures", "pairs", "markdown", "junit", "badge", "table", "result",
        "vnnlib", "live", "layers",
    ),
    "Run": (
        "store", "seed", "device", "workers", "executor", "address", "threads", "budget", "quiet", "verbose", "help",
    ),
}  # fmt: skip
OTHER = "Options"
WORDS = {int: "N", float: "NUMBER", Path: "FILE"}
EXAMPLES: dict[str, tuple[str, ...]] = {
    "": ("radii assess digits", "radii doctor timm:resnet18 photos", "radii help evaluate"),
    "doctor": (
        "radii doctor mymodel.py:network digits --weights weights.pth",
        "radii doctor hf:google/vit-base-patch16-224 photos --threat linf:2/255",
        "radii doctor train-84c3 mnist --json -",
    ),
    "assess": (
        "radii assess digits",
        "radii assess photos --model timm:resnet18 --no-references --points 100",
        "radii assess mnist --model net.onnx --threat linf:0.1 --out mnist.html",
    ),
    "audit": (
        "radii audit mnist mnist+binarize",
        "radii audit photos+resize:64 --threat linf:8/255 --quick",
        "radii audit credit.csv --label income --norm l2 --plot credit.html",
    ),
    "train": (
        "radii train digits",
        "radii train mnist --recipe certified --threat l2:1",
        "radii train cifar10 --model lenet5 epochs=3 optimizer.lr=0.1",
    ),
    "lr-search": (
        "radii lr-search digits",
        "radii lr-search mnist --model lenet5 epochs=3",
        "radii lr-search digits --json rates.json",
    ),
    "evaluate": (
        "radii evaluate train-84c3 mnist --threat l2:0.5",
        "radii evaluate mymodel.py:network photos --weights w.pth --mean imagenet --threat linf:2/255",
        "radii evaluate net.onnx digits --threat linf:0.1 --suite fast --json scores.json",
    ),
    "attack": (
        "radii attack train-84c3 mnist --threat linf:0.3",
        "radii attack net.onnx digits --threat l2:0.5 --attack square",
        "radii attack train-84c3 mnist --threat linf:0.3 --attack apgd-t --out adversarial.npz",
    ),
    "certify": (
        "radii certify train-84c3 mnist --threat l2:0.5 --threat l2:1",
        "radii certify net.onnx digits --norm linf --method crown --plot certified.png",
        "radii certify train-84c3 cifar10 --sigma 0.25",
    ),
    "gate": (
        'radii gate net.onnx digits --require "clean>=0.9"',
        'radii gate train-84c3 mnist --require "robust(linf:8/255)>=0.45" --json gate.json',
        'radii gate net.onnx digits --require "clean>=0.9" --junit gate.xml --markdown comment.md',
    ),
    "card": ("radii card gate.json", "radii card gate.json --out CARD.md", "radii card scores.json --out model.md"),
    "compare": (
        "radii compare evaluate-12ab evaluate-34cd",
        "radii compare evaluate-12ab evaluate-34cd --plot compare.png",
        "radii compare evaluate-12ab evaluate-34cd --json -",
    ),
    "board": ("radii board", "radii board radii-runs --out board.html", "radii board --json -"),
    "export": (
        "radii export train-84c3 model.onnx",
        "radii export train-84c3 model.pt2",
        "radii export train-84c3 model.onnx --json export.json",
    ),
    "verify": (
        "radii verify net.onnx property.vnnlib",
        "radii verify net.onnx property.vnnlib --seconds 60 --proof tree.proof",
        "radii verify --instances instances.csv --workers 2",
    ),
    "check": (
        "radii check tree.proof",
        "radii check tree.proof --json -",
        "radii check tree.proof --json checked.json",
    ),
    "study": ("radii study list", "radii study run data-scaling --budget smoke", "radii study show data-scaling"),
    "forecast": (
        "radii forecast data-scaling --target 0.7",
        "radii forecast data-scaling --target 0.6 --plot forecast.png",
        "radii forecast data-scaling --target 0.7 --json -",
    ),
    "datasets": ("radii datasets", "radii datasets mnist", "radii datasets photos+resize:64"),
    "variants": (
        "radii variants mnist --smooth 2 5 8",
        "radii variants digits --gamma 0.5 2",
        "radii variants digits --smooth 2 --out variants.png",
    ),
    "runs": ("radii runs", "radii runs show train-84c3", "radii runs compare train-84c3 train-12ab"),
}


def format_help(command: Any, context: Any, formatter: Any) -> None:
    """Write the help of ``command``, as wide as the terminal."""
    width = max(60, min(100, shutil.get_terminal_size((80, 24)).columns))
    text, encoding = "\n".join(help_lines(command, context, width)) + "\n", sys.stdout.encoding or "ascii"
    formatter.write(text.encode(encoding, "backslashreplace").decode(encoding))


def help_lines(command: Any, context: Any, width: int) -> Iterator[str]:
    """The help of ``command`` in lines of at most ``width`` characters."""
    parameters = command.get_params(context)
    arguments = [each for each in parameters if each.param_type_name == "argument"]
    options = [each for each in parameters if each.param_type_name == "option"]
    below = command.list_commands(context) if hasattr(command, "list_commands") else ()
    words = [context.command_path, *map(_place, arguments), *(["COMMAND"] if below else []), "[OPTIONS]"]
    yield from wrap(f"Usage: {' '.join(words)}", width, subsequent_indent="       ")
    for paragraph in (command.help or "").split("\n\n"):
        yield ""
        yield from wrap(paragraph, width)
    if arguments:
        yield from _panel("Arguments", [(_place(each), _text(each)) for each in arguments], width)
    yield from _commands(command, context, below, width)
    for name, own in _panels(options):
        yield from _panel(name, [(_flags(each), _text(each)) for each in own], width)
    examples = EXAMPLES.get(_below_radii(context.command_path), ())
    if examples:
        yield from ("", "Examples:")
        for example in examples:
            yield from wrap(example, width, initial_indent="  ", subsequent_indent="      ", break_on_hyphens=False)


def _below_radii(path: str) -> str:
    """A command's path without the program's name."""
    return path.partition(" ")[2]


def example(path: str, word: str) -> str:
    """An example of the command at ``path`` that has the option ``word``, or its first one."""
    known = EXAMPLES.get(_below_radii(path), ("radii --help",))
    return next((each for each in known if f"{word} " in each), known[0])


def _commands(command: Any, context: Any, names: Sequence[str], width: int) -> Iterator[str]:
    lines = {name: (command.get_command(context, name).help or "").split("\n\n")[0] for name in names}
    grouped = {name for group in GROUPS.values() for name in group}
    if context.parent is not None:
        if names:
            yield from _panel("Commands", list(lines.items()), width)
        return
    for group, members in GROUPS.items():
        more = [name for name in names if name not in grouped] if group == PAPERS else []
        rows = [(name, lines[name]) for name in (*members, *more) if name in lines]
        yield from _panel(group, rows, width, max(map(len, lines)) + 4)


def _panels(options: Iterable[Any]) -> Iterator[tuple[str, list[Any]]]:
    """The options of a command by what they are about; its own ones first."""
    place = {name: panel for panel, names in PANELS.items() for name in names}
    options = [each for each in options if not each.hidden]
    for panel in (OTHER, *PANELS):
        own = [each for each in options if place.get(each.name, OTHER) == panel]
        if own:
            yield panel, own


def _panel(title: str, rows: Sequence[tuple[str, str]], width: int, column: int = 0) -> Iterator[str]:
    """Names on the left, their texts on the right, from ``column`` on; a long name has a line of its own."""
    yield from ("", f"{title}:")
    column = column or min(26, max(len(name) for name, _ in rows) + 4)
    for name, text in rows:
        lines = wrap(text, width - column, break_on_hyphens=False, break_long_words=False) or [""]
        if len(name) + 4 > column:
            yield f"  {name}"
        else:
            yield f"  {name:<{column - 2}}{lines.pop(0)}"
        yield from (" " * column + line for line in lines)


def _place(argument: Any) -> str:
    """An argument in the usage: MODEL, [MODEL], RUN…"""
    word = (argument.metavar or argument.name).strip("[]{}.… ").upper()
    word = word.partition(" ")[0] + ("…" if argument.nargs != 1 else "")
    return word if argument.required else f"[{word}]"


def _flags(option: Any) -> str:
    """``-q, --quiet``; ``--points N``; ``--certify / --no-certify``."""
    names = ", ".join(sorted(option.opts, key=len))
    if option.is_flag:
        return names + (f" / {option.secondary_opts[0]}" if option.secondary_opts else "")
    return f"{names} {_value(option)}"


def _value(option: Any) -> str:
    descriptor = getattr(option, "type_descriptor", None)
    kind = getattr(descriptor, "annotation", None)
    return option.metavar or WORDS.get(kind) or str(option.name).replace("_", "-").upper()  # type: ignore[arg-type]


def _text(parameter: Any) -> str:
    """The help of a parameter, with its default."""
    text = (parameter.help or "").strip()
    value = parameter.default
    if parameter.param_type_name == "option" and parameter.required:
        return f"{text} Required."
    if value is None or value is False or callable(value) or isinstance(value, list | tuple):
        return text
    if parameter.param_type_name == "option" and parameter.is_flag:
        return f"{text} On by default." if parameter.secondary_opts else text
    return f"{text} Default {value:g}." if isinstance(value, float) else f"{text} Default {value}."
