"""The affine scores of whatever is linear: an estimator or a torch network."""

from __future__ import annotations

from torch import nn

from radii.errors import InputError
from radii.models.adapter import BlackBox
from radii.models.linear.affine_scores import AffineScores, of_module


def affine_scores(model: nn.Module, input_shape: tuple[int, ...]) -> AffineScores:
    """The scores of ``model`` on inputs of ``input_shape``; a model that is not linear is refused with the reason."""
    if not isinstance(model, BlackBox):
        return of_module(model, input_shape)
    if model.estimator is None:
        raise InputError("The model is a function, whose weights cannot be read.")
    from radii.models.linear.estimators import of_estimator  # networks are read without it

    return of_estimator(model.estimator)
