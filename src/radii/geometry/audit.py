"""Audit: what robustness the data itself allows, before anything is trained."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from radii.data.dataset import Data, Dataset
from radii.errors import InputError, checked, unknown_name
from radii.geometry import _dimension as dimension
from radii.geometry import _verdict as verdict
from radii.geometry import spectrum
from radii.geometry._astuteness import Astuteness, astuteness
from radii.geometry._dimension import Dimension, dimensions_of
from radii.geometry.interclass import InterclassDistance, interclass_distance
from radii.geometry.neighbor_curve import NeighborCurve, neighbor_curve
from radii.geometry.search import engine
from radii.geometry.search._l2_l1 import TILE
from radii.geometry.search.engine import Work
from radii.geometry.search.points import rows_at_a_time
from radii.geometry.separation import EqualInputs, Separation, contradictions, equal_inputs, separation
from radii.geometry.spectrum import Spectrum, principal_spectrum
from radii.geometry.volume import log_volume
from radii.tables import Field, Table, Tabular, format_radius, table
from radii.threat import Norm

CURVE_QUERIES = 2000
EPSILON: dict[str, float] = {"linf": 8 / 255, "l2": 36 / 255, "l1": 1.0}


@dataclass(frozen=True)
class DataShape:
    """How the data lies in its space. A field is None where the dataset is too small to measure it.

    Args:
        dimensions: estimates of the intrinsic dimension of the training points, in L2.
    """

    curve: NeighborCurve | None
    dimensions: tuple[Dimension, ...]
    interclass: InterclassDistance | None
    spectrum: Spectrum

    def summary(self) -> dict[str, Any]:
        """As plain JSON data."""
        return {
            "neighbor_curve": None if self.curve is None else _curve(self.curve),
            "intrinsic_dimension": [dimension.summary() for dimension in self.dimensions],
            "interclass_distance": None if self.interclass is None else self.interclass.mean,
            "components_for_variance": self.spectrum.summary(),
        }


@dataclass(frozen=True, repr=False)
class Audit(Tabular):
    """What the geometry of a labelled dataset says about robustness at ``epsilon`` in ``norm``.

    ``train`` separates the training points among themselves, ``test`` the test
    points from the training points. ``volume`` [n] is in bits, for the test
    points (the training points where there is no test set), Linf balls in the
    unit box; None for data outside the box.
    """

    name: str
    norm: Norm
    epsilon: float
    dimensions: int
    classes: tuple[str, ...]
    train: Separation
    test: Separation | None
    rule: Astuteness | None
    equal: tuple[EqualInputs, ...]
    volume: np.ndarray | None
    shape: DataShape | None = None

    def __repr__(self) -> str:
        return f"Audit({self.name}, {self.norm} {format_radius(self.epsilon)}: {self.verdict[0]})"

    def table(self) -> Table:
        """The separation of each split in a line, with the verdict as the note."""
        splits = {"train": self.train} | ({} if self.test is None else {"test": self.test})
        rows = [
            {
                "split": name,
                "points": len(own.distance),
                "least": own.minimum,
                "median": own.quantile(0.5),
                "possible": own.share_possible(self.epsilon),
            }
            for name, own in splits.items()
        ]
        fields: list[Field | str] = [
            "split",
            "points",
            Field("least", f"least {self.norm} distance to another class"),
            Field("median", "median distance"),
            Field("possible", f"share for which {format_radius(self.epsilon)} is possible", percent=True),
        ]
        return table(rows, fields, self.name, " ".join(self.verdict))

    @property
    def log10_samples(self) -> float | None:
        """log10 of the training points at which the nearest-neighbor rule would be proved right at ``epsilon``.

        It is right there where a point of the own class is nearer than every
        other class by 2 epsilon; the points needed for the mean neighbor to
        come that near are extrapolated from the curve.
        """
        if self.shape is None or self.shape.curve is None or self.test is None:
            return None
        room = self.test.minimum - 2 * self.epsilon
        return self.shape.curve.log10_samples(room).value if 0 < room < float("inf") else None

    @property
    def verdict(self) -> tuple[str, ...]:
        """The findings as sentences, the most important first."""
        first = self.train if self.test is None else self.test
        sentences = [verdict.separation_sentence(first, self.epsilon, "training" if self.test is None else "test")]
        if self.test is not None:
            sentences.append(verdict.separation_sentence(self.train, self.epsilon, "training"))
        tied = verdict.tie_sentence(self.train)
        if self.rule is not None:
            samples = None if tied else self.log10_samples  # neighbors at equal distances never come nearer
            sentences.append(verdict.rule_sentence(self.rule, self.epsilon, samples))
        sentences += filter(
            None, [tied, verdict.hub_sentence(self.train), verdict.noise_sentence(len(self.contradictory))]
        )
        return tuple(sentences)

    @property
    def contradictory(self) -> tuple[EqualInputs, ...]:
        """Equal training inputs with different labels."""
        return contradictions(self.equal)

    def summary(self) -> dict[str, Any]:
        """All figures as plain JSON data."""
        return {
            "name": self.name,
            "norm": self.norm,
            "epsilon": self.epsilon,
            "dimensions": self.dimensions,
            "classes": list(self.classes),
            "verdict": list(self.verdict),
            "train": _figures(self.train, self.epsilon),
            "test": None if self.test is None else _figures(self.test, self.epsilon),
            "nearest_neighbor_rule": None if self.rule is None else _rule(self.rule, self.epsilon),
            "equal_inputs": len(self.equal),
            "contradictory": [{"indices": g.indices, "labels": g.labels} for g in self.contradictory[:20]],
            "contradictory_count": len(self.contradictory),
            "log2_volume": None if self.volume is None else float(self.volume.mean()),
            "log2_volume_without_box": self.dimensions * float(np.log2(2 * self.epsilon)),
            "log10_samples": self.log10_samples,
            "shape": None if self.shape is None else self.shape.summary(),
        }


@checked
def audit(
    train: Data | Dataset | ArrayLike,
    test: Dataset | ArrayLike | None = None,
    *,
    norm: Norm = "linf",
    epsilon: float | None = None,
    scale: Sequence[float] = (),
    deep: bool = False,
    work: Work | None = None,
) -> Audit:
    """Measure a dataset: ``audit(data)``, ``audit(train, test)`` or ``audit(x, y)`` on arrays.

    Distances are exact and over all points.

    Args:
        train: both splits, the name of a dataset, the training split, an array of inputs [n, …], or a data frame.
        test: the test split, or the labels [n] if ``train`` is an array or a data frame, of which they may be a column.
        norm: norm of the perturbations: ``linf`` (default), ``l2`` or ``l1``.
        epsilon: the radius to judge, in units of the inputs (pixels in [0, 1]);
            default 8/255 in Linf, 36/255 in L2 and 1 in L1.
        scale: for each feature of a table the change that counts as 1; default: what stands beside the table, else 1.
            Features are divided by it in float32, which rounds distances by a 10^-7th of the features.
        deep: also measure the shape of the data: neighbor curve, intrinsic
            dimension, inter-class distance and spectrum; slower. Default False.
        work: the number of threads, and a folder from which a killed audit continues; default: all cores, no folder.

    Returns:
        Separations, the nearest-neighbor rule, equal inputs, volume and, if ``deep``, the shape of the data.

    Raises:
        InputError: an unknown norm, a radius that is not positive, or inputs
            and labels that do not fit together.
    """
    if norm not in EPSILON:
        raise unknown_name("norm", norm, EPSILON)
    train, test = splits(train, test)
    if epsilon is None:
        epsilon = EPSILON[norm]
    if not epsilon > 0:
        raise InputError(f"epsilon must be positive, got {epsilon:g} instead.")
    train, test = _in_scales(train, scale), None if test is None else _in_scales(test, scale)
    work, within = work or Work(), (train.x, train.y)
    fixed = () if train.rules is None else train.rules.fixed
    tested = rule = None
    if test is not None:
        tested = separation(test.x, test.y, within, norm=norm, work=work.part("test"))
        rule = astuteness(test.x, test.y, within, tested, work.part("test-same"))
        if fixed:  # the rule is proved without this restriction, what is possible is not
            tested = separation(test.x, test.y, within, norm=norm, fixed=fixed)
    shown = train if test is None else test
    return Audit(
        name=train.name,
        norm=norm,
        epsilon=epsilon,
        dimensions=int(np.prod(train.shape)),
        classes=train.classes,
        train=separation(train.x, train.y, norm=norm, work=work.part("train"), fixed=fixed),
        test=tested,
        rule=rule,
        equal=equal_inputs(train.x, train.y),
        volume=log_volume(shown.x, epsilon) if norm == "linf" and shown.box == (0.0, 1.0) else None,
        shape=_measure_shape(train, test, norm) if deep else None,
    )


def _in_scales(data: Dataset, scale: Sequence[float]) -> Dataset:
    """The features divided by their scales, for distances that count in them."""
    scale = scale or (() if data.rules is None else data.rules.scale)
    if not len(scale):
        return data
    return replace(data, x=(data.x / np.asarray(scale)).astype(np.float32), known_digest=None)


def _measure_shape(train: Dataset, test: Dataset | None, norm: Norm) -> DataShape:
    """Neighbor curve in ``norm``, intrinsic dimensions, inter-class distance and spectrum of ``train`` and ``test``."""
    few = len(train) < 100
    shown = train if test is None else test
    return DataShape(
        None if few or test is None else neighbor_curve(train.x, test.x[:CURVE_QUERIES], norm=norm),
        () if few else dimensions_of(train.x, {"mle": 10, "two-nn": 2}),
        interclass_distance(shown.x, shown.y) if len(np.unique(shown.y)) > 1 else None,
        principal_spectrum(train),
    )


def splits(first: Data | Dataset | ArrayLike, second: Dataset | ArrayLike | None) -> tuple[Dataset, Dataset | None]:
    """The train and test set that the ``first`` and ``second`` argument of :func:`audit` mean."""
    if isinstance(first, str):
        from radii.data.sources import load

        first = load(first)
    if hasattr(first, "iloc") and hasattr(first, "columns"):
        from radii.data.examples import of_frame  # loaded where it is asked for

        return of_frame(first, second), None
    if isinstance(first, Data):
        return first.train, first.test
    if isinstance(first, Dataset):
        if second is None or isinstance(second, Dataset):
            return first, second
        raise InputError(f"After a training Dataset comes a test Dataset, got {type(second).__name__} instead.")
    if second is None or isinstance(second, Dataset):
        raise InputError("Arrays need labels: audit(x, y).")
    return _from_arrays(first, second), None


def _from_arrays(x: ArrayLike, y: ArrayLike, name: str = "data") -> Dataset:
    """A Dataset called ``name`` of arrays: ``x`` of float64 becomes float32, ``y`` int64; words are numbered."""
    inputs, labels = np.asanyarray(x), np.asarray(y)
    words: tuple[str, ...] = ()
    if labels.dtype.kind in "OU":
        from radii.data.arrays import as_labels, words_of

        words = words_of(labels)
        labels = as_labels(labels, words or None).numpy()
    if inputs.dtype.kind == "f":
        inputs = inputs.astype(np.float32, copy=False)
    if inputs.ndim not in (2, 4) and inputs.ndim > 1:
        inputs = inputs.reshape(len(inputs), -1)
    if labels.dtype.kind not in "iu":
        raise InputError(f"Labels must be whole numbers, got {labels.dtype} instead.")
    names = words or tuple(str(label) for label in range(int(labels.max(initial=0)) + 1))
    return Dataset(inputs, labels.astype(np.int64), names, name)


def _figures(separated: Separation, epsilon: float) -> dict[str, Any]:
    return separated.summary() | {"share_possible": separated.share_possible(epsilon)}


def _curve(curve: NeighborCurve) -> dict[str, Any]:
    return {
        "norm": curve.norm,
        "rows": curve.rows(),
        "dimension": vars(curve.dimension),
        "dimension_linear": vars(curve.dimension_linear),
    }


def _rule(rule: Astuteness, epsilon: float) -> dict[str, float]:
    return {"accuracy": rule.accuracy, "astuteness": rule.astuteness(epsilon)}


PROCESS = 500_000_000  # Python, torch, numba and their libraries
BLOCK, SAMPLE = 1 << 26, 1 << 27  # coordinates of one block of queries, and of the rows from which a search is planned


@dataclass(frozen=True)
class AuditSize:
    """The size of a dataset.

    Args:
        itemsize: bytes of a coordinate: 1 for pixels, 4 for features.
    """

    train: int
    test: int
    dimensions: int
    itemsize: int = 1

    @property
    def data(self) -> int:
        """Bytes of both splits."""
        return (self.train + self.test) * self.dimensions * self.itemsize


def _working_bytes(size: AuditSize, workers: int | None = None) -> dict[str, int]:
    """Bytes that each phase of an audit needs beside the data.

    Every phase works on blocks of bounded size, so the working set grows with the number of points only where a line
    below says so. Decoded images are mapped from disk: the system may drop them, but they count in the process's peak.

    Args:
        workers: threads; default: all cores.
    """
    n, d, item = size.train, size.dimensions, size.itemsize
    rows = rows_at_a_time(d, engine.BLOCK, BLOCK)
    threads = min(workers or os.cpu_count() or 1, -(-max(n, size.test) // rows))
    block, sample = rows * d * item, min(SAMPLE, 2048 * d)
    search = 2 * sample * item + sample + threads * (2 * block + 100_000_000) + 300 * n
    drawn = min(5000, n, max(dimension.FEWEST, int(dimension.MOST_PRODUCTS / (n * d))))
    if d <= spectrum.MOST_COORDINATES:
        principal = 4 * 8 * d * d
    elif n <= spectrum.MOST_POINTS and n * n * d <= spectrum.MOST_PRODUCTS:
        principal = 3 * 8 * n * n
    else:
        principal = 5 * 4 * d * (spectrum.LEADING + spectrum.OVERSAMPLED)
    return {
        "neighbors": search,
        "neighbor curve": search + int(0.6 * n) * d * item,
        "intrinsic dimension": search + drawn * d * item,
        "inter-class distance": 4 * 512 * size.test * 4 + 6 * 8 * 512 * TILE,
        "spectrum": principal + 6 * 4 * BLOCK // 4,
    }


def planned_bytes(size: AuditSize, workers: int | None = None) -> int:
    """Bytes of the whole process at its peak; ``size`` and ``workers`` as in :func:`_working_bytes`."""
    return PROCESS + size.data + max(_working_bytes(size, workers).values())
