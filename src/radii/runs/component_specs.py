"""The parts of a step's spec: data identified by content, and components by name with all arguments written out."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from radii.change import Change
from radii.data import sources
from radii.data.dataset import Data, Dataset, balanced_order
from radii.errors import InputError, reason
from radii.files import sha256, whole_file
from radii.registry import Registry
from radii.sparse import Sparse, with_ranges
from radii.spec import Spec
from radii.threat import Ball
from radii.untrusted_text import check_file

UNLIKE = 10.0  # spreads of columns that differ by a larger factor are taken for different units


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


def threat_on(threat: Ball | Change, data: Data) -> Ball | Change:
    """``threat`` as it is on ``data``; a change needs images."""
    if isinstance(threat, Ball):
        return ball_on(threat, data)
    if data.train.box is None:
        raise InputError(f"The change {threat} needs inputs in [0, 1]; {data.name} has features in units of their own.")
    return threat


def attack_threat_on(threat: Ball | Change | Sparse, data: Data) -> Ball | Change | Sparse:
    """``threat`` as it is on ``data``; a feature of a table without a limit stays in its training column's range."""
    if not isinstance(threat, Sparse):
        return threat_on(threat, data)
    if data.train.is_image:
        return threat
    rules, box = data.train.rules, None if data.train.box is None else threat.box
    own = threat.changed(box=box) if rules is None else threat.changed(box=box, fixed=rules.fixed, limits=rules.limits)
    if groups := own.limits.groups:  # categories stay
        fixed = sorted({*own.fixed, *(feature for group in groups for feature in group)})
        own = own.changed(fixed=tuple(fixed), limits=own.limits.model_copy(update={"groups": ()}))
    return own if box is not None else with_ranges(own, data.train.x.min(0).tolist(), data.train.x.max(0).tolist())


def ball_on(ball: Ball, data: Data) -> Ball:
    """``ball`` as it is on ``data``: in units of the table, with the features that stay fixed and their limits.

    Features outside [0, 1] have no box. A radius ``sd`` counts standard deviations of the training columns; other
    radii count in the scale beside the table. A column without spread stays fixed where it would be the unit.

    Raises:
        InputError: a bare radius on features of different units.
    """
    if data.train.is_image:
        if ball.unit:
            raise InputError(f"{ball} is for columns of a table, and {data.name} has images: write {ball.norm}:8/255.")
        ball.check_room(int(np.prod(data.shape)))
        return ball
    fixed, scale, limits = ball.fixed, ball.scale, ball.limits
    if (rules := data.train.rules) is not None:
        fixed, scale = rules.fixed or fixed, scale or rules.scale
        limits = limits if rules.limits.all_allowed else rules.limits
    if ball.unit and not ball.scale:
        spread = data.train.x.std(0, dtype=np.float64)
        spread[[feature for group in limits.groups for feature in group]] = 1.0  # a category counts 1
        fixed = tuple(sorted({*fixed, *np.flatnonzero(spread == 0).tolist()}))
        scale = tuple(np.where(spread == 0, 1.0, spread).tolist())
    box = None if data.train.box is None else ball.box
    _check_units(own := ball.changed(box=box, fixed=fixed, scale=scale, limits=limits), data)
    return own


def extreme_spreads(data: Data, fixed: Sequence[int] = ()) -> tuple[int, int] | None:
    """The columns of the least and the greatest standard deviation, where one number cannot be the radius of both.

    That is where they differ by more than a factor of 10, some values leave [0, 1], and nothing beside the table says
    what counts as 1. Columns ``fixed`` or without spread do not count.
    """
    if data.train.is_image or data.train.box is not None or (data.train.rules is not None and data.train.rules.scale):
        return None
    spread = data.train.x.std(0, dtype=np.float64)
    spread[list(fixed)] = 0
    moving = np.flatnonzero(spread > 0)
    if not len(moving) or spread.max() <= UNLIKE * spread[moving].min():
        return None
    return int(moving[spread[moving].argmin()]), int(spread.argmax())


def _check_units(ball: Ball, data: Data) -> None:
    """Question a bare radius on columns whose spreads are far apart: it is hardly the same change in each."""
    still = [*ball.fixed, *(feature for group in ball.limits.groups for feature in group)]
    extremes = None if ball.scale or ball.radius == 0 else extreme_spreads(data, still)
    if extremes is None:
        return
    spread = data.train.x.std(0, dtype=np.float64)
    rules = data.train.rules
    names = [f"feature {number}" for number in range(len(spread))] if rules is None else rules.names
    shown = " and ".join(f"{names[n]} has a standard deviation of {spread[n]:.3g}" for n in extremes)
    asked = ball.changed(box=(0.0, 1.0))
    raise InputError(
        f"{asked} is one number for columns of different units of {data.name} ({shown}): write {ball.norm}:0.1sd for a "
        "tenth of each column's standard deviation, or each column's unit in a [scale] table in the TOML beside it."
    )


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
