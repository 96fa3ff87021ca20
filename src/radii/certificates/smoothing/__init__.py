"""Randomized smoothing: probabilistic certificates for any classifier."""
