"""The theorems of the papers as simulations, a module each; :mod:`radii.theory` has their functions."""
