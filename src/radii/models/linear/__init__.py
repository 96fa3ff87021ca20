"""Models whose scores are affine in the input, read from torch and scikit-learn, and the half-spaces of their classes.

Certificates and attacks both read this room: one takes the rounding of the scores off, the other adds it.
"""
