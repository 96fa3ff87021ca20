"""Whether forecasts keep their promise: coverage of 90% intervals on curves whose truth is known.

In family: four links, three ceilings, two designs of five sizes, three seeds,
10,000 test points, τ = 0.6 points, 62% at 50,000 points and 5 points for the
last doubling; forecasts at 2, 4 and 20 times the data, and of the data needed
for 65%. Out of family: a heavy-tailed curve, and one that stops at 66% just
beyond the data, which no fit can see. About 5 CPU minutes; ``--quick`` has
fewer truths and replicates and holds only their average to the promise.
"""

from __future__ import annotations

import itertools
import math
import statistics
from dataclasses import dataclass, field

import numpy as np

from harness import Figure, cpu_seconds, figure, main
from radii.forecasting._posterior import LINKS, Family, Link, Sizes
from radii.forecasting.envelope import Envelope, envelope
from radii.forecasting.law import fit
from radii.randomness import numpy_stream
from radii.tables import Estimate
from simulated_curves import Truth

DESIGNS = {"sizes by 2": (3125, 6250, 12_500, 25_000, 50_000), "sizes by √10": (500, 1581, 5000, 15_811, 50_000)}
CEILINGS = (0.75, 0.85, 1.0)
FACTORS = (2, 4, 20)
TARGET = 0.65
DOUBTFUL = 0.95  # a truth covered less often is drawn three times as often
FAMILY = Family(floor=0.1, highest=1.0, test_points=10_000)
CAUCHIT = Link("cauchit", lambda z: 0.5 + np.arctan(z) / np.pi, lambda share: np.tan(np.pi * (share - 0.5)))


@dataclass
class Tally:
    """Hits and widths of one truth under one design."""

    hits: dict[str, list[bool]] = field(default_factory=dict)
    widths: dict[int, list[float]] = field(default_factory=dict)

    def count(self, truth: Truth, law: Envelope) -> None:
        """Score one fit, by the envelope and by its logit alone."""
        alone = Envelope(law.posteriors[:1], np.ones((1, 2)), np.zeros(1))
        for factor in FACTORS:
            n, forecast = factor * truth.anchor, law.at(factor * truth.anchor)
            self.hit(f"at {factor}x", forecast, truth.at(n))
            self.hit(f"by the logit link alone at {factor}x", alone.at(n), truth.at(n))
            self.widths.setdefault(factor, []).append(forecast.high - forecast.low)
        if truth.at(1e12) > TARGET:
            self.hit("of the data needed", law.log_needed(TARGET), _log_needed(truth))

    @property
    def least(self) -> float:
        """The least coverage of the envelope over all that is forecast."""
        return min(statistics.mean(hits) for what, hits in self.hits.items() if "logit" not in what)

    def hit(self, what: str, interval: Estimate, true: float) -> None:
        """Whether ``interval`` covers the truth."""
        self.hits.setdefault(what, []).append(interval.low <= true <= interval.high)


def _log_needed(truth: Truth) -> float:
    low, high = math.log(100.0), math.log(1e12)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if truth.at(math.exp(middle)) < TARGET else (low, middle)
    return low


def tally(truth: Truth, sizes: tuple[int, ...], draws: range, name: str, before: Tally | None = None) -> Tally:
    """Fit these ``draws`` of one truth, and count them with those ``before``."""
    found = before or Tally()
    for number in draws:
        drawn = truth.observed(sizes, numpy_stream(2, name, number))
        found.count(truth, envelope(Sizes.of([(each.n, each.value) for each in drawn]), FAMILY))
    return found


def run(quick: bool) -> list[Figure]:
    """Coverage of every cell, the least and the mean, widths, and the price of a fit."""
    replicates = 12 if quick else 40
    ceilings = CEILINGS[1:2] if quick else CEILINGS
    cells: dict[str, Tally] = {}
    for link, ceiling, design in itertools.product(LINKS, ceilings, DESIGNS):
        name = f"{link.name} to {ceiling:g}, {design}"
        cells[name] = tally(Truth(link, ceiling), DESIGNS[design], range(replicates), name)
        if not quick and cells[name].least < DOUBTFUL:  # 40 draws know 0.9 to 0.05 only
            more = range(replicates, 3 * replicates)
            cells[name] = tally(Truth(link, ceiling), DESIGNS[design], more, name, cells[name])
    figures = [cost(2 if quick else 9)]
    for what in (*(f"at {factor}x" for factor in FACTORS), "of the data needed"):
        shares = {name: statistics.mean(cell.hits[what]) for name, cell in cells.items()}
        figures.append(figure(f"coverage {what}, mean", statistics.mean(shares.values()), 0.9, at_most=False))
        if not quick:
            figures.append(figure(f"coverage {what}, least of the truths", min(shares.values()), 0.9, at_most=False))
            figures += [figure(f"coverage {what}: {name}", share) for name, share in shares.items()]
    for factor in FACTORS:
        widths = [statistics.median(cell.widths[factor]) for cell in cells.values()]
        figures.append(figure(f"width at {factor}x in points, median over truths", 100 * statistics.median(widths)))
        logit = [statistics.mean(cell.hits[f"by the logit link alone at {factor}x"]) for cell in cells.values()]
        figures.append(figure(f"coverage by the logit link alone at {factor}x, least of the truths", min(logit)))
    return figures + out_of_family(max(4, replicates // 2))


def out_of_family(replicates: int) -> list[Figure]:
    """What no fit promises: told, without a goal."""
    truths = {
        "heavy-tailed curve (cauchit to 1)": Truth(CAUCHIT, 1.0),
        "curve that stops at 66%": Truth(LINKS[0], 0.85, stop=0.66),
    }
    figures = []
    for name, truth in truths.items():
        for design, sizes in DESIGNS.items():
            cell = tally(truth, sizes, range(replicates), f"{name}, {design}")
            for factor in FACTORS:
                share = statistics.mean(cell.hits[f"at {factor}x"])
                figures.append(figure(f"out of family, {name}, {design}: coverage at {factor}x", share))
    return figures


def cost(rounds: int) -> Figure:
    """A whole fit with its hold-outs: nine sizes, so four factors are validated."""
    sizes = [50_000 // 2**k for k in range(8, -1, -1)]
    drawn = Truth(LINKS[0], 0.85).observed(sizes, numpy_stream(2, "cost"))
    seconds = statistics.median(cpu_seconds(lambda: fit(drawn, 10, 10_000)) for _ in range(rounds))
    return figure("CPU seconds of a fit of 9 sizes with its hold-outs", seconds, 1.5)


if __name__ == "__main__":
    main(run)
