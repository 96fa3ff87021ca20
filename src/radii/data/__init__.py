"""Labelled data: where it comes from, its variants, batches of it."""

from radii.data import variants

__all__ = ["variants"]
