"""Compile the numba kernels once, before several test processes would each compile them for themselves.

``make test`` runs this first. Numba keeps what it compiled beside the source, so a second run takes a moment.
"""

from __future__ import annotations

import numpy as np
import torch
from sklearn.ensemble import RandomForestClassifier
from torch import nn

import radii
from radii.geometry.search.neighbors import nearest


def main() -> None:
    """Call every kernel with the types that the tests use."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 60)
    for norm in ("l1", "l2", "linf"):
        for x in (rng.integers(0, 256, (60, 40), np.uint8), rng.random((60, 40), np.float32), rng.random((60, 40))):
            nearest(x, y, norm=norm)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 12), nn.ReLU(), nn.Linear(12, 3)).eval()
    points = torch.rand(4, 6)
    for method in ("crown", "alpha-crown", "sdp-crown", "complete"):
        for threat in ("linf:0.05", "l2:0.05"):
            try:
                radii.certify(net, points, method, threat)
            except radii.InputError:  # no such method for this norm
                continue
    labels = rng.integers(0, 2, 40)
    forest = RandomForestClassifier(4, max_depth=3, random_state=0).fit(rng.random((40, 6)), labels)
    for norm in ("linf", "l2"):
        radii.certify(forest, points, "trees", f"{norm}:0.1")
    radii.certify(net, points[:1], "smoothing", "l2:0.1", samples=1000, sigma=0.25)


if __name__ == "__main__":
    main()
