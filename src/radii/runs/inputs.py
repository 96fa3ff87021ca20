"""What steps are made of: data by content, and components by name with all arguments written out."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from radii.atomic import whole_file
from radii.data import sources
from radii.data.dataset import Data
from radii.errors import InputError
from radii.registry import Registry
from radii.spec import Spec


class DataSpec(Spec):
    """A dataset by what it contains: the digests of its splits.

    ``source`` says where to find it and is not hashed: the same images under
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

    def load(self) -> Data:
        """The data, if it is still what the digests say."""
        if sources.digest(self.source) != (self.train, self.test):
            raise InputError(f"The dataset {self.source} has changed since this run was planned; plan it again.")
        return sources.load(self.source)


def keep(data: Data, folder: Path) -> DataSpec:
    """Write in-memory data where other processes can load it; the file is named by its content."""
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


class Component(Spec):
    """A model, method or attack by name, with every argument written out."""

    name: str
    arguments: dict[str, Any] = {}

    @classmethod
    def of(cls, registry: Registry, name: str, given: dict[str, Any] | None = None) -> Component:
        """``name`` of ``registry`` with ``given`` arguments checked and defaults added."""
        return cls(name=name, arguments=registry.arguments(name, given or {}))
