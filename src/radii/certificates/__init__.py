"""Proofs that no input of the ball is misclassified.

In come a network, inputs and a ball, never labels; out goes a Certificate. :data:`methods.METHODS` names them all,
and :func:`choose.choose` decides what ``auto`` means.
"""
