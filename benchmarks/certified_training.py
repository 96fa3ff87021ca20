"""Certified accuracy per core-minute: the recipe ``certified`` at its budgets, and our other 1-Lipschitz networks.

Accuracies are shares of all 10,000 test images that are classified correctly
and proved at the radius, float32 rounding included: L2 by margins with every norm proved, Linf by the strongest
proof within 20,000 forward passes for each image that no attack breaks (``radii.certify``'s ``auto``, then complete
verification). The clock is CPU time of the training on one thread. The recipe was chosen on held-out training images
(docs/notes/certified-training.md).

Trainings are steps of the run store: found in ``$RADII_RUNS`` if they are done,
continued if they were killed. ``minute`` trains for about a core-minute,
``twenty`` for twenty, ``night`` for up to two hours, ``linf`` for half a minute and for nine;
``prototypes`` judges 300 points for each digit and proves them in the box.
``peers`` gives the convolutional networks, ours and orthogonium's, the CPU time of ``minute``. ``--quick`` measures the
first figure alone, in about three minutes.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from harness import Figure, cpu_seconds, figure, main
from radii.attacks.by_name import attack
from radii.budget import Budget
from radii.certificates import prototype_faces
from radii.certificates.choose import choose
from radii.certificates.lipschitz import certify
from radii.data.dataset import statistics
from radii.data.sources import load
from radii.models.classifier import predict
from radii.models.io.bundle import Architecture, initialize, load_bundle
from radii.models.lipschitz.network_bound import lipschitz_bound
from radii.runs.planning import data_spec, train_step
from radii.runs.steps import Train
from radii.runs.store import Store
from radii.threat import Ball
from radii.training.certified_recipe import certified_plan
from radii.training.loop import train
from radii.training.objectives import METHODS
from radii.training.objectives.cross_entropies import OffsetCrossEntropy
from radii.training.recipes import deep_merge, plan

RADII = {"36/255": 36 / 255, "72/255": 72 / 255, "108/255": 108 / 255, "1": 1.0, "1.58": 1.58}
PEERS = ("aol", "cpl", "sll", "liresnet")
CLOCK_STEPS = 20
PROTOTYPES: dict[str, Any] = {
    "steps": 3000, "batch_size": 1000, "test_every": 0, "augmentation": {"affine": 0.05},
    "optimizer": {"kind": "adam", "schedule": "linear", "lr": 0.01},
    "model": {"count": 300}, "method": {"box": False},
}  # fmt: skip


@dataclass(frozen=True)
class Subject:
    """A dataset, the threat to train for, and the certified accuracy to reach within so many core-minutes."""

    data: str
    threat: str
    budget: Budget
    minutes: float
    goal: float | None

    @property
    def name(self) -> str:
        """``cifar10 at l2:36/255, budget smoke``."""
        return f"{self.data} at {self.threat}, budget {self.budget}"

    def step(self, store: Store) -> Train:
        """The training as a step of the store."""
        recipe = certified_plan(load(self.data).train, Ball.parse(self.threat), self.budget)
        spec = data_spec(self.data, store)
        return train_step(spec, recipe.model, recipe.method, recipe.settings, recipe.preprocessing)


MINUTE = (
    Subject("cifar10", "l2:36/255", "smoke", 1, 0.49),
    Subject("mnist", "l2:1", "smoke", 1, 0.83),
    Subject("fashion-mnist", "l2:36/255", "smoke", 1, None),
)
TWENTY = (
    Subject("cifar10", "l2:36/255", "cpu", 20, 0.55),
    Subject("cifar10", "l2:108/255", "cpu", 20, 0.36),
    Subject("mnist", "l2:1.58", "cpu", 20, 0.66),
)
NIGHT = (
    Subject("cifar10", "l2:36/255", "night", 120, 0.60),
    Subject("cifar10", "linf:8/255", "night", 120, 0.28),
    Subject("cifar10", "linf:2/255", "night", 120, 0.45),
    Subject("mnist", "linf:0.3", "night", 120, 0.92),
    Subject("mnist", "linf:0.1", "night", 120, 0.975),
)
LINF = (  # their goals are those of NIGHT: within an hour on two cores
    Subject("mnist", "linf:0.1", "smoke", 1, None),
    Subject("mnist", "linf:0.3", "smoke", 1, None),
    Subject("mnist", "linf:0.1", "cpu", 20, None),
    Subject("mnist", "linf:0.3", "cpu", 20, None),
    Subject("cifar10", "linf:2/255", "smoke", 1, None),
    Subject("cifar10", "linf:8/255", "smoke", 1, None),
    Subject("cifar10", "linf:2/255", "cpu", 20, None),
    Subject("cifar10", "linf:8/255", "cpu", 20, None),
)


def seconds_per_step(step: Train) -> float:
    """CPU seconds of one training step of ``step``, over a few of them after a few that warm up."""
    data = step.data.load()
    mean, std = statistics(data.train.subset(2000), step.preprocessing)
    card = Architecture(
        name=step.model.name,
        arguments=step.model.arguments,
        input_shape=data.shape,
        classes=data.classes,
        mean=mean,
        std=std,
    )
    objective = METHODS.factory(step.method.name)(**step.method.arguments)

    def run(steps: int) -> None:
        settings = {"steps": steps, "test_every": 0}
        train(initialize(card, 0), data.train, objective, step.recipe.model_copy(update=settings))

    run(3)
    return (cpu_seconds(lambda: run(3 + CLOCK_STEPS)) - cpu_seconds(lambda: run(3))) / CLOCK_STEPS


def proved(step: Train, store: Store, ball: Ball) -> dict[str, float]:
    """Certified accuracy by threat on all test images, and clean accuracy at 0; L2 at every radius of ``RADII``."""
    model = load_bundle(store.ensure(step).folder)[0]
    data = step.data.load()
    x, y = data.test.tensors()
    if ball.norm == "linf":
        right = predict(model, x) == y
        return {"0": float(right.double().mean()), str(ball): proved_in_linf(model, x[right], y[right], ball) / len(x)}
    bound = lipschitz_bound(model, data.shape)
    if not bound.is_proved:
        print("a norm was bounded by the looser fallback", file=sys.stderr)
    certificate = certify(model, x, bound)
    right = certificate.prediction == y
    radii = {"0": 0.0} | {f"l2:{name}": radius for name, radius in RADII.items()}
    return {name: float((right & (certificate.radius >= r)).double().mean()) for name, r in radii.items()}


def proved_in_linf(model: nn.Module, x: Tensor, y: Tensor, ball: Ball) -> int:
    """How many of the inputs are proved: by intervals, then by dearer methods where an attack finds nothing."""

    def holds(rows: Tensor, last: Literal["ibp", "complete"]) -> Tensor:
        certificate = choose(model, x[rows], ball, last=last).certificate
        assert certificate is not None
        covered = certificate.covers(ball.radius)
        methods = Counter(certificate.methods[row] for row in covered.nonzero().flatten().tolist())
        print(f"images by the method that proved them: {dict(methods)}", file=sys.stderr)
        return rows[covered]

    cheap = holds(torch.arange(len(x)), "ibp")
    left = torch.ones(len(x), dtype=torch.bool).index_fill(0, cheap, False).nonzero().flatten()
    if len(left):
        left = left[~attack(model, x[left], y[left], ball).broken]
    return len(cheap) + (len(holds(left, "complete")) if len(left) else 0)


def measured(subject: Subject, step: Train, store: Store, label: str = "") -> list[Figure]:
    """Core-minutes, clean accuracy, and certified accuracy at the subject's threat beside its goal."""
    spent = store.ensure(step).cpu_seconds  # of the whole run; a resumed one does not know it
    minutes = (seconds_per_step(step) * step.recipe.length(0) if spent is None else spent) / 60
    accuracy = proved(step, store, Ball.parse(subject.threat))
    name = f"{subject.name}{label}"
    return [
        figure(f"{name}: certified", accuracy.pop(subject.threat), None if label else subject.goal, at_most=False),
        figure(f"{name}: clean", accuracy.pop("0")),
        *(figure(f"{name}: certified at {threat}", share) for threat, share in accuracy.items()),
        figure(f"{name}: core-minutes", minutes, None if label else subject.minutes * 1.1),
    ]


