"""A grid of attacked networks: variants of a dataset, widths, sizes of the training set and methods, at one budget.

One page of settings is what a study of Ding et al. 2019 differs in from the next; the
cells, and so the trainings that several studies share, come from here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from radii.budget import Budget
from radii.papers.catalog.attacked_variants import METHODS, PGD, AttackPoints, title
from radii.runs.inputs import DataSpec
from radii.runs.planning import named_training
from radii.runs.steps import Train
from radii.studies.study import Cell, Place
from radii.training.recipes import Settings, laid_over

ALL = 0  # a size: all training points


@dataclass(frozen=True)
class AttackedGrid:
    """What a budget trains and attacks.

    Args:
        data: name of the dataset.
        recipe: the paper's recipe for it.
        scale: the budget at which the recipe is taken.
        attacks: what is measured of PGD-trained networks.
        variants: the variants for each width (the argument ``widen`` of the network).
        settings: laid over the recipe's; ``method`` belongs to PGD training.
        sizes: numbers of training points, nested; :data:`ALL` for all.
        methods: titles of :data:`~radii.papers.catalog.attacked_variants.METHODS`.
    """

    data: str
    recipe: str
    scale: Budget
    attacks: AttackPoints
    variants: Mapping[float, Sequence[str]]
    settings: Settings = field(default_factory=dict)
    sizes: tuple[int, ...] = ()
    methods: tuple[str, ...] = tuple(METHODS)

    def cells(self) -> tuple[Cell, ...]:
        """Every training and its measurements; ``n`` is a coordinate only where sizes vary."""
        planned: list[Cell] = []
        for width, variants in self.variants.items():
            for variant, size, method in product(variants, self.sizes or (ALL,), self.methods):
                parts = (self.data, variant, f"subset:{size}" if size else "")
                data = DataSpec.of("+".join(part for part in parts if part))
                place: Place = {"data": self.data, "variant": title(variant), "width": width, "method": method}
                if self.sizes:
                    place = {**place, "n": size or "all"}
                planned += self.attacks.cells(self.training(data, width, method), place)
        return tuple(planned)

    def training(self, data: DataSpec, width: float, method: str) -> Train:
        """One of its trainings.

        Args:
            data: the dataset with its variant.
            width: factor of the number of channels.
            method: ``standard`` or ``PGD``.

        Returns:
            The training step.
        """
        own = {key: value for key, value in self.settings.items() if key != "method" or method == PGD}
        settings = laid_over(own, {"test_every": 0, "model": {"widen": width}})
        return named_training(data, method=METHODS[method], recipe=self.recipe, budget=self.scale, settings=settings)


def grid_cells(grids: Iterable[AttackedGrid], variants: Sequence[str] = ()) -> tuple[Cell, ...]:
    """The cells of several grids.

    Args:
        grids: the grids of a study at one budget.
        variants: the order of the table; default: grid after grid.

    Returns:
        All cells; those of a variant are in the order of the grids.
    """
    cells = [cell for grid in grids for cell in grid.cells()]
    order = [title(variant) for variant in variants]
    return tuple(sorted(cells, key=lambda cell: order.index(str(cell.place["variant"]))) if order else cells)
