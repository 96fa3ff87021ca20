"""Open question: what do networks and their training do to the sample complexity, beyond bounds for any learner?

The Gaussian model of :mod:`~radii_papers.theory._gaussian_model` in few dimensions, with an attack that is hard enough
to matter there. No classifier, whatever it learns from, has less robust error than the linear one of weights
sign(θ) max(|θ| − ε, 0):

    Φ(−|max(|θ| − ε, 0)|/σ)

(the attacker moves every coordinate by up to ε towards the other class; what is left of the means is that far apart).
Five learners get the same n samples: the mean, and a linear function and a two-layer ReLU network, each trained
plainly and adversarially by full gradient descent. Linear ones are judged exactly, networks by PGD on test points,
which errs in their favor (Weinberger's slides ask for results that do not ignore the training algorithm).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated

import numpy as np
import torch
from scipy.stats import norm
from torch import Tensor, nn
from torch.nn.functional import softplus

from radii import progress
from radii.networks.calling import frozen
from radii.randomness import numpy_stream, stream
from radii.tables import Row
from radii_papers.synthetic import Points, sphere
from radii_papers.theory._gaussian_model import robust_error
from radii_papers.theory._lines import SIGMAS, ResultRow, assume, at_least, at_most, equals, proportion_error, reports
from radii_papers.theory._shallow import shallow_network
from radii_papers.theory.result import Simulation, chart, measured, predicted, theorem

STEPS, ATTACK_STEPS, TESTS, LR = 150, 10, 1000, 0.02
LEARNERS = ("mean", "linear", "linear, adversarial", "network", "network, adversarial")


def best_error(theta: Points, sigma: float, epsilon: float) -> float:
    """Φ(−|max(|θ| − ε, 0)|/σ): the least robust error of any classifier.

    Args:
        theta: mean of class +1, [d].
        sigma: σ, the standard deviation of the noise.
        epsilon: Linf radius of the attack.
    """
    return float(norm.cdf(-np.linalg.norm(np.maximum(np.abs(theta) - epsilon, 0)) / sigma))


def _moved(net: nn.Module, x: Tensor, y: Tensor, epsilon: float, steps: int) -> Tensor:
    """Linf projected gradient descent on the margin y f(x), without a box."""
    moved = x
    with frozen(net):
        for _ in range(steps):
            moved = moved.detach().requires_grad_()
            (slope,) = torch.autograd.grad((y * net(moved)).sum(), moved)
            moved = (moved.detach() - 2.5 * epsilon / steps * slope.sign()).clamp(x - epsilon, x + epsilon)
    return moved.detach()


def _fit(net: nn.Module, x: Tensor, y: Tensor, epsilon: float) -> nn.Module:
    """Full-batch Adam on the logistic loss, at adversarial points if ``epsilon`` is positive."""
    optimizer = torch.optim.Adam(net.parameters(), LR)
    for _ in range(STEPS):
        at = _moved(net, x, y, epsilon, 5) if epsilon > 0 else x
        optimizer.zero_grad()
        softplus(-y * net(at)).mean().backward()
        optimizer.step()
    return net


def _linear(d: int) -> nn.Module:
    layer = nn.Linear(d, 1, bias=False)
    nn.init.zeros_(layer.weight)
    return nn.Sequential(layer, nn.Flatten(0))


@theorem("network-samples")
def network_samples(
    d: Annotated[int, "dimension"] = 100,
    n: Annotated[tuple[int, ...], "training points"] = (8, 32, 128, 512),
    epsilon: Annotated[float, "Linf budget"] = 0.8,
    c: Annotated[float, "sigma is c d^(1/4)"] = 0.6,
    width: Annotated[int, "hidden units of the network"] = 50,
    seeds: Annotated[int, "means and training sets"] = 5,
    seed: Annotated[int, "seed of all random numbers"] = 0,
) -> Simulation:
    """Robust error of five learners over the number of samples, against the least error of any classifier."""
    assume(20 <= d <= 1000, "d must lie between 20 and 1000", d)
    assume(len(n) >= 2 and min(n) >= 2, "At least two numbers of training points are needed, each at least 2", n)
    assume(epsilon > 0 and c > 0, "epsilon and c must be positive", (epsilon, c))
    assume(width >= 1 and seeds >= 2, "width must be at least 1 and seeds at least 2", (width, seeds))
    errors = np.zeros((len(n), seeds, len(LEARNERS)))
    least = np.zeros(seeds)
    with progress.task("trainings", seeds) as task:
        for number in range(seeds):
            for row, count in enumerate(n):
                errors[row, number], least[number] = _cell(d, count, epsilon, c, width, seed, number)
            task.advance()
    rows = _rows(n, errors, least)
    picture: list[Row] = [
        measured(count, float(errors[row, :, place].mean()), learner)
        for row, count in enumerate(n)
        for place, learner in enumerate(LEARNERS)
    ]
    picture += [predicted(count, float(least.mean()), "least error of any classifier") for count in n]
    title = f"Robust error in the Gaussian model, d = {d}, epsilon = {epsilon:g}"
    return Simulation(tuple(rows), chart(title, "n", "robust error", picture, log_x=True))


def _cell(d: int, n: int, epsilon: float, c: float, width: int, seed: int, number: int) -> tuple[list[float], float]:
    """The robust errors of the learners on one training set, and the least one of any classifier."""
    sigma = c * d**0.25
    draw = numpy_stream(seed, "network-samples", number)
    theta = sphere(1, d, math.sqrt(d), draw)[0]

    def sample(count: int) -> tuple[Tensor, Tensor]:
        y = draw.integers(0, 2, count) * 2.0 - 1
        x = y[:, None] * theta + sigma * draw.standard_normal((count, d))
        return torch.from_numpy(x).float(), torch.from_numpy(y).float()

    (tests, truth), (x, y) = sample(TESTS), sample(n)  # the same test points for every n
    mean = (y[:, None] * x).mean(0).double().numpy()
    errors = [robust_error(mean, theta, sigma, epsilon)]
    makers: list[Callable[[], nn.Module]] = [
        lambda: _linear(d),
        lambda: shallow_network(d, width, stream(seed, "network-samples", number)),
    ]
    for make in makers:
        for radius in (0.0, epsilon):
            net = _fit(make(), x, y, radius)
            weights, *others = net.parameters()
            if not others:
                errors.append(robust_error(weights.detach().double().numpy()[0], theta, sigma, epsilon))
            else:
                with torch.no_grad():
                    moved = _moved_with_gradient(net, tests, truth, epsilon)
                    errors.append(float((truth * net(moved) <= 0).double().mean()))
    return errors, best_error(theta, sigma, epsilon)


def _moved_with_gradient(net: nn.Module, x: Tensor, y: Tensor, epsilon: float) -> Tensor:
    with torch.enable_grad():
        return _moved(net, x, y, epsilon, ATTACK_STEPS)


def _rows(n: tuple[int, ...], errors: np.ndarray, least: np.ndarray) -> list[ResultRow]:
    """No learner below the least error; with many samples the adversarial linear one near it; networks reported."""
    floor, rows = float(least.mean()), []
    noise = SIGMAS * proportion_error(floor, TESTS * len(least))
    for row, count in enumerate(n):
        for place, learner in enumerate(LEARNERS):
            mean = float(errors[row, :, place].mean())
            rows.append(at_least(f"n={count}, {learner}: robust error", mean, floor, noise if place > 2 else 1e-9))
    last = errors[-1].mean(0)
    rows += [
        equals(f"n={n[-1]}: adversarial linear less the least error", float(last[2] - floor), 0, 0.06),
        at_most(f"n={n[-1]}: adversarial linear less plain linear", float(last[2] - last[1]), 0),
        at_most(f"n={n[-1]}: adversarial network less plain network", float(last[4] - last[3]), 0),
        reports(f"n={n[-1]}: adversarial network less adversarial linear", float(last[4] - last[2])),
    ]  # fmt: skip
    return rows
