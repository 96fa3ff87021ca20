"""Why a model is right so seldom: it expects inputs in another scale, or has its classes in another order.

Each cause is tried: the same points are given in other scales, and classes are paired with labels on half of the
points and counted on the other half. A cause is named if the 99.9% intervals of both counts do not overlap.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn

from radii.confidence_interval import clopper_pearson
from radii.errors import InputError
from radii.models.classifier import predict
from radii.models.io import NORMALIZATIONS
from radii.tables import listed

SMALL = 64  # pixels of the longer side up to which the numbers of CIFAR are tried
MOST = 512  # points that are tried
SURE = 0.999
LEVELS = "pixels in 0..255"
FORGIVEN = 0.03  # a network of ReLUs hardly notices inputs that are too large, so a normalization is likelier at a tie


@dataclass(frozen=True)
class Cause:
    """What was tried, and how many points are right then.

    Attributes:
        kind: ``scale`` or ``order``.
        what: what the model expects, as the end of "The model expects …".
        remedy: what to do, as a sentence.
        right: so many of ``points`` are right with it.
        given: so many of ``points`` are right without it.
    """

    kind: str
    what: str
    remedy: str
    right: int
    given: int
    points: int

    @property
    def is_sure(self) -> bool:
        """Whether the difference is no chance."""
        low, _ = clopper_pearson(self.right, self.points, SURE)
        return low > clopper_pearson(self.given, self.points, SURE)[1]

    def __str__(self) -> str:
        return (
            f"With {self.what} {self.right} of {self.points} points are right, instead of {self.given}. {self.remedy}"
        )


def likely_cause(model: nn.Module, x: Tensor, y: Tensor) -> Cause | None:
    """The cause that explains most, or None.

    Args:
        x: inputs [n, …] as the model gets them.
        y: labels [n].
    """
    x, y = x[:MOST], y[:MOST]
    given = predict(model, x)
    sure = [cause for cause in (*_scales(model, x, y, given), *_orders(given, y)) if cause.is_sure]
    best = max(sure, key=lambda cause: cause.right / cause.points - FORGIVEN * (cause.what == LEVELS), default=None)
    if best is None or best.kind != "scale":
        return best
    like = [cause.what for cause in sure if (cause.kind, cause.right) == ("scale", best.right) and cause is not best]
    return replace(best, what=f"{best.what} (or {listed(like, 'or')})") if like else best


def _scales(model: nn.Module, x: Tensor, y: Tensor, given: Tensor) -> Iterator[Cause]:
    for what, remedy, other in _candidates(x):
        try:
            prediction = predict(model, other)
        except InputError:  # of another scale it may refuse inputs
            continue
        yield Cause("scale", what, remedy, int((prediction == y).sum()), int((given == y).sum()), len(y))


def _candidates(x: Tensor) -> Iterator[tuple[str, str, Tensor]]:
    """What the model may expect, what to do then, and the inputs in that form."""
    if x.dim() == 2:
        spread = x.std(0)
        remedy = "Put the scaler and the model into one Pipeline, or into one function of the raw features."
        yield "standardized features", remedy, (x - x.mean(0)) / torch.where(spread > 0, spread, 1.0)
    if x.dim() != 4:
        return
    scaled = "Put the factor inside: radii.Classifier(net, std=1 / 255) or lambda x: model(255 * x); --std 1/255."
    yield LEVELS, scaled, x * 255
    for name, (mean, std) in {**NORMALIZATIONS, "0.5": ((0.5,), (0.5,))}.items():
        small = name.startswith("cifar") and max(x.shape[-2:]) > SMALL
        if len(mean) not in (1, x.shape[1]) or small:
            continue
        words = f"--mean {name}" + (" --std 0.5" if name == "0.5" else "")
        numbers = f"mean={mean if len(mean) > 1 else mean[0]}, std={std if len(std) > 1 else std[0]}"
        centers, widths = (torch.tensor(values).view(1, -1, 1, 1).to(x) for values in (mean, std))
        yield f"the normalization {words}", f"In Python: radii.Classifier(net, {numbers}).", (x - centers) / widths
    if x.shape[1] == 3:
        yield "channels in the order blue, green, red", "Turn them inside: lambda x: model(x.flip(1)).", x.flip(1)


def _orders(given: Tensor, y: Tensor) -> Iterator[Cause]:
    """Classes in another order: paired on the points of even number, counted on the others."""
    classes = int(torch.maximum(given.max(), y.max())) + 1
    if len(y) < 4 * classes or bool((given < 0).any()):
        return
    table = torch.zeros(classes, classes, dtype=torch.int64)
    table.index_put_((given[::2].cpu(), y[::2].cpu()), torch.ones(len(y[::2]), dtype=torch.int64), accumulate=True)
    order = torch.from_numpy(linear_sum_assignment(-table.numpy())[1])
    said, label = given[1::2].cpu(), y[1::2].cpu()
    moved = [f"its class {k} is {int(order[k])} of the data" for k in range(classes) if int(order[k]) != k]
    if not moved:
        return
    shown = ", ".join(moved[:3]) + (", …" if len(moved) > 3 else "")
    yield Cause(
        "order",
        f"the model's classes in another order ({shown})",
        "Sort the class names as the model's training did, or put its outputs into the order of the data's classes.",
        int((order[said] == label).sum()),
        int((said == label).sum()),
        len(label),
    )
