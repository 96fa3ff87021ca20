"""Robust accuracy between what is proved and what is broken."""
