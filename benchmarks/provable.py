"""What bounds prove of small ConvNets on binarized MNIST at Linf 0.3, and what accounting for rounding costs.

Subjects: the ConvNet of Wong & Kolter trained by interval bounds (recipe
``wong-kolter-bmnist``, budget ``cpu``); the same architecture with a given,
clipping first layer (``clipping-bmnist``); the same behind a threshold; and
interval bounds on the original MNIST. Trained runs are looked up in
``$RADII_RUNS``; the command that trains a missing one is told, because the
trainings by bounds take many minutes. ``--quick`` trains a clipping network for
one epoch and looks at 500 images.

Errors are shares of all 10,000 test images. ``proved`` is the cascade of
intervals, then CROWN-IBP, CROWN and alpha-CROWN on what is open (CROWN-IBP
alone on the original MNIST); ``broken`` is what PGD-40 finds among the
unproved, so the truth lies between the two.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from harness import Figure, cpu_seconds, figure, main
from radii.attacks.pgd import PGD
from radii.bounds.provably_robust import Bounded
from radii.certificates.methods import METHODS
from radii.data.sources import load
from radii.models.classifier import predict
from radii.models.io.bundle import load_bundle
from radii.models.zoo.convnets import ClippingConvNet
from radii.networks.calling import frozen
from radii.runs.planning import data_spec, train_step
from radii.runs.steps import Train
from radii.runs.store import Store
from radii.threat import Ball
from radii.training.recipes import deep_merge, plan

BALL = Ball("linf", 0.3)
CROWN_IMAGES = 20  # of Wong & Kolter's form of the clipping network: CROWN takes seconds for each


@dataclass(frozen=True)
class Subject:
    """A training by recipe, and the errors to reach."""

    name: str
    data: str
    recipe: str
    model: str | None = None
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    goals: tuple[float | None, float | None] = (None, None)  # proved robust error, clean error
    cascade: str = "alpha-crown"  # the last of the methods tried on what is open

    @property
    def command(self) -> str:
        """What trains it."""
        model = f" --model {self.model}" if self.model else ""
        rest = "".join(
            f" {part}.{key}={value}" for part, given in self.settings.items() for key, value in given.items()
        )
        return f"radii train {self.data} --recipe {self.recipe} --budget cpu{model}{rest}"

    def step(self, store: Store, **more: Any) -> Train:
        """The training as a step of the store, with ``more`` settings."""
        made = plan(self.recipe, "cpu", self.model)
        settings = deep_merge(made.settings, self.settings | more)
        return train_step(data_spec(self.data, store), made.model, made.method, settings, made.preprocessing)


SUBJECTS = (
    Subject("Wong & Kolter's ConvNet, interval bounds", "mnist+binarize", "wong-kolter-bmnist", goals=(0.03, 0.024)),
    Subject("clipping first layer, natural", "mnist+binarize", "clipping-bmnist", goals=(0.03, 0.024)),
    Subject("behind a threshold, natural", "mnist+binarize", "clipping-bmnist", "threshold-convnet"),
    Subject(
        "original MNIST, interval bounds",
        "mnist",
        "wong-kolter-bmnist",
        settings={"model": {"start": "random"}, "method": {"ramp": 0.5}},
        cascade="crown-ibp",  # hundreds are open, and CROWN takes seconds for each
    ),
)


def broken(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Which right answers PGD-40 breaks: [n] bool; none where a threshold hides the gradient."""
    with frozen(model):
        slope = model(x[:1].clone().requires_grad_()).requires_grad
    if not slope or len(x) == 0:
        return torch.zeros(len(x), dtype=torch.bool)
    return PGD(40, 0.1)(model, x, y, BALL, torch.Generator().manual_seed(0)).broken


def judged(subject: Subject, model: nn.Module, x: Tensor, y: Tensor) -> list[Figure]:
    """Clean error, errors that intervals and the cascade prove, what is broken, and the part of rounding."""
    label = predict(model, x)
    right = label == y
    sound, bare = Bounded(model, tuple(x.shape[1:])), Bounded(model, tuple(x.shape[1:]), rounding=False)
    made: dict[str, Tensor] = {}
    seconds = {
        name: cpu_seconds(lambda b=b, name=name: made.update({name: b.proves(x, label, BALL, ("ibp",))}))
        for name, b in (("sound", sound), ("bare", bare))
    }
    proved = made["sound"].clone()
    open_ = torch.nonzero(right & ~proved)[:, 0]
    proved[open_] = sound.proves(x[open_], label[open_], BALL, METHODS[subject.cascade].attempts)
    left = torch.nonzero(right & ~proved)[:, 0]
    lost = int(broken(model, x[left], y[left]).sum())
    goal_proved, goal_clean = subject.goals
    share = 1 / len(x)
    return [
        figure(f"{subject.name}: clean error", float((~right).sum()) * share, goal_clean),
        figure(f"{subject.name}: error proved by intervals", float((~(right & made["sound"])).sum()) * share),
        figure(f"{subject.name}: error proved by the cascade", float((~(right & proved)).sum()) * share, goal_proved),
        figure(f"{subject.name}: error at least (PGD-40)", (float((~right).sum()) + lost) * share),
        figure(f"{subject.name}: verdicts changed by rounding", float((made["sound"] != made["bare"]).sum())),
        figure(f"{subject.name}: bounds with rounding over without, CPU time", seconds["sound"] / seconds["bare"]),
    ]


def as_wong_kolter(model: nn.Module, x: Tensor) -> list[Figure]:
    """The clipping network written as Wong & Kolter's: the same answers, and CROWN proves it there too."""
    inner = next(part for part in model.modules() if isinstance(part, ClippingConvNet))
    net = inner.as_wong_kolter().eval()
    few = x[:CROWN_IMAGES]
    held = Bounded(net, tuple(x.shape[1:])).proves(few, predict(net, few), BALL, METHODS["crown"].attempts)
    same = (predict(net, x) == predict(model, x)).double().mean()
    return [
        figure("the clipping network as Wong & Kolter's: same answers", float(same), 1.0, at_most=False),
        figure("the clipping network as Wong & Kolter's: proved by CROWN, of 20", float(held.sum())),
    ]


def run(quick: bool) -> list[Figure]:
    """All subjects whose trainings exist; quick: one that is trained now."""
    store, figures = Store.default(), []
    for subject in SUBJECTS[1:2] if quick else SUBJECTS:
        step = subject.step(store, epochs=1) if quick else subject.step(store)
        if not quick and not store.is_done(step):
            print(f"not trained: {subject.command}", file=sys.stderr)
            continue
        model = load_bundle(store.ensure(step).folder)[0]
        x, y = load(subject.data).test.tensors(slice(0, None, 20 if quick else 1))
        figures += judged(subject, model, x, y)
        if subject.recipe == "clipping-bmnist" and subject.model is None:
            figures += as_wong_kolter(model, x)
    return figures


if __name__ == "__main__":
    main(run)
