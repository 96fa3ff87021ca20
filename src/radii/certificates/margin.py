"""Margins: layer by layer, by the graph of a network that branches, in Linf for Linf distances, or of prototypes."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor, nn

from radii.certificates import lipschitz
from radii.certificates.certificate import Certificate
from radii.certificates.methods import Request
from radii.errors import InputError
from radii.models.layers.plain_layers import Residual
from radii.models.lipschitz.network_bound import LipschitzBound, lipschitz_bound
from radii.threat import Ball

# known by their import paths, so that other networks do not load them
DISTANCES, PROTOTYPES = "radii.models.zoo.linf_distance:LinfDistanceNetwork", "radii.models.zoo.prototypes:Prototypes"
TIGHT = 2.0  # a network with a Lipschitz constant up to this was trained to have a small one


def certify_request(request: Request) -> Certificate:
    """The margins that a ``request`` asks for as radii in L2; of networks of Linf distances in Linf balls, in Linf.

    A radius in L2 holds in L1 too, whose ball is smaller. The margins of prototypes are distances to their faces, in
    every norm.

    For ``auto`` norms of layers are proved only where the network was trained to have small ones.
    """
    model, x, norm, quick = request.model, request.x, request.ball.norm, request.passes is not None
    proof = _of_distances(model, x, request.ball)
    if proof is not None:
        names = tuple(proof.method if radius > 0 else "" for radius in proof.radius.tolist())
        return replace(proof, methods=names) if quick else proof
    if norm == "linf" and not quick:
        raise InputError(f"The method 'margin' certifies l2 balls of this network, got {norm!r} instead; try auto.")
    try:
        bound = cheapest_bound(model, tuple(x.shape[1:])) if quick else None
        return lipschitz.certify(model, x, bound, arithmetic=request.arithmetic)
    except InputError as refusal:
        from radii.certificates import _graph_margin as graph_margin

        if request.arithmetic != "float32":
            raise
        try:
            return graph_margin.certify(model, x, prove=not quick)
        except InputError:
            raise refusal from None


def _of_distances(model: nn.Module, x: Tensor, ball: Ball) -> Certificate | None:
    """The radii of a network whose logits are distances; None for other networks."""
    kind = f"{type(model).__module__}:{type(model).__qualname__}"
    if ball.norm == "linf" and kind == DISTANCES:
        from radii.certificates import _linf_margin as linf_margin

        return linf_margin.certify(model, x)
    if kind == PROTOTYPES:
        from radii.certificates import prototype_faces

        return prototype_faces.certify(model, x, ball.norm, ball.box)
    return None


def cheapest_bound(model: nn.Module, input_shape: tuple[int, ...]) -> LipschitzBound:
    """A Lipschitz bound of ``model`` on ``input_shape``: quick, or proved where it was trained to have a small one."""
    quick = lipschitz_bound(model, input_shape, prove=False)
    return lipschitz_bound(model, input_shape) if _is_trained_for(quick) else quick


def trained_bound(model: nn.Module, input_shape: tuple[int, ...]) -> bool:
    """Whether all layers of ``model`` on ``input_shape`` have a Lipschitz bound, and it was built for a small one."""
    try:
        return _is_trained_for(lipschitz_bound(model, input_shape, prove=False))
    except InputError:
        return False


def _is_trained_for(quick: LipschitzBound) -> bool:
    """A quick bound of residual layers is loose; their kind says what they were built for."""
    return quick.value <= TIGHT or any(layer.kind == Residual.__name__ for layer in quick.layers)
