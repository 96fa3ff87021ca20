"""Deterministic certificates by bound propagation, for L2 and Linf balls; see :func:`certify`."""

from radii.certificates.bounds.bounded import METHODS, certify, margins

__all__ = ["METHODS", "certify", "margins"]