def budget(subjects: tuple[Subject, ...], *, long: bool) -> Any:
    """The part that measures ``subjects``; long ones only where their training exists already."""

    def run(quick: bool) -> list[Figure]:
        store, figures = Store.default(), []
        for subject in () if quick and long else subjects[:1] if quick else subjects:
            step = subject.step(store)
            if long and not store.is_done(step):
                words = f"--recipe certified --threat {subject.threat} --budget {subject.budget}"
                print(f"not trained: radii train {subject.data} {words}", file=sys.stderr)
                continue
            figures += measured(subject, step, store)
        return figures

    return run


def peers(quick: bool) -> list[Figure]:
    """Our convolutional 1-Lipschitz networks with the CPU time of the first figure."""
    if quick:
        return []
    store, figures, subject = Store.default(), [], MINUTE[0]
    ours = subject.step(store)
    allowed = seconds_per_step(ours) * ours.recipe.length(0)
    for layer in PEERS:
        recipe = plan("prach-lampert", "cpu", method="gloro" if layer == "liresnet" else None)
        loss = {"offset": 0.75, "temperature": 0.5} if layer != "liresnet" else {}
        settings = deep_merge(recipe.settings, {"model": {"layer": layer, "width": 8, "depth": 1}, "method": loss})
        settings["augmentation"] = {"flip": True}
        spec = data_spec(subject.data, store)
        template = train_step(spec, recipe.model, recipe.method, settings, recipe.preprocessing)
        steps = max(1, round(allowed / seconds_per_step(template)))
        template = train_step(spec, recipe.model, recipe.method, {**settings, "steps": steps}, recipe.preprocessing)
        figures += measured(subject, template, store, f", {layer} ConvNet instead")
    return figures + orthogonium(subject, allowed)


