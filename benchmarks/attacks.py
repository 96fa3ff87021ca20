"""Attacks: PGD-40 over a plain loop and peers; the standard suite over itself without compaction; certify first.

A LeNet5 on MNIST, trained adversarially by ``radii train mnist --recipe ding-mnist
--budget cpu steps=300`` (40 CPU seconds, once: the run is kept in the cache) and a
naturally trained one. The complete run takes about three minutes on one core. With
--quick both are the natural net at small radii and budgets; without MNIST it takes
scikit-learn's digits.
"""

from __future__ import annotations

import importlib.util
import statistics
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harness import Figure, cpu_seconds, figure, main
from radii.attacks import apgd, attack, fab, square
from radii.attacks.attack import AttackRun, NewPoints
from radii.attacks.pgd import PGD
from radii.attacks.point_randomness import derived
from radii.attacks.suite import SuiteResult, members, run_suite
from radii.certificates import lipschitz
from radii.data import cache, sources
from radii.data.dataset import Data
from radii.errors import InputError
from radii.models.classifier import predict
from radii.models.zoo.convnets import LeNet5
from radii.networks.calling import frozen, predicted_class
from radii.randomness import stream
from radii.runs.planning import data_spec, load_trained, train_step
from radii.runs.store import Store
from radii.threat import Ball
from radii.training.recipes import deep_merge, plan

Split = tuple[Tensor, Tensor]


def robust_net(widen: float, steps: int) -> nn.Module:
    """LeNet5, trained on PGD-7 at Linf 0.3 for so many batches of 100; kept in the cache.

    So briefly that only about half of its test points survive at 0.3, and many are near the border.
    """
    recipe = plan("ding-mnist", "cpu")
    settings = deep_merge(recipe.settings, {"steps": steps, "model": {"widen": widen}})
    store = Store(cache.folder() / "benchmarks")
    step = train_step(data_spec("mnist", store), recipe.model, recipe.method, settings, recipe.preprocessing)
    return load_trained(store.ensure(step)).model


def natural_net(data: Split, epochs: int) -> nn.Module:
    """The same architecture, trained in a few seconds."""
    torch.manual_seed(0)
    (x, y), order = data, stream(0, "order")
    net = LeNet5(tuple(x.shape[1:]), 10, widen=0.25)
    optimizer = torch.optim.Adam(net.parameters(), 4e-3)
    for _ in range(epochs):
        for rows in torch.randperm(len(x), generator=order).split(100):
            optimizer.zero_grad()
            F.cross_entropy(net(x[rows]), y[rows]).backward()
            optimizer.step()
    return net.eval()


class UncompactedRun(AttackRun):
    """AutoAttack's manner: within a run every row goes on to the end of its budget, broken or not."""

    @torch.no_grad()
    def search(self, search: Any, run: int, what: str, keep_broken: bool = False) -> None:  # noqa: ARG002
        for index in torch.nonzero(~self.broken).squeeze(1).split(self.batch_size):
            seeds = derived(self.seeds[index], run)
            with frozen(self.model):
                fresh = NewPoints(index, self.x[index], self.y[index], seeds, self.clean_logits[index])
                state = search.begin(fresh)
                while bool((state.steps_done < search.steps).any()):
                    logits, gradient = self._answer(search, state)
                    claimed = self.succeeded(predicted_class(logits), state.y) & ~self.broken[index]
                    if bool(claimed.any()):
                        self._confirm(index[claimed], state.point[claimed], times=1)
                    state = search.advance(state, logits, gradient)
            rest = ~self.broken[index]
            self._confirm(index[rest], state.point[rest])


@contextmanager
def uncompacted() -> Iterator[None]:
    """Rows stay, FAB checks before every step, Square asks every proposal, plain memory order: AutoAttack's manner."""

    def ask_all(self: Any, state: Any) -> Any:
        return replace(state, point=self._proposal(state.steps_done, state.seed, state.x, state.best))

    with ExitStack() as stack:
        for module in (apgd, fab, square):
            stack.enter_context(patch.object(module, "AttackRun", UncompactedRun))
        stack.enter_context(patch.object(attack, "channels_last", lambda _: nullcontext))
        stack.enter_context(patch.object(fab._FabSearch, "wants_gradient", lambda _, state: state.due))
        stack.enter_context(patch.object(square._SquareSearch, "_proposed", ask_all))
        yield


