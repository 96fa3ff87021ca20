"""The parts of a step's spec: data identified by content, and components by name with all arguments written out."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from radii.atomic import whole_file
from radii.data import sources
from radii.data.dataset import Data, Dataset, balanced_order
from radii.errors import InputError
from radii.registry import Registry
from radii.spec import Spec
from radii.threat import Ball


class DataSpec(Spec):
    """A dataset identified by its content: the digests of its splits.

    ``source`` says where the data is and is not hashed: the same images under
    another path are the same data.
    """

    unhashed: ClassVar[frozenset[str]] = frozenset({"source"})

    source: str
    train: str
    test: str

    @classmethod
    def of(cls, name: str) -> DataSpec:
        """The spec of a dataset as the user names it: ``mnist+smooth:3``."""
        train, test = sources.digest(name)
        return cls(source=name, train=train, test=test)

    @property
    def base(self) -> str:
        """The name without variants: ``mnist`` of ``mnist+smooth:3``."""
        return self.source.partition("+")[0]

    def load(self) -> Data:
        """The data.

        Raises:
            InputError: the content has changed since the spec was written.
        """
        if sources.digest(self.source) != (self.train, self.test):
            raise InputError(f"The dataset {self.source} has changed since this run was planned; plan it again.")
        return sources.load(self.source)


def data_spec(data: str | Data, folder: Path) -> DataSpec:
    """The spec of a dataset.

    Args:
        data: a name as on the command line, or a dataset in memory.
        folder: where a dataset in memory is written, so that other processes can load it.
    """
    return DataSpec.of(data) if isinstance(data, str) else save_data(data, folder)


def save_data(data: Data, folder: Path) -> DataSpec:
    """Write a dataset as an ``.npz`` file that is named by its content.

    Args:
        data: the dataset.
        folder: where the file goes.
    """
    content = hashlib.sha256(f"{data.train.digest} {data.test.digest}".encode()).hexdigest()[:12]
    path = folder / f"{re.sub(r'[^A-Za-z0-9._-]+', '-', data.name)}-{content}.npz"
    if not path.exists():
        with whole_file(path) as file:
            np.savez(
                file,
                x_train=data.train.x,
                y_train=data.train.y,
                x_test=data.test.x,
                y_test=data.test.y,
                classes=np.array(data.classes),
            )
    return DataSpec.of(str(path))


def ball_on(ball: Ball, data: Data) -> Ball:
    """``ball`` as it is on ``data``: without a box for features outside [0, 1], with the features that stay fixed."""
    fixed = () if data.train.rules is None else data.train.rules.fixed
    box = None if data.train.box is None else ball.box
    return Ball(ball.norm, ball.radius, box, fixed or ball.fixed)


def choose_rows(split: Dataset, points: int, seed: int) -> NDArray[np.int64]:
    """A class-balanced choice of rows, in rising order.

    Args:
        split: the points to choose from.
        points: how many; all if the split has fewer.
        seed: which ones.
    """
    return np.sort(balanced_order(split.y, seed)[:points])


class Component(Spec):
    """A model or method by name, with every argument written out."""

    name: str
    arguments: dict[str, Any] = {}

    @classmethod
    def of(cls, registry: Registry, name: str, arguments: dict[str, Any] | None = None) -> Component:
        """A component whose arguments are checked against its signature; defaults are added.

        Args:
            registry: the models or methods there are.
            name: a name of the registry, or an import path.
            arguments: those that differ from the defaults.

        Raises:
            InputError: the name or an argument is not known.
        """
        return cls(name=name, arguments=registry.arguments(name, arguments or {}))
