"""Open question: does robustness cost more where one sample is not even accurate? Then only by a constant factor.

In the Gaussian model with σ = s√d the mean of n samples reaches 1% error at σ²/(B⁻² − 1) with B = Φ⁻¹(.99) s, and 1%
robust error at σ²/(A⁻² − 1) with A = B + √(2/π) ε. Both grow like d, and their ratio

    (B⁻² − 1)/(A⁻² − 1)

does not depend on d. With σ = c d^(1/4), where one sample is accurate, B = Φ⁻¹(.99) c d^(−1/4) and the same ratio
grows like ε²√d (the model of Schmidt et al. 2018; the slides ask about tasks that one sample does not solve).
"""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from numpy.random import Generator

from radii import progress
from radii.randomness import numpy_stream
from radii.tables import Row
from radii_papers.theory._gaussian_model import QUANTILE, Draw
from radii_papers.theory._lines import ResultRow, assume, at_least, equals
from radii_papers.theory.result import Simulation, chart, measured, predicted, theorem


def samples_at_noise(d: float, sigma: float, epsilon: float) -> float:
    """σ²/(A⁻² − 1), A = √(2/π) ε + Φ⁻¹(.99) σ/√d: samples for 1% robust error; infinite where no n is enough.

    Args:
        sigma: σ, the standard deviation of the noise.
        epsilon: Linf radius of the attack; 0 for plain accuracy.
    """
    a = math.sqrt(2 / math.pi) * epsilon + QUANTILE * sigma / math.sqrt(d)
    return sigma**2 / (a**-2 - 1) if a < 1 else math.inf


def price(d: float, sigma: float, epsilon: float) -> float:
    """How many times the samples robustness takes.

    Args:
        sigma: σ, the standard deviation of the noise.
        epsilon: Linf radius of the attack.
    """
    return samples_at_noise(d, sigma, epsilon) / samples_at_noise(d, sigma, 0.0)


def _drawn(d: int, sigma: float, draw: Generator) -> Draw:
    sample = Draw.random(d, 1.0, draw)
    return Draw(sample.theta, sample.noise, sigma)


@theorem("many-sample-tasks")
def many_sample_tasks(
    d: Annotated[tuple[int, ...], "dimensions in which data is drawn"] = (10_000, 40_000, 160_000),
    noise: Annotated[tuple[float, ...], "s: sigma is s sqrt(d)"] = (0.1, 0.2, 0.3),
    epsilon: Annotated[float, "Linf budget"] = 0.25,
    draws: Annotated[int, "means and noises for each cell"] = 16,
    seed: Annotated[int, "seed of all random numbers"] = 0,
) -> Simulation:
    """Samples for 1% error with and without an attack where one sample is useless, and the ratio over d."""
    assume(len(d) >= 2 and min(d) >= 10_000, "At least two dimensions of at least 10,000 are needed", d)
    assume(len(noise) > 0 and min(noise) > 0 and epsilon > 0, "noise and epsilon must be positive", (noise, epsilon))
    reach = math.sqrt(2 / math.pi) * epsilon + QUANTILE * max(noise)
    assume(reach < 0.98, "1% robust error must be within reach: √(2/π) epsilon + 2.33 s < 0.98", f"{reach:.3g}")
    assume(draws >= 4, "The median needs at least 4 draws", draws)
    rows: list[ResultRow] = []
    picture: list[Row] = []
    with progress.task("cells", len(d) * len(noise)) as task:
        for s in noise:
            ratios = []
            for dimension in d:
                sigma, draw = s * math.sqrt(dimension), numpy_stream(seed, "many-sample-tasks", dimension, str(s))
                samples = [_drawn(dimension, sigma, draw) for _ in range(draws)]
                plain, robust = (float(np.median([one.samples_needed(e) for one in samples])) for e in (0.0, epsilon))
                ratios.append(robust / plain)
                cell = f"d={dimension}, s={s:g}"
                expected = samples_at_noise(dimension, sigma, 0.0)
                rows += [
                    at_least(f"{cell}: samples for 1% error, no attack", plain, 2),
                    equals(f"{cell}: over their closed form", plain / expected, 1, 0.1),
                    equals(f"{cell}: robust over plain", ratios[-1], price(dimension, sigma, epsilon),
                           0.1 * price(dimension, sigma, epsilon)),
                ]  # fmt: skip
                picture.append(measured(dimension, ratios[-1], f"σ = {s:g}√d"))
                task.advance(note=cell)
            slope = float(np.polyfit(np.log(d), np.log(ratios), 1)[0])
            rows.append(equals(f"s={s:g}: exponent of the ratio in d", slope, 0, 0.05))
    far = [price(big, 0.6 * big**0.25, epsilon) for big in (1e12, 1e14)]
    rows.append(equals("σ = .6 d^(1/4): exponent of the ratio in d, 1e12 to 1e14", math.log10(far[1] / far[0]) / 2, 0.5,
                       0.03))  # fmt: skip
    for dimension in np.geomspace(min(d), max(d), 20):
        picture += [
            predicted(float(dimension), price(dimension, s * math.sqrt(dimension), epsilon), f"σ = {s:g}√d")
            for s in noise
        ]
        picture.append(predicted(float(dimension), price(dimension, 0.6 * dimension**0.25, epsilon), "σ = .6 d^(1/4)"))
    title = f"How many times the samples robustness takes, epsilon = {epsilon:g}"
    return Simulation(tuple(rows), chart(title, "d", "robust over plain", picture, log_x=True, log_y=True))
