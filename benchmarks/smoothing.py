"""Noise samples that rigorous smoothing certificates cost, beside CERTIFY with a fixed number of them.

MNIST test images (every 20th), sigma 0.25, target radius 0.5, alpha 0.001, on a
small ConvNet trained under that noise (about one CPU minute, then kept in the
cache). Peers at the same alpha on the same network: CERTIFY of Cohen et al.
with 10,000 and 100,000 samples; rounds of 100, 1,000 and 10,000 samples at a
third of alpha each (Horváth et al. 2022). CERTIFY with 10,000 samples is really
run, five million forward passes for 500 images, on ten images in a quick run.
The other peers' votes are replayed: an image is decided from draws of a
binomial law whose probability was counted on 500 real votes, and 6,000 more
where that is near the target; the real CERTIFY says how far such a replay is true.
"""

from __future__ import annotations

from statistics import median

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import norm
from torch import Tensor, nn

from harness import Figure, cpu_seconds, figure, main, ratios
from radii.certificates.smoothing import randomized
from radii.certificates.smoothing._noise import BATCH, Voting, to_grid
from radii.confidence_interval import lower_limits, upper_limits
from radii.data import cache
from radii.data.sources import load
from radii.models.io import CARD
from radii.models.io.bundle import Architecture, initialize, load_bundle, save_bundle
from radii.process import keep_freed
from radii.training.loop import train
from radii.training.objectives.cross_entropies import GaussianNoise
from radii.training.schedule import Optimizer, Recipe

SIGMA, RADIUS, ALPHA = 0.25, 0.5, 0.001
EPOCHS = 4
REALLY_RUN = {"full": 500, "quick": 10}  # images on which CERTIFY draws all its samples


def trained(quick: bool) -> nn.Module:
    """The network under test, from the cache or trained now; a quick run without one trains a quarter as long."""
    folder = cache.folder() / "benchmarks" / f"smoothing-{EPOCHS}"
    epochs = EPOCHS
    if quick and not (folder / CARD).is_file():
        folder, epochs = folder.with_name("smoothing-1"), 1
    if not (folder / CARD).is_file():
        data = load("mnist")
        architecture = Architecture(name="wong-kolter", input_shape=data.shape, classes=data.classes)
        model = initialize(architecture, 0)
        recipe = Recipe(epochs=epochs, batch_size=128, optimizer=Optimizer(lr=0.05))
        train(model, data.train, GaussianNoise(SIGMA), recipe)
        save_bundle(folder, model, architecture)
    return load_bundle(folder)[0]


def counted(model: nn.Module, x: Tensor, first: int, more: int) -> NDArray[np.int64]:
    """Votes [n, classes] of noisy copies: ``first`` of each input, ``more`` of those that are near the target."""
    votes = Voting.of(model, to_grid(x)[0], SIGMA, seed=1)
    votes.draw([(row, first) for row in range(len(x))])
    share = votes.counts[:, :-1].max(1) / first
    near = np.flatnonzero((share > 0.955) & (share < 0.993))  # the target is 0.977
    votes.draw([(int(row), more) for row in near])
    return votes.counts[:, :-1]


