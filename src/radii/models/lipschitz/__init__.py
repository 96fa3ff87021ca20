"""Proved bounds of Lipschitz constants, layer by layer."""
