"""Evaluate a scikit-learn pipeline: no gradients, so the suite is black-box (Square)."""

from __future__ import annotations

from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import radii

data = radii.load("digits")
x, y = (part.numpy() for part in data.train.tensors())
pipeline = make_pipeline(PCA(32), LogisticRegression(max_iter=500)).fit(x.reshape(len(x), -1), y)

test, labels = data.test.tensors(slice(0, 16))
scores = radii.evaluate(pipeline, test, labels, "linf:0.3")
print("clean", scores.clean)
print("robust at most", scores.robust.unbroken)
print("queries", sum(scores.passes.values()))
