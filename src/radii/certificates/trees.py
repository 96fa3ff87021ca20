"""Exact certificates of tree ensembles: no row within the radius has another class, by branch and bound.

Thresholds are compared as the library compares them, for float32 and float64 inputs. Sums are exact up to a bound
of the library's rounding; rows whose scores are nearer than this are decided by the library itself.
"""

from __future__ import annotations

import torch

from radii import progress
from radii.certificates.certificate import Certificate
from radii.certificates.methods import Request
from radii.errors import OtherKindError
from radii.models.adapter import BlackBox
from radii.models.classifier import check_inputs, predict
from radii.models.estimators import check_words
from radii.models.feature_reach import Reach
from radii.networks.model_state import ModelState

ASSUMPTIONS = (
    "a tree ensemble: equal leaves give equal scores; it was read from the model and compared with it at the inputs "
    "and at thresholds",
)


def certify_request(request: Request) -> Certificate:
    """The radii of the tree ensemble of ``request``, as far as the work for each input allows; others are refused."""
    model, x, ball = request.model, request.x.float(), request.ball
    if not isinstance(model, BlackBox):
        raise OtherKindError("The model is a network, no tree ensemble.")
    from radii.models.trees.read import check_reading, tree_search  # loads numba

    check_words(model.estimator, ball)
    trees = tree_search(model, tuple(x.shape[1:]))
    check_inputs(x, ball.box)
    prediction, reach = predict(model, x).cpu(), Reach.of(ball, x)
    check_reading(trees, reach)
    radius = torch.zeros(len(x), dtype=torch.float64)
    with progress.task("searching trees", len(x), "points") as bar:
        for row, label in enumerate(prediction.tolist()):
            if label >= 0:
                radius[row] = trees.nearest(reach, row, label).proved
            bar.advance()
    return Certificate(
        prediction=prediction,
        radius=radius,
        norm=ball.norm,
        kind="deterministic",
        method="trees",
        assumptions=ASSUMPTIONS,
        scale=ball.scale,
        state=ModelState.of(model),
    )
