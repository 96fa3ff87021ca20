"""Deterministic certificates by bound propagation, for L2 and Linf balls; see :func:`certify`."""

from radii.certify.relaxation.certify import METHODS, certify, margins

__all__ = ["METHODS", "certify", "margins"]
