"""Certificates and attacks together: proved radii in a norm, and contradictions between the two."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import binom
from torch import Tensor

from radii.certificates.certificate import Certificate
from radii.errors import ContradictionError, InputError
from radii.models.classifier import predicted_class
from radii.threat import Norm, converted

CHANCE = 1e-6  # a probabilistic certificate is contradicted if so many failures have a smaller probability


def proved_in(
    certificate: Certificate | None, norm: Norm, x: Tensor, prediction: Tensor
) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """Per point, the radius in ``norm`` that is proved for the model's prediction, and notes about it.

    Args:
        certificate: the certificate, or None.
        norm: the norm of the result; radii in another norm are converted.
        x: the inputs [n, …].
        prediction: the model's predictions [n].

    Raises:
        InputError: the certificate has another number of points.
        ContradictionError: the certificate is about other predictions.
    """
    if certificate is None:
        return np.zeros(len(x)), ()
    if len(certificate.radius) != len(x):
        raise InputError(f"The certificate must have one row per point: {len(x)}, got {len(certificate.radius)}.")
    if not certificate.is_certified:
        return np.zeros(len(x)), (f"{certificate.method} is an estimate: nothing counts as proved.",)
    other = (certificate.prediction >= 0) & (certificate.radius > 0) & (certificate.prediction != prediction.cpu())
    if bool(other.any()):
        raise ContradictionError(
            f"The certificate ({certificate.method}) and the model predict different classes on {int(other.sum())} "
            "of the points: it belongs to another model or to other points."
        )
    radius = torch.where(certificate.prediction >= 0, certificate.radius.double(), 0.0)
    notes: tuple[str, ...] = ()
    if certificate.norm != norm:
        radius = converted(radius, certificate.norm, norm, x[0].numel())
        notes += (f"The certificate is in {certificate.norm}; its radii were converted to {norm}.",)
    if certificate.alpha is not None:
        notes += (f"Proved up to an error probability of {certificate.alpha:g} per point.",)
    return radius.numpy(), notes


def reconciled(
    nearest: Tensor,
    prediction: Tensor,
    proved: NDArray[np.float64],
    broken: NDArray[np.float64],
    certificate: Certificate | None,
) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """The proved radii, each at most the broken radius of its point, and notes about those that were lowered.

    A proved radius above a broken one has two explanations. Rounding: the certificate is about exact
    arithmetic, and the certified function does not err at the misclassified input. Chance: a probabilistic
    certificate may fail on a share alpha of the points.

    Args:
        nearest: the nearest misclassified input of each point [n, …].
        prediction: the predictions [n].
        proved: the proved radii [n].
        broken: the distances of ``nearest`` [n].
        certificate: the certificate, or None.

    Raises:
        ContradictionError: neither explanation holds.
    """
    over = np.flatnonzero(proved > broken * (1 + 1e-6) + 1e-7)
    if certificate is None or not len(over):
        return proved, ()
    rounding = _rounding_only(certificate, nearest[over], prediction[over])
    false = over[~rounding]
    allowed = 0.0 if certificate.alpha is None else float(binom.isf(CHANCE, len(proved), certificate.alpha))
    if len(false) > allowed:
        first = int(false[0])
        raise ContradictionError(
            f"{len(false)} of {len(proved)} points are broken inside their proved radius; point {first}: "
            f"proved {proved[first]:.6g}, broken {broken[first]:.6g} ({certificate.method}). "
            "The certificate or its model is wrong."
        )
    notes = []
    if rounding.any():
        notes.append(f"{int(rounding.sum())} proved radii were cut by the rounding of float32.")
    if len(false):
        notes.append(f"{len(false)} points break a probabilistic certificate, as alpha allows; they count as broken.")
    return np.minimum(proved, np.where(np.isin(np.arange(len(proved)), over), broken, np.inf)), tuple(notes)


def _rounding_only(certificate: Certificate, nearest: Tensor, prediction: Tensor) -> NDArray[np.bool_]:
    """Where the function that was certified keeps its prediction at these inputs: [m] bool.

    A certificate that covers float32 speaks about the model itself, and rounding is no excuse.
    """
    if certificate.exact_logits is None:
        return np.zeros(len(nearest), bool)
    with torch.no_grad():
        return (predicted_class(certificate.exact_logits(nearest.double().cpu())) == prediction.cpu()).numpy()