def fixed(share: NDArray[np.float64], samples: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Which images CERTIFY proves at the target radius, from replayed votes for the top class."""
    won = rng.binomial(samples, share)
    lower = lower_limits(won, samples, ALPHA)
    return lower >= norm.cdf(RADIUS / SIGMA)


def rounds(share: NDArray[np.float64], rng: np.random.Generator) -> tuple[NDArray[np.bool_], float]:
    """Horváth et al.: fresh samples a round, each at a third of alpha, rejected where the upper bound is too low."""
    sizes, level = (100, 1000, 10_000), ALPHA / 3
    proved, open_ = np.zeros(len(share), bool), np.ones(len(share), bool)
    drawn = np.full(len(share), 100.0)  # to select a class
    for size in sizes:
        won = rng.binomial(size, share)
        drawn[open_] += size
        passes = lower_limits(won, size, level) >= norm.cdf(RADIUS / SIGMA)
        fails = upper_limits(won, size, level) < norm.cdf(RADIUS / SIGMA)
        proved |= open_ & passes
        open_ &= ~(passes | fails)
    return proved, float(drawn.mean())


def throughput(model: nn.Module, x: Tensor, turns: int) -> float:
    """Certified samples a CPU second over bare forwards of as many inputs: the median of ratios within a turn.

    A core's speed may change by half between two turns; within one it is the same for both.
    """
    batches, votes = 4, Voting.of(model, to_grid(x)[0], SIGMA, seed=2)
    copies = x[:BATCH].contiguous() if len(x) >= BATCH else x[:1].expand(BATCH, -1, -1, -1).contiguous()

    def bare() -> None:
        with torch.no_grad():
            for _ in range(batches):
                model(copies)

    def certified() -> None:
        votes.draw([(row % len(x), BATCH // 5) for row in range(5 * batches)])

    bare(), certified()
    return median(cpu_seconds(bare) / cpu_seconds(certified) for _ in range(turns))


def grid_cost(model: nn.Module, x: Tensor, turns: int) -> float:
    """CPU time of noisy copies with noise on the grid, added exactly, over plain float noise, added with rounding."""
    votes, rows = Voting.of(model, to_grid(x)[0], SIGMA, seed=3), np.zeros(BATCH, np.int64)
    buffer = torch.empty_like(votes.buffer)

    def plain() -> None:
        for _ in range(20):
            torch.add(x[0], buffer.normal_(0.0, SIGMA), out=buffer)

    def exact() -> None:
        for _ in range(20):
            votes.noisy(rows)

    return ratios({"plain": plain, "exact": exact}, turns)["exact"]


def really_run(model: nn.Module, x: Tensor, y: Tensor, replayed: NDArray[np.bool_]) -> list[Figure]:
    """CERTIFY with 10,000 samples and the sequential test on the same images, timed in turn."""
    made: dict[str, randomized.SmoothedCertificate] = {}

    def certify() -> None:
        made["fixed"] = randomized.certify(model, x, SIGMA, samples=10_000, alpha=ALPHA, seed=3)

    def sequential() -> None:
        made["sequential"] = randomized.certify_sequential(model, x, SIGMA, [RADIUS], most=10_000, alpha=ALPHA, seed=4)

    seconds = {name: cpu_seconds(action) for name, action in (("sequential", sequential), ("fixed", certify))}
    proved = {name: one.covers(RADIUS) for name, one in made.items()}
    right = {name: float((proved[name] & (one.prediction == y)).double().mean()) for name, one in made.items()}
    same = max(0.005, 1.5 / len(x))
    return [
        figure("CERTIFY 10,000 really run: images", len(x)),
        figure("CERTIFY 10,000 really run: certified accuracy", right["fixed"]),
        figure(
            "CERTIFY 10,000 really run: verdicts unlike the replay's",
            float((proved["fixed"].numpy() != replayed).sum()),
        ),
        figure(
            "CERTIFY 10,000 really run: verdicts unlike the sequential test's",
            float((proved["fixed"] != proved["sequential"]).sum()),
        ),
        figure(
            "CERTIFY 10,000 really run: accuracy beside the sequential test's",
            abs(right["fixed"] - right["sequential"]),
            same,
        ),
        figure("CERTIFY 10,000 really run: CPU milliseconds an image", 1000 * seconds["fixed"] / len(x)),
        figure("sequential 10,000: CPU time over CERTIFY really run", seconds["sequential"] / seconds["fixed"]),
    ]


def run(quick: bool) -> list[Figure]:
    """Samples, certified accuracy and time, side by side."""
    model = trained(quick)
    x, y = load("mnist").test.tensors(slice(0, None, 50 if quick else 20))
    rng = np.random.default_rng(0)
    figures = []
    same = max(0.005, 1.5 / len(x))  # half a point, or one image of a quick run
    votes = counted(model, x, *((300, 1000) if quick else (500, 6000)))
    share, right = votes.max(1) / votes.sum(1), votes.argmax(1) == y.numpy()
    horvath, samples = rounds(share, rng)
    figures.append(figure("rounds of Horváth et al.: certified accuracy", float((horvath & right).mean())))
    figures.append(figure("rounds of Horváth et al.: samples over CERTIFY 10,000", samples / 10_100))
    for most, goal in ((10_000, 1 / 20), (100_000, 1 / 100)):
        replayed = fixed(share, most, rng)
        peer = float((replayed & right).mean())
        made: list[randomized.SmoothedCertificate] = []
        seconds = cpu_seconds(
            lambda most=most, made=made: made.append(
                randomized.certify_sequential(model, x, SIGMA, [RADIUS], most=most, alpha=ALPHA)
            )
        )
        held = float(((made[0].prediction == y) & made[0].covers(RADIUS)).double().mean())
        assert made[0].samples is not None
        mean = float(made[0].samples.double().mean())
        figures += [
            figure(f"CERTIFY {most:,} replayed: certified accuracy", peer),
            figure(f"sequential {most:,}: certified accuracy", held),
            figure(f"sequential {most:,}: difference of certified accuracies", abs(held - peer), same),
            figure(f"sequential {most:,}: samples an image", mean),
            figure(f"sequential {most:,}: samples over CERTIFY", mean / (most + 100), goal),
            figure(f"sequential {most:,}: CPU milliseconds an image", 1000 * seconds / len(x)),
        ]
        if most == 10_000:
            few = slice(0, REALLY_RUN["quick" if quick else "full"])
            figures += really_run(model, x[few], y[few], replayed[few])
    figures.append(
        figure("throughput over bare forwards", throughput(model, x, 15 if quick else 61), 0.9, at_most=False)
    )
    figures.append(figure("noise on the grid over plain noise, CPU time", grid_cost(model, x, 5 if quick else 15)))
    return figures


if __name__ == "__main__":
    keep_freed()  # as the command does
    main(run)
