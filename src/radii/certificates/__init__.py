"""Proofs that no input of the ball is misclassified."""
