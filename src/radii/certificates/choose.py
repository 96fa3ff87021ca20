"""One door to all certificates: by name, or the strongest that a model allows, with the reason."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from torch import Tensor, nn

from radii.certificates import bounds, lipschitz, nearest
from radii.certificates.bounds.network import build
from radii.certificates.bounds.tracing import trace
from radii.certificates.certificate import Certificate
from radii.certificates.smoothing import randomized
from radii.errors import InputError, unknown_name
from radii.models.lipschitz.network_bound import lipschitz_bound
from radii.threat import Box, Norm

METHODS = ("margin", "smoothing", "estimate", "ibp", "crown-ibp", "crown", "alpha-crown", "wong-kolter", "nearest")
RADII = tuple(level / 255 for level in (1, 2, 4, 8, 16, 36, 72, 108, 144, 255))
TIGHT = 2.0  # a proved Lipschitz constant up to this is one that was trained for


@dataclass(frozen=True)
class Settings:
    """What the methods need besides a model and inputs; each reads its own.

    ``sigma`` is the noise of smoothing, ``most`` its samples an input at most,
    ``together`` asks for one alpha over all inputs; ``stored`` are the points of
    the nearest-neighbor classifier.
    """

    radii: Sequence[float]
    norm: Norm = "l2"
    sigma: float | None = None
    alpha: float = 0.001
    most: int = 100_000
    together: bool = False
    seed: int = 0
    box: Box | None = (0.0, 1.0)
    stored: tuple[Tensor, Tensor] | None = None


@dataclass(frozen=True)
class Choice:
    """A method's name and why it is the one to use."""

    method: str
    why: str


def strongest(model: nn.Module, input_shape: tuple[int, ...], norm: Norm = "l2", sigma: float | None = None) -> Choice:
    """The strongest certificate that ``model`` allows.

    A noise level asks for smoothing. A proved Lipschitz constant that was
    trained for gives L2 margins; layers with bounds give CROWN; for anything
    else smoothing is left, which needs to know its noise.
    """
    if sigma is not None and norm == "l2":
        return Choice("smoothing", f"noise of sigma {sigma:g} was given, and smoothing certifies any model under it")
    value = float("inf")
    if norm == "l2":
        with suppress(InputError):
            value = lipschitz_bound(model, input_shape, prove=False).value
        if value <= TIGHT:
            return Choice("margin", f"the network is proved {value:.4g}-Lipschitz, so a margin is a radius")
    try:
        build(trace(model, input_shape))
    except InputError as error:
        if value < float("inf"):  # a quick bound of residual layers is loose; the proof made for a margin is not
            return Choice("margin", "its layers have Lipschitz bounds, and no tighter certificate fits")
        raise InputError(
            f"No deterministic certificate fits this model: {error} For smoothing give --sigma, "
            "the noise that the model was trained with."
        ) from error
    return Choice("crown", "every layer has bounds, and no small Lipschitz constant is proved")


def certificate(method: str, model: nn.Module, x: Tensor, settings: Settings) -> Certificate:
    """The certificate called ``method`` for inputs ``x`` [n, …]."""
    if method not in METHODS:
        raise unknown_name("certificate", method, (*METHODS, "auto"))
    if method in ("margin", "smoothing", "estimate") and settings.norm != "l2":
        raise InputError(f"The method {method!r} certifies l2 balls, got {settings.norm!r} instead; try crown.")
    if method == "margin":
        return lipschitz.certify(model, x)
    if method == "nearest":
        if settings.stored is None:
            raise InputError("The nearest-neighbor certificate needs the stored points.")
        return nearest.certify(x, settings.stored, settings.norm)
    if method in bounds.METHODS:
        return bounds.certify(model, x, settings.radii, settings.norm, method, box=settings.box)
    if settings.sigma is None:
        raise InputError(f"The method {method!r} needs the noise that the model was trained with: sigma.")
    if method == "estimate":
        return randomized.estimate(model, x, settings.sigma, seed=settings.seed, box=settings.box)
    return randomized.certify_sequential(
        model,
        x,
        settings.sigma,
        settings.radii,
        most=settings.most,
        alpha=settings.alpha,
        simultaneous=settings.together,
        seed=settings.seed,
        box=settings.box,
    )


def certify(model: nn.Module, x: Tensor, method: str = "auto", settings: Settings | None = None) -> Certificate:
    """Certify the predictions of ``model`` on ``x`` [n, …].

    Args:
        model: a network from inputs to logits.
        x: inputs [n, …], in [0, 1].
        method: one of :data:`METHODS`, or ``auto`` for the strongest that the model allows.
        settings: what a method needs besides: norm, the radii to try, the noise of smoothing.
    """
    wanted = settings or Settings(radii=RADII)
    if method == "auto":
        method = strongest(model, tuple(x.shape[1:]), wanted.norm, wanted.sigma).method
    return certificate(method, model, x, wanted)
