"""Tiny ReLU networks whose least margin over a box is computed exactly as a mixed-integer program."""

from __future__ import annotations

import numpy as np
import torch
from scipy.optimize import Bounds, LinearConstraint, milp
from torch import Tensor, nn

import radii
from campaign.tally import SECONDS, Tally, methods_for, points_inside
from radii.errors import InputError

BIG = 50.0  # larger than any value inside these networks


def least_margin(model: nn.Sequential, x: np.ndarray, radius: float, own: int, rival: int) -> float:
    """min over |z - x|_inf ≤ radius, z in [0, 1], of logit ``own`` minus logit ``rival``; one hidden layer.

    Variables: z, hidden h ≥ 0, switches s in {0, 1}: h ≥ a, h ≤ a + BIG (1 - s), h ≤ BIG s, where a = Wz + b.
    """
    w, b = model[0].weight.double().numpy(), model[0].bias.double().numpy()
    v, c = model[2].weight.double().numpy(), model[2].bias.double().numpy()
    hidden, features = w.shape
    cost = np.concatenate([np.zeros(features), v[own] - v[rival], np.zeros(hidden)])
    eye, zero = np.eye(hidden), np.zeros((hidden, features))
    rows = np.block([[-w, eye, 0 * eye], [-w, eye, BIG * eye], [zero, eye, -BIG * eye]])
    low = np.concatenate([b, np.full(2 * hidden, -np.inf)])
    high = np.concatenate([np.full(hidden, np.inf), b + BIG, np.zeros(hidden)])
    lower = np.concatenate([np.maximum(x - radius, 0), np.zeros(2 * hidden)])
    upper = np.concatenate([np.minimum(x + radius, 1), np.full(hidden, BIG), np.ones(hidden)])
    integrality = np.concatenate([np.zeros(features + hidden), np.ones(hidden)])
    solved = milp(
        cost, constraints=LinearConstraint(rows, low, high), bounds=Bounds(lower, upper), integrality=integrality
    )
    return float(solved.fun + c[own] - c[rival])


def inputs_of(center: Tensor, radius: float, count: int) -> Tensor:
    """A dense grid of the box around one input [features]; random corners and inner points of many features."""
    features = len(center)
    if features > 3:
        generator = torch.Generator().manual_seed(0)
        return points_inside(center[None], torch.tensor([radius]), "linf", count // 8, generator)[:, 0]
    side = max(int(count ** (1 / features)), 10)
    axes = [torch.linspace(max(c - radius, 0), min(c + radius, 1), side) for c in center.tolist()]
    return torch.cartesian_prod(*axes).float()


def trial(seed: int, count: int) -> Tally:
    """Prove radii, then ask for the exact least margin at the largest, and the network at many inputs.

    Complete proofs split the inputs where these are 2 or 3 (odd seeds), and ReLUs where they are 24.
    """
    torch.manual_seed(seed)
    features = 2 + seed // 2 % 2 if seed % 2 else 24
    model = nn.Sequential(nn.Linear(features, 6), nn.ReLU(), nn.Linear(6, 3)).eval().requires_grad_(False)
    model[2].weight.mul_(3.0)
    x, tally, proofs = torch.rand(1, features), Tally(networks=1), []
    for method in methods_for("linf"):
        try:
            proof = radii.certify(model, x, method=method, norm="linf", radii=(0.02, 0.05, 0.1, 0.2), seconds=SECONDS)
        except InputError:
            tally.refused += 1
        else:
            proofs += [proof] if float(proof.radius[0]) > 0 else []
    if not proofs:
        return tally
    largest, own = max(float(proof.radius[0]) for proof in proofs), int(proofs[0].prediction[0])
    center = x[0].double().numpy()
    exact = min(least_margin(model, center, largest, own, rival) for rival in range(3) if rival != own)
    points = inputs_of(x[0], largest, count)
    tally.certificates += len(proofs)
    tally.points += len(points)
    if exact < -1e-6 or bool((model(points).argmax(1) != own).any()):
        tally.false += 1
        tally.notes.append(f"exact {seed}: proved {largest}, least margin {exact}")
    return tally
