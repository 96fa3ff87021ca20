"""Measurements of labelled data."""
