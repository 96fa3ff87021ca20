"""Whether the networks of a plan can be built for its data, known before anything is computed."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from radii.data import sources
from radii.data.variant_chain import SHAPING
from radii.errors import InputError
from radii.models.io.bundle import Architecture
from radii.runs.step import Step
from radii.runs.steps import Train


def check_networks(steps: Iterable[Step]) -> None:
    """Refuse networks that do not fit their data, such as a width below what the inputs need.

    Networks are built without memory for their weights. Those of a user's own code are not built, nor are those for
    data that is not on this machine.

    Args:
        steps: of a plan.

    Raises:
        InputError: one of its networks cannot be built.
    """
    trainings = [step for step in steps if isinstance(step, Train) and ":" not in step.model.name]
    distinct = {(_shaped(step.data.source), str(step.model.canonical())): step for step in trainings}
    for (source, _), step in distinct.items():
        try:
            with sources.only_local():
                data = sources.load(source)
        except InputError:
            continue
        network = Architecture(
            name=step.model.name, arguments=step.model.arguments, input_shape=data.shape, classes=data.classes
        )
        try:
            with torch.device("meta"):
                network.build()
        except InputError as refusal:
            raise InputError(f"{step.model.name} cannot be built for {step.data.source}: {refusal}") from refusal
        except (NotImplementedError, RuntimeError):  # a start that must compute with its weights
            continue


def _shaped(source: str) -> str:
    """The dataset with those of its variants that change the shape of the images; others cost more and tell nothing."""
    base, *variants = source.split("+")
    return "+".join([base, *(variant for variant in variants if variant.partition(":")[0] in SHAPING)])
