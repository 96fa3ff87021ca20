"""Labelled data: its sources, its variants, and batches of it."""
