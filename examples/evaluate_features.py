"""Two classes, three classes, and features instead of images: the suites choose their losses themselves."""

from __future__ import annotations

import torch
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.preprocessing import minmax_scale
from torch import nn

import radii

for load in (load_breast_cancer, load_wine):
    table = load()
    x = torch.tensor(minmax_scale(table.data), dtype=torch.float32)  # every feature in [0, 1]: a radius means a share
    y = torch.tensor(table.target)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(x.shape[1], 32), nn.ReLU(), nn.Linear(32, len(table.target_names)))
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(100):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    rows = slice(0, None, 8)
    scores = radii.evaluate(model.eval(), x[rows], y[rows], radii.Ball("linf", 0.05), suite="fast")
    print(f"{len(table.target_names)} classes, {x.shape[1]} features: clean {scores.clean}")
    print(f"  robust at most {scores.robust.unbroken}, alarms {[alarm.name for alarm in scores.alarms]}")
