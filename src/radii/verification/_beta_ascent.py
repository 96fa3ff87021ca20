"""Ascent in slopes, multipliers and weights of domains, together; the best parameters of each domain are kept."""

from __future__ import annotations

import torch
from torch import Tensor

from radii.bounds.alpha_crown import Adam, lower_with_slopes
from radii.verification._beta_crown import SignBatch

ROUND, STALLED = 5, 0.005  # so many steps must raise an open bound by this share of it, or the ascent ends


def ascend(batch: SignBatch, steps: int) -> None:
    """Raise the bounds of ``batch``, in place.

    Args:
        steps: at most.
    """
    alphas = {place: value.clone() for place, value in batch.alphas.items()}
    betas = {source: value.clone() for source, value in batch.betas.items()}
    weights = batch.weights.clone()
    climb = Climb(batch, alphas, betas, weights)
    before = batch.best
    for step in range(steps):
        bound = climb.bound()
        batch.keep(bound > batch.best, bound, alphas, betas, weights)
        open_ = batch.best <= 0
        done = step == steps - 1 or not bool(open_.any())
        if step % ROUND == ROUND - 1:
            done = done or not bool((batch.best - before > STALLED * batch.best.abs())[open_].any())
            before = batch.best
        if done or not climb.step():
            break


class Climb:
    """Steps of gradient ascent of one batch's parameters, which are changed in place."""

    def __init__(self, batch: SignBatch, alphas: dict[int, Tensor], betas: dict[int, Tensor], weights: Tensor) -> None:
        self.batch, self.alphas, self.betas, self.weights = batch, alphas, betas, weights
        self.several = weights.shape[1] > 1
        relus = batch.engine.relus
        self.adam = {("alpha", place): Adam(value, 0.25, relus[place].slope, 1.0) for place, value in alphas.items()}
        self.adam |= {("beta", source): Adam(value, 0.1, 0.0, torch.inf) for source, value in betas.items()}
        if self.several:
            self.adam["weight", 0] = Adam(weights, 0.1, 0.0, torch.inf)
        self.grads: dict[tuple[str, int], Tensor] = {}

    def bound(self) -> Tensor:
        """Bounds with the present parameters, and their gradients for the next step."""
        batch = self.batch
        rows, constant = batch.objective(self.weights)
        output = batch.engine.program.output
        met = lower_with_slopes(batch.engine, batch.known, output, rows, None, self.alphas, batch.full(self.betas))
        self.grads = {("alpha", place): grad for place, grad in met.by_alpha.items()}
        for source, signs in batch.signs.items():
            self.grads["beta", source] = -signs * met.values[source][tuple(batch.index[source])]
        if self.several:
            reached = (batch.matrix @ met.values[output].double()[:, :, None])[:, :, 0] - batch.limit
            self.grads["weight", 0] = reached.to(batch.dtype)
        return met.bound + constant

    def step(self) -> bool:
        """Move the parameters; False if nothing moves."""
        for name, grad in self.grads.items():
            self.adam[name].step(grad)
        if self.several:
            self.weights.mul_((self.batch.matrix.abs().sum(2) > 0).to(self.batch.dtype))
            self.weights.div_(self.weights.sum(1, keepdim=True).clamp_min(1e-6))
        return bool(self.grads)
