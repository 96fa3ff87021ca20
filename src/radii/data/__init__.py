"""Labelled data: its sources, its variants, and batches of it."""

from radii.data import variants

__all__ = ["variants"]
