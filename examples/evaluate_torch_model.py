"""Evaluate a plain torch model, and the same model with normalization inside (as timm models need it)."""

from __future__ import annotations

import torch
from torch import nn

import radii

data = radii.load("digits")
x, y = data.train.tensors()
mean, std = 0.305, 0.376  # of the pixels; a timm model brings its own in model.default_cfg

torch.manual_seed(0)
backbone = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
# The network expects normalized images. Inside radii.Classifier it takes pixels in [0, 1],
# so a radius means pixels and the attack stays in the box.
model = radii.Classifier(backbone, mean=mean, std=std)
optimizer = torch.optim.Adam(model.parameters(), 3e-3)
for _ in range(20):
    for rows in torch.randperm(len(x)).split(100):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
        optimizer.step()

test, labels = data.test.tensors(slice(0, 60))
scores = radii.evaluate(model.eval(), test, labels, radii.Ball("linf", 0.1), suite="fast")
print("clean", scores.clean)
print("robust at most", scores.robust.unbroken)
print("median broken radius", round(scores.radius_quantiles()["median"] or 0, 3))

try:  # the commonest mistake: images normalized outside of the model
    radii.evaluate(backbone, (test - mean) / std, labels, radii.Ball("linf", 0.1), suite="fast")
except radii.InputError as error:
    print("refused:", error)