def timed_suite(model: nn.Module, data: Split, ball: Ball, quick: bool = False) -> tuple[SuiteResult, float]:
    """The standard suite and its CPU seconds; with a tenth of every budget if ``quick``."""
    found: list[SuiteResult] = []
    attacks = members("standard")
    if quick:
        small: dict[str, Any] = {"square": {"queries": 500}}
        attacks = tuple(
            replace(one, attack=replace(one.attack, **small.get(one.name, {"steps": 10})))  # type: ignore[type-var]
            for one in attacks
        )
    seconds = cpu_seconds(lambda: found.append(run_suite(attacks, model, *data, ball)))
    return found[0], seconds


def suites(
    name: str, model: nn.Module, data: Split, ball: Ball, goals: tuple[float, float | None], quick: bool = False
) -> list[Figure]:
    """Passes and CPU time with compaction over without, and the points on which they differ."""
    ours, seconds = timed_suite(model, data, ball, quick)
    with uncompacted():
        plain, slow = timed_suite(model, data, ball, quick)
    left = float((~ours.broken).float().mean())
    return [
        figure(f"{name}: robust accuracy, standard suite, {ball}, {len(data[0])} points", left),
        figure(
            f"{name}: passes over the uncompacted suite", int(ours.queries.sum()) / int(plain.queries.sum()), goals[0]
        ),
        figure(f"{name}: CPU time over the uncompacted suite", seconds / slow, goals[1]),
        figure(f"{name}: points with another outcome", int((ours.broken != plain.broken).sum()), 0),
    ]


def plain_pgd(model: nn.Module, x: Tensor, y: Tensor, radius: float) -> Tensor:
    """PGD-40 as one writes it: 40 passes over all points, then a check."""
    point = (x + (torch.rand_like(x) * 2 - 1) * radius).clamp(0, 1)
    for _ in range(40):
        point = point.detach().requires_grad_()
        (slope,) = torch.autograd.grad(F.cross_entropy(model(point), y, reduction="sum"), point)
        point = point.detach() + radius / 30 * slope.sign()
        point = torch.minimum(torch.maximum(point, x - radius), x + radius).clamp(0, 1)
    return predict(model, point) == y


def peers(model: nn.Module, radius: float) -> dict[str, Callable[[Tensor, Tensor], object]]:
    """The same attack in foolbox, torchattacks and ART, where installed."""
    found: dict[str, Callable[[Tensor, Tensor], object]] = {}
    if importlib.util.find_spec("foolbox"):
        import foolbox

        wrapped = foolbox.PyTorchModel(model, bounds=(0, 1))
        pgd = foolbox.attacks.LinfPGD(abs_stepsize=radius / 30, steps=40)
        found["foolbox"] = lambda x, y: pgd(wrapped, x, y, epsilons=radius)
    if importlib.util.find_spec("torchattacks"):
        import torchattacks

        found["torchattacks"] = torchattacks.PGD(model, eps=radius, alpha=radius / 30, steps=40)
    if importlib.util.find_spec("art"):
        from art.attacks.evasion import ProjectedGradientDescentPyTorch
        from art.estimators.classification import PyTorchClassifier

        estimator = PyTorchClassifier(model, nn.CrossEntropyLoss(), (1, 28, 28), 10, clip_values=(0, 1))
        art = ProjectedGradientDescentPyTorch(
            estimator, eps=radius, eps_step=radius / 30, max_iter=40, num_random_init=1, verbose=False, batch_size=128
        )
        found["ART"] = lambda x, y: art.generate(x.numpy(), y.numpy())
    return found


