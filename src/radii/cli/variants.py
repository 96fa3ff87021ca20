"""`radii variants`: see what smoothing, saturation and the others do to a dataset's images."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from radii.cli import terminal
from radii.cli.options import Json, check_default, writable
from radii.files import write_sealed
from radii.tables import listing

WITH_VALUES = ("--smooth", "--smooth2d", "--saturate", "--gamma", "--scale", "--pca")
USUAL = ("smooth:3", "smooth:5", "smooth:8", "saturate:4", "saturate:16", "gamma:0.5", "scale:0.5", "binarize", "edges")
VALUE = re.compile(r"[\d.]+(e-?\d+)?|inf|\d[\d,-]*")

Values = list[str] | None

app = typer.Typer(add_completion=False)


def _several(meaning: str) -> Any:
    """An option that takes several values."""
    return typer.Option(metavar="VALUE…", help=meaning)


class _SeveralValues(TyperCommand):
    """Lets `--smooth 2 5 8` mean `--smooth 2 --smooth 5 --smooth 8`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Repeat an option before each further value behind it."""
        repeated: list[str] = []
        option = None
        for word in args:
            if option and repeated[-1] != option and VALUE.fullmatch(word):
                repeated.append(option)
            elif not (option and VALUE.fullmatch(word)):
                option = word if word in WITH_VALUES else None
            repeated.append(word)
        return super().parse_args(ctx, repeated)


@app.command(cls=_SeveralValues)
def variants(
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help="A name or path, for example mnist.")],
    smooth: Annotated[
        list[str] | None, typer.Option(metavar="VALUE…", help="Blur along the rows: lengths of the filter in pixels.")
    ] = None,
    smooth2d: Annotated[
        list[str] | None, typer.Option(metavar="VALUE…", help="Blur by a square filter: its sides in pixels.")
    ] = None,
    saturate: Annotated[
        list[str] | None, typer.Option(metavar="VALUE…", help="Push pixels towards 0 and 1: p > 0, or inf.")
    ] = None,
    gamma: Annotated[
        list[str] | None, typer.Option(metavar="VALUE…", help="Raise pixels to a power: the exponents.")
    ] = None,
    scale: Annotated[
        list[str] | None, typer.Option(metavar="VALUE…", help="Reduce the contrast: factors in [0, 1].")
    ] = None,
    pca: Annotated[
        list[str] | None, typer.Option(metavar="VALUE…", help="Keep only these principal components, as 1-16,513-3072.")
    ] = None,
    binarize: Annotated[bool, typer.Option("--binarize", help="Pixels of 0 and 1.")] = False,
    edges: Annotated[bool, typer.Option("--edges", help="Canny edges, sigma 1.")] = False,
    chain: Annotated[
        list[str] | None, typer.Option(help="Several variants one after another: smooth:3+binarize.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The picture to write; NAME-variants.png by default.", callback=writable),
    ] = None,
    json: Json = None,
) -> None:
    """Draw a dataset's variants side by side, for example: radii variants mnist --smooth 2 5 8."""
    from radii import progress
    from radii.data import gallery, sources, variant_chain

    valued = {"smooth": smooth, "smooth2d": smooth2d, "saturate": saturate, "gamma": gamma, "scale": scale, "pca": pca}
    asked = [f"{name}:{value}" for name, values in valued.items() for value in values or ()]
    asked += ["binarize"] * binarize + ["edges"] * edges + list(chain or ())
    target = out or _default_picture(dataset)
    chains = ["+".join(str(variant_chain.parse(part)) for part in text.split("+")) for text in asked or USUAL]
    with progress.display(terminal.RichDisplay()):
        data = sources.load(dataset)
        rows = gallery.examples(data, chains)
    present = [name for label, name in enumerate(data.classes) if (data.train.y == label).any()]
    write_sealed(target, gallery.encode(gallery.draw(rows, present), target))
    table = [_described(text, images, rows[0][1]) for text, images in rows]
    terminal.write_json({"dataset": data.name, "out": str(target), "variants": table}, json)
    columns = ("variant", "mean pixel", "pixels at 0 or 1", "moved by (mean)", "moved by (largest)")
    cells = [(row["variant"], *(f"{value:.3f}" for value in list(row.values())[1:])) for row in table]
    terminal.show(json).print(terminal.table(listing(f"{data.name}: one image per class, in {target}", columns, cells)))


def _default_picture(dataset: str) -> Path:
    """NAME-variants.png in the current folder; it must be radii's own, if it exists."""
    from radii.data import variant_chain

    base, chain = variant_chain.split(dataset)
    place = Path(base).expanduser()
    name = "+".join([place.resolve().name if place.exists() else base.removeprefix("hf:"), *map(str, chain)])
    target = Path(f"{re.sub(r'[^A-Za-z0-9.-]+', '-', name)}-variants.png")
    check_default(target, "--out")
    return target


def _described(text: str, images: Any, original: Any) -> dict[str, Any]:
    change = abs(images - original)
    return {
        "variant": text,
        "mean": float(images.mean()),
        "extreme": float(((images == 0) | (images == 1)).mean()),
        "mean_change": float(change.mean()),
        "largest_change": float(change.max()),
    }
