"""Proofs that no input of the ball is misclassified."""

from radii.registry import Registry

CERTIFICATES = Registry("certificate", {})  # those of other packages: functions (model, x, ball) -> Certificate
