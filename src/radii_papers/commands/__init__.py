"""Commands that plug into `radii`: the theorems and the claims."""