def orthogonium(subject: Subject, seconds: float) -> list[Figure]:
    """The public library's orthogonal ConvNet with the same CPU time and loss; its constants are believed."""
    try:
        from orthogonium_network import radii, trained
    except ImportError as error:
        print(f"orthogonium cannot be imported: {error}", file=sys.stderr)
        return []
    data = load(subject.data)
    model, steps = trained(data, seconds, OffsetCrossEntropy(0.75, 0.5))
    x, y = data.test.tensors()
    prediction, radius = radii(model, x)
    right, name = prediction == y, f"{subject.name}, orthogonium's AOC ConvNet (not proved) instead"
    robust = right & (radius >= Ball.parse(subject.threat).radius)
    return [
        figure(f"{name}: certified", float(robust.double().mean())),
        figure(f"{name}: clean", float(right.double().mean())),
        figure(f"{name}: steps", steps),
        figure(f"{name}: core-minutes", seconds / 60),
    ]


def prototypes(quick: bool) -> list[Figure]:
    """Nearest learned points on MNIST, by their distances to the faces within [0, 1]."""
    store = Store.default()
    step = train_step(data_spec("mnist", store), "prototypes", "prototype-margin", PROTOTYPES, "none")
    if quick or not store.is_done(step):
        print("prototypes are not trained: docs/notes/certified-training.md has the command", file=sys.stderr)
        return []
    run, (x, y) = store.ensure(step), step.data.load().test.tensors()
    certificate = prototype_faces.certify(load_bundle(run.folder)[0], x, "l2", (0.0, 1.0))
    right, name = certificate.prediction == y, "mnist at l2:1.58, 300 prototypes for each class"
    shares = {key: float((right & (certificate.radius >= r)).double().mean()) for key, r in RADII.items()}
    spent = [] if run.cpu_seconds is None else [figure(f"{name}: core-minutes", run.cpu_seconds / 60, 22)]
    return [
        figure(f"{name}: certified", shares.pop("1.58"), 0.73, at_most=False),
        figure(f"{name}: clean", float(right.double().mean())),
        *(figure(f"{name}: certified at l2:{key}", share) for key, share in shares.items()),
        *spent,
    ]


if __name__ == "__main__":
    main(
        {
            "minute": budget(MINUTE, long=False),
            "peers": peers,
            "twenty": budget(TWENTY, long=True),
            "night": budget(NIGHT, long=True),
            "linf": budget(LINF, long=True),
            "prototypes": prototypes,
        }
    )
