"""Randomized smoothing: the classifier that noise makes, and L2 radii within which it cannot change.

The smoothed classifier is g(x) = argmax_c P(f(x + noise) = c) with noise
N(0, sigma^2 I). If the top class has probability above p >= 1/2, then g is
constant within sigma * Phi^-1(p) (Cohen, Rosenfeld & Kolter 2019, Thm. 1).
All radii here are about g, never about f, and about probabilities that are
bounded from votes: :func:`certify` with the fixed number of samples of Cohen et
al., :func:`certify_sequential` with as many as each input needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import norm
from torch import Tensor, nn

from radii import progress
from radii.certificates.certificate import Certificate
from radii.certificates.methods import Request
from radii.certificates.smoothing._noise import ASSUMPTIONS, BATCH, Voting, to_grid
from radii.certificates.smoothing._radius_ladder import Ladder, LadderPosition, rounds
from radii.certificates.smoothing._sequential_binomial import DOWN
from radii.confidence_interval import lower_limits
from radii.errors import InputError
from radii.models.classifier import check_inputs
from radii.networks.calling import frozen
from radii.networks.model_state import ModelState
from radii.randomness import stream_seed
from radii.threat import Box

CLIP = 0.01  # of the frequencies of an estimate, as Prach & Lampert 2025 clip them


@dataclass(frozen=True, repr=False)
class SmoothedCertificate(Certificate):
    """A certificate of the smoothed classifier, with the noisy samples it took: [n] int64."""

    sigma: float = 0.0
    samples: Tensor | None = None


def certify(
    model: nn.Module,
    x: Tensor,
    sigma: float,
    *,
    samples: int = 10_000,
    selection: int = 100,
    alpha: float = 0.001,
    simultaneous: bool = False,
    seed: int = 0,
    box: Box | None = (0.0, 1.0),
    batch: int = BATCH,
) -> SmoothedCertificate:
    """CERTIFY of Cohen et al. 2019: the radius sigma * Phi^-1(p) of a lower bound p of the top class's probability.

    Guarantee: an answer is wrong or its radius too large with probability at most ``alpha`` for each input, or,
    if ``simultaneous``, for any of them (alpha divided by their number).

    Args:
        x: inputs [n, …] in ``box``.
        samples: votes that give the exact Clopper-Pearson bound; default 10,000.
        selection: votes before them that choose the class; default 100.
        alpha: error probability; default 0.001.
        simultaneous: one alpha for all inputs together; default False.
        seed: seed of the noise; default 0.
        box: the least and the greatest value of an input; default (0, 1), None: no limit.
    """
    level = _level(alpha, len(x), simultaneous)
    with frozen(model):
        votes, moved = _voting(model, x, sigma, seed, box, batch)
        _draw_all(votes, selection, "selecting")
        top = _classes(votes).argmax(1)
        votes.counts[:] = 0
        _draw_all(votes, samples, "certifying")
    won = _classes(votes)[np.arange(len(top)), top]
    p = lower_limits(won, samples, level) - votes.noise.tails(x[0].numel())
    radius = sigma * norm.ppf(np.clip(p, 0.5, None)) * DOWN - moved.numpy()
    sure = torch.from_numpy(radius) > 0
    return SmoothedCertificate(
        prediction=torch.where(sure, torch.from_numpy(top), -1),
        radius=torch.from_numpy(radius).clamp_min(0),
        norm="l2",
        kind="probabilistic",
        method=f"smoothing, sigma {sigma:g}, {samples:,} samples",
        alpha=level,
        assumptions=(*ASSUMPTIONS, _about(alpha, len(x), simultaneous)),
        state=ModelState.of(model),
        sigma=sigma,
        samples=torch.full((len(x),), selection + samples),
    )


def certify_sequential(
    model: nn.Module,
    x: Tensor,
    sigma: float,
    radii: Sequence[float],
    *,
    most: int = 100_000,
    alpha: float = 0.001,
    simultaneous: bool = False,
    seed: int = 0,
    box: Box | None = (0.0, 1.0),
    batch: int = BATCH,
) -> SmoothedCertificate:
    """The largest of ``radii`` that can be proved for each input, with samples only until that is sure.

    Each radius is an exact group-sequential test of P(class) <= Phi(r / sigma) on the same votes. A radius
    counts if all smaller ones pass too: of nested hypotheses only the first true one can err, so several radii
    cost no alpha. No votes are needed to select a class: above one half there is only one (see
    :func:`~radii.certificates.smoothing._sequential_binomial.sequential_test`). Guarantee as for :func:`certify`.

    Args:
        x: inputs [n, …] in ``box``.
        most: the largest number of votes for each input; default 100,000.
        alpha: error probability; default 0.001.
        simultaneous: one alpha for all inputs together; default False.
        seed: seed of the noise; default 0.
        box: the least and the greatest value of an input; default (0, 1), None: no limit.
    """
    level = _level(alpha, len(x), simultaneous)
    with frozen(model):
        votes, _ = _voting(model, x, sigma, seed, box, batch)
        ladder = Ladder.of(sigma, radii, x[0].numel(), votes.counts.shape[1] - 1, level, most)
        positions = [LadderPosition(ladder) for _ in range(len(x))]
        with progress.task("certifying", len(x), "images") as bar:
            for wanted in rounds(positions, batch):
                votes.draw(wanted)
                for row, _ in wanted:
                    if positions[row].due == 0:
                        positions[row].judge(_classes(votes)[row])
                        bar.advance(positions[row].done)
    steps = torch.tensor([position.height for position in positions])
    reached = torch.tensor([0.0, *ladder.radii], dtype=torch.float64)[steps]
    return SmoothedCertificate(
        prediction=torch.where(steps > 0, torch.tensor([position.top for position in positions]), -1),
        radius=reached,
        norm="l2",
        kind="probabilistic",
        method=f"smoothing, sigma {sigma:g}, sequential up to {most:,} samples",
        alpha=level,
        assumptions=(*ASSUMPTIONS, _about(alpha, len(x), simultaneous)),
        state=ModelState.of(model),
        sigma=sigma,
        samples=torch.from_numpy(votes.counts.sum(1)),
    )


def largest_estimate(sigma: float, clip: float = CLIP) -> float:
    """The radius that no :func:`estimate` exceeds, whatever the votes: sigma * Phi^-1(1 - clip)."""
    return float(sigma * norm.ppf(1 - clip))


def estimate(
    model: nn.Module,
    x: Tensor,
    sigma: float = 1 / 8,
    *,
    samples: int = 1000,
    clip: float = CLIP,
    seed: int = 0,
    box: Box | None = (0.0, 1.0),
    batch: int = BATCH,
) -> SmoothedCertificate:
    """The plug-in radius sigma/2 (Phi^-1(p1) - Phi^-1(p2)) of Prach & Lampert 2025, Eq. 12: no certificate.

    p1 and p2 are the observed frequencies of the two leading classes, so nothing is proved.

    Args:
        x: inputs [n, …] in ``box``.
        sigma: standard deviation of the noise; default 1/8.
        samples: votes for each input; default 1,000.
        clip: frequencies are clipped to [clip, 1 - clip], so no radius exceeds sigma * Phi^-1(1 - clip); default 0.01.
        seed: seed of the noise; default 0.
        box: the least and the greatest value of an input; default (0, 1), None: no limit.
    """
    with frozen(model):
        votes, _ = _voting(model, x, sigma, seed, box, batch)
        _draw_all(votes, samples, "estimating")
    share = np.clip(np.sort(_classes(votes), 1)[:, -2:] / samples, clip, 1 - clip)
    second, first = norm.ppf(share).T
    return SmoothedCertificate(
        prediction=torch.from_numpy(_classes(votes).argmax(1)),
        radius=torch.from_numpy(sigma / 2 * (first - second)),
        norm="l2",
        kind="estimate",
        method=f"smoothing estimate, sigma {sigma:g}, {samples:,} samples",
        sigma=sigma,
        samples=torch.full((len(x),), samples),
    )


def certify_request(request: Request) -> SmoothedCertificate:
    """:func:`certify_sequential` for a ``request`` of the table of methods."""
    return certify_sequential(
        request.model,
        request.x,
        _noise(request),
        request.radii,
        most=request.samples,
        alpha=request.alpha,
        simultaneous=request.simultaneous,
        seed=request.seed,
        box=request.ball.box,
    )


def estimate_request(request: Request) -> SmoothedCertificate:
    """:func:`estimate` for a ``request`` of the table of methods."""
    return estimate(request.model, request.x, _noise(request), seed=request.seed, box=request.ball.box)


def _noise(request: Request) -> float:
    if request.sigma is None:
        raise InputError(f"The method {request.method!r} needs the noise that the model was trained with: sigma.")
    return request.sigma


def _voting(model: nn.Module, x: Tensor, sigma: float, seed: int, box: Box | None, batch: int) -> tuple[Voting, Tensor]:
    check_inputs(x, box)
    near, moved = to_grid(x)
    return Voting.of(model, near, sigma, stream_seed(seed, "smoothing"), batch), moved.cpu()


def _draw_all(votes: Voting, samples: int, what: str) -> None:
    if samples < 1:
        raise InputError(f"Smoothing needs at least one sample, got {samples} instead.")
    with progress.task(what, len(votes.x), "images") as bar:
        for row in range(len(votes.x)):
            votes.draw([(row, samples)])
            bar.advance()


def _classes(votes: Voting) -> NDArray[np.int64]:
    """Votes for real classes: [n, classes]."""
    return votes.counts[:, :-1]


def _level(alpha: float, n: int, simultaneous: bool) -> float:
    if not 0 < alpha < 1:
        raise InputError(f"alpha must lie between 0 and 1, got {alpha:g} instead.")
    return alpha / n if simultaneous else alpha


def _about(alpha: float, n: int, simultaneous: bool) -> str:
    if simultaneous:
        return f"all {n:,} statements hold together with probability at least {1 - alpha:g} (Bonferroni)"
    return (
        f"each of {n:,} statements is wrong with probability at most {alpha:g}; up to {alpha * n:.3g} may be expected"
    )
