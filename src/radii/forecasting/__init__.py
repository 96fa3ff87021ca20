"""How much more data a target needs: scaling laws with intervals."""
