"""Statements of the papers as checks over results."""
