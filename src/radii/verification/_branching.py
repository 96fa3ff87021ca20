"""Which sign to split next: the best of a few candidates, each tried by one backward pass.

Candidates are the ReLUs whose relaxation loses most (BaBSR, Bunel et al. 2018); trying
them is filtered smart branching (FSB, De Palma et al. 2021).
"""

from __future__ import annotations

import torch
from torch import Tensor

from radii.verification._beta_crown import SignBatch

CANDIDATES = 4  # ReLUs whose split is tried before one is chosen


def choose_splits(batch: SignBatch, left: Tensor, most: int) -> list[tuple[int, int] | None]:
    """For each row the ReLU whose two halves bound best, among those that lose most.

    Returns:
        The ReLU's source value and coordinate; None where every sign is fixed.
    """
    losses = []
    for place, A in batch.meetings.items():
        if place not in batch.engine.relus:
            continue
        source = batch.sources[place]
        low, high = batch.known.lower[source][left], batch.known.upper[source][left]
        _, _, lift = batch.engine.relus[place].relaxation(low, high)
        rows = A[left]
        below = torch.minimum(high, -low) * 0.5
        loss = torch.where(lift > 0, rows.clamp_min(0) * below - rows.clamp_max(0) * lift + 1e-12, 0.0)
        losses.append((source, loss))
    if not losses:  # no ReLU is left to split: the open layers are steps or clamps
        return [None] * len(left)
    flat = torch.cat([loss for _, loss in losses], 1)
    value, spot = flat.topk(min(CANDIDATES, flat.shape[1]), 1)
    owner = torch.cat([torch.full((loss.shape[1],), source) for source, loss in losses])
    coordinate = torch.cat([torch.arange(loss.shape[1]) for _, loss in losses])
    best = _tried(batch, most, left, owner[spot], coordinate[spot], value)
    owners, places = owner[spot].tolist(), coordinate[spot].tolist()
    splittable = (value[:, 0] > 0).tolist()
    return [(owners[row][k], places[row][k]) if splittable[row] else None for row, k in enumerate(best.tolist())]


def _tried(batch: SignBatch, most: int, left: Tensor, owner: Tensor, place: Tensor, value: Tensor) -> Tensor:
    """Which candidate [rows, k] gives the best pair of bounds, by one backward pass each: [rows]."""
    count, tries = owner.shape
    parts = [
        _trial(batch, left[rows], owner[rows], place[rows])
        for rows in torch.arange(count).split(max(1, most // (2 * tries)))
    ]
    pairs = torch.cat(parts).clamp_max(0)  # [rows, k, 2]
    scores = pairs.sum(2) + 0.5 * pairs.amin(2)
    return torch.where(value > 0, scores, -torch.inf).nan_to_num(-1e30, -1e30, -1e30).argmax(1)


def _trial(batch: SignBatch, left: Tensor, owner: Tensor, place: Tensor) -> Tensor:
    """Bounds of both halves of each candidate: [rows, k, 2]."""
    count, tries = owner.shape
    rows = left.repeat_interleave(2 * tries)
    known = batch.known[rows]
    sign = torch.tensor([1, -1]).repeat(count * tries)
    owners, places = owner.flatten().repeat_interleave(2), place.flatten().repeat_interleave(2)
    for source in owners.unique().tolist():
        mine = owners == source
        spots = torch.nonzero(mine)[:, 0]
        known.fix_signs(source, spots, places[mine], sign[mine])
    full = {source: value[rows] for source, value in batch.full(batch.betas).items()}
    alphas = {number: slopes[rows] for number, slopes in batch.alphas.items()}
    matrix, offset = batch.weighted(batch.weights)
    output = batch.engine.program.output
    bound = batch.engine.lower(known, output, matrix.to(batch.dtype)[rows], None, alphas, full)
    return (bound - offset[rows]).view(count, tries, 2)