def radius_leaving(share: float, model: nn.Module, data: Split, count: int) -> float:
    """The Linf radius at which PGD-40 leaves this share of the points, to 1/64."""
    x, y = data[0][:count], data[1][:count]
    low, high = 0.0, 0.5
    for _ in range(5):
        middle = (low + high) / 2
        left = float((~PGD()(model, x, y, Ball("linf", middle), stream(0)).broken).float().mean())
        low, high = (middle, high) if left > share else (low, middle)
    return (low + high) / 2


def pgd_figures(model: nn.Module, data: Split, ball: Ball, rounds: int, everyone: bool) -> list[Figure]:
    """PGD-40 over the plain loop, interleaved by batch."""
    x, y = data
    subjects: dict[str, Callable[[Tensor, Tensor], object]] = {
        "plain": lambda a, b: plain_pgd(model, a, b, ball.radius),
        "radii": lambda a, b: PGD(batch_size=len(a))(model, a, b, ball, stream(0)),
    }
    subjects |= peers(model, ball.radius) if everyone else {}
    ratios: dict[str, list[float]] = {name: [] for name in subjects}
    for part in range(rounds):
        first = part * 125 % (len(x) - 124)
        batch = x[first : first + 125], y[first : first + 125]
        seconds = {name: cpu_seconds(partial(act, *batch)) for name, act in subjects.items()}
        for name, value in seconds.items():
            ratios[name].append(value / seconds["plain"])
    left = float((~PGD()(model, x[:125], y[:125], ball, stream(0)).broken).float().mean())
    figures = [figure(f"PGD-40 robust accuracy of the timed net, {ball}", left)]
    figures.append(figure("PGD-40 over a plain loop: radii", statistics.median(ratios["radii"]), 0.75))
    figures += [
        figure(f"PGD-40 over a plain loop: {name}", statistics.median(values))
        for name, values in ratios.items()
        if name not in ("plain", "radii")
    ]
    return figures


def certify_first(data: Split, train: Split, suite: str) -> list[Figure]:
    """What an exact certificate saves: a linear classifier, L2 radius 0.3."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(train[0][0].numel(), 10))
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(3):
        for rows in torch.randperm(len(train[0])).split(100):
            optimizer.zero_grad()
            F.cross_entropy(model(train[0][rows]), train[1][rows]).backward()
            optimizer.step()
    (x, y), ball = data, Ball("l2", 0.3)
    proved = lipschitz.certify(model, x).covers(ball.radius)
    attacked = run_suite(members(suite), model, x, y, ball)
    spared = run_suite(members(suite), model, x[~proved], y[~proved], ball)
    passes = int(spared.queries.sum()) / int(attacked.queries.sum())
    wrong = int((attacked.broken[proved] & (predict(model, x[proved]) == y[proved])).sum())
    return [
        figure("certify first: share of points proved", float(proved.float().mean())),
        figure("certify first: passes over attacking all", passes, 0.9),
        figure("certify first: proved points that break", wrong, 0),
    ]


def run(quick: bool) -> list[Figure]:
    """All figures. The quick ones attack a naturally trained net at the radius that leaves 61% of its points."""
    data = _data(quick)
    train_split, test = data.train.tensors(slice(0, 3000)), data.test.tensors(slice(0, 1000))
    natural = natural_net(train_split, 4)
    robust = natural if quick else robust_net(widen=0.25, steps=300)
    radius = radius_leaving(0.61, robust, test, 64 if quick else 200)
    figures = pgd_figures(robust, test, Ball("linf", radius), 3 if quick else 5, everyone=not quick)
    few = 8 if quick else 100
    part = (test[0][:few], test[1][:few])
    figures += suites("natural net", natural, part, Ball("linf", 0.3), (0.05, None))
    ball = Ball("linf", radius if quick else 0.3)
    # Eight rows are too few for times: every operation then costs its call, not its work.
    figures += suites("robust net", robust, part, ball, (0.9, None if quick else 0.8), quick)
    figures += certify_first((test[0][:100], test[1][:100]), train_split, "fast")
    return figures


def _data(quick: bool) -> Data:
    """MNIST; for a quick answer without it, scikit-learn's digits."""
    try:
        return sources.load("mnist")
    except InputError:
        if not quick:
            raise
        return sources.load("digits")


if __name__ == "__main__":
    main(run)
