"""The affine scores of whatever is linear: an estimator or a torch network."""

from __future__ import annotations

from torch import nn

from radii.errors import InputError
from radii.models.adapter import BlackBox
from radii.models.linear.affine_scores import AffineScores, of_module
from radii.threat import Ball


def affine_scores(model: nn.Module, input_shape: tuple[int, ...], ball: Ball | None = None) -> AffineScores:
    """The scores of ``model`` on inputs of ``input_shape``; a model that is not linear is refused with the reason.

    Args:
        ball: in which the scores are those of the model; the features of words must keep or swap their 1 in it.
    """
    if not isinstance(model, BlackBox):
        return of_module(model, input_shape)
    if model.estimator is None:
        raise InputError("The model is a function, whose weights cannot be read.")
    from radii.models.estimators import OnColumns, check_words
    from radii.models.linear.estimators import of_estimator  # networks are read without it

    if isinstance(model.estimator, OnColumns):
        if ball is not None:
            check_words(model.estimator, ball)
        from radii.models.linear.table_columns import of_columns

        return of_columns(model.estimator)
    return of_estimator(model.estimator)
