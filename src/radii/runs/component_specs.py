"""The parts of a step's spec: data identified by content, and components by name with all arguments written out."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from radii.data import sources
from radii.data.dataset import Data, Dataset, balanced_order
from radii.errors import InputError, reason
from radii.files import sha256, whole_file
from radii.registry import Registry
from radii.spec import Spec
from radii.untrusted_text import check_file


class DataSpec(Spec):
    """A dataset identified by its content: the digests of its splits.

    ``source`` says where the data is and is not hashed: the same images under
    another path are the same data.
    """

    exclude_from_hash: ClassVar[frozenset[str]] = frozenset({"source"})

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

    @property
    def is_decoded(self) -> bool:
        """Whether the content is known; else this spec was made where nothing may be decoded, and has no run."""
        return not self.train.startswith(sources.UNDECODED)

    def load(self) -> Data:
        """The data."""
        if sources.digest(self.source) != (self.train, self.test):
            raise InputError(f"The dataset {self.source} has changed since this run was planned; plan it again.")
        return sources.load(self.source)


class FileSpec(Spec):
    """A file that a user names, identified by its content; ``path`` says where it is and is not hashed."""

    exclude_from_hash: ClassVar[frozenset[str]] = frozenset({"path"})

    path: str
    sha256: str

    @classmethod
    def of(cls, path: Path) -> Self:
        """The file at ``path``."""
        return cls(path=str(path), sha256=cls.digest(path))

    @classmethod
    def digest(cls, path: Path) -> str:
        """The digest of the content."""
        check_file(path)
        try:
            return sha256(path)
        except OSError as error:
            raise InputError(f"{path} cannot be read: {reason(error)}.") from error

    def unchanged(self) -> Path:
        """Where it is, with the content that was named."""
        path = Path(self.path)
        if self.digest(path) != self.sha256:
            raise InputError(f"{path} has changed since this run was planned; give the command again.")
        return path


def data_spec(data: str | Data, folder: Path) -> DataSpec:
    """The spec of a dataset."""
    return DataSpec.of(data) if isinstance(data, str) else _save_data(data, folder)


def _save_data(data: Data, folder: Path) -> DataSpec:
    """Write a dataset as an ``.npz`` file that is named by its content."""
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


def choose_rows(split: Dataset, points: int, seed: int) -> NDArray[np.int64]:
    """A class-balanced choice of rows, in rising order.

    Args:
        points: how many; all if the split has fewer.
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
            arguments: those that differ from the defaults.
        """
        return cls(name=name, arguments=registry.arguments(name, arguments or {}))
